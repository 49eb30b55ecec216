"""The whole team of real actors on fakes, with time in the test's hands.

    rig = make_rig(min_nodes=2)
    rig.turn(120)
    assert rig.lines("node.paired")

`turn` moves the clock from reminder to reminder and lets every mailbox run empty in between; no
test sleeps. `kill` is kill -9: what was in the air is lost, and the fakes live on.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pykka

from nodemanager.actors.base import tell
from nodemanager.actors.daemon.context import DaemonInputs, RunOnce
from nodemanager.actors.daemon.remembered import RememberedBacklog, RememberedIdentity
from nodemanager.actors.messages import ApplySettings, Stop
from nodemanager.app import adapters, wiring
from nodemanager.app.from_config import settings_of
from nodemanager.app.state import StateDirectory
from nodemanager.config import load
from nodemanager.core.explain.explain import APPLY, DRY_RUN, DecisionView
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import CloudNode, Job, Record, Size
from nodemanager.journal.api import Journal
from nodemanager.journal.logged import EventRecorder
from nodemanager.lib import log
from nodemanager.web.metrics import Metrics
from tests.actors.mailboxes import Mailboxes
from tests.fakes import FakeCloud, FakeStore, Fleet, TickingClock
from tests.fakes.fleet import PING_EVERY_S
from tests.fakes.journal import MemoryJournal
from tests.fakes.scheduler import FakeScheduler
from tests.fakes.timer import ManualTimer
from tests.waiting import busy

CLEANING = {
    "absent_listings",
    "action_timeout",
    "adopt_unclaimed",
    "backlog",
    "claim_expiry",
    "collapse_fraction",
    "max_cleans_per_cycle",
    "max_retry_after",
    "max_shutdowns_per_cycle",
    "prune_after",
    "settle",
    "visible_after",
}
CLOUD = {"max_creates", "shutdown_windows"}
ANSWER_WITHIN_S = 30.0
LONG_S = 1200.0
"""Longer turns poll seldom in their midst: at most every SELDOM_S, between two EDGE_S as ever."""
EDGE_S = 240.0
SELDOM_S = 180.0


class Lines(logging.Handler):
    """Keeps the fields of every line."""

    def __init__(self) -> None:
        super().__init__()
        self.fields: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        fields = log.fields_of(record)
        if fields:
            self.fields.append(fields | {"level": record.levelname.lower()})


class Rig:
    """One daemon on fakes. Options are those of the configuration file, by name."""

    def __init__(
        self,
        directory: Path,
        mailboxes: Mailboxes,
        *,
        cloud: FakeCloud,
        store: FakeStore,
        journal: Journal | None = None,
        **options: object,
    ) -> None:
        self.directory = directory
        self.clock = cloud.clock
        assert isinstance(self.clock, TickingClock)
        self.cloud = cloud
        self.store = store
        self.journal = journal or MemoryJournal(self.clock)
        self.fleet = Fleet(cloud, store)
        self.jobs: tuple[Job, ...] | None = None
        self.sizes: tuple[Size, ...] = ()
        """The `[Size]` sections; without any, all that the cloud has."""
        self.places: tuple[str, ...] = ()
        """Where every size is booted; the configured provider itself has one place."""
        self.jobs_fail: list[Exception] = []
        self.scheduler: FakeScheduler | None = None
        """Whom the daemon asks, where the test's fixture `scheduler` is its scheduler."""
        self.deaths: list[tuple[str, BaseException]] = []
        self.codes: list[int] = []
        self.lease = True
        self.polls_seldom = True
        """Whether long turns poll seldom in their midst."""
        self.may_violate = False
        """Whether lines of `invariant.broken` are what the test is about."""
        self.stopped: list[str] = []
        self.shown: DecisionView | None = None
        """What the web is shown."""
        self.out = Lines()
        self.metrics = Metrics("rig", self.clock)
        self.timer = ManualTimer(self.clock)
        self._mailboxes = mailboxes
        self._options = options
        self._next_ping = self.clock.boottime()
        self._poll_time: float | None = None
        self._system: wiring.System | None = None
        logger = logging.getLogger("nodemanager")
        # DEBUG has a line a cycle for all that is kept.
        logger.setLevel(logging.INFO)
        logger.addHandler(self.out)

    def close(self) -> None:
        logger = logging.getLogger("nodemanager")
        logger.removeHandler(self.out)
        logger.setLevel(logging.NOTSET)

    # Start and end.

    def start(self, *, dry_run: bool = False, once: bool = False, mode: str = APPLY) -> Rig:
        """Start the team as the service does. The first polls are done when this returns."""
        mode = DRY_RUN if dry_run else mode
        self._poll_time = None
        state = StateDirectory(self.directory / "state", clock=self.clock)
        config = load(self._file(), environ={})
        settings = settings_of(config, self.cloud, self.store)
        if self.places:
            sizes = tuple(replace(size, places=self.places) for size in settings.sizes)
            settings = replace(settings, sizes=sizes)
        told = log.get("nodemanager.daemon")
        told.listeners = [self.metrics.heard, EventRecorder(self.journal, self.clock).heard]
        inputs = DaemonInputs(
            manager="host:1",
            journal=self.journal,
            identity=RememberedIdentity(state, writes=mode == APPLY),
            backlog=RememberedBacklog(state),
            mode=mode,
            holds_lease=lambda: self.lease,
            show=self._show,
            once=RunOnce(self.codes.append) if once else None,
        )
        self._system = wiring.start_actors(
            config,
            self.cloud,
            adapters.RecordService(self.store),
            settings,
            inputs,
            timer=self.timer,
            clock=self.clock,
            log=told,
            on_death=lambda actor, error: self.deaths.append((actor, error)),
            wishlist=None if self.jobs is None else self._wishlist,
        )
        self.flush()
        return self

    def _show(self, decision: DecisionView) -> None:
        self.shown = decision

    def kill(self) -> None:
        """End the process, as kill -9 would: no goodbye, and the timer's memory is gone."""
        for actor in self.system.actors:
            actor.stop(block=True)
        self.timer = ManualTimer(self.clock)
        self._system = None

    def ask_to_stop(self) -> None:
        self.system.daemon.tell(Stop("test", lambda: self.stopped.append("done")))
        self.flush()

    def apply(self, settings: Settings) -> None:
        """What SIGHUP does with a new file's windows and limits."""
        self.system.daemon.tell(ApplySettings(settings))
        self.flush()

    def change_polling(self, poll_time: float) -> None:
        """What SIGHUP does with a new file's poll times."""
        self._poll_time = poll_time
        self._poll_no_oftener_than(0.0)

    def _poll_no_oftener_than(self, poll_time: float) -> None:
        """Make that the shortest time between two polls of a source."""
        system, team = self.system, self.system.team
        pollers = (team.cloud_list, team.record_list, team.demand)
        intervals = wiring.poll_intervals(system.config, system.settings)
        for poller, every in zip(pollers, intervals, strict=True):
            if poller is not None:
                is_list = poller is not team.demand
                usual = self._poll_time if is_list and self._poll_time else every.poll_time
                tell(poller, replace(every, poll_time=max(poll_time, usual)))
        self.flush()

    @property
    def is_running(self) -> bool:
        return self._system is not None

    @property
    def system(self) -> wiring.System:
        assert self._system is not None, "not started"
        return self._system

    def _wishlist(self) -> tuple[Job, ...]:
        if self.jobs_fail:
            raise self.jobs_fail.pop()
        return self.jobs or ()

    def _file(self) -> Path:
        """The configuration file of these options; `poll_time` is 30 s unless they say.

        A few of each kind of worker: with the daemon's usual 16 a start would be of 48 threads.
        """
        options = {"poll_time": 30, "max_nodes": 8, "min_nodes": 0, "max_creates": 4}
        options |= self._options
        cleaning = {key: value for key, value in options.items() if key in CLEANING}
        cloud = {key: value for key, value in options.items() if key in CLOUD}
        daemon = {
            key: value for key, value in options.items() if key not in CLEANING and key not in CLOUD
        }
        sections = {
            "Daemon": {"pool": self.cloud.pool, "state_dir": self.directory / "state"} | daemon,
            "Cloud": {"provider": "dummy", "shutdown_windows": "0, 999999"} | cloud,
            "Cleaning": cleaning,
            "Registry": {"slots": max(1, len(self.store.slot_numbers))},
        }
        text = ""
        for title, section in sections.items():
            text += f"[{title}]\n"
            text += "".join(f"{key} = {value}\n" for key, value in section.items())
        for size in self.sizes:
            text += f"[Size {size.name}]\ninstance_type = {size.instance_type}\n"
            text += f"price = {size.price}\npreemptible = {'yes' if size.preemptible else 'no'}\n"
            text += f"spare_nodes = {size.spare_nodes}\n"
        path = self.directory / "rig.cfg"
        path.write_text(text, encoding="utf-8")
        return path

    # Time.

    def turn(self, seconds: float) -> None:
        """Let that much time pass. In the midst of a long one all is polled less often."""
        end = self.clock.boottime() + seconds
        if seconds >= LONG_S and self.polls_seldom and self.is_running:
            self._turn_to(self.clock.boottime() + EDGE_S)
            self._poll_seldom()
            self._turn_to(end - EDGE_S)
            self._poll_no_oftener_than(0.0)
        self._turn_to(end)

    def _poll_seldom(self) -> None:
        self._poll_no_oftener_than(min(SELDOM_S, self.system.settings.poll_stale_after / 3))

    def _turn_to(self, end: float) -> None:
        while True:
            due = self.timer.next_due
            reminded = due is not None and due <= self._next_ping
            at = due if reminded and due is not None else self._next_ping
            if at > end:
                break
            self.clock.advance_to(at)
            if reminded:
                self.timer.fire_next()
                self.flush()
            else:
                self._next_ping += PING_EVERY_S
                self.fleet.beat()
        self.clock.advance_to(end)

    def turn_until(self, event: str, *, within: float, **fields: object) -> dict[str, Any]:
        """Let time pass until a new line of that event; the line. Fails when none comes."""
        before = len(self.lines(event, **fields))
        began, is_seldom = self.clock.boottime(), False
        while (waited_s := self.clock.boottime() - began) < within:
            is_long = within >= LONG_S and self.polls_seldom
            if is_long and waited_s > EDGE_S and not is_seldom:
                is_seldom = True
                self._poll_seldom()
            self._turn_to(self.clock.boottime() + 5)
            found = self.lines(event, **fields)
            if len(found) > before:
                if is_seldom:
                    self._poll_no_oftener_than(0.0)
                return found[before]
        raise AssertionError(f"no {event} {fields} within {within} s")

    def flush(self) -> None:
        """Return when no actor is at work and every mailbox is empty."""
        if not self._mailboxes.rest(ANSWER_WITHIN_S):
            more = ANSWER_WITHIN_S * (busy() - 1.0)
            assert self._mailboxes.rest(more), "an actor is still at work"

    # What can be seen.

    def lines(self, event: str, **fields: object) -> list[dict[str, Any]]:
        """The fields of the lines of that event that have these values, oldest first."""
        return [
            line
            for line in self.out.fields
            if line["event"] == event
            and all(line.get(key) == value for key, value in fields.items())
        ]

    def reasons(self, event: str, **fields: object) -> list[str]:
        return [str(line.get("reason")) for line in self.lines(event, **fields)]

    def violations(self) -> list[dict[str, Any]]:
        """Lines of rules found broken, but for false cleans, which have a line of their own."""
        return [line for line in self.lines("invariant.broken") if line["rule"] != "U8"]

    def summary(self) -> dict[str, Any]:
        """The last cycle's counts."""
        return self.lines("cycle.done")[-1]

    def forget_lines(self) -> None:
        self.out.fields.clear()

    def forget_calls(self) -> None:
        for fake in (self.cloud, self.store):
            fake.calls.clear()
            fake.writes.clear()

    @property
    def records(self) -> list[Record]:
        return list(self.store.rows.values())

    @property
    def nodes(self) -> list[CloudNode]:
        """What really runs."""
        return [machine.node for machine in self.cloud.living()]


