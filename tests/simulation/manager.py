"""One run of the manager: the real actors, without their threads, on the simulated world."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from nodemanager.actors.base import RoleActor, TeamContext
from nodemanager.actors.daemon.context import DaemonInputs
from nodemanager.actors.daemon.daemon import NodeManagerDaemonActor
from nodemanager.actors.daemon.remembered import JsonScalar, RememberedBacklog, RememberedIdentity
from nodemanager.actors.messages import ApplySettings, Begin, PollEvery, Stop, Team
from nodemanager.actors.net import netted
from nodemanager.actors.poll.polling import (
    CloudNodeListActor,
    DemandActor,
    RecordListActor,
    SchedulerActor,
)
from nodemanager.actors.workers.workers import NodeSetupActor, NodeShutdownActor, RecordCleanerActor
from nodemanager.core.model.reasons import Event
from nodemanager.core.model.settings import Settings
from nodemanager.errors import CloudError, JournalReplaced, StoreError
from nodemanager.lib.log import INFO, Logger
from tests.fakes.journal import MemoryJournal
from tests.simulation.engine import Killed, Mailbox, Process, SimTimer

if TYPE_CHECKING:
    from nodemanager.core.explain.explain import DecisionView
    from nodemanager.core.plan.plan import Plan
    from nodemanager.lease.keeper import Term
    from tests.simulation.hosts import Host
    from tests.simulation.world import Pool, World

CLOUD_TIMEOUT_S = 60.0
STORE_TIMEOUT_S = 15.0
STOPS_IN_S = 0.2
STOP_LIMIT_S = CLOUD_TIMEOUT_S + 10.0
SYSTEMD_S = 5.0
"""RestartSec of the unit."""


@dataclass
class Facts:
    """The state directory's facts: all that a restarted manager has besides the stores."""

    shown: str = "/state/facts.json"
    facts: dict[str, JsonScalar] = field(default_factory=dict)

    def recall(self, name: str) -> JsonScalar:
        return self.facts.get(name)

    def remember(self, name: str, value: JsonScalar) -> None:
        if value is None:
            self.facts.pop(name, None)
        else:
            self.facts[name] = value


class SimLog(Logger):
    """Keeps the lines where a trace is wanted; checks nothing and writes nowhere."""

    def __init__(self, tell: Callable[[Event, dict[str, object]], None], verbose: bool) -> None:
        self._tell = tell
        self._verbose = verbose

    def enabled(self, level: int) -> bool:
        return self._verbose and level >= INFO

    def event(self, event: Event, /, *, level: int = INFO, **fields: object) -> None:
        if level >= INFO:
            self._tell(event, fields)

    def failure(
        self, event: Event, error: BaseException, /, *, level: int = INFO, **fields: object
    ) -> None:
        self._tell(event, {**fields, "error": error})


