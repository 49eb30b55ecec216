"""That nodes come and go: wanted ones come, surplus ones go, failed and unpaired ones end.

And that what was freed by mistake comes back (U8). Who is what is asked of the world.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from nodemanager.core.model.world import Record
from nodemanager.journal.api import IntentKind
from tests.simulation import health
from tests.simulation.bounds import Bounds
from tests.simulation.cloud import Instance
from tests.simulation.debts import Owed
from tests.simulation.health import Health, Ward
from tests.simulation.world import Pool, World

if TYPE_CHECKING:
    from tests.simulation.boot_loops import BootLoops
    from tests.simulation.latch import Latch
    from tests.simulation.liveness import Calm
    from tests.simulation.rotations import RotationRules
    from tests.simulation.setups import SetUpRules
    from tests.simulation.truth import FalseClean, Truth


class Progress:
    """What each pool's nodes are still due."""

    def __init__(
        self,
        world: World,
        truth: Truth,
        calm: Calm,
        latch: Latch,
        setups: SetUpRules,
        rotations: RotationRules,
        loops: BootLoops,
    ) -> None:
        self.world, self.truth, self.calm, self.latch = world, truth, calm, latch
        self.setups, self.rotations, self.loops = setups, rotations, loops
        self._ended_at: dict[str | None, float] = {}
        """By pool, when a node of it ended last, and was no longer too young to be missed."""
        self._doomed: set[str] = set()
        """Nodes that a destroy was sent for in the storm."""
        self._left_open: dict[str, set[str | None]] = {}
        """By pool, those whose destroy stands open in the journal as the calm begins: it was sent,
        or the run that wrote it down was killed before; nobody can tell which (R1)."""
        self._written: dict[str, float] = {}
        """By record, when anyone wrote it last."""
        self._filled_at: dict[str | None, float] = {}
        """By pool, when a set-up of it took the last slot that was free."""
        self._listed_at: dict[str, float] = {}
        """By pool, when listings show the last busy node that counted as an idle one to be."""
        self._ill_at_once: dict[str, int] = {}
        """By pool, the most that were silent or unpaired at once, since there was none."""
        world.registry.changed.append(self._changed)
        world.cloud.books.ended.append(self._ended)
        world.weather.sent.append(self._sent)

    def _changed(self, before: Record | None, after: Record | None, by: str, what: str) -> None:
        record = after or before
        if record is not None:
            self._written[record.uuid] = self.world.engine.now
        if after is None or after.claim is None:
            return
        was_free = before is None or (before.slot_number is None and before.claim is None)
        if was_free and health.free_slots(self.world.registry) <= 0:
            self._filled_at[after.claim.pool] = self.world.engine.now

    def _sent(self, manager: str, method: str, about: str) -> None:
        if method == "cloud.destroy" and self.calm.begun is None:
            self._doomed.add(about)

    def _ended(self, node: Instance) -> None:
        pool, machine = node.tags.pool, node.machine
        # In its first visible_after no listing need show it, and none settles its end (C11).
        words = machine.words.values() if machine is not None else ()
        first_at = min((word.arrived for word in words), default=float("-inf"))
        young_until = first_at + self.world.cloud.traits.visible_after
        ended_at = max(self.world.engine.now, young_until)
        self._ended_at[pool] = max(ended_at, self._ended_at.get(pool, float("-inf")))

    def owed(self) -> Iterator[Owed]:
        for pool in self.world.pools.values():
            if pool.name not in self._left_open:
                begun = (one.intent for one in pool.open_intents())
                destroys = {one.node for one in begun if one.kind is IntentKind.DESTROY}
                self._left_open[pool.name] = destroys
            seen = health.ward(self.world, pool)
            since = max(self.calm.awake(pool), self.latch.open_until.get(pool.name, 0.0))
            bounds = self.calm.bounds(pool)
            if self.world.slurm is None:
                # Else whoever watches the scheduler knows who is wanted (`dispatches`).
                yield from self._wanted(pool, seen, since, bounds)
                yield from self._surplus(pool, seen, since, bounds)
                yield from self._outdated(pool, seen, since, bounds)
            yield from self._ill(pool, seen, since, bounds)
            yield from self._restored(pool, bounds)

    def _wanted(self, pool: Pool, seen: Ward, since: float, bounds: Bounds) -> Iterator[Owed]:
        counted = tuple(one for one in seen.bereft if self._counts(one, pool, bounds))
        count = health.lacking(self.world, pool, replace(seen, bereft=counted))
        if count:
            rest, up_at = self.loops.rest_of(pool)
            since = max(since, up_at)
            # Refusals are the storm's; until its end is settled a node counts as there (C5).
            ended_at = self._ended_at.get(pool.name, float("-inf"))
            refused_until = self.setups.refused_until.get(pool.name, 0.0)
            since = max(since, refused_until, ended_at + bounds.settled)
            # Of two pools, the one that looks first has a slot that comes free.
            others = (at for name, at in self._filled_at.items() if name != pool.name)
            since = max(since, *others, self._all_listed_at(pool, replace(seen, bereft=counted)))
            if self._was_robbed(pool):
                # A create that a former run was answered counts as a node to be, unless something
                # shows its end: its record may be deleted (P4).
                rest = max(rest, pool.settings.boot_fail_after)
            what = f"{pool.name} gets one of {count} nodes that it lacks"
            key = f"wanted {pool.name} {len(seen.patients)}"
            yield Owed("PROGRESS", key, what, since, bounds.wanted(rest))

    def _was_robbed(self, pool: Pool) -> bool:
        """Whether somebody took a record or tags of any of its nodes (A5)."""
        return any(
            self.world.is_excused(one.id, one.tags.record, which="A5")
            for one in self.world.cloud.instances.values()
            if one.by in self.world.managers and self.world.managers[one.by].pool is pool
        )

    def _all_listed_at(self, pool: Pool, seen: Ward) -> float:
        """When listings show each busy node, where nothing lacked for as long as they need not.

        Until then the manager counts such a node as one that boots: a job that waits may get it.
        """
        visible_after = self.world.cloud.traits.visible_after
        young_until = {
            one.node.id: one.node.created_at + visible_after
            for one in seen.of(Health.SERVING)
            if not one.idle and self.world.engine.now <= one.node.created_at + visible_after
        }
        patients = tuple(
            replace(one, idle=one.idle or one.node.id in young_until) for one in seen.patients
        )
        if young_until and not health.lacking(self.world, pool, replace(seen, patients=patients)):
            self._listed_at[pool.name] = max(young_until.values())
        return self._listed_at.get(pool.name, float("-inf"))

    def _counts(self, record: Record, pool: Pool, bounds: Bounds) -> bool:
        """Whether the pool may still take a node to be of the record, or to come of it.

        No longer once its window is past, the cloud has denied the node (D13), and its absence is
        settled: it may wait much longer for its clean, and serves nobody meanwhile (U9, C10).
        """
        settings, claim = pool.settings, record.claim
        window = settings.node_stale_after
        if claim is not None and record.first_ping_at is record.last_ping_at is None:
            window = min(settings.window_of(claim), settings.create_known_after)
            if health.ended_in_setup(self.world, record):
                # Asked for by its id, the cloud denies it (D3): that tells it sooner.
                window = min(window, bounds.gone_by_id + bounds.rounds(2))
        until = max(
            self._written.get(record.uuid, 0.0) + window,
            self.calm.since(pool) + settings.boot_fail_after,
            self._ended_at.get(pool.name, 0.0) + settings.action_timeout,
        )
        # A wrong measure of the clock makes ages too small by as much (T1).
        until += bounds.settled + bounds.polls + bounds.clock + 2 * self.world.clock_lies
        return self.world.engine.now <= until

    def _surplus(self, pool: Pool, seen: Ward, since: float, bounds: Bounds) -> Iterator[Owed]:
        doomed = self._doomed | self._left_open[pool.name]
        if any(one.node.id in doomed for one in seen.of(Health.SERVING)):
            # What became of that destroy is waited for (D3). Until then min_nodes and the spare
            # nodes have one less, also where that node works.
            since = max(since, self.calm.since(pool) + pool.settings.action_timeout)
        count = health.surplus(self.world, pool, seen)
        if count:
            what = f"one of {count} idle nodes of {pool.name} goes that nobody wants"
            key = f"surplus {pool.name} {len(seen.idle)}"
            yield Owed("PROGRESS", key, what, since, bounds.surplus)
        count = health.spare_beyond(self.world, pool, seen)
        if count and any(size.spare_nodes for size in pool.settings.sizes):
            what = f"one of {count} spare nodes of {pool.name} goes, more than its size keeps"
            key = f"spare beyond {pool.name} {len(seen.idle)}"
            yield Owed("D14", key, what, since, bounds.surplus)
        count = health.given_up(self.world, pool, seen)
        if count:
            what = f"one of {count} spare nodes of {pool.name} makes room for a job"
            key = f"given up {pool.name} {len(seen.idle)}"
            yield Owed("D14", key, what, since, bounds.surplus)

    def _outdated(self, pool: Pool, seen: Ward, since: float, bounds: Bounds) -> Iterator[Owed]:
        count = self.rotations.left(pool, seen)
        if count:
            doomed = self._doomed | self._left_open[pool.name]
            if any(one.node.id in doomed for one in seen.patients):
                since = max(since, self.calm.since(pool) + 2 * pool.settings.action_timeout)
            refused_until = self.setups.refused_until.get(pool.name, 0.0)
            since = max(since, self.world.cloud.image_changed_at, refused_until)
            if self.loops.has_failed(pool):
                since += pool.settings.boot_fail_after
            what = f"one of {count} outdated nodes of {pool.name} is replaced"
            key = f"outdated {pool.name} {count}"
            yield Owed("D15", key, what, since, bounds.replaced)

    def _ill(self, pool: Pool, seen: Ward, since: float, bounds: Bounds) -> Iterator[Owed]:
        known = [one for one in seen.patients if not health.is_lost(self.world, one)]
        silent = [one for one in known if one.health is Health.SILENT]
        unpaired = [one for one in known if one.health is Health.UNPAIRED]
        count = len(silent) + len(unpaired)
        if count:
            # Those that ended meanwhile had their turns before it (D9).
            count = max(count, self._ill_at_once.get(pool.name, 0))
        self._ill_at_once[pool.name] = count
        for one in silent:
            within = bounds.silent(count, pinged=one.pinged)
            what = f"{one.node.id} ends, which is silent for ever"
            yield Owed("PROGRESS", f"silent {one.node.id}", what, since, within)
        slurm = self.world.slurm
        for one in unpaired:
            if slurm is not None and slurm.works(one.node.machine):
                # Its job ends first (D7).
                continue
            is_nameless = one.node.tags.record is None
            if slurm is not None and (
                is_nameless or slurm.has_another_of_its_name(one.node.machine)
            ):
                # Nobody but an operator knows its name, or whose that is: the word on another that
                # is up may be its own. So it stays, may fill max_nodes, and is told of (D7).
                self.world.note(f"an operator ends {one.node.id}, whose name is another's or none")
                self.world.cloud.end(one.node)
                continue
            what = f"{one.node.id} ends, which has no record"
            yield Owed("PROGRESS", f"unpaired {one.node.id}", what, since, bounds.unpaired(count))

    def _restored(self, pool: Pool, bounds: Bounds) -> Iterator[Owed]:
        for key, life in self.truth.false_cleans.items():
            is_settled = life.is_back or key in self.latch.given_up
            if life.before.pool != pool.name or not life.node.lives or is_settled:
                continue
            machine = life.node.machine
            if machine is None or not machine.up or machine.mute or not machine.on:
                continue
            # One that was denied again since is given up (A1).
            denied_at = self.truth.denied_at.get(life.node.id, life.at)
            if life.may_come_back and denied_at <= life.at and _shows(life):
                what = f"{key} is given back to {life.node.id}, which lives"
                since = self.calm.awake(pool)
                yield Owed("U8", f"restored {key}", what, since, bounds.restored)


def _shows(life: FalseClean) -> bool:
    """Whether anything can show that it lives: its tags in a listing, or its pings, unless they
    name another instance than the record had (U8, P1a)."""
    tags, before = life.node.tags, life.before
    is_tagged = (tags.record, tags.incarnation) == (before.uuid, before.incarnation)
    return is_tagged or not health.is_refused(life.node, before)