def memory(rig: Rig) -> MemoryJournal:
    """Its journal, which is kept in memory."""
    assert isinstance(rig.journal, MemoryJournal)
    return rig.journal


def until(rig: Rig, event: str, *, within: float, **fields: object) -> dict[str, Any]:
    """The first line of that event since lines were last forgotten; it may be there already."""
    found = rig.lines(event, **fields)
    return found[0] if found else rig.turn_until(event, within=within, **fields)


def restart(rig: Rig) -> None:
    """The next run, which nothing was seen of yet."""
    if rig.is_running:
        rig.kill()
    rig.forget_lines()
    rig.forget_calls()
    rig.start()


def ping(rig: Rig, record: Record) -> None:
    """A ping of the record's own node, with the secret it has now."""
    secret = rig.store.rows[record.uuid].ping_secret
    assert secret is not None
    rig.store.ping(record.uuid, secret, instance_id=record.instance_id)


def rigs(directory: Path, monkeypatch: Any) -> Iterator[Any]:
    """A factory of started rigs, all ended afterwards.

    Here no machine loses its power, so nothing waits for the disk.
    """
    monkeypatch.setattr("nodemanager.app.state.os.fsync", lambda file: None)
    mailboxes = Mailboxes(monkeypatch)
    monkeypatch.setattr(log.Logger, "strict", True)
    made: list[Rig] = []

    def make(
        *,
        cloud: FakeCloud | None = None,
        store: FakeStore | None = None,
        journal: Journal | None = None,
        **options: object,
    ) -> Rig:
        clock = TickingClock() if cloud is None else cloud.clock
        cloud = cloud or FakeCloud(clock)
        store = store or FakeStore(clock)
        rig = Rig(directory, mailboxes, cloud=cloud, store=store, journal=journal, **options)
        made.append(rig)
        return rig

    yield make
    pykka.ActorRegistry.stop_all(timeout=10)
    for rig in made:
        rig.close()
    broken = [line for rig in made if not rig.may_violate for line in rig.violations()]
    assert not broken, broken
    unexpected = [death for rig in made for death in rig.deaths]
    assert not unexpected, unexpected
