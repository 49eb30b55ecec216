"""What the screen of `nodemanager status` says of a picture, and what it leaves to be seen."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from nodemanager.commands import show
from nodemanager.commands.status_screen import screen
from nodemanager.core.model.annotations import PAUSE, Mark, Marks
from nodemanager.core.model.breaker import Breaker, Cause
from nodemanager.core.model.reasons import Event, Reason
from nodemanager.core.model.world import LeftoverKind
from nodemanager.core.plan.leftovers import LedgerState
from nodemanager.core.plan.slots import Leak, Slots
from nodemanager.core.plan.spares import Spares
from nodemanager.core.plan.summary import Notice
from nodemanager.core.safety.lease import LeaseRole, LeaseView
from nodemanager.web.status import NodeCounts, PollStatus, Status
from tests.cases import cases

NOW = 5000.0
Read = Callable[..., list[str]]


@pytest.fixture
def read(capsys: pytest.CaptureFixture[str]) -> Read:
    """The lines of the picture in a pipe, as made from a daemon's own Status."""

    def lines(
        *, token: bool = True, more: dict[str, Any] | None = None, **fields: Any
    ) -> list[str]:
        status = Status(made_at=NOW - 3.0, pool="prod", plan="4f1c", **fields)
        told = status.to_json(with_names=token, now=NOW) | (more or {})
        show.say(show.console(), screen(told))
        return capsys.readouterr().out.splitlines()

    return lines


MARK = Mark("ann", 1_700_000_000.0, "upgrade")


def line(lines: list[str], label: str) -> str:
    """What stands behind that label, blanks as one."""
    found = next(one for one in lines if one.startswith(label))
    return re.sub(" +", " ", found.removeprefix(label)).strip()


def test_an_idle_pool_is_one_line_a_subject(read: Read) -> None:
    lines = read(max_nodes=4)
    assert lines[0].startswith("pool prod  apply  plan 4f1c, 3s ago")
    assert [one.split()[0] for one in lines[1:]] == [
        *("slots", "nodes", "boots", "records", "polls", "breaker"),
        *("lease", "waiting", "holds", "leftovers"),
    ]
    assert line(lines, "nodes") == "none; 0 wished for, at most 4"
    assert line(lines, "breaker") == "closed"


def test_leaks_stand_by_cause_with_age_and_first_free_moment(read: Read) -> None:
    lines = read(
        slots=Slots(
            total=9,
            free=0,
            earliest_free_s=480.0,
            held_by={"listed_node": 3, "claim": 1, "no_node": 5},
            leaks=(
                Leak(Reason.WITHIN_WINDOW, 3, 6720.0, 480.0, in_window=3),
                Leak(Reason.HELD, 1, 273_600.0, None),
                Leak(Reason.STALE_SLOT, 1, None, 0.0),
            ),
        )
    )
    assert line(lines, "slots") == "9 used of 9, 0 free (the next in 8m 00s), 2 leaked"
    at = next(number for number, one in enumerate(lines) if one.startswith("slots"))
    assert [" ".join(one.split()) for one in lines[at + 1 : at + 5]] == [
        "3 with a node, 1 claimed, no ping yet",
        "3 within_window quiet 1h 52m first free in 8m 00s",
        "1 held quiet 3d 04h no window frees it",
        "1 stale_slot being freed",
    ]


def test_what_the_next_poll_judges_anew_waits_for_no_window(read: Read) -> None:
    """O12."""
    lines = read(
        slots=Slots(9, 8, {"no_node": 1}, None, (Leak(Reason.CHANGED_SINCE_LISTING, 1, 9.0, None),))
    )
    assert any("judged anew at the next poll" in one for one in lines)
    assert not any("no window frees it" in one for one in lines)


def test_a_dry_run_shows_no_lease(read: Read) -> None:
    """O12."""
    assert (
        line(read(mode="dry-run", lease=LeaseView(LeaseRole.NONE)), "lease")
        == "none: a dry run takes none"
    )


def test_one_long_value_breaks_its_own_line_alone() -> None:
    """O12."""
    status = Status(
        made_at=NOW,
        pool="prod",
        polls={"cloud": PollStatus(NOW, 6), "a-source-with-" + "x" * 40: PollStatus(NOW, 6)},
        poll_stale_after=20.0,
    )
    out = Console(width=60, file=io.StringIO(), force_terminal=False)
    out.print(screen(status.to_json(with_names=True, now=NOW)))
    assert isinstance(out.file, io.StringIO)
    (short,) = [one for one in out.file.getvalue().splitlines() if one.startswith("polls")]
    assert line([short], "polls") == "cloud 0s old stale after 20s 6 items"


