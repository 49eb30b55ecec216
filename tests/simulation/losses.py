"""That each node told as lost is gone, was not destroyed by us, and is told once by each run."""

from __future__ import annotations

from nodemanager.core.model.reasons import Event
from tests.simulation.cloud import Instance
from tests.simulation.manager import Manager
from tests.simulation.world import World


class Losses:
    """Holds each `node.lost` against the cloud, and against what was told before."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._told: set[tuple[str, str]] = set()
        """By manager and node."""
        self._destroyed: set[str] = set()
        world.events.append(self._logged)
        world.cloud.books.destroyed.append(self._destroy)

    def _destroy(self, one: Instance, by: str) -> None:
        self._destroyed.add(one.id)

    def _logged(self, manager: Manager, event: Event, fields: dict[str, object]) -> None:
        if event is not Event.NODE_LOST or manager.mode != "apply":
            return
        node_id = str(fields["node"])
        one = self.world.cloud.instances.get(node_id)
        if one is not None and one.lives and not self.world.is_excused(node_id, one.tags.record):
            self._wrong(f"{manager.name} says that {node_id} is lost, which lives")
        elif node_id in self._destroyed:
            self._wrong(f"{manager.name} says that {node_id} is lost, which we destroyed")
        elif (manager.name, node_id) in self._told:
            self._wrong(f"{manager.name} says once more that {node_id} is lost")
        self._told.add((manager.name, node_id))

    def _wrong(self, what: str) -> None:
        self.world.violate("NODE_LOST", what)
