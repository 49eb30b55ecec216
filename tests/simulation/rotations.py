"""That outdated nodes are replaced one at a time, each for what is true of it, and all of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import CloudState, WorkerState
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.plan.plan import Plan
from tests.simulation import health
from tests.simulation.cloud import Instance
from tests.simulation.health import Health, Ward
from tests.simulation.manager import Manager
from tests.simulation.nodes import NodeRules
from tests.simulation.work import ROTATED
from tests.simulation.world import Pool, World

NEWS_S = 400.0
"""An order, and the listing behind it, are never this old when a destroy arrives."""


class RotationRules:
    """Watches every destroy of a node in whose place another one comes."""

    def __init__(self, world: World, rules: NodeRules) -> None:
        self.world, self.rules = world, rules
        self._going: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        """By pool and size, the nodes that were destroyed for it."""
        self._replaced: dict[str, dict[str, tuple[float, str]]] = {}
        """By pool and size, when a node was destroyed for it last, and which."""
        self._min_nodes: dict[str, int] = {}
        self._spare: dict[str, dict[str, int]] = {}
        """What each manager's newest plan was to keep, at least, and beyond demand by size."""
        world.cloud.books.destroyed.append(self._destroyed)
        world.plans.append(self._planned)

    def _planned(
        self, manager: Manager, plan: Plan, snapshot: Snapshot, settings: Settings
    ) -> None:
        """No node is chosen that works, and told so in the newest listing of the records."""
        self._min_nodes[manager.name] = settings.min_nodes
        self._spare[manager.name] = {size.name: size.spare_nodes for size in settings.sizes}
        listed = self.rules.told.ears[manager.name].newest("records")
        if manager.mode != "apply" or listed is None or self.world.slurm is not None:
            return
        for order in plan.shutdowns:
            record = listed.items.get(order.record or "")
            if order.reason not in ROTATED or record is None:
                continue
            one = self.world.cloud.instances.get(order.node_id)
            since = None if one is None or one.machine is None else one.machine.busy_since
            works = since is not None and since < listed.started
            if works and record.worker_state is WorkerState.BUSY:
                self._wrong(manager.name, f"would replace {order.node_id}, which works")

    def _destroyed(self, one: Instance, by: str) -> None:
        known = self.rules.order_of(by, one.id, self.world.weather.sent_at)
        if known is None or known[1].reason not in ROTATED:
            return
        pool, size = one.tags.pool or "", one.tags.size or ""
        self._is_outdated(one, by, known[1].reason)
        for other in self._going[pool, size] - {one.id}:
            before = self.world.cloud.instances[other]
            if before.lives and before.state is CloudState.STOPPING:
                self._wrong(by, f"replaces {one.id} while {other} still goes")
        self._is_refilled(one, by)
        self._has_its_turn(one, by)
        if known[1].reason is Reason.OTHER_IMAGE:
            self._is_of_use(one, by)
        self._going[pool, size].add(one.id)

    def _is_outdated(self, one: Instance, by: str, reason: Reason) -> None:
        cloud, now = self.world.cloud, self.world.engine.now
        is_new = one.image == cloud.image and now - cloud.image_changed_at > NEWS_S
        if reason is Reason.OTHER_IMAGE and is_new:
            self._wrong(by, f"replaces {one.id}, which has the image of new nodes")
        if reason is Reason.TOO_OLD:
            limit = self.world.managers[by].pool.settings.max_node_age
            age_s = self.rules.oldest(one, by)
            if limit is not None and age_s < limit:
                self._wrong(by, f"replaces {one.id}, which is {age_s:.0f} s old")

    def _is_refilled(self, one: Instance, by: str) -> None:
        """No node of its size still boots that its manager created."""
        for other in self.world.cloud.living():
            machine = other.machine
            if other is one or machine is None or other.by != by or other.twin:
                continue
            if self._is_excused(other):
                continue
            young = self.world.engine.now - other.created_at < NEWS_S / 4
            alike = (other.tags.pool, other.tags.size) == (one.tags.pool, one.tags.size)
            # The one that comes next may be created while this one's destroy is on its way.
            is_later = other.created_at > self.world.weather.sent_at - NEWS_S / 4
            if alike and young and machine.heard_at is None and not is_later:
                self._wrong(by, f"replaces {one.id} while {other.id} still boots")

    def _has_its_turn(self, one: Instance, by: str) -> None:
        """The pool has created a node since the last one was replaced, or needs one less.

        One that was created for a place that was empty then counts, too. Nodes of two sizes may be
        replaced at the same moment. A destroy that never happened left no place empty.
        """
        pool, size, now = self.world.managers[by].pool, one.tags.size or "", self.world.engine.now
        turns = self._replaced.setdefault(pool.name, {})
        before = [
            at
            for name, (at, id) in turns.items()
            if id != one.id and (name == size or now - at > NEWS_S)
        ]
        turns[size] = now, one.id
        if not before or self.world.broken:
            return
        nodes = [
            node for node in self.world.cloud.instances.values() if node.tags.pool == pool.name
        ]
        if any(node.created_at > max(before) - NEWS_S for node in nodes):
            return
        going = {id for at, id in turns.values() if now - at <= NEWS_S}
        there = [
            node
            for node in nodes
            if node.id in going or (node.lives and node.state is not CloudState.STOPPING)
        ]
        alike = sum(node.tags.size == one.tags.size for node in there)
        spare = self._spare[by].get(size, 0)
        if len(there) < self._min_nodes[by] or (not pool.wanted and alike < spare):
            self._wrong(by, f"replaces {one.id}, and the place of the one before is empty")

    def _is_of_use(self, one: Instance, by: str) -> None:
        """No node that was booted for the wanted image got another one; nor is it that one."""
        for other in self.world.cloud.living():
            if self._is_excused(other):
                continue
            alike = (other.tags.pool, other.tags.size) == (one.tags.pool, one.tags.size)
            heard = other.machine is not None and other.machine.heard_at is not None
            age_s = self.world.engine.now - other.created_at
            # A node that is itself replaced was listed, and its record with it.
            is_known = other is one or (heard and age_s > NEWS_S)
            if alike and is_known and self._is_in_vain(other):
                self._wrong(by, f"replaces {one.id} though {other.id} has the former image")

    def _is_excused(self, other: Instance) -> bool:
        """Whether an assumption is broken for that node: its manager may not know of it."""
        machine = other.machine
        pings_as = None if machine is None else machine.uuid
        return self.world.is_excused(other.id, other.tags.record, pings_as)

    def _is_in_vain(self, one: Instance) -> bool:
        """Whether its record says that it was booted for the wanted image, which it has not."""
        record = self.world.registry.record(one.tags.record or "")
        claim = None if record is None else record.claim
        if record is None or claim is None or record.incarnation != one.tags.incarnation:
            return False
        # Of two that bear its tags nobody knows which one it is (P2).
        bear = (
            other
            for other in self.world.cloud.instances.values()
            if other.tags.incarnation == one.tags.incarnation
            and (other.ended_at is None or self.world.engine.now - other.ended_at < NEWS_S)
        )
        is_its_own = not one.twin and (claim.node_id or one.id) == one.id and len(list(bear)) == 1
        return is_its_own and claim.image == self.world.cloud.image != one.image

    def _wrong(self, by: str, what: str) -> None:
        self.world.violate("D15", f"{by} {what}")

    def left(self, pool: Pool, seen: Ward) -> int:
        """How many idle outdated nodes should be replaced one after the other; never too many.

        None while the pool is not as it should be: then something else comes first.
        """
        cloud = self.world.cloud
        if not cloud.traits.images:
            return 0
        at_rest = all(one.health in (Health.SERVING, Health.HELD) for one in seen.patients)
        _, high = health.wanted(self.world, pool)
        spare = sum(size.spare_nodes for size in pool.settings.sizes)
        if not at_rest or seen.bereft or seen.others or high > spare:
            return 0
        if seen.free_slots <= 0 and self._lacks_slot(pool, seen):
            # That of one that goes may be taken by somebody else.
            return 0
        if health.lacking(self.world, pool, seen) or health.surplus(self.world, pool, seen):
            return 0
        if not health.may_replace(pool, seen):
            # While no node can be had, none goes.
            return 0
        names = {size.name for size in pool.settings.sizes}
        old = [
            one
            for one in seen.idle
            if one.paired
            and one.node.image not in (None, cloud.image)
            and one.node.tags.size in names
            and one.node.tags.pool == pool.name
        ]
        return len(old)

    def _lacks_slot(self, pool: Pool, seen: Ward) -> bool:
        """Whether a node is lacking for which there is no slot, be it a spare of one size only."""
        idle = Counter(one.node.tags.size for one in seen.idle)
        spares = any(idle[size.name] < size.spare_nodes for size in pool.settings.sizes)
        return spares or health.lacking(self.world, pool, replace(seen, free_slots=1)) > 0
