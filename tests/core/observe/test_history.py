"""What listings in a row prove: absence (C5), their order (C6), silence (D8), idle counts (D1)."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.world import CloudState, Listing, Tags, WorkerState
from nodemanager.core.observe import history as histories
from nodemanager.core.observe.listing_history import GAPS_KEPT
from tests.cases import cases
from tests.core.build import World, claim, incarnation_of, node, world


def without_node(quiet: float = 9000.0, **settings: object) -> World:
    made = world(**settings)
    made.add_record("r1", quiet=quiet)
    return made


def reason(made: World) -> Reason:
    made.plan()
    return made.of_record("r1").reason


# C5: absence.


@cases(
    ("listings", "expected"),
    {"one-too-few": (3, Reason.NOT_SETTLED), "enough": (4, Reason.STALE_SLOT)},
)
def test_absence_needs_absent_listings_complete_listings_c5(
    listings: int, expected: Reason
) -> None:
    made = without_node(absent_listings=4)
    made.poll()
    for _ in range(listings - 1):
        made.advance(100.0)
        made.poll()
    assert reason(made) is expected


@cases(
    ("apart", "expected"),
    {"just-inside": (59.0, Reason.NOT_SETTLED), "settled": (60.0, Reason.STALE_SLOT)},
)
def test_absence_needs_settle_since_its_first_sighting_c5(apart: float, expected: Reason) -> None:
    made = without_node()
    made.poll_records()
    made.advance(1.0)
    first = made.now
    made.poll_cloud()
    made.poll_records(took=0.1)
    made.now = first + apart
    made.poll_cloud()
    assert reason(made) is expected


def test_one_sighting_of_the_node_starts_absence_again_c5() -> None:
    made = without_node()
    made.settle()
    made.advance(60.0)
    made.add_node("r1")
    made.poll()
    assert reason(made) is Reason.PAIRED
    made.nodes.clear()
    made.advance(60.0)
    made.poll()
    assert reason(made) is Reason.NOT_SETTLED


@cases(
    ("gap", "expected"),
    {"at-poll-stale-after": (600.0, Reason.STALE_SLOT), "just-past": (600.5, Reason.NOT_SETTLED)},
)
def test_a_gap_above_poll_stale_after_starts_absence_again_c5(gap: float, expected: Reason) -> None:
    made = without_node()
    made.poll_records()
    made.advance(1.0)
    first = made.now
    made.poll_cloud()
    made.now = first + gap - 2.0
    made.poll_records()
    made.now = first + gap
    made.poll_cloud()
    assert reason(made) is expected


@cases(
    ("limit_s", "expected"),
    {
        "listed-often-enough": (300.0, Reason.STALE_SLOT),
        "a-gap-that-is-too-long-now": (299.0, Reason.NOT_SETTLED),
    },
)
def test_a_reload_may_find_a_gap_in_an_absence_c5_s6(limit_s: float, expected: Reason) -> None:
    """The count then begins again at the newest listing."""
    made = without_node()
    began = made.now
    for after_s in (0.0, 300.0, 330.0):
        made.now = began + after_s
        made.poll()
    made.reload(poll_stale_after=limit_s)
    assert reason(made) is expected
    made.advance(60.0)
    made.poll()
    assert reason(made) is Reason.STALE_SLOT


def test_an_incomplete_listing_neither_counts_nor_resets_c5() -> None:
    made = without_node()
    made.poll()
    made.advance(100.0)
    made.poll_cloud(complete=False)
    assert reason(made) is Reason.NOT_SETTLED
    made.advance(100.0)
    made.poll()
    assert reason(made) is Reason.STALE_SLOT


@cases(
    "seen",
    {
        "by-tag": node("r1"),
        "by-instance-id": node(id="i-r1", pool=None),
        "in-an-unknown-state": node("r1", state=CloudState.UNKNOWN),
    },
)
def test_a_node_seen_in_an_incomplete_listing_is_seen_c5(seen: object) -> None:
    made = without_node()
    made.settle()
    made.advance(60.0)
    made.poll_cloud([seen], complete=False)  # type: ignore[list-item]
    assert reason(made) is Reason.NODE_LISTED
    made.advance(10.0)
    made.poll_cloud([], complete=False)
    assert reason(made) is Reason.NODE_LISTED
    made.advance(60.0)
    made.poll()
    assert reason(made) is Reason.NOT_SETTLED


def test_a_node_that_two_records_name_is_seen_for_both_c5() -> None:
    made = without_node()
    made.add_record("r2", quiet=9000.0, instance_id="i-r1")
    made.settle()
    made.poll_cloud([node(id="i-r1", pool=None)], complete=False)
    made.advance(60.0)
    made.poll()
    made.plan()
    assert [made.of_record(one).reason for one in ("r1", "r2")] == [Reason.NOT_SETTLED] * 2


def test_a_listing_that_comes_twice_counts_once_c5() -> None:
    made = without_node(settle=1.0)
    made.poll()
    assert made.history.cloud is not None
    again = made.history.cloud
    made.history = histories.cloud_listed(made.history, again, made.settings)
    assert reason(made) is Reason.NOT_SETTLED


def test_a_listing_that_comes_late_shows_nodes_and_no_absence_c5() -> None:
    made = without_node()
    made.settle()
    assert made.history.cloud is not None
    newest = made.history.cloud
    late = Listing((node("r1"),), newest.started_at - 5.0, newest.ended_at + 5.0)
    made.history = histories.cloud_listed(made.history, late, made.settings)
    assert made.history.cloud is newest
    assert reason(made) is Reason.NODE_LISTED


# C6: which record listing is judged on.


def test_no_record_is_judged_on_a_listing_that_ended_after_the_cloud_listing_began_c6() -> None:
    made = without_node()
    for _ in range(3):
        made.poll_cloud()
        made.poll_records()
        made.advance(100.0)
    made.poll_cloud()
    made.history = replace(made.history, base=None, base_index={})
    assert reason(made) is Reason.NO_LISTING_ORDER


@cases(
    ("cloud_every", "records_every"),
    {
        "slow-cloud": (100.0, 10.0),
        "slow-records": (10.0, 100.0),
        "in-step": (50.0, 50.0),
        "out-of-step": (70.0, 30.0),
    },
)
@cases("took", {"quick": 1.0, "long": 45.0})
def test_the_order_of_listings_holds_with_any_poll_times_c6(
    cloud_every: float, records_every: float, took: float
) -> None:
    """A cloud listing may take longer than a record poll: records are listed while it runs."""
    made = without_node(quiet=20_000.0)
    next_cloud, next_records = made.now + 3.0, made.now
    cloud_began: float | None = None
    for _ in range(4000):
        made.advance(0.5)
        if made.now >= next_records:
            made.poll_records(took=0.0)
            next_records = made.now + records_every
            made.plan()
        if cloud_began is None and made.now >= next_cloud:
            cloud_began = made.now
            made.begin_cloud_poll()
        if cloud_began is not None and made.now >= cloud_began + took:
            made.poll_cloud(took=0.0, began=cloud_began)
            cloud_began, next_cloud = None, made.now + cloud_every
            base, cloud = made.history.base, made.history.cloud
            assert cloud is not None
            assert base is None or base.ended_at < cloud.started_at
            made.plan()
            if made.cleaned:
                break
    assert made.cleaned == ["r1"]


def test_a_listing_that_ended_in_time_and_reached_us_late_is_the_one_judged_on_c6() -> None:
    """The cloud listing that began after it overtook it; it lacks the record, the next has it."""
    made = without_node()
    made.settle()
    assert made.of_record("r1").reason is Reason.STALE_SLOT
    made.advance(60.0)
    late = Listing((), made.now, made.now + 1.0, complete=True)
    made.advance(2.0)
    made.poll_cloud()
    made.history = histories.records_listed(made.history, late, made.settings)
    assert made.history.base is late
    made.poll_records()
    assert reason(made) is Reason.CHANGED_SINCE_LISTING
    assert made.cleaned == []


def test_a_later_record_listing_vetoes_c6() -> None:
    made = without_node(quiet=20_000.0)
    made.settle()
    made.change("r1", version="v2")
    made.poll_records()
    assert reason(made) is Reason.CHANGED_SINCE_LISTING


def test_a_later_record_listing_that_is_incomplete_vetoes_too_c6() -> None:
    made = without_node()
    made.settle()
    made.ping("r1")
    made.poll_records(complete=False)
    assert reason(made) is Reason.CHANGED_SINCE_LISTING


def test_an_incomplete_record_listing_makes_nothing_vanish_l1() -> None:
    made = without_node()
    made.settle()
    made.poll_records([], complete=False)
    assert reason(made) is Reason.STALE_SLOT


def test_a_veto_stands_when_a_later_answer_shows_the_record_as_it_was_c6() -> None:
    """A replica answers late: another version, and then the judged one again."""
    made = world()
    judged = made.add_record("r1", quiet=9000.0)
    made.settle()
    assert made.cleaned == ["r1"]
    for version in ("moved", judged.version):
        made.change("r1", version=version)
        made.poll_records()
    made.plan()
    assert made.of_record("r1").reason is Reason.CHANGED_SINCE_LISTING
    made.advance(1.0)
    made.poll_cloud()
    made.plan()
    assert made.cleaned == ["r1"]


def test_a_record_that_the_listing_in_time_lacked_is_kept_though_the_next_shows_it_c6() -> None:
    """That listing ended before the cloud listing began, and reached us after that."""
    made = world()
    judged = made.add_record("r1", quiet=9000.0)
    made.settle()
    assert made.cleaned == ["r1"]
    made.advance(60.0)
    made.begin_cloud_poll()
    began = made.now + 0.5
    made.poll_records([])
    made.advance(1.0)
    made.poll_records([judged])
    made.poll_cloud(began=began)
    made.plan()
    assert made.of_record("r1").reason is Reason.CHANGED_SINCE_LISTING
    made.poll()
    made.plan()
    assert made.cleaned == ["r1"]


def test_a_record_listing_that_comes_late_changes_nothing_c6() -> None:
    made = without_node()
    made.settle()
    newest = made.history.records
    assert newest is not None
    late = Listing((), newest.started_at - 1.0, newest.ended_at + 1.0)
    made.history = histories.records_listed(made.history, late, made.settings)
    assert made.history.records is newest


def test_a_record_that_came_after_the_judged_listing_is_kept_c6() -> None:
    made = without_node()
    made.poll()
    made.advance(100.0)
    made.add_record("r2", quiet=9000.0)
    made.poll_cloud()
    made.poll_records()
    made.plan()
    assert made.of_record("r2").kind is Kind.KEEP


# D8: silence.


def silence(made: World) -> float:
    return made.history.answered_s - made.history.heard["r1"].answered_s


def test_silence_does_not_count_while_the_store_does_not_answer_d8() -> None:
    made = without_node()
    made.poll_records(took=0.0)
    for _ in range(100):
        made.advance(60.0)
        made.poll_records(took=0.0, answers=False)
    assert silence(made) == 0.0


@cases(("gap", "counted"), {"at-the-limit": (600.0, 600.0), "just-past": (600.1, 0.0)})
def test_a_gap_between_answers_above_poll_stale_after_is_not_counted_d8(
    gap: float, counted: float
) -> None:
    made = without_node()
    made.poll_records(took=0.0)
    made.advance(gap)
    made.poll_records(took=0.0)
    assert silence(made) == counted


@cases(
    ("limit_s", "counted"),
    {
        "answered-often-enough": (500.0, 860.0),
        "a-gap-that-is-too-long-now": (499.0, 360.0),
        "another-one-too": (299.0, 60.0),
    },
)
def test_a_reload_may_find_a_gap_in_a_silence_d8_s6(limit_s: float, counted: float) -> None:
    """It then counts from the newest answer after such a gap."""
    made = without_node()
    made.poll_records(took=0.0)
    for gap in (500.0, 300.0, 60.0):
        made.advance(gap)
        made.poll_records(took=0.0)
    assert silence(made) == 860.0
    made.reload(poll_stale_after=limit_s)
    assert silence(made) == counted
    made.advance(60.0)
    made.poll_records(took=0.0)
    assert silence(made) == counted + 60.0


def test_a_reload_finds_no_gap_from_before_a_ping_d8_s6() -> None:
    made = without_node()
    made.poll_records(took=0.0)
    made.advance(500.0)
    made.ping("r1")
    made.poll_records(took=0.0)
    made.advance(60.0)
    made.poll_records(took=0.0)
    made.reload(poll_stale_after=120.0)
    assert silence(made) == 60.0


@given(gaps=st.lists(st.integers(1, 600), min_size=1, max_size=60), limit_s=st.integers(120, 600))
def test_after_a_reload_no_gap_that_is_too_long_is_counted_d8_s6(
    gaps: list[int], limit_s: int
) -> None:
    """However many gaps there were: those that are forgotten make it count from later."""
    made = without_node()
    made.poll_records(took=0.0)
    for gap in gaps:
        made.advance(gap)
        made.poll_records(took=0.0)
    made.reload(poll_stale_after=float(limit_s))
    too_long = [number for number, gap in enumerate(gaps, 1) if gap > limit_s]
    since = sum(gaps[too_long[-1] if too_long else 0 :])
    assert silence(made) <= since + 0.001
    if len(gaps) <= GAPS_KEPT:
        assert silence(made) >= since - 0.001
    assert len(made.history.answer_gaps) <= GAPS_KEPT


def test_a_ping_ends_silence_and_no_time_before_it_counts_d8() -> None:
    made = without_node()
    made.poll_records(took=0.0)
    made.advance(500.0)
    made.ping("r1")
    made.poll_records(took=0.0, answers=False)
    made.advance(1.0)
    made.probe()
    assert silence(made) <= 1.0


def test_a_ping_in_an_incomplete_listing_ends_silence_d8() -> None:
    made = without_node()
    made.poll_records(took=0.0)
    made.advance(500.0)
    made.ping("r1")
    made.poll_records(took=0.0, complete=False)
    assert silence(made) == 0.0


def test_a_restart_counts_silence_from_its_own_start_d8() -> None:
    made = without_node()
    for _ in range(20):
        made.poll_records()
        made.advance(500.0)
    made.restart()
    made.poll_records()
    assert silence(made) == 0.0


# D1: idle counts.


def idle_words(made: World) -> int:
    return made.history.heard["r1"].idle


def idle_ping(made: World) -> None:
    made.advance(30.0)
    made.ping("r1", WorkerState.IDLE)
    made.poll()


def test_idle_words_are_counted_and_one_other_word_starts_again_d1() -> None:
    made = world()
    made.add_record("r1")
    made.add_node("r1")
    made.poll()
    counts = []
    for state in (WorkerState.IDLE, WorkerState.IDLE, None, WorkerState.IDLE, WorkerState.BUSY):
        made.advance(30.0)
        made.ping("r1", state)
        made.poll()
        counts.append(idle_words(made))
    assert counts == [1, 2, 0, 1, 0]


def test_one_word_that_ten_listings_show_is_one_word_d12() -> None:
    """The count grew with every listing of the same ping (N1)."""
    made = world()
    made.add_record("r1")
    made.ping("r1", WorkerState.IDLE)
    for _ in range(10):
        made.poll()
        made.advance(30.0)
    assert idle_words(made) == 1


def test_an_idle_word_of_another_life_counts_from_one_d12() -> None:
    made = world()
    made.add_record("r1")
    for _ in range(3):
        idle_ping(made)
    made.advance(30.0)
    made.change("r1", claim=claim("r1", at=made.store_now, life=2))
    made.ping("r1", WorkerState.IDLE)
    made.poll()
    assert idle_words(made) == 1


def test_no_idle_word_counts_while_the_probe_fails_d12() -> None:
    """Who is busy meanwhile can't say so: what was counted before counts no more."""
    made = world()
    made.add_record("r1")
    for _ in range(3):
        idle_ping(made)
    made.advance(30.0)
    made.ping("r1", WorkerState.IDLE)
    made.poll_records(answers=False)
    assert idle_words(made) == 0
    made.advance(30.0)
    made.poll()
    assert idle_words(made) == 0
    made.ping("r1", WorkerState.IDLE)
    made.poll()
    assert idle_words(made) == 1


