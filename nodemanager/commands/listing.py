"""`nodemanager nodes` and `nodemanager slots`: lists from the running daemon's newest cycle."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import click
from rich.text import Text

from nodemanager.commands import show
from nodemanager.commands.common import client, daemon_flags, examples
from nodemanager.commands.times import local, span
from nodemanager.near import did_you_mean

Row = Mapping[str, Any]

STYLES = {
    **dict.fromkeys(("busy", "idle", "listed_node"), "green"),
    **dict.fromkeys(("booting", "shutdown", "claim", "drained", "leaked"), "yellow"),
    **dict.fromkeys(("down", "unpaired", "fail"), "bold red"),
    **dict.fromkeys(("foreign", "other_pool"), "dim"),
}
SHORT_TAIL = 6
"""The number of characters shown after an id's last dash; more where two ids would look alike."""


class Column(NamedTuple):
    """A column's heading, and its key in a row."""

    heading: str
    key: str
    is_number: bool = False


NODES = (
    *(Column("host", "host"), Column("node", "node"), Column("size", "size")),
    *(Column("state", "state"), Column("age", "age_s", True), Column("slot", "slot", True)),
    Column("reason", "reason"),
)
NODES_WIDE = (
    *(*NODES, Column("orders", "orders"), Column("cloud", "cloud_state"), Column("name", "name")),
    *(Column("record", "record"), Column("pool", "pool"), Column("addresses", "addresses")),
)
SLOTS = (
    *(Column("slot", "slot", True), Column("host", "host"), Column("state", "state")),
    *(Column("node", "node"), Column("quiet", "quiet_s", True)),
    *(Column("free_in", "free_in_s", True), Column("reason", "reason")),
)
SLOTS_WIDE = (
    *(*SLOTS, Column("orders", "orders"), Column("record", "record")),
    *(Column("record_state", "record_state"), Column("pool", "pool")),
)


def _options(columns: Sequence[Column]) -> Callable[[click.decorators.FC], click.decorators.FC]:
    """The options of both lists."""
    headings = [one.heading for one in columns]
    options = (
        click.option(
            "--output",
            "-o",
            type=click.Choice(["table", "wide", "json"]),
            default="table",
            show_default=True,
            help="wide has more columns and complete ids.",
        ),
        click.option("--json", "as_json", is_flag=True, help="The same as -o json."),
        click.option(
            "--state", multiple=True, metavar="STATE", help="Only these states: STATE[,STATE...]."
        ),
        click.option(
            "--reason",
            multiple=True,
            metavar="REASON",
            help="Only rows with this reason code.",
        ),
        click.option(
            "--sort",
            metavar="COLUMN",
            callback=_sort_key(headings),
            help=f"By {', '.join(headings)}; -COLUMN sorts in reverse.",
        ),
        daemon_flags,
    )

    def decorated(command: click.decorators.FC) -> click.decorators.FC:
        for option in reversed(options):
            command = option(command)
        return command

    return decorated


def _sort_key(headings: Sequence[str]) -> Callable[..., str | None]:
    def checked(ctx: click.Context, param: click.Parameter, given: str | None) -> str | None:
        if given is not None and given.removeprefix("-") not in headings:
            hint = did_you_mean(given.removeprefix("-"), list(headings))
            raise click.BadParameter(f"{given!r} is none of {', '.join(headings)}{hint}")
        return given

    return checked


@click.command(
    epilog=examples(
        "nodes",
        "nodes --state idle,down --sort -age",
        "nodes -o wide --size spot",
        "nodes --json | jq -r '.nodes[] | select(.state == \"busy\") | .node'",
    )
)
@click.option("--size", multiple=True, metavar="SIZE", help="Only these sizes: SIZE[,SIZE...].")
@click.option("--all", "-a", "foreign", is_flag=True, help="Include nodes of other pools.")
@_options(NODES)
def nodes(
    size: tuple[str, ...],
    foreign: bool,
    output: str,
    as_json: bool,
    state: tuple[str, ...],
    reason: tuple[str, ...],
    sort: str | None,
    config: str | None,
) -> None:
    """List the cloud nodes with their state, their age and the decision about each.

    Sorted by slot unless --sort is given. The state is busy, idle, booting, unpaired, down, unknown
    or shutdown, as `status` counts them; `explain NODE` tells more about the reason. On a terminal
    ids are shortened: every command takes them so.
    """
    shown = client(config).nodes()
    wanted = {"state": state, "reason": reason, "size": size}
    rows = [one for one in shown["nodes"] if foreign or state or one["state"] != "foreign"]
    hidden = len(shown["nodes"]) - len(rows)
    found = _sorted(_filtered(rows, wanted), sort, NODES)
    if as_json or output == "json":
        show.print_json({**shown, "nodes": found})
        return
    _print(found, NODES_WIDE if output == "wide" else NODES, whole=output == "wide")
    more = f"; {hidden} that are not this pool's are left out (--all)" if hidden else ""
    _foot(found, rows, "node", shown["at"], more)


