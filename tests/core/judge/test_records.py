"""Records: states (T7), and every condition of a clean at its edge (C0-C10, C21, C22)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nodemanager.core.judge.records import BY_ITSELF
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.world import (
    CloudNode,
    CloudState,
    Record,
    RecordState,
    Tags,
    WorkerState,
)
from nodemanager.core.observe.signs import classify
from nodemanager.core.observe.snapshot import Expected, Flight
from tests.cases import cases
from tests.core.build import (
    EPOCH,
    POOL,
    START,
    World,
    claim,
    cleaned,
    gone,
    node,
    record,
    world,
)

CLAIM_WINDOW = 1800.0 + 120.0 + 300.0
"""boot_fail_after + 120 s + visible_after, by default (C21)."""


def judged(made: World) -> tuple[Kind, Reason]:
    one = made.of_record("r1")
    return one.kind, one.reason


STALE = (Kind.CLEAN, Reason.STALE_SLOT)


def test_the_record_of_a_vanished_node_gives_its_slot_back_c1_c10() -> None:
    made = gone()
    assert judged(made) == STALE
    assert made.cleaned == ["r1"]
    measures = made.of_record("r1").measures
    assert measures is not None
    assert measures["idle_s"] > measures["window_s"] == 7200.0
    assert measures["absent_listings"] == measures["needed_listings"] == 2
    assert measures["absent_s"] >= measures["settle_s"] == 60.0


# T7: states.

NOW = EPOCH + START
CASES = [
    pytest.param(cleaned("r1", at=NOW), RecordState.CLEANED, id="nothing"),
    pytest.param(cleaned("r1", at=NOW, pool=None), RecordState.CLEANED, id="no-pool-even"),
    pytest.param(cleaned("r1", at=NOW, slot_number=0), RecordState.ASSIGNED, id="slot-0"),
    pytest.param(record("r1", at=NOW, pinged=False), RecordState.ASSIGNED, id="claimed"),
    pytest.param(record("r1", at=NOW), RecordState.IN_USE, id="pinged"),
    pytest.param(record("r1", at=NOW - 7200.0), RecordState.IN_USE, id="pinged-at-the-edge"),
    pytest.param(record("r1", at=NOW - 7200.5), RecordState.STALE, id="pinged-past"),
    pytest.param(
        record("r1", at=NOW - CLAIM_WINDOW, pinged=False), RecordState.ASSIGNED, id="claim-edge"
    ),
    pytest.param(
        record("r1", at=NOW - CLAIM_WINDOW - 0.5, pinged=False), RecordState.STALE, id="claim-past"
    ),
    pytest.param(record("r1", at=NOW, problems=("slot: x",)), RecordState.UNREADABLE, id="broken"),
    pytest.param(
        record("r1", at=NOW - 9e5, modified_at=None), RecordState.UNREADABLE, id="no-modified-at"
    ),
]


@pytest.mark.parametrize(("one", "expected"), CASES)
def test_each_record_has_its_state_t7(one: Record, expected: RecordState) -> None:
    made = world()
    made.read_clock()
    assert classify(one, made.snapshot(), made.settings) is expected


# C0, C1, C2, C3.


@cases(
    ("fields", "adopt", "reason"),
    {
        "names-another": ({"pool": "other"}, None, Reason.OTHER_POOL),
        "its-claim-does": ({"claim": claim("r1", at=0.0, pool="other")}, None, Reason.OTHER_POOL),
        "only-its-claim-does": (
            {"pool": None, "claim": claim("r1", at=0.0, pool="other")},
            True,
            Reason.OTHER_POOL,
        ),
        "names-none": ({"pool": None, "claim": None}, False, Reason.UNCLAIMED_POOL),
        "names-none-adopted": ({"pool": None, "claim": None}, True, Reason.STALE_SLOT),
        "a-single-pool": ({"pool": None, "claim": None}, None, Reason.STALE_SLOT),
        "its-claim-names-ours": ({"pool": None}, False, Reason.STALE_SLOT),
    },
)
def test_only_a_record_of_the_pool_is_cleaned_c0_t3(
    fields: dict[str, Any], adopt: bool | None, reason: Reason
) -> None:
    made = gone(settings={"adopt_unclaimed": adopt}, **fields)
    assert made.of_record("r1").reason is reason


def test_a_record_that_names_no_pool_is_kept_where_the_store_knows_two_c0_t3() -> None:
    made = world()
    made.add_record("r1", quiet=9000.0, pool=None, claimed=False)
    made.add_record("r2", quiet=9000.0, pool="other", claimed=False)
    made.settle()
    assert made.of_record("r1").reason is Reason.UNCLAIMED_POOL


@pytest.mark.parametrize("complete", [True, False])
def test_a_listing_that_lacks_the_other_pool_gives_its_records_to_none_c0_t3(
    complete: bool,
) -> None:
    """It may be short: what names no pool may be the other one's, whose records it lacks."""
    made = world()
    made.add_record("r1", quiet=9000.0, pool=None, claimed=False)
    for number in range(8):
        made.add_record(f"own-{number}", pool=POOL)
    shown = list(made.records)
    made.add_record("r2", quiet=9000.0, pool="other", claimed=False)
    made.poll_records(complete=complete)
    made.records = shown
    made.settle()
    assert made.of_record("r1").reason is Reason.UNCLAIMED_POOL
    assert made.history.known_records.largest(made.now) == {one.uuid for one in shown[1:]}


