"""What the pages show, of one decision."""

from __future__ import annotations

import lzma
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlencode

import pytest

from nodemanager.core.explain.explain import DecisionView
from nodemanager.core.explain.inventory import SlotStates, slot_states
from nodemanager.core.model.annotations import PAUSE, Mark, Marks
from nodemanager.core.model.breaker import Breaker, Cause
from nodemanager.core.model.reasons import Event
from nodemanager.core.model.world import CloudState, Job, WorkerState
from nodemanager.errors import CloudError
from nodemanager.journal.event import LoggedEvent
from nodemanager.journal.sqlite import SqliteJournal
from nodemanager.journal.story import latest
from nodemanager.lib.log import INFO, WARNING
from nodemanager.web.dashboard.history import Sample
from tests.core.build import EPOCH, START, World, world
from tests.fakes.clock import ManualClock
from tests.journal.test_incident import INCIDENT
from tests.web.dashboard.console import READ_TOKEN, TOKEN, Console, showing, small


@pytest.fixture
def signed_in(console: Console) -> Console:
    console.sign_in()
    return console


def text_of(html: str) -> str:
    """The words of a page, without tags."""
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


def section(html: str, id: str) -> str:
    found = re.search(rf'<section id="{id}".*?</section>', html, re.DOTALL)
    assert found is not None
    return text_of(found[0])


def test_before_the_first_decision_it_says_so() -> None:
    console = Console()
    console.sign_in()
    answer = console.get("/")
    assert answer.status_code == 503
    assert "no decision yet" in answer.text
    assert answer.headers["refresh"] == "2"


def test_the_slots_are_counted_by_state(signed_in: Console) -> None:
    told = section(signed_in.get("/").text, "slots")
    assert told.startswith("Slots 3 used 0 idle 0 leaked ? free")
    assert "1 without a node within_window" in told
    late = small()
    late.advance(7200.0)
    late.settle()
    signed_in.decides(late)
    told = section(signed_in.get("/").text, "slots")
    assert "1 leaked ? free" in told
    assert "1 without a node ( 1 leaked ) stale_slot" in told


def test_each_count_of_nodes_leads_to_as_many_nodes() -> None:
    """`fail` counts reasons, and is no state of the list; nodes of an old word were not counted."""
    made = small(nodes=4)
    made.nodes[0] = replace(made.nodes[0], state=CloudState.STOPPED)
    made.records[1] = replace(made.records[1], worker_state=WorkerState.IDLE)
    made.settle()
    console = showing(made)
    found = re.search(r'<ul class="counts">.*?</ul>', console.get("/").text, re.DOTALL)
    assert found is not None
    counts = re.findall(r'href="([^"]+)"><b>(\d+)</b>', found[0])
    assert len(counts) > 2
    for path, count in counts:
        listed = console.get(path).text
        assert len(set(re.findall(r'href="(/nodes/i-\d)"', listed))) == int(count), path


def test_the_states_of_all_slots_add_up() -> None:
    made = small(nodes=4)
    made.flags["slots"] = 20
    made.records[1] = replace(made.records[1], worker_state=WorkerState.IDLE)
    made.settle()
    assert made.last is not None
    states = slot_states(made.last)
    assert states is not None
    assert states.leaked == 0
    assert states.used + states.idle == 5, "in its window its node may live"
    assert states.free == 15
    assert isinstance(states, SlotStates)


def test_an_open_breaker_is_seen_on_each_page_with_the_way_to_end_it() -> None:
    made = small()
    made.breaker = Breaker(cause=Cause.INVARIANT, opened_at=START, detail={"broken": 2})
    console = showing(made)
    for path in ("/", "/nodes", "/records", "/log", "/nodes/i-1", "/windows"):
        told = section(console.get(path).text, "alerts")
        assert told.startswith("The breaker is open"), path
        assert "invariant: broken 2. Nothing is freed or destroyed." in told
        assert "Reset the breaker" in told


