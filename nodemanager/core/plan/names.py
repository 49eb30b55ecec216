"""Whether the scheduler has the names that new nodes would get (U12).

A registry gives the smallest free slot, and the hostname made from it. A node whose name the
scheduler lacks would never get work there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from nodemanager.core.model.settings import Settings
from nodemanager.core.observe.snapshot import Snapshot, listed_records
from nodemanager.core.plan.slots import CLAIM_WITHOUT_SLOT, Slots

_NUMBER = re.compile(r"\d+")
SHOWN = 3


@dataclass(frozen=True, slots=True)
class NameMismatch:
    """Hostnames of slots that the scheduler lacks: how many, the first of them, and the scheduler's
    name that differs from it only in form, if there is one."""

    count: int
    first: str
    like: str | None = None

    @property
    def told(self) -> str:
        """What is wrong, and what to do about it."""
        if self.like is not None:
            return (
                f"the scheduler calls {self.first} {self.like}: write [Registry] hostname as the "
                f"scheduler writes its names; {self.count} slots are not used until then"
            )
        return (
            f"the scheduler has no node {self.first}: name it there (NodeName= in slurm.conf), or "
            f"lower [Registry] slots; {self.count} slots have such names and are not used"
        )


@dataclass(frozen=True, slots=True)
class NextNames:
    """The hostnames that the next nodes get, in turn; `usable` of them are known to work."""

    names: tuple[str, ...]
    usable: int


def next_names(snapshot: Snapshot, settings: Settings, slots: Slots) -> NextNames | None:
    """The names of the next nodes; None where nobody can tell, or the scheduler takes any name."""
    listing = snapshot.history.scheduler
    if settings.hostname is None or snapshot.slots is None or listing is None:
        return None
    if listing.names is None:
        return None
    taken = {record.slot_number for record in listed_records(snapshot)}
    free = (slot for slot in range(1, snapshot.slots + 1) if slot not in taken)
    # These come first, before any boot of this plan.
    waiting = slots.held_by.get(CLAIM_WITHOUT_SLOT, 0)
    names: list[str] = []
    for place, slot in enumerate(free):
        if len(names) == settings.max_nodes:
            break
        if place >= waiting:
            names.append(settings.hostname % {"slot_number": slot})
    known = listing.names
    lacking = next((at for at, name in enumerate(names) if name not in known), len(names))
    return NextNames(tuple(names), lacking)


def name_mismatch(snapshot: Snapshot, settings: Settings) -> NameMismatch | None:
    """The slots whose hostnames the scheduler lacks; None where none does, or nobody can tell."""
    listing = snapshot.history.scheduler
    if settings.hostname is None or snapshot.slots is None or listing is None:
        return None
    if listing.names is None:
        return None
    return apart(settings.hostname, snapshot.slots, listing.names)


@lru_cache(maxsize=8)
def apart(hostname: str, slots: int, known: frozenset[str]) -> NameMismatch | None:
    """The slots whose hostnames are not among the scheduler's; None where all are."""
    missing = [name for name in _hostnames(hostname, slots) if name not in known]
    if not missing:
        return None
    alike = _by_form(known)
    first = next((name for name in missing if _form(name) in alike), missing[0])
    return NameMismatch(len(missing), first, alike.get(_form(first)))


def _hostnames(hostname: str, slots: int) -> Iterator[str]:
    return (hostname % {"slot_number": slot} for slot in range(1, slots + 1))


def _by_form(names: Iterable[str]) -> dict[str, str]:
    return {_form(name): name for name in sorted(names, reverse=True)}


def _form(name: str) -> str:
    """The name without what tells two forms of it apart: case, domain, leading zeros."""
    short = name.lower().partition(".")[0]
    return _NUMBER.sub(lambda found: str(int(found[0])), short)
