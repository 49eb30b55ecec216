"""What the log told is found again in the journal, by any name of whom it is about."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodemanager.actors.report.event_log import EventLog
from nodemanager.actors.report.plan_log import TOLD_ELSEWHERE
from nodemanager.core.execute.state import State
from nodemanager.core.explain.events import event_of_node, event_of_record
from nodemanager.core.model.reasons import Event, Kind, Reason
from nodemanager.core.model.world import StoreTime
from nodemanager.core.observe.facts import CloudSeen, RecordsSeen
from nodemanager.core.observe.history import History
from nodemanager.core.operate.naming import AmbiguousIdError, UnknownIdError
from nodemanager.core.replay.fold import Decision, Start
from nodemanager.errors import CloudError, JournalError
from nodemanager.journal.event import LoggedEvent
from nodemanager.journal.logged import NOT_KEPT, EventRecorder
from nodemanager.journal.sqlite import SqliteJournal
from nodemanager.journal.story import Story, names_in
from nodemanager.journal.verdicts import verdicts_of
from nodemanager.lib import log
from nodemanager.lib.log import DEBUG, INFO, WARNING
from tests.core.build import EPOCH, POOL, World, world
from tests.fakes.clock import ManualClock
from tests.journal.random_world import RandomWorld, recorded

pytestmark = pytest.mark.slow

Opener = Callable[..., SqliteJournal]
Line = tuple[str, str, str | None]

DECIDED = (
    {Event.RECORD_UNLISTED, Event.NODE_UNLISTED}
    | {event_of_record(kind) for kind in Kind}
    | {event_of_node(kind, reason) for kind in Kind for reason in Reason}
)


class Recorded:
    """A world whose polls, plans and lines are recorded, and a clock that goes with it."""

    def __init__(self, opened: Opener, run: str = "run-1") -> None:
        self.world: World = world(node_stale_after=7200.0)
        self.clock = ManualClock(self.world.now, EPOCH + self.world.now)
        self.journal = opened(clock=self.clock)
        self.begin(run)

    def begin(self, run: str) -> None:
        """A process begins."""
        self.settle_clock()
        now = self.world.now
        start = Start(POOL, self.world.settings, now, EPOCH + now, State(), run)
        self.journal.begin(start)
        self.log = log.get("nodemanager.recorded")
        self.log.listeners.append(EventRecorder(self.journal, self.clock).heard)
        self.event_log = EventLog(self.log, self.world.settings, "apply")
        self.log.event(Event.DAEMON_STARTED, pool=POOL)

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
        self.decide(f"p{made.plans}")

    def decide(self, plan_id: str) -> None:
        made = self.world
        self.settle_clock()
        snapshot = made.snapshot(plan_id=plan_id)
        plan = made.plan(plan_id=plan_id)
        self.event_log.plan(plan, made.now)
        self.journal.decided(Decision(snapshot, plan))

    def tell(self, event: Event, *, level: int = INFO, **fields: Any) -> None:
        """A line that the daemon writes, on the disk when this returns."""
        self.log.event(event, level=level, **fields)
        assert self.journal.retry()


@pytest.fixture
def made(opened: Opener) -> Recorded:
    return Recorded(opened)


def lines(path: Path, id: str | None = None, since: float = 0.0) -> list[LoggedEvent]:
    return list(Story(path, since, id).news())


def told_of(path: Path, id: str, since: float = 0.0) -> list[tuple[str, str | None]]:
    """Event and reason of each thing that is told of `id`."""
    return [(one.event, one.reason) for one in lines(path, id, since)]


# What is kept.


def test_a_line_and_its_row_say_the_same(
    made: Recorded, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(INFO, "nodemanager"):
        made.tell(
            Event.RECORD_CLEANED,
            level=WARNING,
            reason=Reason.STALE_SLOT,
            record="r1",
            slot=0,
            host="compute0",
            guarantee="cas",
            idle_s=7201.23456,
            error=CloudError("no answer"),
            node=None,
            plan="p1",
        )
    (written,) = [log.fields_of(one) for one in caplog.records]
    (kept,) = lines(path, "r1")
    assert kept == LoggedEvent(
        at=made.clock.wall(),
        event="record.cleaned",
        reason="stale_slot",
        record="r1",
        slot=0,
        host="compute0",
        plan="p1",
        more={
            "guarantee": "cas",
            "idle_s": 7201.235,
            "error": "CloudError: no answer",
            "level": "warning",
        },
    )
    named = {"event", *kept.more, "reason", "record", "slot", "host", "plan"}
    assert named - {"level"} == {key for key, value in written.items() if value is not None}


@pytest.mark.parametrize("event", sorted(NOT_KEPT))
def test_cycles_and_servers_are_not_kept(made: Recorded, path: Path, event: Event) -> None:
    made.tell(event, level=WARNING)
    assert [one.event for one in lines(path)] == ["daemon.started"]


@pytest.mark.parametrize(
    "event", [Event.LIST_OK, Event.LIST_FAILED, Event.LIST_PARTIAL, Event.LIST_ITEM]
)
def test_an_outage_of_a_poll_is_found_the_morning_after(
    made: Recorded, path: Path, event: Event
) -> None:
    """Its end, too: `events`, `log` and the page of incidents have nothing but the journal."""
    made.tell(event, level=WARNING, source="cloud", error=CloudError("no answer"))
    assert [(one.event, one.more.get("source")) for one in lines(path)][1:] == [
        (event.value, "cloud")
    ]


def test_what_is_below_info_is_not_kept(made: Recorded, path: Path) -> None:
    made.tell(Event.RECORD_KEEP, level=DEBUG, record="r1")
    assert [one.event for one in lines(path)] == ["daemon.started"]


def test_no_secret_is_kept(made: Recorded, path: Path) -> None:
    made.tell(
        Event.NODE_SETUP_FAILED,
        error=CloudError("POST https://x/?ping_secret=abc123def"),
        detail={"api_token": "abc123def"},
        option="[Arvados] token",
        old="abc123def",
    )
    assert "abc123def" not in repr(lines(path))


def test_what_was_told_while_the_journal_failed_is_written_later(
    made: Recorded, path: Path, opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*given: object) -> None:
        raise JournalError("full")

    with monkeypatch.context() as broken:
        broken.setattr("nodemanager.journal.durable.put_events", fails)
        made.log.event(Event.NODE_GONE, node="i-1")
        assert not made.journal.retry()
    assert made.journal.retry()
    assert [one.event for one in lines(path)] == ["daemon.started", "node.gone"]


def test_what_was_told_last_is_written_at_the_end(made: Recorded, path: Path) -> None:
    made.log.event(Event.DAEMON_STOPPED, reason="SIGTERM")
    made.journal.close()
    assert lines(path)[-1].event == "daemon.stopped"


# Each verdict once.


def expected(made: RandomWorld) -> list[Line]:
    """Every verdict that is not what it was in the last decision that was taken, but for those
    that another line has told."""
    told: list[Line] = []
    standing: dict[tuple[str, str], Reason] = {}
    for plan in made.plans:
        if plan.aborted is not None:
            continue
        now: dict[tuple[str, str], Reason] = {}
        for subject, verdict in verdicts_of(plan):
            key = subject, verdict.id
            kind, reason = verdict.kind, verdict.reason
            is_record = subject == "record"
            event = event_of_record(kind) if is_record else event_of_node(kind, reason)
            is_ordered = kind in (Kind.CLEAN, Kind.PRUNE, Kind.SHUTDOWN)
            if standing.get(key) is not reason and reason not in TOLD_ELSEWHERE and not is_ordered:
                told.append((verdict.id, event.value, reason.value))
            now[key] = reason
        for subject, id in standing.keys() - now.keys():
            event = Event.RECORD_UNLISTED if subject == "record" else Event.NODE_UNLISTED
            told.append((id, event.value, None))
        standing = now
    return sorted(told, key=str)


def decisions(told: list[LoggedEvent]) -> list[Line]:
    found = []
    for one in told:
        if one.event in DECIDED:
            id = one.record if one.event.startswith("record.") else one.node
            found.append((id or "", one.event, one.reason))
    return sorted(found, key=str)


@pytest.mark.parametrize("seed", range(6))
def test_each_change_of_a_verdict_is_kept_once(seed: int, opened: Opener, path: Path) -> None:
    made = recorded(opened(), seed, 60)
    assert decisions(lines(path)) == expected(made)


def test_a_new_run_is_told_and_what_it_finds_as_it_was_is_not(made: Recorded, path: Path) -> None:
    made.world.add_record("r1")
    made.world.add_node("r1")
    made.world.add_record("r2", slot=2)
    made.round()
    story = Story(path)
    assert {"node.paired", "record.keep"} <= {one.event for one in story.news()}
    made.begin("run-2")
    made.round()
    assert [one.event for one in story.news()] == ["daemon.started"]
    made.world.drop_node(next(iter(made.world.history.present)))
    made.round()
    made.round()
    assert "node.unlisted" in {one.event for one in story.news()}


def test_a_decision_that_could_not_be_taken_is_told_once(made: Recorded, path: Path) -> None:
    made.world.add_record("r1")
    made.round()
    made.world.history = History()
    for _ in range(3):
        made.decide("none")
    told = [one.event for one in lines(path) if one.reason == Reason.NO_LISTING]
    assert len(told) <= 1


# Whom it is about.


def test_a_life_is_told_by_record_slot_host_node_or_the_nodes_name(
    made: Recorded, path: Path
) -> None:
    pair = {"record": "r1", "slot": 7, "host": "compute7"}
    made.tell(Event.NODE_SETUP_STARTED, reason=Reason.WANTED, size="small", incarnation="ab1")
    made.tell(Event.RECORD_CLAIMED, record="r1", incarnation="ab1")
    made.tell(Event.NODE_CREATED, node="i-1", name="compute-1", **pair)
    made.tell(Event.NODE_PAIRED, node="i-2", record="r2", slot=8, host="compute8")
    made.tell(Event.NODE_KEEP, reason=Reason.BOOTING, node="i-1")
    made.tell(Event.RECORD_KEEP, reason=Reason.WITHIN_WINDOW, **pair)
    made.tell(Event.LEFTOVER_ENTERED, node="i-1", leftover="vol-1", kind="volume")
    made.tell(Event.RECORD_CLEANED, reason=Reason.STALE_SLOT, **pair)
    made.tell(Event.LEFTOVER_RELEASED, node="i-1", leftover="vol-1", kind="volume")
    life = [
        ("node.setup_started", "wanted"),
        ("record.claimed", None),
        ("node.created", None),
        ("node.keep", "booting"),
        ("record.keep", "within_window"),
        ("leftover.entered", None),
        ("record.cleaned", "stale_slot"),
        ("leftover.released", None),
    ]
    for name in ("r1", "i-1", "7", "compute7", "compute-1"):
        assert told_of(path, name) == life
    assert {one.record for one in lines(path, "compute7")} == {None, "r1"}


def test_a_record_that_is_used_again_is_told_by_who_had_it_then(made: Recorded, path: Path) -> None:
    """O2: `log compute1` told of the boot of compute2, on the record that had been compute1's."""
    for number in (1, 2):
        pair = {"record": "r1", "slot": number, "host": f"compute{number}"}
        inc = f"life-{number}"
        made.tell(Event.NODE_SETUP_STARTED, reason=Reason.WANTED, record="r1", incarnation=inc)
        made.tell(Event.NODE_CREATED, node=f"i-{number}", **pair)
        made.tell(Event.NODE_KEEP, reason=Reason.BUSY, node=f"i-{number}")
        made.tell(Event.RECORD_CLEANED, reason=Reason.STALE_SLOT, **pair)
    for number in (1, 2):
        for name in (f"compute{number}", f"i-{number}", str(number)):
            told = lines(path, name)
            assert len(told) == 4
            assert {one.node for one in told} <= {None, f"i-{number}"}
            assert {one.host for one in told} <= {None, f"compute{number}"}
    assert len(told_of(path, "r1")) == 8


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
    assert {one.node for one in lines(path, "compute7", since)} == {"i-1"}
    assert {one.node for one in lines(path, "compute9", since)} == {"i-2"}


