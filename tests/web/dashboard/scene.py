"""A pool in the middle of a day's work, for browsers and pictures."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nodemanager.core.model.annotations import Mark, Marks
from nodemanager.core.model.reasons import Event
from nodemanager.core.model.world import Job, WorkerState
from nodemanager.journal.event import LoggedEvent
from nodemanager.journal.sqlite import SqliteJournal
from nodemanager.lib.log import INFO
from nodemanager.web.dashboard.history import Sample
from tests.core.build import EPOCH, World, world
from tests.web.dashboard.console import Console

SLOTS = 32
NODES = 20
DRAINED = Mark("Bob", 0.0, "new image")


class Scene:
    """A console with a real socket, which shows `world`; its journal is in `home`."""

    def __init__(
        self, home: Path, nodes: int = NODES, slots: int = SLOTS, public_url: str | None = None
    ) -> None:
        self.world = _pool(nodes, slots)
        self.console = Console(home / "journal.db", public_url=public_url)
        self.console.clock.advance(self.world.now - self.console.clock.boottime())
        self.console.clock.step_wall(EPOCH + self.world.now - self.console.clock.wall())
        self.marks = Marks()
        self.decide()
        journal = SqliteJournal(
            home / "journal.db", pool="main", clock=self.console.clock, boot_id="boot-1"
        )
        for one in _events(self.world):
            journal.tell(one)
        journal.close()
        self.console.history._samples = list(_past(self.world, slots))

    def decide(self) -> None:
        """Another decision, a moment later."""
        for source, items in (("cloud", self.world.nodes), ("records", self.world.records)):
            fields = {"source": source, "items": len(items), "took_s": 0.2}
            self.console.observer.heard(Event.LIST_OK, INFO, fields)
        self.console.decides(self.world, self.marks)
        self.console.clock.advance(self.world.now - self.console.clock.boottime())

    def drain(self, node: str) -> None:
        mark = Mark("Bob", EPOCH + self.world.now - 240.0, "new image")
        self.marks = Marks(drains={node: mark})
        self.world.flags["drains"] = {node: mark}
        self.decide()

    @property
    def url(self) -> str:
        return self.console.server.url


@contextmanager
def scene(
    home: Path, nodes: int = NODES, slots: int = SLOTS, public_url: str | None = None
) -> Iterator[Scene]:
    """The scene on a port of its own, while the context lasts."""
    made = Scene(home, nodes, slots, public_url)
    made.console.server.start()
    try:
        yield made
    finally:
        made.console.server.stop()


def _pool(nodes: int, slots: int) -> World:
    """Most nodes busy, some idle or booting, a few dead ones that hold their slots."""
    made = world().with_settings(max_nodes=nodes + 4, min_nodes=2)
    made.flags |= {"slots": slots}
    for number in range(1, nodes + 1):
        uuid = f"zzzzz-7ekkf-{number:015d}"
        kind = number % 10
        if kind == 4:
            made.add_record(uuid, slot=number, quiet=2400.0 + 60 * number)
            continue
        state = WorkerState.IDLE if kind in (0, 7) else WorkerState.BUSY
        made.add_record(uuid, slot=number, worker_state=state, quiet=5.0)
        size = "t.large" if number % 6 == 0 else "t.small"
        made.add_node(uuid, id=f"i-{0x5EED0000 + number * 7919:08x}", age=300.0 * number, size=size)
    made.flags["demand"] = (*(Job(f"job-{n}", cores=2) for n in range(nodes)), Job("j-big", 99))
    return made


def _events(made: World) -> Iterator[LoggedEvent]:
    at = EPOCH + made.now
    first, second = made.nodes[0], made.nodes[1]
    lost = next(one for one in made.records if one.slot_number == 4)
    names = {"record": lost.uuid, "slot": 4, "host": "compute4"}
    yield LoggedEvent(
        at - 3000, "node.created", node=first.id, host="compute1", more={"size": "small"}
    )
    for number, one in enumerate(made.nodes[:3], start=1):
        yield LoggedEvent(
            at - 2900,
            "node.paired",
            node=one.id,
            host=f"compute{number}",
            record=one.tags.record,
        )
    yield LoggedEvent(at - 2100, "record.keep", "within_window", more={"idle_s": 30.0}, **names)
    yield LoggedEvent(at - 900, "node.setup_started", "wanted", more={"size": "small"})
    yield LoggedEvent(at - 600, "record.cleaned", "stale_slot", more={"idle_s": 7260.0}, **names)
    yield LoggedEvent(
        at - 240, "operator.drain", node=second.id, more={"by": "Bob", "cause": "new image"}
    )


def _past(made: World, slots: int) -> Iterator[Sample]:
    """Six hours of slots, nodes and boots, a sample each minute."""
    end = (EPOCH + made.now) // 60 * 60
    for minute in range(360, 0, -1):
        wave = math.sin(minute / 55) + 0.4 * math.sin(minute / 17)
        used = max(2, round(slots * (0.36 + 0.16 * wave)))
        idle = 1 + round(1.5 + 1.5 * math.cos(minute / 23))
        leaked = 2 + (5 if 130 < minute < 200 else 0) - (2 if minute > 290 else 0)
        booting = 2 if minute % 47 < 6 else 0
        yield Sample(
            end - 60.0 * minute,
            {
                "slots.used": used,
                "slots.idle": idle,
                "slots.leaked": leaked,
                "slots.free": slots - used - idle - leaked,
                "nodes.busy": used - booting,
                "nodes.idle": idle,
                "nodes.booting": booting,
                "nodes.down": leaked // 3,
                "cost.busy": 0.25 * (used - booting),
                "cost.booting": 0.25 * booting,
                "cost.idle": 0.25 * (idle // 2),
                "cost.late": 0.25 * (idle - idle // 2),
                "cost.lost": 0.25 * (leaked // 3),
                "boots.booted": int(minute % 47 == 6) * 2,
                "boots.failed": int(150 < minute < 158),
                "boots.refused": 3 if 120 < minute < 200 else 0,
            },
        )