@click.command(
    epilog=examples(
        "slots",
        "slots --state leaked --sort -quiet",
        "slots -o wide",
        "slots --json | jq '.total - (.slots | length)'",
    )
)
@_options(SLOTS)
def slots(
    output: str,
    as_json: bool,
    state: tuple[str, ...],
    reason: tuple[str, ...],
    sort: str | None,
    config: str | None,
) -> None:
    """List the held slots: their records, how long these are quiet, and when they will be free.

    The state is listed_node (its node is listed), claim (a node will come), leaked (its node is
    gone, but the record is not cleaned yet), no_node or other_pool; the reason is why the record is
    kept.
    """
    shown = client(config).slots()
    found = _sorted(_filtered(shown["slots"], {"state": state, "reason": reason}), sort, SLOTS)
    if as_json or output == "json":
        show.print_json({**shown, "slots": found})
        return
    _print(found, SLOTS_WIDE if output == "wide" else SLOTS, whole=output == "wide")
    total = shown["total"]
    more = "" if total is None else f"; {max(0, total - len(shown['slots']))} of {total} are free"
    _foot(found, shown["slots"], "slot", shown["at"], more)


def _filtered(rows: Iterable[Row], wanted: Mapping[str, Sequence[str]]) -> list[Row]:
    choices = {
        key: {word.strip() for value in values for word in value.split(",")}
        for key, values in wanted.items()
        if values
    }
    return [one for one in rows if all(one[key] in words for key, words in choices.items())]


def _sorted(rows: list[Row], by: str | None, columns: Sequence[Column]) -> list[Row]:
    """The rows by slot, or by the given column; rows without a value always come last."""
    rows = sorted(
        rows, key=lambda one: _rank(one["slot"]) + _rank(one["host"]) + _rank(one["node"])
    )
    if by is None:
        return rows
    key = next(one.key for one in columns if one.heading == by.removeprefix("-"))
    there = [one for one in rows if one[key] is not None]
    there.sort(key=lambda one: _rank(one[key]), reverse=by.startswith("-"))
    return there + [one for one in rows if one[key] is None]


def _rank(value: Any) -> tuple[Any, ...]:
    """A sort key: compute2 comes before compute10, and None comes last."""
    if value is None:
        return (1, ())
    if isinstance(value, (int, float)):
        return (0, ((0, value, ""),))
    parts = re.split(r"(\d+)", str(value))
    return (0, tuple((0, int(one), "") if one.isdecimal() else (1, 0, one) for one in parts))


def _print(rows: Sequence[Row], columns: Sequence[Column], *, whole: bool) -> None:
    out = show.console()
    numbers = ",".join(one.heading for one in columns if one.is_number)
    headings = [one.heading for one in columns]
    table = show.table(*headings, terminal=out.is_terminal, right=numbers)
    short = {} if whole or not out.is_terminal else short_ids([one["node"] for one in rows])
    for row in rows:
        table.add_row(*(_cell(row, one.key, short) for one in columns))
    if rows:
        show.say(out, table)


def _cell(row: Row, key: str, short: Mapping[str, str]) -> Text:
    value = row[key]
    if value is None:
        return Text("-", style="dim")
    if key.endswith("_s"):
        # Without a blank, so that a pipe's reader can split columns at blanks.
        return show.cell(span(value).replace(" ", ""))
    if key == "node":
        return show.cell(short.get(value, value))
    if isinstance(value, list):
        return show.cell(" ".join(str(one) for one in value) or "-")
    return show.cell(value, STYLES.get(value, "") if key == "state" else "")


def _foot(found: Sequence[Row], rows: Sequence[Row], what: str, at: float, more: str) -> None:
    """Print the counts below a table on a terminal; in a pipe only for an empty list."""
    out = show.console(stderr=True)
    if found and not show.console().is_terminal:
        return
    states = Counter(str(one["state"]) for one in (found or rows))
    told = ", ".join(f"{count} {state}" for state, count in states.most_common())
    if found or not rows:
        line = f"{len(found)} {what}{'' if len(found) == 1 else 's'}"
    else:
        line = f"no {what} matches; there are"
    line += f" {told}" if rows and not found else f": {told}" if told else ""
    age = span(max(0.0, time.time() - at))
    show.say(out, show.cell(f"{line}{more}; as of {local(at)}, {age} ago", "dim"))


def short_ids(ids: Iterable[str | None]) -> dict[str, str]:
    """For each id its shortened form, a beginning that no other id has."""
    whole = sorted({one for one in ids if one})
    same = [os.path.commonprefix(two) for two in pairwise(whole)]  # noqa: RUF071 - by character
    alike = [0, *map(len, same), 0]
    made = {}
    for place, id in enumerate(whole):
        least = id.rfind("-") + 1 + SHORT_TAIL
        made[id] = id[: max(least, alike[place] + 1, alike[place + 1] + 1)]
    return made
