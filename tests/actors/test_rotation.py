"""Outdated nodes are replaced by the real actors, and operators steer it (D15, O6)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from nodemanager.actors.messages import Ordered
from nodemanager.core.model.world import WorkerState
from nodemanager.core.operate.replies import Command, Reply, Result
from nodemanager.core.operate.verbs import Verb
from nodemanager.errors import BadRequest, CapacityUnavailable, CloudError, QuotaExceeded
from tests.actors.conftest import MakeRig
from tests.actors.rig import Rig, restart
from tests.fakes import fail

pytestmark = pytest.mark.slow


def idle_pool(make_rig: MakeRig, **options: Any) -> Rig:
    """Two idle nodes that were booted for the first image."""
    rig = make_rig(min_nodes=2, max_nodes=2, **options)
    rig.cloud.image_id = "image-1"
    rig.fleet.state = WorkerState.IDLE
    for _ in range(2):
        machine, _ = rig.fleet.add_node(age=9000.0)
        rig.cloud.change(machine.node.id, image="image-1")
    rig.start()
    rig.turn(120)
    return rig


def given(rig: Rig, verb: Verb) -> Reply:
    replies: list[Reply] = []
    rig.system.daemon.tell(Ordered(Command(verb, "ann", "test"), replies.append))
    rig.flush()
    return replies[0]


def replaced(rig: Rig) -> int:
    return len(rig.lines("node.gone", reason="other_image"))


def test_all_are_replaced_by_nodes_with_the_new_image_one_after_the_other_d15(
    make_rig: MakeRig,
) -> None:
    rig = idle_pool(make_rig)
    rig.cloud.image_id = "image-2"
    rig.turn_until("node.gone", within=300, reason="other_image")
    rig.turn_until("node.gone", within=600, reason="other_image")
    rig.turn(300)
    assert [machine.node.image for machine in rig.cloud.living()] == ["image-2", "image-2"]
    assert replaced(rig) == 2
    told = [line["event"] for line in rig.out.fields]
    first = told.index("node.gone")
    assert "node.created" in told[first : told.index("node.gone", first + 1)]
    assert rig.lines("nodes.rotation")[-1]["outdated"] == 0


@pytest.mark.parametrize("error", [QuotaExceeded, CapacityUnavailable, BadRequest])
def test_while_no_replacement_can_be_had_the_pool_is_not_emptied_d15(
    make_rig: MakeRig, error: type[CloudError]
) -> None:
    """Somebody else takes what the node that went gave up."""
    rig = idle_pool(make_rig)
    rig.cloud.always("create", fail(error("no more for this account")))
    rig.cloud.image_id = "image-2"
    rig.change_polling(120)
    rig.turn(3 * 3600)
    assert (replaced(rig), len(rig.cloud.living())) == (1, 1)


def test_while_the_cloud_does_not_tell_the_image_none_is_replaced_d15(make_rig: MakeRig) -> None:
    rig = idle_pool(make_rig)

    def fails() -> str:
        raise CloudError("no answer")

    rig.cloud.image = fails  # type: ignore[method-assign]  # as a cloud that does not answer
    rig.turn(600)
    assert (replaced(rig), rig.lines("list.failed", source="cloud")) == (0, [])
    (line,) = rig.lines("nodes.rotation")
    assert (line["level"], line["error"]) == ("warning", "no answer")


def test_what_a_rotation_waits_for_is_logged_once_each_time_it_changes_d15(
    make_rig: MakeRig,
) -> None:
    rig = idle_pool(make_rig)
    given(rig, Verb.ROTATE_PAUSE)
    rig.cloud.image_id = "image-2"
    rig.turn(600)
    assert [line["reason"] for line in rig.lines("nodes.rotation")] == ["rotation_paused"]
    given(rig, Verb.ROTATE_RESUME)
    rig.turn_until("node.gone", within=300, reason="other_image")
    given(rig, Verb.ROTATE_PAUSE)
    rig.turn(600)
    assert [line["reason"] for line in rig.lines("nodes.rotation")][-1] == "rotation_paused"
    told = [
        tuple(line.get(name) for name in ("outdated", "reason", "node"))
        for line in rig.lines("nodes.rotation")
    ]
    assert all(one != after for one, after in itertools.pairwise(told))


def test_nodes_that_take_turns_at_being_idle_make_no_line_each_d15(make_rig: MakeRig) -> None:
    rig = idle_pool(make_rig, consecutive_idle_count=9)
    rig.cloud.image_id = "image-2"
    one, other = rig.cloud.machines
    for number in range(40):
        busy, idle = (one, other) if number % 2 else (other, one)
        rig.fleet.states = {busy: WorkerState.BUSY, idle: WorkerState.IDLE}
        rig.turn(60)
    told = [(line["outdated"], line.get("reason")) for line in rig.lines("nodes.rotation")]
    # It says so again half an hour later, with the reason of then.
    assert len(told) == 2
    assert {outdated for outdated, _ in told} == {2}


def test_a_pause_of_the_rotation_outlives_the_daemon_and_its_end_goes_on_o6(
    make_rig: MakeRig,
) -> None:
    rig = idle_pool(make_rig)
    assert given(rig, Verb.ROTATE_PAUSE).result is Result.DONE
    assert given(rig, Verb.ROTATE_PAUSE).result is Result.ALREADY
    rig.cloud.image_id = "image-2"
    rig.turn(300)
    restart(rig)
    rig.turn(300)
    assert replaced(rig) == 0
    assert rig.lines("nodes.rotation")[-1]["reason"] == "rotation_paused"
    assert given(rig, Verb.ROTATE_RESUME).result is Result.DONE
    rig.turn(600)
    assert replaced(rig) == 2
    assert given(rig, Verb.ROTATE_RESUME).result is Result.ALREADY


def test_replacements_with_the_former_image_stop_it_after_the_first_d15(make_rig: MakeRig) -> None:
    """The template names another image than the cloud gives."""
    rig = idle_pool(make_rig)
    rig.cloud.image_id, rig.cloud.gives_image = "image-2", "image-1"
    rig.turn(900)
    assert replaced(rig) == 1
    line = rig.lines("nodes.rotation")[-1]
    assert (line["reason"], line["level"]) == ("rotation_stalled", "warning")
