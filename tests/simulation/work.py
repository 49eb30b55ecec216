"""The promise Work: no node that works is destroyed for being idle, but in the gap that is stated.

Judged by what each node does in truth, and by which of its words its manager had read. Without a
drain hook a job may be hit that began after that word: while the word is no older than one ping
interval and one round, and was given after the demand poll that wanted the node no more (D12).
"""

from __future__ import annotations

import itertools
from collections import defaultdict, deque
from dataclasses import dataclass
from typing import Any

from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.sizes import Sizes
from tests.simulation.cloud import Instance
from tests.simulation.machine import JITTER, Machine, Word
from tests.simulation.manager import Manager
from tests.simulation.nodes import NodeRules
from tests.simulation.told import Told
from tests.simulation.world import World

ROTATED = frozenset({Reason.OTHER_IMAGE, Reason.OTHER_TYPE, Reason.TOO_OLD})
"""Another node takes its place (D15)."""
AS_IDLE = ROTATED | {
    *(Reason.IDLE_BEYOND_DEMAND, Reason.DRAINED, Reason.NOTICED, Reason.PARKED),
}
CARRIED_OUT_S = 30.0
"""From the plan to the destroy: its look, and messages and calls that are slow."""
A_ROUNDING = 1e-6
"""Of a sum of prices."""


@dataclass(frozen=True)
class Poll:
    """A demand poll, from its start: how many jobs waited, and how many nodes could run them.

    `alike` are the nodes of the size that these jobs want, living or ended so lately that the
    manager may still take them for idle ones. `price` is that of all living ones, per hour.
    """

    started: float
    wanted: int
    living: int
    alike: int
    price: float


