"""What ended of ours counts until both listings began after it (C8, C10, D9)."""

from __future__ import annotations

from dataclasses import replace

from nodemanager.core.execute.clean import (
    Checking,
    Clean,
    Fencing,
    Lifting,
    Pausing,
    Standing,
    Unsure,
)
from nodemanager.core.execute.effects import FenceRecord, LiftFence
from nodemanager.core.execute.news import FenceStands, NodeGone
from nodemanager.core.execute.recent import (
    Recent,
    after_claim,
    after_end,
    after_fence,
    after_freed,
    after_gone,
    still_recent,
)
from nodemanager.core.execute.shutdown import Asking, Destroying, Looking
from nodemanager.core.execute.workflow import About, Action, Answered, End, Ended, Key, Seen
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.world import Guarantee, WorkerState
from nodemanager.core.observe.snapshot import Flight
from tests.cases import cases
from tests.core.build import world


@cases(
    ("reason", "counts"),
    {
        "idle": (Reason.IDLE_BEYOND_DEMAND, 0),
        "unpaired": (Reason.UNPAIRED, 1),
        "never-pinged": (Reason.BOOT_FAILED, 1),
    },
)
def test_a_destroyed_node_counts_against_the_cycle_but_for_an_idle_one_d9(
    reason: Reason, counts: int
) -> None:
    recent = after_gone(Recent(), NodeGone("i-1", reason, None), 5.0)
    assert recent.gone == {"i-1": 5.0}
    assert len(recent.destroyed_at) == counts


def test_a_clean_counts_from_its_fence_on_and_its_end_adds_nothing_c10() -> None:
    at_work = world(max_nodes=0, compare_and_set=False)
    at_work.add_record("r1", quiet=9000.0)
    at_work.settle()
    judged, order = at_work.record("r1"), at_work.clean_order("r1")
    seen = Seen(at_work.snapshot(), at_work.settings, Guarantee.FENCED, fence_wait=15.0)
    fenced = replace(judged, version="v2", fenced=True, ping_secret="s2")
    up = Clean().on(Fencing(order, judged), Answered(FenceRecord(judged), fenced), seen)
    assert isinstance(up.state, Standing)
    assert up.learn == (FenceStands(),)
    assert (Clean().flight(Fencing(order, judged)), Clean().flight(up.state)) == ("clean", "fenced")
    recent = after_fence(Recent(), 5.0)
    key, about = Key(Action.CLEAN, "r1"), About(record="r1")
    done = End(key, up.state, about, 1.0, Ended("cleaned"))
    assert after_end(recent, done, 25.0, at_work.settings).cleaned_at == (5.0,)


@cases(
    ("reason", "learned"),
    {
        "of-the-plan": (Reason.STALE_SLOT, (FenceStands(),)),
        "a-claim-is-a-node-to-be": (Reason.CREATE_REFUSED, ()),
    },
)
def test_a_fence_put_up_once_more_counts_once_more_c10(
    reason: Reason, learned: tuple[FenceStands, ...]
) -> None:
    at_work = world(max_nodes=0, compare_and_set=False)
    at_work.add_record("r1", quiet=9000.0)
    at_work.settle()
    judged = at_work.record("r1")
    order = replace(at_work.clean_order("r1"), reason=reason)
    seen = Seen(at_work.snapshot(), at_work.settings, Guarantee.FENCED, fence_wait=15.0)
    fenced = replace(judged, version="v2", fenced=True, ping_secret="s2")
    unsure = Unsure(order, judged, seen.snapshot.now)
    up = Clean().on(unsure, Answered(FenceRecord(judged), fenced), seen)
    assert isinstance(up.state, Unsure)
    assert up.state.order.fenced
    assert up.learn == learned


def test_a_clean_that_waits_to_be_begun_anew_counts_as_one_to_come_c10() -> None:
    """Its first fence was lifted, and its next one goes up in another cycle."""
    at_work = world(max_nodes=0, compare_and_set=False)
    at_work.add_record("r1", quiet=9000.0)
    at_work.settle()
    judged = at_work.record("r1")
    order = replace(at_work.clean_order("r1"), reason=Reason.AFTER_SHUTDOWN, fenced=True)
    seen = Seen(at_work.snapshot(), at_work.settings, Guarantee.FENCED, fence_wait=15.0)
    lifting = Lifting(order, judged, again=True)
    lifted = Clean().on(lifting, Answered(LiftFence(judged, "s1"), judged), seen)
    assert isinstance(lifted.state, Pausing)
    assert Clean().flight(lifted.state) == "clean"


