"""`nodemanager explain ID`: why a record or node is left alone, and when that changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nodemanager.commands import show
from nodemanager.commands.common import (
    answered,
    client_of,
    config_path,
    examples,
    existing_journal,
    journal_of,
)
from nodemanager.commands.ids import complete_id
from nodemanager.commands.times import given
from nodemanager.errors import NodeManagerError

if TYPE_CHECKING:
    from nodemanager.config import Config


class UnknownError(NodeManagerError):
    """The given id names nothing, or more than one thing."""


@click.command(
    epilog=examples(
        "explain compute7",
        "explain i-0abc --all",
        "explain i-0abc --at 14:05",
        "explain 7 --journal copy.db --at '2026-03-01 02:30'",
        "explain compute7 --json | jq .earliest",
    )
)
@click.argument("id", shell_complete=complete_id)
@click.option(
    "--at", type=given, metavar="TIME", help="As of 2h (ago), 14:05, RFC 3339 ...; by the journal."
)
@click.option(
    "--since",
    type=given,
    metavar="TIME",
    help="Show its history from then on; default: of the last day.",
)
@click.option("--all", "-a", "whole", is_flag=True, help="Show every rule and the whole history.")
@click.option(
    "--journal",
    "journal",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Use this journal, or a copy of one, instead of the running daemon.",
)
@answered
def explain(
    id: str,
    at: float | None,
    since: float | None,
    whole: bool,
    journal: Path | None,
    as_json: bool,
    config: str | None,
) -> None:
    """Explain why ID is left alone or not, and when it could be freed or shut down.

    ID is a record's uuid, a hostname, a slot number, a cloud node's id or name, or the beginning of
    an id. Says in a sentence what is decided, and the earliest time at which nothing will forbid
    it if only time passes; then the rules that block, with their measured values and thresholds.
    --all shows every rule that was checked. The running daemon answers; with --at or --journal,
    or when no daemon runs, the journal is replayed.
    """
    from nodemanager.commands.explain_screen import screen
    from nodemanager.config import load

    shown: dict[str, Any] | None
    if journal is not None:
        shown = _from_journal(existing_journal(journal, given=True), id, at, since)
    else:
        loaded = load(config_path(config))
        shown = _from_daemon(loaded, id, since) if at is None else None
        if shown is None:
            path = existing_journal(journal_of(loaded), given=False)
            shown = _from_journal(path, id, at, since)
    if as_json:
        show.print_json(shown)
        return
    out = show.console()
    for part in screen(shown, terminal=out.is_terminal, now=time.time(), whole=whole):
        show.say(out, part)


def _from_daemon(config: Config, id: str, since: float | None) -> dict[str, Any] | None:
    """The daemon's explanation; None when no daemon answers and its journal exists."""
    from nodemanager.client import ClientError, NobodyThereError

    try:
        return client_of(config).explain(id, since)
    except NobodyThereError as error:
        path = journal_of(config)
        try:
            existing_journal(path, given=False)
        except NodeManagerError:
            raise ClientError(f"{error}; and there is no journal {path} to read instead") from error
        click.echo(f"no daemon answers: this is from its journal, {path}", err=True)
        return None


def _from_journal(path: Path, id: str, at: float | None, since: float | None) -> dict[str, Any]:
    # These imports are slow, and shell completion must not wait for them.
    from nodemanager.core.operate.naming import UnknownIdError
    from nodemanager.journal.explained import picture_at, told

    with _progress() as step:
        picture = picture_at(path, at, step=step)
    try:
        return told(picture, id, source=str(path), journal=path, since=since)
    except UnknownIdError as error:
        raise UnknownError(f"{path}: {error}") from error


@contextmanager
def _progress() -> Iterator[Callable[[int], None]]:
    """Show the replay's progress on a terminal; a segment has a few hundred decisions at most."""
    out = show.console(stderr=True)
    if not out.is_terminal:
        yield lambda done: None
        return
    with out.status("replaying the journal") as status:
        yield lambda done: status.update(f"replaying the journal: {done} decisions")
