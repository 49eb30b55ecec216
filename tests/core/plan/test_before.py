"""What a plan takes over from the plan before: what came out the same, and nothing else.

That this never shows, each plan of each test of core proves: see `World.plan`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodemanager.core.model.annotations import Mark
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.world import CloudState, Tags, WorkerState
from nodemanager.core.observe.pairing import Pairs
from tests.core.build import POOL, Flight, World, incarnation_of, world

MARK = Mark("ann", 0.0, incarnation=incarnation_of("r1", 1))


@pytest.fixture
def steady() -> World:
    return at_work()


def at_work() -> World:
    """Two busy pairs that were planned once, and that pinged since; the second names another id."""
    made = world()
    for uuid, named in (("r1", "i-r1"), ("r2", "i-2")):
        made.add_record(uuid, worker_state=WorkerState.BUSY, instance_id=named)
        made.add_node(uuid)
    made.round()
    for uuid in ("r1", "r2"):
        made.ping(uuid, WorkerState.BUSY)
    return made


def joined(made: World) -> Pairs:
    return made.last.pairs


def test_verdicts_that_come_out_the_same_are_those_of_the_plan_before(steady: World) -> None:
    records, nodes = steady.of_record("r1"), steady.of_node("i-r1")
    assert (records.reason, nodes.reason) == (Reason.PAIRED, Reason.BUSY)
    steady.round()
    assert steady.of_record("r1") is records
    assert steady.of_node("i-r1") is nodes


def test_another_reason_or_another_node_makes_another_verdict(steady: World) -> None:
    steady.ping("r1", WorkerState.IDLE)
    steady.change("r2", instance_id="i-other")
    steady.change_node("i-r2", id="i-other")
    steady.round()
    assert steady.of_node("i-r1").reason is not Reason.BUSY
    assert steady.of_record("r2").measures == {"node": "i-other"}


def test_the_same_listings_are_joined_once(steady: World) -> None:
    steady.round()
    before = joined(steady)
    steady.poll_cloud()
    steady.plan()
    assert joined(steady) is before


@pytest.mark.parametrize("what", ["records", "nodes", "settings"])
def test_another_listing_or_setting_is_joined_again(steady: World, what: str) -> None:
    steady.round()
    before = joined(steady)
    if what == "records":
        steady.ping("r1", WorkerState.BUSY)
        steady.poll_records()
    elif what == "nodes":
        steady.change_node("i-r1", held=True)
        steady.poll_cloud()
    else:
        steady.with_settings(pool="others")
    steady.plan()
    assert joined(steady) is not before
    assert (len(joined(steady).record_of) == 0) == (what == "settings")


CONCERNS: dict[str, Callable[[World], object]] = {
    "its-ping-is-old": lambda made: made.advance(made.settings.node_stale_after),
    "it-says-that-it-is-idle": lambda made: made.ping("r1", WorkerState.IDLE),
    "it-says-nothing": lambda made: made.ping("r1"),
    "its-ping-is-from-the-future": lambda made: made.change(
        "r1", last_ping_at=made.store_now + 500.0, modified_at=made.store_now + 500.0
    ),
    "the-stores-clock-was-set-back": lambda made: setattr(made, "store_step", -500.0),
    "the-stores-clock-was-set-forward": lambda made: setattr(made, "store_step", 8000.0),
    "it-is-stopping": lambda made: made.change_node("i-r1", state=CloudState.STOPPING),
    "it-is-stopped": lambda made: made.change_node("i-r1", state=CloudState.STOPPED),
    "it-is-terminated": lambda made: made.change_node("i-r1", state=CloudState.TERMINATED),
    "its-state-is-unknown": lambda made: made.change_node("i-r1", state=CloudState.UNKNOWN),
    "it-is-gone": lambda made: made.drop_node("i-r1"),
    "it-lost-its-tags": lambda made: made.change_node("i-r1", tags=Tags()),
    "it-is-of-another-pool": lambda made: made.change_node("i-r1", tags=Tags("other", "r1")),
    "it-is-of-another-life": lambda made: made.change_node(
        "i-r1", tags=Tags(POOL, "r1", incarnation_of("r1", 2))
    ),
    "it-is-not-managed": lambda made: made.change_node("i-r1", managed=False),
    "it-bears-a-hold": lambda made: made.change_node("i-r1", held=True),
    "its-record-bears-a-hold": lambda made: made.change("r1", held=True),
    "part-of-it-cannot-be-read": lambda made: made.change_node("i-r1", problems=("size: ?",)),
    "part-of-its-record-cannot-be-read": lambda made: made.change("r1", problems=("claim: ?",)),
    "its-record-is-fenced": lambda made: made.change("r1", fenced=True),
    "its-record-is-another-pools": lambda made: made.change("r1", pool="other", claim=None),
    "its-record-is-gone": lambda made: made.records.remove(made.record("r1")),
    "a-twin-is-listed": lambda made: made.add_node("r1", id="i-twin"),
    "it-is-listed-twice": lambda made: made.nodes.extend(made.nodes[:1]),
    "it-was-freed": lambda made: made.free("r1", why=Reason.AFTER_SHUTDOWN),
    "a-hold-on-it": lambda made: made.flags.update(holds=frozenset({"i-r1"})),
    "a-hold-on-its-record": lambda made: made.flags.update(holds=frozenset({"r1"})),
    "a-hold-on-a-node": lambda made: made.flags.update(holds=frozenset({"i-r2"})),
    "a-hold-on-the-node-that-a-record-names": lambda made: made.flags.update(
        holds=frozenset({"i-2"})
    ),
    "its-shutdown-is-in-flight": lambda made: made.flags.update(
        node_flights={"i-r1": Flight("shutdown:bad", made.now)}
    ),
    "an-action-for-its-record-is-in-flight": lambda made: made.flags.update(
        record_flights={"r1": Flight("clean", made.now)}
    ),
    "the-cloud-called-it-gone": lambda made: made.flags.update(gone={"i-r1": made.now + 9.0}),
    "it-was-touched": lambda made: made.flags.update(touched={"i-r1": made.now + 9.0}),
    "its-record-was-touched": lambda made: made.flags.update(touched={"r1": made.now + 9.0}),
    "it-is-drained": lambda made: made.flags.update(drains={"i-r1": MARK}),
    "it-is-cordoned": lambda made: made.flags.update(drains={"i-r1": replace(MARK, kept=True)}),
    "it-is-killed": lambda made: made.flags.update(kills={"i-r1": MARK}),
    "the-pool-has-another-name": lambda made: made.with_settings(pool="others"),
    "the-window-is-short": lambda made: made.reload(node_stale_after=90.0),
}


@pytest.mark.parametrize("happens", CONCERNS.values(), ids=CONCERNS)
@pytest.mark.parametrize("only", ["a-decision", "a-poll", "both-polls", "minutes-of-polls"])
def test_what_concerns_a_node_at_work_shows_at_once(
    steady: World, happens: Callable[[World], object], only: str
) -> None:
    """`World.plan` holds each plan against the one that takes over nothing."""
    steady.with_settings(compare_and_set=False, ids_unique=True)
    steady.round()
    happens(steady)
    if only == "a-decision":
        steady.plan()
    elif only == "a-poll":
        steady.poll_cloud()
        steady.plan()
    else:
        steady.round(3 if only == "minutes-of-polls" else 1, every=70.0)


@pytest.mark.slow
@settings(max_examples=150)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(sorted(CONCERNS)),
            st.sampled_from([0.0, 70.0, 700.0, 4000.0]),
            st.sampled_from(["nothing", "records", "cloud", "both", "a ping and both"]),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_whatever_comes_together_shows_at_once(steps: list[tuple[str, float, str]]) -> None:
    made = at_work().with_settings(compare_and_set=False, ids_unique=True)
    for concern, passes_s, polled in steps:
        with suppress(StopIteration):  # It is gone already.
            CONCERNS[concern](made)
        made.advance(passes_s)
        if polled.startswith("a ping") and any(one.uuid == "r1" for one in made.records):
            made.ping("r1", WorkerState.BUSY)
        if polled != "cloud" and polled != "nothing":
            made.poll_records()
        if polled != "records" and polled != "nothing":
            made.poll_cloud()
        made.plan()


def test_a_word_that_grows_old_between_two_decisions_is_none_however_lately_it_was_seen() -> None:
    made = world()
    made.add_record("r1", quiet=7000.0, worker_state=WorkerState.BUSY)
    made.add_node("r1")
    made.round()
    assert made.of_node("i-r1").reason is Reason.BUSY
    made.advance(300.0).plan()
    assert made.of_node("i-r1").reason is not Reason.BUSY


def test_a_word_that_was_seen_long_ago_is_none_whatever_a_clock_that_was_set_back_says(
    steady: World,
) -> None:
    steady.round()
    steady.store_step = -4000.0
    for passes_s in (5000.0, 3000.0):
        steady.advance(passes_s).poll_records(answers=False)
        steady.plan()
    assert steady.of_node("i-r1").reason is not Reason.BUSY


def test_a_busy_node_that_gets_its_record_back_is_busy_by_another_rule(steady: World) -> None:
    claim = steady.record("r1").claim
    steady.change("r1", claim=None)
    steady.round()
    assert steady.of_node("i-r1").measures
    steady.change("r1", claim=claim)
    steady.round()
    assert steady.of_node("i-r1").measures is None
