"""The models of Slurm say what a real one says, whatever happens to both."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.schedulers.slurm_dispatcher_stage import OnDispatcher
from tests.schedulers.slurm_language import Script, look, unlike
from tests.schedulers.slurm_queue_scripts import QUEUE_SCRIPTS
from tests.schedulers.slurm_scripts import SCRIPTS
from tests.schedulers.slurm_stages import ModelStage, OnModel, OnSlurm, play, played_on, real_stage


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnSlurm]:
    with real_stage(tmp_path_factory.mktemp("slurm")) as stage:
        yield stage


@pytest.fixture(scope="module")
def queue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnSlurm]:
    """One whose nodes are always on."""
    with real_stage(tmp_path_factory.mktemp("queue"), always_on=True) as stage:
        yield stage


MODELS: dict[str, Callable[[], ModelStage]] = {"real": OnModel, "queue": OnDispatcher}
"""What is to be like the Slurm of that fixture."""


def each_script(*of_long_ones: pytest.MarkDecorator) -> pytest.MarkDecorator:
    scripts = [*(("real", one) for one in SCRIPTS), *(("queue", one) for one in QUEUE_SCRIPTS)]
    rows = [
        pytest.param(
            slurm,
            one,
            id=f"{slurm}-{one.name.replace(' ', '-')}",
            marks=() if one.short else of_long_ones,
        )
        for slurm, one in scripts
    ]
    return pytest.mark.parametrize(("slurm", "script"), rows)


@each_script()
def test_the_model_comes_to_all_that_a_script_waits_for(slurm: str, script: Script) -> None:
    assert list(played_on(MODELS[slurm](), script.steps))


@pytest.mark.server("slurm", "munge")
@pytest.mark.timeout(400)
@each_script(pytest.mark.slurm)
def test_the_model_agrees_with_slurm(
    slurm: str, script: Script, request: pytest.FixtureRequest
) -> None:
    play(script.steps, request.getfixturevalue(slurm), MODELS[slurm]())


@pytest.mark.slow
def test_a_difference_is_found_unless_the_step_states_it_and_one_that_is_none_is_found_too() -> (
    None
):
    real, model = {"n1": "IDLE", "n1 reason": "disk"}, {"n1": "IDLE"}
    assert unlike(look(), real, model) == {"n1 reason": ("disk", None)}
    assert not unlike(look(n1_reason=("disk", None)), real, model)
    stated = look(n1=("DOWN", "IDLE"), n1_reason=("disk", None))
    assert unlike(stated, real, model) == {"n1": ("IDLE", "IDLE")}
