"""A monitor for each of the rules C0-C12, C20-C22, P6: every order to free, every write that frees.

An order is held against what its manager was told by then, a write against what is so and what
was answered just before. Nothing here reads what the manager made of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from nodemanager.actors.messages import CarriedOut
from nodemanager.core.execute.effects import LookAtRecord
from nodemanager.core.execute.workflow import Action
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import (
    CloudNode,
    CloudState,
    Guarantee,
    Outcome,
    Record,
    WorkerState,
)
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.plan.plan import Plan
from nodemanager.core.safety.orders import CleanOrder
from tests.simulation.manager import Manager
from tests.simulation.told import Answer, Destroy, Ears, Heard, Told
from tests.simulation.truth import Truth
from tests.simulation.world import World

ORDER_LIVES_S = 60.0
ASKED_APART_S = 30.0
EXACT_S = 1.0
"""For what the measuring of clocks rounds off."""

Version = tuple[str, str, float | None]


@dataclass(frozen=True)
class Ordered:
    """An order as it was given."""

    order: CleanOrder
    manager: Manager
    settings: Settings
    at: float
    ears: Ears
    record: Record
    clouds: tuple[Heard, ...]
    records: tuple[Heard, ...]
    claimed_under: Settings
    """What was in force when its claim was ordered (S6)."""

    @property
    def cloud(self) -> Heard:
        return self.clouds[-1]

    @property
    def in_vain(self) -> bool:
        """It pings on: the cloud's denials alone free it, and its pings say nothing (P6)."""
        return self.order.reason is Reason.PINGER_DENIED

    @property
    def never_pinged(self) -> bool:
        """It is a claim that no node ever pinged (C21)."""
        record = self.record
        pinged = record.first_ping_at is not None or record.last_ping_at is not None
        return record.claim is not None and not pinged

    @property
    def window(self) -> float:
        if not self.never_pinged:
            return self.settings.node_stale_after
        settings = self.claimed_under
        expiry = settings.boot_fail_after + 120.0 + settings.visible_after
        return expiry if settings.claim_expiry else max(expiry, settings.node_stale_after)


def complete(heard: list[Heard], at: float) -> tuple[Heard, ...]:
    return tuple(one for one in heard if one.complete and one.ended <= at)


def shows(node: CloudNode, record: Record) -> bool:
    """A node that is there, and that is the record's by tag or by instance id (C4)."""
    if node.state is CloudState.TERMINATED:
        return False
    tags = node.tags
    if record.instance_id is not None and node.id == record.instance_id:
        # What a ping names is no proof: a node is that record's whose tag it bears (P1a).
        return tags.record in (None, record.uuid) or record.claim is None
    return tags.record == record.uuid and tags.incarnation == record.incarnation


def held_in_the_gap(before: Record, read: Record | None, age_s: float) -> bool:
    """N33: on a store that can't compare, an operator's hold came between the last read, so long
    before the write was sent, and the write; and nothing else did. doc/arvados tells of it."""
    if read is None or read.held or not before.held:
        return False
    nodes_own = ("first_ping_at", "last_ping_at", "instance_id", "claim", "slot_number")
    same = all(getattr(read, name) == getattr(before, name) for name in nodes_own)
    return same and age_s <= EXACT_S


