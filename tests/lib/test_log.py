"""The log: one event a line that reads back, no secrets, no noise when it can't be written."""

from __future__ import annotations

import json
import logging
import os
import re
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st
from libcloud.common.exceptions import BaseHTTPError

from nodemanager.core.model.keys import LogKey
from nodemanager.core.model.reasons import Event, Reason
from nodemanager.errors import CloudError, StoreError, Throttled
from nodemanager.lib import log, redact
from nodemanager.lib.log import FileHandler, StdioHandler
from nodemanager.lib.logline import as_json, logfmt, number, timestamp
from tests.cases import cases

pytestmark = pytest.mark.slow

PAIR = re.compile(r'([A-Za-z0-9_.-]+)=("(?:[^"\\]|\\.)*"|[^\s"]*)(?: |$)')


def read_back(line: str) -> dict[str, str]:
    """A logfmt reader of its own; fails on anything that it can't account for."""
    found, at = {}, 0
    while at < len(line):
        pair = PAIR.match(line, at)
        assert pair, f"not logfmt at {at}: {line!r}"
        key, value = pair.groups()
        assert key not in found
        if value.startswith('"'):
            value = re.sub(
                r"\\(?:U(.{8})|u(.{4})|x(.{2})|(.))",
                lambda m: (
                    chr(int(m[1] or m[2] or m[3], 16))
                    if m[4] is None
                    else {"n": "\n", "r": "\r", "t": "\t"}.get(m[4], m[4])
                ),
                value[1:-1],
            )
        found[key] = value
        at = pair.end()
    return found


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Take our handlers off the root again, with the levels they brought."""
    monkeypatch.setattr(redact, "HIDDEN", redact.Hidden())
    root = logging.getLogger()
    level = root.level
    yield
    for handler in list(root.handlers):
        if isinstance(handler, (FileHandler, StdioHandler)):
            for name in handler.levels:
                logging.getLogger(name).setLevel(logging.NOTSET)
            root.removeHandler(handler)
            handler.close()
    root.setLevel(level)
    logging.captureWarnings(False)


@pytest.fixture
def lines(tmp_path: Path) -> Callable[[], list[str]]:
    """Log to a file at INFO; gives what was written since."""
    file = tmp_path / "nodemanager.lib.log"
    log.setup(str(file), "INFO")
    return lambda: file.read_text(encoding="utf-8").split("\n")[:-1]


LOG = log.get("nodemanager.test")


def run(script: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script], text=True, timeout=30, check=False, **options
    )


def test_a_verdict_is_one_line_in_the_order_of_its_fields(lines: Callable[[], list[str]]) -> None:
    LOG.event(
        Event.RECORD_CLEAN,
        reason=Reason.STALE_SLOT,
        record="zzzzz-7ekkf-000000000000007",
        slot=0,
        host=None,
        idle_s=9012.12345,
        window_s=7200.0,
        mode="apply",
    )
    (line,) = lines()
    stamp, rest = line.split(" ", 1)
    assert re.fullmatch(r"ts=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", stamp)
    assert rest == (
        "event=record.clean reason=stale_slot record=zzzzz-7ekkf-000000000000007 slot=0 "
        "idle_s=9012.123 window_s=7200 mode=apply"
    )


@cases(
    ("level", "shown"),
    {
        "info-goes-without-saying": (log.INFO, None),
        "warning": (log.WARNING, "warning"),
        "error": (log.ERROR, "error"),
    },
)
def test_a_level_is_shown_where_something_is_amiss(
    level: int, shown: str | None, lines: Callable[[], list[str]]
) -> None:
    LOG.event(Event.LIST_FAILED, level=level, source="cloud")
    assert read_back(lines()[0]).get("level") == shown


@cases(
    ("at", "shown"),
    {
        "epoch": (0.0, "1970-01-01T00:00:00.000Z"),
        "never-rounded-up": (1_700_000_000.9999, "2023-11-14T22:13:20.999Z"),
        "leap-day": (951_782_400.5, "2000-02-29T00:00:00.500Z"),
    },
)
def test_a_stamp_is_utc_with_milliseconds(at: float, shown: str) -> None:
    assert timestamp(at) == shown


@cases(
    ("value", "shown"),
    {
        "whole": (7200.0, "7200"),
        "binary-dust": (0.1 + 0.2, "0.3"),
        "no-negative-zero": (-0.0001, "0"),
        "three-decimals": (123456789.98765, "123456789.988"),
        "infinite": (float("inf"), "inf"),
    },
)
def test_a_float_shows_what_it_says_and_no_more(value: float, shown: str) -> None:
    assert number(value) == shown


@cases(
    ("value", "written"),
    {
        "plain": ("plain-word.1:/x", "k=plain-word.1:/x"),
        "empty": ("", 'k=""'),
        "space": ("two words", 'k="two words"'),
        "equals": ("a=b", 'k="a=b"'),
        "quotes": ('say "hi"', 'k="say \\"hi\\""'),
        "backslash": ("back\\slash", 'k="back\\\\slash"'),
        "newline": ("x\nts=1 event=forged", 'k="x\\nts=1 event=forged"'),
        "terminal-escape": ("\x1b[31m\x00", 'k="\\x1b[31m\\x00"'),
        "unicode-newlines": ("a\u2028b\u0085", 'k="a\\u2028b\\x85"'),
        "direction-mark": ("\u202egnp", 'k="\\u202egnp"'),
        "lone-surrogate": ("\ud800", 'k="\\ud800"'),
        "letters-stay": ("knoten-ä", "k=knoten-ä"),
        "true": (True, "k=true"),
        "several": (("i-1", "i-2"), "k=i-1,i-2"),
        "mapping": ({"a": 1.5}, 'k="{\\"a\\": 1.5}"'),
        "bytes": (b"\xffx", 'k="\\\\xffx"'),
        "error": (Throttled("slow down"), 'k="Throttled: slow down"'),
        "enum": (Reason.BUSY, "k=busy"),
    },
)
def test_a_value_is_quoted_when_it_must_be(value: object, written: str) -> None:
    assert logfmt({"k": value}) == written


@given(st.dictionaries(st.sampled_from([key.value for key in LogKey]), st.text(), max_size=5))
def test_no_text_can_break_out_of_its_field(fields: dict[str, str]) -> None:
    line = logfmt(fields)
    assert line.isprintable()
    assert read_back(line) == fields


@given(st.dictionaries(st.text(min_size=1), st.text(), min_size=1, max_size=1))
def test_no_key_can_break_out_either(fields: dict[str, str]) -> None:
    assert len(read_back(logfmt(fields))) == 1


@settings(max_examples=40)
@given(
    st.dictionaries(
        st.text(),
        st.recursive(st.floats() | st.text() | st.integers() | st.none(), st.lists, max_leaves=6),
        max_size=4,
    )
)
def test_json_is_always_one_valid_line(fields: dict[str, Any]) -> None:
    line = as_json(fields)
    assert line.isascii()
    assert line.isprintable()
    assert set(json.loads(line)) == {key for key, value in fields.items() if value is not None}


def test_what_can_not_be_shown_does_not_lose_the_line() -> None:
    class Sulky:
        def __str__(self) -> str:
            raise RuntimeError("no")

    assert logfmt({"item": Sulky(), "count": 1}) == 'item="<unprintable Sulky>" count=1'


@cases(
    ("key", "longest", "kept"),
    {
        "a-value": ("problem", 2_000, "first"),
        "a-librarys-message": ("message", 20_000, "first"),
        "a-traceback-keeps-its-end": ("traceback", 20_000, "last"),
    },
)
def test_a_huge_value_is_cut_and_says_so(key: str, longest: int, kept: str) -> None:
    shown = read_back(logfmt({key: "first" + "x" * 100_000 + "last"}))[key]
    assert kept in shown
    assert f"(+{100_009 - longest})" in shown
    assert len(shown) < longest + 20


def test_a_librarys_link_and_what_was_said_before_are_left_out(
    lines: Callable[[], list[str]],
) -> None:
    driver = sqlite3.OperationalError("database or disk is full")
    wrapped = sa.exc.OperationalError(None, None, driver, code="e3q8")
    assert "Background on this error at" in str(wrapped)
    error = StoreError("the registry's database: database or disk is full")
    error.__cause__, wrapped.__cause__ = wrapped, driver
    LOG.event(Event.LIST_FAILED, error=error)
    again = CloudError("list nodes: BaseHTTPError 503: Service Unavailable")
    again.__cause__ = BaseHTTPError(503, "Service Unavailable")
    LOG.event(Event.LIST_FAILED, error=again)
    assert [read_back(line)["error"] for line in lines()] == [
        "StoreError: the registry's database: database or disk is full <- "
        "OperationalError: (sqlite3.OperationalError) database or disk is full",
        "CloudError: list nodes: BaseHTTPError 503: Service Unavailable",
    ]


def test_an_error_tells_its_cause_and_a_failure_its_traceback(
    lines: Callable[[], list[str]],
) -> None:
    try:
        try:
            raise TimeoutError("read timed out")
        except TimeoutError as error:
            raise Throttled("slow\ndown") from error
    except Throttled as error:
        LOG.event(Event.LIST_FAILED, error=error)
        LOG.failure(Event.ACTOR_DIED, error, actor="daemon")
    plain, failure = (read_back(line) for line in lines())
    assert plain["error"] == "Throttled: slow\ndown <- TimeoutError: read timed out"
    assert "traceback" not in plain
    assert failure["level"] == "error"
    assert failure["actor"] == "daemon"
    assert "raise Throttled" in failure["traceback"]


def test_a_librarys_line_becomes_one_event(lines: Callable[[], list[str]]) -> None:
    try:
        raise ValueError("boom")
    except ValueError:
        logging.getLogger("sqlalchemy.pool").exception("lost\n%s", "connection")
    (line,) = lines()
    found = read_back(line)
    assert found["event"] == "library"
    assert found["logger"] == "sqlalchemy.pool"
    assert found["message"] == "lost\nconnection"
    assert found["error"] == "ValueError: boom"
    assert found["traceback"].endswith("ValueError: boom")


def test_a_librarys_ill_formed_call_is_still_a_line() -> None:
    # In a process of its own: caplog's handler raises on such a call.
    done = run(
        "import logging; from nodemanager.lib import log; log.setup('stdout', 'INFO');"
        "logging.getLogger('urllib3').warning('%d token=abcdefgh', 'no number')",
        stdout=subprocess.PIPE,
    )
    (line,) = done.stdout.splitlines()
    found = read_back(line)
    assert found["event"] == "library"
    assert found["message"] == "'%d token=***'"
    assert found["error"].startswith("TypeError")


@cases(
    ("levels", "heard"),
    {
        "from-warning-up": ({}, ["warning"]),
        "as-its-own-level": ({"urllib3": "DEBUG"}, ["debug", "info", "warning"]),
    },
)
def test_libraries_are_heard_only_when_something_is_amiss_or_when_named(
    levels: dict[str, str], heard: list[str], tmp_path: Path
) -> None:
    log.setup(str(tmp_path / "log"), "DEBUG", levels)
    library = logging.getLogger("urllib3.pool")
    for level in ("debug", "info", "warning"):
        getattr(library, level)(level)
    written = (tmp_path / "log").read_text().splitlines()
    assert [read_back(line)["message"] for line in written] == heard


def test_a_level_set_before_does_not_outlive_a_second_setup(tmp_path: Path) -> None:
    log.setup(str(tmp_path / "log"), "INFO", {"urllib3": "DEBUG"})
    log.setup(str(tmp_path / "log"), "DEBUG")
    assert not logging.getLogger("urllib3").isEnabledFor(logging.DEBUG)
    assert LOG.enabled(log.DEBUG)
    ours = [h for h in logging.getLogger().handlers if isinstance(h, FileHandler)]
    assert len(ours) == 1


def test_a_file_that_can_not_be_written_is_named_and_changes_nothing(
    lines: Callable[[], list[str]],
) -> None:
    with pytest.raises(log.StartError) as refused:
        log.setup("/nowhere/at/all.log", "INFO")
    assert "[Logging] file = /nowhere" in str(refused.value)
    LOG.event(Event.CYCLE_DONE)
    assert len(lines()) == 1


@cases(
    "text",
    {
        "ping-url": "POST /nodes/x/ping?ping_secret=hunter22&instance_id=i-1",
        "oauth2-header": "Authorization: OAuth2 hunter22",
        "bearer-in-a-dict": "{'authorization': 'Bearer hunter22'}",
        "scheme-alone": "sent OAuth2 hunter22",
        "json": '{"ping_secret": "hunter22", "a": 1}',
        "json-in-json": '{\\"token\\": \\"hunter22\\"}',
        "form": "api_token=hunter22 rest",
        "credentials-file": "aws_secret_access_key = hunter22",
        "database-url": "postgresql://nm:hunter22@db/registry",
        "arvados-token": "v2/zzzzz-gj3su-000000000000001/hunter22",
        "signature": "X-Amz-Signature=hunter22&x=1",
        "private-key": "-----BEGIN RSA PRIVATE KEY-----\nhunter22\n-----END",
        "quoted-password": "password='hunter22 with spaces'",
    },
)
def test_a_secret_in_a_text_is_masked(text: str, lines: Callable[[], list[str]]) -> None:
    logging.getLogger("urllib3").warning("%s", text)
    LOG.event(Event.LIST_FAILED, error=ValueError(text))
    LOG.event(Event.LIST_ITEM, problem=[text, {"deep": text}])
    try:
        raise RuntimeError(text)
    except RuntimeError as error:
        LOG.failure(Event.ACTOR_DIED, error)
    written = lines()
    assert len(written) == 4
    assert all("***" in line and "hunter22" not in line for line in written)


@pytest.mark.parametrize("key", ["ping_secret", "api_token", "Password", "ManagementToken"])
def test_a_value_under_a_secret_key_is_masked_wherever_it_stands(
    key: str, lines: Callable[[], list[str]]
) -> None:
    LOG.event(Event.LIST_ITEM, problem={"info": {key: "hunter22"}})
    LOG.event(Event.CONFIG_CHANGED, option=f"[Manage] {key}", old="hunter21", new="hunter22")
    assert not [line for line in lines() if "hunter" in line]


def test_the_token_of_a_lease_is_a_number_and_shows(lines: Callable[[], list[str]]) -> None:
    """L6; a text under that name is a secret all the same."""
    LOG.event(Event.LEASE_ACQUIRED, token=17)
    LOG.event(Event.LEASE_ACQUIRED, token="hunter22")
    assert ["token=17" in line for line in lines()] == [True, False]
    assert not [line for line in lines() if "hunter" in line]


@cases(
    "text",
    {
        "time": "node i-0abc is idle since 12:00",
        "url": "https://api.example.com:8989/arvados/v1",
        "basic": "a basic question",
        "token-in-prose": "no token was given",
    },
)
def test_innocent_text_is_left_alone(text: str) -> None:
    assert redact.text(text) == text


def test_a_value_that_was_hidden_never_shows(lines: Callable[[], list[str]]) -> None:
    log.hide("correct horse", None, "ab")
    LOG.event(Event.LIST_FAILED, error=ValueError("said correct horse about ab"))
    assert read_back(lines()[0])["error"] == "ValueError: said *** about ab"


def test_an_unknown_key_is_still_logged_in_production(lines: Callable[[], list[str]]) -> None:
    LOG.event(Event.CYCLE_DONE, **{"surprise\nts": 1})
    assert read_back(lines()[0])["surprise_ts"] == "1"


@cases(
    ("event", "fields", "error"),
    {"key": (Event.CYCLE_DONE, {"surprise": 1}, ValueError), "event": ("made.up", {}, TypeError)},
)
def test_strict_refuses_what_is_in_no_list_even_below_the_level(
    event: Any, fields: dict[str, Any], error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log.Logger, "strict", True)
    with pytest.raises(error):
        LOG.event(event, level=log.DEBUG, **fields)


def test_a_test_reads_fields_from_the_record(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    LOG.event(Event.NODE_PAIRED, node="i-1", slot=0)
    assert log.fields_of(caplog.records[-1]) == {"event": "node.paired", "node": "i-1", "slot": 0}


def test_a_line_below_its_level_looks_at_none_of_its_fields(
    lines: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log.Logger, "strict", False)
    monkeypatch.setattr(redact, "value", lambda key, given: pytest.fail("looked"))
    LOG.event(Event.RECORD_KEEP, level=log.DEBUG, reason=Reason.BUSY, problem=object())
    assert lines() == []


def test_a_log_file_is_created_for_its_owner_and_group_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        log.setup(str(tmp_path / "log"), "INFO")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o640


def test_a_rotated_file_is_opened_anew(tmp_path: Path, lines: Callable[[], list[str]]) -> None:
    LOG.event(Event.CYCLE_DONE, plan="1")
    (tmp_path / "nodemanager.lib.log").rename(tmp_path / "nodemanager.lib.log.1")
    LOG.event(Event.CYCLE_DONE, plan="2")
    assert [read_back(line)["plan"] for line in lines()] == ["2"]
    assert stat.S_IMODE((tmp_path / "nodemanager.lib.log").stat().st_mode) == 0o640


def test_lines_lost_to_a_directory_that_went_away_are_counted(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "logs"
    directory.mkdir()
    log.setup(str(directory / "log"), "INFO")
    directory.rename(tmp_path / "elsewhere")
    for _ in range(3):
        LOG.event(Event.CYCLE_DONE)
    assert len(capfd.readouterr().err.splitlines()) == 1
    directory.mkdir()
    LOG.event(Event.CYCLE_DONE, plan="after")
    told, after = (read_back(line) for line in (directory / "log").read_text().splitlines())
    assert (told["event"], told["count"], told["level"]) == ("log.lost", "3", "warning")
    assert after["plan"] == "after"


def test_a_full_disk_raises_nothing_and_says_so_once(capfd: pytest.CaptureFixture[str]) -> None:
    log.setup("/dev/full", "INFO")
    for _ in range(5):
        LOG.event(Event.CYCLE_DONE)
    said = capfd.readouterr().err.splitlines()
    assert said == ["nodemanager: can't write the log /dev/full; lines are being lost"]


WRITES_TWO_LINES = """
from nodemanager.lib import log
from nodemanager.core.model.reasons import Event
log.setup("stderr", "INFO")
log.get("nodemanager.x").event(Event.CYCLE_DONE)
log.get("nodemanager.x").event(Event.BREAKER_OPENED, level=log.ERROR)
print("went on")
"""


def test_a_closed_terminal_stops_nothing() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = run(WRITES_TWO_LINES, stdout=subprocess.PIPE, stderr=writing)
    os.close(writing)
    assert (done.returncode, done.stdout) == (0, "went on\n")


UNCAUGHT = """
import threading
from nodemanager.lib import log
log.setup("stderr", "INFO")
log.catch_uncaught()
def fail(): raise ValueError("in a\\nthread")
thread = threading.Thread(target=fail, name="poller")
thread.start()
thread.join()
class Bad:
    def __del__(self): raise ValueError("in a finaliser")
