"""A monitor for each rule on nodes, pairs, boots and listings: D7-D10, P1, P2, U1-U7, L3, L4.

As with the cleans, what a manager orders is held against what it was told by then.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from nodemanager.core.model.breaker import Cause
from nodemanager.core.model.reasons import Event, Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import CloudNode, CloudState, Outcome, Record, WorkerState
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.plan.destroy import ShutdownOrder
from nodemanager.core.plan.plan import Plan
from tests.simulation.cleans import EXACT_S, CleanRules
from tests.simulation.cloud import Instance
from tests.simulation.engine import EPOCH
from tests.simulation.manager import Manager
from tests.simulation.told import Ears, Heard, Told
from tests.simulation.world import Pool, World

KNOWN_FOR_S = 600.0
CLOCKS_S = 120.0
"""By so much a cloud's clock, and ours, may make a node look older (A3)."""
PINS_TRIES = 3
FLOOR = 5
WELL = frozenset({Reason.IDLE_BEYOND_DEMAND, Reason.PARKED})
"""Destroys of nodes that did no work: the cap on shutdowns is for others (D9)."""
WAVE = frozenset({Reason.NODE_DOWN, Reason.NODE_STOPPED, Reason.UNPAIRED})


@dataclass
class Lonely:
    """Since when a node is listed without its record, as its manager was told.

    `is_named` says that the record which it truly pings was listed, and named it or nobody.
    """

    since: float
    cloud_ended: float
    is_named: bool


@dataclass(frozen=True)
class Destroyed:
    """A destroy that took effect; `turned_at` is when its node turned bad before.

    `fell_at` is the same where it was out of sight by then: `turned_at` is when it was shown again.
    """

    ordered_at: float
    at: float
    node_id: str
    reason: Reason
    turned_at: float
    fell_at: float


@dataclass
class Memory:
    """What the monitors keep of one manager."""

    lonely: dict[str, Lonely] = field(default_factory=dict)
    ordered: dict[str, list[tuple[float, ShutdownOrder]]] = field(default_factory=dict)
    """By node, the shutdowns that plans ordered, and when."""
    destroyed: list[Destroyed] = field(default_factory=list)
    boots: dict[str, str] = field(default_factory=dict)
    waves: dict[str, float] = field(default_factory=dict)
    """Nodes that a breaker was open for, as mass silence, and until when."""
    ended: set[str] = field(default_factory=set)
    acquitted: set[str] = field(default_factory=set)
    """What was lost when an operator closed the breaker, and was not listed since (B3)."""
    lost: set[str] = field(default_factory=set)
    """What a collapse lacks for which the breaker is open."""