class CleanRules:
    """Watches plans for orders and the registry for writes."""

    def __init__(self, world: World, told: Told, truth: Truth) -> None:
        self.world, self.told, self.truth = world, told, truth
        self.signs: dict[Version, float] = {}
        self.newest_sign: dict[str, float] = {}
        self.sign_before_hold: dict[str, float] = {}
        self.taken: dict[str, str] = {}
        """By uuid, the version at which the server gave its address to another, behind a fence."""
        self.orders: dict[tuple[str, str], list[Ordered]] = {}
        self.fenced_at: dict[str, float] = {}
        self.was_fenced_at: dict[str, float] = {}
        """By uuid, when the newest fence went up that is down again."""
        self.freed_at: dict[tuple[str, str | None], float] = {}
        """By uuid and incarnation, when that life was freed."""
        self.fences: dict[tuple[str, str], list[float]] = defaultdict(list)
        """By manager and uuid, when each fence was sent that took effect."""
        self.judged: dict[str, Record] = {}
        """By uuid, the record as it was when its fence went up."""
        self.looked: dict[tuple[str, str], list[float]] = defaultdict(list)
        """By manager and uuid, when the daemon was told of a last look."""
        world.given.append(self.given)
        self.done: dict[str, dict[tuple[str, float], float]] = defaultdict(dict)
        """By manager, and by uuid and when the call was sent: when it began to free (C10)."""
        self.pings: dict[tuple[str, float | None], float] = {}
        self.first_pings: dict[tuple[str, str], float] = {}
        """By uuid and incarnation. The server writes `first_ping_at` anew with the first ping after
        another node took the address; the node is no younger for that."""
        self.named_at: dict[str | None, float] = {}
        """By pool, when a record came to name it; without those named from the beginning."""
        world.plans.append(self.planned)
        world.registry.changed.append(self.changed)

    # What is so.

    def changed(self, before: Record | None, after: Record | None, by: str, what: str) -> None:
        if after is not None and (before is None or before.pool != after.pool):
            self.named_at.setdefault(after.pool, self.world.engine.now)
        manager = self.world.managers.get(by)
        if manager is not None and before is not None and what.startswith("clean"):
            self._cleaned(manager, before, what.removeprefix("clean").strip())
        if manager is not None and after is not None and what == "fence":
            # A late one behind the first changes nothing: the node was locked out before.
            self.fenced_at.setdefault(after.uuid, self.world.engine.now)
            self.fences[manager.name, after.uuid].append(self.world.weather.sent_at)
            # Of a later life than the plan judged it is no clean of the plan: a create was refused.
            given = [
                one
                for one in self.orders.get((manager.name, after.uuid), [])
                if one.record.incarnation == after.incarnation
            ]
            waits = any(call[1] == after.uuid for call in manager.process.calls)
            if waits and given and self.world.engine.now - given[-1].at <= ORDER_LIVES_S:
                # It is of the cycle of its first write (C10); a late one is of none.
                self._counts(manager, after.uuid)
            if before is not None:
                self.judged.setdefault(after.uuid, before)
        elif after is not None and after.fenced and what == "claim":
            # A late fence writes the claim that it knew with it, over a clean where none compares.
            self.fenced_at.setdefault(after.uuid, self.world.engine.now)
        elif after is not None and not after.fenced:
            if after.uuid in self.fenced_at:
                self.was_fenced_at[after.uuid] = self.fenced_at.pop(after.uuid)
            self.judged.pop(after.uuid, None)
        if after is not None and what == "take_address" and after.uuid in self.fenced_at:
            # The server's own hand, for another node that has the address now: the fence can't
            # keep it out. It is no sign of life, but counts if it was there to be read.
            self.taken[after.uuid] = after.version
        if after is not None and what not in ("fence", "unfence", "take_address"):
            now = self.world.engine.now
            if what == "claim":
                now = self.world.registry.claimed_at(after)
            self.signs[after.uuid, after.version, after.last_ping_at] = now
            if what == "hold":
                self.sign_before_hold[after.uuid] = self.newest_sign.get(after.uuid, 0.0)
            self.newest_sign[after.uuid] = now
            if what == "ping":
                self.pings[after.uuid, after.last_ping_at] = now
                if after.incarnation is not None:
                    self.first_pings.setdefault((after.uuid, after.incarnation), now)

    def _cleaned(self, manager: Manager, before: Record, reason: str) -> None:
        """One more on a record that is free already frees nobody.

        Nor does one on a life that was freed since it was sent, and that a late fence wrote back.
        """
        life, sent_at = (before.uuid, before.incarnation), self.world.weather.sent_at
        was_freed = before.fenced and sent_at < self.freed_at.get(life, float("-inf"))
        if before.holds_anything and not was_freed:
            self.freed_at[life] = self.world.engine.now
            self.written(manager, before, reason)

    def _counts(self, manager: Manager, uuid: str) -> None:
        """Against the cap of this cycle; a call that arrives a second time is the same clean."""
        call = uuid, self.world.weather.sent_at
        self.done[manager.name].setdefault(call, self.world.engine.now)

    def given(self, manager: str, message: object) -> None:
        if not isinstance(message, CarriedOut) or message.key.action is not Action.CLEAN:
            return
        uuid = message.key.id
        if isinstance(message.effect, LookAtRecord) and uuid not in self.fenced_at:
            self.looked[manager, uuid].append(self.world.engine.now)

    # Orders.

    def planned(self, manager: Manager, plan: Plan, snapshot: Snapshot, settings: Settings) -> None:
        if not plan.cleans or manager.mode != "apply":
            return
        ears, now = self.told.ears[manager.name], self.world.engine.now
        clouds = complete(list(ears.cloud), now)
        records = complete(list(ears.records), now)
        if not clouds or not records:
            self.world.violate("L1", f"{manager.name} frees on no listing at all")
            return
        self._cap(manager, plan, settings)
        for order in plan.cleans:
            record = records[-1].items.get(order.uuid)
            if record is None:
                self.world.violate("C6", f"{order.uuid} is freed, and no listing shows it")
                continue
            claimed_under = self.truth.bound_of.get(record.incarnation or "", settings)
            ordered = Ordered(
                order, manager, settings, now, ears, record, clouds, records, claimed_under
            )
            self.orders.setdefault((manager.name, order.uuid), []).append(ordered)
            forced = () if order.hand is None else order.hand.forced
            for rule, check in CHECKS.items():
                if rule in forced:
                    # An operator breaks it by name (O3).
                    continue
                why = check(self, ordered)
                if why is not None:
                    self.world.violate(rule, f"{order.uuid} ({order.reason.value}): {why}")

    def _cap(self, manager: Manager, plan: Plan, settings: Settings) -> None:
        newest = self.told.ears[manager.name].newest("cloud")
        since = newest.started if newest is not None else 0.0
        done = [at for at in self.done[manager.name].values() if at > since]
        count = len(plan.cleans) + len(done)
        if count > settings.max_cleans_per_cycle:
            self.world.violate(
                "C10", f"{count} cleans in a cycle, {settings.max_cleans_per_cycle} are allowed"
            )
        if not self.world.shape.proven:
            self.world.violate("L2", f"{manager.name} frees on listings that nobody proved whole")
        if plan.breaker.is_open:
            self.world.violate("C10", f"{manager.name} frees while the breaker is open")
        if not manager.lease:
            self.world.violate("C10", f"{manager.name} frees without the lease")

    def c0(self, ordered: Ordered) -> str | None:
        record, pool = ordered.record, ordered.settings.pool
        names = {record.pool, record.claim.pool if record.claim is not None else record.pool}
        if names == {None}:
            others = {one.pool for one in self.world.registry.records()} - {None, pool}
            # Another may come after the listing that a plan is made from.
            listed_at = ordered.records[-1].started
            others = {one for one in others if self.named_at.get(one, listed_at) <= listed_at}
            adopts = ordered.settings.adopt_unclaimed
            may = not others if adopts is None else adopts
            return None if may else "it names no pool, and others have records here"
        return None if names <= {pool, None} else f"it is of pool {names}"

    def c1(self, ordered: Ordered) -> str | None:
        one = ordered.record
        fields = (one.slot_number, one.hostname, one.ip_address, one.first_ping_at)
        holds = any(value is not None for value in (*fields, one.last_ping_at, one.claim))
        return None if holds else "it holds nothing"

    def c2(self, ordered: Ordered) -> str | None:
        record = ordered.record
        said = record.worker_state in (WorkerState.BUSY, WorkerState.IDLE)
        pinged_at = self.pings.get((record.uuid, record.last_ping_at))
        if not said or pinged_at is None or ordered.in_vain:
            return None
        age, lies = ordered.at - pinged_at, self._lies(ordered.manager, pinged_at)
        fresh = age <= ordered.settings.node_stale_after - EXACT_S - lies
        return f"its node said {record.worker_state} {age:.0f} s ago" if fresh else None

    def _lies(self, manager: Manager, stamped_at: float) -> float:
        """Seconds by which what was stamped at that time may look too old to that manager (A3)."""
        world = self.world
        return world.clock_lies + world.measured.slow_s(manager.pool, stamped_at)

    def c3(self, ordered: Ordered) -> str | None:
        return None if ordered.never_pinged or ordered.in_vain else self._too_early(ordered)

    def c21(self, ordered: Ordered) -> str | None:
        """A claim that never pinged has a window of its own; the record's other stamps none."""
        return self._too_early(ordered) if ordered.never_pinged else None

    def c22(self, ordered: Ordered) -> str | None:
        """Never pinged and not young any more is all that `startup-fail` says."""
        record = ordered.record
        if record.first_ping_at is not None or record.last_ping_at is not None:
            return None
        if self.c1(ordered) is None and self._too_early(ordered) is None:
            return None
        return "nothing but `startup-fail` speaks for it"

    def _too_early(self, ordered: Ordered) -> str | None:
        record = ordered.record
        version = self.world.registry.version_of(record)
        since = self.signs.get((record.uuid, version, record.last_ping_at))
        if since is None:
            return None
        quiet = ordered.at - since
        enough = quiet > ordered.window - EXACT_S - self._lies(ordered.manager, since)
        return None if enough else f"quiet for {quiet:.1f} s, its window is {ordered.window:.0f} s"

    def c4(self, ordered: Ordered) -> str | None:
        found = [one.id for one in ordered.cloud.items.values() if shows(one, ordered.record)]
        return f"{found} is listed" if found else None

    def c5(self, ordered: Ordered) -> str | None:
        settings, record = ordered.settings, ordered.record
        count, first, last = 0, 0.0, 0.0
        for heard in reversed([one for one in ordered.ears.cloud if one.ended <= ordered.at]):
            if any(shows(node, record) for node in heard.items.values()):
                break
            if not heard.complete:
                continue
            if count and first - heard.started > settings.poll_stale_after:
                break
            last = last or heard.started
            first = heard.started
            count += 1
        if count >= settings.absent_listings and last - first >= settings.settle:
            return None
        return f"absent from {count} listings over {last - first:.0f} s"

    def c6(self, ordered: Ordered) -> str | None:
        uuid, version = ordered.order.uuid, ordered.order.version
        before = [one for one in ordered.records if one.ended < ordered.cloud.started]
        if not before:
            return "no record listing ended before the cloud listing began"
        if ordered.in_vain:
            return None
        judged = before[-1].items.get(uuid)
        if judged is None or judged.version != version:
            return f"it was judged at {version}, the listing before showed {judged}"
        heard_since = [one for one in ordered.ears.records if one.ended <= ordered.at]
        for heard in heard_since:
            seen = heard.items.get(uuid)
            if heard.started <= before[-1].started or seen is None:
                continue
            if seen.fenced and heard_since[-1].items.get(uuid, seen).version == version:
                # Our own fence, which is lifted. Slurm's nodes have the version from before again.
                continue
            if seen.version != version:
                return f"a later listing showed {seen.version}"
        return None

    def c7(self, ordered: Ordered) -> str | None:
        limit = ordered.settings.poll_stale_after
        for source, heard in (("cloud", ordered.cloud), ("records", ordered.records[-1])):
            age = ordered.at - heard.started
            if age > limit:
                return f"the {source} poll is {age:.0f} s old"
        scheduled_at = ordered.ears.scheduled_at
        if ordered.settings.scheduled and ordered.at - scheduled_at > limit:
            return f"the scheduler last told its nodes {ordered.at - scheduled_at:.0f} s ago"
        asked = ordered.manager.wishlist_at
        if ordered.settings.demand_polled and (asked is None or ordered.at - asked > limit):
            return f"the wishlist was last answered at {asked}"
        return None

    def c8(self, ordered: Ordered) -> str | None:
        manager, uuid = ordered.manager, ordered.order.uuid
        timeout = ordered.settings.action_timeout
        for method, about, since in manager.process.calls:
            if ordered.at - since > timeout - ORDER_LIVES_S:
                continue
            if about == uuid and method in ("store.claim", "store.create", "cloud.create"):
                return f"{method} is under way"
            if about == uuid and method == "store.clean":
                return "a clean is under way"
        for node_id, destroy in ordered.ears.destroys.items():
            at, tags = destroy.at, destroy.tags
            if tags.record != uuid or destroy.outcome in (Outcome.GONE, Outcome.FAILED):
                continue
            if tags.incarnation != ordered.record.incarnation:
                continue
            answers = ordered.ears.by_id.get(node_id, [])
            ended = any(
                not one.nodes or one.nodes[0].state is CloudState.TERMINATED
                for one in answers
                if one.at >= at
            )
            if not ended and ordered.at - at < timeout - ORDER_LIVES_S:
                return f"the shutdown of {node_id} is under way"
        return None

    def c9(self, ordered: Ordered) -> str | None:
        holds = ordered.manager.pool.holds
        commanded = ordered.order.uuid in holds or ordered.record.instance_id in holds
        return "it is on hold" if ordered.record.held or commanded else None

    def p6(self, ordered: Ordered) -> str | None:
        """One that pings is freed on denials alone: by tag, and by id where it has one."""
        if not ordered.in_vain:
            return None
        record, settings, ears = ordered.record, ordered.settings, ordered.ears
        asked = {"tag": ears.by_tag.get(record.uuid, [])}
        if record.instance_id is not None:
            asked["id"] = ears.by_id.get(record.instance_id, [])
        elif record.claim is None:
            return "nothing but its own pings says whose it is"
        for by, answers in asked.items():
            since, newest = ordered.at, ordered.at
            for answer in reversed([one for one in answers if one.at <= ordered.at]):
                seen = any(shows(node, record) for node in answer.nodes)
                if seen or newest - answer.at > settings.poll_stale_after:
                    break
                since = newest = answer.at
            if not ordered.at - since > settings.node_stale_after - EXACT_S:
                return f"denied by {by} for {ordered.at - since:.0f} s"
        return None

    # Writes.

    def written(self, manager: Manager, before: Record, reason: str) -> None:
        """A clean took effect: what was answered just before, and what was so (C11, C12, C20)."""
        world, ears, now = self.world, self.told.ears[manager.name], self.world.engine.now
        uuid = before.uuid
        # A late write was ordered, and looked at, before it was sent.
        sent_at = world.weather.sent_at
        read, tagged, by_id = ears.last_look(uuid, before.instance_id, sent_at)

        def wrong(rule: str, why: str) -> None:
            world.violate(rule, f"{manager.name} freed {uuid} ({reason}): {why}")

        if read is None or tagged is None:
            wrong("C11", "it was not read again, or not asked for by tag")
            return
        if manager.guarantee is Guarantee.CAS and not world.shape.stampless_pings:
            seen = read.record
            if seen is None or seen.version != before.version:
                wrong("C12", "it had moved since the last look")
        fenced = manager.guarantee is Guarantee.FENCED
        in_the_gap = fenced and held_in_the_gap(before, read.record, sent_at - read.at)
        if in_the_gap:
            # Nothing else moved it: it is judged as it was when it was read.
            self.newest_sign[uuid] = self.sign_before_hold.get(uuid, 0.0)
        elif before.held:
            wrong("C9", "it is on hold")
        exception = reason in (Reason.AFTER_SHUTDOWN.value, Reason.CREATE_REFUSED.value)
        alive = [node.id for node in tagged.nodes if shows(node, before)]
        if reason == Reason.AFTER_SHUTDOWN.value:
            self._after_shutdown(manager, before, wrong)
            family = self.told.family(manager.pool.name)
            destroyed = {node_id for one in family for node_id in one.destroys}
            alive = [node_id for node_id in alive if node_id not in destroyed]
        if before.instance_id is not None and not exception:
            if by_id is None:
                wrong("C11", f"{before.instance_id} was not asked for")
            else:
                alive += [node.id for node in by_id.nodes if shows(node, before)]
        # One that came too late was made after the look, when its claim had expired (A2).
        made = world.cloud.instances
        alive = [
            one
            for one in alive
            if not world.is_excused(one, which="A2") or made[one].created_at <= read.at
        ]
        if alive:
            wrong("C11", f"{alive} answered to the last look")
        if exception:
            return
        cleans = any(call[:2] == ("store.clean", uuid) for call in manager.process.calls)
        if cleans and manager.guarantee is not Guarantee.FENCED:
            self._counts(manager, uuid)
        given = self.orders.get((manager.name, uuid), [])
        ordered = next((one for one in reversed(given) if one.at <= sent_at), None)
        if ordered is None:
            wrong("C11", "nobody ordered it")
            return
        if tagged.at < ordered.at:
            wrong("C11", "it was asked for before the order, not after")
        looked_at = tagged.at
        if manager.guarantee is Guarantee.FENCED:
            looked_at = self._fenced(manager, ordered, before, tagged, wrong)
        # Not-after binds the first write: one that a late write undid is written again (C12).
        fences = self.fences[manager.name, uuid]
        begun_at = next((at for at in fences if ordered.at <= at <= sent_at), sent_at)
        looked_at = min(looked_at, begun_at)
        late = looked_at > ordered.at + ORDER_LIVES_S + EXACT_S
        if late and not manager.was_paused(ordered.at):
            wrong("C11", f"the last look was {looked_at - ordered.at:.0f} s after the order")
        looks = self.looked[manager.name, uuid]
        decided_at = next((at for at in reversed(looks) if at <= begun_at), None)
        if decided_at is not None and decided_at > ordered.at + ORDER_LIVES_S + EXACT_S:
            # Also where it had stood still: this it could see.
            wrong("C11", f"it was decided {decided_at - ordered.at:.0f} s after the order")
        newest = self.newest_sign.get(uuid, 0.0)
        quiet = now - newest
        if ordered.in_vain or self._ping_hung(manager, read.record, tagged, uuid):
            quiet = float("inf")
        if quiet <= ordered.window - EXACT_S - self._lies(manager, newest):
            rule = "C21" if ordered.never_pinged else "C3"
            hand = ordered.order.hand
            if hand is None or rule not in hand.forced:
                wrong(rule, f"its last sign of life is {quiet:.0f} s ago")
        self._denied_early(ordered, tagged, before, wrong)

    def _ping_hung(self, manager: Manager, read: Record | None, tagged: Answer, uuid: str) -> bool:
        """Whether a ping that hung in the server wrote over the fence after the last look (A4).

        Its node sent it before the fence, and no store that can't compare keeps it out. A fence
        that came late, after the look, was not there to keep it out.
        """
        seen = manager.guarantee is Guarantee.FENCED and read is not None and read.fenced
        stands = self.fenced_at.get(uuid, float("inf")) <= tagged.at
        return seen and not stands and self.world.is_excused(uuid, which="A4")

    def _fenced(
        self,
        manager: Manager,
        ordered: Ordered,
        before: Record,
        tagged: Answer,
        wrong: Callable[[str, str], None],
    ) -> float:
        """Locked out for one time-out, and asked for after that (C12). When the fence was sent."""
        fenced_at = self.fenced_at.get(before.uuid)
        if self.world.is_excused(before.uuid, which="A4"):
            # A ping that hangs in the server is kept out by no fence, and may take it down; but the
            # fence is the write that the order's time binds (C11).
            if fenced_at is None or fenced_at > tagged.at:
                fenced_at = self.was_fenced_at.get(before.uuid)
            is_its_own = fenced_at is not None and fenced_at >= ordered.at
            return fenced_at - manager.store.settle_wait if is_its_own else tagged.at
        if not manager.alive and any(at > ordered.at for at in manager.pool.journal.lost_at):
            # The next run knows of no write that may be late, and takes the fence down.
            return self.was_fenced_at.get(before.uuid, tagged.at)
        if fenced_at is None or fenced_at < self.newest_sign.get(before.uuid, 0.0):
            wrong("C12", "it was not fenced since its last sign of life")
            return tagged.at
        ears = self.told.ears[manager.name]
        read, _, _ = ears.last_look(before.uuid, None, self.world.weather.sent_at)
        seen = None if read is None else read.record
        taken = self.taken.get(before.uuid)
        stood_at = fenced_at + manager.store.settle_wait
        # A write may have left before, and is only repeated then.
        unmoved = any(
            one.at >= stood_at and one.record is not None and one.record.version != taken
            for one in ears.reads.get(before.uuid, ())
        )
        if seen is not None and seen.version == taken and not unmoved:
            wrong("C12", "its address was taken before it was read again")
        if self.world.controller is not None:
            if self.newest_sign.get(before.uuid, 0.0) > ordered.at:
                wrong("C12", "its slurmd answered between the order and its fence")
        elif self._moved(ordered, before):
            wrong("C12", "it was pinged between the order and its fence")
        if tagged.at - fenced_at < manager.store.settle_wait - EXACT_S:
            wrong("C12", f"its fence stood for {tagged.at - fenced_at:.1f} s")
        return fenced_at - manager.store.settle_wait

    def _moved(self, ordered: Ordered, before: Record) -> bool:
        judged = self.judged[before.uuid]
        return judged.last_ping_at != ordered.record.last_ping_at and not ordered.in_vain

    def _denied_early(
        self,
        ordered: Ordered,
        tagged: Answer,
        before: Record,
        wrong: Callable[[str, str], None],
    ) -> None:
        """A denial counts only visible_after past the first ping."""
        first = self.pings.get((before.uuid, before.first_ping_at))
        if first is None:
            return
        if before.incarnation is not None:
            first = self.first_pings.get((before.uuid, before.incarnation), first)
        since, limit = tagged.at - first, ordered.settings.visible_after
        if since <= limit - EXACT_S - self._lies(ordered.manager, first):
            wrong("C11", f"denied {since:.0f} s after its first ping, {limit:.0f} s are needed")

    def _after_shutdown(
        self, manager: Manager, before: Record, wrong: Callable[[str, str], None]
    ) -> None:
        """C20 and D3: a node of this incarnation that we destroyed, and that is gone.

        An earlier manager of the pool may have sent the destroy, or had the answer.
        """
        family = self.told.family(manager.pool.name)
        mine = [
            (node_id, destroy)
            for ears in family
            for node_id, destroy in ears.destroys.items()
            if (
                destroy.tags.record == before.uuid
                and (before.claim is None or destroy.tags.incarnation == before.incarnation)
            )
            or (destroy.tags.record is None and before.instance_id == node_id)
            or (before.claim is None and before.instance_id == node_id)
        ]
        if not mine:
            # A kill may come between the intent and the destroy, and the node may end by itself.
            # A record without a claim has no incarnation, nor has any other node from before us.
            living = self.truth.live_node_of(before)
            if living is not None and not self.world.is_excused(living.id, which="A1"):
                wrong("C20", "no node of this incarnation was destroyed")
            return
        if not any(self._is_gone(*one, family, manager) for one in mine):
            wrong("D3", f"{mine} never was said to be gone")

    def _is_gone(
        self, node_id: str, destroy: Destroy, family: list[Ears], manager: Manager
    ) -> bool:
        """Terminated; or unknown twice, far enough apart, to a cloud that must know it (D3)."""
        if destroy.outcome is Outcome.GONE:
            return True
        answers = [
            one for ears in family for one in ears.by_id.get(node_id, []) if one.at >= destroy.at
        ]
        if any(one.nodes and one.nodes[0].state is CloudState.TERMINATED for one in answers):
            return True
        denials = sorted(one.at for one in answers if not one.nodes)
        if not denials:
            return False
        visible_after = manager.pool.settings.visible_after
        if visible_after == 0:
            return True
        created = self.world.cloud.instances[node_id].created_at
        if self.world.is_excused(node_id, which="A2"):
            # After a jump of our clock a launch's date tells nothing, and the claim is what is left
            # of its age: this create took effect long after its own.
            created = min(
                created, self.truth.claimed_at.get(destroy.tags.incarnation or "", created)
            )
        past = [one for one in denials if one - created > visible_after - EXACT_S - 40.0]
        return len(past) >= 2 and past[-1] - past[0] >= ASKED_APART_S - 2 * EXACT_S


CHECKS: dict[str, Callable[[CleanRules, Ordered], str | None]] = {
    "C0": CleanRules.c0,
    "C1": CleanRules.c1,
    "C2": CleanRules.c2,
    "C3": CleanRules.c3,
    "C4": CleanRules.c4,
    "C5": CleanRules.c5,
    "C6": CleanRules.c6,
    "C7": CleanRules.c7,
    "C8": CleanRules.c8,
    "C9": CleanRules.c9,
    "C21": CleanRules.c21,
    "C22": CleanRules.c22,
    "P6": CleanRules.p6,
}