@pytest.mark.parametrize("typed", ["r1", "i-1", "compute7", "7"])
def test_a_command_is_told_of_whom_it_named_by_whatever_name(
    made: Recorded, path: Path, typed: str
) -> None:
    made.world.add_record("r1", slot=7)
    made.world.add_node("r1", id="i-1")
    made.round()
    made.tell(
        Event.OPERATOR_CLEAN, id=typed, record="r1", node="i-1", by="ann", reason=Reason.PAIRED
    )
    for name in ("r1", "i-1", "compute7", "7"):
        assert ("operator.clean", "paired") in told_of(path, name)


def test_a_command_about_nobody_is_told_by_what_it_named(made: Recorded, path: Path) -> None:
    made.tell(Event.OPERATOR_HOLD, id="i-none", by="ann", reason=Reason.UNKNOWN_ID)
    assert told_of(path, "i-none") == [("operator.hold", "unknown_id")]
    assert "i-none" not in names_in(path)


def test_the_beginning_of_an_id_will_do_where_only_one_begins_so(
    made: Recorded, path: Path
) -> None:
    """O9."""
    for number, id in enumerate(("local-4ad7", "local-4b22")):
        made.tell(Event.NODE_SETUP_STARTED, incarnation=f"life-{number}")
        made.tell(Event.NODE_KEEP, node=id)
        made.tell(Event.NODE_PAIRED, node=id, record=f"zzzzz-7ekkf-{number}", slot=number)
    assert told_of(path, "local-4a") == told_of(path, "local-4ad7")
    assert told_of(path, "zzzzz-7ekkf-0") == [("node.paired", None)]
    with pytest.raises(AmbiguousIdError, match="local-4 may be"):
        lines(path, "local-4")
    with pytest.raises(UnknownIdError, match="near it: local-4ad7"):
        lines(path, "local-5ad7")