def test_what_ended_counts_until_both_listings_began_after_it_c8() -> None:
    at_work = world(max_nodes=0)
    at_work.round()
    history = at_work.snapshot().history
    assert history.cloud is not None
    assert history.records is not None
    shown = min(history.cloud.started_at, history.records.started_at)
    recent = Recent(
        landed={"old": (Flight("setup", 0.0), shown - 1.0), "new": (Flight("setup", 0.0), shown)},
        cleaned_at=(shown - 1.0, shown),
        touched={"old": shown - 1.0, "new": shown},
    )
    kept = still_recent(recent, history, 0.0)
    assert kept.by_record(None).keys() == {"new"}
    assert kept.by_record("new") == {}
    assert kept.cleaned_at == (shown,)
    assert kept.touched == {"new": shown}


def test_a_claim_counts_no_more_once_a_look_finds_it_released_u6() -> None:
    """The release timed out and landed all the same; another life's claim still stands."""
    made = world()
    made.add_record("r1", quiet=9000.0)
    made.settle()
    order = replace(made.clean_order("r1"), reason=Reason.CREATE_REFUSED)
    record = made.record("r1")
    assert record.claim is not None
    key, about = Key(Action.CLEAN, "r1"), About(record="r1")
    done = End(key, Checking(order, 3), about, 1.0, Ended("cleaned"))
    skipped = replace(done, ended=Ended("breaker_open"))
    for life, ended, stands in (
        (order.incarnation, done, False),
        (order.incarnation, skipped, True),
        ("another", done, True),
    ):
        claimed = replace(record, claim=replace(record.claim, incarnation=str(life)))
        recent = after_claim(Recent(), claimed, made.now, made.settings)
        assert ("r1" in after_end(recent, ended, made.now, made.settings).claims) is stands


def test_a_claim_of_ours_counts_while_a_listing_shows_what_was_before_it_c8_u6() -> None:
    """Until C21 ends it, whenever that listing began; and no longer once the record is free."""
    made = world()
    made.add_record("r1", quiet=9000.0)
    made.add_record("r2")
    made.round()
    history, now = made.snapshot().history, made.now
    assert history.records is not None
    listed = {one.uuid: one for one in history.records.items}
    claim = listed["r2"].claim
    assert claim is not None
    other = replace(claim, incarnation="another", window=500.0)
    recent = after_claim(Recent(), listed["r2"], now, made.settings)
    recent = after_claim(recent, replace(listed["r1"], claim=other), now, made.settings)

    kept = still_recent(recent, history, now + 500.0)
    assert kept.touched == {"r1": history.records.started_at}
    assert kept.by_record(None) == {"r1": Flight("setup", now, "another")}
    assert still_recent(kept, history, now + 501.0).claims.keys() == {"r2"}
    assert still_recent(after_freed(recent, "r1"), history, now).touched == {}


def ended_shutdown(state: type[Asking | Destroying | Looking], outcome: str | None) -> End:
    made = world()
    made.add_record("r1", quiet=100.0)
    made.add_node("r1")
    for _ in range(4):
        made.advance(30.0)
        made.ping("r1", WorkerState.IDLE)
        made.round()
    order = made.shutdown_order("i-r1")
    at = Asking(order, 1.0) if state is Asking else state(order)
    ended = None if outcome is None else Ended(outcome)
    return End(Key(Action.SHUTDOWN, "i-r1"), at, About("r1", "i-r1"), 1.0, ended)


@cases(
    ("state", "outcome", "is_late"),
    {
        "denied": (Asking, "gone", True),
        "given-up": (Asking, "expired", True),
        "passed-over": (Asking, None, True),
        "never-answered": (Destroying, "expired", True),
        "refused": (Destroying, "failed", False),
        "never-sent": (Looking, None, False),
    },
)
def test_a_destroy_that_was_sent_may_take_effect_until_action_timeout_later_d12(
    state: type[Asking | Destroying | Looking], outcome: str | None, is_late: bool
) -> None:
    made = world(action_timeout=900.0)
    made.round()
    recent = after_end(Recent(), ended_shutdown(state, outcome), 25.0, made.settings)
    assert recent.late_destroys == ({"i-r1": 925.0} if is_late else {})
    history = made.snapshot().history
    assert still_recent(recent, history, 925.0).late_destroys == recent.late_destroys
    assert still_recent(recent, history, 926.0).late_destroys == {}