NOTHING: dict[str, Any] = {
    "slot_number": None,
    "hostname": None,
    "ip_address": None,
    "first_ping_at": None,
    "last_ping_at": None,
    "claim": None,
    "instance_id": None,
}


@cases(
    "holds",
    {
        "slot-0": {"slot_number": 0},
        "slot": {"slot_number": 7},
        "hostname": {"hostname": "compute7"},
        "empty-hostname": {"hostname": ""},
        "address": {"ip_address": "10.0.0.1"},
        "first-ping": {"first_ping_at": EPOCH},
        "last-ping": {"last_ping_at": EPOCH},
        "claim": {"claim": claim("r1", at=EPOCH)},
    },
)
def test_a_record_that_holds_anything_is_cleaned_c1(holds: dict[str, Any]) -> None:
    known = {"instance_id": "i-r1"} if "claim" not in holds else {}
    assert gone(**{**NOTHING, **known, **holds}).cleaned == ["r1"]


@cases(
    ("known", "verdict"),
    {
        "neither": ({}, (Kind.KEEP, Reason.UNVERIFIABLE)),
        "an-instance-id": ({"instance_id": "i-r1"}, STALE),
        "a-claim": ({"claim": claim("r1", at=EPOCH)}, STALE),
    },
)
def test_a_stale_record_with_nothing_to_ask_by_is_kept_c11(
    known: dict[str, Any], verdict: tuple[Kind, Reason]
) -> None:
    made = gone(**{"claim": None, "instance_id": None, **known})
    assert judged(made) == verdict


def test_what_can_not_be_verified_takes_nobodys_turn_c10() -> None:
    made = world(max_cleans_per_cycle=1)
    made.add_record("r1", quiet=90_000.0, claimed=False, instance_id=None)
    made.add_record("r2", quiet=9000.0)
    made.settle()
    assert made.cleaned == ["r2"]


def test_a_record_that_holds_nothing_is_left_alone_c1_c22() -> None:
    """Also one that the server would call startup-fail, as it does every old clean record."""
    made = gone(1e7, **NOTHING)
    assert judged(made) == (Kind.KEEP, Reason.HOLDS_NOTHING)


def test_the_commonest_verdicts_are_made_with_the_rule_of_their_check() -> None:
    """So that none of them is copied to bear it."""
    made = gone(**NOTHING)
    made.add_record("r2")
    made.add_node("r2")
    made.settle()
    rules = {check.name: check.rule for check in BY_ITSELF}
    assert made.of_record("r1").rule == rules["holding"] == Reason.HOLDS_NOTHING.rule
    assert made.of_record("r2").rule == rules["unpaired"] == Reason.PAIRED.rule