def test_why_the_newest_poll_failed_stands_below_it_for_whoever_has_the_token(read: Read) -> None:
    polls = {
        "cloud": PollStatus(NOW - 700.0, 9, 4, "CloudError: no answer"),
        "records": PollStatus(NOW, 6),
    }
    lines = read(polls=polls, poll_stale_after=600.0)
    at = lines.index(next(one for one in lines if one.startswith("polls")))
    assert [one.split()[0] for one in lines[at + 1 : at + 3]] == ["CloudError:", "records"]
    once = read(polls={"cloud": PollStatus(NOW, 9, 1, "CloudError: no answer")})
    assert line(once, "polls").endswith("items failed")
    assert not any("CloudError" in one for one in read(token=False, polls=polls))


def test_polls_stand_beside_the_age_at_which_they_are_stale(read: Read) -> None:
    lines = read(
        polls={"cloud": PollStatus(NOW - 700.0, 9, 4), "records": PollStatus(None, 0, 1)},
        poll_stale_after=600.0,
    )
    assert line(lines, "polls") == (
        "cloud 11m 40s old stale after 10m 00s 9 items 4 failures in a row"
    )
    assert "no answer yet" in lines[lines.index(next(x for x in lines if "polls" in x)) + 1]


def test_an_open_breaker_says_each_cause_since_when_and_how_to_clear_it(read: Read) -> None:
    breaker = Breaker(
        Cause.WRITES_FAIL,
        opened_at=NOW - 60.0,
        detail={"count": 3},
        others=(Breaker(Cause.FALSE_CLEAN, opened_at=NOW - 30.0, detail={"lives": 1}),),
    )
    lines = read(breaker=breaker)
    assert line(lines, "breaker") == "OPEN for 1m 00s writes fail: count 3"
    shown = "\n".join(lines)
    for words in ("closes when a probe", "OPEN for 30s  false clean: lives 1", "closes when each"):
        assert words in shown
    without = "\n".join(read(breaker=breaker, token=False))
    assert "OPEN for 1m 00s  writes_fail" in without
    assert "probe write" not in without


@cases(
    ("fields", "label", "says"),
    {
        "read-only-and-why": (
            {"mode": "read-only", "read_only": "the store is another"},
            "pool prod",
            "read-only: the store is another",
        ),
        "dry-run": ({"mode": "dry-run"}, "pool prod", "(nothing is written)"),
        "aborted": ({"aborted": "no_listing"}, "pool prod", "no decision: no_listing"),
        "no-lease": ({"lease": LeaseView(LeaseRole.NONE)}, "lease", "not held: only looking"),
        "lease-lost": (
            {"lease": LeaseView(LeaseRole.NONE, "me:7:ab", 3, 0.0, "no route to db1")},
            "lease",
            "not held: only looking since 1970-01-01T00:00:00.000Z: no route to db1",
        ),
        "standby": (
            {"lease": LeaseView(LeaseRole.STANDBY, "other:7:ab", 3, 0.0)},
            "lease",
            "standing by: held by other:7:ab until 1970-01-01T00:00:00.000Z",
        ),
        "stands-by": ({"mode": "standby"}, "pool prod", "(another manager acts)"),
        "deferred": ({"deferred": 3}, "waiting", "3 cleans deferred"),
        "under-way": ({"under_way": {"setup": 2, "clean": 1}}, "waiting", "2 setup, 1 clean"),
        "stuck-slots": (
            {"notices": (Notice(Event.SLOTS_STUCK, Reason.UNVERIFIABLE, 2, "do this", (3, 7)),)},
            "for you",
            "2 slots unverifiable 3 7",
        ),
        "unused-records": (
            {"notices": (Notice(Event.RECORDS_SURPLUS, Reason.UNUSED_RECORDS, 300, "prune"),)},
            "for you",
            "300 records unused_records",
        ),
        "boots": ({"refused": {("large", "at_quota"): 2}}, "boots", "2 refused large at_quota"),
        "places": ({"resting": (("small", "zone-a", 1e9),)}, "boots", "small in zone-a"),
        "spare-nodes": (
            {"spares": {"small": Spares(wanted=3, there=4, kept=3)}},
            "spares",
            "3 of 3 small",
        ),
        "spare-nodes-given-up": (
            {"spares": {"small": Spares(wanted=3, there=2, kept=1)}},
            "spares",
            "2 of 3 small 2 given up: something runs short",
        ),
        "a-job-that-cant-be-had": (
            {"unsatisfiable": (("j7", "no_fitting_size"),)},
            "boots",
            "can't be had job j7 no_fitting_size",
        ),
        "holds": ({"marks": Marks({"i-1": MARK})}, "holds", "hold i-1 by ann"),
        "drains": (
            {"marks": Marks(drains={"i-1": MARK, "i-2": MARK})},
            "holds",
            "drain i-1 by ann",
        ),
        "kills": ({"marks": Marks(kills={"i-1": MARK})}, "holds", "kill i-1 by ann"),
        "paused": (
            {"marks": Marks(pool={PAUSE: MARK}), "marked_at": {PAUSE: NOW - 120.0}},
            "pool prod",
            "PAUSED for 2m 00s by ann: upgrade",
        ),
        "leftovers": (
            {
                "leftovers": {
                    (LeftoverKind.VOLUME, LedgerState.FAILED): 2,
                    (LeftoverKind.VOLUME, LedgerState.DUE): 0,
                }
            },
            "leftovers",
            "2 failed",
        ),
        "nodes": ({"nodes": NodeCounts(busy=2, fail=1)}, "nodes", "2 busy, 1 bad"),
        "nodes-of-an-old-word": ({"nodes": NodeCounts(unknown=2)}, "nodes", "2 unknown"),
    },
)
def test_what_is_out_of_the_ordinary_is_said(
    read: Read, fields: dict[str, Any], label: str, says: str
) -> None:
    assert says in line(read(**fields), label)


