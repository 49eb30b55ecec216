"""What holds where a scheduler gives out the work, judged by what each machine does in truth.

No node is destroyed as idle while it works, and none for another reason whose work showed in the
last look (D12, D2); no living node's work is ended by marking it down; in the calm each job is run,
and what nobody wants goes. A destroy may hit a job that began on a node whose drain somebody else
ended behind the last look.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.scheduling import OURS
from tests.simulation import health
from tests.simulation.bounds import Bounds
from tests.simulation.cloud import Instance
from tests.simulation.debts import NEVER, Owed
from tests.simulation.health import Health
from tests.simulation.nodes import NodeRules
from tests.simulation.slurm import GIVEN_UP_AFTER_S, TIMEOUT_S, Node, is_up
from tests.simulation.world import Pool, World

if TYPE_CHECKING:
    from tests.simulation.latch import Latch
    from tests.simulation.liveness import Calm
    from tests.simulation.truth import Truth

AS_IDLE = frozenset({Reason.IDLE_BEYOND_DEMAND, Reason.DRAINED, Reason.NOTICED, Reason.PARKED})
PLANNED_S = 120.0
"""From the plan to its claim: calls that are slow."""
BOOTS_S = 150.0
"""The longest boot in fair weather, and until its node has a job."""


class Dispatches:
    """Watches destroys and marks, and what the calm still owes."""

    def __init__(
        self, world: World, rules: NodeRules, truth: Truth, calm: Calm, latch: Latch
    ) -> None:
        assert world.slurm is not None
        self.world, self.slurm, self.rules, self.truth = world, world.slurm, rules, truth
        self.calm, self.latch = calm, latch
        self._asked: dict[str, list[float]] = defaultdict(list)
        """By manager, when each question for the nodes was sent."""
        self._told: dict[str, list[float]] = defaultdict(list)
        """By manager, when it was answered what nodes there are."""
        self._idle_since: dict[str, float] = {}
        world.cloud.books.created.append(self._created)
        world.cloud.books.destroyed.append(self._destroyed)
        world.weather.answered.append(self._answered)
        world.weather.sent.append(self._sent)
        self.slurm.marked.append(self._marked)

    def _sent(self, manager: str, method: str, about: str) -> None:
        if method == "scheduler.nodes":
            self._asked[manager].append(self.world.engine.now)

    def _answered(self, manager: str, method: str, about: str, result: object) -> None:
        if method == "scheduler.nodes":
            self._told[manager].append(self.world.engine.now)

    def _created(self, made: Instance, by: str) -> None:
        """Under a name that its manager was told by then that the scheduler lacks (U12).

        Where two pools share the names, one may take the name that the other looked for; where the
        store may give any slot, no manager can know.
        """
        record = self.world.registry.record(made.tags.record or "")
        since = self.slurm.lacks.get((record and record.hostname) or "")
        names_known = self.world.managers[by].pool.settings.hostname is not None
        if record is None or since is None or len(self.world.pools) > 1 or not names_known:
            return
        claimed = self.truth.claim_sent_at[made.tags.incarnation or ""]
        if any(since + TIMEOUT_S < at < claimed - PLANNED_S for at in self._told[by]):
            what = f"{by} boots {made.id} as {record.hostname}, which the scheduler lacks"
            self.world.violate("U12", what)

    def _node_of(self, one: Instance) -> Node | None:
        nodes = self.slurm.nodes.values()
        return next((node for node in nodes if node.machine is one.machine), None)

    def _destroyed(self, one: Instance, by: str) -> None:
        sent_at = self.world.weather.sent_at
        known, node = self.rules.order_of(by, one.id, sent_at), self._node_of(one)
        if known is None or node is None:
            return
        reason, began = known[1].reason, node.works_since
        if reason in AS_IDLE and self._last_asked(by, sent_at) < known[0]:
            self.world.violate("D2", f"{by} destroys {one.id} as idle, and asked nobody again")
        if began is None:
            return
        if reason in AS_IDLE:
            looked_at = self._last_asked(by, sent_at)
            if self.slurm.forgotten.get(node.name, 0.0) < looked_at:
                self._hit(one, by, began, f"as {reason.value}")
        elif reason is not Reason.KILLED and began < known[0] and node.answers and is_up_for(one):
            # It is looked at once more after the order, and its work showed then, also where its
            # record is gone (D7).
            self._hit(one, by, began, f"as {reason.value}, and the scheduler hears it")

    def _last_asked(self, by: str, sent_at: float) -> float:
        return max((at for at in self._asked[by] if at <= sent_at), default=0.0)

    def _marked(self, node: Node, by: str) -> None:
        began, machine = node.works_since, node.machine
        if began is None or machine is None or not is_up(machine) or machine.busy_since is None:
            return
        # A late order may reach the next node of that name (LATE_ORDER_S).
        if began < self.world.weather.sent_at:
            self._hit(machine.instance, by, began, "by marking it down")

    def _hit(self, one: Instance, by: str, began: float, how: str) -> None:
        works_s = self.world.engine.now - began
        self.world.violate("WORK", f"{by} ends {one.id}, at work for {works_s:.0f} s, {how}")

    # The calm.

    def owed(self) -> Iterator[Owed]:
        for pool in self.world.pools.values():
            bounds = self.calm.bounds(pool)
            since = max(self.calm.awake(pool), self.latch.open_until.get(pool.name, 0.0))
            since = max(since, self.slurm.ended_at[pool.name])
            at_work = self._at_work(pool)
            if at_work:
                yield Owed("PROGRESS", f"work {pool.name}", "jobs run", since, NEVER)
            yield from self._jobs(pool, bounds, since, at_work)
            yield from self._drains(pool, bounds, since)
            yield from self._idle(pool, bounds, since)

    def _at_work(self, pool: Pool) -> int:
        nodes = self.slurm.nodes.values()
        return sum(node.works_since is not None and node.pool is pool for node in nodes)

    def _jobs(self, pool: Pool, bounds: Bounds, since: float, at_work: int) -> Iterator[Owed]:
        # Spare nodes are wanted, and run nothing.
        low, _ = health.jobs_wanted(self.world, pool)
        if not low or at_work >= pool.settings.max_nodes:
            return
        seen = health.ward(self.world, pool)
        is_full = seen.free_slots <= 0 or seen.others >= pool.settings.max_nodes
        if is_full and not [one for one in seen.of(Health.SERVING) if self._is_idle(one.node)]:
            # Others have the room; what they leak is owed by itself.
            return
        if any(self._takes_none(node) for node in self.slurm.nodes.values()):
            return
        count = self.slurm.started[pool.name]
        what = f"{pool.name} runs one of {pool.wanted} jobs that wait, after {count}"
        yield Owed("PROGRESS", f"job {pool.name} {count}", what, since, self._runs(pool, bounds))

    def _takes_none(self, node: Node) -> bool:
        """Whether it is a node from before without tags, up and idle: a manager counts on it, and
        the model, which goes by tags, gives it no pool's job."""
        return node.is_free and node.machine is not None and node.machine.instance.tags.pool is None

    def _runs(self, pool: Pool, bounds: Bounds) -> float:
        """Every node that is in its way ends first, and its slot is free; then one boots."""
        settings = pool.settings
        ends = max(bounds.silent(settings.max_nodes, pinged=True), bounds.unpaired(3))
        slot = settings.claim_window + settings.settle + bounds.rounds(6)
        rest = settings.boot_fail_after * 4
        return ends + slot + bounds.wanted(rest) + BOOTS_S + self.slurm.dispatching.every

    def _drains(self, pool: Pool, bounds: Bounds, since: float) -> Iterator[Owed]:
        """A drain of ours is taken back while jobs wait that its node could run."""
        if not pool.wanted:
            return
        patients = {one.node: one for one in health.ward(self.world, pool).patients}
        for node in self.slurm.nodes.values():
            machine = node.machine
            if machine is None or node.drained is None or not node.drained.startswith(OURS):
                continue
            one = patients.get(machine.instance)
            if one is None or one.health is not Health.SERVING or not one.paired:
                continue
            within = bounds.rounds(4) + pool.settings.action_timeout + 60.0
            what = f"{node.name} gets work again, or goes: it is drained, and jobs wait"
            yield Owed("PROGRESS", f"drain {node.name} {machine.instance.id}", what, since, within)

    def _idle(self, pool: Pool, bounds: Bounds, since: float) -> Iterator[Owed]:
        """Idle nodes beyond min_nodes and spare_nodes go once nothing waits, each after a drain."""
        if pool.wanted:
            return
        seen = health.ward(self.world, pool)
        serving = [one for one in seen.of(Health.SERVING) if one.paired]
        idle = [one for one in serving if self._is_idle(one.node)]
        there = Counter(one.node.tags.size for one in idle)
        spare = sum(min(there[one.name], one.spare_nodes) for one in pool.settings.sizes)
        over = min(len(idle) - spare, len(serving) - pool.settings.min_nodes)
        if over <= 0:
            return
        words = (pool.settings.consecutive_idle_count + 3) * bounds.round_s
        late = GIVEN_UP_AFTER_S + 120.0 + pool.settings.action_timeout
        within = words + bounds.surplus + late
        what = f"one of {over} idle nodes of {pool.name} drains and goes"
        yield Owed("PROGRESS", f"idle {pool.name} {len(serving)}", what, since, within)

    def _is_idle(self, one: Instance) -> bool:
        node = self._node_of(one)
        if node is None or node.works_since is not None or node.reserved or node.down is not None:
            return False
        return node.drained is None or node.drained.startswith(OURS)


def is_up_for(one: Instance) -> bool:
    return one.machine is not None and is_up(one.machine)