def test_an_answer_too_old_to_decide_from_is_told_on_each_page_that_rests_on_it() -> None:
    console, made = Console(), small()
    console.observer.heard(Event.LIST_OK, INFO, {"source": "cloud", "items": 2, "took_s": 0.1})
    error = CloudError("list nodes: no answer")
    console.observer.heard(Event.LIST_FAILED, WARNING, {"source": "cloud", "error": error})
    console.decides(made)
    console.sign_in()
    assert "No answer from cloud" in section(console.get("/").text, "alerts")
    assert section(console.get("/nodes").text, "alerts") == "", "one failed poll is no outage"
    made.advance(900.0)
    made.poll_records()
    made.plan()
    assert made.decided is not None
    assert made.last is not None
    console.observer.show(DecisionView(made.decided, made.last, made.settings))
    for path in ("/", "/nodes", "/records", "/nodes/i-1"):
        told = section(console.get(path).text, "alerts")
        assert told.count("No answer from cloud") == 1, path
        assert "CloudError: list nodes: no answer" in told


def test_a_pause_is_seen_and_a_full_pool_that_nobody_waits_for_is_no_alarm() -> None:
    made = small()
    paused = Mark("Bob", EPOCH + START, "upgrade")
    console = showing(made, Marks(), pool_marks={PAUSE: paused}, slots=3)
    told = section(console.get("/").text, "alerts")
    assert "The pool is paused" in told
    assert "by Bob: upgrade" in told
    # A full pool that nothing waits for is fine.
    assert "No slot is free" not in told


def test_where_nothing_is_wrong_the_overview_says_so_in_one_calm_line() -> None:
    console = showing(small(), slots=9)
    assert section(console.get("/").text, "alerts") == (
        "All is well. 2 slots have a node, 6 of 9 are free."
    )
    assert section(console.get("/nodes").text, "alerts") == ""


def test_the_worst_stands_first() -> None:
    console = Console()
    made = small()
    made.breaker = Breaker(cause=Cause.INVARIANT, opened_at=START, detail={"broken": 2})
    console.observer.heard(Event.LIST_FAILED, WARNING, {"source": "cloud"})
    console.decides(made, demand=(Job("j", cores=99),))
    console.sign_in()
    told = section(console.get("/").text, "alerts")
    order = ["The breaker is open", "No answer from cloud", "Jobs can&#39;t be served"]
    places = [told.index(title) for title in order]
    assert places == sorted(places)
    assert "failed in a row: 1" in told


def test_a_slot_is_leaked_only_past_its_window() -> None:
    made = small()
    console = showing(made)
    assert "leaked" not in section(console.get("/").text, "alerts")
    made.add_record("r8", slot=8, quiet=10_000.0)
    console.decides(made, holds=frozenset({"r8"}))
    assert "Slots are leaked 1: their nodes are gone" in section(console.get("/").text, "alerts")


def journal_of(path: Path, *events: LoggedEvent) -> Path:
    journal = SqliteJournal(path, pool="main", clock=ManualClock(), boot_id="boot-1")
    for one in events:
        journal.tell(one)
    journal.close()
    return path


def lost(at: float, host: str) -> LoggedEvent:
    more = {"level": "warning", "was": "busy"}
    return LoggedEvent(at, "node.lost", "node_absent", host=host, node=f"i-{host}", more=more)


def test_what_the_journal_warned_of_in_the_last_hour_is_told_and_is_no_alarm(
    tmp_path: Path,
) -> None:
    made = small()
    made.settle()
    now = EPOCH + made.now
    old, new = lost(now - 7200, "compute8"), lost(now - 60, "compute9")
    console = showing(made, journal=journal_of(tmp_path / "journal.db", old, new))
    html = console.get("/").text
    told = section(html, "warnings")
    assert "1 warning node.lost node_absent compute9:busy" in told
    assert "compute9" in told
    assert "compute8" not in told
    assert section(html, "alerts").startswith("All is well.")
    console.clock.advance(7200.0)
    made.now += 7200.0
    console.decides(made)
    assert 'id="warnings"' not in console.get("/").text


def at(when: float) -> str:
    return datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%d %H:%M:%S")