def test_an_idle_word_in_an_incomplete_listing_is_a_word_d12() -> None:
    made = world()
    made.add_record("r1")
    idle_ping(made)
    made.advance(30.0)
    made.ping("r1", WorkerState.IDLE)
    made.poll_records(complete=False)
    made.advance(30.0)
    made.poll()
    assert idle_words(made) == 2


def test_a_fence_repeats_no_idle_word_d12_c12() -> None:
    made = world(compare_and_set=False)
    made.add_record("r1")
    made.ping("r1", WorkerState.IDLE)
    for _ in range(3):
        made.poll()
        made.advance(30.0)
        made.change("r1", fenced=True)
    assert idle_words(made) == 1


def test_stopped_counts_from_its_first_sighting_without_a_gap_d1() -> None:
    made = world()
    made.add_node("r1", state=CloudState.STOPPED)
    made.poll()
    since = made.history.stopped["i-r1"]
    made.advance(60.0)
    made.poll()
    assert made.history.stopped["i-r1"] == since
    made.advance(700.0)
    made.poll()
    assert made.history.stopped["i-r1"] > since


# L4, L3: whatever the order, and whose doing it is.


def test_a_node_listed_twice_is_indexed_the_same_whatever_the_order_l4() -> None:
    alive = node("r1", tags=Tags("main", "r1", incarnation_of("r1")))
    other = node("r2", id="i-r1")
    dead = replace(alive, state=CloudState.TERMINATED)
    indexed = []
    for items in ([alive, other, dead], [dead, other, alive], [other, dead, alive]):
        made = world()
        made.poll_records()
        made.poll_cloud(items)
        indexed.append((made.history.present, made.history.nodes_by_record))
    assert indexed[0] == indexed[1] == indexed[2]
    assert set(indexed[0][1]) == {"r1", "r2"}


def test_nodes_of_another_pool_are_not_known_as_ours_t3() -> None:
    made = world()
    made.add_node("r1")
    made.add_node("r2", pool="other")
    made.poll()
    assert made.history.known_nodes.largest(made.now) == {"i-r1"}
