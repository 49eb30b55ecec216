"""That no breaker closes before its cause is gone (B3), judged by what its managers were told.

What a breaker was opened for is what listings lacked then, and whom the world had silent; what the
manager makes of its own ids since is not asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nodemanager.actors.daemon.record_writes import ANSWERS
from nodemanager.core.model.reasons import Event
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import CloudState, Guarantee, Outcome
from nodemanager.core.plan.plan import Plan
from nodemanager.core.plan.snapshot import Snapshot
from nodemanager.core.safety.breaker import Cause
from nodemanager.errors import RemoteError
from tests.simulation.cleans import EXACT_S
from tests.simulation.cloud import Instance
from tests.simulation.manager import Manager
from tests.simulation.told import Told
from tests.simulation.truth import Truth
from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.nodes import NodeRules

LATE_S = 15.0
"""A plan is of listings that are so old, and sums of seconds are not exact."""
READS = frozenset({"store.read", "store.list", "store.probe", "store.late_pings", "store.id"})


@dataclass
class Opening:
    """One cause for which a pool's breaker is open: since when, and what it is about."""

    at: float
    by: str
    """The manager that opened it, or took it over."""
    ids: set[str] = field(default_factory=set)
    told: set[str] = field(default_factory=set)
    """What its managers called its ids."""


