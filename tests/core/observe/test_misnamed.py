"""A record whose pings name another record's node (P1a): that id is evidence of nothing."""

from __future__ import annotations

import pytest

from nodemanager.core.execute.pre_write_check import confirm_clean
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.world import CloudNode, Record
from nodemanager.core.observe.evidence import CleanEvidence
from nodemanager.core.operate.naming import Known
from tests.core.build import World, node, world


def misnamed(*, quiet: float = 9000.0, **fields: object) -> tuple[World, Record, CloudNode]:
    """r1, whose own node is gone, names the node of r2, which lives and is paired (X4)."""
    made = world(max_nodes=4, visible_after=0.0)
    record = made.add_record("r1", quiet=quiet, **{"instance_id": "i-r2", **fields})
    made.add_record("r2")
    sibling = made.add_node("r2")
    return made, record, sibling


@pytest.mark.parametrize("claimed", [True, False])
def test_a_sibling_that_it_names_keeps_no_slot_c4_p1a(claimed: bool) -> None:
    """A compromised node's record was kept for as long as its sibling lived (X4).

    A record of before our time has no tag that says otherwise: there its id still counts.
    """
    made, _, _ = misnamed(claimed=claimed)
    made.settle()
    assert made.cleaned == (["r1"] if claimed else [])


def test_a_sibling_seen_in_an_incomplete_listing_does_not_reset_its_absence_c5_p1a() -> None:
    made, _, sibling = misnamed()
    made.round()
    made.advance(61.0)
    made.poll_cloud([sibling], complete=False)
    made.round()
    assert made.cleaned == ["r1"]


def test_a_sibling_that_answers_to_the_last_look_keeps_no_slot_c11_p1a() -> None:
    made, record, sibling = misnamed()
    made.settle()
    found = CleanEvidence(record, (), sibling, asked_id=True)
    verdict = confirm_clean(made.clean_order("r1"), found, made.snapshot(), made.settings)
    assert verdict.kind is Kind.CLEAN
    untagged = CleanEvidence(record, (), node("r1", id="i-r2", pool=None), asked_id=True)
    verdict = confirm_clean(made.clean_order("r1"), untagged, made.snapshot(), made.settings)
    assert verdict.reason is Reason.NODE_ALIVE


def test_one_that_pings_as_a_sibling_pings_in_vain_p6_p1a() -> None:
    """The sibling, asked for by that id, is there; r1's own node is not (P6, X4)."""
    made, _, sibling = misnamed(quiet=0.0)
    made.with_settings(node_stale_after=1200.0)
    freed = False
    for _ in range(40):
        made.advance(60.0)
        made.ping("r1")
        made.ping("r2")
        plan = made.round()
        freed = freed or made.cleaned == ["r1"]
        made.answer(dict.fromkeys(plan.ask, sibling))
        made.answer_tags(dict.fromkeys(plan.ask_tagged, ()))
    assert freed
    assert made.of_record("r2").reason is Reason.PAIRED


def test_a_freed_life_is_not_given_back_for_a_siblings_sake_u8_p1a() -> None:
    """What it pinged with in life was the sibling's id (X3). The sibling lives, and is no sign."""
    made, _, sibling = misnamed()
    made.settle()
    life = made.free("r1")
    assert life.node_id == "i-r2"
    made.advance(100.0)
    made.hear(made.late_ping(life))
    made.poll()
    made.answer({"i-r2": sibling})
    plan = made.plan()
    assert plan.restores == ()
    assert not made.breaker.is_open, "denied, where reads are consistent"


def test_a_command_for_it_never_reaches_the_sibling_o2_p1a() -> None:
    """`kill` of the forger's host destroyed the sibling (X4)."""
    made, record, _ = misnamed(quiet=5.0)
    plan = made.round()
    known = Known(made.history, plan.pairs)
    named = known.find(record.hostname or "")
    assert (named.record, named.node) == ("r1", None)
    assert known.find("i-r2").record == "r2"


def test_an_unpaired_node_is_not_kept_by_who_names_it_d7_p1a() -> None:
    """Its own record is gone; the forger's fresh pings are not its word."""
    made, _, _ = misnamed(quiet=5.0)
    made.records = made.records[:1]
    made.round()
    assert made.of_node("i-r2").reason is Reason.UNPAIRED_WITHIN_WINDOW
