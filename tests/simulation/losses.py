"""That each node told as lost is gone, was not destroyed by us, and is told once by each run."""

from __future__ import annotations

from nodemanager.core.model.reasons import Event
from tests.simulation.cloud import Instance
from tests.simulation.manager import Manager
from tests.simulation.world import Pool, World


class Losses:
    """Holds each `node.lost` against the cloud, and against what was told before."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._told: set[tuple[str, str]] = set()
        """By manager and node."""
        self._destroyed: dict[str, tuple[Pool, int]] = {}
        """By node, whose manager sent its destroy, and how often its journal had been lost then."""
        world.events.append(self._logged)
        world.cloud.books.destroyed.append(self._destroy)

    def _destroy(self, one: Instance, by: str) -> None:
        if self.world.cloud.lazy_destroys:
            return
        pool = self.world.managers[by].pool
        sent_at = self.world.weather.sent_at
        self._destroyed[one.id] = pool, sum(at <= sent_at for at in pool.journal.lost_at)

    def _logged(self, manager: Manager, event: Event, fields: dict[str, object]) -> None:
        if event is not Event.NODE_LOST or manager.mode != "apply":
            return
        node_id = str(fields["node"])
        one = self.world.cloud.instances.get(node_id)
        if one is not None and one.lives and not self.world.is_excused(node_id, one.tags.record):
            self._wrong(f"{manager.name} says that {node_id} is lost, which lives")
        elif self._is_known_as_ours(node_id):
            self._wrong(f"{manager.name} says that {node_id} is lost, which we destroyed")
        elif (manager.name, node_id) in self._told:
            self._wrong(f"{manager.name} says once more that {node_id} is lost")
        self._told.add((manager.name, node_id))

    def _is_known_as_ours(self, node_id: str) -> bool:
        """Whether a manager destroyed it, and its pool's journal was not lost since."""
        pool, losses = self._destroyed.get(node_id, (None, 0))
        return pool is not None and pool.journal.lost == losses

    def _wrong(self, what: str) -> None:
        self.world.violate("NODE_LOST", what)
