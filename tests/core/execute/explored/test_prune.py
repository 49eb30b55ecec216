"""Pruning, whatever happens: no record that anybody has is deleted (C8-C12)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest

from nodemanager.core.execute import prune
from nodemanager.core.execute.effects import DeleteRecord, Effect, LookAtRecord
from nodemanager.core.execute.prune import Prune
from nodemanager.core.execute.workflow import Seen
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.model.world import Record
from nodemanager.core.observe.evidence import CleanEvidence
from nodemanager.core.observe.facts import CloudPollBegun
from nodemanager.core.plan.due import PruneOrder
from nodemanager.errors import Conflict, NoSuchRecord
from tests.cases import cases
from tests.core.build import claim, cleaned, node, world
from tests.core.execute.explored.explorer import Explored, Explorer, Scene, nothing_is_wrong
from tests.core.execute.explored.forbidden import Bans

CLEAN, CLAIMED, DELETED = "clean", "claimed", "deleted"


@dataclass(frozen=True)
class Tiny(Bans):
    """A record that is clean, and may be claimed; a node that may come up with its tag."""

    record: str = CLEAN
    node: bool = False


class TinyPrune:
    workflow = Prune()
    asks = frozenset({"record.pruned", "intent.open", "RecordsExplained"})

    def __init__(self) -> None:
        self._world = world(max_nodes=0, prune_after=100.0)
        self._world.records = [cleaned("r", at=self._world.ago(1000.0))]
        (self._order,) = self._world.round().prunes
        # Time stands still in here: not-after is another test's.
        self._snapshot = replace(self._world.snapshot(), now=self._order.not_after)

    def begins(self) -> Iterable[tuple[PruneOrder, Tiny]]:
        yield self._order, Tiny()

    @cache  # noqa: B019 - one exploration long
    def seen(self, world: Tiny) -> Seen:
        return world.seen("r", self._snapshot, self._world.settings)

    def _record(self, world: Tiny) -> Record | None:
        record = self._world.records[0]
        if world.record == CLAIMED:
            record = replace(record, version="v-claimed", claim=claim("r", at=self._world.now))
        return None if world.record == DELETED else record

    def carry_out(self, world: Tiny, effect: Effect) -> tuple[Any, Tiny]:
        record = self._record(world)
        match effect:
            case LookAtRecord():
                return CleanEvidence(record, (node("r"),) if world.node else ()), world
            case DeleteRecord(record=judged) if record is None:
                return NoSuchRecord(f"no record {judged.uuid}"), world
            case DeleteRecord(record=judged) if record.version != judged.version:
                return Conflict("it changed"), world
            case DeleteRecord():
                return None, replace(world, record=DELETED)
        raise AssertionError(f"a prune asks for no {effect}")

    def changes(self, world: Tiny) -> Iterator[tuple[str, Tiny]]:
        if world.record == CLEAN:
            yield "claimed", replace(world, record=CLAIMED)
        if not world.node:
            yield "a node comes up", replace(world, node=True)
        yield from world.banned()

    def wrong(self, before: Scene[Tiny], after: Scene[Tiny]) -> str | None:
        was, now = before.world, after.world
        if now.record == DELETED and was.record == CLAIMED:
            return "a claimed record was deleted"
        sent = [one for one in after.out if one not in before.out]
        if any(isinstance(one, DeleteRecord) for one in sent):
            if was.node:
                return "deleted though a node bears its tag"
            if not was.may_write:
                return "a delete was sent though none may be"
        if after.says("record.pruned") and now.record != DELETED:
            return "told as pruned, and it is there"
        if after.ended == "pruned" and now.record != DELETED:
            return "concluded as pruned, and it is there"
        if after.ended == "failed" and before.ended is None and now.record == DELETED:
            return "concluded as failed, and it is gone"
        over = after.running is None and after.is_up and not after.says("intent.open")
        if over and now.record == DELETED and not after.says("RecordsExplained"):
            return "deleted, and the next listing is short for it (L3)"
        return None


def explored() -> Explored:
    return Explorer(TinyPrune()).explore()


def test_no_record_that_anybody_has_is_deleted_whatever_happens(record_property: Any) -> None:
    nothing_is_wrong(explored(), Prune, record_property)


def _trusts_the_plan(*given: Any) -> Verdict:
    order = given[0]
    return Verdict(prune.Kind.PRUNE, order.reason, order.uuid)


@cases(
    ("guard", "without"),
    {
        "the-last-look": ("confirm_prune", _trusts_the_plan),
        "explained": ("_explained", lambda *given: CloudPollBegun(0.0)),
    },
)
def test_the_exploration_notices_a_guard_that_is_gone(
    monkeypatch: pytest.MonkeyPatch, guard: str, without: Any
) -> None:
    monkeypatch.setattr(prune, guard, without)
    assert explored().wrong


def test_the_exploration_notices_a_delete_that_the_journal_does_not_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prune.Deleting, "is_written", False)
    assert any("before the journal had it" in one for one in explored().wrong)