class NodeRules:
    """Watches plans, creates, claims and destroys."""

    def __init__(self, world: World, told: Told, cleans: CleanRules) -> None:
        self.world, self.told, self.cleans = world, told, cleans
        self.memory: dict[str, Memory] = defaultdict(Memory)
        self.writers: dict[str, tuple[str, str]] = {}
        world.plans.append(self.planned)
        world.registry.changed.append(self.changed)
        world.cloud.books.destroyed.append(self.destroyed)
        world.cloud.books.released.append(self._released)
        self.kills: set[tuple[str, str]] = set()
        """Pool and node of each kill that an operator was told is in force, and did not undo."""
        self.asked_for_pins: Counter[tuple[str, str]] = Counter()
        """By manager and node, how often it asked what the node pins."""
        world.weather.sent.append(self._sent)
        world.events.append(self._logged)

    def _wrong(self, rule: str, manager: Manager, why: str) -> None:
        self.world.violate(rule, f"{manager.name}: {why}")

    # Plans.

    def planned(self, manager: Manager, plan: Plan, snapshot: Snapshot, settings: Settings) -> None:
        if manager.mode != "apply":
            return
        wave = plan.breaker.part(Cause.MASS_SILENCE)
        for node_id in wave.ids if wave is not None else ():
            self.memory[manager.name].waves[node_id] = self.world.engine.now
        self.memory[manager.name].lost = {
            id
            for part in plan.breaker.parts
            if part.cause in (Cause.CLOUD_COLLAPSED, Cause.RECORDS_COLLAPSED)
            for id in part.ids
        }
        ears = self.told.ears[manager.name]
        cloud, records = ears.newest("cloud"), ears.newest("records")
        acts = plan.cleans or plan.shutdowns or plan.boots
        if cloud is None or records is None:
            if acts:
                self._wrong("L1", manager, "acts before there is a complete listing of everything")
            return
        self._remember(manager, cloud, records, settings)
        if acts or plan.aborted is None:
            self._impossible(manager, plan, cloud, records)
        if plan.cleans or plan.shutdowns:
            self._collapse(manager, plan, ears, settings)
        self._pairs(manager, plan, cloud, records, settings)
        if plan.shutdowns and not self.world.shape.proven:
            self._wrong("L2", manager, "destroys on listings that nobody proved whole")
        for order in plan.shutdowns:
            self._shutdown(manager, order, ears, cloud, records, settings)
        if plan.shutdowns:
            self._wave(manager, plan, ears, cloud, settings)
        if plan.boots:
            self._boots(manager, plan, records, settings)

    def _logged(self, manager: Manager, event: Event, fields: dict[str, object]) -> None:
        if manager.mode != "apply" or fields.get("result") != "done":
            return
        ordered = manager.pool.name, str(fields.get("node"))
        if event is Event.OPERATOR_KILL:
            self.kills.add(ordered)
        elif event is Event.OPERATOR_UNDRAIN:
            self.kills.discard(ordered)
        elif event is Event.OPERATOR_BREAKER_RESET:
            memory = self.memory[manager.name]
            memory.acquitted |= memory.lost

    def _remember(self, manager: Manager, cloud: Heard, records: Heard, settings: Settings) -> None:
        memory, now = self.memory[manager.name], self.world.engine.now
        memory.acquitted -= cloud.items.keys() | records.items.keys()
        lonely: dict[str, Lonely] = {}
        for node in cloud.items.values():
            if node.state is CloudState.TERMINATED:
                memory.ended.add(node.id)
                continue
            if node.tags.pool != settings.pool:
                continue
            record = records.items.get(node.tags.record or "")
            if record is not None and record.incarnation == node.tags.incarnation:
                continue
            before, is_named = memory.lonely.get(node.id), self._is_named(node, records)
            if before is None or (before.is_named and not is_named):
                before = Lonely(now, cloud.ended, is_named)
            before.is_named = is_named
            lonely[node.id] = before
        memory.lonely = lonely

    def _is_named(self, node: CloudNode, records: Heard) -> bool:
        made = self.world.cloud.instances.get(node.id)
        machine = None if made is None else made.machine
        record = None if machine is None else records.items.get(machine.uuid)
        if record is None:
            return False
        if record.instance_id is None:
            # Of another life of the record, a node's pings are refused.
            lives = None, node.tags.incarnation
            return node.tags.record == record.uuid and record.incarnation in lives
        return record.instance_id == node.id and node.tags.record in (None, record.uuid)

    # L3, L4.

    def _impossible(self, manager: Manager, plan: Plan, cloud: Heard, records: Heard) -> None:
        doubled = cloud.doubled | records.doubled
        listed = len(cloud.items) + cloud.again + len(records.items)
        if len(doubled) > 0.05 * listed and plan.aborted is None:
            self._wrong("L4", manager, f"decides on a listing that shows {sorted(doubled)} twice")
        for order in plan.shutdowns:
            if order.node_id in doubled:
                self._wrong("L4", manager, f"destroys {order.node_id}, listed twice")

    def _collapse(self, manager: Manager, plan: Plan, ears: Ears, settings: Settings) -> None:
        memory = self.memory[manager.name]
        gone = (
            memory.ended
            | memory.acquitted
            | self.freed()
            | {one for one in ears.by_id if ears.is_gone(one, settings.visible_after)}
        )
        # Two listings may come between two plans.
        gone |= {
            node.id
            for heard in ears.cloud
            for node in heard.items.values()
            if heard.complete and node.state is CloudState.TERMINATED
        }
        # Of a destroy that the cloud did not refuse, however long ago, whichever manager sent it.
        gone |= {
            node_id
            for one in self.told.family(manager.pool.name)
            for node_id, destroy in one.destroys.items()
            if destroy.outcome is not Outcome.FAILED
        } | self._left_unsent(manager, settings)
        for source in ("cloud", "records"):
            newest = ears.newest(source)
            assert newest is not None
            # Which of several sets is the largest depends on whether the gone still count, or those
            # that the newest listing is the first to show as ended: known until then, and not lost.
            before = gone - _first_ended(newest, ears)
            sets = (
                self.largest(source, ears, newest, gone, settings),
                self.largest(source, ears, newest, set(), settings) - gone,
                self.largest(source, ears, newest, before, settings),
            )
            lost = [len(known - newest.items.keys()) for known in sets]
            # The last one too many may be lost to how the sets are told apart.
            if all(
                len(known) >= FLOOR and missed - 1 > settings.collapse_fraction * len(known)
                for known, missed in zip(sets, lost, strict=True)
            ):
                what = f"{source} lists lack {lost[0]} of {len(sets[0])}"
                self._wrong("L3", manager, f"frees or destroys although {what}")

    def _left_unsent(self, manager: Manager, settings: Settings) -> set[str]:
        """What a killed run had ordered to go: nobody knows then that it sent nothing."""
        since = manager.started_at - settings.action_timeout
        return {
            node_id
            for name, memory in self.memory.items()
            if (other := self.world.managers[name]).pool is manager.pool and not other.alive
            for node_id, given in memory.ordered.items()
            if given[-1][0] >= since
        }

    def freed(self) -> set[str]:
        """The nodes whose life was freed: the last look of the clean had them denied (C11)."""
        freed = self.cleans.freed_at
        nodes = self.world.cloud.instances.values()
        return {one.id for one in nodes if (one.tags.record, one.tags.incarnation) in freed}

    def largest(
        self, source: str, ears: Ears, newest: Heard, gone: set[str], settings: Settings
    ) -> set[str]:
        """Of this pool's alone (L3a): an untagged node is where one of its records names it."""
        largest: set[str] = set()
        for heard in getattr(ears, source):
            if not heard.complete or newest.started - heard.started > KNOWN_FOR_S:
                continue
            if source == "records":
                ours = {one.uuid for one in heard.items.values() if one.pool == settings.pool}
            else:
                named = self._named(ears, heard.ended, settings)
                ours = {
                    one.id
                    for one in heard.items.values()
                    if self._is_ours(one, settings)
                    and (one.tags.pool is not None or one.id in named)
                }
            ids = ours - gone
            if len(ids) >= len(largest):
                largest = ids
        return largest

    def _named(self, ears: Ears, at: float, settings: Settings) -> set[str | None]:
        known = ears.newest("records", at)
        records = known.items.values() if known is not None else ()
        return {one.instance_id for one in records if one.pool == settings.pool}

    def _is_ours(self, node: CloudNode, settings: Settings) -> bool:
        absent = node.state is CloudState.TERMINATED
        return node.tags.pool in (None, settings.pool) and not absent

    # P1, P2.

    def _pairs(
        self, manager: Manager, plan: Plan, cloud: Heard, records: Heard, settings: Settings
    ) -> None:
        nodes_by_record: dict[tuple[str | None, str | None], int] = {}
        for node in cloud.items.values():
            if node.tags.record is not None and node.state is not CloudState.TERMINATED:
                tag = (node.tags.record, node.tags.incarnation)
                nodes_by_record[tag] = nodes_by_record.get(tag, 0) + 1
        for node_id, record in plan.pairs.record_of.items():
            node = cloud.items.get(node_id)
            if node is None:
                self._wrong("P1", manager, f"pairs {node_id}, which is not listed")
                continue
            if not self._belong(node, record, settings):
                self._wrong("P1", manager, f"pairs {node_id} with {record.uuid}")
            if nodes_by_record.get((record.uuid, record.incarnation), 0) > 1:
                self._wrong("P2", manager, f"pairs {node_id}, one of several of {record.uuid}")
        for order in plan.shutdowns:
            node = cloud.items.get(order.node_id)
            if (
                node is None
                or nodes_by_record.get((node.tags.record, node.tags.incarnation), 0) < 2
            ):
                continue
            record = records.items.get(node.tags.record or "")
            if record is not None and record.incarnation == node.tags.incarnation:
                self._wrong("P2", manager, f"destroys {order.node_id}, which is ambiguous")

    def _belong(self, node: CloudNode, record: Record, settings: Settings) -> bool:
        if node.tags.record is not None:
            return node.tags.record == record.uuid and node.tags.incarnation == record.incarnation
        return (
            settings.ids_unique
            and record.instance_id == node.id
            and record.first_ping_at is not None
            and node.created_at is not None
            and record.first_ping_at >= node.created_at
        )

    # D1, D7-D10.

    def _shutdown(
        self,
        manager: Manager,
        order: ShutdownOrder,
        ears: Ears,
        cloud: Heard,
        records: Heard,
        settings: Settings,
    ) -> None:
        now, node_id = self.world.engine.now, order.node_id
        self.memory[manager.name].ordered.setdefault(node_id, []).append((now, order))
        node = cloud.items.get(node_id) or self._unlisted(manager, order, ears, records, settings)
        if node is None:
            rule = "D13" if order.reason is Reason.BOOT_FAILED else "D1"
            self._wrong(rule, manager, f"destroys {node_id}, which is not listed")
            return
        holds = manager.pool.holds
        if node.held or node_id in holds or order.record in holds:
            self._wrong("C9", manager, f"destroys {node_id}, which is on hold")
        record = records.items.get(node.tags.record or "")
        if node.tags.record is None and settings.ids_unique:
            listed = records.items.values()
            record = next((one for one in listed if one.instance_id == node_id), None)
        if order.reason is Reason.UNPAIRED:
            # With the record listed it is D7's; a record that is lacking holds its node (D10).
            self._unpaired("D7" if record is not None else "D10", manager, node_id, ears, settings)
        elif order.reason is Reason.NODE_DOWN or order.reason is Reason.BOOT_FAILED:
            if record is None:
                self._wrong("D10", manager, f"destroys {node_id}, whose record is not listed")
            elif record.worker_state is not WorkerState.DOWN:
                self._silent(manager, order, record, ears, settings)
                if order.reason is Reason.NODE_DOWN:
                    self._past_grace(manager, node_id, settings)
            elif not record.failed:
                self._past_grace(manager, node_id, settings)
        elif order.reason is Reason.NOT_JOINED:
            self._past_grace(manager, node_id, settings)

    def _unlisted(
        self,
        manager: Manager,
        order: ShutdownOrder,
        ears: Ears,
        records: Heard,
        settings: Settings,
    ) -> CloudNode | None:
        """D13: as the cloud, asked lately, last showed one whose record nobody pings, or ever did.

        An operator's kill that stands is as good a cause as its silence (O2).
        What it said before counts no more: an operator may have taken a hold off since (C9).
        """
        record = records.items.get(order.record or "")
        if record is None or record.claim is None:
            return None
        if order.reason is Reason.KILLED:
            if (manager.pool.name, order.node_id) not in self.kills:
                return None
        elif order.reason is not (Reason.NODE_DOWN if record.last_ping_at else Reason.BOOT_FAILED):
            return None
        since = self.world.engine.now - settings.poll_stale_after - EXACT_S
        shown = ears.answered(order.node_id, record.uuid, since)
        return next((one for one in shown if self._is_unheard(one, order, record)), None)

    def _is_unheard(self, node: CloudNode, order: ShutdownOrder, record: Record) -> bool:
        tags = node.tags.record, node.tags.incarnation
        its_own = node.id == order.node_id and tags == (record.uuid, record.incarnation)
        return its_own and node.state is not CloudState.TERMINATED

    def _unpaired(
        self, rule: str, manager: Manager, node_id: str, ears: Ears, settings: Settings
    ) -> None:
        lonely, now = self.memory[manager.name].lonely.get(node_id), self.world.engine.now
        if lonely is None:
            self._wrong(rule, manager, f"destroys {node_id} as unpaired, and its record is listed")
            return
        since = now - lonely.since
        if since <= settings.boot_fail_after - EXACT_S:
            self._wrong(rule, manager, f"destroys {node_id}, unpaired for {since:.0f} s")
        listings = [
            one for one in ears.records if one.complete and one.started > lonely.cloud_ended
        ]
        if len(listings) < 2:
            self._wrong(rule, manager, f"{node_id} was missed by {len(listings)} record listings")

    def oldest(self, node: Instance, by: str) -> float:
        """Seconds since the node's launch, by the fastest clock that its manager may use.

        One that was started again has its launch from the cloud's clock alone. Ours and the store's
        may both be ahead of that, because a date jumped before (T1). The list that its manager has,
        or the answer that shows a node which no list does (D13), may be from before it was stopped
        and started again.
        """
        world, ahead_s, ears = self.world, 0.0, self.told.ears[by]
        cloud, launched_at = ears.had("cloud", world.engine.now), node.launched_at
        if cloud is not None and node.id in cloud.items:
            shown = self._shown_launch(node, cloud.items[node.id])
            launched_at = min(node.launched_by(cloud.started), shown)
        else:
            answers = ears.answered(node.id, node.tags.record or "", float("-inf"))
            own = (one for one in answers if one.id == node.id)
            launched_at = next((self._shown_launch(node, one) for one in own), launched_at)
        if launched_at > node.created_at:
            ours, stores = world.managers[by].clock.error, world.registry.clock_error
            ahead_s = max(0.0, min(ours, stores))
        return world.engine.now - launched_at + CLOCKS_S + world.clock_lies + ahead_s

    def _shown_launch(self, node: Instance, as_shown: CloudNode) -> float:
        """That of its launches which is shown: a late list shows what was so before it began."""
        created_at = as_shown.created_at
        at = 0.0 if created_at is None else created_at - EPOCH - self.world.cloud.traits.clock_error
        return next((one for one in node.launches if abs(one - at) < 1.0), node.launched_at)

    def _past_grace(self, manager: Manager, node_id: str, settings: Settings) -> None:
        """A node that says `down`, or nothing, may be coming up until its grace is over (D1)."""
        made = self.world.cloud.instances.get(node_id)
        if made is None:
            return
        age_s = self.oldest(made, manager.name)
        if age_s <= settings.boot_fail_after:
            self._wrong("D1", manager, f"destroys {node_id} as down at {age_s:.0f} s")

    def _silent(
        self,
        manager: Manager,
        order: ShutdownOrder,
        record: Record,
        ears: Ears,
        settings: Settings,
    ) -> None:
        """Silence counts only over time in which the store answered."""
        pinged = record.last_ping_at is not None
        if pinged:
            since = self.cleans.pings.get((record.uuid, record.last_ping_at))
        elif record.claim is not None:
            # As it was listed: a claim that was renewed since, by a late write, is no younger.
            since = self.cleans.truth.claims.get((record.claim.incarnation, record.claim.at))
        else:
            since = self.cleans.truth.claimed_at.get(record.incarnation or "")
        if since is None:
            return
        limit = settings.node_stale_after if pinged else settings.boot_fail_after
        answered = ears.silence(since, settings)
        if answered <= limit - EXACT_S:
            node_id = order.node_id
            self._wrong("D8", manager, f"destroys {node_id}: {answered:.0f} s of silence answered")

    def _wave(
        self, manager: Manager, plan: Plan, ears: Ears, cloud: Heard, settings: Settings
    ) -> None:
        memory = self.memory[manager.name]
        bad = [one for one in plan.shutdowns if one.reason not in WELL]
        # One that took effect after its flight had run out is of an earlier cycle.
        since = self.world.engine.now - settings.action_timeout
        lately = [
            one
            for one in memory.destroyed
            if one.at > cloud.started and one.ordered_at >= since - EXACT_S
        ]
        capped = len(bad) + sum(one.reason not in WELL for one in lately)
        if bad and capped > settings.max_shutdowns_per_cycle:
            self._wrong("D9", manager, f"destroys {capped} in one cycle")
        excused = {
            one for one in ears.by_id if ears.is_gone(one, settings.visible_after, stopped=True)
        }
        window = settings.node_stale_after
        turned = {
            one.node_id: one.turned_at
            for one in memory.destroyed
            if one.reason in WAVE and not self._is_well_again(one)
        }
        turned |= {
            one.node_id: self._turned_at(one, manager.name) for one in bad if one.reason in WAVE
        }
        fell = {one.node_id: one.fell_at for one in memory.destroyed}
        fell |= {one.node_id: self._fell_at(one, manager.name) for one in bad}
        # A wave that was seen, and whose breaker closed as few are left of it or by its operator,
        # is over (B3), also for one of it that leaves the list and comes back as silent as it was,
        # and for a later run.
        seen = self._waves(manager.pool)
        turned = {
            one: at
            for one, at in turned.items()
            if one not in seen or self._fell_first(one, fell[one], manager.pool) > seen[one]
        }
        wave: set[str] = set()
        until = 0.0
        for begun in turned.values():
            # As the manager saw them turn, which is a poll or two off.
            ended = begun + window - 3 * manager.pool.poll_time
            found = {one for one, at in turned.items() if begun <= at <= ended} - excused
            found -= {
                one
                for one in found
                if self._lived_on(one, fell[one], begun + window, ears, settings)
            }
            if len(found) > len(wave):
                wave, until = found, begun + window
        if not wave & {one.node_id for one in bad}:
            return
        # A late list shows whom the manager destroyed and was told of as gone. Until it is told so,
        # one that it lets go as idle is of those among whom they turned.
        over = {
            one.node_id
            for one in memory.destroyed
            if one.node_id in excused and self._has_ended(one.node_id)
        }
        there = wave | (self._there_by(until, cloud, settings) - over)
        # One list may show them all again, long after they fell silent among fewer.
        until = min(until, max(fell[one] for one in wave) + window)
        together = wave | (there & self._there_by(until, cloud, settings))
        if self._most_at_once(together, min(turned[one] for one in wave), until) < FLOOR:
            return
        population = len(there | self._ended_since(max(turned[one] for one in wave), settings))
        if len(wave) > settings.collapse_fraction * population:
            self._wrong("D9", manager, f"destroys {len(wave)} of {population} within a window")

    def _there_by(self, until: float, cloud: Heard, settings: Settings) -> set[str]:
        """Whoever is listed; but who was made later was none of those of whom so many turned."""
        made = self.world.cloud.instances
        return {
            one.id
            for one in cloud.items.values()
            if self._is_ours(one, settings) and one.tags.pool
            if one.id not in made or made[one.id].created_at <= until
        }

    def _most_at_once(self, ids: set[str], since: float, until: float) -> int:
        """How many of these lived at one time in between: who was destroyed and the one in its
        place never stood side by side."""
        made = self.world.cloud.instances
        lives = [made[one] for one in ids if one in made]
        at = [since, *(one.created_at for one in lives if since < one.created_at <= until)]
        return (len(ids) - len(lives)) + max(
            sum(one.created_at <= then < (one.ended_at or math.inf) for one in lives) for then in at
        )

    def _has_ended(self, node_id: str) -> bool:
        return self.world.cloud.instances[node_id].ended_at is not None

    def _ended_since(self, turned_last: float, settings: Settings) -> set[str]:
        """Whoever lived when the last of them turned, and was one of those among whom they did."""
        return {
            one.id
            for one in self.world.cloud.instances.values()
            if one.tags.pool == settings.pool
            and one.created_at <= turned_last
            and one.ended_at is not None
            and turned_last < one.ended_at
        }

    def _is_well_again(self, destroyed: Destroyed) -> bool:
        """Its destroy was accepted and never happened, and it says since then that it is up: who
        turns bad later is of another wave (B3)."""
        node = self.world.cloud.instances[destroyed.node_id]
        is_up = node.lives and node.state is CloudState.RUNNING
        if destroyed.reason is Reason.UNPAIRED or not is_up:
            return False
        words = list(node.machine.words.values()) if node.machine is not None else []
        return bool(words) and words[-1].arrived > destroyed.at and words[-1].state != "down"

    def _lived_on(
        self, node_id: str, fell_at: float, after: float, ears: Ears, settings: Settings
    ) -> bool:
        """Whether it pinged later than that, a store that was down since it was last heard: only
        then did it fall silent (D8)."""
        machine = self.world.cloud.instances[node_id].machine
        if machine is None or machine.knocked_at is None or machine.knocked_at <= after:
            return False
        answered = ears.silence(fell_at, settings) - ears.silence(machine.knocked_at, settings)
        return answered < 2 * machine.habits.ping_every

    def _waves(self, pool: Pool) -> dict[str, float]:
        """The nodes that a breaker of the pool was open for, as mass silence, and until when."""
        seen: dict[str, float] = {}
        for name, memory in self.memory.items():
            if self.world.managers[name].pool is pool:
                seen |= memory.waves
        return seen

    def _fell_first(self, node_id: str, fell_at: float, pool: Pool) -> float:
        """When it fell: one that has said nothing since was never well again, whatever else became
        of it, and whichever run found it so. Nor was one that a former run had without its record
        to its end.
        """
        machine = self.world.cloud.instances[node_id].machine
        words = list(machine.words.values()) if machine is not None else []
        lonely = [
            memory.lonely[node_id].since
            for name, memory in self.memory.items()
            if self.world.managers[name].pool is pool and node_id in memory.lonely
        ]
        return min((fell_at, *lonely, *(word.arrived for word in words[-1:])))

    def _turned_at(
        self, order: ShutdownOrder, manager: str, ordered_at: float = float("inf")
    ) -> float:
        """When its node fell silent, or would have for its manager that sees it since later.

        A silence is found at its end. One that is shown again and was silent for long enough is
        found at once, beside those in sight that fell silent a whole limit before.
        """
        settings = self.world.managers[manager].pool.settings
        node, limit_s = self.world.cloud.instances[order.node_id], 0.0
        if order.reason is Reason.BOOT_FAILED:
            limit_s = settings.boot_fail_after
        elif order.reason is Reason.NODE_DOWN and self._down_since(node) == float("inf"):
            limit_s = settings.node_stale_after
        found_at = self.told.ears[manager].shown_since(order.node_id) - limit_s
        fell_at = self._fell_at(order, manager, ordered_at)
        if order.reason is Reason.UNPAIRED:
            fell_at = max(fell_at, self._named_until(node, ordered_at))
        return max(fell_at, found_at)

    def _named_until(self, node: Instance, by: float) -> float:
        """When, by then, the store last took its ping for a record that names this very node.

        D7 keeps it until then, though it pairs with none: it works on, and turns by falling silent.
        """
        machine = node.machine
        record = None if machine is None else self.world.registry.record(machine.uuid)
        if machine is None or record is None or record.instance_id != node.id:
            return float("-inf")
        words = [one.arrived for one in machine.words.values() if one.arrived <= by]
        return max(words, default=float("-inf"))

    def _fell_at(
        self, order: ShutdownOrder, manager: str, ordered_at: float = float("inf")
    ) -> float:
        """When its node was last heard before that order, or was made; or lost its record.

        It may be heard again before a slow destroy ends it.

        One that says that it is down turned bad when it began to say so, however long it pings on.
        So did one without a record when its manager was told, whoever hears it.
        """
        node = self.world.cloud.instances[order.node_id]
        lonely = self.memory[manager].lonely.get(node.id)
        if order.reason is Reason.UNPAIRED and lonely is not None:
            return lonely.since
        heard = self._heard_at(node, self.told.ears[manager], ordered_at)
        if heard is not None and order.reason is Reason.NODE_DOWN:
            heard = min(heard, self._down_since(node))
        return node.created_at if heard is None else heard

    def _down_since(self, node: Instance) -> float:
        """When the first of its newest words came that all say that it is down; inf without any."""
        words = node.machine.words.values() if node.machine is not None else ()
        newest = itertools.takewhile(lambda word: word.state == "down", reversed(words))
        return min((word.arrived for word in newest), default=float("inf"))

    def _heard_at(self, node: Instance, ears: Ears, by: float) -> float | None:
        """When a ping last told, by then, that this node lives.

        One to a record that nothing ties to it does not.
        An adopted node has no record in its tags, and a record of old may name no node: its pings
        end neither its time without a record nor the wave that it is of.
        """
        machine, records = node.machine, ears.newest("records")
        if machine is None or records is None:
            return None
        record = records.items.get(machine.uuid)
        tied = node.tags.record == machine.uuid or (
            record is not None and record.instance_id == node.id
        )
        if not tied:
            return None
        return max(
            (one.arrived for one in machine.words.values() if one.arrived <= by), default=None
        )

    def _sent(self, manager: str, method: str, about: str) -> None:
        if method == "cloud.pins":
            self.asked_for_pins[manager, about] += 1

    def _ledger(self, one: Instance, manager: Manager) -> None:
        """D4: what a node pins is written down before it is destroyed, unless nobody told."""
        paper = manager.pool.journal
        if paper.lost or self.asked_for_pins[manager.name, one.id] >= PINS_TRIES:
            return
        now = self.world.engine.now
        pinned = {
            pin.leftover.id
            for pin in self.world.cloud.pinned.values()
            if pin.node is one and not pin.held and not pin.is_gone(now)
        }
        if pinned:
            pinned -= {entry.leftover.id for entry in paper.whole().leftovers(released=True)}
        if pinned:
            self._wrong(
                "D4", manager, f"destroys {one.id}, whose {sorted(pinned)} nobody wrote down"
            )

    def _released(self, node: Instance, pinned: str, by: str) -> None:
        """D4: no cloud has to refuse that what a living node pins is taken away.

        But where a destroy that was not refused never happened, nothing tells a node that has been
        off the lists for `settle` from one that is gone.
        """
        if not node.lives or node.state is CloudState.STOPPING:
            return
        manager, sent_at = self.world.managers[by], self.world.weather.sent_at
        family = self.told.family(manager.pool.name)
        sent = [ears.destroys[node.id] for ears in family if node.id in ears.destroys]
        is_off = any(one.outcome is not Outcome.FAILED for one in sent) and self.told.ears[by].lack(
            node.id, sent_at, manager.pool.settings
        )
        if not is_off and not self.world.is_excused(node.id, node.tags.record):
            self._wrong("D4", manager, f"releases {pinned}, and {node.id} lives")

    def order_of(self, by: str, node_id: str, sent_at: float) -> tuple[float, ShutdownOrder] | None:
        """The order of a destroy that was sent then, and when it was given.

        A slow destroy may arrive when its node was ordered to go once more.
        """
        given = self.memory[by].ordered.get(node_id, ())
        return next((one for one in reversed(given) if one[0] <= sent_at), None)

    def destroyed(self, one: Instance, by: str) -> None:
        memory, manager = self.memory[by], self.world.managers[by]
        self._ledger(one, manager)
        now, sent_at = self.world.engine.now, self.world.weather.sent_at
        known = self.order_of(by, one.id, sent_at)
        if known is None:
            self._wrong("D1", manager, f"destroys {one.id}, which nobody ordered")
            return
        at, order = known
        turned_at, fell_at = self._turned_at(order, by, at), self._fell_at(order, by, at)
        memory.destroyed.append(Destroyed(at, now, one.id, order.reason, turned_at, fell_at))
        if order.reason in WELL:
            read, _, _ = self.told.ears[by].last_look(order.record or "", None, sent_at)
            record = read.record if read is not None and read.at >= at else None
            is_its_word = self.world.slurm is None
            if record is None or (is_its_word and record.worker_state is not WorkerState.IDLE):
                self._wrong("D2", manager, f"destroys {one.id} as idle, and nobody looked again")

    # U1-U3, U6, U7.

    def _boots(self, manager: Manager, plan: Plan, records: Heard, settings: Settings) -> None:
        holding = [one for one in records.items.values() if one.slot_number is not None]
        waiting = [one for one in records.items.values() if one.slot_number is None and one.claim]
        free = self.world.shape.slots - len(holding) - len(waiting)
        if len(plan.boots) > free:
            self._wrong("U7", manager, f"boots {len(plan.boots)}, {free} slots are free")
        for boot in plan.boots:
            if boot.record is None:
                continue
            uuid = boot.record.uuid
            self.memory[manager.name].boots[uuid] = boot.record.version
            listed = records.items.get(uuid)
            if listed is None or listed.holds_anything:
                self._wrong("U3", manager, f"would reuse {uuid}, which is {listed}")
            elif listed.pool not in (None, settings.pool):
                self._wrong("U1", manager, f"would reuse {uuid} of pool {listed.pool}")
            elif listed.pool is None and self.world.shape.fenced:
                # Nothing would keep a late claim of another pool's from landing on this one's.
                self._wrong("U2", manager, f"would reuse {uuid}, which names no pool")

    def changed(self, before: Record | None, after: Record | None, by: str, what: str) -> None:
        manager = self.world.managers.get(by)
        if after is not None:
            lately = self.writers.get(after.uuid)
            self.writers[after.uuid] = (by, what)
        if manager is not None and before is not None and what == "delete":
            # No listing that lacks it is short for that.
            self.memory[by].ended.add(before.uuid)
        if manager is None or after is None or what not in ("claim", "create"):
            return
        self._claimed(manager, before, after, what, lately)

    def _claimed(
        self,
        manager: Manager,
        before: Record | None,
        after: Record,
        what: str,
        lately: tuple[str, str] | None,
    ) -> None:
        by = manager.name
        if before is not None and before.incarnation == after.incarnation:
            # Renewed, or its node's id written in: no more of them wait for that.
            return
        if before is not None:
            overtaken = self._was_overtaken(manager, before, lately)
            if before.holds_anything and not overtaken:
                self._wrong("U3", manager, f"claims {before.uuid}, which holds something")
            judged = self.memory[by].boots.get(before.uuid)
            if self.world.shape.fenced:
                if not overtaken:
                    self._locked(manager, before, lately)
            elif judged != before.version:
                self._wrong("U1", manager, f"claims {before.uuid} at another version than judged")
        if not any(method == f"store.{what}" for method, _, _ in manager.process.calls):
            # Nobody waits for it any more: it comes on top of what was tried since.
            return
        pool = manager.pool.name
        # What it heard after its order came too late; that all vanished is not to be believed.
        ordered_at = self.cleans.truth.set_up_at(by, after.uuid, self.world.weather.sent_at)
        settings = self.cleans.truth.bound_by(by, ordered_at)
        ears = self.told.ears[by]
        whole = [
            one for one in ears.records if one.complete and one.items and one.given_at <= ordered_at
        ]
        # But an operator who closed the breaker on that has called them gone.
        listed = whole[-1].items if whole and ears.knew_records(ordered_at) else {}
        waiting = [
            one
            for one in self.world.registry.records()
            if one.claim is not None
            and one.claim.pool == pool
            and one.last_ping_at is None
            and (one.uuid == after.uuid or _is_shown_waiting(one, listed.get(one.uuid)))
            and (one.uuid == after.uuid or not self.cleans.truth.came_to_nothing(one))
            and (one.uuid == after.uuid or not self._is_called_gone(one, ears, settings))
        ]
        if len(waiting) > settings.max_nodes:
            self._wrong("U6", manager, f"{len(waiting)} claims wait, {settings.max_nodes} may")

    def _is_called_gone(self, record: Record, ears: Ears, settings: Settings) -> bool:
        """Whether the manager was told, untruly, that the claim's living node is gone (A1).

        Then its create came to nothing as far as anybody can tell: by id (D3), or by the claim's
        tag once every create has taken effect (D13).
        """
        made = self.world.cloud.by_record.get(record.uuid, ())
        own = [one for one in made if one.lives and one.tags.incarnation == record.incarnation]
        known_at = self.cleans.truth.claimed_at.get(record.incarnation or "", float("inf"))
        known_at += settings.create_known_after
        by_tag = [one for one in ears.by_tag.get(record.uuid, ()) if one.given]
        is_denied = bool(by_tag) and by_tag[-1].at >= known_at and not by_tag[-1].nodes
        return bool(own) and all(
            self.world.is_excused(one.id, which="A1")
            and (is_denied or ears.is_gone(one.id, settings.visible_after, one.created_at))
            for one in own
        )

    def _was_overtaken(
        self, manager: Manager, before: Record, lately: tuple[str, str] | None
    ) -> bool:
        """Whether a free record was written to while the claim was on its way: by an operator who
        holds it, a ping that hung in the server (A4), or a manager without the lease (A5).

        The claim was sent before that, or its manager was answered then what the record was, and
        where the store can't compare nothing calls it back.
        """
        if not self._came_late(manager, before):
            return False
        if self.world.shape.fenced and (
            lately == ("operator", "hold") or self.world.is_excused(before.uuid, which="A5")
        ):
            return True
        if lately is None or lately[1] != "ping" or before.claim is not None or before.holds_slot:
            return False
        return self.world.is_excused(before.uuid, which="A4")

    def _came_late(self, manager: Manager, before: Record) -> bool:
        """Whether the claim could not know of the newest write to its record."""
        sent_at = self.world.weather.sent_at
        version = (before.uuid, before.version, before.last_ping_at)
        if self.cleans.signs.get(version, 0.0) > sent_at:
            return True
        ordered_at = self.cleans.truth.set_up_at(manager.name, before.uuid, sent_at)
        read, _, _ = self.told.ears[manager.name].last_look(before.uuid, None, sent_at)
        if read is None or read.record is None or read.at < ordered_at:
            return False
        return read.record.version != before.version

    def _locked(self, manager: Manager, before: Record, lately: tuple[str, str] | None) -> None:
        """Without compare-and-set only what we freed, or what nobody wrote to for long (U2)."""
        by, what = lately or ("", "")
        if by == manager.name and what.startswith("clean"):
            return
        since = self.cleans.signs.get((before.uuid, before.version, before.last_ping_at), 0.0)
        age = self.world.engine.now - since
        truth = self.cleans.truth
        ordered_at = truth.set_up_at(manager.name, before.uuid, self.world.weather.sent_at)
        window = truth.bound_by(manager.name, ordered_at).node_stale_after
        lies = self.world.clock_lies + self.world.measured.slow_s(manager.pool, since)
        if age <= window - EXACT_S - lies:
            self._wrong("U2", manager, f"reuses {before.uuid}, written {age:.0f} s ago by {by}")


def _is_shown_waiting(record: Record, listed: Record | None) -> bool:
    """Whether a listing showed the record in its present life, and unpinged.

    An operator may take the pings of a record after that (A5), and nobody told of it by then.
    """
    if listed is None or listed.incarnation != record.incarnation:
        return False
    return listed.last_ping_at is None


def _first_ended(newest: Heard, ears: Ears) -> set[str]:
    """The nodes that this listing shows as terminated, and no complete one before it did."""
    before = [one for one in ears.cloud if one.complete and one.started < newest.started]
    return _ended_in(newest).difference(*map(_ended_in, before))


def _ended_in(heard: Heard) -> set[str]:
    return {
        id
        for id, item in heard.items.items()
        if isinstance(item, CloudNode) and item.state is CloudState.TERMINATED
    }
