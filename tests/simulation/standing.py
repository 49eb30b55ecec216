"""Operators' standing orders, and who is shut down for which cause: O1, O2, O5, O7, D1, D11.

An order counts from when an operator gave it, and no longer than until one took it back, whatever
the manager remembers of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from nodemanager.actors.messages import Ordered
from nodemanager.core.model.reasons import Event, Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import CloudState
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.operate.verbs import Verb
from nodemanager.core.plan.destroy import ShutdownOrder
from nodemanager.core.plan.plan import Plan
from tests.simulation.cleans import EXACT_S
from tests.simulation.manager import Manager
from tests.simulation.told import Ears, Told
from tests.simulation.world import World

ENDS_CORDON = frozenset({Verb.UNCORDON, Verb.RUN, Verb.DRAIN})


class StandingOrders:
    """Watches what operators order of nodes, and the shutdowns that plans order."""

    def __init__(self, world: World, told: Told) -> None:
        self.world, self.told = world, told
        self._given: dict[Verb, set[tuple[str, str]]] = {Verb.KILL: set(), Verb.DRAIN: set()}
        """By verb, pool and node of each order that was given, and not taken back since."""
        self._cordoned: dict[tuple[str, str], int] = {}
        """Pool and node of each cordon that an operator was told of, with the journals lost."""
        self._parked: dict[str, int] = {}
        """Each pool of which an operator was told that it is parked, with the journals lost."""
        self._parks: set[str] = set()
        """The pools that an operator ever ordered to park."""
        self.named_ever: set[str] = set()
        """The nodes of which any operator ever ordered something."""
        world.given.append(self._heard)
        world.events.append(self._logged)
        world.plans.append(self._planned)

    def is_killed(self, pool: str, node_id: str) -> bool:
        """Whether an operator ordered its end, and did not take that back."""
        return (pool, node_id) in self._given[Verb.KILL]

    def _heard(self, manager: str, message: object) -> None:
        """A daemon is given a command: it may have carried it out when it is killed."""
        if not isinstance(message, Ordered):
            return
        verb, pool = message.command.verb, self.world.managers[manager].pool.name
        if verb is Verb.PARK:
            self._parks.add(pool)
        elif verb is Verb.UNPARK:
            self._parked.pop(pool, None)
        if message.command.id is None:
            return
        for node_id in self._named(message.command.id):
            self.named_ever.add(node_id)
            if verb in self._given:
                self._given[verb].add((pool, node_id))
            if verb in ENDS_CORDON:
                self._cordoned.pop((pool, node_id), None)

    def _named(self, name: str) -> Iterator[str]:
        """The nodes that an operator may mean: by id, by name, by their record or its host."""
        records = {one.uuid for one in self.world.registry.records() if one.hostname == name}
        records.add(name)
        for one in self.world.cloud.instances.values():
            machine = one.machine
            pings_as = None if machine is None else machine.uuid
            if name in (one.id, one.name) or not records.isdisjoint((one.tags.record, pings_as)):
                yield one.id

    def _logged(self, manager: Manager, event: Event, fields: dict[str, object]) -> None:
        if manager.mode != "apply" or fields.get("result") != "done":
            return
        of = manager.pool.name, str(fields.get("node"))
        if event is Event.OPERATOR_UNDRAIN:
            for given in self._given.values():
                given.discard(of)
        elif event is Event.OPERATOR_PARK:
            self._parked[manager.pool.name] = manager.pool.journal.lost
        elif event is Event.OPERATOR_CORDON:
            self._cordoned[of] = manager.pool.journal.lost
            self._given[Verb.DRAIN].discard(of)

    def _planned(
        self, manager: Manager, plan: Plan, snapshot: Snapshot, settings: Settings
    ) -> None:
        if manager.mode != "apply":
            return
        pool = manager.pool.name
        if plan.boots and self._parked.get(pool) == manager.pool.journal.lost:
            self.world.violate("O7", f"{manager.name} boots in a pool that is parked")
        for order in plan.shutdowns:
            of = manager.pool.name, order.node_id
            what = f"{manager.name} destroys {order.node_id} ({order.reason.value})"
            if order.reason is Reason.KILLED and of not in self._given[Verb.KILL]:
                self.world.violate("O2", f"{what}, and nobody ordered it")
            if order.reason is Reason.PARKED and pool not in self._parks:
                self.world.violate("O7", f"{what}, and nobody parked the pool")
            if order.reason is Reason.DRAINED and of not in self._given[Verb.DRAIN]:
                self.world.violate("O1", f"{what}, and nobody ordered it")
            is_kept = self._cordoned.get(of) == manager.pool.journal.lost
            if is_kept and order.reason is not Reason.KILLED:
                self.world.violate("O5", f"{what}, which is cordoned")
            self._is_ours(order, what)
            if order.reason is Reason.NODE_STOPPED:
                self._settled(order, self.told.ears[manager.name], settings, what)

    def _is_ours(self, order: ShutdownOrder, what: str) -> None:
        """An untagged node is nobody's until an operator adopts it (D11)."""
        node = self.world.cloud.instances.get(order.node_id)
        if node is not None and node.tags.pool is None and node.by == "somebody":
            self.world.violate("D11", f"{what}, which nobody adopted")

    def _settled(self, order: ShutdownOrder, ears: Ears, settings: Settings, what: str) -> None:
        """D1: the newest complete listings all show it stopped, and for `settle`."""
        since, newest = None, None
        for heard in reversed(ears.cloud):
            if not heard.complete:
                continue
            newest = newest or heard
            node = heard.items.get(order.node_id)
            if node is None or node.state is not CloudState.STOPPED:
                break
            since = heard.started
        if since is None or newest is None:
            self.world.violate("D1", f"{what}, which the newest listing shows at work")
        elif newest.started - since < settings.settle - EXACT_S:
            for_s = newest.started - since
            self.world.violate("D1", f"{what}, listed as stopped for {for_s:.0f} s")
