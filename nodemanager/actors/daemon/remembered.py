"""What a daemon remembers over restarts beside its journal: store and account, and the backlog."""

from __future__ import annotations

import contextlib
from typing import Protocol

from nodemanager.errors import StartError

JsonScalar = str | int | float | bool | None


class Facts(Protocol):
    """The few facts that must outlive the process. Each call raises StartError if it fails."""

    @property
    def shown(self) -> str:
        """Where they are, for messages."""
        ...

    def recall(self, name: str) -> JsonScalar:
        """The fact remembered under `name`, or None."""
        ...

    def remember(self, name: str, value: JsonScalar) -> None:
        """Write `value` under `name` to the disk; None removes it."""
        ...


class RememberedIdentity:
    """Checks the identity of store and account against the facts (L5).

    Raises StartError where these can't be read, or the first of them can't be kept.

    The count of heartbeats is in `own` facts, where given: those in the store's own database would
    be put back with it.
    """

    def __init__(self, state: Facts, *, writes: bool, own: Facts | None = None) -> None:
        self._state = state
        self._own = own or state
        self._writes = writes
        self._beats_before: tuple[str, int] | None = None
        """The count of heartbeats that was known before we asked the store for its own."""
        with contextlib.suppress(StartError):
            # The first check will report it.
            self._beats_before = self._known_beats()

    def check(self, kind: str, seen: str) -> str | None:
        """Compare `kind` (`store`, `account`) with the first one seen, which is remembered.

        Gives what is wrong, None when they are the same. What is wrong stays so until an operator
        removes the old one.
        """
        known = self._state.recall(kind)
        if known is None and self._writes:
            self._state.remember(kind, seen)
        if known in (None, seen):
            return None
        return (
            f"this is not the {kind} known before ({known}) but {seen}; "
            f"if that is meant, forget the old one in {self._state.shown}"
        )

    def check_age(self, store_id: str, beats: int) -> str | None:
        """None if that store's count of heartbeats never fell; else a text that says so.

        The text stays until an operator clears it.
        """
        # Another manager (such as the one beside this dry run) may have written a newer count
        # since we asked the store.
        known_now = self._known_beats()
        known_before = self._beats_before or known_now
        # What we wrote ourselves counts one more at least. A dry run writes none.
        least = known_before[1] + self._writes
        fell = known_before[0] == store_id and beats < least
        if self._writes and fell:
            # Remember that it fell, since the count will soon exceed the old one again.
            self._state.remember("restored", f"{store_id} from {known_before[1]} to {beats}")
        if self._writes and (fell or known_now[0] != store_id or beats > known_now[1]):
            # A full disk only loses the newest count.
            with contextlib.suppress(StartError):
                self._own.remember("heartbeats", f"{store_id} {beats}")
                known_now = store_id, beats
        self._beats_before = known_now
        noted = str(self._state.recall("restored") or "")
        if not fell and not noted.startswith(f"{store_id} "):
            return None
        return (
            "the record store was put back to an earlier state, as from a backup: its count of "
            f"heartbeats went back ({noted or beats}). Records made since are gone from it, and "
            "their nodes live: see the operator's guide, a registry from a backup; then forget "
            f"`restored` in {self._state.shown}"
        )

    def _known_beats(self) -> tuple[str, int]:
        """The store's id and its newest count; -1 where there is none yet."""
        store_id, _, beats = str(self._own.recall("heartbeats") or "").rpartition(" ")
        return store_id, int(beats or -1)


class RememberedBacklog:
    """Keeps over restarts what the first plan with cleans in it held back (S5).

    Without `facts` nothing is held back. Raises StartError where they can't be read or written.
    """

    def __init__(self, facts: Facts | None) -> None:
        self._facts = facts

    def load(self) -> tuple[bool, frozenset[str]]:
        """Whether there was no such plan yet, and what is held back."""
        if self._facts is None:
            return False, frozenset()
        kept = self._facts.recall("backlog")
        return kept is None, frozenset(str(kept).split()) if kept else frozenset()

    def save(self, backlog: frozenset[str]) -> None:
        if self._facts is not None:
            self._facts.remember("backlog", " ".join(sorted(backlog)))
