"""The sets of ids in recent listings, with which a new listing is compared (SAFETY.md L3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from nodemanager.core.model.settings import KNOWN_SET_S


@dataclass(frozen=True, slots=True)
class KnownSets:
    """The sets of ids in recent listings, newest last, with the times of the listings (L3).

    A new set replaces its subsets. Smaller sets stay: one may become the largest once ids of others
    are excused. `excused` are ids that went by our own doing: they count in no set, not even in
    that of a listing that began before they went.
    """

    sets: tuple[tuple[float, frozenset[str]], ...] = ()
    excused: frozenset[str] = frozenset()

    def with_set(self, at: float, ids: frozenset[str]) -> KnownSets:
        """The sets after a listing of `ids` that began at `at`, CLOCK_BOOTTIME."""
        excused = self.excused & ids
        if excused:
            ids -= excused
        kept = [
            (seen_at, known)
            for seen_at, known in self.sets
            if at - seen_at <= KNOWN_SET_S and not known <= ids
        ]
        return KnownSets((*kept, (at, ids)), excused)

    def without(self, ids: Iterable[str]) -> KnownSets:
        """The sets without `ids`, which are gone by our own doing."""
        gone = frozenset(ids)
        if not gone:
            return self
        sets = tuple((at, known - gone) for at, known in self.sets)
        return replace(self, sets=sets, excused=self.excused | gone)

    def largest(self, at: float, but: frozenset[str] = frozenset()) -> frozenset[str]:
        """The largest set of the last KNOWN_SET_S, without the ids in `but`; the newer if equal.

        The newest set counts however old it is; otherwise an outage would make us forget it.
        """
        largest = self.sets[-1][1] - but if self.sets else frozenset()
        for seen_at, known in reversed(self.sets):
            if at - seen_at <= KNOWN_SET_S and len(known) > len(largest):
                known = known - but if but else known
                if len(known) > len(largest):
                    largest = known
        return largest
