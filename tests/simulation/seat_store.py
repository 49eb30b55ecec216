"""Slurm's nodes as a manager's record store and scheduler, over lines that may fail.

The store is the real adapter; each scontrol that it starts is a call of its own, and between any
two of them anything may happen. The scheduler is the port, in the words of the real power saving.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nodemanager.clock import Clock
from nodemanager.core.model.features import SIZE_FEATURE
from nodemanager.core.model.scheduling import OURS, SchedulerNode, Verb
from nodemanager.core.model.worker_words import words_of
from nodemanager.core.model.world import Job, Listed, Record
from nodemanager.errors import RemoteError, SchedulerError, SchedulerRefused, StoreRefused
from nodemanager.program import Ended
from nodemanager.records.slurm import SlurmRecordStore
from nodemanager.schedulers.slurm import power
from nodemanager.schedulers.slurm.rows import NodeRow, listing
from tests.simulation.engine import Engine, Strand
from tests.simulation.seats import Controller
from tests.simulation.weather import Line
from tests.simulation.world import Bulletin

if TYPE_CHECKING:
    from tests.simulation.manager import Manager


class Turns:
    """A lock between strands of one process, which one strand may take several times."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._owner: Strand | None = None
        self._depth = 0
        self._waiting: deque[Strand] = deque()

    def __enter__(self) -> None:
        me = Strand.current
        assert me is not None
        while self._owner not in (None, me):
            me.ask(self._waiting.append)
        self._owner, self._depth = me, self._depth + 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth:
            return
        me, self._owner = self._owner, None
        assert me is not None
        if self._waiting and not me.process.dead:
            strand = self._waiting.popleft()
            self._engine.after(0.0, lambda: strand.resume(None), strand.process)


class SeatStore(SlurmRecordStore):
    """The store of one manager, whose listings may be altered by a fault."""

    def __init__(
        self,
        controller: Controller,
        line: Line,
        manager: str,
        bulletin: Bulletin,
        *,
        timeout: float,
        clock: Clock,
        pool: str,
    ) -> None:
        super().__init__(timeout, clock, pool=pool, call=self._called)
        turns: Any = Turns(controller.world.engine)
        self._lock = turns
        self._controller, self._line = controller, line
        self._manager, self._bulletin = manager, bulletin
        self._world = controller.world

    def _called(self, what: str, argv: Sequence[str], timeout: float, **more: Any) -> Ended:
        """scontrol, as program.run runs it: what it may end with, and what it may not."""
        about = ""
        name = "list"
        if "update" in argv:
            named = self._controller.named(argv)
            name, about = "update", self._controller.registry.uuids.get(named or "", "")
        elif "config" in argv:
            name = "time"
        try:
            # With the controller's clock, which is what a question for its time tells.
            _, ended = self._line.call(
                name, lambda: self._controller.run(self._manager, argv, timeout), about
            )
            return ended
        except StoreRefused:
            return Ended(1, b"", "Access/permission denied")
        except RemoteError as error:
            if isinstance(error, SchedulerError):
                raise
            return Ended(1, b"", "Unable to contact slurm controller (connect failure)")

    def list_records(self) -> Listed[Record]:
        started_at = self._world.engine.now
        listed = super().list_records()
        for alter in self._bulletin.alterations:
            listed = alter(listed.items) if listed.complete else listed
        self._bulletin.tell(self._manager, started_at, self._world.engine.now, listed)
        return listed

    def read(self, uuid: str) -> Record | None:
        found = super().read(uuid)
        for heard in self._world.weather.answered:
            heard(self._manager, "store.read", uuid, found)
        return found


class SeatScheduler:
    """The port of SlurmScheduler with `power_saving`, on the model's words."""

    provider = "slurm"
    can = frozenset(Verb)

    def __init__(self, controller: Controller, line: Line, manager: Manager) -> None:
        self._controller, self._line, self._manager = controller, line, manager

    def _listed(self) -> Listed[SchedulerNode]:
        self._controller.look()
        described = self._controller.described
        rows = []
        for node in self._controller.model.nodes.values():
            weight, features = described.get(node.name, (1, ()))
            rows.append(
                NodeRow(
                    node.name,
                    words_of("+".join(node.words)),
                    node.reason[0] if node.reason else "",
                    tuple(dict.fromkeys((f"{SIZE_FEATURE}{node.size}", *features))),
                    weight,
                    1,
                )
            )
        return power.listing(listing(rows))

    def queue(self) -> tuple[Job, ...]:
        def asked() -> tuple[Job, ...]:
            self._manager.wishlist_at = self._controller.world.engine.now
            return power.queue(self._listed().items)

        return self._line.call("queue", asked)

    def nodes(self) -> Listed[SchedulerNode]:
        return self._line.call("nodes", self._listed)

    def _order(self, call: str, node: str, *told: Sequence[str]) -> None:
        def effect() -> None:
            for words in told or ((self._order_to_resume(node),),):
                argv = ("scontrol", "update", f"NodeName={node}", *words)
                _, ended = self._controller.run(self._manager.name, argv, 10.0)
                if ended.returncode != 0 and words[0] not in (power.RESUME, power.POWER_DOWN):
                    raise SchedulerRefused(ended.said)

        self._line.call(call, effect, node)

    def drain(self, node: str, reason: str) -> None:
        self._order("drain", node, ("State=DRAIN", f"Reason={OURS}{reason}"))

    def resume(self, node: str) -> None:
        self._order("resume", node)

    def _order_to_resume(self, name: str) -> str:
        listed = (one for one in self._listed().items if one.name == name)
        return power.order_to_resume(next(listed, None))

    def mark_down(self, node: str, reason: str) -> None:
        """In one go: the real one's two calls are one here, and no job comes in between."""
        self._order("down", node, ("State=DOWN", f"Reason={OURS}{reason}"), ("State=UNDRAIN",))

    def describe(
        self, node: str, weight: int, features: tuple[str, ...], drop: tuple[str, ...] = ()
    ) -> None:
        told = {node: (weight, features)}
        self._line.call("describe", lambda: self._controller.described.update(told), node)

    def comment(self, job: str, text: str) -> None:
        self._line.call("comment", lambda: None, job)

    def cancel(self, job: str) -> None:
        self._line.call("cancel", lambda: None, job)
