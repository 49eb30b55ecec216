"""Runs the workflows of core/execute: commits each step to the journal, then sends its effects.

It decides nothing about freeing or destroying. The State has all workflows in flight; the next run
loads them from the journal and resumes them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from nodemanager.actors.daemon.intents import action_of, entry_of, fields_of, state_of
from nodemanager.actors.messages import CarriedOut, CarryOut, WaitOver
from nodemanager.actors.report.journal_writer import JournalWriter
from nodemanager.actors.workers.worker_pool import WorkerPool
from nodemanager.core.execute import effects
from nodemanager.core.execute.flights import Flights, LeftOpen, Stepped
from nodemanager.core.execute.news import Learned
from nodemanager.core.execute.workflow import (
    About,
    Action,
    Answered,
    Due,
    End,
    Expired,
    Failed,
    FollowUp,
    Key,
    News,
    Refused,
    Running,
    Seen,
    Step,
    Stopping,
    Workflow,
    WorkflowEvent,
    WorkflowState,
)
from nodemanager.core.model.reasons import Event
from nodemanager.core.model.world import Leftover
from nodemanager.core.observe.clocks import MeasuredClock
from nodemanager.core.observe.facts import Fact
from nodemanager.errors import RemoteError, Throttled
from nodemanager.journal.api import Conclusion, Intent, OpenIntent
from nodemanager.lib.log import WARNING, Logger


class Shell(Protocol):
    """What the daemon does for its workflows."""

    def seen(self, key: Key, plan_id: str) -> Seen:
        """What the workflow decides from: this moment, without its own in-flight action."""

    def fold(self, fact: Fact) -> None:
        """Write a fact to the journal, and fold it into the State."""

    def workers_for(self, action: Action) -> WorkerPool:
        """The workers that carry out such an action."""

    def remind(self, seconds: float, message: WaitOver) -> None: ...

    def wrote(self, effect: effects.StoreWrite, answer: Any, error: RemoteError | None) -> None:
        """Note how a write to the store ended: failures in a row open the breaker (B1)."""

    def throttled(self, error: RemoteError) -> None: ...

    def cloud_worked(self) -> None:
        """Note that the cloud did what it was asked for: more may run at once (U13)."""

    @property
    def flights(self) -> Flights:
        """What is in flight."""

    def learn(self, one: Learned | Stepped | LeftOpen) -> None:
        """Fold what a step changes or learned into the State."""

    def enter_pins(self, pins: tuple[Leftover, ...]) -> bool:
        """Write what a node may leave behind; whether that is on the disk (D4)."""

    def begun(self, one: FollowUp) -> None:
        """Note that a workflow has begun another one."""

    def ended(self, end: End) -> None: ...

    def settled(self) -> None:
        """Note that a workflow ended, or waits."""


_TOLD_AS = {Action.SETUP: "setup", Action.SHUTDOWN: "shutdown"}
"""The log's names of actions that the journal names otherwise."""
Begun = Sequence[tuple[Key, Step[Any]]]
"""Workflows that a step begins, each with its own first step."""


