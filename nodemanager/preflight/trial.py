"""`check-cloud --boot`: one node from its claim to its end, by the daemon's own machinery.

The pre-flight is a manager of a pool of its own, `core.observe.pools.preflight_of`. So claim,
create, pairing, destroy and clean are decided by core, as always, and the pool's own manager, which
may run meanwhile, leaves this node and record alone (T3). Its journal is in the state directory:
after a kill -9 the next run finds what is left and ends it.
"""

from __future__ import annotations

import queue
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from nodemanager.actors.base import tell
from nodemanager.actors.messages import ApplySettings
from nodemanager.app import wiring
from nodemanager.app.daemon import stop
from nodemanager.app.management import OperatorCommands
from nodemanager.app.process import STOPS
from nodemanager.cloud.checks import CheckStatus, Found
from nodemanager.config import Config
from nodemanager.core.explain.explain import DecisionView
from nodemanager.core.explain.inventory import NodeRow, take
from nodemanager.core.model.changed import changed
from nodemanager.core.model.reasons import Event, Reason
from nodemanager.core.model.world import CloudNode, CloudState, Job, Record, Size
from nodemanager.core.observe.pools import preflight_of
from nodemanager.core.operate.replies import Command
from nodemanager.core.operate.verbs import Verb
from nodemanager.core.plan.leftovers import LedgerState
from nodemanager.lib.clock import Clock, SystemClock
from nodemanager.lib.logline import logfmt
from nodemanager.preflight import ping_url
from nodemanager.preflight.own_pool import OwnPool, StepFailed

T = TypeVar("T")

LOOK_S = 120.0
"""Seconds that the first listings of cloud and records may take."""
END_S = 900.0
"""Seconds that the end of the nodes and of what they pin may take."""
FREE_S = 30.0
"""Seconds after the last node in which its record is freed, beside the store's fence."""
REFUSED_S = 20.0
"""Seconds for which a boot may be refused for a passing reason."""
TICK_S = 0.25
ASK_AGAIN_S = 10.0
BY = "check-cloud"
AGAIN = "run nodemanager check-cloud --boot again: it finds what is left and ends it"
TROUBLE = frozenset(
    {
        Event.LIST_FAILED,
        Event.IDENTITY_CHANGED,
        Event.BREAKER_OPENED,
        Event.JOURNAL_FAILED,
        Event.STATE_FAILED,
        Event.PAIR_AMBIGUOUS,
        Event.NODE_SHUTDOWN_FAILED,
        Event.LEFTOVER_RELEASE_FAILED,
        Event.RECORD_CLEAN_FAILED,
    }
)


class TrialScreen(Protocol):
    """Shows what happens, and asks."""

    def doing(self, what: str) -> None: ...

    def ended(self, name: str, found: Found, took_s: float) -> None: ...

    def agrees(self, left: Sequence[str]) -> bool:
        """Whether to end what an earlier pre-flight left behind."""
        ...


class Interrupted(Exception):
    """A signal asked for the end; a second one gives up."""


