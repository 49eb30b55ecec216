"""A manager's records of Slurm's nodes, and its scheduler, over lines that may fail.

Between any two calls anything may happen. The scheduler is the port, in the words of the real power
saving.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from nodemanager.core.model.features import SIZE_FEATURE
from nodemanager.core.model.scheduling import OURS, SchedulerNode, SchedulerVerb, is_drained_by_us
from nodemanager.core.model.worker_words import words_of
from nodemanager.core.model.world import Claim, Job, Listed, Record
from nodemanager.errors import (
    Conflict,
    SchedulerRefused,
    StoreError,
    StoreRefused,
    before_writing,
)
from nodemanager.lib.clock import Clock
from nodemanager.lib.program import ProgramResult
from nodemanager.records import seats
from nodemanager.records.slurm_nodes import SlurmNode, SlurmNodes
from nodemanager.schedulers.slurm import power
from nodemanager.schedulers.slurm.rows import SinfoNode, listing
from tests.simulation.registry import CasStore
from tests.simulation.seats import Controller
from tests.simulation.weather import Line
from tests.simulation.world import Bulletin

if TYPE_CHECKING:
    from tests.simulation.manager import Manager

TIMEOUT_S = 10.0
AS_IT_IS = "Invalid node state"


class SeatStore(CasStore):
    """The records of one manager: rows that compare, and what slurmctld says, over two lines.

    It does what records/slurm.py does; whose slurmd is whose life, the real code says.
    """

    provider = "slurm"
    tells_drain = False

    def __init__(
        self,
        controller: Controller,
        line: Line,
        slurm_line: Line,
        manager: str,
        bulletin: Bulletin,
        *,
        clock: Clock,
    ) -> None:
        super().__init__(controller.registry, line, manager, bulletin, clock=clock)
        self._controller, self._slurm_line = controller, slurm_line
        self._seats = controller.registry
        self._slurm = SlurmNodes(TIMEOUT_S, call=self._called)
        self._relayed_ns: int | None = None

    def _called(self, what: str, argv: Sequence[str], timeout: float, **more: Any) -> ProgramResult:
        """scontrol, as program.run runs it."""
        name = "config" if "config" in argv else "relay"
        _, ended = self._slurm_line.call(
            name, lambda: self._controller.run(self._manager, argv, timeout)
        )
        return ended

    def list_records(self) -> Listed[Record]:
        asked_at = self._seats.engine.now
        try:
            told, found = self._slurm.controller(), self._slurm.all()
        except StoreError:
            return super().list_records()

        def look() -> tuple[Record, ...]:
            self._relayed_ns = self._seats.relay(found, told.slurmd_timeout, asked_at)
            return self._seats.listing()

        return self._listed_by(look)

    def read(self, uuid: str) -> Record | None:
        asked_at, node = self._seats.engine.now, None
        with suppress(StoreError):
            node = self._slurm.one(self._seats.names[uuid])

        def effect() -> Record | None:
            row = self._seats.rows[uuid]
            if node is not None and seats.is_unheard(row, node, self._relayed_ns):
                self._seats.relay((node,), None, asked_at)
            return self._seats.record(uuid)

        return self._line.call("read", effect, uuid)

    def claim(self, record: Record, claim: Claim) -> Record:
        if record.incarnation == claim.incarnation:
            return super().claim(record, claim)
        with before_writing():
            node = self._node(record)

        def effect() -> Record:
            row = self._row_at(record)
            if not record.holds_anything and not node.may_come:
                raise Conflict(f"{node.name} is {sorted(node.words)} in Slurm")
            known = seats.at_claim(row, node).info
            return self._claim(record, claim, known)

        return self._line.call("claim", effect, record.uuid)

    def clean(self, record: Record, reason: str) -> Record:
        with before_writing():
            node = None if record.claim is None else self._node(record)

        def effect() -> Record:
            row = self._row_at(record)
            if node is not None and seats.is_unheard(row, node, self._relayed_ns):
                raise Conflict(f"a slurmd has registered as {node.name}")
            return self._clean(record, reason)

        return self._line.call("clean", effect, record.uuid)

    def _node(self, record: Record) -> SlurmNode:
        node = self._slurm.one(self._seats.names[record.uuid])
        assert node is not None
        return node

    def create(self, claim: Claim) -> Record:
        raise AssertionError("a boot takes a seat that is there")

    def delete(self, record: Record) -> None:
        raise StoreRefused("the records of this store are the nodes of slurm.conf")

    def ping_url(self, record: Record) -> str:
        assert record.hostname is not None
        return record.hostname

    def probe(self) -> bool:
        try:
            return not self._slurm.controller().has_just_started
        except StoreError:
            return False


class SeatScheduler:
    """The port of SlurmScheduler with `power_saving`, on the model's words."""

    provider = "slurm"
    can = frozenset(SchedulerVerb)

    def __init__(self, controller: Controller, line: Line, manager: Manager) -> None:
        self._controller, self._line, self._manager = controller, line, manager

    def _listed(self) -> Listed[SchedulerNode]:
        self._controller.look()
        described = self._controller.described
        rows = []
        for node in self._controller.model.nodes.values():
            weight, features = described.get(node.name, (1, ()))
            rows.append(
                SinfoNode(
                    node.name,
                    words_of("+".join(node.words)),
                    node.reason[0] if node.reason else "",
                    tuple(dict.fromkeys((f"{SIZE_FEATURE}{node.size}", *features))),
                    weight,
                    1,
                    started_at=node.start,
                )
            )
        if not self._controller.seated.second_pool:
            return power.listing(listing(rows))
        partitions = {
            name: frozenset(
                of for of, names in self._controller.model.partitions.items() if name in names
            )
            for name in self._controller.model.nodes
        }
        return power.listing(listing(rows), partitions, frozenset({self._manager.pool.name}))

    def queue(self) -> tuple[Job, ...]:
        def asked() -> tuple[Job, ...]:
            self._manager.wishlist_at = self._controller.world.engine.now
            return power.queue(self._listed().items)

        return self._line.call("queue", asked)

    def nodes(self) -> Listed[SchedulerNode]:
        return self._line.call("nodes", self._listed)

    def drain(self, node: str, reason: str) -> None:
        self._order("drain", node, ("State=DRAIN", f"Reason={OURS}{reason}"))

    def _order(self, call: str, node: str, words: Sequence[str]) -> None:
        def effect() -> None:
            argv = ("scontrol", "update", f"NodeName={node}", *words)
            _, ended = self._controller.run(self._manager.name, argv, TIMEOUT_S)
            if ended.returncode != 0 and AS_IT_IS not in ended.said:
                raise SchedulerRefused(ended.said)

        self._line.call(call, effect, node)

    def resume(self, node: str) -> None:
        known = self._known(node)
        if known.draining and not is_drained_by_us(known):
            raise SchedulerRefused("somebody else drained it")
        self._tell("resume", node, power.orders_to_resume(known))

    def mark_down(self, node: str, reason: str, *, had_joined: bool = False) -> bool:
        known = self._known(node)
        self._tell("down", node, power.orders_to_switch_off(known, had_joined=had_joined))
        return not power.is_left_to_the_next(known, had_joined)

    def power_up(self, node: str) -> None:
        self._tell("up", node, power.orders_to_switch_on(self._known(node)))

    def _known(self, name: str) -> SchedulerNode:
        """What the real one looks at right before its order, in a call of its own."""
        return next(one for one in self.nodes().items if one.name == name)

    def _tell(self, call: str, node: str, orders: Sequence[str]) -> None:
        for order in orders:
            self._order(call, node, (order,))

    def describe(
        self, node: str, weight: int, features: tuple[str, ...], drop: tuple[str, ...] = ()
    ) -> None:
        told = {node: (weight, features)}
        self._line.call("describe", lambda: self._controller.described.update(told), node)

    def comment(self, job: str, text: str) -> None:
        self._line.call("comment", lambda: None, job)

    def cancel(self, job: str) -> None:
        self._line.call("cancel", lambda: None, job)