@pytest.mark.parametrize("state", [pytest.param(one, id=str(one)) for one in (*WorkerState, None)])
def test_a_node_that_died_at_whatever_it_did_is_freed_once_its_word_is_stale_c2_t6(
    state: WorkerState | None,
) -> None:
    assert judged(gone(worker_state=state)) == STALE


def at_age(made: World, quiet: float) -> tuple[Kind, Reason]:
    """The verdict when the newest sign of `r1` is exactly `quiet` old, polls being fresh."""
    one = made.record("r1")
    newest = max(filter(None, (one.modified_at, one.last_ping_at, one.claim and one.claim.at)))
    due = newest + quiet - EPOCH - made.store_step
    made.now = due - 100.0
    made.settle()
    made.now = due
    made.plan()
    return judged(made)


@cases(
    ("quiet", "expected"),
    {"at-the-edge": (7200.0, (Kind.KEEP, Reason.WITHIN_WINDOW)), "just-past": (7200.001, STALE)},
)
def test_a_slot_is_released_only_past_node_stale_after_c3(
    quiet: float, expected: tuple[Kind, Reason]
) -> None:
    made = world()
    made.add_record("r1")
    assert at_age(made, quiet) == expected


@pytest.mark.parametrize("sign", ["modified_at", "last_ping_at", "claim"])
def test_quiet_counts_from_the_newest_of_three_signs_c3(sign: str) -> None:
    made = world()
    old = made.ago(50_000.0)
    made.add_record("r1", quiet=50_000.0, claim=claim("r1", at=old))
    fresh: Any = claim("r1", at=made.ago(7000.0)) if sign == "claim" else made.ago(7000.0)
    made.change("r1", **{sign: fresh})
    made.settle()
    assert judged(made) == (Kind.KEEP, Reason.WITHIN_WINDOW)


def test_a_record_without_modified_at_is_kept_c3_p3() -> None:
    assert judged(gone(1e6, modified_at=None)) == (Kind.KEEP, Reason.UNREADABLE)


def test_a_record_that_can_not_be_read_whole_is_kept_p3() -> None:
    assert judged(gone(problems=("slot_number: 'x'",))) == (Kind.KEEP, Reason.UNREADABLE)


# C4.


@pytest.mark.parametrize("state", [one for one in CloudState if one is not CloudState.TERMINATED])
def test_a_node_in_any_state_but_terminated_keeps_its_record_c4_t4(state: CloudState) -> None:
    made = world()
    made.add_record("r1", quiet=9000.0)
    made.add_node("r1", state=state)
    made.settle()
    assert made.cleaned == []


@cases(
    ("one", "reason"),
    {
        "ours": (node("r1"), Reason.PAIRED),
        "another-pool": (node("r1", pool="other"), Reason.NODE_LISTED),
        "unmanaged": (node("r1", managed=False, pool=None), Reason.PAIRED),
        "instance-id-alone": (node(id="i-r1", pool=None), Reason.NODE_LISTED),
        "id-tagged-for-another-p1a": (node("r9", id="i-r1"), Reason.STALE_SLOT),
        "no-incarnation-tag": (node("r1", tags=Tags(POOL, "r1", None)), Reason.NODE_LISTED),
        "another-incarnation": (node("r1", id="x", life=2), Reason.STALE_SLOT),
        "another-record": (node("r2"), Reason.STALE_SLOT),
    },
)
def test_who_bears_a_record_c4(one: CloudNode, reason: Reason) -> None:
    made = world()
    made.add_record("r1", quiet=9000.0)
    made.nodes.append(one)
    made.settle()
    assert made.of_record("r1").reason is reason


def test_any_bearer_keeps_a_record_that_has_no_claim_c4() -> None:
    made = world()
    made.add_record("r1", quiet=9000.0, claimed=False, instance_id=None)
    made.add_node("r1", id="x", life=5)
    made.settle()
    assert judged(made) == (Kind.KEEP, Reason.NODE_LISTED)


