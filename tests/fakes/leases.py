"""A lease's row in memory, with a clock of its own, as a database has it."""

from __future__ import annotations

from nodemanager.core.safety.lease import LeaseRow
from nodemanager.errors import StoreError
from tests.fakes.clock import ManualClock


class FakeLeases:
    """What several managers see of one row. `out_of_reach` are the holders that can't reach it."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.holder: str | None = None
        self.token = 0
        self.renewals = 0
        self.duration = 0.0
        self.expires_at = 0.0
        self.out_of_reach: set[str] = set()
        self.takes_s = 0.0
        """Seconds that the database takes for each answer, on the asking manager's clock, too."""

    def of(self, holder: str, clock: ManualClock) -> OneOf:
        """The row as that manager reaches it."""
        return OneOf(self, holder, clock)

    @property
    def row(self) -> LeaseRow | None:
        if self.token == 0:
            return None
        left_s = self.expires_at - self.clock.wall()
        return LeaseRow(self.holder, self.token, self.renewals, self.duration, left_s)


class OneOf:
    """One manager's way to the row; see `keeper.Leases`."""

    def __init__(self, all: FakeLeases, holder: str, clock: ManualClock) -> None:
        self._all, self._holder, self._clock = all, holder, clock

    def _reach(self) -> FakeLeases:
        if self._holder in self._all.out_of_reach:
            raise StoreError("connection refused")
        self._clock.advance(self._all.takes_s)
        return self._all

    def look(self) -> LeaseRow | None:
        return self._reach().row

    def take(self, seen: LeaseRow | None, holder: str, duration: float) -> int | None:
        all, row = self._reach(), self._all.row
        version = None if seen is None else seen.version
        if (None if row is None else row.version) != version:
            return None
        all.holder, all.token, all.renewals = holder, all.token + 1, 0
        self._extend(duration)
        return all.token

    def renew(self, holder: str, token: int, duration: float) -> bool:
        all = self._reach()
        if (all.holder, all.token) != (holder, token):
            return False
        all.renewals += 1
        self._extend(duration)
        return True

    def give_back(self, holder: str, token: int) -> None:
        all = self._reach()
        if (all.holder, all.token) == (holder, token):
            all.holder, all.expires_at = None, all.clock.wall()

    def _extend(self, duration: float) -> None:
        self._all.duration = duration
        self._all.expires_at = self._all.clock.wall() + duration
