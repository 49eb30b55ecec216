"""That every breaker closes once its cause is gone, each by B3's own way; and the operator's reset.

Whether a cause stands is asked of the world; only which nodes and records it is about is the
breaker's own word. An operator resets it only where B3 knows no other way out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from nodemanager.actors.messages import Ordered
from nodemanager.core.model.breaker import Breaker, Cause
from nodemanager.core.model.reasons import Event
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import Outcome
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.operate.replies import Command, Reply
from nodemanager.core.operate.verbs import Verb
from nodemanager.core.plan.plan import Plan
from tests.simulation import health
from tests.simulation.bounds import RESET_S
from tests.simulation.debts import NEVER, Owed
from tests.simulation.health import Health, Ward
from tests.simulation.manager import Manager
from tests.simulation.world import Pool, World

if TYPE_CHECKING:
    from tests.simulation.liveness import Calm
    from tests.simulation.truth import Truth

LOOKS_S = 60.0
"""So long after the calm began an operator comes to look at a breaker that stands open."""


LOST = frozenset({Health.SILENT, Health.UNPAIRED, Health.UNJOINED, Health.HELD})
"""Who stays bad until somebody ends it."""


class Latch:
    """Watches the breaker of each pool's manager, and plays the operator who resets it."""

    def __init__(self, world: World, truth: Truth, calm: Calm) -> None:
        self.world, self.truth, self.calm = world, truth, calm
        self.breakers: dict[str, Breaker] = {}
        self.open_until: dict[str, float] = {}
        self.resets = 0
        self._reset: dict[str, dict[Cause, frozenset[str]]] = {}
        """By pool, what the operator has looked at: it opens no breaker again."""
        self.given_up: set[str] = set()
        """Lives freed by mistake for which an operator reset the breaker: they are theirs now."""
        world.plans.append(self._planned)
        world.events.append(self._logged)

    def _planned(
        self, manager: Manager, plan: Plan, snapshot: Snapshot, settings: Settings
    ) -> None:
        pool = manager.pool
        if manager is not pool.manager:
            return
        self.breakers[pool.name] = plan.breaker
        if plan.breaker.is_open:
            self.open_until[pool.name] = self.world.engine.now
        for part in plan.breaker.parts:
            assert part.cause is not None
            seen = self._reset.get(pool.name, {}).get(part.cause)
            if seen is not None and part.ids <= seen:
                what = f"{manager.name} opens {part.cause} again for what its operator reset"
                self.world.violate("B3", what)

    def _logged(self, manager: Manager, event: Event, fields: dict[str, object]) -> None:
        if event is not Event.OPERATOR_BREAKER_RESET or fields.get("result") != "done":
            return
        part = self.breakers.get(manager.pool.name, Breaker()).part(Cause.FALSE_CLEAN)
        if part is not None:
            self.given_up |= part.ids

    def owed(self) -> Iterator[Owed]:
        for pool in self.world.pools.values():
            breaker = self.breakers.get(pool.name, Breaker())
            if not breaker.is_open:
                continue
            seen = health.ward(self.world, pool)
            needed = False
            for part in breaker.parts:
                assert part.cause is not None
                # One that closed and opened anew between two looks owes from then on.
                key = f"breaker {pool.name} {part.cause} {part.opened_at}"
                needs, stands = self._judge(part, pool, seen)
                within = NEVER if stands else self.calm.bounds(pool).breaker(part.cause)
                if needs:
                    needed, within = True, LOOKS_S + RESET_S
                what = f"the {part.cause} breaker of {pool.name} closes"
                since = self.calm.awake(pool)
                if (
                    part.cause is Cause.MASS_SILENCE
                    and not needs
                    and self._awaited(part, pool, seen)
                ):
                    since += pool.settings.action_timeout
                yield Owed("B3", f"{key} {needs} {stands}", what, since, within)
            if needed and self.world.engine.now > self.calm.awake(pool) + LOOKS_S - RESET_S:
                self._reset_it(pool, breaker)

    def _reset_it(self, pool: Pool, breaker: Breaker) -> None:
        """`nodemanager breaker reset`, as an operator says it."""
        assert pool.manager is not None
        looked_at = {part.cause: part.ids for part in breaker.parts if part.cause is not None}

        def answered(reply: Reply) -> None:
            if reply.ok:
                self.resets += 1
                self._reset[pool.name] = looked_at

        self.world.note(f"an operator resets {pool.name}: {sorted(looked_at)}")
        pool.manager.daemon.tell(Ordered(Command(Verb.BREAKER_RESET, "ann", "I looked"), answered))

    def _judge(self, part: Breaker, pool: Pool, seen: Ward) -> tuple[bool, bool]:
        """Whether only an operator can close it, and whether the world is still at it."""
        assert part.cause is not None
        judge = JUDGES.get(part.cause)
        return (True, False) if judge is None else judge(self, part, pool, seen)

    def _listed(self, pool: Pool) -> set[str]:
        return {one.id for one in self.world.cloud.picture(pool.name, "both")}

    def _cloud(self, part: Breaker, pool: Pool, seen: Ward) -> tuple[bool, bool]:
        """All are listed or gone, but for those that live on without the pool's tags (A5)."""
        listed = self._listed(pool)
        away = {one.id for one in self.world.cloud.living()} & part.ids - listed
        back = len(part.ids & listed)
        enough = back >= (1 - pool.settings.collapse_fraction) * len(part.ids)
        return bool(away) and not enough, False

    def _records(self, part: Breaker, pool: Pool, seen: Ward) -> tuple[bool, bool]:
        deleted = part.ids - self.world.registry.rows.keys()
        return len(deleted) > pool.settings.collapse_fraction * len(part.ids), False

    def _silent(self, part: Breaker, pool: Pool, seen: Ward) -> tuple[bool, bool]:
        of = {one.node.id: one for one in seen.patients}
        limit = pool.settings.collapse_fraction * len(part.ids)
        alive = [of[one] for one in part.ids if one in of]
        lost = [one for one in alive if one.health in LOST]
        lost += [one for one in alive if one.health is Health.SERVING and not one.paired]
        ill = [one for one in alive if one.health in (Health.BOOTING, Health.ENDING)]
        # One that lives on without the pool's tags was never seen to be well again, or to end (A5).
        away = {one.id for one in self.world.cloud.living()} & part.ids - self._listed(pool)
        if len(lost) + len(away - of.keys()) > limit:
            return True, False
        return False, len(lost) + len(ill) > limit

    def _awaited(self, part: Breaker, pool: Pool, seen: Ward) -> bool:
        """Whether one of these nodes lives on after its destroy: it counts as bad until it is known
        what became of that, also where it pings (D3, D9)."""
        sent = {
            node_id
            for ears in self.truth.told.family(pool.name)
            for node_id, destroy in ears.destroys.items()
            if destroy.outcome is not Outcome.FAILED
        }
        return any(one.node.id in part.ids & sent for one in seen.patients)

    def _false_clean(self, part: Breaker, pool: Pool, seen: Ward) -> tuple[bool, bool]:
        for key in part.ids:
            life, told = (
                self.truth.false_cleans.get(key),
                self.breakers[pool.name].reported.get(key),
            )
            if told is None or told.node_id is told.incarnation is None:
                # Nothing to ask by.
                return True, False
            node = self.world.cloud.instances.get(told.node_id or "")
            if life is None and node is not None and node.lives:
                # It was no life by the promise, and is told as one all the same: an operator's.
                return True, False
            if life is not None and life.node.lives and not (life.is_back or life.may_come_back):
                return True, False
        return False, False

    def _writes(self, part: Breaker, pool: Pool, seen: Ward) -> tuple[bool, bool]:
        return False, False


JUDGES: dict[Cause, Callable[[Latch, Breaker, Pool, Ward], tuple[bool, bool]]] = {
    Cause.CLOUD_COLLAPSED: Latch._cloud,
    Cause.RECORDS_COLLAPSED: Latch._records,
    Cause.MASS_SILENCE: Latch._silent,
    Cause.FALSE_CLEAN: Latch._false_clean,
    Cause.WRITES_FAIL: Latch._writes,
}
"""Of the others (`invariant`, `clean_rate`) B3 knows no way out but an operator's."""
