"""Several managers of one pool, each on a machine of its own, with a lease in a database (L6).

A host's process has the real keeper of the lease, and as actors what `service.duty` starts: it
stands by until it gets the lease, and then begins anew. The database has the lease, the journal's
State and the registry's fence, and may be out of a host's reach, or have a wrong clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from nodemanager.core.safety import lease as rules
from nodemanager.core.safety.lease import LeaseRow
from nodemanager.errors import StoreError, Superseded
from nodemanager.lease.keeper import Keeper, Term
from tests.simulation.engine import SimClock

if TYPE_CHECKING:
    from tests.simulation.manager import Manager
    from tests.simulation.registry import Registry
    from tests.simulation.weather import Line
    from tests.simulation.world import Pool, World

T = TypeVar("T")

WRITES = frozenset({"create", "claim", "clean", "restore", "delete", "drain", "time"})


@dataclass(frozen=True)
class Leasing:
    """How many hosts a pool has, for how long a lease lasts, and how wrong each one's date is."""

    duration: float
    dates: tuple[float, ...]


class LeaseRows:
    """The row of one pool, in a database with a clock of its own."""

    def __init__(self, clock: SimClock) -> None:
        self.clock = clock
        self.holder: str | None = None
        self.token = self.renewals = 0
        self.duration = self.expires_at = 0.0
        self.is_up = True

    def row(self) -> LeaseRow | None:
        if self.token == 0:
            return None
        left_s = self.expires_at - self.clock.wall()
        return LeaseRow(self.holder, self.token, self.renewals, self.duration, left_s)

    def take(self, seen: LeaseRow | None, holder: str, duration: float) -> int | None:
        row = self.row()
        if row is not None and (seen is None or seen.version != row.version):
            return None
        self.holder, self.token, self.renewals = holder, self.token + 1, 0
        self._lasts(duration)
        return self.token

    def renew(self, holder: str, token: int, duration: float) -> bool:
        if (self.holder, self.token) != (holder, token):
            return False
        self.renewals += 1
        self._lasts(duration)
        return True

    def give_back(self, holder: str, token: int) -> None:
        if (self.holder, self.token) == (holder, token):
            self.holder, self.expires_at = None, self.clock.wall()

    def _lasts(self, duration: float) -> None:
        self.duration, self.expires_at = duration, self.clock.wall() + duration


class Reach:
    """One host's way to the row; see `keeper.Leases`."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def _rows(self) -> LeaseRows:
        if not self._host.reaches_database:
            raise StoreError("the database does not answer")
        return self._host.pool.leases

    def look(self) -> LeaseRow | None:
        return self._rows().row()

    def take(self, seen: LeaseRow | None, holder: str, duration: float) -> int | None:
        return self._rows().take(seen, holder, duration)

    def renew(self, holder: str, token: int, duration: float) -> bool:
        return self._rows().renew(holder, token, duration)

    def give_back(self, holder: str, token: int) -> None:
        self._rows().give_back(holder, token)


class Host:
    """One machine with a manager of the pool, which systemd starts again when it has ended."""

    def __init__(self, world: World, pool: Pool, name: str, leasing: Leasing, date: float) -> None:
        self.world, self.pool, self.name, self._leasing = world, pool, name, leasing
        self.clock = SimClock(world.engine)
        self.clock.error = date
        self.cut_off = False
        """From the database alone."""
        self.manager: Manager | None = None
        self._starts = self._round = 0

    @property
    def reaches_database(self) -> bool:
        return self.pool.leases.is_up and not self.cut_off

    @property
    def alive(self) -> bool:
        return self.manager is not None and self.manager.alive

    @property
    def holds(self) -> bool:
        """Whether it believes that it has the lease."""
        term = self._keeper.term if self.alive else None
        return term is not None and term.holds()

    def start(self) -> None:
        """Start its process: another one than before, which knows nothing."""
        self._starts += 1
        self._coming: Term | None = None
        self._keeper = Keeper(
            Reach(self),
            pool=self.pool.name,
            holder=f"{self.name}#{self._starts}",
            duration=self._leasing.duration,
            clock=self.clock,
            log=self.world.quiet,
            changed=self._changed,
        )
        self._begin(None)

    def _arrange(self, wait_s: float) -> None:
        """The keeper's next step, in place of one that is arranged already."""
        assert self.manager is not None
        self._round += 1
        number = self._round
        self.world.engine.after(wait_s, lambda: self._step(number), self.manager.process)

    def _step(self, number: int) -> None:
        if number == self._round:
            self._arrange(self._keeper.step())

    def _changed(self, term: Term | None) -> None:
        from tests.simulation.manager import CLOUD_TIMEOUT_S

        assert self.manager is not None
        self._coming = term
        if term is None:
            self.world.note(f"{self.manager.name} has lost the lease")
            if self.manager.term is not None:
                self._begin(None)
            return
        for other in self.pool.hosts:
            if other is not self and other.holds:
                self.world.violate("L6", f"{self.name} takes the lease while {other.name} has it")
        # Until it acts nobody does.
        self.pool.holder = None
        self.world.note(f"{self.name} has the lease, token {term.token}")
        given_back = not term.after_another
        begins_at = rules.acts_from(term.taken_at, CLOUD_TIMEOUT_S, was_given_back=given_back)
        wait_s = begins_at - self.clock.boottime()
        self.world.engine.after(wait_s, lambda: self._take_over(term), self.manager.process)

    def _take_over(self, term: Term) -> None:
        if term is not self._coming:
            return
        if term.holds():
            self._begin(term)
            return
        assert self.manager is not None
        self.world.engine.after(1.0, lambda: self._take_over(term), self.manager.process)

    def _begin(self, term: Term | None) -> None:
        """Act under `term`, or stand by. What the former actors had sent is on its way."""
        former = self.manager
        self.manager = self.world.on_duty(self, term)
        if former is not None and former.alive:
            former.kill()
            if former.process.paused_until > self.world.engine.now:
                self.world.engine.pause(
                    self.manager.process, former.process.paused_until - self.world.engine.now
                )
        self._arrange(0.0)

    def stop(self) -> None:
        """As at an orderly end, once nothing of it is under way."""
        self._keeper.stop(gives_back=True)


class FencedLine:
    """The way to the registry of one holder of the lease: a newer token ends its writes."""

    def __init__(self, line: Line, registry: Registry, pool: str, token: int) -> None:
        self._line, self._registry, self._pool, self._token = line, registry, pool, token

    def call(self, name: str, effect: Callable[[], T], about: str = "") -> T:
        def fenced() -> T:
            tokens = self._registry.tokens
            if name == "list":
                tokens[self._pool] = max(self._token, tokens.get(self._pool, 0))
            elif name in WRITES and tokens.get(self._pool, 0) > self._token:
                raise Superseded("the lease is another manager's")
            return effect()

        return self._line.call(name, fenced, about)


def fenced_line(line: Any, registry: Any, pool: str, term: Term | None) -> Any:
    """The line as it is for a manager without a lease in a database."""
    return line if term is None else FencedLine(line, registry, pool, term.token)
