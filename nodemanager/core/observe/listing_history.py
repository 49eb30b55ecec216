"""The sets of ids that were listed lately, which a new listing is held against (SAFETY.md L3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from nodemanager.core.model.settings import KNOWN_SET_S


@dataclass(frozen=True, slots=True)
class KnownSets:
    """Sets of ids listed lately, newest last, none of them within one after it (L3).

    A set that is smaller now may be the largest once ids of others are explained.
    `excused` are ids whose going is our own doing: they count in no set, not even in one of a
    listing that began before they went.
    """

    sets: tuple[tuple[float, frozenset[str]], ...] = ()
    excused: frozenset[str] = frozenset()

    def with_set(self, at: float, ids: frozenset[str]) -> KnownSets:
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
        """Without ids whose going is explained by our own actions."""
        gone = frozenset(ids)
        if not gone:
            return self
        sets = tuple((at, known - gone) for at, known in self.sets)
        return replace(self, sets=sets, excused=self.excused | gone)

    def largest(self, at: float, but: frozenset[str] = frozenset()) -> frozenset[str]:
        """The largest set known, `but` left out of each; of equal ones the newest.

        The newest counts however old, or an outage would unlearn it.
        """
        largest = self.sets[-1][1] - but if self.sets else frozenset()
        for seen_at, known in reversed(self.sets):
            if at - seen_at <= KNOWN_SET_S and len(known) > len(largest):
                known = known - but if but else known
                if len(known) > len(largest):
                    largest = known
        return largest
