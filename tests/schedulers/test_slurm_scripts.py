"""The models of Slurm say what a real one says, whatever happens to both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from tests.schedulers.slurm_dispatcher_stage import OnDispatcher
from tests.schedulers.slurm_language import Script, look, unlike
from tests.schedulers.slurm_queue_scripts import QUEUE_SCRIPTS
from tests.schedulers.slurm_scripts import SCRIPTS
from tests.schedulers.slurm_stages import OnModel, OnSlurm, play, played_on, real_stage


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnSlurm]:
    with real_stage(tmp_path_factory.mktemp("slurm")) as stage:
        yield stage


@pytest.fixture(scope="module")
def queue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnSlurm]:
    """One whose nodes are always on."""
    with real_stage(tmp_path_factory.mktemp("queue"), always_on=True) as stage:
        yield stage


def named(scripts: Iterable[Script]) -> list[object]:
    return [pytest.param(one, id=one.name.replace(" ", "-")) for one in scripts]


@pytest.mark.parametrize("script", named(SCRIPTS))
def test_the_model_comes_to_all_that_a_script_waits_for(script: Script) -> None:
    assert list(played_on(OnModel(), script.steps))


@pytest.mark.server("slurm", "munge")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("script", named(one for one in SCRIPTS if one.short))
def test_the_model_agrees_with_slurm(script: Script, real: OnSlurm) -> None:
    play(script.steps, real, OnModel())


@pytest.mark.slurm
@pytest.mark.server("slurm", "munge")
@pytest.mark.timeout(400)
@pytest.mark.parametrize("script", named(one for one in SCRIPTS if not one.short))
def test_the_model_agrees_with_slurm_in_all(script: Script, real: OnSlurm) -> None:
    play(script.steps, real, OnModel())


@pytest.mark.parametrize("script", named(QUEUE_SCRIPTS))
def test_the_simulated_scheduler_comes_to_all_that_a_script_waits_for(script: Script) -> None:
    assert list(played_on(OnDispatcher(), script.steps))


@pytest.mark.server("slurm", "munge")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("script", named(one for one in QUEUE_SCRIPTS if one.short))
def test_the_simulated_scheduler_agrees_with_slurm(script: Script, queue: OnSlurm) -> None:
    play(script.steps, queue, OnDispatcher())


@pytest.mark.slurm
@pytest.mark.server("slurm", "munge")
@pytest.mark.timeout(400)
@pytest.mark.parametrize("script", named(one for one in QUEUE_SCRIPTS if not one.short))
def test_the_simulated_scheduler_agrees_with_slurm_in_all(script: Script, queue: OnSlurm) -> None:
    play(script.steps, queue, OnDispatcher())


@pytest.mark.slow
def test_a_difference_is_found_unless_the_step_states_it_and_one_that_is_none_is_found_too() -> (
    None
):
    real, model = {"n1": "IDLE", "n1 reason": "disk"}, {"n1": "IDLE"}
    assert unlike(look(), real, model) == {"n1 reason": ("disk", None)}
    assert not unlike(look(n1_reason=("disk", None)), real, model)
    stated = look(n1=("DOWN", "IDLE"), n1_reason=("disk", None))
    assert unlike(stated, real, model) == {"n1": ("IDLE", "IDLE")}