Bad()
raise ValueError("at the end")
"""


def test_what_nobody_caught_is_one_line_wherever_it_happened() -> None:
    done = run(UNCAUGHT, stderr=subprocess.PIPE)
    assert done.returncode == 1
    found = [read_back(line) for line in done.stderr.splitlines()]
    assert [each["event"] for each in found] == ["uncaught"] * 3
    assert found[0]["thread"] == "poller"
    assert [each["error"] for each in found] == [
        "ValueError: in a\nthread",
        "ValueError: in a finaliser",
        "ValueError: at the end",
    ]


@pytest.mark.parametrize("listening", [True, False], ids=["the-journal", "a-redirected-child"])
def test_the_stamp_is_the_journals_only_where_the_journal_listens(
    listening: bool, tmp_path: Path
) -> None:
    with (tmp_path / "err").open("w+") as stderr:
        seen = os.fstat(stderr.fileno())
        inode = seen.st_ino if listening else seen.st_ino + 1
        named = f"{seen.st_dev}:{inode}"
        run(WRITES_TWO_LINES, stderr=stderr, env=dict(os.environ, JOURNAL_STREAM=named))
        stderr.seek(0)
        done, opened = stderr.read().splitlines()
    if listening:
        assert done == "event=cycle.done"
        assert opened == "<3>event=breaker.opened level=error"
    else:
        assert done.startswith("ts=")
        assert opened.startswith("ts=")


def test_json_names_every_level_and_keeps_numbers(tmp_path: Path) -> None:
    log.setup(str(tmp_path / "log"), "INFO", format="json")
    LOG.event(Event.CYCLE_DONE, took_s=0.12345, count=3, host=None, reason=Reason.BUSY)
    found = json.loads((tmp_path / "log").read_text())
    assert found.pop("ts").endswith("Z")
    assert found == {
        "event": "cycle.done",
        "level": "info",
        "took_s": 0.123,
        "count": 3,
        "reason": "busy",
    }
