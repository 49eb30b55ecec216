"""The sets of ids in recent listings, with which a new listing is compared (SAFETY.md L3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from nodemanager.core.model.settings import KNOWN_SET_S


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