# C7.


@cases(
    ("poll", "age", "expected"),
    {
        "cloud-fresh": ("cloud", 600.0, STALE),
        "cloud-old": ("cloud", 600.5, (Kind.KEEP, Reason.POLL_STALE)),
        "records-fresh": ("records", 600.0, STALE),
        "records-old": ("records", 600.5, (Kind.KEEP, Reason.POLL_STALE)),
    },
)
def test_a_poll_past_poll_stale_after_keeps_everything_c7(
    poll: str, age: float, expected: tuple[Kind, Reason]
) -> None:
    made = gone(9000.0)
    listing = made.history.cloud if poll == "cloud" else made.history.records
    assert listing is not None
    made.now = listing.started_at + age
    other = "records" if poll == "cloud" else "cloud"
    fresh = replace(getattr(made.history, other), started_at=made.now)
    made.history = replace(made.history, **{other: fresh})
    made.history = replace(made.history, base=replace(listing, started_at=made.now))  # type: ignore[arg-type]
    made.read_clock()
    made.plan()
    assert judged(made) == expected


@pytest.mark.parametrize("lacking", ["cloud", "records"])
def test_the_poll_that_is_blamed_is_the_one_that_lacks_c7(lacking: str) -> None:
    """Records that were listed since are not old: no cloud listing began after them."""
    made = gone(9000.0)
    assert made.history.cloud is not None
    assert made.history.records is not None
    assert made.history.base is not None
    made.now = made.history.base.started_at + 600.5
    made.history = replace(
        made.history,
        cloud=replace(made.history.cloud, started_at=made.now - 600.0),
        records=replace(
            made.history.records, started_at=made.now if lacking == "cloud" else made.now - 600.5
        ),
    )
    made.read_clock()
    made.plan()
    verdict = made.of_record("r1")
    assert verdict.reason is Reason.POLL_STALE
    assert verdict.measures is not None
    assert {key: verdict.measures[key] for key in ("source", "age_s", "limit_s")} == {
        "source": lacking,
        "age_s": 600.5,
        "limit_s": 600.0,
    }


@cases(
    ("polled", "demand_at", "reason"),
    {
        "not-configured": (False, None, Reason.STALE_SLOT),
        "never": (True, None, Reason.POLL_STALE),
        "old": (True, -601.0, Reason.POLL_STALE),
        "fresh": (True, -599.0, Reason.STALE_SLOT),
    },
)
def test_a_configured_demand_poll_must_be_fresh_too_c7(
    polled: bool, demand_at: float | None, reason: Reason
) -> None:
    made = gone(settings={"demand_polled": polled})
    made.plan(demand_at=None if demand_at is None else made.now + demand_at)
    assert made.of_record("r1").reason is reason


# C8, C9, C10, P4.


@pytest.mark.parametrize("kind", ["setup", "shutdown", "clean"])
def test_what_is_in_flight_for_a_record_keeps_it_c8(kind: str) -> None:
    made = gone()
    made.plan(record_flights={"r1": Flight(kind, made.now)})
    assert judged(made) == (Kind.KEEP, Reason.IN_FLIGHT)


def test_a_shutdown_in_flight_for_its_node_keeps_it_c8() -> None:
    made = gone()
    made.plan(node_flights={"i-r1": Flight("shutdown:bad", made.now)})
    assert judged(made) == (Kind.KEEP, Reason.IN_FLIGHT)


@pytest.mark.parametrize("held", ["r1", "i-r1"])
def test_a_hold_on_it_or_on_its_vanished_node_keeps_it_c9(held: str) -> None:
    made = gone()
    made.plan(holds=frozenset({held}))
    assert judged(made) == (Kind.KEEP, Reason.HELD)


def test_a_hold_in_the_record_itself_keeps_it_c9() -> None:
    assert judged(gone(held=True)) == (Kind.KEEP, Reason.HELD)


