"""Watches writes to the record store: failures (SAFETY.md B1, B3), and late ones (C12)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from nodemanager.actors.daemon.context import Context
from nodemanager.core.execute.effects import (
    ClaimRecord,
    FenceRecord,
    FreeRecord,
    LiftFence,
    RenewClaim,
    StoreWrite,
)
from nodemanager.core.execute.recent import after_claim, after_freed
from nodemanager.core.execute.unacknowledged import Late, still_late, with_late
from nodemanager.core.model.settings import WRITE_FAILURES
from nodemanager.core.model.world import Guarantee
from nodemanager.core.observe.history import Records
from nodemanager.core.safety import rate_limits
from nodemanager.errors import (
    Conflict,
    NoFreeSlot,
    NoSuchRecord,
    RemoteError,
    SlotTaken,
    StoreError,
)
from nodemanager.journal.kept import LATE_WRITES

ANSWERS = (Conflict, NoSuchRecord, NoFreeSlot, SlotTaken)
"""Errors of a store that works, and could have written."""


class RecordWrites:
    """Opens the breaker when writes fail in a row, and closes it after a write that worked.

    Knows which records our own cleans wrote last (U2), and which writes may come late (C12).
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._failed = 0
        self._own_cleans: dict[str, tuple[str, float]] = {}
        self._late: Late = {}

    @property
    def failing(self) -> bool:
        """Whether the newest write failed."""
        return self._failed > 0

    @property
    def own_cleans(self) -> frozenset[str]:
        """The records that a clean of ours wrote last."""
        return frozenset(self._own_cleans)

    @property
    def late(self) -> Late:
        """Our writes that may still take effect, by record."""
        return self._late

    def answered(self, effect: StoreWrite, answer: Any, error: RemoteError | None) -> None:
        """Take in how a write ended."""
        if error is not None:
            self._write_failed(error)
        elif not (isinstance(effect, LiftFence) and answer is None):
            self._wrote()
        context = self._context
        if isinstance(effect, ClaimRecord | RenewClaim) and error is None:
            context.recent = after_claim(context.recent, answer, context.now, context.settings)
        if not isinstance(effect, FenceRecord | LiftFence | FreeRecord):
            return
        uuid, frees = effect.record.uuid, isinstance(effect, FreeRecord)
        if error is None and frees:
            self._own_cleans[uuid] = (answer.version, context.now)
            left = {one: node for one, node in context.books.expected.items() if one != uuid}
            context.books = replace(context.books, expected=left)
            context.recent = after_freed(context.recent, uuid)
        elif error is not None and not (error.definite or error.unsent):
            self.in_doubt(uuid, frees=frees)

    def _write_failed(self, error: RemoteError) -> None:
        if isinstance(error, ANSWERS):
            # What was read before a write does not tell whether the write would work.
            if not error.unsent:
                self._wrote()
        elif isinstance(error, StoreError):
            self._failed += 1
            context = self._context
            context.turn_breaker(
                rate_limits.after_failed_write(context.breaker, self._failed, context.now)
            )

    def _wrote(self) -> None:
        self._failed = 0
        self._context.turn_breaker(rate_limits.after_write(self._context.breaker))

    def listed(self, listing: Records) -> None:
        """Close the breaker after a record poll: its heartbeat is a write that worked (T1).

        A store without heartbeats is tried with a real write; its first failure opens it again.
        """
        context = self._context
        breaker, settings = context.breaker, context.settings
        if context.inputs.guarantee is Guarantee.CAS:
            if rate_limits.may_try_writes(breaker, listing.started_at, settings):
                self._wrote()
        elif rate_limits.may_try_writes(breaker, context.now, settings):
            self._failed = WRITE_FAILURES - 1
            context.turn_breaker(rate_limits.after_write(breaker))

    def forget_own_cleans(self, listing: Records) -> None:
        """Forget our own cleans of records that somebody has written since (U2)."""
        if not self._own_cleans:
            return
        versions = {record.uuid: record.version for record in listing.items}
        self._own_cleans = {
            uuid: (version, at)
            for uuid, (version, at) in self._own_cleans.items()
            if at >= listing.started_at or versions.get(uuid) == version
        }

    def restored(self, uuid: str) -> None:
        """Forget our own clean of a record that was restored."""
        self._own_cleans.pop(uuid, None)

    # Writes that may come late.

    def load(self, late: Late, under_way: Iterable[tuple[str, bool]]) -> None:
        """Add a former run's late writes, and the records that it may have been writing to when it
        ended, each with whether that frees it.
        """
        for uuid, one in late.items():
            self.in_doubt(uuid, one.at)
            if one.clean_at is not None:
                self.in_doubt(uuid, one.clean_at, frees=True)
        for uuid, frees in under_way:
            self.in_doubt(uuid, frees=frees)

    def in_doubt(self, uuid: str, at: float | None = None, *, frees: bool = False) -> None:
        """Note a write of ours that may still take effect, unless the store compares and sets."""
        context = self._context
        if context.inputs.guarantee is Guarantee.CAS:
            return
        at = context.now if at is None else at
        late = with_late(self._late, uuid, at, clean=frees)
        if late != self._late:
            self._late = late
            context.journal_writer.keep(
                LATE_WRITES, still_late(late, context.now, context.settings)
            )

    def forget_late(self, now: float) -> None:
        """Forget late writes that can no longer take effect."""
        self._late = still_late(self._late, now, self._context.settings)