class Runner:
    """Runs all workflows in flight."""

    def __init__(
        self,
        workflows: Iterable[Workflow[Any]],
        shell: Shell,
        journal_writer: JournalWriter,
        log: Logger,
    ) -> None:
        self._workflows = {one.action: one for one in workflows}
        self._shell = shell
        self._journal = journal_writer
        self._log = log
        self._serials = itertools.count(1)
        self._left: dict[Key, OpenIntent] = {}
        """The journal's entries of what a former run left and is not resumed yet."""
        self._resumed: dict[Key, OpenIntent] = {}
        self._held: dict[Key, tuple[WorkflowEvent, ...]] = {}
        """Events whose step could not be written: they are taken again once it can."""

    # What comes in.

    def begin(self, action: Action, order: Any, now: float) -> None:
        """Begin an order's workflow. The next plan orders it again if its key is in flight now, or
        if the journal can't be written."""
        key = self._key(action, order)
        if self._is_in_flight(key):
            return
        step = self._workflows[action].start(order, self._shell.seen(key, order.plan_id))
        begun = self._begun(step)
        if self._commit(key, None, step, begun):
            self._enter(key, step, now, begun=begun)

    def carried_out(self, message: CarriedOut, now: float) -> None:
        pool = self._shell.workers_for(message.key.action)
        # The answer is an error where a create was refused in the end.
        result = message.error or message.answer
        if isinstance(result, Throttled):
            self._shell.throttled(result)
        if isinstance(message.effect, effects.CloudWrite) and not isinstance(result, RemoteError):
            self._shell.cloud_worked()
        if isinstance(message.effect, effects.StoreWrite):
            self._shell.wrote(message.effect, message.answer, message.error)
        event: WorkflowEvent = Answered(message.effect, message.answer)
        if message.error is not None:
            event = Failed(message.effect, message.error)
        running = self._running.get(message.key)
        if running is None or running.serial != message.serial:
            pool.done(message.key.id)
            self._shell.settled()
            return
        went_on = self._take(message.key, event, now, at=pool)
        if not went_on:
            pool.done(message.key.id)
            self._shell.settled()

    def wait_over(self, message: WaitOver, now: float) -> None:
        running = self._running.get(message.key)
        if running is not None and running.serial == message.serial:
            self._take(message.key, Due(), now)

    def expire(self, now: float, action_timeout: float) -> None:
        """Give up what takes longer than `action_timeout` seconds: it is judged again (C8)."""
        for key, running in list(self._running.items()):
            age_s = now - running.since
            if not running.state.is_under_way or age_s <= action_timeout:
                continue
            if self._on(key, running.state, Expired()) == Step(running.state):
                continue
            about = self._about(key, running.state)
            self._log.event(
                Event.FLIGHT_EXPIRED,
                level=WARNING,
                action=_TOLD_AS.get(key.action, key.action.value),
                record=about.record,
                node=about.node,
                age_s=age_s,
            )
            self._take(key, Expired(), now)

    def news(self, now: float) -> None:
        """Tell the workflows that listen that the daemon is about to decide."""
        for key, running in list(self._running.items()):
            if running.state.listens:
                self._take(key, News(), now)

    def stop(self, now: float, is_busy: Callable[[str], bool]) -> None:
        """Tell the workflows that no worker is busy with that the daemon stops."""
        for key, running in list(self._running.items()):
            if running.state.is_under_way and not is_busy(key.id):
                self._take(key, Stopping(), now)

    def drop(self, action: Action, ids: Iterable[str]) -> None:
        """Forget workflows whose effect no worker has begun; the next run finds their intents."""
        for id in ids:
            key = Key(action, id)
            running = self._running.get(key)
            if running is None:
                continue
            self._shell.learn(Stepped(key, None))
            if running.state.is_under_way:
                about = self._about(key, running.state)
                self._shell.ended(End(key, running.state, about, running.since, None))

    # What a former run left.

    def load(self, intents: Iterable[OpenIntent], now: float) -> None:
        """Take in what a former run left, without resuming it; pass over what can't be read."""
        left: dict[Key, Running] = {}
        for one in intents:
            action = action_of(one.intent.kind)
            workflow = None if action is None else self._workflows.get(action)
            if workflow is None:
                continue
            if one.passed_over:
                self._tell_passed_over(one, one.error)
                continue
            try:
                state = state_of(workflow, one.intent)
            except ValueError as error:
                self._tell_passed_over(one, str(error))
                continue
            key = self._key(workflow.action, state.order)
            self._left[key], left[key] = one, Running(state, now)
        self._shell.learn(LeftOpen(left))

    def resume(self, now: float, clock: MeasuredClock) -> None:
        """Resume what a former run left, once cloud and store are the known ones (L5).

        `clock` is our wall clock, which the journal's times are by.
        Nodes go before records: a clean waits while its record's node is being destroyed (R1).
        """
        for one in self._left.values():
            self._log.event(Event.INTENT_OPEN, **fields_of(one))
        self._resumed |= self._left
        self._left = {}
        left = self._shell.flights.left.items()
        for key, running in sorted(left, key=lambda one: one[0].action == Action.CLEAN):
            state, flights = running.state, self._shell.flights
            if key.action is Action.CLEAN and state.order.uuid in flights.destroys_of:
                continue
            if key in flights.running:
                self._shell.learn(Stepped(key, flights.running[key]))
                continue
            left_at = clock.since(self._resumed[key].opened_at, now)
            seen = replace(self._shell.seen(key, state.order.plan_id), left_at=left_at)
            step = self._workflows[key.action].resume(state, seen)
            # Its time-out counts from here.
            left_off = Running(state, now)
            if self._commit(key, left_off, step, begun := self._begun(step)):
                self._enter(key, step, now, begun=begun)

    @property
    def _running(self) -> Mapping[Key, Running]:
        return self._shell.flights.running

    def _is_in_flight(self, key: Key) -> bool:
        return key in self._running or key in self._shell.flights.left

    # One step.

    def _take(
        self, key: Key, event: WorkflowEvent, now: float, at: WorkerPool | None = None
    ) -> bool:
        """Take one event. True if `at`, whose worker has just answered, got the next effect."""
        running = self._running[key]
        step = self._on(key, running.state, event)
        if step.attempt_failed is not None and self._passed_over(key, running, step.attempt_failed):
            return False
        begun = self._begun(step)
        if self._commit(key, running, step, begun):
            return self._enter(key, step, now, running, at, begun)
        problem = self._journal.problem or "the journal can't be written"
        refused = self._on(key, running.state, Refused(problem))
        if refused.state == running.state and not refused.effects:
            self._held[key] = (*self._held.get(key, ()), event)
            return False
        begun = self._begun(refused)
        committed = self._commit(key, running, refused, begun)
        assert committed, "what the journal refused leads to nothing that it must have"
        return self._enter(key, refused, now, running, at, begun)

    def _on(self, key: Key, state: WorkflowState, event: WorkflowEvent) -> Step[Any]:
        seen = self._shell.seen(key, state.order.plan_id)
        return self._workflows[key.action].on(state, event, seen)

    def _passed_over(self, key: Key, running: Running, error: str) -> bool:
        """Count one more failed attempt at what a former run left; whether it is passed over."""
        counted = self._journal.recovery_failed(str(key), error)
        if counted is None or not counted.passed_over:
            return False
        self._shell.learn(Stepped(key, None))
        self._resumed.pop(key, None)
        about = self._about(key, running.state)
        self._shell.ended(End(key, running.state, about, running.since, None))
        self._tell_passed_over(counted, error)
        return True

    def heal(self, now: float) -> None:
        """Go on with what the journal refused, now that it can be written."""
        held, self._held = self._held, {}
        for key, events in held.items():
            for event in events:
                if key in self._running:
                    self._take(key, event, now)

    def _enter(
        self,
        key: Key,
        step: Step[Any],
        now: float,
        before: Running | None = None,
        at: WorkerPool | None = None,
        begun: Begun = (),
    ) -> bool:
        """Do what a step on the disk says. True if the pool `at` got its next effect."""
        after: WorkflowState | None = step.state
        running = None
        if after is not None:
            since, serial = (before.since, before.serial) if before else (now, next(self._serials))
            if step.attempt_failed is not None:
                since = now
            running = Running(after, since, serial)
        self._shell.learn(Stepped(key, running))
        for fact in step.facts:
            self._shell.fold(fact)
        for line in step.tell:
            self._log.event(line.event, level=line.level, **line.fields)
        for one in step.learn:
            self._shell.learn(one)
        if before is not None:
            self._tell_end(key, before, step)
        went_on = False
        for effect in step.effects:
            assert running is not None, "what is over asks for nothing"
            went_on |= self._send(key, running, effect, at)
        for beginning in step.begin:
            self._shell.begun(beginning)
        for other, first in begun:
            self._enter(other, first, now)
        return went_on

    def _tell_end(self, key: Key, before: Running, step: Step[Any]) -> None:
        """Tell the daemon where a step ends the workflow, or what it blocked."""
        after: WorkflowState | None = step.state
        blocks = after is not None and after.is_under_way
        blocked = before.since if before.state.is_under_way and not blocks else None
        if blocked is not None or step.ended is not None:
            about = self._about(key, before.state)
            self._shell.ended(End(key, before.state, about, blocked, step.ended))

    def _commit(self, key: Key, before: Running | None, step: Step[Any], begun: Begun) -> bool:
        """Write a step: its state, what it begins and what it ends; whether it is on the disk."""
        if step.pins and not self._shell.enter_pins(step.pins):
            return False
        opened, ended = self._entries(key, before, step, begun)
        if not self._journal.commit(opened, ended):
            return False
        left = self._resumed.pop(key, None) if ended else None
        if left is not None:
            self._log.event(Event.INTENT_ENDED, outcome=ended[0].outcome, **fields_of(left))
        return True

    def _entries(
        self, key: Key, before: Running | None, step: Step[Any], begun: Begun
    ) -> tuple[list[Intent], list[Conclusion]]:
        """What the journal gets of a step: the intents that it opens, and the one that it ends."""
        after: WorkflowState | None = step.state
        opened, ended = [], []
        if after is not None and after.is_written:
            was_written = before is not None and before.state.is_written
            writes = any(isinstance(effect, effects.Write) for effect in step.effects)
            if not was_written or writes or begun:
                opened.append(entry_of(key, after, self._workflows[key.action]))
        elif before is not None and step.ended is not None:
            ended.append(Conclusion(str(key), step.ended.name, step.ended.details))
        for other, first in begun:
            if first.state is not None and first.state.is_written:
                opened.append(entry_of(other, first.state, self._workflows[other.action]))
        return opened, ended

    def _begun(self, step: Step[Any]) -> Begun:
        """The workflows that a step begins, each with its first step."""
        begun = []
        for one in step.begin:
            if one.action not in self._workflows:
                continue
            key = self._key(one.action, one.order)
            if not self._is_in_flight(key):
                seen = self._shell.seen(key, one.order.plan_id)
                begun.append((key, self._workflows[one.action].start(one.order, seen)))
        return begun

    def _tell_passed_over(self, one: OpenIntent, error: str | None) -> None:
        self._log.event(
            Event.INTENT_PASSED_OVER,
            level=WARNING,
            error=error,
            clear="look at what became of it; the journal has it, and it blocks nothing",
            **fields_of(one),
        )

    def _send(
        self, key: Key, running: Running, effect: effects.Effect, at: WorkerPool | None
    ) -> bool:
        if isinstance(effect, effects.Wait):
            self._shell.remind(effect.seconds, WaitOver(key, running.serial))
            return False
        pool = self._shell.workers_for(key.action)
        order, paced = CarryOut(key, running.serial, effect), effects.is_paced(effect)
        if pool is at:
            pool.go_on(key.id, order, paced=paced)
            return True
        pool.give(key.id, order, paced=paced)
        return False

    def _key(self, action: Action, order: Any) -> Key:
        return Key(action, self._workflows[action].id(order))

    def _about(self, key: Key, state: WorkflowState) -> About:
        return self._workflows[key.action].about(state)
