"""The promise, stated from what is true of the world, with no word of how the product decides.

Live: created for, or pinging as, the record's current incarnation, and not terminated in the cloud.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from nodemanager.core.model.reasons import Event
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import CloudState, Record, Tags, life_key
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.plan.plan import Plan
from tests.simulation.cloud import Instance
from tests.simulation.manager import Manager
from tests.simulation.told import Heard, Told
from tests.simulation.world import World

CREATE_BOUND_S = 120.0


@dataclass
class FalseClean:
    """A life that was freed while `node` lived; `before` is its record as it was.

    `losses` is how often its pool's journal had been lost when the write was sent: what it wrote
    over was written down before.
    """

    world: World
    before: Record
    node: Instance
    at: float
    losses: int

    @property
    def record(self) -> Record | None:
        return self.world.registry.record(self.before.uuid)

    @property
    def is_back(self) -> bool:
        record, before = self.record, self.before
        if record is None or not record.holds_anything:
            return False
        if before.incarnation is not None:
            return record.incarnation == before.incarnation
        return record.claim is None and record.slot_number == before.slot_number

    @property
    def may_come_back(self) -> bool:
        """Nobody has its record or its slot, the record can be read, and its pre-image is kept."""
        if _losses(self.world, self.before) != self.losses:
            return False
        record, slot = self.record, self.before.slot_number
        if record is None or record.holds_anything or record.held or record.problems:
            return False
        others = self.world.registry.records()
        return slot is None or all(one.slot_number != slot for one in others)


def _losses(world: World, record: Record, by: float = float("inf")) -> int:
    pool = world.pools.get(record.pool or "")
    return 0 if pool is None else sum(at <= by for at in pool.journal.lost_at)


class Truth:
    """Watches every write and every create. Each finding names the rule and what was so."""

    def __init__(self, world: World, told: Told) -> None:
        self.world = world
        self.told = told
        self.pings: dict[tuple[str, float | None], float] = {}
        self.claimed_at: dict[str, float] = {}
        self.claims: dict[tuple[str, float], float] = {}
        """When each was written, by incarnation and the time that it bears."""
        self.claim_sent_at: dict[str, float] = {}
        self.reused_at: dict[tuple[str, str], list[float]] = defaultdict(list)
        """By manager and uuid, when set-ups were ordered that use the record again."""
        self.new_at: dict[str, list[float]] = defaultdict(list)
        """By manager, when set-ups were ordered that make a record."""
        self.bound: dict[tuple[str, float], Settings] = {}
        """By manager and time, the settings under which set-ups were ordered."""
        self.bound_of: dict[str, Settings] = {}
        """By incarnation, those that its claim was made under (S6)."""
        self.ordered_at: dict[str, tuple[str, float]] = {}
        """By node, who ordered it when."""
        self.false_cleans: dict[str, FalseClean] = {}
        """By the key of the life: those whose node lived, or was made afterwards."""
        self._freed: dict[str, tuple[Record, int]] = {}
        self.denied_at: dict[str, float] = {}
        """By node, when it lived and was last denied (A1)."""
        world.plans.append(self.planned)
        world.registry.changed.append(self.changed)
        world.cloud.books.created.append(self.created)
        world.cloud.books.twinned.append(self.twinned)
        world.cloud.books.destroyed.append(self.destroyed)
        world.cloud.books.asked.append(self.asked)
        world.cloud.is_too_late = self.is_too_late
        world.events.append(self.logged)
        world.registry.passed.append(self.passed)

    def planned(self, manager: Manager, plan: Plan, snapshot: Snapshot, settings: Settings) -> None:
        if plan.boots:
            self.bound[manager.name, self.world.engine.now] = settings
        for boot in plan.boots:
            if boot.record is None:
                self.new_at[manager.name].append(self.world.engine.now)
            else:
                self.reused_at[manager.name, boot.record.uuid].append(self.world.engine.now)

    def set_up_at(self, manager: str, uuid: str, sent_at: float) -> float:
        """When the set-up was ordered whose claim of that record was sent at that time."""
        reused = [at for at in self.reused_at[manager, uuid] if at <= sent_at]
        made = [at for at in self.new_at[manager] if at <= sent_at]
        if self.world.controller is not None:
            # A create takes a record there that was used before.
            return max((*reused, *made), default=sent_at)
        return max(reused or made, default=sent_at)

    def bound_by(self, manager: str, ordered_at: float) -> Settings:
        """The settings under which a set-up was ordered then; a reload binds later ones alone."""
        known = self.bound.get((manager, ordered_at))
        return known or self.world.managers[manager].pool.settings

    def live_node_of(self, record: Record) -> Instance | None:
        """A node that is live in the sense of the promise, if there is one."""
        world = self.world
        for one in world.cloud.instances.values():
            if not one.lives:
                continue
            tags = one.tags
            if (
                record.incarnation is not None
                and tags.record == record.uuid
                and tags.incarnation == record.incarnation
            ):
                return one
            machine = one.machine
            if (
                machine is not None
                and machine.uuid == record.uuid
                and record.ping_secret is not None
                and machine.secret == record.ping_secret
            ):
                return one
        return None

    def changed(self, before: Record | None, after: Record | None, by: str, what: str) -> None:
        world = self.world
        if what == "claim" or what == "create":
            assert after is not None
            claimed = before.claim if before is not None else None
            # One that is but told its node is as old as it was.
            if after.claim is not None and (claimed is None or claimed.at != after.claim.at):
                claimed_at = world.registry.claimed_at(after)
                self.claimed_at[after.claim.incarnation] = claimed_at
                self.claims[after.claim.incarnation, after.claim.at] = claimed_at
                sent_at = world.weather.sent_at
                self.claim_sent_at[after.claim.incarnation] = sent_at
                if by in world.managers:
                    ordered_at = self.set_up_at(by, after.uuid, sent_at)
                    self.bound_of[after.claim.incarnation] = self.bound_by(by, ordered_at)
        if what == "ping" and after is not None and before is not None:
            if after.version == before.version:
                # That alone frees nobody: a write that goes past such a ping does.
                why = f"a ping of {after.uuid} left its version as it was"
                world.break_assumption("A4", why, f"a ping of {after.uuid}")
            self.pings[after.uuid, after.last_ping_at] = world.engine.now
        manager = world.managers.get(by)
        if manager is None:
            return
        if manager.mode != "apply":
            world.violate("S3", f"a dry run wrote {what}")
        written = after or before
        if written is None:
            return
        world.note(f"{by} writes {what} on {written.uuid[-4:]}")
        if not manager.lease:
            world.break_assumption("A5", f"{by} writes without the lease", written.uuid)
        holds = before is not None and before.holds_anything
        # Without compare-and-set a create that found no slot takes its own record away again.
        if what == "delete" and holds and not world.shape.fenced:
            world.violate("C12", f"{by} deleted {written.uuid}, which holds something")
        if before is None or not before.holds_anything or what in ("claim", "create", "fence"):
            return
        freed = after is None or after.incarnation != before.incarnation
        freed = freed or (before.slot_number is not None and after.slot_number is None)
        if not freed:
            return
        key = life_key(before.uuid, before.incarnation)
        losses = _losses(world, before, world.weather.sent_at)
        self._freed[key] = before, losses
        live = self.live_node_of(before)
        if live is not None:
            self.false_cleans[key] = FalseClean(world, before, live, world.engine.now, losses)
        if live is not None and not world.is_excused(before.uuid, live.id):
            world.violate(
                "SAFETY",
                f"{by} freed {before.uuid} ({what}), whose node {live.id} lives: {live.state}",
            )

    def passed(self, uuid: str) -> None:
        """A write took a version for the one it knew, and a ping had come since (A4)."""
        self.world.break_assumption("A4", f"a write to {uuid} went past a ping", uuid)

    def is_too_late(self, tags: Tags) -> bool:
        """Past A2's bound, counted from the claim."""
        since = self.claimed_at.get(tags.incarnation or "", self.world.engine.now)
        settings = self.bound_of.get(tags.incarnation or "")
        settings = settings or self.world.pools[tags.pool or ""].settings
        return self.world.engine.now - since > settings.boot_fail_after + CREATE_BOUND_S

    def came_to_nothing(self, record: Record) -> bool:
        """Whether no node will ever ping the claim: its node has ended, or none can come (A2)."""
        tags = Tags(record.pool, record.uuid, record.incarnation)
        made = self.world.cloud.by_record.get(record.uuid, ())
        own = [one for one in made if one.tags.incarnation == record.incarnation]
        return not any(one.lives for one in own) if own else self.is_too_late(tags)

    def created(self, made: Instance, by: str) -> None:
        """A2, and that nothing is made for a record that was freed meanwhile."""
        world = self.world
        manager = world.managers[by]
        tags = made.tags
        if manager.mode != "apply":
            world.violate("S3", "a dry run created a node")
        if not manager.lease:
            about = made.id, tags.record or ""
            world.break_assumption("A5", f"{by} creates without the lease", *about)
        since = self.claimed_at.get(tags.incarnation or "")
        assert since is not None
        if self.is_too_late(tags):
            late = world.engine.now - since
            why = f"a create took effect {late:.0f} s after its claim"
            world.break_assumption("A2", why, made.id)
        record = world.registry.record(tags.record or "")
        freed = record is None or record.incarnation != tags.incarnation
        key = life_key(tags.record or "", tags.incarnation)
        if key in self._freed:
            self.false_cleans[key] = FalseClean(
                world, self._freed[key][0], made, world.engine.now, self._freed[key][1]
            )
        excused = world.is_excused(made.id, tags.record) or world.registry.is_swapped
        if freed and not excused:
            world.violate("SAFETY", f"{made.id} was made for {tags.record}, freed before")
        # What it heard after its order came too late to count.
        sent_at = self.claim_sent_at[tags.incarnation or ""]
        ordered_at = self.set_up_at(by, tags.record or "", sent_at)
        self.ordered_at[made.id] = by, ordered_at
        # One that was ordered later, and made sooner, was to count this one.
        later = {
            at
            for name, at in (self.ordered_at.get(one.id, ("", 0.0)) for one in world.cloud.living())
            if name == by and at > ordered_at
        }
        # One whose fresh ping a clock that is measured minutes wrong makes look old is nobody's to
        # count; nor is this one, where it came too late (A2).
        is_late = world.is_excused(made.id, which="A2")
        countable = not is_late and not world.is_excused(which="A3")
        for at in sorted({ordered_at, *later}) if countable else ():
            # Each order is bound by what was in force then (S6).
            self._limited(self._lives(made, manager, at), self.bound_by(by, at))

    def _limited(self, lives: list[Instance], settings: Settings) -> None:
        if len(lives) > settings.max_nodes:
            self.world.violate("MAX", f"{len(lives)} nodes live, {settings.max_nodes} are allowed")
        prices = {one.name: one.price or 0.0 for one in settings.sizes}
        price = sum(prices.get(one.tags.size or one.size, 0.0) for one in lives)
        if 0 < settings.max_total_price < price - 1e-9:
            most = settings.max_total_price
            self.world.violate("MAX", f"nodes for {price} an hour live, {most} may")

    def twinned(self, twin: Instance) -> None:
        """A2: a create that took effect twice was too late for both."""
        if self.is_too_late(twin.tags):
            self.world.break_assumption("A2", f"{twin.id} was made too late", twin.id)

    def _lives(self, made: Instance, manager: Manager, ordered_at: float) -> list[Instance]:
        """That node, and those that an order of that time had to count."""
        return [
            one
            for one in self.world.cloud.living()
            if one is made
            or (
                not one.twin
                and not self._is_uncounted(one)
                and one.tags.pool == made.tags.pool
                and self.ordered_at.get(one.id, ("", 0.0))[1] <= ordered_at
                and self._is_evident(one, manager, ordered_at)
            )
        ]

    def _is_uncounted(self, one: Instance) -> bool:
        """Whether it is nobody's to count: it was denied, or came too late, or looks old."""
        names = one.id, one.tags.record
        return any(self.world.is_excused(*names, which=which) for which in ("A1", "A2", "A3"))

    def _is_evident(self, one: Instance, manager: Manager, by: float) -> bool:
        """Whether the manager could know by then of a living node: listed, claimed, or heard.

        One that is not listed and was not heard for poll_stale_after, or that no complete listing
        showed for `settle` and that did not ping either, might as well be gone; so might one whose
        record was not listed.
        """
        # A reload since then binds later orders alone.
        ears, settings = self.told.ears[manager.name], self.bound_by(manager.name, by)
        newest, records = ears.had("cloud", by), ears.had("records", by)
        if newest is None or records is None:
            return True
        shown = newest.items.get(one.id)
        if shown is not None:
            # A listing that shows but the copy of it that has ended says that it has ended.
            return shown.state is not CloudState.TERMINATED
        record = records.items.get(one.tags.record or "")
        excused = self.world.is_excused(one.id, one.tags.record)
        if excused and one.tags.record not in self.world.registry.rows:
            # An operator deleted its record: nothing is left of it (A5).
            return one.created_at >= records.started
        if record is None and not records.items:
            # Everything vanished at once: that is not believed where anything was known (L3).
            return one.created_at >= records.started or ears.knew_records(by)
        if record is None or record.incarnation != one.tags.incarnation or record.problems:
            return one.created_at >= records.started
        if record.last_ping_at is None:
            return True
        if record.instance_id not in (None, one.id):
            # Of two that were made on one record, the other pings.
            return False
        heard_at = self.pings.get((record.uuid, record.last_ping_at), 0.0)
        if records.started - heard_at > settings.poll_stale_after - 1.0:
            return False
        # Of two that were made on one record, either may be the one that pings.
        nodes_by_record = self.world.cloud.by_record.get(one.tags.record or "", [])
        same = {other.id for other in nodes_by_record if other.tags == one.tags}
        # Before a run's first record listing nothing is known that a cloud listing could lack; nor
        # before one shows the record, where others that began after its claim did not.
        whole = [heard for heard in ears.records if heard.complete]
        claimed_at = self.claimed_at.get(record.incarnation or "", by)
        late = [one for one in whole if one.started > claimed_at and not self._shows(one, record)]
        known_at = min(one.given_at for one in whole if not late or self._shows(one, record))
        lacking = []
        for heard in reversed([one for one in ears.cloud if known_at <= one.given_at <= by]):
            shown_states = {heard.items[id].state for id in same & heard.items.keys()}
            if shown_states - {CloudState.TERMINATED}:
                break
            # One that began before the node was made, or was heard last, does not lack it.
            if heard.complete and heard.started >= max(one.created_at, heard_at):
                lacking.append(heard)
        if len(lacking) < settings.absent_listings:
            return True
        # In its first visible_after no listing need show it, and none settles its end (C11).
        first_at = self.pings.get((record.uuid, record.first_ping_at), heard_at)
        young_until = min(first_at, heard_at) + settings.visible_after - self.world.clock_lies
        since = max(lacking[-1].started, young_until - 1.0)
        return lacking[0].started - since < settings.settle

    @staticmethod
    def _shows(heard: Heard, record: Record) -> bool:
        listed = heard.items.get(record.uuid)
        return listed is not None and listed.incarnation == record.incarnation

    def destroyed(self, one: Instance, by: str) -> None:
        world = self.world
        manager = world.managers[by]
        world.note(f"{by} destroys {one.id}")
        if manager.mode != "apply":
            world.violate("S3", "a dry run destroyed a node")
        if not manager.lease:
            world.break_assumption("A5", f"{by} destroys without the lease", one.id)
        # Where an operator took its tags on the way, what it was listed with counts.
        sent = self.told.ears[by].destroys.get(one.id)
        pool = (one if sent is None else sent).tags.pool
        if pool != manager.pool.name:
            world.violate("T3", f"{by} destroyed {one.id} of pool {pool}")

    def logged(self, manager: Manager, event: Event, fields: dict[str, object]) -> None:
        """What a manager itself calls a broken promise is one, whatever was assumed.

        But a false clean, which is what a broken assumption comes to; and a ping that was under way
        for minutes while its node ended is taken for one (U8).
        """
        if event is not Event.INVARIANT_BROKEN:
            return
        rule = fields["rule"]
        names = [one.id for one in self._alive(fields)] if rule == "U8" else []
        if rule == "U8" and (not names or self.world.is_excused(*names, str(fields["record"]))):
            return
        self.world.violate("PROOF", f"{manager.name} says that it broke {rule}: {fields}")

    def _alive(self, fields: dict[str, object]) -> list[Instance]:
        """The living node that bears the life which a line names; two, where its create did two."""
        incarnation = fields["incarnation"]
        key = life_key(str(fields["record"]), incarnation and str(incarnation))
        return [
            one
            for one in self.world.cloud.living()
            if one.machine is not None and life_key(one.machine.uuid, one.tags.incarnation) == key
        ]

    def asked(
        self, manager: str, found: tuple[object, ...], *, record: str | None, node_id: str | None
    ) -> None:
        """A1, as the answers keep it or not."""
        world = self.world
        if node_id is not None:
            one = world.cloud.instances.get(node_id)
            subjects = [] if one is None else [one]
        else:
            subjects = world.cloud.by_record.get(record or "", [])
        shown = {getattr(node, "id", "") for node in found}
        for one in subjects:
            age = world.engine.now - one.created_at
            if one.lives and one.id not in shown and age > world.cloud.traits.visible_after:
                world.break_assumption("A1", f"{one.id} lives and was denied", one.id)
                self.denied_at[one.id] = world.engine.now