@cases(
    ("fields", "settings", "reason"),
    {
        "lease-c10": ({"lease": False}, {}, Reason.NO_LEASE),
        "store-l5": ({"read_only": "other store"}, {}, Reason.READ_ONLY),
        "adapter-l2": ({}, {"may_authorise": False}, Reason.NOT_AUTHORISED),
    },
)
def test_what_stands_in_the_way_of_every_clean_c10_l2_l5(
    fields: dict[str, Any], settings: dict[str, Any], reason: Reason
) -> None:
    made = gone(settings=settings)
    made.plan(**fields)
    assert judged(made) == (Kind.KEEP, reason)


def test_the_cap_defers_the_youngest_and_says_so_c10() -> None:
    made = world(max_cleans_per_cycle=3)
    for number in range(5):
        made.add_record(f"r{number}", quiet=8000.0 + 100.0 * number)
    made.settle()
    assert made.cleaned == ["r2", "r3", "r4"]
    assert [made.of_record(f"r{n}").reason for n in (0, 1)] == [Reason.CAP_REACHED] * 2
    assert made.of_record("r0").kind is Kind.DEFER
    assert made.last.deferred == 2
    # Those in flight use it up.
    made.plan(record_flights={f"r{n}": Flight("clean", made.now) for n in (3, 4)})
    assert made.cleaned == ["r2"]


@cases(
    ("cap", "limit", "cleaned"),
    {"the-workers": (100, 8, ["r7", "r8", "r9"]), "the-cap": (7, 7, ["r8", "r9"])},
)
def test_no_more_cleans_are_under_way_than_the_workers_do_while_an_order_stands_c11(
    cap: int, limit: int, cleaned: list[str]
) -> None:
    """Of two workers each does four at the most; what ended lately counts for the cap alone."""
    made = world(max_cleans_per_cycle=cap, max_creates=2)
    for number in range(15):
        made.add_record(f"r{number}", quiet=8000.0 + 100.0 * number)
    made.settle()
    flights = {f"r{n}": Flight("clean", made.now) for n in range(10, 15)}
    made.plan(record_flights=flights, cleaned_lately=0)
    assert made.cleaned == cleaned
    assert made.of_record("r0").reason is Reason.CAP_REACHED
    assert (made.of_record("r0").measures or {})["limit"] == limit
    made.plan(cleaned_lately=50)
    assert len(made.cleaned) == (8 if cap > 50 else 0)


@cases(
    ("age", "reason"),
    {"in-time": (1800.0, Reason.NODE_EXPECTED), "past": (1800.5, Reason.STALE_SLOT)},
)
def test_a_created_node_that_is_not_listed_counts_as_live_for_boot_fail_after_p4(
    age: float, reason: Reason
) -> None:
    made = gone()
    made.plan(expected={"r1": Expected("i-new", "small", made.now - age)})
    assert made.of_record("r1").reason is reason


# C21.


@cases(
    ("settings", "quiet", "expected"),
    {
        "shorter-at-the-edge": ({}, CLAIM_WINDOW, Reason.CLAIM_WITHIN_WINDOW),
        "shorter-past": ({}, CLAIM_WINDOW + 0.001, Reason.CLAIM_EXPIRED),
        "longer-at-the-edge": (
            {"node_stale_after": 700.0},
            CLAIM_WINDOW,
            Reason.CLAIM_WITHIN_WINDOW,
        ),
        "longer-past": ({"node_stale_after": 700.0}, CLAIM_WINDOW + 0.001, Reason.CLAIM_EXPIRED),
        "off-at-the-edge": ({"claim_expiry": False}, 7200.0, Reason.CLAIM_WITHIN_WINDOW),
        "off-past": ({"claim_expiry": False}, 7200.001, Reason.CLAIM_EXPIRED),
        "off-takes-the-longer": (
            {"claim_expiry": False, "node_stale_after": 700.0},
            CLAIM_WINDOW,
            Reason.CLAIM_WITHIN_WINDOW,
        ),
    },
)
def test_a_claim_that_never_pinged_has_a_window_of_its_own_c21(
    settings: dict[str, Any], quiet: float, expected: Reason
) -> None:
    made = world(**settings)
    made.add_record("r1", pinged=False)
    assert at_age(made, quiet)[1] is expected


