"""The ledger of leftovers as the journal has it (SAFETY.md D4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from nodemanager.actors.report.journal_access import JournalAccess
from nodemanager.core.model.world import Leftover
from nodemanager.core.plan.leftovers import Entry, Key, LedgerState


class WrittenLeftovers:
    """Writes what nodes leave behind, and again into a new file."""

    def __init__(self, access: JournalAccess) -> None:
        self._access = access
        self._entries: dict[Key, Entry] = {}
        self._called_off: dict[Key, Leftover] = {}

    def loaded(self, entries: Iterable[Entry]) -> None:
        self._entries = {entry.leftover.key: entry for entry in entries}

    def enter(self, entries: Sequence[Entry]) -> bool:
        """Write leftovers. Their node may be destroyed only if this returns True."""
        access = self._access
        if access.problem is not None:
            return False
        if entries and not access.does(partial(access.journal.save_leftovers, entries)):
            return False
        self._entries |= {entry.leftover.key: entry for entry in entries}
        return True

    def keep(self, entry: Entry) -> None:
        """Write the state of one leftover, now or once that is possible again."""
        self._entries[entry.leftover.key] = entry
        self._access.does_or_owes(lambda: self._write([entry]))

    def call_off(self, leftovers: Sequence[Leftover]) -> None:
        for leftover in leftovers:
            self._entries.pop(leftover.key, None)
            self._called_off[leftover.key] = leftover
        if leftovers:
            self._access.does_or_owes(self._write_called_off)

    def write_again(self) -> None:
        """Write all, because the file may be a new one. Raises JournalError."""
        self._write(tuple(self._entries.values()))
        self._write_called_off()

    def _write(self, entries: Sequence[Entry]) -> None:
        self._access.journal.save_leftovers(entries)
        for entry in entries:
            if entry.state is LedgerState.RELEASED:
                self._entries.pop(entry.leftover.key, None)

    def _write_called_off(self) -> None:
        self._access.journal.forget_leftovers(tuple(self._called_off.values()))
        self._called_off.clear()