class Work:
    """Watches every destroy of a node as idle."""

    def __init__(self, world: World, told: Told, rules: NodeRules) -> None:
        self.world, self.told, self.rules = world, told, rules
        self.polls: dict[str, deque[Poll]] = defaultdict(lambda: deque(maxlen=200))
        world.wishlists.append(self._polled)
        world.cloud.books.destroyed.append(self._destroyed)

    def _polled(self, manager: Manager) -> None:
        now = self.world.engine.now
        self.polls[manager.name].append(self._poll(manager, manager.pool.wanted, now))

    def _poll(self, manager: Manager, wanted: int, at: float) -> Poll:
        pool = manager.pool
        counted = {pool.name, None} if self.world.shape.traits.broad else {pool.name}
        # Untagged ones count against max_nodes where they are listed (D11).
        living = [
            one
            for one in self.world.cloud.instances.values()
            if one.created_at <= at and (one.ended_at is None or at < one.ended_at)
            if one.tags.pool in counted
        ]
        sizes = Sizes(pool.settings.sizes)
        known = [sizes.named(one.tags.size) or sizes.named(one.size) for one in living]
        price = sum(size.price or 0.0 for size in known if size is not None)
        return Poll(at, wanted, len(living), self._alike(manager, at), price)

    def _alike(self, manager: Manager, at: float) -> int:
        """How many nodes of a size that jobs want a manager may have counted then.

        Of one that has ended it may not know so for a window.
        """
        pool = manager.pool
        return sum(
            one.created_at <= at
            and (one.ended_at is None or at - one.ended_at <= pool.settings.node_stale_after)
            and one.tags.pool in (pool.name, None)
            and self._is_wanted_size(one, manager)
            for one in self.world.cloud.instances.values()
        )

    def _destroyed(self, one: Instance, by: str) -> None:
        machine, sent_at = one.machine, self.world.weather.sent_at
        known = self.rules.order_of(by, one.id, sent_at)
        if known is None or machine is None or known[1].reason not in AS_IDLE:
            return
        reason, record = known[1].reason, known[1].record
        read, _, _ = self.told.ears[by].last_look(record or "", None, sent_at)
        seen = read.record if read is not None else None
        word = machine.words.get(seen.last_ping_at) if seen is not None else None
        if reason is Reason.NOTICED and word is not None and not word.is_taken:
            self.world.violate("D18", f"{by} destroys {one.id}, which its cloud does not take")
        if machine.busy_since is None:
            return
        if word is None and seen is not None and self._is_twins_word(one, seen.last_ping_at):
            return
        # While no slot is free, the store answers the pings of a node without one with an error.
        is_answered = word is None or word.is_answered
        if machine.drains_for(self.world.shape) and is_answered:
            self._hit(one, by, "which can be told to drain")
            return
        if machine.busy_since > sent_at:
            return
        if word is None:
            # A hung ping that wrote to its record in the end took its word away (A4).
            if not self.world.is_excused(record or ""):
                self._hit(one, by, "on no word of its own")
        elif machine.busy_since <= word.sent:
            self._hit(one, by, f"which said that it was {word.state}")
        else:
            self._in_the_gap(one, by, word, machine, sent_at, reason)

    def _in_the_gap(
        self, one: Instance, by: str, word: Word, machine: Machine, sent_at: float, reason: Reason
    ) -> None:
        manager = self.world.managers[by]
        gap, allowed = sent_at - word.arrived, self._gap(manager, machine, sent_at)
        if gap > allowed and not manager.was_paused(word.arrived):
            self._hit(one, by, f"on a word {gap:.0f} s old; a gap of {allowed:.0f} s is stated")
        before = [poll for poll in self.polls[by] if poll.started <= word.arrived]
        most = manager.pool.settings.max_nodes
        if reason is not Reason.IDLE_BEYOND_DEMAND or not before:
            return
        # So much waited that no node of its size was one too many, nor all together too many or
        # too dear: then an idle one goes although jobs wait.
        poll, dearest = before[-1], manager.pool.settings.max_total_price
        # Those that were made for the jobs of that poll are there by the word, and their twins.
        later = self._poll(manager, poll.wanted, word.arrived)
        enough = min(max(poll.alike, later.alike), most)
        full = poll.wanted >= enough and max(poll.living, later.living) <= most
        is_over = 0 < dearest < max(poll.price, later.price) - A_ROUNDING
        if full and not is_over and self._is_wanted_size(one, manager):
            self._hit(one, by, "on a word from when demand wanted it")

    def _is_wanted_size(self, one: Instance, manager: Manager) -> bool:
        """Whether the jobs that wait want nodes of its size (U11, U12).

        A job of one core wants the cheapest size that is not preemptible, also where a larger node
        is idle. A scheduler may still give it that one, in the gap.
        """
        sizes = Sizes(manager.pool.settings.sizes)
        size = sizes.named(one.tags.size) or sizes.named(one.size)
        wanted = next((fit for fit in sizes.by_price if not fit.preemptible), None)
        return size is None or size == wanted

    def _gap(self, manager: Manager, machine: Machine, sent_at: float) -> float:
        """One ping interval and one round, as long as they were."""
        listed = [
            heard.started
            for heard in self.told.ears[manager.name].records
            if heard.complete and heard.ended <= sent_at
        ][-3:]
        rounds = [after - before for before, after in itertools.pairwise(listed)]
        rounds.append(sent_at - listed[-1] if listed else 0.0)
        return machine.habits.ping_every * JITTER + max(rounds) + CARRIED_OUT_S

    def _is_twins_word(self, one: Instance, stamp: float | None) -> bool:
        """Whether that ping is of another node that pings the same record: two that were made by
        one order share it, and its word; also without their tags."""
        mine = one.machine
        assert mine is not None
        return any(
            other is not one
            and other.machine is not None
            and (other.machine.uuid, other.machine.secret) == (mine.uuid, mine.secret)
            and stamp in other.machine.words
            for other in self.world.cloud.instances.values()
        )

    def _hit(self, one: Instance, by: str, why: Any) -> None:
        assert one.machine is not None
        assert one.machine.busy_since is not None
        works_s = self.world.engine.now - one.machine.busy_since
        self.world.violate("WORK", f"{by} destroys {one.id}, at work for {works_s:.0f} s, {why}")
