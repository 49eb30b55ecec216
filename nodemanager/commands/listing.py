"""`nodemanager nodes` and `nodemanager slots`: lists from the running daemon's newest cycle."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from nodemanager.commands import show
from nodemanager.commands.columns import NODES, NODES_WIDE, SLOTS, SLOTS_WIDE, Column, TableRow
from nodemanager.commands.common import client, daemon_flags, examples
from nodemanager.commands.watch import watch as watch_it
from nodemanager.commands.watch import watch_option
from nodemanager.logline import Json, visible
from nodemanager.near import did_you_mean

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True, slots=True)
class ListKind:
    """One of the lists: its key in the answer, the word for a row, and its columns.

    `name` is the key of what `-o name` prints, with which other commands name the row.
    """

    key: str
    what: str
    columns: Sequence[Column]
    wide: Sequence[Column]
    name: tuple[str, ...]


NODES_LIST = ListKind("nodes", "node", NODES, NODES_WIDE, ("node", "record"))
SLOTS_LIST = ListKind("slots", "slot", SLOTS, SLOTS_WIDE, ("record",))


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Which rows are wanted, in which order and form; `choices` are by key of a row."""

    choices: Mapping[str, Sequence[str]]
    sort: str | None
    output: str
    watch: float | None

    @property
    def for_people(self) -> bool:
        return self.output in ("table", "wide")


def _options(kind: ListKind) -> Callable[[click.decorators.FC], click.decorators.FC]:
    """The options of both lists."""
    headings = [one.heading for one in kind.columns]
    options = (
        click.option(
            "--output",
            "-o",
            type=click.Choice(["table", "wide", "json", "name"]),
            default="table",
            show_default=True,
            help="wide has more columns and whole ids; name prints only ids, for other commands.",
        ),
        click.option("--json", "as_json", is_flag=True, help="The same as -o json."),
        click.option(
            "--state", multiple=True, metavar="STATE", help="Only these states: STATE[,STATE...]."
        ),
        click.option(
            "--reason", multiple=True, metavar="REASON", help="Only rows with this reason code."
        ),
        click.option(
            "--sort",
            metavar="COLUMN",
            callback=_sort_key(headings),
            help=f"By {', '.join(headings)}; -COLUMN sorts in reverse.",
        ),
        watch_option,
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
        "nodes --watch --state booting",
        "drain $(nodemanager nodes -o name --size old) --reason 'new image'",
        "nodes --json | jq -r '.nodes[] | select(.state == \"busy\") | .node'",
    )
)
@click.option("--size", multiple=True, metavar="SIZE", help="Only these sizes: SIZE[,SIZE...].")
@click.option("--all", "-a", "foreign", is_flag=True, help="Include nodes of other pools.")
@_options(NODES_LIST)
def nodes(
    size: tuple[str, ...],
    foreign: bool,
    output: str,
    as_json: bool,
    state: tuple[str, ...],
    reason: tuple[str, ...],
    sort: str | None,
    watch: float | None,
    config: str | None,
) -> None:
    """List the cloud nodes with their state, their age and the decision about each.

    Sorted by slot unless --sort is given. The state is busy, idle, booting, unpaired, down, unknown
    or shutdown, as `status` counts them; `explain NODE` tells more about the reason. On a terminal
    ids are shortened: every command takes them so.
    """
    choices = {"state": state, "reason": reason, "size": size}
    wanted = ListOptions(choices, sort, "json" if as_json else output, watch)

    def seen(shown: Json) -> tuple[list[TableRow], str]:
        rows = [one for one in shown["nodes"] if foreign or state or one["state"] != "foreign"]
        hidden = len(shown["nodes"]) - len(rows)
        more = f"; {hidden} that are not this pool's are left out (--all)" if hidden else ""
        return rows, more

    _show(client(config).nodes, NODES_LIST, wanted, seen)


@click.command(
    epilog=examples(
        "slots",
        "slots --state leaked --sort -quiet",
        "slots -o wide",
        "slots --watch --state leaked",
        "slots --json | jq '.total - (.slots | length)'",
    )
)
@_options(SLOTS_LIST)
def slots(
    output: str,
    as_json: bool,
    state: tuple[str, ...],
    reason: tuple[str, ...],
    sort: str | None,
    watch: float | None,
    config: str | None,
) -> None:
    """List the held slots: their records, how long these are quiet, and when they will be free.

    The state is listed_node (its node is listed), claim (a node will come), leaked (its node is
    gone, but the record is not cleaned yet), no_node or other_pool; the reason is why the record is
    kept.
    """
    choices = {"state": state, "reason": reason}
    wanted = ListOptions(choices, sort, "json" if as_json else output, watch)

    def seen(shown: Json) -> tuple[list[TableRow], str]:
        rows, total = shown["slots"], shown["total"]
        free = None if total is None else max(0, total - len(rows))
        return rows, "" if free is None else f"; {free} of {total} are free"

    _show(client(config).slots, SLOTS_LIST, wanted, seen)


def _show(
    ask: Callable[[], Json],
    kind: ListKind,
    wanted: ListOptions,
    seen: Callable[[Json], tuple[list[TableRow], str]],
) -> None:
    """Print the list, once or again and again; `seen` gives its rows and what the foot adds."""

    def told(shown: Json) -> None:
        _print(shown, kind, wanted, seen)

    def drawn(shown: Json) -> RenderableType:
        from rich.console import Group

        from nodemanager.commands import listing_screen as screen

        rows, more = seen(shown)
        found = _sorted(_filtered(rows, wanted.choices), wanted.sort, kind.columns)
        whole = wanted.output == "wide"
        columns = kind.wide if whole else kind.columns
        foot = screen.foot(found, rows, kind.what, shown["at"], more)
        if not found:
            return foot
        return Group(screen.table(found, columns, whole=whole, terminal=True), foot)

    if wanted.watch is None:
        told(ask())
    else:
        watch_it(ask, wanted.watch, drawn=drawn, told=told, in_place=wanted.for_people)


def _print(
    shown: Json,
    kind: ListKind,
    wanted: ListOptions,
    seen: Callable[[Json], tuple[list[TableRow], str]],
) -> None:
    """Print the list; its foot only on a terminal, in a pipe only where no row was found."""
    rows, more = seen(shown)
    found = _sorted(_filtered(rows, wanted.choices), wanted.sort, kind.columns)
    if wanted.output == "json":
        show.print_json({**shown, kind.key: found}, a_line=wanted.watch is not None)
        return
    if wanted.output == "name":
        names = (next((one[key] for key in kind.name if one[key]), None) for one in found)
        for name in names:
            if name is not None:
                click.echo(visible(name))
        return
    from nodemanager.commands import listing_screen as screen

    out, whole = show.console(), wanted.output == "wide"
    columns = kind.wide if whole else kind.columns
    if found:
        show.say(out, screen.table(found, columns, whole=whole, terminal=out.is_terminal))
    if not found or out.is_terminal:
        foot = screen.foot(found, rows, kind.what, shown["at"], more)
        show.say(show.console(stderr=True), foot)


def _filtered(rows: Iterable[TableRow], wanted: Mapping[str, Sequence[str]]) -> list[TableRow]:
    choices = {
        key: {word.strip() for value in values for word in value.split(",")}
        for key, values in wanted.items()
        if values
    }
    return [one for one in rows if all(one[key] in words for key, words in choices.items())]


def _sorted(rows: list[TableRow], by: str | None, columns: Sequence[Column]) -> list[TableRow]:
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
