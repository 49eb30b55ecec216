"""Giving records back, whatever happens: none that anybody has is written over (U8)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest

from nodemanager.core.execute import restore
from nodemanager.core.execute.effects import Effect, ReadRecord, RestoreRecord
from nodemanager.core.execute.restore import Restore, RestoreOrder, confirm_restore, order_restore
from nodemanager.core.execute.workflow import Seen
from nodemanager.core.model.breaker import Breaker, Cause
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.model.world import Record
from nodemanager.core.safety.breaker import opened
from nodemanager.errors import Conflict, NoSuchRecord, StoreRefused
from tests.cases import cases
from tests.core.build import claim, cleaned, world
from tests.core.execute.explored.explorer import Explored, Explorer, Scene, nothing_is_wrong
from tests.core.execute.explored.forbidden import Bans

FREE, BACK, ANOTHERS, DELETED = "free", "back", "another's", "deleted"
IN_DOUBT = "WriteInDoubt"


@dataclass(frozen=True)
class Tiny(Bans):
    """A record that was freed while its node lives."""

    record: str = FREE
    version: int = 1
    is_open: bool = True
    """Whether the life holds the breaker open."""


class TinyRestore:
    workflow = Restore()
    asks = frozenset({"record.restored", IN_DOUBT})

    def __init__(self) -> None:
        made = world(max_nodes=4)
        made.add_record("r1")
        made.add_node("r1")
        made.round()
        self._before = replace(made.record("r1"), ping_secret="secret")
        self._life = replace(made.free("r1"), reported_at=made.now)
        breaker = replace(Breaker(), reported={self._life.key: self._life})
        ids = frozenset({self._life.key})
        breaker = opened(breaker, Cause.FALSE_CLEAN, ids, made.now, {})
        self._now, self._settings = made.now, made.settings
        self._snapshot = replace(made.snapshot(), breaker=breaker)

    def begins(self) -> Iterable[tuple[RestoreOrder, Tiny]]:
        yield order_restore(self._life, (self._before,), "p"), Tiny()
        yield order_restore(self._life, (self._before,), "p"), Tiny(BACK)
        yield order_restore(self._life, (), "p"), Tiny()

    @cache  # noqa: B019 - one exploration long
    def seen(self, world: Tiny) -> Seen:
        breaker = self._snapshot.breaker if world.is_open else Breaker()
        return world.seen("r1", replace(self._snapshot, breaker=breaker), self._settings)

    def _record(self, world: Tiny) -> Record | None:
        version = f"v{world.version}"
        match world.record:
            case "free":
                return cleaned("r1", at=1.0, version=version)
            case "back":
                return replace(self._before, version=version)
            case "another's":
                other = claim("r1", at=1.0, life=2)
                return cleaned("r1", at=1.0, version=version, claim=other)
        return None

    def carry_out(self, world: Tiny, effect: Effect) -> tuple[Any, Tiny]:
        record = self._record(world)
        match effect:
            case ReadRecord():
                return record, world
            case RestoreRecord() if record is None:
                return NoSuchRecord("no record r1"), world
            case RestoreRecord(record=judged) if record.version != judged.version:
                return Conflict("it changed"), world
            case RestoreRecord() if record.holds_anything:
                return StoreRefused("it holds something again"), world
            case RestoreRecord():
                after = replace(world, record=BACK, version=world.version + 1)
                return self._record(after), after
        raise AssertionError(f"a restore asks for no {effect}")

    def changes(self, world: Tiny) -> Iterator[tuple[str, Tiny]]:
        if world.record == FREE:
            yield "claimed", replace(world, record=ANOTHERS, version=world.version + 1)
            yield "deleted", replace(world, record=DELETED)
        if world.is_open:
            yield "its node is confirmed gone", replace(world, is_open=False)
        yield from world.banned()

    def wrong(self, before: Scene[Tiny], after: Scene[Tiny]) -> str | None:
        was, now = before.world, after.world
        if was.record == ANOTHERS and now.record != ANOTHERS:
            return "another's record was written over"
        sent = [one for one in after.out if one not in before.out]
        if any(isinstance(one, RestoreRecord) for one in sent):
            if was.record in (ANOTHERS, BACK) and self._reads_what_is(before):
                return "sent, though somebody has it"
            if not was.may_write:
                return "sent, though nothing may be written"
            if not was.is_open:
                return "sent, though nobody needs it any more"
        if (
            after.says("record.restored")
            and not before.says("record.restored")
            and now.record != BACK
        ):
            return "told as given back, and it is not"
        is_late = before.is_up and after.is_up and len(after.loose) > len(before.loose)
        if is_late and not after.says(IN_DOUBT):
            return "a write may come late, and nobody expects it"
        return None

    def _reads_what_is(self, scene: Scene[Tiny]) -> bool:
        """No other may come between a read's answer and what follows from it, in here."""
        return any(isinstance(one, ReadRecord) for one in scene.out)


def explored() -> Explored:
    return Explorer(TinyRestore()).explore()


def test_no_record_that_anybody_has_is_written_over_whatever_happens(
    record_property: Any,
) -> None:
    nothing_is_wrong(explored(), Restore, record_property)


def _asks_the_record_alone(order: RestoreOrder, record: Record | None, seen: Seen) -> Verdict:
    verdict = confirm_restore(order, record, seen)
    if verdict.reason in (Reason.RECORD_DELETED, Reason.RECORD_REUSED):
        return verdict
    return Verdict(Kind.RESTORE, Reason.FALSE_CLEAN, order.uuid)


def _asks_not_the_record(order: RestoreOrder, record: Record | None, seen: Seen) -> Verdict:
    return confirm_restore(order, cleaned("r1", at=1.0) if record else None, seen)


@cases(
    ("guard", "without", "noticed"),
    {
        "free-at-the-last-look": ("confirm_restore", _asks_not_the_record, "somebody has it"),
        "what-stands": ("confirm_restore", _asks_the_record_alone, "nothing may be written"),
        "still-needed": ("confirm_restore", _asks_the_record_alone, "nobody needs it"),
        "in-doubt": ("WriteInDoubt", restore.Restored, "nobody expects it"),
    },
)
def test_the_exploration_notices_a_guard_that_is_gone(
    monkeypatch: pytest.MonkeyPatch, guard: str, without: Any, noticed: str
) -> None:
    monkeypatch.setattr(restore, guard, without)
    assert any(noticed in one for one in explored().wrong)