def test_an_incident_is_one_page_of_its_range(tmp_path: Path) -> None:
    made = small()
    made.settle()
    begin = EPOCH + made.now - 5000
    info = LoggedEvent(begin + 10, "node.created", host="compute1", node="i-1")
    kept = LoggedEvent(begin + 20, "record.keep", "within_window", host="compute4", record="r4")
    later = LoggedEvent(begin + 900, "node.gone", "idle", host="compute5", node="i-5")
    events = (info, kept, lost(begin + 30, "compute9"), later)
    console = Console(journal_of(tmp_path / "journal.db", *events))
    console.history._samples = [
        Sample(begin + 60.0 * minute, {"slots.used": minute, "boots.booted": 1})
        for minute in range(20)
    ]
    console.decides(made)
    console.sign_in()
    path = f"/incident?{urlencode({'since': at(begin), 'until': at(begin + 600)})}"
    html = console.get(path).text
    assert f"Pool main , {at(begin)} to {at(begin + 600)} UTC" in section(html, "range")
    groups = section(html, "groups")
    assert groups.index("warning node.lost node_absent") < groups.index("node.created compute1")
    told = section(html, "events")
    assert told.index("node.created") < told.index("node.lost")
    assert "record.keep" not in told
    assert "node.gone" not in told
    assert "used: 10 at the end, at most 10" in html
    assert "booted 11" in section(html, "chart-boots")
    assert path.replace("&", "&amp;") in html
    # The overview's charts are of the same range.
    assert "used: 10 at the end, at most 10" in console.get(path.replace("/incident", "/")).text


def test_a_range_that_is_none_is_the_usual_one(tmp_path: Path) -> None:
    console = showing(small(), journal=journal_of(tmp_path / "journal.db"))
    for odd in (
        "since=yesterday",
        "range=1y",
        "since=2100-01-01",
        "since=2020-01-02&until=2020-01-01",
    ):
        html = console.get(f"/incident?{odd}").text
        assert 'href="/incident?range=6h" aria-current="true"' in html, odd
        assert "nothing was done" in section(html, "events") or 'data-empty="nothing' in html


def test_an_incident_without_a_journal_says_so(signed_in: Console) -> None:
    assert 'data-empty="there is no journal"' in signed_in.get("/incident").text


def test_demand_says_what_it_waits_for() -> None:
    made = small().with_settings(max_nodes=50)
    console = showing(made, demand=(Job("j1", cores=1), Job("j2", cores=99)), slots=3)
    told = section(console.get("/").text, "demand")
    assert "no_free_slot" in told
    assert "job j2 : no_fitting_size" in told
    alerts = section(console.get("/").text, "alerts")
    assert "No slot is free" in alerts
    assert "Wanted nodes that wait: 1." in alerts


def test_waiting_jobs_are_listed_in_the_queue_s_order_with_what_each_waits_for() -> None:
    made = small().with_settings(max_nodes=50)
    console = showing(made, demand=(Job("j1", cores=1), Job("j2", cores=99)), slots=3)
    told = text_of(console.get("/jobs").text)
    assert told.index("j1 waiting 1 1 core small") < told.index("j2 impossible 1 99 cores")
    assert "no_free_slot" in told
    assert "2 of 2 shown" in told
    told = text_of(console.get("/jobs?state=impossible").text)
    assert "1 of 2 shown" in told
    assert "no_fitting_size" in told


def test_decisions_are_turned_back_page_by_page_and_to_a_time(tmp_path: Path) -> None:
    """An incident's journal, of 252 events."""
    journal = tmp_path / "journal.db"
    journal.write_bytes(lzma.decompress((INCIDENT / "journal.db.xz").read_bytes()))
    console = showing(small(), journal=journal)

    def numbers(path: str) -> list[int]:
        return [int(one) for one in re.findall(r'<tr id="e(\d+)"', console.get(path).text)]

    assert numbers("/log") == [*range(252, 52, -1)]
    assert 'href="/log?before=53"' in console.get("/log").text
    assert numbers("/log?before=53") == [*range(52, 0, -1)]
    back = console.get("/log?before=53&only=done").text
    assert "Older" not in back
    assert 'href="/log?only=done"' in back
    first = latest(journal, 300)[-1][1].at
    at = datetime.fromtimestamp(first + 30, UTC).strftime("%Y-%m-%d %H:%M:%S")
    early = numbers(f"/log?until={at.replace(' ', '+')}")
    assert early[-1] == 1
    assert 0 < len(early) < 200
    for odd in ("/log?before=x", "/log?before=" + "9" * 30, "/log?until=yesterday"):
        assert numbers(odd) == numbers("/log"), odd


