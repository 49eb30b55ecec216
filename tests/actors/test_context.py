"""What the daemon knows: one fold, and each fact's news are told, whoever brings the fact."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from mock import Mock

from nodemanager.actors.daemon.context import Context, DaemonInputs
from nodemanager.actors.daemon.remembered import RememberedBacklog
from nodemanager.actors.report.journal_writer import JournalWriter
from nodemanager.core.execute.news import Inherited, NodeGone
from nodemanager.core.execute.state import State
from nodemanager.core.execute.writes import with_late
from nodemanager.core.model.annotations import NO_MARKS
from nodemanager.core.model.breaker import Breaker, Cause
from nodemanager.core.model.reasons import Event, Reason
from nodemanager.core.model.world import life_key
from nodemanager.core.observe.facts import NodesAnswered
from nodemanager.core.replay.fold import after_fact
from nodemanager.core.safety.boot_loops import SIZE_LOOP
from nodemanager.core.safety.breaker import opened
from nodemanager.journal.kept import BOOT_LOOPS, BREAKER, LATE_WRITES
from nodemanager.lib.log import Logger
from tests.core.build import world
from tests.fakes.clock import ManualClock
from tests.fakes.journal import MemoryJournal
from tests.fakes.timer import ManualTimer


def context(
    settings: Any, journal: MemoryJournal | None = None
) -> tuple[Context, list[Event], list[Any]]:
    """One, with the events that it logs and the messages that it tells its own actor."""
    clock = ManualClock() if journal is None else journal.clock
    journal = journal or MemoryJournal(clock)
    log = Logger("tests.context")
    events: list[Event] = []
    log.listeners.append(lambda event, level, fields: events.append(event))
    told: list[Any] = []
    made = Context(
        settings=settings,
        inputs=DaemonInputs(
            manager="m", journal=journal, identity=Mock(), backlog=RememberedBacklog(None)
        ),
        timer=ManualTimer(clock),
        clock=clock,
        log=log,
        actor=lambda: SimpleNamespace(tell=told.append),
    )
    return made, events, told


def test_a_false_clean_that_a_last_look_finds_is_told_like_any_other_u8() -> None:
    """A workflow folds in the cloud's answers, too: it opened the breaker, and told no life."""
    at_work = world(visible_after=0.0, ids_unique=True)
    at_work.add_record("r1", quiet=9000.0)
    at_work.round()
    at_work.free("r1")
    at_work.advance(100.0)
    node = at_work.add_node("r1")
    at_work.round()
    made, events, told = context(at_work.settings)
    made.state = State(history=at_work.history, breaker=at_work.breaker)
    fact = NodesAnswered({node.id: node}, at_work.now)
    after = after_fact(made.state, fact, at_work.settings)
    made.fold(fact)
    assert made.state == after
    assert made.breaker.is_open
    assert events == [Event.RECORD_FALSE_CLEAN, Event.INVARIANT_BROKEN, Event.BREAKER_OPENED]
    assert len(told) == 1


def test_a_life_that_a_late_list_shows_after_its_end_failed_to_boot_once_b5() -> None:
    """It is destroyed anew, and gone anew, while its record waits for its clean (1005100418)."""
    made, _, _ = context(world().settings, MemoryJournal(ManualClock()))
    for _ in range(2):
        made.learn(NodeGone("i-1", Reason.BOOT_FAILED, "small", "r1", "life-1"))
    assert made.limits.loops.pool.failed == 1
    made.learn(NodeGone("i-2", Reason.BOOT_FAILED, "small", "r1", "life-2"))
    assert made.limits.loops.pool.failed == 2


def test_a_node_that_we_ended_without_a_record_is_known_by_the_record_that_names_it() -> None:
    """Else the next run, which sees what its pings left, tells it as lost."""
    at_work = world()
    record = at_work.add_record("r1", claim=None, instance_id="i-1")
    at_work.round()
    made, _, _ = context(at_work.settings)
    made.state = State(history=at_work.history)
    made.learn(NodeGone("i-2", Reason.KILLED, "small"))
    assert made.limits.loops.counted == frozenset()
    made.learn(NodeGone("i-1", Reason.KILLED, "small"))
    assert made.limits.loops.counted == {life_key("r1", record.incarnation)}


def test_a_rest_from_booting_is_as_long_where_our_clock_was_set_back_meanwhile_b5() -> None:
    settings, clock = world(boot_fail_after=600.0).settings, ManualClock()
    journal = MemoryJournal(clock)
    before, events, _ = context(settings, journal)
    before.journal_writer.load()
    for _ in range(SIZE_LOOP):
        before.learn(NodeGone("i-1", Reason.BOOT_FAILED, "small"))
    assert events == [Event.BOOTS_REST]
    until = before.limits.loops.sizes["small"].until
    clock.advance(60.0)
    clock.step_wall(-86_400.0)
    after, _, _ = context(settings, journal)
    loaded = after.journal_writer.load()
    assert loaded is not None
    loops = loaded.of(BOOT_LOOPS)
    after.learn(Inherited(loops, {}, {}, (), {}, NO_MARKS, (), 0.0, may_lack=False))
    rests = after.limits.loops.sizes["small"]
    assert (rests.failed, rests.rests, rests.until) == (SIZE_LOOP, 1, until)


def test_without_the_lease_nothing_that_outlives_the_process_is_written_l6() -> None:
    """It would replace what the manager that took the pool has written since."""
    journal, holder = MemoryJournal(ManualClock()), ["m"]
    writer = JournalWriter(journal, Logger("tests.context"), lambda: holder == ["m"])
    writer.load()
    holder.clear()
    breaker = opened(Breaker(), Cause.INVARIANT, frozenset(), 1.0, {})
    writer.keep(BREAKER, breaker)
    writer.keep(LATE_WRITES, with_late({}, "r1", 1.0))
    writer.mend()
    assert journal.kept(BREAKER) is None
    assert journal.kept(LATE_WRITES) == {}
    holder.append("m")
    assert writer.problem is not None
    writer.mend()
    assert writer.problem is None
    assert journal.kept(BREAKER) == breaker
    assert journal.kept(LATE_WRITES).keys() == {"r1"}


def test_a_breaker_that_was_closed_is_not_told_closed_b4() -> None:
    """A run that takes over a former run's closed breaker counts its generations on."""
    made, events, _ = context(world().settings)
    made.event_log.breaker_changed(Breaker(generation=1), Breaker(generation=4))
    assert events == []
    open_ = opened(Breaker(), Cause.MASS_SILENCE, frozenset({"i-1"}), 1.0, {})
    made.event_log.breaker_changed(open_, Breaker(generation=4))
    assert events == [Event.BREAKER_CLOSED]
