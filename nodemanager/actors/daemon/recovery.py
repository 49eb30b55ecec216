"""Loads what a former run left, and resumes it once cloud and store are checked (R1, R4)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from nodemanager.actors.daemon.backlog_marks import BacklogMarks
from nodemanager.actors.daemon.context import Context
from nodemanager.actors.daemon.intents import (
    answers_of_creates,
    ends_of,
    may_be_under_way,
    open_destroys,
    sent_destroys,
)
from nodemanager.actors.daemon.invariants import FalseCleans, Invariants
from nodemanager.actors.report.journal_writer import Loaded
from nodemanager.core.execute.expectations import expected_again, waiting_claims
from nodemanager.core.execute.news import CreatesRead, Inherited
from nodemanager.core.model.world import life_key
from nodemanager.core.observe.facts import ClocksKept, DestroySent, HostnamesKept
from nodemanager.journal import kept


@dataclass(eq=False)
class Recovery:
    """Gives what the journal kept to the parts that it concerns."""

    _context: Context
    _false_cleans: FalseCleans
    _invariants: Invariants
    _backlog: BacklogMarks

    def load(self) -> None:
        """Load what a former run left, if the journal can be read."""
        self._take(self._context.journal_writer.load())

    def mend(self) -> None:
        """Retry what could not be read or written before, and prove the cleans not proven yet."""
        self._take(self._context.journal_writer.mend())
        self._backlog.save()
        self._invariants.prove_owed()

    def _take(self, loaded: Loaded | None) -> None:
        if loaded is None:
            return
        context = self._context
        breaker, clocks = loaded.of(kept.BREAKER), loaded.of(kept.CLOCKS)
        if breaker is not None:
            context.inherit_breaker(breaker)
        now = context.now
        if clocks is not None:
            context.fold(ClocksKept(clocks, now))
        hostnames = loaded.of(kept.HOSTNAMES)
        if hostnames:
            context.fold(HostnamesKept(hostnames, now))
        context.learn(
            Inherited(
                loaded.of(kept.BOOT_LOOPS),
                loaded.of(kept.PLACE_RESTS),
                loaded.of(kept.LATE_WRITES),
                tuple(may_be_under_way(loaded.intents)),
                self._late_destroys(loaded),
                loaded.of(kept.MARKS),
                loaded.leftovers,
                min((one.opened_at for one in loaded.intents), default=math.inf),
                # A journal without the store's clock is a new one: the former run's may be lost.
                may_lack=clocks is None,
            )
        )
        self._backlog.load()
        self._false_cleans.load()
        context.runner.load(loaded.intents, now)

    def _expect(self, oldest: float) -> None:
        """Expect the nodes that the newest creates returned: no listing may show them yet."""
        context = self._context
        now, wall, settings = context.now, context.clock.wall(), context.settings
        waiting = waiting_claims(context.history, now)
        ended = context.journal_writer.concluded(min(oldest, wall - settings.boot_fail_after))
        created = {life_key(one.record, one.incarnation) for one, _ in answers_of_creates(ended)}
        if waiting.keys() - created or any(at > wall for _, at in answers_of_creates(ended)):
            # Our clock may have been set, and the times of creates and ends with it: read all.
            ended = context.journal_writer.concluded(0.0)
        clock = context.wall_clock
        answers = ((one, clock.since(at, now)) for one, at in answers_of_creates(ended))
        ends = frozenset(ends_of(ended))
        expected = expected_again(answers, ends, waiting, now, settings)
        context.learn(CreatesRead(expected, ends))

    def _late_destroys(self, loaded: Loaded) -> Mapping[str, float]:
        """When the former run sent each destroy that it gave up, by node id.

        No node is lost that one of its destroys ends, given up or waited for (L3).
        """
        context = self._context
        now, wall, settings = context.now, context.clock.wall(), context.settings
        ended = context.journal_writer.concluded(wall - settings.action_timeout)
        sent: dict[str, float] = {}
        for node_id, at in sent_destroys(ended, loaded.intents):
            since = now if at is None else context.wall_clock.since(at, now)
            sent[node_id] = max(since, sent.get(node_id, since))
            context.fold(DestroySent(node_id, since))
        for node_id in open_destroys(loaded.intents):
            context.fold(DestroySent(node_id, now))
        return sent

    def go_on(self) -> None:
        """Resume what a former run left, once cloud and store are the remembered ones (L5, R1)."""
        context = self._context
        history = context.history
        if history.cloud is None or history.records is None or context.state.identity.read_only:
            return
        if context.state.expects_creates_since is not None:
            self._expect(context.state.expects_creates_since)
        if context.stopping is None and context.applies:
            context.runner.resume(context.now, context.wall_clock)
            context.runner.news(context.now)