class Manager:
    """The actors of one process, from its start to its end. `mode` is `apply` or `dry-run`."""

    def __init__(
        self,
        world: World,
        pool: Pool,
        name: str,
        *,
        mode: str = "apply",
        host: Host | None = None,
        term: Term | None = None,
    ) -> None:
        """With a `host`, on that machine, and under that term of the lease where it acts."""
        engine = world.engine
        self.world, self.pool, self.name, self.mode = world, pool, name, mode
        self.host, self.term = host, term
        self.process = Process(name)
        self.clock = pool.clock if host is None else host.clock
        self.started_at = engine.now
        self.stopping = False
        self._paused: list[float] = []
        timer: Any = SimTimer(engine, self.process)
        cloud: Any = world.driver(self)
        store: Any = world.store(self)
        if host is not None:
            cloud = netted(cloud, CloudError, "cloud", self._may_send)
            store = netted(store, StoreError, "records", self._may_send)
        self._newest: Plan | None = None
        self.store = store
        self.guarantee = store.guarantee
        self.wishlist_at: float | None = None
        settings = self._effective(pool.settings)
        facts: Any = pool.facts
        journal: Any = self._journal()
        inputs = DaemonInputs(
            manager=name,
            mode=mode,
            guarantee=store.guarantee,
            fence_wait=store.settle_wait,
            repeats_creates=cloud.takes_client_tokens,
            identity=RememberedIdentity(facts, writes=mode == "apply"),
            backlog=RememberedBacklog(facts),
            holds_lease=self._holds,
            token=0 if term is None else term.token,
            show=self._decided,
            run_id=name,
            journal=journal,
        )
        self.daemon = self._actor(
            NodeManagerDaemonActor,
            remote=False,
            settings=settings,
            inputs=inputs,
            timer=timer,
            clock=self.clock,
            log=SimLog(lambda event, fields: world.logged(self, event, fields), world.verbose),
            on_death=world.died,
        )
        daemon: Any = self.daemon
        scheduler = world.scheduler(self)
        context = TeamContext(
            cloud=cloud,
            store=store,
            daemon=daemon,
            timer=timer,
            clock=self.clock,
            on_death=world.died,
            scheduler=scheduler,
        )
        polling = {"context": context, "every": self._polling(settings)}
        self.demand = None
        if scheduler is not None:
            self.demand = self._actor(SchedulerActor, scheduler=scheduler, **polling)
        elif settings.demand_polled:
            self.demand = self._actor(DemandActor, wishlist=lambda: world.wishlist(self), **polling)
        setups = {"context": context, "user_data": lambda record, ping_url: ping_url}
        self.cloud_list = self._actor(CloudNodeListActor, **polling)
        self.record_list = self._actor(RecordListActor, writes=mode == "apply", **polling)
        team = Team(
            self.cloud_list,
            self.record_list,
            self.demand,
            tuple(self._actor(NodeSetupActor, **setups) for _ in range(world.shape.setups)),
            tuple(
                self._actor(NodeShutdownActor, context=context)
                for _ in range(world.shape.shutdowns)
            ),
            tuple(
                self._actor(RecordCleanerActor, context=context)
                for _ in range(world.shape.cleaners)
            ),
        )
        self.daemon.tell(Begin(team))

    def _journal(self) -> Any:
        if self.mode != "apply":
            return MemoryJournal(self.clock)
        if self.host is None or self.term is None:
            return self.pool.journal.pen(self.name)
        return self.pool.journal.shared_pen(self.name, self.host, self.term.token)

    def _holds(self) -> bool:
        """What it knows itself; a lock file is asked for the truth."""
        return self.lease if self.host is None else self.term is None or self.term.holds()

    def _decided(self, seen: DecisionView) -> None:
        """Each decision once; what was ordered since is shown with it again."""
        before, self._newest = self._newest, seen.made
        if seen.made is not before:
            self.world.planned(self, seen.made, seen.snapshot, seen.settings)

    def _may_send(self) -> bool:
        may = self.mode == "apply" and self._holds()
        if may and self.term is not None and self.term.token != self.pool.leases.token:
            self.world.violate("L6", f"{self.name} sends under the token {self.term.token}")
        return may

    def _actor(self, kind: type[RoleActor], *, remote: bool = True, **arguments: Any) -> Mailbox:
        """An actor that was never started: its mailbox is the scheduler's."""
        actor: Any = kind(**arguments)
        engine, process, world = self.world.engine, self.process, self.world

        def receive(message: Any) -> None:
            world.heard(self.name, message)
            try:
                actor.on_receive(message)
            except JournalReplaced:
                world.note(f"{self.name} ends: its journal was replaced")
                self.kill()
                engine.after(SYSTEMD_S, lambda: world.start_again(self.pool))
                raise Killed from None

        def handed(message: Any) -> None:
            for told in world.handed:
                told(self, message)

        deliver = actor.on_receive if remote else receive
        actor._actor_ref = Mailbox(engine, process, deliver, remote=remote, handed=handed)
        box: Mailbox = actor._actor_ref
        return box

    @property
    def lease(self) -> bool:
        """Whether it holds its pool's lock, in truth; a dry run takes none."""
        return self.mode != "apply" or self.pool.holder == self.name

    @property
    def alive(self) -> bool:
        return not self.process.dead

    def kill(self) -> None:
        self.world.engine.kill(self.process)

    def stop(self, ended: Callable[[], None]) -> None:
        """As on SIGTERM: nothing new is begun, what is in the air ends, and the process with it.

        `ended` is called then; systemd kills one that does not come to its end.
        """
        engine = self.world.engine
        self.stopping = True

        def end() -> None:
            if self.alive:
                self.world.note(f"{self.name} has stopped")
                if self.host is not None:
                    self.host.stop()
                self.kill()
                ended()

        for poller in (self.cloud_list, self.record_list, self.demand):
            if poller is not None:
                poller.close()
        self.daemon.tell(Stop("SIGTERM", lambda: engine.after(STOPS_IN_S, end, self.process)))
        engine.after(STOP_LIMIT_S, end)

    def was_paused(self, since: float) -> bool:
        """Whether it stood still after that time: what it had decided was sent after that."""
        return any(until > since for until in self._paused)

    def pause(self, seconds: float) -> None:
        self._paused.append(self.world.engine.now + seconds)
        self.world.engine.pause(self.process, seconds)

    def wake(self) -> None:
        self.world.engine.wake(self.process, early=True)

    def reload(self, settings: Settings) -> None:
        self.daemon.tell(ApplySettings(self._effective(settings)))
        for poller in (self.cloud_list, self.record_list, self.demand):
            if poller is not None:
                poller.tell(self._polling(settings))

    def _polling(self, settings: Settings) -> PollEvery:
        return PollEvery(self.pool.poll_time, settings.max_poll_time, settings.max_retry_after)

    def _effective(self, settings: Settings) -> Settings:
        """As wiring makes them from what the adapters say of themselves."""
        shape = self.world.shape
        return replace(
            settings,
            may_authorise=shape.proven,
            compare_and_set=not shape.fenced,
            tells_drain=not shape.fenced and shape.seated is None,
            seats=shape.seated is not None,
        )
