"""The operators' standing orders as the journal has them: holds, drains, kills and the pause."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from nodemanager.actors.report.journal_access import JournalAccess
from nodemanager.core.model.annotations import NO_MARKS, Mark, Marks
from nodemanager.journal.api import Hold
from nodemanager.journal.kept import MARKS


class WrittenOrders:
    """Writes holds and marks before they are answered."""

    def __init__(self, access: JournalAccess) -> None:
        self._access = access
        self._holds: dict[str, Hold] = {}
        self._marks = NO_MARKS

    def loaded(self, holds: Iterable[Hold], marks: Marks) -> None:
        self._holds = {hold.id: hold for hold in holds}
        self._marks = marks

    @property
    def held(self) -> frozenset[str]:
        return frozenset(self._holds)

    @property
    def hold_marks(self) -> Mapping[str, Mark]:
        return {hold.id: Mark(hold.by, hold.at, hold.reason) for hold in self._holds.values()}

    def hold_on(self, id: str) -> Mark | None:
        return self.hold_marks.get(id)

    def hold(self, hold: Hold) -> bool:
        """Write a hold; whether it is on the disk."""
        written = self._access.does(partial(self._access.journal.hold, hold))
        if written:
            self._holds[hold.id] = hold
        return written

    def release(self, id: str) -> bool:
        """End a hold; whether that is on the disk."""
        written = self._access.does(partial(self._access.journal.release, id))
        if written:
            self._holds.pop(id, None)
        return written

    def save(self, marks: Marks) -> bool:
        """Write the drains, the kills and the pause; whether they are on the disk."""
        if self._access.problem is not None or not self._access.does(partial(self._write, marks)):
            return False
        self._marks = marks
        return True

    def _write(self, marks: Marks) -> None:
        self._access.journal.keep(MARKS, marks)
