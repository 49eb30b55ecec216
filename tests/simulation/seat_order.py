"""Who waits is served before what min_nodes lacks, where Slurm's nodes are the records (U12).

Slurm itself gives each job its node, and tells no order among those that it powers up: so there is
none to hold boots against. What is left of U12 is that no node is powered up for min_nodes beside
one that Slurm waits for, that may be had, and that the same plan does not boot.
"""

from __future__ import annotations

from nodemanager.core.model.scheduling import seat_of
from nodemanager.core.model.settings import Settings
from nodemanager.core.observe.facts import SchedulerSeen
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.plan.errands import SwitchOn
from nodemanager.core.plan.plan import Plan
from tests.simulation.manager import Manager
from tests.simulation.seats import Controller
from tests.simulation.told import Told
from tests.simulation.world import World


class SeatOrder:
    """Watches which nodes a plan has powered up while Slurm waits for others."""

    def __init__(self, world: World, controller: Controller, told: Told) -> None:
        self.world, self.controller, self.told = world, controller, told
        self._waits: dict[str, frozenset[str]] = {}
        """By manager, the nodes that Slurm waited for by the newest answer that its daemon has."""
        world.given.append(self._given)
        world.plans.append(self._planned)

    def _given(self, manager: str, message: object) -> None:
        if isinstance(message, SchedulerSeen) and message.listing.complete:
            wanted = {one.name for one in message.listing.items if one.wanted}
            self._waits[manager] = frozenset(one.host for one in message.jobs if one.host in wanted)

    def _planned(
        self, manager: Manager, plan: Plan, snapshot: Snapshot, settings: Settings
    ) -> None:
        up = [one.node for one in plan.errands if isinstance(one, SwitchOn)]
        if manager.mode != "apply" or not up or plan.breaker.is_open:
            return
        booted = {seat_of(one.record) for one in plan.boots if one.record is not None}
        for name in sorted(self._waits.get(manager.name, frozenset()) - booted):
            if self._may_be_had(name, manager, snapshot):
                what = f"has {up} powered up, and does not boot {name}, which Slurm waits for"
                self.world.violate("U12", f"{manager.name} {what}")

    def _may_be_had(self, name: str, manager: Manager, snapshot: Snapshot) -> bool:
        """Whether its manager knows that nobody has that node's record, nor had it just now."""
        ears = self.told.ears[manager.name]
        cloud, records = ears.newest("cloud"), ears.newest("records")
        if cloud is None or records is None or self.controller.pool_of[name] != manager.pool.name:
            return False
        record = self.controller.registry.of(name)
        shown, uuid = records.items.get(record.uuid), record.uuid
        if shown is None or shown.version != record.version or record.holds_anything:
            return False
        is_kept = shown.held or shown.problems or uuid in snapshot.holds
        is_kept = is_kept or uuid in snapshot.record_flights or uuid in snapshot.touched
        return not is_kept and all(one.tags.record != uuid for one in cloud.items.values())
