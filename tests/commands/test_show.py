"""What every command's output has in common: plain in a pipe, nothing invisible, JSON."""

from __future__ import annotations

import json

import pytest
from rich.table import Table

from nodemanager.commands import show
from tests.cases import cases


def test_a_table_in_a_pipe_is_aligned_text_that_no_width_breaks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    out = show.console()
    made = show.table("name", "count", terminal=out.is_terminal, right="count")
    made.add_row(show.cell("x" * 100), show.cell(7))
    made.add_row(show.cell("short"), show.cell(12))
    show.say(out, made)
    assert capsys.readouterr().out.splitlines() == [
        "name" + " " * 98 + "count",
        "x" * 100 + " " * 6 + "7",
        "short" + " " * 100 + "12",
    ]


def test_a_table_in_a_pipe_is_as_wide_as_its_widest_text_and_shows_what_is_hidden(
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = show.table("name", "count", "of", terminal=False, right="count")
    made.add_row("\u7bc0\u9ede", "7", "x" * 20_000)
    made.add_row("a\x1b[2J[red]", "12", "-")
    show.say(show.console(), made)
    assert capsys.readouterr().out.splitlines() == [
        "name           count  of",
        f"\u7bc0\u9ede               7  {'x' * 20_000}",
        "a\\x1b[2J[red]     12  -",
    ]


def test_a_column_without_a_heading_begins_at_its_left(capsys: pytest.CaptureFixture[str]) -> None:
    made = show.table("reason", "", terminal=False)
    made.add_row("a", "short")
    made.add_row("b", "a long sentence")
    show.say(show.console(), made)
    assert capsys.readouterr().out.splitlines() == [
        "reason",
        "a       short",
        "b       a long sentence",
    ]


def test_a_grid_in_a_pipe_has_no_line_for_its_headings(capsys: pytest.CaptureFixture[str]) -> None:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column()
    grid.add_column()
    grid.add_row("node", show.cell("none is listed"))
    grid.add_row("decided", show.cell("now"))
    show.say(show.console(), grid)
    assert capsys.readouterr().out == "node     none is listed\ndecided  now\n"


def test_what_others_wrote_moves_no_cursor_and_means_no_markup(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show.say(show.console(), show.cell("a\x1b[2Jb\nc\u202e[red]"))
    assert capsys.readouterr().out == "a\\x1b[2Jb\\nc\\u202e[red]\n"


@cases("a_line", {"line": True, "block": False})
def test_json_is_ascii_and_one_line_where_several_follow(
    capsys: pytest.CaptureFixture[str], a_line: bool
) -> None:
    show.print_json({"name": "kn\u00f6ten", "at": [1.5, None]}, a_line=a_line)
    printed = capsys.readouterr().out
    assert printed.isascii()
    assert json.loads(printed) == {"name": "kn\u00f6ten", "at": [1.5, None]}
    assert (len(printed.splitlines()) == 1) is a_line
