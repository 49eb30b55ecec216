"""Tells a standby's log where it decides otherwise than the manager that acts (L6)."""

from __future__ import annotations

import threading
from collections.abc import Callable

from nodemanager.actors.daemon.remembered import Facts
from nodemanager.core.explain import differs
from nodemanager.core.explain.differs import Differences, ManagerDecision
from nodemanager.core.explain.explain import APPLY, STANDBY, DecisionView
from nodemanager.core.model.reasons import Event
from nodemanager.core.safety.lease import LeaseRole, LeaseView
from nodemanager.errors import StartError
from nodemanager.lib.clock import Clock
from nodemanager.lib.log import WARNING, Logger

FACT = "decided"


class Comparison:
    """Hands on what the active manager decided, and compares what a standby decides with it.

    `take` is given each decision by the daemon actor. A thread of its own calls `exchange`, since
    a database may let it wait.
    """

    def __init__(
        self,
        facts: Facts,
        lease: Callable[[], LeaseView],
        *,
        every_s: float,
        clock: Clock,
        log: Logger,
    ) -> None:
        self._facts, self._lease, self._clock, self._log = facts, lease, clock, log
        self._every_s = every_s
        self._ours: ManagerDecision | None = None
        self._sent: ManagerDecision | None = None
        self._theirs: ManagerDecision | None = None
        self._since: dict[str, float] = {}
        """By record or node id: since when it has differed (CLOCK_BOOTTIME)."""
        self._logged: dict[str, object] = {}
        """What the log has: options with both values, and ids for as long as they differ."""
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="comparison", daemon=True)

    def take(self, decision: DecisionView) -> None:
        """A new decision: what is to be told to the others, or what differs from theirs."""
        lease = self._lease()
        ours = differs.decided(decision, lease.token)
        if decision.mode == APPLY:
            self._ours = ours
            return
        theirs = self._theirs
        if decision.mode != STANDBY or theirs is None or theirs.token != lease.token:
            return
        for option, both in differs.options(ours, theirs).items():
            if self._logged.get(option) != both:
                self._logged[option] = both
                self._warn(both, option=option)
        self._tell_orders(differs.differences(ours, theirs), decision)

    def _tell_orders(self, found: Differences, decision: DecisionView) -> None:
        """Of what has differed for longer than a listing may be old, tell each once."""
        now = self._clock.boottime()
        over = self._since.keys() - found.keys()
        self._logged = {key: both for key, both in self._logged.items() if key not in over}
        self._since = {id: self._since.get(id, now) for id in found}
        for id, (here, there) in found.items():
            for_s = now - self._since[id]
            if for_s > decision.settings.poll_stale_after and id not in self._logged:
                self._logged[id] = there
                kind, kept = differs.judged(decision.made, id)
                self._warn((here or kept, there), for_s=for_s, **{kind: id})

    def _warn(self, both: tuple[str | None, str | None], **what: object) -> None:
        here, there = both
        fields = {"holder": self._lease().holder, **what, "here": here, "there": there}
        self._log.event(Event.LEASE_DIFFERS, level=WARNING, **fields)

    # Its thread.

    def exchange(self) -> None:
        """Tell the others what was decided here, or read what the active one told."""
        role, ours = self._lease().role, self._ours
        try:
            if role is LeaseRole.STANDBY:
                self._theirs = differs.read(self._facts.recall(FACT))
            elif role is LeaseRole.ACTIVE and ours is not None and ours is not self._sent:
                self._facts.remember(FACT, ours.to_text())
                self._sent = ours
        except StartError:
            # The keeper tells of a database that does not answer.
            return

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End; idempotent."""
        self._ends.set()
        if self._thread.is_alive():
            self._thread.join(self._every_s)

    def _run(self) -> None:
        while not self._ends.wait(self._every_s):
            self.exchange()
