"""Items that contradict themselves: each is kept, too many abort the cycle (SAFETY.md L4)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from nodemanager.core.model.settings import IMPOSSIBLE_FRACTION
from nodemanager.core.observe.history import History


@dataclass(frozen=True, slots=True)
class Impossible:
    """The `ids` of impossible items, out of `listed` items in both listings."""

    ids: frozenset[str]
    listed: int

    @property
    def too_many(self) -> bool:
        """Whether the cycle must be aborted."""
        return len(self.ids) > IMPOSSIBLE_FRACTION * self.listed


def find_impossible(history: History) -> Impossible:
    """The ids listed twice in one listing, and the records that share a slot."""
    assert history.cloud is not None
    assert history.records is not None
    nodes, records = history.cloud.items, history.records.items
    found = history.twice
    slots = [record.slot_number for record in records if record.slot_number is not None]
    if len(set(slots)) != len(slots):
        doubled = {slot for slot, count in Counter(slots).items() if count > 1}
        found |= {record.uuid for record in records if record.slot_number in doubled}
    return Impossible(found, len(nodes) + len(records))