@dataclass
class Trial:
    """One run of `check-cloud --boot`. `wait_s` is how long the node may take to ping."""

    config: Config
    size: Size
    wait_s: float
    screen: TrialScreen
    clock: Clock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        self._own = OwnPool(self.config, self.size, self.wait_s, self.clock)
        self._pool = preflight_of(self.config.daemon.pool)
        self._inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._decision: DecisionView | None = None
        self._logged: dict[Event, Mapping[str, Any]] = {}
        self._trouble = ""
        self._demand: tuple[Job, ...] = ()
        self._commands = OperatorCommands()
        self._signals = 0
        self._ending = False
        self._step_began = self.clock.boottime()
        self._killed_at: dict[str, float] = {}
        self._old: frozenset[str] = frozenset()
        self._fence_s = 0.0
        self._node_seen_at = 0.0
        self._dead = ""
        self._created_at: float | None = None

    def run(self) -> bool:
        """Boot, hear, end; whether every step went well. Raises ConfigError, StartError."""
        with ExitStack() as stack:
            self._heed_signals(stack)
            system = self._start(stack)
            stack.callback(stop, system, "the pre-flight is over", self.clock)
            try:
                if not self._end_what_was_left():
                    return False
            except (StepFailed, Interrupted) as error:
                self._failed("look", error)
                return False
            well = False
            try:
                self._boot(system)
                well = True
            except (StepFailed, Interrupted) as error:
                self._failed("boot", error)
            finally:
                ended = self._end()
            return ended and well

    # Start.

    def _heed_signals(self, stack: ExitStack) -> None:
        # A terminal that goes away must leave no node behind.
        for number in (*STOPS, signal.SIGHUP):
            before = signal.signal(number, lambda n, _: self._inbox.put(signal.Signals(n)))
            stack.callback(signal.signal, number, before)

    def _start(self, stack: ExitStack) -> wiring.System:
        self.screen.doing("starting")
        started = self._own.start(
            self._inbox, lambda: self._demand, lambda text: self._ended("registry", text), stack
        )
        self._settings, self._fence_s = started.settings, started.fence_s
        self._commands.daemon = started.system.daemon
        return started.system

    # The steps.

    def _end_what_was_left(self) -> bool:
        """Wait for the first picture; end an earlier pre-flight's nodes. False if it may not."""
        self.screen.doing("waiting for the first listings of cloud and records")
        self._until(self._has_looked, LOOK_S)
        self._ended("listings", f"pool {self._pool} of the pre-flight")
        left = self._names()
        if not left:
            return True
        if not self.screen.agrees(left):
            shown = ", ".join(left)
            self._ended(
                "leftovers",
                f"an earlier pre-flight left {shown}",
                CheckStatus.FAILED,
                "end it: nodemanager check-cloud --boot --yes",
            )
            return False
        return self._end("leftovers", CheckStatus.WARNING)

    def _boot(self, system: wiring.System) -> None:
        self.screen.doing(f"booting one {self.size.name}")
        self._logged.clear()
        self._trouble = ""
        # Nodes of no pool count (D11), and on a store without compare-and-set the records of former
        # pre-flights that may not be used yet (U2, U6).
        extra = sum(node.tags.pool is None and node.managed for node in self._listed())
        most = 1 + extra + len(self._records())
        tell(system.daemon, ApplySettings(changed(self._settings, max_nodes=most)))
        job = Job(
            "pre-flight",
            cores=1,
            preemptible=self.size.preemptible,
            instance_type=self.size.instance_type,
        )
        self._demand = (job,)
        ends_at = self.clock.boottime() + self.wait_s
        created = self._until(self._created, self.wait_s)
        record = str(created["record"])
        host, slot = created.get("host"), created.get("slot")
        self._ended("claim and create", f"node {created['node']}, record {record}")
        self.screen.doing(f"waiting for {created['node']} to run and ping as {host} (slot {slot})")
        node = str(created["node"])
        self._until(lambda: self._is_running(node), ends_at - self.clock.boottime())
        self._ended("running", f"the cloud lists {node} as running")
        left_s = ends_at - self.clock.boottime()
        self._until(lambda: self._has_pinged(record), left_s, self._why_silent)
        self._ended("ping", f"its first ping came in for {host}")
        self._until(lambda: self._logged.get(Event.NODE_PAIRED), LOOK_S)
        self._ended("pair", f"node and record are paired: {host}, slot {slot}")

    def _end(self, name: str = "end", if_held: CheckStatus = CheckStatus.FAILED) -> bool:
        """End whatever the pre-flight's pool has; whether no node and nothing pinned is left.

        A record whose create was never answered stays claimed until C21; that is told as `if_held`.
        """
        self._ending, self._demand = True, ()
        self.screen.doing("ending the node: waiting until the cloud says that it is gone")
        began = self._node_seen_at = self.clock.boottime()
        try:
            self._until(lambda: self._is_over(began), END_S)
        except (StepFailed, Interrupted) as error:
            left = ", ".join(self._names()) or "nothing that is known"
            self._ended(name, f"{error or 'given up'}; left: {left}", CheckStatus.FAILED, AGAIN)
            return False
        finally:
            self._ending = False
        if self._is_held():
            return self._tell_held(name, if_held)
        self._ended(name, "no node is left, no record is held, nothing is pinned")
        return True

    def _tell_held(self, name: str, mark: CheckStatus) -> bool:
        held = [one for one in self._records() if one.holds_anything]
        self._old |= {one.uuid for one in held}
        shown = ", ".join(f"record {one.uuid} (slot {one.slot_number})" for one in held)
        self._ended(
            name,
            f"no node is left; {shown} waits, as its create may still take effect (C21)",
            mark,
            AGAIN,
        )
        return mark is not CheckStatus.FAILED

    @property
    def cost(self) -> float | None:
        """What the node cost at most, in the unit of its price; None where that is unknown."""
        if not self.size.price or self._created_at is None:
            return None
        return self.size.price * (self.clock.boottime() - self._created_at) / 3600

    # What is waited for.

    def _has_looked(self) -> bool:
        seen = self._decision
        if seen is None or seen.snapshot.read_only:
            return False
        history = seen.snapshot.history
        return history.cloud is not None and history.records is not None

    def _created(self) -> Mapping[str, Any] | None:
        """The fields of `node.created`, once it was; raises Failed for a definite refusal."""
        failed = self._logged.pop(Event.NODE_SETUP_FAILED, None)
        if failed is not None:
            self._trouble = str(failed.get("error"))
            if failed.get("definite"):
                raise StepFailed(self._trouble, self._mend)
        refused = self._logged.get(Event.NODE_BOOT_REFUSED)
        if refused is not None:
            self._trouble = self._trouble or f"no boot: {logfmt(refused)}"
        if refused is not None and self.clock.boottime() - self._step_began > REFUSED_S:
            raise StepFailed(f"no boot: {logfmt(refused)}", self._mend)
        return self._logged.get(Event.NODE_CREATED)

    @property
    def _mend(self) -> str:
        return (
            "mend what it names, and run it again; a policy that is bound to the pool's tag must "
            f"allow {self._pool}, too"
        )

    def _is_running(self, node_id: str) -> bool:
        return any(
            node.id == node_id and node.state is CloudState.RUNNING for node in self._listed()
        )

    def _has_pinged(self, uuid: str) -> bool:
        return any(
            record.uuid == uuid and record.first_ping_at is not None for record in self._records()
        )

    def _why_silent(self) -> StepFailed:
        return StepFailed(
            f"the node runs and did not ping within {self.wait_s:g} s",
            f"look at its console: can it reach {ping_url.url_of(self.config)}, and does its image "
            "run the ping script?",
        )

    def _is_over(self, began: float) -> bool:
        """Have every node of the pool ended; whether a picture since `began` shows none.

        And no record that is held, or none that was freed in FREE_S after the last node.
        """
        seen, now = self._decision, self.clock.boottime()
        if seen is None or seen.snapshot.now <= began:
            return False
        # One without an id only may have been created; the claim of its record says so.
        nodes = [row.node for row in self._rows() if row.node is not None]
        for node in nodes:
            self._kill(node)
        snapshot = seen.snapshot
        pinned = sum(
            count for (_, state), count in seen.leftovers.items() if state != LedgerState.RELEASED
        )
        if nodes or snapshot.node_flights or snapshot.boots_unclaimed or pinned:
            self._node_seen_at = now
            return False
        return not self._is_held() or now - self._node_seen_at > FREE_S + self._fence_s

    def _is_held(self) -> bool:
        seen = self._decision
        if seen is None:
            return False
        # What is in flight is this pool's, and its record may be newer than the listing.
        held = {one.uuid for one in self._records() if one.holds_anything}
        return bool((held | seen.snapshot.record_flights.keys()) - self._old)

    def _kill(self, node: str) -> None:
        """Order its end, and again where that is not carried out."""
        now = self.clock.boottime()
        if now - self._killed_at.get(node, -ASK_AGAIN_S) < ASK_AGAIN_S:
            return
        self._killed_at[node] = now
        command = Command(Verb.KILL, by=BY, reason="the pre-flight is over", id=node)
        reply = self._commands.give(command)
        if not reply.ok:
            self._trouble = reply.text

    # What the newest picture has of the pre-flight's pool.

    def _listed(self) -> tuple[CloudNode, ...]:
        if self._decision is None:
            return ()
        return tuple(self._decision.snapshot.history.present.values())

    def _rows(self) -> list[NodeRow]:
        seen = self._decision
        if seen is None:
            return []
        rows = take(seen.made, seen.snapshot, seen.settings).nodes
        expected = Reason.NODE_EXPECTED.value
        return [row for row in rows if row.pool == self._pool or row.reason == expected]

    def _records(self) -> list[Record]:
        listing = None if self._decision is None else self._decision.snapshot.history.records
        items = () if listing is None else listing.items
        return [one for one in items if one.pool == self._pool]

    def _names(self) -> list[str]:
        """Nodes and records that are left, for people."""
        nodes = [f"node {row.node or 'of record ' + str(row.record)}" for row in self._rows()]
        held = [one for one in self._records() if one.holds_anything]
        return nodes + [f"record {one.uuid} (slot {one.slot_number})" for one in held]

    # The inbox.

    def _until(
        self,
        done: Callable[[], T | None],
        within: float,
        late: Callable[[], StepFailed] | None = None,
    ) -> T:
        """Take what arrives until `done` gives something true."""
        deadline = self.clock.boottime() + within
        while not (found := done()):
            if self._dead:
                raise StepFailed(self._dead)
            if self.clock.boottime() > deadline:
                raise (
                    late()
                    if late is not None
                    else StepFailed(f"not within {within:.0f} s" + self._because())
                )
            try:
                self._take(self._inbox.get(timeout=TICK_S))
            except queue.Empty:
                continue
        return found

    def _take(self, news: Any) -> None:
        if isinstance(news, DecisionView):
            self._decision = news
        elif isinstance(news, signal.Signals):
            self._signals += 1
            if not self._ending or self._signals > 1:
                raise Interrupted(news.name)
        elif isinstance(news, StepFailed):
            self._dead = str(news)
        else:
            event, fields = news
            self._logged[event] = fields
            if event is Event.NODE_CREATED:
                self._created_at = self.clock.boottime()
            if event in TROUBLE:
                self._trouble = f"{event.value}: {fields.get('error') or logfmt(fields)}"

    def _because(self) -> str:
        return f": {self._trouble}" if self._trouble else ""

    def _failed(self, name: str, error: Exception) -> None:
        if isinstance(error, Interrupted):
            found = Found(f"interrupted by {error}", CheckStatus.FAILED)
        else:
            found = Found(str(error), CheckStatus.FAILED, getattr(error, "to_do", ""))
        self._ended(name, found.text, found.mark, found.to_do)

    def _ended(
        self, name: str, text: str, mark: CheckStatus = CheckStatus.FINE, to_do: str = ""
    ) -> None:
        now = self.clock.boottime()
        self.screen.ended(name, Found(text, mark, to_do), now - self._step_began)
        self._step_began = now