@cases(
    ("window", "quiet", "expected"),
    {
        "shorter-at-the-edge": (500.0, 500.0, Reason.CLAIM_WITHIN_WINDOW),
        "shorter-past": (500.0, 500.001, Reason.CLAIM_EXPIRED),
        "longer-at-the-edge": (9000.0, 9000.0, Reason.CLAIM_WITHIN_WINDOW),
        "longer-past": (9000.0, 9000.001, Reason.CLAIM_EXPIRED),
    },
)
def test_a_claim_stands_as_long_as_the_settings_said_that_it_was_made_under_c21_s6(
    window: float, quiet: float, expected: Reason
) -> None:
    """Whatever a reload says since (N16)."""
    made = world()
    made.add_record("r1", pinged=False)
    made.change("r1", claim=replace(claim("r1", at=made.ago(0.0)), window=window))
    assert at_age(made, quiet)[1] is expected


def test_once_it_pinged_a_claims_window_means_nothing_c21() -> None:
    made = world()
    made.add_record("r1")
    made.change("r1", claim=replace(claim("r1", at=made.ago(0.0)), window=500.0))
    assert at_age(made, 7200.0)[1] is Reason.WITHIN_WINDOW


def test_a_renewed_claim_begins_its_window_anew_c21_u5() -> None:
    made = world()
    made.add_record("r1", pinged=False, quiet=3000.0)
    made.change("r1", claim=claim("r1", at=made.ago(100.0)))
    made.settle()
    assert judged(made) == (Kind.KEEP, Reason.CLAIM_WITHIN_WINDOW)


def test_a_slot_that_nobody_claimed_and_nobody_pinged_waits_for_the_stale_window_c21() -> None:
    made = gone(3000.0, pinged=False, claimed=False)
    assert judged(made) == (Kind.KEEP, Reason.WITHIN_WINDOW)


# Of a record that has its pair two rules are not asked: pairing has asked them.


@pytest.mark.parametrize("by_tag", [True, False], ids=["paired by its tag", "paired by its id"])
@cases(
    ("fields", "flags", "expected"),
    {
        "nothing": ({}, {}, Reason.PAIRED),
        "unreadable": ({"problems": ("its slot",)}, {}, Reason.UNREADABLE),
        "held by its own field": ({"held": True}, {}, Reason.HELD),
        "on hold": ({}, {"holds": frozenset({"r1"})}, Reason.HELD),
        "touched": ({}, {"touched": {"r1": 1e9}}, Reason.CHANGED_SINCE_LISTING),
        "in flight": ({}, {"record_flights": {"r1": Flight("clean", START)}}, Reason.IN_FLIGHT),
    },
)
def test_what_keeps_a_record_goes_before_that_it_has_its_pair_c9_c8(
    by_tag: bool, fields: dict[str, Any], flags: dict[str, Any], expected: Reason
) -> None:
    made = world(ids_unique=True)
    made.add_record("r1", claimed=by_tag, **fields)
    made.nodes.append(node("r1") if by_tag else node(id="i-r1", created_at=EPOCH - 1e6))
    made.settle()
    plan = made.plan(**flags)
    assert "r1" in plan.pairs.node_of
    assert made.of_record("r1").reason is expected


@pytest.mark.parametrize("fields", [{"pool": "another"}, {"claimed": False, "pinged": False}])
def test_what_is_another_pools_or_was_never_used_has_no_pair_c0_c1(fields: dict[str, Any]) -> None:
    made = world(ids_unique=True)
    made.add_record("r1", instance_id="i-r1", **fields)
    made.nodes += [node("r1"), node(id="i-r2")]
    assert "r1" not in made.settle().pairs.node_of
