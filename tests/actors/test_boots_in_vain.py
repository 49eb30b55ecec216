"""Boots that come to nothing hold up no others: ended in set-up, or of unknown outcome (U9)."""

from __future__ import annotations

import pytest

from nodemanager.core.model.world import CloudState
from nodemanager.errors import CloudError
from tests.actors.conftest import MakeRig
from tests.actors.rig import Rig, restart
from tests.fakes import fail

pytestmark = pytest.mark.slow

HOUR = 3600.0
LOST = "Server.SpotInstanceTermination: Spot instance termination"


def booting(make_rig: MakeRig, **options: object) -> tuple[Rig, str]:
    """A rig whose only node was created and has not pinged yet, and that node's id."""
    rig = make_rig(**{"min_nodes": 1, "max_nodes": 4, **options})
    rig.fleet.mute = True
    rig.start()
    rig.turn(90)
    (machine,) = rig.cloud.living()
    return rig, machine.node.id


def test_a_node_that_the_cloud_ended_in_its_set_up_is_told_and_replaced_at_once_u9(
    make_rig: MakeRig,
) -> None:
    rig, node = booting(make_rig, max_nodes=1)
    rig.cloud.change(node, state=CloudState.TERMINATED, why=LOST)
    told = rig.turn_until("node.ended", within=60)
    assert (told["node"], told["detail"], told["level"]) == (node, LOST, "warning")
    rig.turn(60)
    assert len(rig.cloud.living()) == 1
    assert rig.summary()["booting"] == 1
    rig.turn(600)
    assert len(rig.lines("node.ended")) == 1
    # The record of the one that ended keeps its window.
    record = rig.store.rows[told["record"]]
    assert record.claim is not None


def test_one_that_vanished_is_asked_for_by_its_id_once_it_must_be_visible_a1(
    make_rig: MakeRig,
) -> None:
    rig, node = booting(make_rig)
    rig.cloud.vanish(node)
    rig.turn(180)
    assert rig.lines("node.ended") == []
    rig.turn(330)
    assert [line["node"] for line in rig.lines("node.ended")] == [node]
    assert len(rig.cloud.living()) == 1


def test_over_a_restart_too(make_rig: MakeRig) -> None:
    rig, node = booting(make_rig)
    rig.cloud.change(node, state=CloudState.TERMINATED)
    restart(rig)
    rig.turn(120)
    assert len(rig.cloud.living()) == 1


def test_nodes_that_end_in_their_set_up_count_as_failed_boots_b5(make_rig: MakeRig) -> None:
    rig, _ = booting(make_rig)

    def end_all() -> None:
        for machine in rig.cloud.living():
            rig.cloud.change(machine.node.id, state=CloudState.TERMINATED)

    for _ in range(20):
        end_all()
        rig.turn(60)
    rest = rig.lines("boots.rest")[0]
    assert (rest["reason"], rest["count"]) == ("boot_loop", 5)
    small = [line for line in rig.lines("node.created") if line["size"] == rest["size"]]
    assert len(small) == 5, "the plan that counts the fifth boots no sixth"
    assert rig.cloud.calls["create"] <= 12, "five of each of two sizes, and a probe of all"


def test_each_counts_once_whichever_run_sees_it_end_b5(make_rig: MakeRig) -> None:
    """A later run tells and counts what ended while none ran, and nothing that was counted."""
    rig, _ = booting(make_rig, max_nodes=1)
    told, rests = [], []

    def turn() -> None:
        rig.turn(60)
        told.extend(line["node"] for line in rig.lines("node.ended"))
        rests.extend(line["count"] for line in rig.lines("boots.rest"))
        restart(rig)

    for number in range(5):
        assert rests == []
        (machine,) = rig.cloud.living()
        rig.cloud.change(machine.node.id, state=CloudState.TERMINATED)
        if number % 2 == 0:
            restart(rig)
        turn()
        turn()
    assert rests == [5]
    assert len(told) == len(set(told)) == 5


def test_without_client_tokens_nodes_come_two_polls_after_the_cloud_answers_again_u9(
    make_rig: MakeRig,
) -> None:
    rig = make_rig(min_nodes=2, max_nodes=8)
    rig.cloud.takes_client_tokens = False
    rig.cloud.always("create", fail(CloudError("timed out")))
    rig.start()
    rig.turn(300)
    assert rig.lines("node.boot_refused", reason="create_unclear")
    claims = [record for record in rig.records if record.claim is not None]
    assert 2 < len(claims) < 8, "one create at a time tries whether the cloud answers again"
    rig.cloud.always("create", None)
    rig.turn(120)
    assert len(rig.cloud.living()) == 2


def test_a_create_in_doubt_counts_for_max_nodes_for_as_long_as_it_may_take_effect_a2(
    make_rig: MakeRig,
) -> None:
    rig = make_rig(min_nodes=2, max_nodes=2)
    rig.cloud.takes_client_tokens = False
    rig.cloud.always("create", fail(CloudError("timed out")))
    rig.start()
    rig.turn(300)
    rig.cloud.always("create", None)
    rig.turn(1500)
    assert rig.cloud.living() == []
    rig.turn(600)
    assert len(rig.cloud.living()) == 2
    assert rig.lines("record.cleaned") == [], "the records wait for node_stale_after all the same"


def test_creates_that_always_fail_leave_hardly_more_claims_than_max_nodes_u6(
    make_rig: MakeRig,
) -> None:
    rig = make_rig(min_nodes=2, max_nodes=8)
    rig.cloud.takes_client_tokens = False
    rig.cloud.always("create", fail(CloudError("timed out")))
    rig.start()
    rig.turn(1800)
    assert len(rig.records) == 8
    rig.turn(2 * HOUR)
    assert len(rig.records) <= 8 + 3, "one more for each time in which its outcome is known"


@pytest.mark.parametrize(("expires", "low", "high"), [(True, 1920, 2400), (False, 7200, 7500)])
def test_when_the_record_of_a_node_that_never_came_is_freed_is_the_operators_choice_c21(
    make_rig: MakeRig, expires: bool, low: float, high: float
) -> None:
    rig, node = booting(make_rig, claim_expiry="on" if expires else "off", backlog="clean")
    (record,) = [one.uuid for one in rig.records if one.claim is not None]
    rig.fleet.mute = False
    rig.cloud.change(node, state=CloudState.TERMINATED)
    began = rig.clock.boottime()
    while rig.store.rows[record].claim is not None:
        rig.turn(60)
    assert low < rig.clock.boottime() - began + 90 < high
