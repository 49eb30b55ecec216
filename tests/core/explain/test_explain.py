"""explain: who is meant, what each rule measured, what blocks, and from when on nothing does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

import pytest

from nodemanager.core.explain.explain import DRY_RUN, Explanation, explain, find
from nodemanager.core.explain.rules import Finding, RuleStatus
from nodemanager.core.judge.node_view import opens_in, window_open
from nodemanager.core.model.breaker import HOW_TO_CLEAR, Cause
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.world import CloudState, WorkerState
from nodemanager.core.operate.naming import UnknownIdError
from nodemanager.core.safety import breaker as breakers
from nodemanager.journal.explained import as_json
from tests.cases import cases
from tests.core.build import World, world

TWO_HOURS = 7200.0


def told(made: World, given: str, **how: Any) -> Explanation:
    """What is explained of the newest plan."""
    return explain(made.decided, made.last, made.settings, given, **how)


def rule(explanation: Explanation, name: str) -> Finding:
    return next(one for one in explanation.findings if one.name == name)


def silent(quiet: float, **fields: Any) -> World:
    """A record `r1` of a node that is gone, quiet for so long once its absence is settled."""
    made = world()
    made.add_record("r1", quiet=quiet - 70.0, slot=7, **fields)
    made.settle()
    return made


# Who is meant.


@pytest.mark.parametrize("given", ["r1", "compute7", "7"])
def test_a_record_goes_by_uuid_hostname_and_slot(given: str) -> None:
    explained = told(silent(800.0), given)
    assert (explained.subject, explained.id) == ("record", "r1")


@pytest.mark.parametrize("given", ["i-r1", "ticket-12"])
def test_a_node_goes_by_id_and_name(given: str) -> None:
    made = world()
    made.add_record("r1")
    made.add_node("r1", name="ticket-12")
    made.settle()
    explained = told(made, given)
    assert (explained.subject, explained.id) == ("node", "i-r1")
    assert explained.record is not None
    assert explained.record["uuid"] == "r1"


def test_a_name_that_nobody_or_that_two_have_is_refused_with_what_is_near_it() -> None:
    made = world()
    made.add_record("r1", hostname="twin")
    made.add_record("r2", hostname="twin")
    made.settle()
    with pytest.raises(UnknownIdError, match=r"r1 .*, r2 ") as caught:
        find(made.snapshot(), made.plan(), "twin")
    assert caught.value.near == ("r1", "r2")
    with pytest.raises(UnknownIdError, match="near it") as caught:
        find(made.snapshot(), made.plan(), "twins")
    assert "twin" in caught.value.near


# What blocks a record, and until when.


def test_a_record_inside_its_window_is_free_when_the_window_ends_c3() -> None:
    explained = told(silent(812.0), "r1")
    window = rule(explained, "past_its_window")
    assert explained.verdict.reason is Reason.WITHIN_WINDOW
    assert [one.rule for one in explained.blocks] == ["C3"]
    assert (window.measures["idle_s"], window.measures["window_s"]) == (
        pytest.approx(812.0, abs=10),
        TWO_HOURS,
    )
    assert explained.earliest.in_s == pytest.approx(TWO_HOURS - window.measures["idle_s"], abs=0.1)


def test_a_claim_that_never_pinged_is_told_by_its_own_window_c21() -> None:
    made = silent(800.0, pinged=False)
    window = rule(told(made, "r1"), "past_its_window")
    assert (window.rule, window.reason) == ("C21", Reason.CLAIM_WITHIN_WINDOW)
    assert window.measures["window_s"] == made.settings.claim_window


def test_a_busy_word_keeps_a_claimless_record_and_its_age_is_told_c2() -> None:
    explained = told(silent(812.0, worker_state=WorkerState.BUSY), "r1")
    word = rule(explained, "not_at_work")
    assert (word.status, word.measures["state"]) == (RuleStatus.BLOCKS, "busy")
    assert word.measures["last_ping_s"] == pytest.approx(812.0, abs=10)


def test_no_moment_is_named_while_its_node_is_listed_c4() -> None:
    made = world()
    made.add_record("r1", quiet=9000.0)
    made.add_node("r1")
    made.settle()
    explained = told(made, "r1")
    assert explained.earliest.in_s is None
    assert explained.earliest.why == ("not while its node i-r1 is listed",)


def test_absence_that_is_not_settled_waits_for_settle_only_c5() -> None:
    made = world(settle=60.0)
    made.add_record("r1", quiet=9000.0)
    made.round(3, every=10.0)
    explained = told(made, "r1")
    absent = rule(explained, "settled")
    assert explained.verdict.reason is Reason.NOT_SETTLED
    assert absent.measures["settle_s"] == 60.0
    assert explained.earliest.in_s == pytest.approx(60.0 - absent.measures["absent_s"], abs=10)


def test_an_open_breaker_names_no_moment_and_says_how_it_closes_b2_b3() -> None:
    made = silent(9000.0)
    made.breaker = breakers.opened(made.breaker, Cause.FALSE_CLEAN, frozenset({"x"}), made.now, {})
    made.plan()
    explained = told(made, "r1")
    assert explained.verdict.reason is Reason.BREAKER_OPEN
    assert explained.earliest.in_s is None
    assert HOW_TO_CLEAR[Cause.FALSE_CLEAN] in explained.earliest.why[0]


@cases(
    ("flags", "reason", "words"),
    {
        "no-lease": ({"lease": False}, Reason.NO_LEASE, "lease"),
        "l5": ({"read_only": "another store"}, Reason.READ_ONLY, "another store"),
        "held-c9": ({"holds": frozenset({"r1"})}, Reason.HELD, "release r1"),
    },
)
def test_what_only_somebody_else_can_end_is_told_in_words(
    flags: dict[str, Any], reason: Reason, words: str
) -> None:
    made = silent(9000.0)
    made.plan(**flags)
    explained = told(made, "r1")
    assert explained.verdict.reason is reason
    assert explained.earliest.in_s is None
    assert words in explained.earliest.why[0]


@pytest.mark.parametrize("given", ["r1", "i-r1"])
@cases(
    ("holds", "marked", "ends"),
    {
        "record": ({"r1"}, None, {"`nodemanager release r1`"}),
        "node": ({"i-r1"}, None, {"`nodemanager release i-r1`"}),
        "both": ({"r1", "i-r1"}, None, {"`nodemanager release r1`", "`nodemanager release i-r1`"}),
        "in-the-records-properties": ((), "r1", {"take the hold mark off r1"}),
        "in-the-nodes-tags": ((), "i-r1", {"take the hold mark off i-r1"}),
        "record-and-tag": (
            {"r1"},
            "i-r1",
            {"`nodemanager release r1`", "take the hold mark off i-r1"},
        ),
    },
)
def test_the_advice_on_a_hold_is_what_ends_it_c9(
    holds: Iterable[str], marked: str | None, ends: set[str], given: str
) -> None:
    made = world()
    made.add_record("r1", quiet=9000.0, held=marked == "r1")
    made.add_node("r1", held=marked == "i-r1")
    made.flags["holds"] = frozenset(holds)
    made.settle()
    assert made.of_node("i-r1").reason is Reason.HELD
    whys = [one.why or "" for one in told(made, given).blocks if one.rule == "C9"]
    advised = re.findall(r"`nodemanager release \S+`|take the hold mark off \S+", " ".join(whys))
    assert set(advised) == ends


def test_a_node_whose_record_is_deleted_is_released_by_that_record_c9() -> None:
    made = world()
    made.add_node("r1")
    made.flags["holds"] = frozenset({"r1"})
    made.settle()
    (block,) = [one for one in told(made, "i-r1").blocks if one.rule == "C9"]
    assert "`nodemanager release r1`" in (block.why or "")


def test_a_stale_poll_needs_nothing_but_a_poll_c7() -> None:
    made = silent(9000.0)
    made.advance(700.0)
    made.plan()
    explained = told(made, "r1")
    assert explained.verdict.reason is Reason.CLOCK_UNKNOWN
    assert rule(explained, "polls").reason is Reason.POLL_STALE
    # Its absence is counted anew after so long a gap.
    assert explained.earliest.in_s == pytest.approx(made.settings.settle, abs=1)


def test_what_the_cap_defers_could_go_at_once_c10() -> None:
    made = world(max_cleans_per_cycle=1)
    for uuid in ("r1", "r2"):
        made.add_record(uuid, quiet=9000.0)
    made.settle()
    deferred = [one.id for one in made.last.records if one.kind is Kind.DEFER]
    explained = told(made, deferred[0])
    assert [one.name for one in explained.blocks] == ["cap"]
    assert explained.earliest.in_s is not None
    assert explained.earliest.in_s < 1.0


def test_what_is_freed_is_blocked_by_nothing_but_a_dry_run_s3() -> None:
    made = silent(9000.0)
    assert told(made, "r1").verdict.kind is Kind.CLEAN
    assert told(made, "r1").blocks == []
    dry = told(made, "r1", mode=DRY_RUN)
    assert [one.rule for one in dry.blocks] == ["S3"]
    assert dry.earliest.in_s is None


def test_another_pools_record_is_asked_nothing_more_c0() -> None:
    explained = told(silent(9000.0, pool="other"), "r1")
    assert [one.rule for one in explained.blocks] == ["C0"]
    assert rule(explained, "settled").status is RuleStatus.NOT_ASKED


def test_a_plan_that_was_aborted_says_so_of_everything_l1() -> None:
    made = world()
    made.add_record("r1")
    made.poll_records()
    made.plan()
    explained = told(made, "r1")
    assert explained.verdict.reason is Reason.NO_LISTING
    assert explained.earliest.in_s is None


def test_no_rule_on_records_goes_without_a_word() -> None:
    found = {one.rule for one in told(silent(800.0), "r1").findings}
    assert {f"C{number}" for number in (*range(13), 20, 21, 22)} <= found


# Nodes.


def running(**fields: Any) -> World:
    """A paired node that pinged just now."""
    made = world()
    made.add_record("r1", quiet=0.0, **fields)
    made.add_node("r1")
    made.settle()
    return made


def test_a_busy_node_waits_for_nothing_but_its_own_word_d1() -> None:
    explained = told(running(worker_state=WorkerState.BUSY), "i-r1")
    assert [one.reason for one in explained.blocks] == [Reason.BUSY]
    assert explained.earliest.why == ("not while it says that it is busy",)


def test_an_idle_node_shows_its_words_and_its_window_and_then_demand_decides_d1() -> None:
    made = world(consecutive_idle_count=9, shutdown_windows=(3600.0, 600.0))
    made.add_record("r1", worker_state=WorkerState.IDLE)
    made.add_node("r1", age=1000.0)
    for _ in range(2):
        made.round()
        made.advance(30.0)
        made.ping("r1", WorkerState.IDLE)
    made.round()
    explained = told(made, "i-r1")
    polls, window = rule(explained, "idle_for_long"), rule(explained, "idle_in_its_window")
    assert (polls.measures["idle_polls"], polls.measures["needed_polls"]) == (3, 9)
    assert window.reason is Reason.WINDOW_CLOSED
    assert explained.earliest.in_s is None
    assert explained.earliest.why == (
        "not before 6 more of its pings say that it is idle",
        "demand decides once nothing else forbids it",
    )
    assert explained.earliest.not_before_s == pytest.approx(window.measures["opens_in_s"], abs=1)


def test_a_node_that_never_pinged_is_given_boot_fail_after_d8() -> None:
    made = world()
    made.add_record("r1", quiet=100.0, pinged=False)
    made.add_node("r1", age=100.0)
    made.settle()
    explained = told(made, "i-r1")
    boot = rule(explained, "heard_of")
    assert explained.verdict.reason is Reason.BOOTING
    assert explained.earliest.in_s == pytest.approx(1800.0 - boot.measures["silent_s"], abs=10)


def test_an_unpaired_node_takes_d7s_course_d7_d10() -> None:
    made = world()
    made.add_node("gone")
    made.settle()
    explained = told(made, "i-gone")
    alone = rule(explained, "unpaired")
    assert (alone.rule, alone.status) == ("D7", RuleStatus.BLOCKS)
    assert explained.earliest.in_s == pytest.approx(1800.0 - alone.measures["unpaired_s"], abs=10)
    assert explained.record is None


def test_a_stopped_node_goes_once_settled_d1() -> None:
    made = world(settle=600.0)
    made.add_record("r1")
    made.add_node("r1", state=CloudState.STOPPED)
    made.round(2, every=60.0)
    explained = told(made, "i-r1")
    stopped = rule(explained, "up")
    assert stopped.reason is Reason.NOT_SETTLED
    assert explained.earliest.in_s == pytest.approx(600.0 - stopped.measures["stopped_s"], abs=10)


def test_a_node_without_our_tag_waits_for_an_operator_d11() -> None:
    made = world()
    made.add_node(id="byhand", pool=None)
    made.settle()
    explained = told(made, "byhand")
    assert explained.blocks[0].rule == "D11"
    assert "adopts" in explained.earliest.why[0]


def test_what_is_shut_down_says_which_rule_calls_for_it_d8() -> None:
    made = world()
    made.add_record("r1", quiet=100.0, pinged=False)
    made.add_node("r1", age=100.0)
    made.round(8, every=300.0)
    explained = told(made, "i-r1")
    assert explained.verdict.kind is Kind.SHUTDOWN
    assert explained.blocks == []
    assert [one.name for one in explained.findings if one.status is RuleStatus.CALLS] == [
        "heard_of"
    ]


@pytest.mark.parametrize(
    "windows", [(), (3600.0, 600.0), (60.0, 999.0, 300.0, 5.0), (10.0, 20.0, 30.0)]
)
@pytest.mark.parametrize("age", [0.0, 59.9, 60.0, 3599.0, 4000.0, 7777.7])
def test_a_window_opens_when_it_is_said_to(age: float, windows: tuple[float, ...]) -> None:
    wait = opens_in(age, windows)
    assert window_open(age + wait + 1e-6, windows)
    if wait > 1.0:
        assert not window_open(age + wait - 0.5, windows)


# All of it.


@pytest.mark.parametrize("given", ["r1", "i-r1", "i-alone"])
def test_nothing_is_told_twice(given: str) -> None:
    made = running()
    made.add_node(id="i-alone")
    made.settle()
    names = [one.name for one in told(made, given).findings]
    assert len(names) == len(set(names))


def test_no_secret_is_told() -> None:
    made = world()
    made.add_record("r1", ping_secret="s3cr3t-word", info={"ping_secret": "s3cr3t-word"})
    made.add_node("r1")
    made.settle()
    for given in ("r1", "i-r1"):
        assert "s3cr3t" not in json.dumps(as_json(told(made, given), "test"))
