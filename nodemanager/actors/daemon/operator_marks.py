"""What operators ordered and what stands: drains, kills, cleans by hand, and the pause (O1-O4)."""

from __future__ import annotations

from nodemanager.actors.report.journal_writer import JournalWriter
from nodemanager.core.model.annotations import HandClean, Mark, Marks


class OperatorMarks:
    """The marks that go into each snapshot; but for cleans by hand they are written down."""

    def __init__(self, journal_writer: JournalWriter) -> None:
        self._scribe = journal_writer
        self.drains: dict[str, Mark] = {}
        self.kills: dict[str, Mark] = {}
        self.by_hand: dict[str, HandClean] = {}
        self.paused: Mark | None = None

    @property
    def all(self) -> Marks:
        """All that stand, holds among them."""
        drains, kills = dict(self.drains), dict(self.kills)
        return Marks(self._scribe.hold_marks, drains, kills, self.paused)

    def load(self, marks: Marks) -> None:
        """Those of a former run; what was said since goes before them."""
        self.drains = {**marks.drains, **self.drains}
        self.kills = {**marks.kills, **self.kills}
        self.paused = self.paused or marks.paused

    def save(self) -> bool:
        """Whether they are on the disk."""
        return self._scribe.save_marks(self.all)

    def forget(self, ended: frozenset[str]) -> None:
        """Of nodes that are no more."""
        if not ended & (self.drains.keys() | self.kills.keys()):
            return
        self.drains = {id: one for id, one in self.drains.items() if id not in ended}
        self.kills = {id: one for id, one in self.kills.items() if id not in ended}
        self.save()
