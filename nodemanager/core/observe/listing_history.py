"""What earlier listings showed: absences, gaps, and what was counted (SAFETY.md C6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nodemanager.core.model.settings import KNOWN_SET_S, Settings
from nodemanager.core.model.world import CloudNode, Record
from nodemanager.core.observe.nodes_by_record import NodesByRecord, Present, is_anothers, node_of


@dataclass(frozen=True, slots=True)
class KnownSets:
    """The sets of ids in recent listings, newest last, with the times of the listings (L3).

    A new set replaces its subsets. Smaller sets stay: one may become the largest once ids of others
    are excused. `excused` are ids that went by our own doing: they count in no set, not even in
    that of a listing that began before they went. `destroyed` are nodes whose destroy stands, with
    when it was sent: they may be listed for a while yet, and are neither known nor lost.
    """

    sets: tuple[tuple[float, frozenset[str]], ...] = ()
    excused: frozenset[str] = frozenset()
    destroyed: Mapping[str, float] = field(default_factory=dict)

    def with_set(
        self, at: float, ids: frozenset[str], destroy_stands_s: float = KNOWN_SET_S
    ) -> KnownSets:
        """The sets after a listing of `ids` that began at `at`, CLOCK_BOOTTIME.

        A node that it still shows `destroy_stands_s` (at least KNOWN_SET_S) after its destroy lives
        on, and is known again. By then no set has it that was listed before the destroy.
        """
        excused = self.excused & ids
        if excused:
            ids -= excused
        destroyed = self.destroyed
        if destroyed:
            destroyed = {
                id: sent_at
                for id, sent_at in destroyed.items()
                if at - sent_at <= max(destroy_stands_s, KNOWN_SET_S)
            }
            ids = ids.difference(destroyed)
        kept = [
            (seen_at, known)
            for seen_at, known in self.sets
            if at - seen_at <= KNOWN_SET_S and not known <= ids
        ]
        return KnownSets((*kept, (at, ids)), excused, destroyed)

    def with_destroy(self, node_id: str, sent_at: float) -> KnownSets:
        """The sets once the node's destroy was sent, or may have been."""
        sent_at = max(sent_at, self.destroyed.get(node_id, sent_at))
        return replace(self, destroyed={**self.destroyed, node_id: sent_at})

    def without_destroy(self, node_id: str) -> KnownSets:
        """The sets once the cloud refused the node's destroy: what was known of it counts again."""
        left = {id: sent_at for id, sent_at in self.destroyed.items() if id != node_id}
        return replace(self, destroyed=left)

    def without(self, ids: Iterable[str]) -> KnownSets:
        """The sets without `ids`, which are gone by our own doing."""
        gone = frozenset(ids)
        if not gone:
            return self
        sets = tuple((at, known - gone) for at, known in self.sets)
        return replace(self, sets=sets, excused=self.excused | gone)

    def largest(self, at: float, but: frozenset[str] = frozenset()) -> frozenset[str]:
        """The largest set of the last KNOWN_SET_S, without the ids in `but`; the newer if equal.

        The newest set counts however old it is; otherwise an outage would make us forget it. So
        does a destroy, until a listing has been compared with what was known before it.
        """
        if self.destroyed:
            but = but.union(self.destroyed)
        largest = self.sets[-1][1] - but if self.sets else frozenset()
        for seen_at, known in reversed(self.sets):
            if at - seen_at <= KNOWN_SET_S and len(known) > len(largest):
                known = known - but if but else known
                if len(known) > len(largest):
                    largest = known
        return largest


# The gaps in a count over polls, so that a shorter limit can be held against them later (S6).

GAPS_KEPT = 16
Gaps = tuple[tuple[float, float], ...]
"""Where a count had gaps, the newest last, as (the count when it ended, its seconds).

Each is shorter than the one before: a gap no longer than a later one is left out, since whatever
limit it exceeds, the later one exceeds too.
"""


def with_gap(gaps: Gaps, end: float, gap_s: float) -> Gaps:
    """The gaps with one more. Too many are merged: a count then begins later, never earlier."""
    gaps = (*(one for one in gaps if one[1] > gap_s), (end, gap_s))
    if len(gaps) > GAPS_KEPT:
        (_, longest_s), (later, _), *rest = gaps
        gaps = ((later, longest_s), *rest)
    return gaps


def newest_above(gaps: Gaps, limit_s: float) -> float:
    """Where the newest gap longer than `limit_s` ended."""
    return next((end for end, gap_s in reversed(gaps) if gap_s > limit_s), float("-inf"))


# How long each record's node has been absent from the complete cloud listings (C5).


@dataclass(frozen=True, slots=True)
class Absence:
    """The complete cloud listings in a row that lacked a record's node (C5).

    `first_at` and `last_at` are the starts of the first and last, `gap_s` is the longest gap.
    `unlisted_since` is the start of the first of all that lacked it, before any gap that was too
    long and started the absence again. `node_id` is the one node of this life that the listing
    before that one showed; None where it showed none or several.
    """

    incarnation: str | None
    unlisted_since: float
    first_at: float
    last_at: float
    listings: int
    gap_s: float = 0.0
    node_id: str | None = None

    def again(self, at: float) -> Absence:
        """The absence counted anew from the listing that began `at`."""
        return replace(self, first_at=at, last_at=at, listings=1, gap_s=0.0)

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
    nodes_by_record: NodesByRecord,
    present: Present,
    settings: Settings,
    before: NodesByRecord,
) -> dict[str, Absence]:
    """The absences, by uuid, once a complete listing of these nodes, begun at `at`, counts.

    `before` are the nodes of the complete listing before it.
    """
    result: dict[str, Absence] = {}
    for record in records:
        uuid = record.uuid
        own, claim = nodes_by_record.get(uuid), record.claim
        if own and claim is not None and own[0].tags.incarnation == claim.incarnation:
            continue
        if not record.holds_anything or node_of(record, nodes_by_record, present) is not None:
            continue
        absence = one_more(known.get(uuid), record.incarnation, at, settings)
        if absence.unlisted_since == at:
            absence = replace(absence, node_id=_shown(record, before))
        result[uuid] = absence
    return result


def _shown(record: Record, nodes_by_record: NodesByRecord) -> str | None:
    """The id of the one node of the record's very life that the listing shows."""
    nodes = nodes_by_record.get(record.uuid, ())
    ids = [node.id for node in nodes if node.tags.incarnation == record.incarnation]
    return ids[0] if len(ids) == 1 else None


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
