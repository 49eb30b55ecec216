"""Adopting, whatever happens: our tags go on what the operator named, as it was named (D11)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest

from nodemanager.core.execute import adopt
from nodemanager.core.execute.adopt import Adopt, AdoptOrder, confirm_adoption, order_adoption
from nodemanager.core.execute.effects import AdoptNode, AskNode, Effect
from nodemanager.core.execute.news import ItemEnded, Learned
from nodemanager.core.execute.workflow import Seen
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.model.world import CloudNode, CloudState, Tags
from nodemanager.core.operate.backlog import (
    Item,
    ItemAction,
    ItemMark,
    ItemState,
    indexed_plan,
    node_version,
)
from nodemanager.errors import BadRequest, NotSent
from tests.cases import cases
from tests.core.build import POOL, incarnation_of, world
from tests.core.execute.explored.explorer import Explored, Explorer, Scene, nothing_is_wrong
from tests.core.execute.explored.forbidden import Bans

OURS = Tags(POOL, "r1", incarnation_of("r1"))
NONE, ANOTHERS = Tags(), Tags("other")


@dataclass(frozen=True)
class Tiny(Bans):
    """A node that somebody made by hand, and the marked item that names it."""

    tags: Tags = NONE
    renamed: bool = False
    state: CloudState | None = CloudState.RUNNING
    """None: the cloud knows no such node."""
    item: ItemState | None = ItemState.HELD
    """None: an operator took the mark off."""
    unsent: bool = False
    """The lease was lost before the tags were sent."""

    @property
    def is_as_named(self) -> bool:
        is_there = self.state not in (None, CloudState.TERMINATED)
        return is_there and self.tags == NONE and not self.renamed and not self.held


class TinyAdopt:
    workflow = Adopt()
    asks = frozenset({"node.adopted"})

    def __init__(self) -> None:
        made = world(ids_unique=True)
        made.add_record("r1", quiet=10.0, first_ping_at=made.ago(500.0))
        self._node = made.add_node(id="i-r1", pool=None, age=1000.0)
        made.poll()
        snapshot = made.snapshot()
        indexed = indexed_plan(made.plan(), snapshot)
        assert indexed is not None
        self._indexed, self._snapshot, self._settings = indexed, snapshot, made.settings
        self._item = Item(ItemAction.ADOPT, "i-r1", node_version(self._node), "r1")
        self._order = order_adoption(self._item, indexed, snapshot, made.settings)
        assert self._order.tags == OURS

    def begins(self) -> Iterable[tuple[AdoptOrder, Tiny]]:
        yield self._order, Tiny()
        # The listing may be older than the tag.
        yield self._order, Tiny(OURS)

    @cache  # noqa: B019 - one exploration long
    def seen(self, world: Tiny) -> Seen:
        marks = {self._item.key: ItemMark(self._item, "eve")}
        return world.seen(
            "i-r1",
            self._snapshot,
            self._settings,
            indexed=self._indexed,
            marks=marks if world.item is ItemState.HELD else {},
        )

    def learns(self, world: Tiny, one: Learned) -> Tiny:
        assert isinstance(one, ItemEnded)
        assert one.key == self._item.key
        return replace(world, item=one.status.state)

    def forgets(self, world: Tiny) -> Tiny:
        return world

    def carry_out(self, world: Tiny, effect: Effect) -> tuple[Any, Tiny]:
        match effect:
            case AskNode() if world.state is None:
                return None, world
            case AskNode():
                name = "renamed" if world.renamed else self._node.name
                return replace(self._node, name=name, state=world.state, tags=world.tags), world
            case AdoptNode() if not world.lease:
                return NotSent("this manager lacks the pool's lease"), replace(world, unsent=True)
            case AdoptNode() if world.state in (None, CloudState.TERMINATED):
                return BadRequest("no such node"), world
            case AdoptNode(tags=tags):
                return None, replace(world, tags=tags)
        raise AssertionError(f"an adoption asks for no {effect}")

    def changes(self, world: Tiny) -> Iterator[tuple[str, Tiny]]:
        if world.tags == NONE:
            yield "another pool takes it", replace(world, tags=ANOTHERS)
        if not world.renamed:
            yield "renamed", replace(world, renamed=True)
        if world.state is not None:
            yield "forgotten by the cloud", replace(world, state=None)
            yield "terminated", replace(world, state=CloudState.TERMINATED)
        if world.item is ItemState.HELD:
            yield "the mark is taken off", replace(world, item=None)
        yield from world.banned()

    def wrong(self, before: Scene[Tiny], after: Scene[Tiny]) -> str | None:
        was, now = before.world, after.world
        sent = [one for one in after.out if one not in before.out]
        if any(isinstance(one, AdoptNode) for one in sent):
            if not was.is_as_named:
                return "tags were sent to what is not as it was named"
            if not was.may_write:
                return "tags were sent, though nothing may be written"
            if was.item is not ItemState.HELD:
                return "tags were sent, though nobody wants it any more"
        if after.says("node.adopted") and not before.says("node.adopted") and now.tags != OURS:
            return "told as adopted, and it is not"
        has_ended = was.item is not now.item
        if has_ended and now.item is ItemState.DONE and now.tags != OURS:
            return "ended as done, and it is not"
        if has_ended and now.item is ItemState.CHANGED and after.faults == 0:
            return "skipped, though nothing is wrong with it"
        if has_ended and now.item is ItemState.CHANGED and now.unsent and not was.unsent:
            return "skipped, though the cloud was never asked to take the tags"
        return None


def explored() -> Explored:
    return Explorer(TinyAdopt()).explore()


@pytest.mark.slow
def test_tags_go_on_nothing_but_what_was_named_whatever_happens(record_property: Any) -> None:
    nothing_is_wrong(explored(), Adopt, record_property)


def _asks_not_the_node(order: AdoptOrder, node: CloudNode | None, *given: Any) -> Verdict:
    seen = given[0]
    return confirm_adoption(order, seen.snapshot.history.present[order.node_id], *given)


def _asks_the_node_alone(order: AdoptOrder, node: CloudNode | None, *given: Any) -> Verdict:
    if node is None or node.is_absent or node_version(node) != order.item.version:
        return confirm_adoption(order, node, *given)
    return Verdict(Kind.ADOPT, Reason.ADOPTED, order.node_id)


@cases(
    ("guard", "without", "noticed"),
    {
        "the-last-look": ("confirm_adoption", _asks_not_the_node, "not as it was named"),
        "what-stands": ("confirm_adoption", _asks_the_node_alone, "nothing may be written"),
        "still-wanted": ("_is_over", lambda *given: False, "nobody wants it any more"),
    },
)
def test_the_exploration_notices_a_guard_that_is_gone(
    monkeypatch: pytest.MonkeyPatch, guard: str, without: Any, noticed: str
) -> None:
    monkeypatch.setattr(adopt, guard, without)
    assert any(noticed in one for one in explored().wrong)