def test_operators_orders_are_told_with_who_gave_them_and_why(read: Read) -> None:
    mark = {"by": "ann", "since": "2026-03-01T12:00:00.000Z", "reason": "kernel"}
    lines = read(
        more={
            "pause": {"paused": True, "paused_s": 120.0, **mark},
            "orders": {"hold": 1, "drain": 1},
            "marks": [
                {"kind": "hold", "id": "i-1", **mark},
                {"kind": "drain", "id": "i-2", **mark},
            ],
        }
    )
    assert "PAUSED for 2m 00s by ann: kernel" in lines[0]
    assert line(lines, "holds") == "hold i-1 by ann since 2026-03-01T12:00:00.000Z: kernel"
    assert " ".join(lines[-2].split()).startswith("drain i-2 by ann")
    counts = read(
        token=False,
        more={"pause": {"paused": True, "paused_s": 1.0}, "orders": {"hold": 0, "kill": 2}},
    )
    assert "PAUSED for 1s  plan" in counts[0]
    assert line(counts, "holds") == "2 kill"


def test_what_a_daemon_is_told_by_others_moves_no_cursor(read: Read) -> None:
    lines = read(mode="read-only", read_only="\x1b[2J[bold]gone", marks=Marks({"i-\x07": MARK}))
    assert "\\x1b[2J[bold]gone" in lines[0]
    assert "i-\\x07" in line(lines, "holds")


def test_a_terminal_has_colours_and_its_width_is_kept() -> None:
    out = Console(force_terminal=True, width=60, color_system="standard", markup=False)
    made = Status(made_at=NOW, pool="prod", lease=LeaseView(LeaseRole.ACTIVE, "h" * 100))
    with out.capture() as captured:
        out.print(screen(made.to_json(with_names=True, now=NOW)))
    text = captured.get()
    assert "\x1b[" in text
    plain = re.sub("\x1b\\[[0-9;]*m", "", text)
    assert max(len(one) for one in plain.splitlines()) <= 60
    assert plain.count("h") > 100


@pytest.mark.parametrize(
    ("token", "told"), [(True, "4 more can't be had"), (False, "9 jobs can't be had")]
)
def test_of_many_jobs_that_cant_be_had_only_the_first_are_named(
    read: Read, token: bool, told: str
) -> None:
    jobs = tuple((f"j{number}", "no_fitting_size") for number in range(9))
    lines = "\n".join(read(unsatisfiable=jobs, token=token))
    assert told in lines
    assert ("job j4" in lines, "j5" in lines) == (token, False)