def test_decisions_are_chosen_by_time_level_and_text_in_the_browser_and_over_http(
    tmp_path: Path,
) -> None:
    made = small()
    made.settle()
    now = EPOCH + made.now
    kept = LoggedEvent(now - 30, "record.keep", "within_window", host="compute4", record="r4")
    refused = {"level": "warning", "detail": "No Room"}
    failed = LoggedEvent(now - 20, "node.setup_failed", "size_rests", more=refused)
    console = Console(
        journal_of(tmp_path / "journal.db", lost(now - 90, "compute10"), kept, failed)
    )
    console.decides(made)
    console.sign_in()

    def found(query: str) -> list[int]:
        answer = console.get(f"/api/decisions?{query}", Authorization=f"Bearer {TOKEN}")
        numbers = [one["number"] for one in answer.json["decisions"]]
        assert [
            int(one) for one in re.findall(r'id="e(\d+)"', console.get(f"/log?{query}").text)
        ] == (numbers), query
        return numbers

    assert found("") == [3, 2, 1]
    assert found(f"since={now - 60}") == [3, 2]
    assert found(urlencode({"since": at(now - 100), "until": at(now - 25)})) == [2, 1]
    assert found("level=warning") == [3, 1]
    assert found("event=record.keep,node.lost&sort=-host") == [1, 2]
    assert found("reason=within_window") == [2]
    assert found("only=done") == [3, 1]
    assert found("q=no+room") == [3]
    assert found("before=3&sort=when") == [1, 2]
    odd = console.get("/api/decisions?since=noon", Authorization=f"Bearer {TOKEN}")
    assert (odd.status_code, odd.json["title"]) == (400, "no such time")


def test_the_facts_of_a_record_lead_to_its_node_and_its_orders() -> None:
    mark = Mark("Bob", EPOCH + START, "new image")
    console = showing(small(), Marks(drains={"i-1": mark}), drains={"i-1": mark})
    record = console.get("/records/r1").text
    for link in (
        "/nodes/i-1",
        "/nodes/compute1",
        "/log?reason=paired",
        "/orders?order=drain&amp;q=i-1",
    ):
        assert f'href="{link}' in record, link
    assert 'href="/records/r1"' in console.get("/nodes/i-1").text
    assert 'href="/act/run?id=i-1"' in console.get("/orders").text


def test_a_job_has_a_page_of_its_own_linked_from_the_list(tmp_path: Path) -> None:
    made = small().with_settings(max_nodes=50)
    console = showing(made, demand=(Job("j1", cores=1), Job("a/b", cores=99)), slots=3)
    links = re.findall(r'href="(/jobs/[^"]+)"', console.get("/jobs").text)
    assert links == ["/jobs/j1", "/jobs/a%2Fb"]
    told = section(console.get("/jobs/j1").text, "job")
    assert "waiting : no_free_slot" in told
    assert "impossible : no_fitting_size" in section(console.get("/jobs/a%2Fb").text, "job")
    gone = console.get("/jobs/j3")
    assert (gone.status_code, "no waiting job has the id" in gone.text) == (404, True)


