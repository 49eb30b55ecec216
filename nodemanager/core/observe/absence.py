"""How long each record's node has been absent from the complete cloud listings (C5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import CloudNode, Record
from nodemanager.core.observe.nodes_by_record import Bearers, Present, is_anothers, node_of


@dataclass(frozen=True, slots=True)
class Absence:
    """The complete cloud listings in a row that lacked a record's node (C5).

    `first_at` and `last_at` are the starts of the first and last, `gap_s` is the longest gap.
    `unlisted_since` is the start of the first of all that lacked it, before any gap that was too
    long and started the absence again.
    """

    incarnation: str | None
    unlisted_since: float
    first_at: float
    last_at: float
    listings: int
    gap_s: float = 0.0

    def again(self, at: float) -> Absence:
        """The absence counted anew from the listing that began `at`."""
        return Absence(self.incarnation, self.unlisted_since, at, at, 1)

    def measured(self, settings: Settings) -> dict[str, object]:
        """How far it has settled, and what C5 asks for."""
        return {
            "absent_listings": self.listings,
            "needed_listings": settings.absent_listings,
            "absent_s": self.last_at - self.first_at,
            "settle_s": settings.settle,
        }

    def has_settled(self, settings: Settings) -> bool:
        """Whether the node was absent from enough complete listings, for `settle` (C5)."""
        if self.gap_s > settings.poll_stale_after:
            return False
        lasted_s = self.last_at - self.first_at
        return self.listings >= settings.absent_listings and lasted_s >= settings.settle


NOT_ABSENT = Absence(None, 0.0, 0.0, 0.0, 0)


def absences(
    known: Mapping[str, Absence],
    records: Iterable[Record],
    at: float,
    bearers: Bearers,
    present: Present,
    settings: Settings,
) -> dict[str, Absence]:
    """The absences, by uuid, once a complete listing of these nodes, begun at `at`, counts."""
    result: dict[str, Absence] = {}
    for record in records:
        uuid = record.uuid
        own, claim = bearers.get(uuid), record.claim
        if own and claim is not None and own[0].tags.incarnation == claim.incarnation:
            continue
        if not record.holds_anything or node_of(record, bearers, present) is not None:
            continue
        result[uuid] = one_more(known.get(uuid), record.incarnation, at, settings)
    return result


def one_more(
    before: Absence | None, incarnation: str | None, at: float, settings: Settings
) -> Absence:
    """The absence of a node, by that incarnation, once a complete listing begun at `at` lacks it,
    too."""
    if before is None or before.incarnation != incarnation:
        return Absence(incarnation, at, at, at, 1)
    gap_s = max(before.gap_s, at - before.last_at)
    if gap_s > settings.poll_stale_after:
        return before.again(at)
    return replace(before, last_at=at, listings=before.listings + 1, gap_s=gap_s)


def without_seen(
    known: Mapping[str, Absence], seen: Sequence[CloudNode], records: Iterable[Record]
) -> dict[str, Absence]:
    """The absences without records whose node was seen, by its tag or by its instance id."""
    uuids = {node.tags.record for node in seen}
    by_id = {node.id: node for node in seen}
    for record in records:
        named = by_id.get(record.instance_id or "")
        if named is not None and not is_anothers(named, record):
            uuids.add(record.uuid)
    return {uuid: value for uuid, value in known.items() if uuid not in uuids}