class Closings:
    """Watches the breaker of each pool from plan to plan."""

    def __init__(self, world: World, told: Told, truth: Truth, rules: NodeRules) -> None:
        self.world, self.told, self.truth, self.rules = world, told, truth, rules
        self._open: dict[str, dict[Cause, Opening]] = {}
        self._known_by: dict[str, tuple[str, int]] = {}
        """By pool, the manager that planned last, and how many journals were lost when it began."""
        self._settings: dict[str, Settings] = {}
        """By manager, its settings when it planned first."""
        self._looked_at: dict[str, float] = {}
        """By pool, when the plan before was made: whatever a plan shows anew opened after it."""
        self._wrote_at: dict[str, float] = {}
        """By pool, when a write of its managers was answered last."""
        world.plans.append(self._planned)
        world.events.append(self._logged)
        world.weather.answered.append(self._answered)
        world.weather.failed.append(self._failed)

    def _logged(self, manager: Manager, event: Event, fields: dict[str, object]) -> None:
        if event is Event.OPERATOR_BREAKER_RESET and fields.get("result") == "done":
            self._open.pop(manager.pool.name, None)

    def _answered(self, manager: str, method: str, about: str, result: Any) -> None:
        if method.startswith("store.") and method not in READS:
            self._wrote_at[self.world.managers[manager].pool.name] = self.world.engine.now

    def _failed(self, manager: str, method: str, about: str, error: RemoteError) -> None:
        if isinstance(error, ANSWERS):
            self._answered(manager, method, about, None)

    def _planned(
        self, manager: Manager, plan: Plan, snapshot: Snapshot, settings: Settings
    ) -> None:
        pool, now = manager.pool, self.world.engine.now
        if manager is not pool.manager:
            return
        before = self._open.setdefault(pool.name, {})
        known_by = manager.name, pool.journal.lost
        former = self._known_by.get(pool.name, known_by)
        if former[0] != known_by[0] and former[1] != known_by[1]:
            # What was in the journal that was lost the next run does not know any more.
            before.clear()
        if former[0] != known_by[0] or former[1] == known_by[1]:
            self._known_by[pool.name] = known_by
        standing = {one.cause: one for one in plan.breaker.parts if one.cause is not None}
        for cause, part in standing.items():
            opening = before.setdefault(
                cause, Opening(self._opened_at(cause, manager), manager.name)
            )
            # While it is open, what else goes missing or turns silent belongs to it.
            lacked = self._lacked(cause, manager, settings)
            opening.ids |= lacked if cause in LACKED else part.ids
            opening.told |= part.ids
        self._looked_at[pool.name] = now
        self._settings.setdefault(manager.name, settings)
        for cause in before.keys() - standing.keys():
            opening = before.pop(cause)
            if opening.by != manager.name:
                # Of what a former run opened it for the next one may know less: its disk was full.
                continue
            why = JUDGES[cause](self, opening, manager, settings) if cause in JUDGES else None
            if why is not None:
                self.world.violate("B3", f"{manager.name} closes {cause.value} although {why}")

    def _opened_at(self, cause: Cause, manager: Manager) -> float:
        """No later than it opened: after the plan before, or once a listing that lacks so many was
        asked for."""
        at = self._looked_at.get(manager.pool.name, self.world.engine.now)
        source = LACKED.get(cause)
        newest = None if source is None else self.told.ears[manager.name].newest(source)
        return at if newest is None else min(at, newest.started) - EXACT_S

    def _lacked(self, cause: Cause, manager: Manager, settings: Settings) -> set[str]:
        """What the newest listing lacks of all that was listed lately (L3)."""
        source = LACKED.get(cause)
        ears = self.told.ears[manager.name]
        newest = None if source is None else ears.newest(source)
        if source is None or newest is None:
            return set()
        known = self.rules.largest(source, ears, newest, self._known_gone(manager, 0.0), settings)
        return known - newest.items.keys()

    def _known_gone(self, manager: Manager, since: float) -> set[str]:
        """The nodes that we destroyed, and those that were confirmed gone since then."""
        pool = manager.pool.name
        gone = self.rules.memory[manager.name].ended | self.rules.freed()
        for ears in self.told.family(pool):
            gone |= {
                node_id
                for node_id, sent in ears.destroys.items()
                if sent.outcome is not Outcome.FAILED
            }
        ears = self.told.ears[manager.name]
        visible_after = self.world.cloud.traits.visible_after
        return gone | {one for one in ears.by_id if ears.is_gone(one, visible_after, since)}

    # By cause: why it should stand, or None.

    def _cloud(self, opening: Opening, manager: Manager, settings: Settings) -> str | None:
        newest = self.told.ears[manager.name].newest("cloud")
        return self._still_lacking(
            self._lost(opening, self._destroyed(manager)),
            set() if newest is None else set(newest.items),
            self._known_gone(manager, opening.at),
            settings,
        )

    def _records(self, opening: Opening, manager: Manager, settings: Settings) -> str | None:
        newest = self.told.ears[manager.name].newest("records")
        lost = self._lost(opening, self.rules.memory[manager.name].ended)
        listed = set() if newest is None else set(newest.items)
        return self._still_lacking(lost, listed, set(), settings)

    @staticmethod
    def _lost(opening: Opening, ended: set[str]) -> set[str]:
        """What it is about; one more or less may be lost to which set was the largest (L3)."""
        lost = opening.ids - ended
        others = lost - opening.told
        return lost - others if len(others) == 1 else lost

    def _destroyed(self, manager: Manager) -> set[str]:
        return {
            node_id
            for ears in self.told.family(manager.pool.name)
            for node_id, sent in ears.destroys.items()
            if sent.outcome is not Outcome.FAILED
        }

    def _still_lacking(
        self, lost: set[str], listed: set[str], gone: set[str], settings: Settings
    ) -> str | None:
        back = lost & listed
        is_back = len(back) >= (1 - settings.collapse_fraction) * len(lost)
        if is_back or lost <= back | gone:
            return None
        return f"{len(back)} of {len(lost)} are listed again, {len(gone & lost)} gone by id"

    def _silent(self, opening: Opening, manager: Manager, settings: Settings) -> str | None:
        stepped = self.world.clock_steps or manager.clock.error
        if self.world.broken or stepped or settings != self._settings.get(manager.name):
            # A window that a reload made longer ends a silence, too (S6); so does a clock that
            # jumped: no age counts time before that (T1).
            return None
        ears, visible_after = self.told.ears[manager.name], self.world.cloud.traits.visible_after
        nodes = self.world.cloud.instances
        there = [nodes[one] for one in opening.ids if one in nodes and nodes[one].lives]
        bad = [one for one in there if self._is_bad(one, manager, settings)]
        left = [
            one for one in bad if not ears.is_gone(one.id, visible_after, opening.at, stopped=True)
        ]
        if len(bad) <= settings.collapse_fraction * len(opening.ids) or not left:
            return None
        return f"{len(bad)} of {len(opening.ids)} are silent, down or unpaired: {left[0].id}"

    def _is_bad(self, node: Instance, manager: Manager, settings: Settings) -> bool:
        """Whether it is unpaired, silent or down for so long that it counts for a wave (D9)."""
        now, ears = self.world.engine.now, self.told.ears[manager.name]
        shown_s = now - ears.shown_since(node.id)
        if shown_s < max(settings.node_stale_after, settings.boot_fail_after) / 2 + LATE_S:
            # One that was out of sight counts anew from when it is listed again.
            return False
        lonely = self.rules.memory[manager.name].lonely.get(node.id)
        if lonely is not None:
            return now - lonely.since > settings.boot_fail_after / 2 + LATE_S
        words = list(node.machine.words.values()) if node.machine is not None else []
        records = ears.newest("records")
        if node.state is not CloudState.RUNNING or not words or records is None:
            return False
        if words[-1].state == "down" and words[-1].arrived < records.started:
            return True
        silent_s = ears.silence(words[-1].arrived, settings)
        return silent_s > settings.node_stale_after / 2 + LATE_S

    def _false_clean(self, opening: Opening, manager: Manager, settings: Settings) -> str | None:
        ears, visible_after = self.told.ears[manager.name], self.world.cloud.traits.visible_after
        for key in sorted(opening.ids):
            life = self.truth.false_cleans.get(key)
            if life is None or not life.node.lives or life.is_back:
                continue
            if not ears.is_gone(life.node.id, visible_after, opening.at):
                return f"{life.node.id} lives, and {life.before.uuid} is not its own again"
        return None

    def _writes(self, opening: Opening, manager: Manager, settings: Settings) -> str | None:
        if manager.guarantee is not Guarantee.CAS:
            # Such a store has no probe: it is tried with a real write.
            return None
        if self._wrote_at.get(manager.pool.name, 0.0) > opening.at:
            return None
        return "no write was answered since"

    def _by_hand(self, opening: Opening, manager: Manager, settings: Settings) -> str | None:
        return "only an operator may close it"


LACKED = {Cause.CLOUD_COLLAPSED: "cloud", Cause.RECORDS_COLLAPSED: "records"}
JUDGES: dict[Cause, Callable[[Closings, Opening, Manager, Settings], str | None]] = {
    Cause.CLOUD_COLLAPSED: Closings._cloud,
    Cause.RECORDS_COLLAPSED: Closings._records,
    Cause.MASS_SILENCE: Closings._silent,
    Cause.FALSE_CLEAN: Closings._false_clean,
    Cause.WRITES_FAIL: Closings._writes,
    Cause.INVARIANT: Closings._by_hand,
    Cause.CLEAN_RATE: Closings._by_hand,
}
