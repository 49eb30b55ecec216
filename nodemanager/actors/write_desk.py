"""The daemon's count of writes to the record store that fail (SAFETY.md B1, B3)."""

from __future__ import annotations

from nodemanager.actors.boot_watch import BootWatch
from nodemanager.core import rates
from nodemanager.core.breaker import Breaker
from nodemanager.core.facts import BreakerSet
from nodemanager.core.history import Records
from nodemanager.core.model import Guarantee
from nodemanager.core.settings import WRITE_FAILURES
from nodemanager.errors import Conflict, NoFreeSlot, NoSuchRecord, SlotTaken, StoreError

ANSWERS = (Conflict, NoSuchRecord, NoFreeSlot, SlotTaken)
"""A store that gives one of these works, and could have written."""


class WriteDesk(BootWatch):
    """Opens the breaker when nothing can be written, and closes it when something was."""

    def _write_failed(self, error: Exception | None) -> None:
        if isinstance(error, ANSWERS):
            self._wrote()
        elif isinstance(error, StoreError):
            self._failed_writes += 1
            now = self._clock.boottime()
            self._turn(rates.after_failed_write(self._breaker, self._failed_writes, now))

    def _wrote(self) -> None:
        self._failed_writes = 0
        self._turn(rates.after_write(self._breaker))

    def _probed(self, listing: Records) -> None:
        """A record poll that began later went well: it ends with the heartbeat, a write (T1).

        A store without one is tried again with a real write, and one more failure is enough.
        """
        now = self._clock.boottime()
        if self._role.guarantee is Guarantee.CAS:
            if rates.may_try_writes(self._breaker, listing.started_at, self._settings):
                self._wrote()
        elif rates.may_try_writes(self._breaker, now, self._settings):
            self._failed_writes = WRITE_FAILURES - 1
            self._turn(rates.after_write(self._breaker))

    def _turn(self, breaker: Breaker) -> None:
        if breaker is self._breaker:
            return
        self._scribe.note(BreakerSet(breaker, self._clock.boottime()))
        self._set_breaker(breaker)
        self._decide_soon()
