"""`nodemanager why` and `events`: what keeps the pool as it is, and what happened."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nodemanager.commands import show
from nodemanager.commands.common import answered, client, examples
from nodemanager.commands.ids import complete_id
from nodemanager.commands.times import given
from nodemanager.commands.watch import told, watch_option
from nodemanager.errors import JournalError
from nodemanager.lib.logline import Json
from nodemanager.lib.near import did_you_mean

if TYPE_CHECKING:
    pass

LATELY_S = 3600.0


class UnknownSizeError(click.UsageError):
    """No size has that name, and none was booted as it."""


@click.command(
    epilog=examples(
        "why",
        "why small",
        "why --watch 10",
        "why --json | jq '.sizes[] | {size, grows: [.grows[].reason]}'",
    )
)
@click.argument("size", required=False)
@watch_option
@answered
def why(size: str | None, watch: float | None, as_json: bool, config: str | None) -> None:
    """Say for each size what keeps it from growing or shrinking right now.

    Growing: what refuses the nodes that the queue, min_nodes or spare_nodes want, with the measure
    beside its limit, and when that may end by itself; where nothing more is wanted, what would
    refuse one more. Shrinking: the reasons that keep its nodes. SIZE is a size's name or its
    instance type; without it, every size with nodes or demand is shown.
    """
    from nodemanager.commands.why_screen import screen

    daemon = client(config)

    def ask() -> Json:
        shown = daemon.why(size)
        if size is not None and not shown["sizes"] and shown["aborted"] is None:
            hint = did_you_mean(size, shown["known"])
            known = ", ".join(shown["known"]) or "none"
            raise UnknownSizeError(f"there is no size {size!r}{hint}; the sizes are {known}")
        return shown

    told(ask, watch, screen, as_json=as_json)


@click.command(
    epilog=examples(
        "events",
        "events --since 1d",
        "events --all --since 14:05",
        "events compute7 --since 'yesterday' --until today",
        "events --json | jq '.groups[] | select(.event == \"node.setup_failed\")'",
    )
)
@click.argument("id", required=False, shell_complete=complete_id)
@click.option(
    "--since", type=given, metavar="TIME", help="From 2h (ago), 14:05 ... on; default: 1h."
)
@click.option("--until", type=given, metavar="TIME", help="Only up to this time.")
@click.option("--all", "-a", "quiet", is_flag=True, help="Include that something was left alone.")
@click.option(
    "--journal",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Use this journal, or a copy of one, instead of the running daemon.",
)
@answered
def events(
    id: str | None,
    since: float | None,
    until: float | None,
    quiet: bool,
    journal: Path | None,
    as_json: bool,
    config: str | None,
) -> None:
    """List what happened lately, in groups of one event and reason, the worst first.

    With ID only what happened to that record or node and its pair, in all its life if no time is
    given.
    Each group has its count, the times of its first and last event, and whom the newest were
    about. `log --event EVENT` shows them one by one.
    """
    from nodemanager.commands.why_screen import groups_screen

    if since is None and id is not None:
        since = 0.0
    if journal is None:
        shown = client(config).events(since, until=until, id=id, all=quiet)
    else:
        shown = _from_journal(journal, since, until, id, quiet=quiet)
    if as_json:
        show.print_json(shown)
        return
    out = show.console()
    if not shown["groups"]:
        click.echo("nothing happened since then", err=True)
        return
    show.say(out, groups_screen(shown["groups"], terminal=out.is_terminal, now=time.time()))


def _from_journal(
    path: Path, since: float | None, until: float | None, id: str | None, *, quiet: bool
) -> Json:
    from nodemanager.commands.common import existing_journal
    from nodemanager.core.operate.naming import UnknownIdError
    from nodemanager.journal.story import lately

    since = time.time() - LATELY_S if since is None else since
    try:
        return lately(existing_journal(path, given=True), since, until=until, id=id, quiet=quiet)
    except UnknownIdError as error:
        raise JournalError(f"{path}: {error}") from error
