"""Items that contradict themselves: each is kept, too many abort the cycle (SAFETY.md L4)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from nodemanager.core.model.settings import IMPOSSIBLE_FRACTION
from nodemanager.core.observe.history import History

TO_CLEAR = (
    "take the slot off the record whose node is gone, in the record store: "
    """`arv node update --uuid UUID --node '{"slot_number": null, "hostname": null}'`"""
)
"""What ends it that two records hold one slot; the registry lets no two."""


@dataclass(frozen=True, slots=True)
class Impossible:
    """The `ids` of impossible items, out of `listed` items in both listings.

    `sharing` are the records that hold a slot together, by the uuid of each of them.
    """

    ids: frozenset[str]
    listed: int
    sharing: Mapping[str, tuple[str, ...]]

    @property
    def too_many(self) -> bool:
        """Whether the cycle must be aborted."""
        return len(self.ids) > IMPOSSIBLE_FRACTION * self.listed


def find_impossible(history: History) -> Impossible:
    """The ids listed twice in one listing, and the records that share a slot."""
    assert history.cloud is not None
    assert history.records is not None
    nodes, records = history.cloud.items, history.records.items
    sharing: dict[str, tuple[str, ...]] = {}
    slots = [record.slot_number for record in records if record.slot_number is not None]
    if len(set(slots)) != len(slots):
        holders: dict[int, set[str]] = {}
        for record in records:
            if record.slot_number is not None:
                holders.setdefault(record.slot_number, set()).add(record.uuid)
        together = [tuple(sorted(uuids)) for uuids in holders.values() if len(uuids) > 1]
        sharing = {uuid: uuids for uuids in together for uuid in uuids}
    return Impossible(history.twice | sharing.keys(), len(nodes) + len(records), sharing)


def of_one_slot(rivals: Collection[str]) -> dict[str, Any]:
    """What is told of records that hold one slot together; nothing where there are none."""
    return {"rivals": tuple(sorted(rivals)), "clear": TO_CLEAR} if rivals else {}
