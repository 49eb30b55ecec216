"""Operators' standing orders: drains, kills, cleans by hand, and the pause (O1-O4)."""

from __future__ import annotations

from nodemanager.actors.report.written_orders import WrittenOrders
from nodemanager.core.model.annotations import HandClean, Mark, Marks


class OperatorMarks:
    """The marks that go into each snapshot; all but cleans by hand are in the journal, too."""

    def __init__(self, orders: WrittenOrders) -> None:
        self._orders = orders
        self.drains: dict[str, Mark] = {}
        self.kills: dict[str, Mark] = {}
        self.by_hand: dict[str, HandClean] = {}
        self.paused: Mark | None = None
        self.rotation: Mark | None = None
        """Who paused the replacement of outdated nodes."""

    @property
    def all(self) -> Marks:
        """All marks that stand, and the holds, but no cleans by hand."""
        drains, kills = dict(self.drains), dict(self.kills)
        return Marks(self._orders.hold_marks, drains, kills, self.paused, self.rotation)

    def load(self, marks: Marks) -> None:
        """Add the marks of a former run; those made since go before them."""
        self.drains = {**marks.drains, **self.drains}
        self.kills = {**marks.kills, **self.kills}
        self.paused = self.paused or marks.paused
        self.rotation = self.rotation or marks.rotation

    def save(self) -> bool:
        """Write the marks; whether they are on the disk."""
        return self._orders.save(self.all)

    def forget(self, ended: frozenset[str]) -> None:
        """Forget the drains and kills of these nodes, which do not exist any more."""
        if not ended & (self.drains.keys() | self.kills.keys()):
            return
        self.drains = {id: one for id, one in self.drains.items() if id not in ended}
        self.kills = {id: one for id, one in self.kills.items() if id not in ended}
        self.save()
