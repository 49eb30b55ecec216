"""That each node told as lost is gone, was not destroyed by us, and is told once by each run.

And that each node that ends by itself at work is told as lost, where no fault but such ends can
have kept its manager from knowing.
"""

from __future__ import annotations

from collections.abc import Iterator

from nodemanager.core.model.reasons import Event
from nodemanager.core.model.world import Record
from tests.simulation.cloud import Instance
from tests.simulation.debts import Owed
from tests.simulation.liveness import Calm
from tests.simulation.manager import Manager
from tests.simulation.scenario import Scenario
from tests.simulation.world import Pool, World

FAIR = frozenset({"a node dies unseen"})
"""The faults that excuse no silence about a node that was lost."""


class Losses:
    """Holds each `node.lost` against the cloud, and against what was told before."""

    def __init__(self, world: World, fair: Calm, scenario: Scenario) -> None:
        self.world, self.fair = world, fair
        is_ours_alone = scenario.breaks is None and not world.shape.operators_every
        self._is_fair = is_ours_alone and FAIR.issuperset(one.kind for one in scenario.script)
        self._owed: dict[str, tuple[Record, float]] = {}
        """By node that ended at work: its record then, and when."""
        self._sent: set[str] = set()
        """The nodes whose destroy a manager sent, also after their end."""
        self._told: set[tuple[str, str]] = set()
        """By manager and node."""
        self._destroyed: dict[str, tuple[Pool, int]] = {}
        """By node, whose manager sent its destroy, and how often its journal had been lost then."""
        world.events.append(self._logged)
        world.cloud.books.destroyed.append(self._destroy)
        world.cloud.books.ended.append(self._ended)
        world.weather.sent.append(self._send)

    def _destroy(self, one: Instance, by: str) -> None:
        if self.world.cloud.lazy_destroys:
            return
        pool = self.world.managers[by].pool
        sent_at = self.world.weather.sent_at
        self._destroyed[one.id] = pool, sum(at <= sent_at for at in pool.journal.lost_at)

    def _send(self, manager: str, method: str, about: str) -> None:
        if method == "cloud.destroy":
            self._sent.add(about)

    def _ended(self, one: Instance) -> None:
        """Note a node that ends by itself while it works, so that nobody may shut it down."""
        record = self.world.registry.record(one.tags.record or "")
        worked = one.machine is not None and one.machine.was_busy
        if not self._is_fair or not worked or record is None:
            return
        # Another node's id may stand in it, where both ping it.
        if record.instance_id in (None, one.id) and record.incarnation == one.tags.incarnation:
            self._owed[one.id] = record, self.world.engine.now

    def owed(self) -> Iterator[Owed]:
        """That each such node is told as lost, in time to free its slot."""
        told = {node_id for _, node_id in self._told}
        for node_id, (record, ended_at) in self._owed.items():
            pool = self.world.pools.get(record.pool or "")
            if pool is None or node_id in told | self._sent:
                continue
            since = max(ended_at, self.fair.awake(pool))
            within = self.fair.bounds(pool).slot(record)
            what = f"{node_id}, which ended at work, is told as lost"
            yield Owed("NODE_LOST", f"lost {node_id}", what, since, within)

    def _logged(self, manager: Manager, event: Event, fields: dict[str, object]) -> None:
        # One without the lease cannot know what the one that has it did.
        if event is not Event.NODE_LOST or manager.mode != "apply" or not manager.lease:
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
