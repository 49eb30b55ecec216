"""Binding, whatever happens: no claim is told a node that is not its own (P1a)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest

from nodemanager.core.execute import bind
from nodemanager.core.execute.bind import Bind, confirm_bind
from nodemanager.core.execute.effects import Effect, ReadRecord, WriteClaim
from nodemanager.core.execute.workflow import Seen
from nodemanager.core.model.world import Claim, Record
from nodemanager.core.plan.orders import BindOrder
from nodemanager.errors import Conflict, NoSuchRecord
from tests.cases import cases
from tests.core.build import claim, world
from tests.core.execute.explored.explorer import Explored, Explorer, Scene, nothing_is_wrong
from tests.core.execute.explored.forbidden import Bans

OURS, ANOTHER = 1, 2


@dataclass(frozen=True)
class Tiny(Bans):
    """A claimed record; each change of it, and each ping, is another version."""

    life: int | None = OURS
    """None: it was deleted."""
    node: str | None = None
    version: int = 1


class TinyBind:
    workflow = Bind()
    asks = frozenset({"record.bound"})

    def __init__(self) -> None:
        self._world = world(max_nodes=4)
        self._world.add_record("r1", claim=claim("r1", at=self._world.now))
        self._world.add_node("r1", id="i-own")
        (self._order,) = self._world.round().binds
        self._listed = self._world.record("r1")
        self._snapshot = self._world.snapshot()

    def begins(self) -> Iterable[tuple[BindOrder, Tiny]]:
        yield self._order, Tiny()

    @cache  # noqa: B019 - one exploration long
    def seen(self, world: Tiny) -> Seen:
        return world.seen("r1", self._snapshot, self._world.settings)

    def _record(self, world: Tiny) -> Record | None:
        if world.life is None:
            return None
        made = replace(claim("r1", at=1.0, life=world.life), node_id=world.node)
        return replace(self._listed, version=f"v{world.version}", claim=made)

    def carry_out(self, world: Tiny, effect: Effect) -> tuple[Any, Tiny]:
        record = self._record(world)
        match effect:
            case ReadRecord():
                return record, world
            case WriteClaim() if record is None:
                return NoSuchRecord("no record r1"), world
            case WriteClaim(record=judged) if record.version != judged.version:
                return Conflict("it changed"), world
            case WriteClaim(claim=written):
                after = replace(world, node=written.node_id, version=world.version + 1)
                return self._record(after), after
        raise AssertionError(f"a bind asks for no {effect}")

    def changes(self, world: Tiny) -> Iterator[tuple[str, Tiny]]:
        newer = replace(world, version=world.version + 1)
        if world.life is not None and world.version < 3:
            yield "pinged", newer
            yield "deleted", replace(world, life=None)
        if world.life == OURS:
            yield "freed and claimed again", replace(newer, life=ANOTHER, node=None)
        if world.life == ANOTHER and world.node is None:
            yield "told its own node", replace(newer, node="i-another")
        yield from world.banned()

    def wrong(self, before: Scene[Tiny], after: Scene[Tiny]) -> str | None:
        was, now = before.world, after.world
        if now.life == ANOTHER and now.node == "i-own":
            return "another life was told our node"
        if was.life == ANOTHER and was.node is not None and now.node != was.node:
            return "what another life was told was written over"
        sent = [one for one in after.out if one not in before.out]
        if any(isinstance(one, WriteClaim) for one in sent) and not was.may_write:
            return "a claim was written though none may be"
        if after.says("record.bound") and now == Tiny() and after.faults == 0:
            return "told as bound, and it is not"
        return None


def explored() -> Explored:
    return Explorer(TinyBind()).explore()


def test_no_claim_is_told_anothers_node_whatever_happens(record_property: Any) -> None:
    nothing_is_wrong(explored(), Bind, record_property)


def _asks_for_no_life(order: BindOrder, record: Record | None, seen: Seen) -> Claim | None:
    life = record.incarnation if record is not None else None
    return confirm_bind(replace(order, incarnation=life or ""), record, seen)


def _asks_the_record_alone(order: BindOrder, record: Record | None, seen: Seen) -> Claim | None:
    claim = record.claim if record is not None else None
    if claim is None or claim.incarnation != order.incarnation:
        return None
    return replace(claim, node_id=order.node_id)


@cases(
    ("without", "noticed"),
    {
        "of-this-life": (_asks_for_no_life, "another life was told our node"),
        "what-stands-now": (_asks_the_record_alone, "though none may be"),
    },
)
def test_the_exploration_notices_a_guard_that_is_gone(
    monkeypatch: pytest.MonkeyPatch, without: Any, noticed: str
) -> None:
    monkeypatch.setattr(bind, "confirm_bind", without)
    assert any(noticed in one for one in explored().wrong)
