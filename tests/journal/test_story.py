"""What a journal tells of what happened: each change of a verdict once, and who was whose."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from nodemanager.core import leftovers
from nodemanager.core.breaker import Breaker, Cause, reset
from nodemanager.core.breaker import opened as open_breaker
from nodemanager.core.facts import BreakerSet, CloudSeen, CommandGiven, RecordsSeen
from nodemanager.core.fold import Decision, Start, State
from nodemanager.core.history import History
from nodemanager.core.model import Leftover, LeftoverKind, StoreTime
from nodemanager.core.reasons import Event, Kind, Reason
from nodemanager.core.telling import event_of_node, event_of_record
from nodemanager.errors import JournalError
from nodemanager.journal import recording
from nodemanager.journal.api import Intent, IntentKind
from nodemanager.journal.deltas import verdicts_of
from nodemanager.journal.happening import Happening
from nodemanager.journal.sqlite import SqliteJournal
from nodemanager.journal.story import Story
from tests.core.build import EPOCH, POOL, World, world
from tests.fakes.clock import ManualClock
from tests.journal.random_world import RandomWorld

Opener = Callable[..., SqliteJournal]
Told = tuple[float, str, Event, Reason | None]

DECIDED = (
    {Event.RECORD_UNLISTED, Event.NODE_UNLISTED}
    | {event_of_record(kind) for kind in Kind}
    | {event_of_node(kind, reason) for kind in Kind for reason in Reason}
)


def expected(made: RandomWorld) -> list[Told]:
    """Every verdict that is not what it was in the last decision that was taken."""
    told: list[Told] = []
    standing: dict[tuple[str, str], tuple[Kind, Reason]] = {}
    for plan, (snapshot, _, _) in zip(made.plans, made.snapshots, strict=True):
        if plan.aborted is not None:
            continue
        now: dict[tuple[str, str], tuple[Kind, Reason]] = {}
        changed: list[Told] = []
        for subject, verdict in verdicts_of(plan):
            key = subject, verdict.id
            kind, reason = verdict.kind, verdict.reason
            is_record = subject == "record"
            event = event_of_record(kind) if is_record else event_of_node(kind, reason)
            if standing.get(key) != (kind, reason) and now.get(key) != (kind, reason):
                changed.append((snapshot.wall, verdict.id, event, reason))
            now[key] = kind, reason
        for subject, id in sorted(standing.keys() - now.keys()):
            event = Event.RECORD_UNLISTED if subject == "record" else Event.NODE_UNLISTED
            changed.append((snapshot.wall, id, event, None))
        told.extend(changed)
        standing = now
    return told


def decisions(happenings: list[Happening]) -> list[Told]:
    return [
        (one.at, one.record or one.node or "", one.event, one.reason)
        for one in happenings
        if one.event in DECIDED
    ]


def recorded(journal: SqliteJournal, seed: int, rounds: int = 60) -> RandomWorld:
    made = RandomWorld(seed, journal)
    for decision in made.run(rounds):
        journal.decided(decision)
    return made


@pytest.mark.parametrize("seed", range(8))
def test_each_change_of_a_verdict_is_told_once_whatever_the_segments(
    seed: int, opened: Opener, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "SEGMENT_DECISIONS", 17)
    made = recorded(opened(), seed)
    told = list(Story(path).news())
    assert decisions(told) == expected(made)


@pytest.mark.parametrize("seed", range(8, 12))
def test_from_a_moment_on_the_same_is_told_as_of_everything(
    seed: int, opened: Opener, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "SEGMENT_DECISIONS", 17)
    made = recorded(opened(), seed)
    everything = list(Story(path).news())
    for snapshot, _, _ in made.snapshots[::7]:
        later = [one for one in everything if one.at >= snapshot.wall]
        found = list(Story(path, snapshot.wall).news())
        assert decisions(found) == decisions(later)
        assert [one.event for one in found] == [one.event for one in later]


def test_what_was_written_since_the_last_look_is_told_at_the_next(
    opened: Opener, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "SEGMENT_DECISIONS", 17)
    journal = opened()
    made = RandomWorld(3, journal)
    told: list[Happening] = []
    story: Story | None = None
    for decision in made.run(60):
        journal.decided(decision)
        story = story or Story(path)
        told.extend(story.news())
    assert decisions(told) == expected(made)
    assert story is not None
    assert list(story.news()) == []


@pytest.mark.parametrize("seed", range(4))
def test_the_names_are_those_of_the_newest_complete_listings(
    seed: int, opened: Opener, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "SEGMENT_DECISIONS", 17)
    made = recorded(opened(), seed)
    story = Story(path)
    list(story.news())
    seen = [one.listing for one in made.facts if isinstance(one, RecordsSeen)]
    newest = [one for one in seen if one.complete][-1]
    for record in newest.items:
        known = story.names.life(record.uuid)
        assert (known.slot, known.host) == (record.slot_number, record.hostname)
    clouds = [one.listing for one in made.facts if isinstance(one, CloudSeen)]
    for node in [one for one in clouds if one.complete][-1].items:
        if node.tags.record is not None:
            assert story.names.record_of(node.id) == node.tags.record


# A world of one's own making.


class Recorded:
    """A world whose polls and plans are recorded, and a clock that goes with it."""

    def __init__(self, opened: Opener, run: str = "run-1") -> None:
        self.world: World = world(node_stale_after=7200.0)
        self.clock = ManualClock(self.world.now, EPOCH + self.world.now)
        self.journal = opened(clock=self.clock)
        self.begin(run)

    def begin(self, run: str) -> None:
        self.settle_clock()
        now = self.world.now
        start = Start(POOL, self.world.settings, now, EPOCH + now, State(), run)
        self.journal.begin(start)

    def settle_clock(self) -> None:
        self.clock.advance(self.world.now - self.clock.boottime())

    def round(self, gap: float = 60.0) -> None:
        """Both polls, noted as the daemon notes them, and a decision."""
        made = self.world
        made.advance(gap).poll()
        records, cloud = made.history.records, made.history.cloud
        assert records is not None
        assert cloud is not None
        time = StoreTime(made.store_now, made.now, 0.0)
        self.journal.note(RecordsSeen(records, "store", time, 4, made.now))
        self.journal.note(CloudSeen(cloud))
        self.settle_clock()
        snapshot = made.snapshot(plan_id=f"p{made.plans}")
        self.journal.decided(Decision(snapshot, made.plan(plan_id=f"p{made.plans}")))


@pytest.fixture
def made(opened: Opener) -> Recorded:
    return Recorded(opened)


def told_of(path: Path, id: str, since: float = 0.0) -> list[tuple[str, str | None]]:
    """Event and reason of each thing that `id` names."""
    return [
        (one.event.value, one.reason.value if one.reason else None)
        for one in Story(path, since).news()
        if id in one.aliases
    ]


def test_a_life_is_told_by_record_slot_host_node_or_the_nodes_name(
    made: Recorded, path: Path
) -> None:
    journal = made.journal
    create = Intent(
        IntentKind.CREATE, "create:x", "p0", details={"name": "compute", "reason": "wanted"}
    )
    journal.intend([create])
    made.world.add_record("r1", slot=7, quiet=0.0)
    made.world.add_node("r1", id="i-1", name="compute-1")
    made.world.add_record("r2", slot=8)
    made.world.add_node("r2", id="i-2", name="compute-2")
    made.round()
    made.clock.advance(1.0)
    journal.conclude("create:x", "created", {"record": "r1", "node": "i-1"})
    made.world.drop_node("i-1")
    made.round()
    made.clock.advance(1.0)
    order = {"order": {"reason": "stale_slot"}}
    journal.intend([Intent(IntentKind.CLEAN, "clean:r1", "p9", record="r1", details=order)])
    made.clock.advance(1.0)
    journal.conclude("clean:r1", "cleaned", {"reason": "stale_slot"})
    life = told_of(path, "r1")
    assert life == [
        ("node.setup_started", "wanted"),
        ("record.keep", "paired"),
        ("node.keep", "worker_unknown"),
        ("node.created", "wanted"),
        ("record.keep", "within_window"),
        ("node.unlisted", None),
        ("record.clean", "stale_slot"),
        ("record.cleaned", "stale_slot"),
    ]
    assert told_of(path, "i-1") == life
    # Before its listing nobody knows more of it than the outcome of its create says.
    for name in ("7", "compute7", "compute-1"):
        assert told_of(path, name) == life[1:]
    assert "r2" not in {one.record for one in Story(path).news() if "r1" in one.aliases}


def test_a_name_that_moved_on_tells_only_of_who_had_it_last(made: Recorded, path: Path) -> None:
    made.world.add_record("r1", slot=7)
    made.world.add_node("r1", id="i-1")
    made.round()
    made.world.drop_node("i-1")
    made.world.change("r1", slot_number=9, hostname="compute9", instance_id=None)
    made.world.add_node("r1", id="i-2")
    made.round()
    made.round()
    since = EPOCH + made.world.now - 90.0
    assert told_of(path, "compute7", since) == []
    assert told_of(path, "compute9") != []


def test_the_breaker_is_told_with_its_cause_and_an_operators_reset(
    made: Recorded, path: Path
) -> None:
    made.round()
    broken = opened_breaker(made.world.breaker, made.world.now)
    made.journal.note(BreakerSet(broken, made.world.now))
    made.world.breaker = broken
    made.round()
    mended = reset(broken, made.world.now)
    made.journal.note(CommandGiven("breaker_reset", None, "ann", "", "done", made.world.now))
    made.journal.note(BreakerSet(mended, made.world.now))
    made.world.breaker = mended
    made.round()
    told = [one for one in Story(path).news() if "breaker" in one.event.value]
    assert told[1].more == {"by": "ann", "result": "done"}
    assert [one.event for one in told] == [
        Event.BREAKER_OPENED,
        Event.OPERATOR_BREAKER_RESET,
        Event.BREAKER_CLOSED,
    ]
    assert told[0].more == {"cause": "writes_fail", "count": 3}


def opened_breaker(breaker: Breaker, at: float) -> Breaker:
    return open_breaker(breaker, Cause.WRITES_FAIL, frozenset(), at, {"count": 3})


@pytest.mark.parametrize("name", ["r1", "i-1", "worker-1", "compute7", "7"])
def test_a_command_is_told_of_whom_it_named_by_whatever_name(
    made: Recorded, path: Path, name: str
) -> None:
    made.world.add_record("r1", slot=7)
    made.world.add_node("r1", id="i-1", name="worker-1")
    made.world.add_record("r2", slot=8)
    made.round()
    made.journal.note(
        CommandGiven(
            "clean", name, "ann", "gone", "refused", made.world.now, "paired", "C4", ("C3", "C5")
        )
    )
    made.round()
    (told,) = [one for one in Story(path).news() if one.event is Event.OPERATOR_CLEAN]
    assert (told.record, told.node, told.host, told.reason) == (
        *("r1", "i-1", "compute7"),
        Reason.PAIRED,
    )
    assert told.more == {
        "id": name,
        "by": "ann",
        "cause": "gone",
        "result": "refused",
        "rule": "C4",
        "forced": "C3,C5",
    }
    assert {"r1", "i-1", "worker-1", "compute7", "7"} <= told.aliases


def test_a_command_about_nobody_is_told_by_what_it_named(made: Recorded, path: Path) -> None:
    made.round()
    made.journal.note(
        CommandGiven("hold", "i-none", "ann", "", "unknown", made.world.now, "unknown_id")
    )
    made.journal.note(CommandGiven("sing", None, "ann", "", "done", made.world.now))
    made.round()
    assert told_of(path, "i-none") == [("operator.hold", "unknown_id")]


def test_a_decision_that_could_not_be_taken_is_told_once_and_changes_no_verdict(
    made: Recorded, path: Path
) -> None:
    made.world.add_record("r1")
    made.world.add_node("r1")
    made.round()
    history = made.world.history
    made.world.history = History()
    for _ in range(3):
        snapshot = made.world.snapshot(plan_id="none")
        made.journal.decided(Decision(snapshot, made.world.plan(plan_id="none")))
    made.world.history = history
    made.round()
    told = [(one.event, one.reason) for one in Story(path).news()]
    assert told[0] == (Event.DAEMON_STARTED, None)
    assert told.count((Event.CYCLE_ABORTED, Reason.NO_LISTING)) == 1
    assert told.count((Event.RECORD_KEEP, Reason.PAIRED)) == 1
    assert len(told) == 4


def test_a_new_run_is_told_and_what_it_finds_as_it_was_is_not(made: Recorded, path: Path) -> None:
    made.world.add_record("r1")
    made.world.add_node("r1")
    made.round()
    story = Story(path)
    list(story.news())
    made.begin("run-2")
    made.round()
    assert [one.event for one in story.news()] == [Event.DAEMON_STARTED]


def test_what_a_node_left_behind_is_told_with_its_node(made: Recorded, path: Path) -> None:
    made.world.add_record("r1")
    made.world.add_node("r1", id="i-1")
    made.round()
    ledger = leftovers.entered(
        leftovers.Ledger(), [Leftover(LeftoverKind.VOLUME, "vol-1", "i-1")], made.world.now
    )
    made.journal.save_leftovers(tuple(ledger.entries.values()))
    (told,) = [one for one in Story(path).news() if one.event is Event.LEFTOVER_ENTERED]
    assert (told.node, told.host) == ("i-1", "compute1")
    assert told.more == {"leftover": "vol-1", "kind": "volume"}


@pytest.mark.parametrize(
    ("kind", "outcome", "event"),
    [
        pytest.param(IntentKind.CREATE, "created", Event.NODE_CREATED, id="created"),
        pytest.param(IntentKind.CREATE, "refused", Event.NODE_SETUP_FAILED, id="refused"),
        pytest.param(IntentKind.DESTROY, "gone", Event.NODE_GONE, id="gone"),
        pytest.param(IntentKind.DESTROY, "failed", Event.NODE_SHUTDOWN_FAILED, id="not-destroyed"),
        pytest.param(
            IntentKind.DESTROY, "no_longer_wanted", Event.NODE_SHUTDOWN_SKIPPED, id="left-alone"
        ),
        pytest.param(IntentKind.CLEAN, "cleaned", Event.RECORD_CLEANED, id="cleaned"),
        pytest.param(IntentKind.CLEAN, "node_alive", Event.RECORD_CLEAN_SKIPPED, id="skipped"),
        pytest.param(IntentKind.CLEAN, "expired", Event.RECORD_CLEAN_FAILED, id="expired"),
        pytest.param(IntentKind.FENCE, "lifted", Event.RECORD_UNFENCED, id="lifted"),
    ],
)
def test_each_outcome_is_an_event_of_the_log(
    made: Recorded, path: Path, kind: IntentKind, outcome: str, event: Event
) -> None:
    made.round()
    made.journal.intend([Intent(kind, "key", "p1", record="r1", node="i-1")])
    story = Story(path)
    assert [one.more["action"] for one in story.news() if one.record] == [kind.value]
    made.journal.conclude("key", outcome)
    (ended,) = story.news()
    assert (ended.event, ended.more["outcome"]) == (event, outcome)
    skipped = Reason(outcome) if outcome in set(Reason) else None
    assert ended.reason is skipped


def test_another_journal_in_its_place_is_read_from_its_beginning(
    made: Recorded, path: Path, opened: Opener
) -> None:
    for _ in range(5):
        made.round()
    story = Story(path)
    list(story.news())
    made.journal.close()
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
    Recorded(opened, "run-2").round()
    assert Event.DAEMON_STARTED in [one.event for one in story.news()]


def test_no_secret_is_told(opened: Opener, path: Path) -> None:
    recorded(opened(), 1)
    assert not any("secret" in repr(one) for one in Story(path).news())


def test_a_damaged_or_missing_journal_is_refused_by_name(made: Recorded, path: Path) -> None:
    made.round()
    made.journal.close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE entries SET body = x'00'")
    with pytest.raises(JournalError, match="is damaged"):
        list(Story(path).news())
    with pytest.raises(JournalError, match="there is no journal"):
        list(Story(path.with_name("none.db")).news())
