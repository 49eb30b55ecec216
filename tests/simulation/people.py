"""Operators: what they tell a manager, and that it does not act where they told it not to.

Every command there is, on names that exist and on names that don't, of records, nodes and hosts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from nodemanager.actors.messages import Ordered
from nodemanager.core.model.annotations import FORCIBLE
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.operate.backlog import (
    ApplyBacklog,
    BacklogView,
    Item,
    ItemAction,
    Order,
    ShowBacklog,
    StopBacklog,
    adoptable,
    proposal,
)
from nodemanager.core.operate.replies import Command, Reply, Result
from nodemanager.core.operate.verbs import Verb
from nodemanager.core.plan.plan import Plan
from tests.simulation.manager import Manager
from tests.simulation.world import Pool, World

VERBS = (
    *("drain", "drain", "run", "kill", "clean", "clean", "bury", "bury", "hold", "release"),
    *("pause", "resume", "reset", "backlog", "backlog", "backlog", "stop backlog"),
)
NODE_VERBS = {"drain": Verb.DRAIN, "run": Verb.RUN, "kill": Verb.KILL}
INSIST_S = 30.0


class People:
    """The operators of every pool, who do something every few minutes of the storm.

    `told` counts what they were answered.
    """

    def __init__(self, world: World, every_s: float) -> None:
        self.world, self.every_s = world, every_s
        self.random: Random = world.engine.random("people")
        self.told: Counter[str] = Counter()
        self.paused: dict[str, int] = {}
        """Pools that a command has paused: said so, and not resumed since. Each with how many
        journals it had lost by then."""
        self.resumed: Counter[str] = Counter()
        """By pool, how often a command to resume was said."""
        world.plans.append(self._planned)
        world.calms.append(self._go_home)
        for pool in world.pools.values():
            self._later(pool)

    def _later(self, pool: Pool) -> None:
        wait = self.random.uniform(0.1, 1.9) * self.every_s
        self.world.engine.after(wait, lambda: self._act(pool))

    def _act(self, pool: Pool) -> None:
        if self.world.engine.calm:
            return
        self._later(pool)
        random = self.random
        verb = random.choice(VERBS)
        if verb in NODE_VERBS:
            self._say(pool, verb, NODE_VERBS[verb], self._name(), "why", shadow=True)
        elif verb == "clean":
            forced = tuple(random.sample(sorted(FORCIBLE), random.randint(0, len(FORCIBLE))))
            if random.random() < 0.3:
                forced = tuple(FORCIBLE)
            elif random.random() < 0.1:
                forced = ("C4",)
            name = self._name()
            self._say(pool, verb, Verb.CLEAN, name, "hand", shadow=True, forced=forced)
        elif verb == "bury":
            self._bury(pool)
        elif verb == "pause":
            resumed = self.resumed[pool.name]
            self._say(pool, verb, Verb.PAUSE, None, "wait", then=lambda: self._pause(pool, resumed))
            self.world.engine.after(random.uniform(10.0, 600.0), lambda: self._resume(pool))
        elif verb == "resume":
            self._resume(pool)
        elif verb == "hold":
            self._hold(pool, self._name())
        elif verb == "release":
            self._release(pool, self._name())
        elif verb == "reset":
            self._say(pool, verb, Verb.BREAKER_RESET)
        elif verb == "backlog":
            self._backlog(pool)
        else:
            self._tell(pool, StopBacklog("ann", lambda run: None))

    def _name(self) -> str:
        """A record, a node or a host; now and then one that nobody has."""
        records = self.world.registry.records()
        names = [
            *(record.uuid for record in records),
            *(record.hostname for record in records if record.hostname is not None),
            *(one.id for one in self.world.cloud.living() for _ in range(3)),
            *(one.name for one in self.world.cloud.living()),
            "nobody",
        ]
        return self.random.choice(names)

    def _bury(self, pool: Pool) -> None:
        """They know that its node is no more, and want the slot now, whatever may be broken."""
        alive = {one.tags.record for one in self.world.cloud.living()}
        dead = [
            one.uuid
            for one in self.world.registry.records()
            if one.holds_anything and one.uuid not in alive and one.instance_id is not None
        ]
        if dead:
            uuid = self.random.choice(dead)
            forced = self.random.choice((tuple(FORCIBLE), ("C3", "C5")))
            self._say(pool, "clean", Verb.CLEAN, uuid, "dead", forced=forced)

    # Holds, and the pause.

    def _hold(self, pool: Pool, name: str) -> None:
        def told(reply: Reply) -> None:
            # A host's name stands for what it is the host of just then.
            if reply.ok and name in (reply.record, reply.node):
                pool.holds.add(name)
            self.world.engine.after(
                self.random.uniform(60.0, 900.0), lambda: self._release(pool, name)
            )

        self._say(pool, "hold", Verb.HOLD, name, "wait for me", hears=told)

    def _release(self, pool: Pool, name: str) -> None:
        """Another operator's hold may go by that name: once it was released, it stands no more."""
        stood, lost = name in pool.holds, pool.journal.lost
        # Its manager may be killed between the release and its answer.
        pool.holds.discard(name)

        def told(reply: Reply) -> None:
            if reply.result is not Result.DONE:
                if stood and pool.journal.lost == lost:
                    pool.holds.add(name)
                return
            # A manager that stood still takes a hold and its release when it goes on.
            pool.holds.discard(name)
            if name not in (reply.record, reply.node):
                # A host's name stands for its record, a node's own name for the node: which it
                # was just then only the answer tells.
                ended = (one for one in (reply.record, reply.node) if one is not None)
                named = next((one for one in ended if reply.text.startswith(f"{one} ")), name)
                pool.holds.discard(named)

        self._say(pool, "release", Verb.RELEASE, name, hears=told)

    def _pause(self, pool: Pool, resumed: int) -> None:
        # A resume said since may have been carried out, and its manager killed before it answered.
        if self.resumed[pool.name] == resumed:
            self.paused[pool.name] = pool.journal.lost

    def _resume(self, pool: Pool) -> None:
        self.paused.pop(pool.name, None)
        self.resumed[pool.name] += 1
        self._say(
            pool, "resume", Verb.RESUME, None, "go", then=lambda: self.paused.pop(pool.name, None)
        )

    # The backlog, and nodes to adopt.

    def _backlog(self, pool: Pool) -> None:
        self._tell(pool, ShowBacklog(lambda shown: self._apply(pool, shown)))

    def _apply(self, pool: Pool, shown: BacklogView) -> None:
        seen = shown.seen
        if seen is None:
            return
        random = self.random
        found = (*proposal(seen).candidates, *adoptable(seen, shown.settings))
        items = tuple(self._edited(one.item) for one in found if random.random() < 0.7)
        if not items:
            return
        gone = random.choice(items)
        if self.world.may_break == "A5" and gone.id in self.world.registry.rows:
            self.world.break_assumption("A5", f"an operator deletes {gone.id}", gone.id)
            self.world.registry.delete(gone.id, "operator")
        order = Order(
            "ann",
            shown.settings.pool,
            shown.store or "",
            shown.account or "",
            items,
        )
        wait = random.choice((1.0, 30.0, 300.0))
        self.world.engine.after(
            wait, lambda: self._tell(pool, ApplyBacklog(order, lambda run: None))
        )

    def _edited(self, item: Item) -> Item:
        """The plan is a file: now and then somebody names another record in it."""
        rows = sorted(self.world.registry.rows)
        if item.action is ItemAction.ADOPT and self.random.random() < 0.15 and rows:
            return replace(item, record=self.random.choice(rows))
        return item

    # The end.

    def _go_home(self) -> None:
        """Nothing of theirs stands. What could not be written down is said again."""
        for pool in self.world.pools.values():
            self.world.engine.after(1.0, lambda pool=pool: self._leave(pool))

    def _leave(self, pool: Pool) -> None:
        self.paused.pop(pool.name, None)
        self.resumed[pool.name] += 1
        self._insist(pool, Command(Verb.RESUME, "ann", "go"))
        for hold in pool.held():
            pool.holds.discard(hold)
            release = Command(Verb.RELEASE, "ann", "", hold)
            self._insist(pool, release)
        for node_id in sorted(one.id for one in self.world.cloud.living()):
            self._run_at_last(pool, node_id)

    def _run_at_last(self, pool: Pool, node_id: str) -> None:
        """A node that a destroy did not end is drained still: nobody may run it meanwhile."""

        def heard(reply: Reply) -> None:
            stands = reply.result is Result.FAILED or reply.reason is Reason.SHUTTING_DOWN
            if stands and any(one.id == node_id for one in self.world.cloud.living()):
                self.world.engine.after(INSIST_S, lambda: self._run_at_last(pool, node_id))

        self._say(pool, "run", Verb.RUN, node_id, "go", hears=heard)

    def _insist(self, pool: Pool, command: Command) -> None:
        def heard(reply: Reply) -> None:
            if reply.result.value == "failed":
                self.world.engine.after(INSIST_S, lambda: self._insist(pool, command))
            elif command.verb is Verb.RESUME:
                # A pause said before may have been answered just now, too.
                self.paused.pop(pool.name, None)

        self._tell(pool, Ordered(command, heard))

    # How they are heard.

    def _say(
        self,
        pool: Pool,
        name: str,
        verb: Verb,
        id: str | None = None,
        reason: str = "",
        *,
        shadow: bool = False,
        then: Callable[[], object] | None = None,
        hears: Callable[[Reply], object] | None = None,
        **more: Any,
    ) -> None:
        def answered(reply: Reply) -> None:
            self.told[f"{name} {reply.result}"] += 1
            for told in self.world.replies:
                told(reply)
            if then is not None and reply.ok:
                then()
            if hears is not None:
                hears(reply)

        command = Command(verb, "ann", reason, id, **more)
        self._tell(pool, Ordered(command, answered), shadow=shadow)

    def _tell(self, pool: Pool, message: Any, *, shadow: bool = False) -> None:
        """To the manager, or now and then to its shadow, which answers as well."""
        manager = pool.manager
        if shadow and pool.shadow is not None and pool.shadow.alive and self.random.random() < 0.5:
            manager = pool.shadow
        if manager is not None and manager.alive:
            manager.daemon.tell(message)

    # What is watched.

    def _planned(
        self, manager: Manager, plan: Plan, snapshot: Snapshot, settings: Settings
    ) -> None:
        if manager.mode != "apply":
            return
        if self.paused.get(settings.pool) != manager.pool.journal.lost:
            return
        if plan.boots or plan.cleans or plan.shutdowns or plan.prunes:
            self.world.violate("O4", f"{manager.name} acts although its pool is paused")
