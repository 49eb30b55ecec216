"""Cleaning, whatever happens: no living node's record is freed, no fence stays (C11, C12, C20)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest

from nodemanager.core.execute import clean, pre_write_check
from nodemanager.core.execute.clean import Clean, Unsure
from nodemanager.core.execute.effects import (
    Effect,
    FenceRecord,
    FreeRecord,
    LiftFence,
    LookAtRecord,
)
from nodemanager.core.execute.state import State as Folded
from nodemanager.core.execute.workflow import Answered, Seen, Step
from nodemanager.core.model.annotations import PAUSE, Mark
from nodemanager.core.model.breaker import Breaker, Cause
from nodemanager.core.model.changed import changed
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.settings import ORDER_TTL_S
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.model.world import Guarantee, Record
from nodemanager.core.observe.evidence import CleanEvidence
from nodemanager.core.observe.facts import CloudPollBegun, NodesAnswered, TagsAnswered
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.replay.fold import after_fact
from nodemanager.core.safety.breaker import opened
from nodemanager.core.safety.orders import NEVER, CleanOrder, order_release
from nodemanager.errors import Conflict, TooLate
from tests.cases import cases
from tests.core.build import World, claim, incarnation_of, node, world
from tests.core.execute.explored.explorer import Explored, Explorer, Scene

pytestmark = pytest.mark.slow

HOUR = 3600.0
DUE, FREE, CLAIMED = "due", "free", "claimed"
UNKNOWN = ("unknown", "expired")
FORGOTTEN = (None, "order_expired")
CAS, FENCED = Guarantee.CAS, Guarantee.FENCED


@dataclass(frozen=True)
class Tiny:
    """One record, the node of the life that is to end, and what stands in the way.

    A node that is `hidden` lives, and the cloud denies it: A1 does not hold, and only what it
    pings can tell of it. A claim is another life's, with a node that lives.
    """

    guarantee: Guarantee
    record: str = DUE
    alive: bool = False
    hidden: bool = False
    pings: int = 0
    fenced: bool = False
    paused: bool = False
    open: bool = False
    lease: bool = True
    short: bool = False
    late: bool = False
    """The order waited for a worker until it was void."""
    hours: int = 0


class TinyClean:
    """The exploration of one kind of order."""

    workflow = Clean()
    asks = frozenset(
        {"record.cleaned", "LivesFreed", "late FreeRecord", "late FenceRecord", "late LiftFence"}
    )

    def __init__(self, reason: Reason, *begins: Tiny) -> None:
        self._reason = reason
        self._begins = begins
        self._world = _settled()
        self._record = self._world.record("r1")
        self._snapshot = self._world.snapshot()
        self._order = self._ordered(self._snapshot)
        # Another node of ours pings, is there by id, and no listing shows it.
        self._world.answer({"i-r2": node("r2", created_at=self._world.ago(10_000.0))})
        self._short = self._world.snapshot()
        self._open = opened(Breaker(), Cause.INVARIANT, frozenset(), self._short.now, {})

    def _ordered(self, snapshot: Snapshot) -> CleanOrder:
        if self._reason is Reason.STALE_SLOT:
            # What was judged is another test's, and would be told in every scene.
            return replace(self._world.clean_order("r1"), grounds=None)
        if self._reason is Reason.FENCE_LEFT:
            return CleanOrder(
                uuid="r1",
                reason=Reason.FENCE_LEFT,
                plan_id="p",
                breaker_generation=0,
                not_after=NEVER,
                version="v0f",
                incarnation=incarnation_of("r1"),
                instance_id="i-r1",
            )
        pinged = self._reason is Reason.AFTER_SHUTDOWN
        return order_release(
            "r1",
            self._reason,
            snapshot,
            incarnation=incarnation_of("r1"),
            instance_id="i-r1" if pinged else None,
        )

    def begins(self) -> Iterable[tuple[CleanOrder, Tiny]]:
        for tiny in self._begins:
            yield self._order, tiny

    @cache  # noqa: B019 - one exploration long
    def seen(self, world: Tiny) -> Seen:
        snapshot = self._short if world.short else self._snapshot
        records = snapshot.history.records
        assert records is not None
        others = tuple(one for one in records.items if one.uuid != "r1")
        listing = replace(records, items=(self._is(world), *others))
        snapshot = replace(
            snapshot,
            now=snapshot.now + 3 * HOUR * world.hours + (ORDER_TTL_S + 1.0) * world.late,
            history=replace(snapshot.history, records=listing),
            lease=world.lease,
            pool_marks={PAUSE: Mark("somebody", 1.0, "")} if world.paused else {},
            breaker=self._open if world.open else snapshot.breaker,
        )
        return Seen(snapshot, self._world.settings, world.guarantee, fence_wait=30.0)

    def _is(self, world: Tiny) -> Record:
        record = self._record
        if world.record == FREE:
            return Record(uuid="r1", version="v-free", pool=record.pool)
        if world.record == CLAIMED:
            other = claim("r1", at=self._world.store_now, life=2)
            return Record(uuid="r1", version="v-claimed", pool=record.pool, claim=other)
        pinged_at = record.last_ping_at
        if self._reason is Reason.CREATE_REFUSED and not world.pings:
            record = replace(record, first_ping_at=None, instance_id=None)
            pinged_at = None
        elif world.pings:
            pinged_at = self._world.store_now + world.pings
        return replace(
            record,
            version=record.version + "p" * world.pings + "f" * world.fenced,
            last_ping_at=pinged_at,
            fenced=world.fenced,
            ping_secret="fence" if world.fenced else "own",
        )

    def carry_out(self, world: Tiny, effect: Effect) -> tuple[Any, Tiny]:
        now = self._is(world)
        compares = world.guarantee is CAS
        match effect:
            case LookAtRecord(not_after=float(until)) if self.seen(world).snapshot.now > until:
                return TooLate("void"), world
            case LookAtRecord():
                life = 2 if world.record == CLAIMED else 1
                shown = (world.alive and not world.hidden) or world.record == CLAIMED
                lives = node("r1", life=life)
                by_id = lives if shown and life == 1 else None
                evidence = CleanEvidence(now, (lives,) if shown else (), by_id, asked_id=True)
                return evidence, world
            case FreeRecord(record=judged):
                if compares and judged.version != now.version:
                    return Conflict("it changed"), world
                after = changed(world, record=FREE, fenced=False)
                return self._is(after), after
            case FenceRecord() if world.record == DUE:
                after = changed(world, fenced=True)
                return self._is(after), after
            case LiftFence() if world.record == DUE:
                # The store has kept the secret that the first fence took.
                after = changed(world, fenced=False)
                return self._is(after), after
            case FenceRecord() | LiftFence():
                return now, world
        raise AssertionError(f"a clean asks for no {effect}")

    def changes(self, world: Tiny) -> Iterator[tuple[str, Tiny]]:
        if world.record == DUE and world.alive and not world.fenced and not world.pings:
            yield "pinged", changed(world, pings=1)
        if world.record == FREE and world.guarantee is CAS:
            yield "claimed", changed(world, record=CLAIMED)
        if world.record == DUE and not world.alive and world.guarantee is CAS:
            yield "freed and claimed by another", changed(world, record=CLAIMED)
        if world.record == FREE and world.alive and world.guarantee is CAS:
            yield "restored", changed(world, record=DUE, pings=1)
        if not world.paused:
            yield "paused", changed(world, paused=True)
        if not world.open:
            yield "a breaker opens", changed(world, open=True)
        if world.lease:
            yield "lease lost", changed(world, lease=False)
        if not world.short and self._reason is Reason.STALE_SLOT:
            yield "the listing turns out short", changed(world, short=True)
        if not world.late:
            yield "a minute passes", changed(world, late=True)

    def progress(self, world: Tiny) -> Iterator[tuple[str, Tiny]]:
        if world.paused:
            yield "resumed", changed(world, paused=False)

    def expires(self, state: clean.CleanState) -> bool:
        return False

    def wrong(self, before: Scene[Tiny], after: Scene[Tiny]) -> str | None:
        was, now = before.world, after.world
        if was.record == CLAIMED and now.record == FREE:
            return "another life's record was freed"
        if was.record == DUE and now.record == FREE and was.alive and not was.hidden:
            return "a living node's record was freed"
        let_in = was.guarantee is FENCED and before.says("late LiftFence")
        if was.record == DUE and now.record == FREE and was.pings and not let_in:
            return "a record was freed that its node pinged since it was judged"
        sent = [one for one in after.out if one not in before.out]
        return self._sent(was, sent) or self._told(before, after)

    def _sent(self, was: Tiny, sent: list[Effect]) -> str | None:
        freeing = [one for one in sent if isinstance(one, FreeRecord)]
        if (freeing or any(isinstance(one, FenceRecord) for one in sent)) and (
            was.paused or was.open or not was.lease
        ):
            return "a write was sent though none may be"
        if freeing and was.short:
            return "a record was freed on a listing that is short"
        if freeing and was.guarantee is FENCED and not was.fenced and was.record == DUE:
            return "a record was freed behind no fence"
        if freeing and was.pings and was.guarantee is FENCED:
            return "a record was freed that was pinged before its fence"
        return None

    def _told(self, before: Scene[Tiny], after: Scene[Tiny]) -> str | None:
        now = after.world
        is_told = after.says("record.cleaned") and not before.says("record.cleaned")
        if is_told and now.record == DUE:
            return "told as cleaned, and it is not"
        if is_told and not after.says("LivesFreed"):
            return "freed, and nobody will know whose life it was (U8)"
        if not after.is_over or before.is_over:
            return None
        if now.fenced and now.record == DUE and after.ended != "failed":
            # One that came up late is lifted by the next plan, which has a listing that shows it.
            return None if after.says("late FenceRecord") else "over, and the fence stands"
        if now.record == FREE and not after.says("LivesFreed"):
            # What takes effect when nobody asks for it any more is seen by the listings alone.
            asked = after.ended not in UNKNOWN and not after.says("late FreeRecord")
            return "freed, and nobody will know whose life it was" if asked else None
        if self._order.is_exception and now.record == DUE and after.ended in FORGOTTEN:
            return "the record of a node that is gone was forgotten (C20)"
        return None


class CleanExplorer(Explorer[Tiny]):
    """Hours pass while nobody knows the outcome of a write; one that is late then never comes."""

    def _next(self, scene: Scene[Tiny]) -> Iterator[tuple[str, bool, Scene[Tiny]]]:
        yield from super()._next(scene)
        running, world = scene.running, scene.world
        if not isinstance(running, Unsure):
            return
        if self.tiny.seen(world).snapshot.now - running.since <= 2 * HOUR:
            later = changed(world, hours=world.hours + 1)
            yield "hours pass", False, replace(scene, world=later, loose=())


def _settled() -> World:
    """A record whose node is gone, and another one whose node pings unlisted."""
    made = world()
    made.add_record("r1", quiet=9000.0)
    made.change("r1", version="v0", ping_secret="own")
    made.settle()
    made.add_record("r2", quiet=0.0)
    for _ in range(2):
        made.advance(60.0)
        made.ping("r2")
        made.round()
    return made


def explored(reason: Reason, guarantee: Guarantee, max_faults: int | None = None) -> Explored:
    tiny = Tiny(guarantee)
    begins = [tiny, replace(tiny, alive=True), replace(tiny, alive=True, hidden=True)]
    if reason in (Reason.AFTER_SHUTDOWN, Reason.CREATE_REFUSED):
        begins = [tiny]
    if reason is Reason.FENCE_LEFT:
        begins = [replace(one, fenced=True) for one in begins]
    if max_faults is None:
        max_faults = 2 if guarantee is FENCED else 3
    return CleanExplorer(TinyClean(reason, *begins), max_faults).explore()


@pytest.fixture(autouse=True)
def few_doublings(monkeypatch: pytest.MonkeyPatch) -> None:
    """How often it was tried already changes nothing but a wait."""
    monkeypatch.setattr(clean, "MOST_DOUBLINGS", 0)


CASES = [
    (Reason.STALE_SLOT, CAS),
    (Reason.STALE_SLOT, FENCED),
    (Reason.AFTER_SHUTDOWN, CAS),
    (Reason.AFTER_SHUTDOWN, FENCED),
    (Reason.CREATE_REFUSED, CAS),
    (Reason.FENCE_LEFT, FENCED),
]


@pytest.mark.parametrize(("reason", "guarantee"), CASES)
def test_no_living_nodes_record_is_freed_and_no_fence_is_left_whatever_happens(
    reason: Reason, guarantee: Guarantee, record_property: Any
) -> None:
    found = explored(reason, guarantee)
    record_property("explored", str(found))
    print(reason.value, guarantee.value, found)
    assert found.wrong == []
    assert found.scenes > 500
    fenced = {"Fencing", "Standing", "Unsure"} if guarantee is FENCED else {"GivenUp", "Checking"}
    assert reason is Reason.FENCE_LEFT or fenced < found.states


def _trusts_the_plan(order: CleanOrder, *_: Any) -> Verdict:
    return Verdict(Kind.CLEAN, order.reason, order.uuid)


def _writes_at_once(
    state: clean.Fenceless, found: Any, record: Record, look: Any, seen: Seen
) -> Step[clean.CleanState]:
    return Step(clean.Writing(state.order, record, look), (FreeRecord(record, "stale_slot"),))


def _compares_nothing(order: CleanOrder, judged: Record, fenced: Record, now: float) -> CleanOrder:
    return replace(
        order, version=fenced.version, not_after=float("inf"), fenced=True, fenced_at=now
    )


def _lifts_at_once(state: clean.Writing, seen: Seen, *told: Any) -> Step[clean.CleanState]:
    lifting = clean.Lifting(state.order, state.before)
    return Step(lifting, (LiftFence(state.before, state.before.ping_secret),), tell=told)


def _is_unwritten(*_: Any) -> bool:
    return False


NEVER_WRITTEN = property(_is_unwritten)


STALE, GONE = (Reason.STALE_SLOT, CAS), (Reason.AFTER_SHUTDOWN, CAS)
BEHIND = (Reason.STALE_SLOT, FENCED)


def _finds_nothing(*_: Any) -> None:
    return None


@cases(
    ("kind", "subject", "guard", "without"),
    {
        "the-last-look": (STALE, clean, "confirm_clean", _trusts_the_plan),
        "c20-is-written-first": (GONE, clean.Looking, "is_written", NEVER_WRITTEN),
        "signs-of-life": (STALE, pre_write_check, "_sign_of_life", _finds_nothing),
        "lease-breaker-pause": (STALE, pre_write_check, "_still_permitted", _finds_nothing),
        "listing-short-is-asked-again": (STALE, pre_write_check, "_can_be_told", _finds_nothing),
        "listing-short-behind-a-fence": (BEHIND, pre_write_check, "_can_be_told", _finds_nothing),
        "the-fence": (BEHIND, clean, "_confirmed", _writes_at_once),
        "what-moved-before-the-fence": (BEHIND, clean, "fenced_order", _compares_nothing),
        "the-fence-before-an-unknown-write": (BEHIND, clean, "doubt", _lifts_at_once),
        "whose-life-it-was": (STALE, clean, "_life_ended", lambda *_: CloudPollBegun(0.0)),
        "what-took-effect-is-known": (GONE, clean, "is_done", lambda *_: False),
    },
)
def test_the_exploration_notices_a_guard_that_is_gone(
    monkeypatch: pytest.MonkeyPatch,
    kind: tuple[Reason, Guarantee],
    subject: Any,
    guard: str,
    without: Any,
) -> None:
    monkeypatch.setattr(subject, guard, without)
    assert explored(*kind).wrong


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        ((Reason.STALE_SLOT, CAS), clean.Writing),
        ((Reason.STALE_SLOT, FENCED), clean.Fencing),
        ((Reason.FENCE_LEFT, FENCED), clean.Lifting),
    ],
)
def test_the_exploration_notices_a_write_that_the_journal_does_not_have(
    monkeypatch: pytest.MonkeyPatch, kind: tuple[Reason, Guarantee], state: Any
) -> None:
    monkeypatch.setattr(state, "is_written", NEVER_WRITTEN)
    assert any("before the journal had it" in one for one in explored(*kind, 1).wrong)


@pytest.mark.parametrize(("by", "key"), [("id", "i-r1"), ("tag", "r1")])
def test_a_last_look_that_shows_a_pingers_node_ends_the_run_of_its_denials_p6(
    by: str, key: str
) -> None:
    tiny = TinyClean(Reason.STALE_SLOT, Tiny(CAS))
    ((order, _),) = tiny.begins()
    order = replace(order, reason=Reason.PINGER_DENIED)
    seen = tiny.seen(Tiny(CAS))
    now, settings = seen.snapshot.now, seen.settings
    state = Folded(seen.snapshot.history)
    for denial in (NodesAnswered({"i-r1": None}, now - 60.0), TagsAnswered({"r1": ()}, now - 60.0)):
        state = after_fact(state, denial, settings)
    assert state.history.asked[key].denied_since == now - 60.0
    lives = node("r1")
    found = CleanEvidence(
        tiny._is(Tiny(CAS)),
        (lives,) if by == "tag" else (),
        lives if by == "id" else None,
        asked_id=True,
    )
    begun = Clean().start(order, seen)
    assert begun.state is not None
    step = Clean().on(begun.state, Answered(begun.effects[0], found), seen)
    for fact in step.facts:
        state = after_fact(state, fact, settings)
    assert state.history.asked[key].denied_since is None
