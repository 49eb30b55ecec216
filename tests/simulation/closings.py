"""That every breaker stays open while its cause holds, by SAFETY's words (B3), over a restart too.

The breaker says what it is about. Whether that holds is asked of the world, and where B3 wants an
answer of the cloud or a listing, of what the pool's managers were told. Where both may be right,
the manager is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from nodemanager.actors.messages import CarriedOut, Ordered
from nodemanager.core.execute.effects import StoreWrite
from nodemanager.core.model.breaker import Cause
from nodemanager.core.model.reasons import Event
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import CloudState, Outcome
from nodemanager.core.observe.facts import SchedulerSeen
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.operate.verbs import Verb
from nodemanager.core.plan.plan import Plan
from nodemanager.errors import Conflict, NoFreeSlot, NoSuchRecord, SlotTaken
from tests.simulation import health
from tests.simulation.cloud import Instance
from tests.simulation.health import Health
from tests.simulation.manager import Manager
from tests.simulation.told import Ears, Heard, Told
from tests.simulation.truth import Truth
from tests.simulation.world import Pool, World

HEARTBEAT = "store.time"
"""It writes where the store compares and sets."""
ANSWERS = (Conflict, NoSuchRecord, NoFreeSlot, SlotTaken)
"""What a store says that could have written."""
DOWN = "down"
"""What a node says that will not recover by itself, as the store keeps it, too."""


@dataclass
class Standing:
    """A cause for which a pool's breaker is open, since the plan that first showed it, or before.

    `ids` are all that it was ever about, and `kept_ids` those that the journal has: a later run
    knows of no other. `by` is the run whose plan showed it first, and `kept` says that the journal
    has it. `missed` says that a later run has not shown it, and may not have known of it: one that
    it shows after that may be another one.
    """

    cause: Cause
    since: float
    by: str
    losses: int
    ids: frozenset[str]
    seen_at: float
    kept: bool = False
    kept_ids: frozenset[str] = frozenset()
    missed: bool = False


class Closings:
    """Watches for what each pool's breaker closes, and holds it against the cause."""

    def __init__(self, world: World, told: Told, truth: Truth) -> None:
        self.world, self.told, self.truth = world, told, truth
        self.open: dict[str, dict[Cause, Standing]] = {}
        self._wrote_at: dict[str, float] = {}
        """By pool, when its managers were last told of a write that the store took."""
        self._failed_at: dict[str, float] = {}
        """By pool, when its managers were last told of a write that failed."""
        self._failed_first: dict[str, float] = {}
        """The same of the first one since the newest plan that shows no breaker open for them."""
        self._scheduled: dict[str, frozenset[str]] = {}
        """By manager, the names in the newest whole listing of its scheduler."""
        self._unwritten: dict[tuple[str, Cause], Standing] = {}
        """By pool and cause, what closed while the journal took no writes."""
        self._resets: dict[str, str] = {}
        """By pool, the manager that was given a reset which it has not answered."""
        world.plans.append(self._planned)
        world.events.append(self._logged)
        world.given.append(self._given)
        world.weather.answered.append(self._answered)

    # What happens.

    def _logged(self, manager: Manager, event: Event, fields: dict[str, object]) -> None:
        if event is not Event.OPERATOR_BREAKER_RESET:
            return
        self._resets.pop(manager.pool.name, None)
        if fields.get("result") == "done":
            self.open.pop(manager.pool.name, None)

    def _given(self, manager: str, message: object) -> None:
        if isinstance(message, SchedulerSeen) and message.listing.complete:
            names = frozenset(one.name for one in message.listing.items)
            self._scheduled[manager] = names
        elif isinstance(message, Ordered) and message.command.verb is Verb.BREAKER_RESET:
            self._resets[self.world.managers[manager].pool.name] = manager
        elif isinstance(message, CarriedOut) and isinstance(message.effect, StoreWrite):
            self._written(manager, message)

    def _written(self, manager: str, message: CarriedOut) -> None:
        """A daemon is told what became of a write: only now does it count."""
        if message.error is None or isinstance(message.error, ANSWERS):
            self._wrote(manager)
            return
        pool, now = self.world.managers[manager].pool.name, self.world.engine.now
        self._failed_at[pool] = now
        self._failed_first.setdefault(pool, now)

    def _answered(self, manager: str, method: str, about: str, result: object) -> None:
        if method == HEARTBEAT and not self.world.shape.fenced:
            self._wrote(manager)

    def _wrote(self, manager: str) -> None:
        self._wrote_at[self.world.managers[manager].pool.name] = self.world.engine.now

    def _planned(
        self, manager: Manager, plan: Plan, snapshot: Snapshot, settings: Settings
    ) -> None:
        if manager.mode != "apply" or not manager.lease:
            return
        pool, now = manager.pool, self.world.engine.now
        standing, is_reset = self.open.setdefault(pool.name, {}), self._may_be_reset(manager)
        parts = {part.cause: part for part in plan.breaker.parts if part.cause is not None}
        for cause, one in list(standing.items()):
            if cause in parts:
                continue
            if one.by != manager.name and not pool.journal.takes_writes_of(manager.name):
                # It may not have read the journal yet; until it has, it does nothing.
                one.missed = True
                continue
            del standing[cause]
            if one.kept and not pool.journal.takes_writes_of(manager.name):
                # The journal has it still, and the next run shows it again.
                self._unwritten[pool.name, cause] = one
            is_known = one.kept or one.by == manager.name
            if one.by != manager.name:
                one.ids = one.kept_ids
            if one.losses == pool.journal.lost and is_known and not is_reset:
                self._closes(manager, one, settings)
        for cause, part in parts.items():
            before = standing.get(cause)
            if before is None or before.missed:
                since = self._began(pool, cause) if before is None else before.since
                closed = self._unwritten.pop((pool.name, cause), None)
                if closed is not None and closed.by != manager.name:
                    since = closed.since
                standing[cause] = Standing(
                    cause, since, manager.name, pool.journal.lost, part.ids, now
                )
                continue
            known = before.ids if before.by == manager.name else before.kept_ids
            before.ids, before.seen_at = known | part.ids, now
            if pool.journal.takes_writes_of(manager.name):
                before.kept, before.kept_ids = True, before.ids
        if Cause.WRITES_FAIL not in parts:
            self._failed_first.pop(pool.name, None)

    def _may_be_reset(self, manager: Manager) -> bool:
        """Whether the run before may have carried out a reset when it was killed, and not answered.

        The first plan that knows its journal tells whether it has.
        """
        pool = manager.pool
        if self._resets.get(pool.name, manager.name) == manager.name:
            return False
        return pool.journal.takes_writes_of(manager.name) and bool(self._resets.pop(pool.name))

    def _began(self, pool: Pool, cause: Cause) -> float:
        """Since when the cause may stand that a plan shows just now for the first time.

        Writes failed before that plan was made, and others may have failed after the one that
        opened it. A run that takes the cause over from a journal that was full when the run before
        closed it shows it again, and no write fails meanwhile.
        """
        now = self.world.engine.now
        if cause is not Cause.WRITES_FAIL:
            return now
        return self._failed_first.get(pool.name, self._failed_at.get(pool.name, now))

    def _closes(self, manager: Manager, one: Standing, settings: Settings) -> None:
        holds = JUDGES.get(one.cause, Closings._operators)(self, manager, one, settings)
        if holds is not None:
            self.world.violate("B3", f"{manager.name} closes {one.cause} although {holds}")

    # Whether the cause holds: what is so, or None.

    def _operators(self, manager: Manager, one: Standing, settings: Settings) -> str | None:
        return "no operator has reset it"

    def _cloud(self, manager: Manager, one: Standing, settings: Settings) -> str | None:
        # One whose destroy came to nothing is listed again like any other.
        living = {node.id for node in self.world.cloud.living()}
        lost = one.ids - (self._destroyed(manager.pool) - living)
        shown = [heard.items.keys() for heard in self._since(manager, "cloud", one)]
        away = {id for id in lost if not self._confirmed(manager.pool, id, one, settings)}
        return _lacking(shown, lost, away, settings)

    def _records(self, manager: Manager, one: Standing, settings: Settings) -> str | None:
        shown = [heard.items.keys() for heard in self._since(manager, "records", one)]
        return _lacking(shown, one.ids, one.ids, settings)

    def _scheduler(self, manager: Manager, one: Standing, settings: Settings) -> str | None:
        """A name is lost while a living node of ours has it, unless we have destroyed that node."""
        registry, pool = self.world.registry, manager.pool
        destroyed = self._destroyed(pool)
        lives = {
            (node.tags.record, node.tags.incarnation)
            for node in self.world.cloud.living()
            if node.tags.pool == pool.name and node.id not in destroyed
        }
        ours = {
            record.hostname
            for record in registry.records()
            if (record.uuid, record.incarnation) in lives and record.pool == pool.name
        }
        lost = frozenset(one.ids & ours)
        return _lacking([self._scheduled.get(manager.name, frozenset())], lost, lost, settings)

    def _silent(self, manager: Manager, one: Standing, settings: Settings) -> str | None:
        seen = {
            patient.node.id: patient for patient in health.ward(self.world, manager.pool).patients
        }
        bad = {}
        for node_id in sorted(one.ids & seen.keys()):
            if self.world.is_excused(node_id, seen[node_id].node.tags.record):
                continue
            why = self._ill(manager, seen[node_id], one, settings)
            if why is not None:
                bad[node_id] = why
        if len(bad) <= settings.collapse_fraction * len(one.ids):
            return None
        return f"{len(bad)} of {len(one.ids)} nodes are so still: {bad}"

    def _ill(
        self, manager: Manager, patient: health.Patient, one: Standing, settings: Settings
    ) -> str | None:
        """Why a node is silent, down or unpaired; None where it is none of these, or ended."""
        node, now = patient.node, self.world.engine.now
        ears = self.told.ears[manager.name]
        nodes, records = ears.newest("cloud", now), ears.newest("records", now)
        # It may have been started again since the newest listing.
        listed = node if nodes is None else nodes.items.get(node.id, node)
        off = (CloudState.STOPPED, CloudState.STOPPING)
        if node.state in off or listed.state in off:
            return None
        shown = None if records is None else records.items.get(node.tags.record or "")
        if patient.health is Health.UNPAIRED:
            told = shown is not None and shown.incarnation == node.tags.incarnation
            return None if told else "unpaired"
        heard_at = _heard_at(node)
        silent_s = now - heard_at
        is_news = heard_at > one.since and silent_s <= settings.node_stale_after
        pings = self.world.controller is None
        if pings and silent_s > settings.node_stale_after / 2 and not is_news:
            return f"silent for {silent_s:.0f} s"
        is_told = shown is not None and shown.worker_state == DOWN
        machine = node.machine
        if machine is None or machine.busy_since is not None or not is_told:
            return None
        last = max(machine.words.values(), key=lambda word: word.arrived, default=None)
        return DOWN if last is not None and last.state == DOWN else None

    def _false_clean(self, manager: Manager, one: Standing, settings: Settings) -> str | None:
        for key in sorted(one.ids):
            life = self.truth.false_cleans.get(key)
            if life is None or not life.node.lives or life.is_back:
                continue
            known = life.before.incarnation or self.world.cloud.instances.get(
                life.before.instance_id or ""
            )
            # With nothing to ask by, its silence alone tells.
            if known and not self._is_denied(life.node.id, one):
                return f"{life.node.id} of {key} lives, and has no record"
        return None

    def _writes(self, manager: Manager, one: Standing, settings: Settings) -> str | None:
        if self._wrote_at.get(manager.pool.name, one.since - 1.0) >= one.since:
            return None
        if self.world.shape.fenced and self.world.engine.now - one.since > settings.max_poll_time:
            return None
        return "no write has succeeded since"

    # What a pool's managers were told.

    def _since(self, manager: Manager, source: str, one: Standing) -> list[Heard]:
        """The complete listings since the last plan that showed it open, and what was the newest.

        It may have closed right after that plan, by an answer to a question: then what was the
        newest then counts. The run before may have closed it, and made no plan after that: its
        newest counts as well, if it is younger than the cause.
        """
        now, mine, found = self.world.engine.now, self.told.ears[manager.name], []
        for ears in self.told.family(manager.pool.name):
            for newest in (ears.had(source, now), ears.had(source, one.seen_at)):
                if newest is not None and (ears is mine or newest.given_at >= one.since):
                    found.append(newest)
            heard = getattr(ears, source)
            found += [each for each in heard if each.complete and each.given_at >= one.seen_at]
        return found

    def _destroyed(self, pool: Pool) -> set[str]:
        """The nodes whose destroy its managers sent, and that was not refused."""
        return {
            node_id
            for ears in self.told.family(pool.name)
            for node_id, destroy in ears.destroys.items()
            if destroy.outcome is not Outcome.FAILED
        }

    def _is_denied(self, node_id: str, one: Standing) -> bool:
        """Whether the cloud has denied it since, although it lives (A1)."""
        return self.truth.denied_at.get(node_id, float("-inf")) >= one.since

    def _confirmed(self, pool: Pool, node_id: str, one: Standing, settings: Settings) -> bool:
        """Whether the cloud, asked by id, has called it gone; whichever of the runs asked."""
        answers = [
            answer for ears in self.told.family(pool.name) for answer in ears.by_id.get(node_id, ())
        ]
        answers.sort(key=lambda answer: answer.at)
        asked = Ears(by_id={node_id: answers})
        node = self.world.cloud.instances.get(node_id)
        if node is not None and node.lives and not self._is_denied(node_id, one):
            return False
        return asked.is_gone(node_id, settings.visible_after) or any(
            node_id in heard.items and heard.items[node_id].is_absent
            for ears in self.told.family(pool.name)
            for heard in ears.cloud
        )


