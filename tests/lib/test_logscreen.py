"""The log on a terminal: what a line looks like, and which lines are left out (O5)."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from nodemanager.core.model.reasons import Event, Reason
from nodemanager.lib import log, logscreen
from nodemanager.lib.logscreen import Screen, Shortened, is_terminal, style_of, wants_colours
from tests.cases import cases

AT = time.mktime((2026, 3, 1, 14, 5, 7, 0, 0, -1))
UUID = "zzzzz-7ekkf-000000000000007"


def plain(**fields: object) -> str:
    return Screen(colours=False).line(fields, AT, "info")


def test_a_line_has_local_time_event_reason_whom_and_measures_in_words() -> None:
    line = plain(
        event=Event.RECORD_KEEP,
        reason=Reason.WITHIN_WINDOW,
        record=UUID,
        host="compute7",
        idle_s=812.0,
        window_s=7200,
        plan="4f1c",
        node=None,
    )
    assert re.sub(" +", " ", line) == (
        "14:05:07 record.keep within_window compute7 quiet 13m 32s window 2h 00m"
    )


def test_columns_are_aligned_whether_there_is_a_reason_or_not() -> None:
    with_reason = plain(event="node.gone", reason="node_down", host="compute1")
    without = plain(event="node.paired", host="compute1")
    assert with_reason.index("compute1") == without.index("compute1")


def test_a_record_is_named_where_neither_host_nor_node_is_known() -> None:
    assert "000000" in plain(event="record.pruned", record=UUID)
    assert "000000" not in plain(event="record.cleaned", record=UUID, host="compute7")


def test_ids_are_as_short_as_they_may_be_and_no_other_s() -> None:
    short = Shortened()
    assert short.of("local-1c3ff4e420cc") == "local-1c3ff4"
    # A beginning of both would be refused as ambiguous.
    assert short.of("local-1c3ff4e499cc") == "local-1c3ff4e49"
    assert short.of("local-1c3ff4e420cc") == "local-1c3ff4e42"
    assert short.of("i-7") == "i-7"
    assert short.of("local-e2aea51dac44") == "local-e2aea5"


def test_ids_that_are_known_before_are_told_apart_from_the_first_on() -> None:
    ids = ("i-b-0123456789", "i-b-0123456788", "i-c-0123456789")
    short = Shortened(ids)
    assert [short.of(id) for id in ids] == ["i-b-0123456789", "i-b-0123456788", "i-c-012345"]


def test_no_more_ids_are_remembered_than_a_screen_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logscreen, "MOST_IDS", 2)
    short = Shortened()
    shown = [short.of(f"i-{number:09d}") for number in range(3)]
    assert shown == ["i-000000", "i-000000001", "i-000000"]


def test_what_a_cloud_wrote_moves_no_cursor() -> None:
    """X9."""
    line = plain(event="node.keep", node="i-\x1b[2J", host="\x1b]0;evil", error="\x1b[1m\n")
    assert "\x1b" not in line
    assert "\n" not in line


def test_colours_are_only_for_who_wants_them() -> None:
    coloured = Screen(colours=True).line({"event": "breaker.opened"}, AT, "warning")
    assert "\x1b[1m\x1b[31mbreaker.opened" in coloured
    assert "WARNING" in coloured
    warning = Screen(colours=True).line({"event": "node.setup_failed"}, AT, "warning")
    assert "\x1b[33mnode.setup_failed" in warning
    assert wants_colours({})
    assert not wants_colours({"NO_COLOR": "1"})
    assert not wants_colours({"TERM": "dumb"})


@pytest.mark.parametrize(
    ("event", "level", "style"),
    [
        ("node.paired", "info", "green"),
        ("node.unpaired", "info", ""),
        ("node.lost", "warning", "yellow"),
        ("node.shutdown_started", "info", "cyan"),
        ("record.not_restored", "warning", "yellow"),
        ("record.false_clean", "warning", "bold red"),
        ("poll.failed", "error", "bold red"),
    ],
)
def test_how_bad_an_event_is_decides_its_colour(event: str, level: str, style: str) -> None:
    """The words of a name count whole: what is unpaired is not paired."""
    assert style_of(event, level) == style


QUIET = {"event": Event.CYCLE_DONE, "boots": 0, "shutdowns": 0, "cleans": 0, "deferred": 0}


def test_a_cycle_in_which_nothing_was_done_is_told_once_a_minute() -> None:
    screen = Screen(colours=False)
    shown = [second for second in range(180) if screen.shows(QUIET, AT + second, debug=False)]
    assert shown == [0, 60, 120]
    assert screen.shows({**QUIET, "cleans": 1}, AT + 121, debug=False)
    assert not screen.shows(QUIET, AT + 122, debug=False)
    assert screen.shows(QUIET, AT + 122, debug=True)


def test_a_summary_shows_no_zero_and_a_line_no_name_twice() -> None:
    line = plain(**{**QUIET, "busy": 3, "cleans": 1, "breaker": "closed"})
    assert line.split()[1:] == ["cycle.done", "cleans", "1", "busy", "3", "breaker", "closed"]
    paired = plain(event="node.paired", host="compute1", node="i-1", name="compute1", slot=1)
    assert paired.split()[1:] == ["node.paired", "compute1", "i-1", "slot", "1"]


@cases(
    ("fields", "shown"),
    {
        "busy": ({"event": Event.NODE_KEEP, "reason": Reason.BUSY}, False),
        "idle": ({"event": Event.NODE_KEEP, "reason": Reason.NEEDED}, False),
        "held": ({"event": Event.NODE_KEEP, "reason": Reason.HELD}, True),
        "record": ({"event": Event.RECORD_KEEP, "reason": Reason.BUSY}, True),
        "a-library-s": ({}, True),
    },
)
def test_a_node_that_turns_busy_or_idle_is_left_to_the_summary(
    fields: dict[str, object], shown: bool
) -> None:
    assert Screen(colours=False).shows(fields, AT, debug=False) is shown


@pytest.fixture
def as_it_was() -> Iterator[None]:
    yield
    log.setup("stderr", "INFO")


@pytest.mark.usefixtures("as_it_was")
@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "pipe"])
def test_auto_is_for_people_on_a_terminal_and_logfmt_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], terminal: bool
) -> None:
    monkeypatch.setattr(log, "is_terminal", lambda descriptor: terminal)
    log.setup("stderr", "INFO", format="auto")
    told = log.get("nodemanager.test")
    told.event(Event.NODE_KEEP, reason=Reason.BUSY, node="i-1")
    told.event(Event.NODE_GONE, reason=Reason.NODE_DOWN, node="i-1", host="compute1")
    lines = capfd.readouterr().err.splitlines()
    if terminal:
        (line,) = lines
        assert "compute1 i-1" in line
        assert "event=" not in line
    else:
        assert [line.split()[1] for line in lines] == ["event=node.keep", "event=node.gone"]


def test_a_file_and_a_closed_descriptor_are_no_terminals() -> None:
    assert not is_terminal(None)
    assert not is_terminal(10_000)