# When.


def test_from_a_moment_on_the_same_is_told_as_of_everything(made: Recorded, path: Path) -> None:
    for number in range(5):
        made.world.add_record(f"r{number}", slot=number)
        made.round()
    everything = lines(path)
    for since in {one.at for one in everything}:
        assert lines(path, since=since) == [one for one in everything if one.at >= since]


def test_what_was_told_since_the_last_look_is_told_at_the_next(
    made: Recorded, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nodemanager.journal.story.AT_ONCE", 2)
    story, told = Story(path, id="r1"), []
    made.tell(Event.RECORD_KEEP, record="r1", reason=Reason.BUSY)
    for number in range(7):
        made.tell(Event.NODE_GONE, node=f"i-{number}")
        made.tell(Event.RECORD_CLEAN, record="r1")
        told += story.news()
    assert [one.event for one in told] == ["record.keep", *["record.clean"] * 7]
    assert list(story.news()) == []


def test_another_journal_in_its_place_is_read_from_its_beginning(
    made: Recorded, path: Path, opened: Opener
) -> None:
    for number in range(5):
        made.tell(Event.NODE_GONE, node=f"i-{number}")
    story = Story(path)
    list(story.news())
    made.journal.close()
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
    Recorded(opened, "run-2").tell(Event.NODE_GONE, node="i-9")
    assert [one.event for one in story.news()] == ["daemon.started", "node.gone"]


def test_a_missing_journal_is_refused_by_name(path: Path) -> None:
    with pytest.raises(JournalError, match="there is no journal"):
        lines(path.with_name("none.db"))
