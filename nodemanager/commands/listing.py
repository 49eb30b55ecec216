"""`nodemanager nodes`, `slots`, `jobs`, `events` and `orders`: lists from the running daemon."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nodemanager.commands import show
from nodemanager.commands.common import client, daemon_flags, examples, journal_option
from nodemanager.commands.completion import complete_id
from nodemanager.commands.log import names_of
from nodemanager.commands.times import time_option
from nodemanager.commands.watch import show_it, watch_option
from nodemanager.commands.watch import watch as watch_it
from nodemanager.core.explain import lists
from nodemanager.core.model.reasons import Event, Reason
from nodemanager.errors import JournalError
from nodemanager.lib.logline import Json, span, visible
from nodemanager.lib.near import did_you_mean

LATELY_S = 3600.0

if TYPE_CHECKING:
    from rich.console import RenderableType


def _options(kind: lists.ListKind) -> Callable[[click.decorators.FC], click.decorators.FC]:
    """The options of every list, and one for each of its filters."""
    headings = ", ".join(one.heading for one in kind.shown(lists.Width.NARROW))
    filters = (
        click.option(
            f"--{one}",
            multiple=True,
            callback=_words_of(kind, one),
            metavar=one.upper(),
            help=f"Only rows with this {one}: {one.upper()}[,{one.upper()}...].",
        )
        for one in kind.filters
    )
    options = (
        *filters,
        click.option(
            "--output",
            "-o",
            type=click.Choice(["table", "wide", "json", *(["name"] if kind.names else [])]),
            default="table",
            show_default=True,
            help="wide has more columns and whole ids"
            + ("; name prints only ids, for other commands." if kind.names else "."),
        ),
        click.option("--json", "as_json", is_flag=True, help="The same as -o json."),
        click.option(
            "--sort",
            metavar="COLUMN",
            callback=_column_of(kind),
            help=f"By {headings}; -COLUMN sorts in reverse.",
        ),
        watch_option,
        daemon_flags,
    )

    def decorated(command: click.decorators.FC) -> click.decorators.FC:
        for option in reversed(options):
            command = option(command)
        return command

    return decorated


def _words_of(kind: lists.ListKind, key: str) -> Callable[..., Collection[str]] | None:
    """What checks the values of a filter: a mistyped one would find no row, and seem to say so."""
    if key == "reason":
        return names_of(Reason, "reason code")
    if key == "event":
        return names_of(Event, "event")
    if key != kind.filters[0] or not kind.states:
        return None

    def checked(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> list[str]:
        found = [word.strip() for one in given for word in one.split(",") if word.strip()]
        for word in found:
            if word not in kind.states:
                hint = did_you_mean(word, kind.states)
                raise click.BadParameter(f"{word!r} is none of {', '.join(kind.states)}{hint}")
        return found

    return checked


def _column_of(kind: lists.ListKind) -> Callable[..., str | None]:
    def checked(ctx: click.Context, param: click.Parameter, given: str | None) -> str | None:
        try:
            if given is not None:
                kind.sort_key(given)
        except lists.UnknownColumnError as error:
            raise click.BadParameter(f"{error}{did_you_mean(error.given, error.known)}") from error
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
@click.option("--all", "-a", "foreign", is_flag=True, help="Include nodes of other pools.")
@_options(lists.NODES)
def nodes(foreign: bool, config: str | None, **given: Any) -> None:
    """List the cloud nodes with their state, their age and the decision about each.

    Sorted by slot unless --sort is given. The state is busy, idle, booting, unpaired, down, unknown
    or shutdown, as `status` counts them; `explain NODE` tells more about the reason. On a terminal
    ids are shortened: every command takes them so.
    """

    def seen(shown: Json) -> tuple[list[lists.TableRow], str]:
        all_wanted = foreign or given["state"]
        rows = [one for one in shown["nodes"] if all_wanted or one["state"] != "foreign"]
        hidden = len(shown["nodes"]) - len(rows)
        more = f"; {hidden} that are not this pool's are left out (--all)" if hidden else ""
        return rows, more

    _show(partial(client(config).get, "nodes"), lists.NODES, given, seen)


@click.command(
    epilog=examples(
        "slots",
        "slots --state leaked --sort -quiet",
        "slots -o wide",
        "slots --watch --state leaked",
        "slots --json | jq '.total - (.slots | length)'",
    )
)
@_options(lists.SLOTS)
def slots(config: str | None, **given: Any) -> None:
    """List the held slots: their records, how long these are quiet, and when they will be free.

    The state is listed_node (its node is listed), claim (a node will come), no_node (its node is
    gone, and its window runs), leaked (past that window) or other_pool; the reason is why the
    record is kept.
    """

    def seen(shown: Json) -> tuple[list[lists.TableRow], str]:
        rows, total = shown["slots"], shown["total"]
        free = None if total is None else max(0, total - len(rows))
        return rows, "" if free is None else f"; {free} of {total} are free"

    _show(partial(client(config).get, "slots"), lists.SLOTS, given, seen)


@click.command(
    epilog=examples(
        "jobs",
        "jobs 1234",
        "jobs --watch 5 --state waiting,impossible",
        "jobs --json | jq '.jobs[] | select(.state == \"impossible\") | {job, says}'",
    )
)
@click.argument("id", required=False)
@_options(lists.JOBS)
def jobs(id: str | None, config: str | None, **given: Any) -> None:
    """List the waiting jobs in the order of the queue, and what each gets or waits for.

    A job is served (its nodes are up, and its scheduler may start it), booting (all its nodes are
    there or ordered), waiting (a node of it can't be booted now; the reason and when that may end)
    or impossible (no boot can ever serve it). The queue is that of Slurm, Arvados or the wishlist;
    a job that runs is not in it any more. With ID only that job, as `explain job ID` has it.
    """
    daemon = client(config)
    if id is not None:
        from nodemanager.commands.why_screen import job_screen

        show_it(
            partial(daemon.get, "jobs", id),
            given["watch"],
            lambda shown: job_screen(shown, time.time()),
            as_json=given["as_json"] or given["output"] == "json",
        )
        return

    def seen(shown: Json) -> tuple[list[lists.TableRow], str]:
        why, more = shown["aborted"], ""
        if why is not None:
            more = f"; no decision: {why['reason']}. {why['says']}"
        elif not shown["polled"]:
            more = "; the queue has not been read yet, or nothing asks for nodes"
        return shown["jobs"], more

    _show(partial(daemon.get, "jobs"), lists.JOBS, given, seen)


@click.command(
    epilog=examples(
        "events",
        "events --since 1d --level warning,error",
        "events --all --since 14:05 --sort -count",
        "events compute7 --since 'yesterday' --until today",
        "events --json | jq '.groups[] | select(.event == \"node.setup_failed\")'",
    )
)
@click.argument("id", required=False, shell_complete=complete_id)
@time_option("since", "From 2h (ago), 14:05 ... on; default: 1h.")
@time_option("until", "Only up to this time.")
@click.option("--all", "-a", "quiet", is_flag=True, help="Include that something was left alone.")
@journal_option()
@_options(lists.GROUPS)
def events(
    id: str | None,
    since: float | None,
    until: float | None,
    quiet: bool,
    journal: Path | None,
    config: str | None,
    **given: Any,
) -> None:
    """List what happened lately, in groups of one event and reason, the worst first.

    With ID only what happened to that record or node and its pair, in all its life if no time is
    given.
    Each group has its count, the times of its first and last event, and whom the newest were
    about. `log --event EVENT` shows them one by one.
    """
    if since is None and id is not None:
        since = 0.0
    if journal is None:
        ask = partial(client(config).get, "events", since=since, until=until, id=id, all=quiet)
    else:
        ask = partial(_from_journal, journal, since, until, id, quiet=quiet)
    _show(ask, lists.GROUPS, given, lambda shown: (shown["groups"], ""))


def _from_journal(
    path: Path, since: float | None, until: float | None, id: str | None, *, quiet: bool
) -> Json:
    from nodemanager.commands.common import existing_journal
    from nodemanager.core.operate.naming import UnknownIdError
    from nodemanager.journal.story import lately

    now = time.time()
    since = now - LATELY_S if since is None else since
    try:
        shown = lately(existing_journal(path, given=True), since, until=until, id=id, quiet=quiet)
    except UnknownIdError as error:
        raise JournalError(f"{path}: {error}") from error
    return {"at": now, **shown}


@click.command(
    epilog=examples(
        "orders",
        "orders --order drain,cordon --sort since",
        "release $(nodemanager orders -o name --order hold)",
        "orders --json | jq -r '.orders[] | select(.by == \"ann\") | .of'",
    )
)
@_options(lists.ORDERS)
def orders(config: str | None, **given: Any) -> None:
    """List the standing orders: what each is about, who gave it, why, and what undoes it.

    Those of the whole pool come first: a pause, a parking, a paused rotation. Then each hold,
    cordon, drain and kill, by host.
    """
    _show(
        partial(client(config).get, "orders"),
        lists.ORDERS,
        given,
        lambda shown: (shown["orders"], ""),
    )


def _show(
    ask: Callable[[], Json],
    kind: lists.ListKind,
    given: Mapping[str, Any],
    seen: Callable[[Json], tuple[list[lists.TableRow], str]],
) -> None:
    """Print the list, once or again and again; `seen` gives its rows and what the foot adds."""
    from nodemanager.commands import listing_screen as screen

    output = "json" if given["as_json"] else given["output"]
    query = {key: ",".join(given[key]) for key in kind.filters} | {"sort": given["sort"] or ""}
    watch, whole = given["watch"], output == "wide"
    columns = kind.shown(lists.Width.WIDE if whole else lists.Width.NARROW)

    def listed(shown: Json) -> tuple[list[lists.TableRow], str]:
        """The rows, and what the foot adds, as that they are old; events have no poll."""
        rows, more = seen(shown)
        if old := shown.get("stale"):
            since = "yet" if old["age_s"] is None else f"for {span(old['age_s'])}"
            more += f"; no answer from {old['source']} {since}"
        return rows, more

    def drawn(shown: Json) -> RenderableType:
        from rich.console import Group

        rows, more = listed(shown)
        found = kind.chosen(rows, query)
        foot = screen.foot(found, rows, kind, shown["at"], more)
        made = screen.table(found, columns, whole=whole, out=show.console())
        return Group(made, foot) if found else foot

    def print_it(shown: Json) -> None:
        """Print it; its foot on a terminal, in a pipe only where it has no row, or old ones."""
        rows, more = listed(shown)
        found = kind.chosen(rows, query)
        if output == "json":
            show.print_json({**shown, kind.key: found}, a_line=watch is not None)
        elif output == "name":
            for _, name in filter(None, map(kind.named, found)):
                click.echo(visible(name))
        else:
            out = show.console()
            if found:
                show.say(out, screen.table(found, columns, whole=whole, out=out))
            if not found or out.is_terminal or shown.get("stale"):
                foot = screen.foot(found, rows, kind, shown["at"], more)
                show.say(show.console(stderr=True), foot)

    if watch is None:
        print_it(ask())
    else:
        in_place = output in ("table", "wide")
        watch_it(ask, watch, drawn=drawn, printed=print_it, in_place=in_place)