def test_a_node_has_its_whole_life_page_by_page_and_of_a_time(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal = SqliteJournal(path, pool="main", clock=ManualClock(), boot_id="boot-1")
    console = showing(small(), journal=path)
    wall = console.board.decision.snapshot.wall  # type: ignore[union-attr]
    for number in range(150):
        more = {"level": "warning"} if number == 149 else {}
        journal.tell(LoggedEvent(wall - 900 + number, "node.drain", node="i-1", more=more))
    assert journal.retry()

    def page(query: str = "") -> tuple[int, str]:
        html = console.get(f"/nodes/i-1{query}").text
        found = re.search(r'<section id="history".*?</section>', html, re.DOTALL)
        assert found is not None
        return found[0].count("node.drain</a></td>"), found[0]

    count, newest = page()
    assert (count, "50 are older" in newest) == (100, True)
    assert newest.count("s-warning") == 1
    older = re.search(r'href="/nodes/i-1(\?before=\d+)">Older', newest)
    assert older is not None
    count, last = page(older[1])
    assert (count, "Newest</a>" in last, "Older</a>" in last) == (50, True, False)
    until = datetime.fromtimestamp(wall - 890.5, UTC).strftime("%Y-%m-%d+%H:%M:%S.%f")
    since = datetime.fromtimestamp(wall - 897.5, UTC).strftime("%Y-%m-%d+%H:%M:%S.%f")
    assert page(f"?until={until}")[0] == 10
    assert page(f"?since={since}&until={until}")[0] == 7


def test_nodes_are_listed_filtered_and_sorted(signed_in: Console) -> None:
    made = small(nodes=13)
    signed_in.decides(made)

    def hosts(path: str) -> list[str]:
        return re.findall(r'<th scope="row"><a [^>]*>([^<]*)', signed_in.get(path).text)

    assert hosts("/nodes")[:3] == ["compute1", "compute2", "compute3"]
    assert hosts("/nodes?sort=-slot")[0] == "compute13"
    assert hosts("/nodes?q=i-11") == ["compute11"]
    assert hosts("/nodes?state=busy") == []
    assert len(hosts("/nodes?state=unknown&size=small")) == 12
    assert hosts("/records?state=no_node") == ["compute7"]
    assert "1 of 13 shown" in text_of(signed_in.get("/records?state=no_node").text)


@pytest.mark.parametrize("path", ["/records/r7", "/nodes/compute7", "/records/7"])
def test_a_record_has_its_explanation(signed_in: Console, path: str) -> None:
    told = signed_in.get(path).text
    assert "Record compute7" in told
    assert "It is left alone : within_window ." in section(told, "verdict")
    assert "C3 blocks" in section(told, "rules")
    assert "Clean…" in section(told, "acts")
    assert "Drain…" not in section(told, "acts")


def test_a_node_has_its_buttons_and_its_orders() -> None:
    mark = Mark("Bob", EPOCH + START, "new image")
    console = showing(small(), Marks(drains={"i-1": mark}), drains={"i-1": mark})
    told = section(console.get("/nodes/i-1").text, "acts")
    assert "by Bob: new image" in told
    assert "Undo drain or kill…" in told
    assert "drain compute1 i-1 by Bob" in section(console.get("/").text, "orders")


def test_orders_stand_by_host_compute2_before_compute10() -> None:
    marks = {f"i-{number}": Mark("Bob", EPOCH + START, "old") for number in (10, 2, 1)}
    console = showing(small(nodes=10), Marks(drains=marks), drains=marks)
    told = section(console.get("/").text, "orders")
    assert told.index("compute1 ") < told.index("compute2 ") < told.index("compute10 ")
    answer = console.get("/status.json", Authorization=f"Bearer {TOKEN}").json
    assert [one["host"] for one in answer["marks"]] == ["compute1", "compute2", "compute10"]


def test_what_no_listing_has_is_told_with_what_is_like_it(signed_in: Console) -> None:
    answer = signed_in.get("/nodes/i-99")
    assert answer.status_code == 404
    assert "i-99" in answer.text


def test_a_clouds_names_are_text_and_nothing_else() -> None:
    made: World = world()
    evil = "<script>alert(1)</script>\"'&\u202e/a b"
    made.add_record("r1", slot=1, hostname=evil)
    made.add_node("r1", id=evil)
    console = showing(made)
    shown = console.get("/nodes").text
    assert "<script>alert" not in shown
    assert "\u202e" not in shown
    assert "&lt;script&gt;alert(1)" in shown
    link = re.search(r'href="(/nodes/[^"]+)"', shown)
    assert link is not None
    assert console.get(link[1]).status_code == 200


def test_who_may_only_look_is_told_so(console: Console) -> None:
    console.sign_in(READ_TOKEN)
    assert "may only look" in console.get("/").text


def test_a_page_made_once_is_shown_again_until_the_next_decision(signed_in: Console) -> None:
    def version() -> str:
        found = re.search(r'data-version="([^"]+)"', signed_in.get("/nodes").text)
        assert found is not None
        return found[1]

    first = version()
    assert version() == first
    signed_in.decides(small())
    assert version() == first, "nothing changed"
    signed_in.decides(small(nodes=3))
    assert version() != first