def _lacking(
    shown: Iterable[Iterable[str]], lost: frozenset[str], away: Iterable[str], settings: Settings
) -> str | None:
    """What is lost, where none of the listings shows enough of it, or all but what is gone."""
    least: set[str] | None = None
    for ids in shown:
        back = lost & set(ids)
        missing = set(away) - back
        if len(back) >= (1 - settings.collapse_fraction) * len(lost) or not missing:
            return None
        least = missing
    if least is None:
        least = set(away)
    return f"{sorted(least)} of {len(lost)} are neither listed nor gone" if least else None


def _heard_at(node: Instance) -> float:
    """When the store last took a ping of the node; -inf where it never did."""
    machine = node.machine
    if machine is None or machine.heard_at is None:
        return float("-inf")
    return machine.heard_at


Judge = Callable[[Closings, Manager, Standing, Settings], str | None]

JUDGES: Mapping[Cause, Judge] = {
    Cause.CLOUD_COLLAPSED: Closings._cloud,
    Cause.RECORDS_COLLAPSED: Closings._records,
    Cause.SCHEDULER_COLLAPSED: Closings._scheduler,
    Cause.MASS_SILENCE: Closings._silent,
    Cause.FALSE_CLEAN: Closings._false_clean,
    Cause.WRITES_FAIL: Closings._writes,
}
"""Of the others B3 knows no way out but an operator's."""
