"""The promise, stated from what is true of the world, with no word of how the product decides.

Live: created for, or pinging as, the record's current incarnation, and not terminated in the cloud.
"""

from __future__ import annotations

from collections import defaultdict

from nodemanager.core.model import CloudState, Record, Tags
from nodemanager.core.plan import Plan
from nodemanager.core.settings import Settings
from nodemanager.core.snapshot import Snapshot
from tests.simulation.cloud import Instance
from tests.simulation.manager import Manager
from tests.simulation.told import Told
from tests.simulation.world import World

CREATE_BOUND_S = 120.0


class Truth:
    """Watches every write and every create. Each finding names the rule and what was so."""

    def __init__(self, world: World, told: Told) -> None:
        self.world = world
        self.told = told
        self.pings: dict[tuple[str, float | None], float] = {}
        self.claimed_at: dict[str, float] = {}
        self.claim_sent_at: dict[str, float] = {}
        self.reused_at: dict[tuple[str, str], float] = {}
        """By manager and uuid, when a set-up was ordered that uses the record again."""
        self.new_at: dict[str, list[float]] = defaultdict(list)
        """By manager, when set-ups were ordered that make a record."""
        self.ordered_at: dict[str, tuple[str, float]] = {}
        """By node, who ordered it when."""
        world.plans.append(self.planned)
        world.registry.changed.append(self.changed)
        world.cloud.books.created.append(self.created)
        world.cloud.books.destroyed.append(self.destroyed)
        world.cloud.books.asked.append(self.asked)
        world.cloud.is_too_late = self.is_too_late

    def planned(self, manager: Manager, plan: Plan, snapshot: Snapshot, settings: Settings) -> None:
        for boot in plan.boots:
            if boot.record is None:
                self.new_at[manager.name].append(self.world.engine.now)
            else:
                self.reused_at[manager.name, boot.record.uuid] = self.world.engine.now

    def set_up_at(self, manager: str, uuid: str, sent_at: float) -> float:
        """When the set-up was ordered whose claim of that record was sent at that time."""
        reused_at = self.reused_at.get((manager, uuid))
        if reused_at is not None:
            return reused_at
        return max((at for at in self.new_at[manager] if at <= sent_at), default=sent_at)

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
            if after.claim is not None:
                self.claimed_at[after.claim.incarnation] = world.engine.now
                self.claim_sent_at[after.claim.incarnation] = world.weather.sent_at
        if what == "ping" and after is not None:
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
            world.break_assumption("A5", f"{by} writes without the lease")
        if before is None or not before.holds_anything or what in ("claim", "create", "fence"):
            return
        freed = after is None or after.incarnation != before.incarnation
        freed = freed or (before.slot_number is not None and after.slot_number is None)
        if not freed:
            return
        live = self.live_node_of(before)
        if live is not None and not world.broken:
            world.violate(
                "SAFETY",
                f"{by} freed {before.uuid} ({what}), whose node {live.id} lives: {live.state}",
            )

    def is_too_late(self, tags: Tags) -> bool:
        """Past A2's bound, counted from the claim."""
        since = self.claimed_at.get(tags.incarnation or "", self.world.engine.now)
        settings = self.world.pools[tags.pool or ""].settings
        return self.world.engine.now - since > settings.boot_fail_after + CREATE_BOUND_S

    def created(self, made: Instance, by: str) -> None:
        """A2, and that nothing is made for a record that was freed meanwhile."""
        world = self.world
        manager = world.managers[by]
        settings = manager.pool.settings
        tags = made.tags
        if manager.mode != "apply":
            world.violate("S3", "a dry run created a node")
        if not manager.lease:
            world.break_assumption("A5", f"{by} creates without the lease")
        since = self.claimed_at.get(tags.incarnation or "")
        assert since is not None
        if self.is_too_late(tags):
            late = world.engine.now - since
            world.break_assumption("A2", f"a create took effect {late:.0f} s after its claim")
        record = world.registry.record(tags.record or "")
        freed = record is None or record.incarnation != tags.incarnation
        if freed and not world.broken and not world.registry.is_swapped:
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
        lives = max((self._lives(made, manager, at) for at in {ordered_at, *later}), key=len)
        # One that was denied, or came too late, is nobody's to count; nor is one whose fresh ping
        # a clock that is measured minutes wrong makes look old.
        countable = not world.broken.keys() & {"A1", "A2", "A3"}
        if len(lives) > settings.max_nodes and countable:
            world.violate("MAX", f"{len(lives)} nodes live, {settings.max_nodes} are allowed")

    def _lives(self, made: Instance, manager: Manager, ordered_at: float) -> list[Instance]:
        """That node, and those that an order of that time had to count."""
        return [
            one
            for one in self.world.cloud.living()
            if one is made
            or (
                not one.twin
                and one.tags.pool == made.tags.pool
                and self.ordered_at.get(one.id, ("", 0.0))[1] <= ordered_at
                and self._is_evident(one, manager, ordered_at)
            )
        ]

    def _is_evident(self, one: Instance, manager: Manager, by: float) -> bool:
        """Whether the manager could know by then of a living node: listed, claimed, or heard.

        One that is not listed and was not heard for poll_stale_after, or that no complete listing
        showed for `settle` and that did not ping either, might as well be gone; so might one whose
        record was not listed.
        """
        ears, settings = self.told.ears[manager.name], manager.pool.settings
        newest, records = ears.newest("cloud", by), ears.newest("records", by)
        if newest is None or records is None:
            return True
        shown = newest.items.get(one.id)
        if shown is not None:
            # A listing that shows but the copy of it that has ended says that it has ended.
            return shown.state is not CloudState.TERMINATED
        record = records.items.get(one.tags.record or "")
        if record is None and not records.items:
            # Everything vanished at once: that is not believed where anything was known.
            known = [heard for heard in ears.records if heard.complete and heard.items]
            return one.created_at >= records.started or bool(known)
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
        lacking = []
        for heard in reversed([heard for heard in ears.cloud if heard.ended <= by]):
            if one.id in heard.items:
                break
            if heard.complete:
                lacking.append(heard)
        if len(lacking) < settings.absent_listings:
            return True
        if lacking[0].started - lacking[-1].started < settings.settle:
            return True
        return heard_at > lacking[-1].started

    def destroyed(self, one: Instance, by: str) -> None:
        world = self.world
        manager = world.managers[by]
        world.note(f"{by} destroys {one.id}")
        if manager.mode != "apply":
            world.violate("S3", "a dry run destroyed a node")
        if not manager.lease:
            world.break_assumption("A5", f"{by} destroys without the lease")
        # Where an operator took its tags on the way, what it was listed with counts.
        sent = self.told.ears[by].destroys.get(one.id)
        pool = (one if sent is None else sent).tags.pool
        if pool != manager.pool.name:
            world.violate("T3", f"{by} destroyed {one.id} of pool {pool}")

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
                world.break_assumption("A1", f"{one.id} lives and was denied")
