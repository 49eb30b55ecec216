"""`nodemanager status`: one screen about what a running daemon sees and does."""

from __future__ import annotations

import time
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from nodemanager.client import Client, ClientError
from nodemanager.commands import show
from nodemanager.commands.common import answered, client
from nodemanager.commands.status_screen import screen
from nodemanager.commands.times import local
from nodemanager.logline import visible

EVERY_S = 2.0
SHORTEST_S = 0.2


@click.command(
    epilog="Examples: nodemanager status; nodemanager status --watch 5; "
    "nodemanager status --json | jq .slots.leaked"
)
@click.option(
    "--watch",
    type=click.FloatRange(min=SHORTEST_S),
    is_flag=False,
    flag_value=EVERY_S,
    metavar="[SECONDS]",
    help=f"Refresh it until Ctrl-C; every {EVERY_S:g} seconds unless given.",
)
@answered
def status(watch: float | None, as_json: bool, config: str | None) -> None:
    """Show slots, nodes, polls, breaker and pending work of the running daemon.

    A slot is leaked while its record's node is gone and the record still holds it. Each cause is
    the reason code that keeps such records, with the longest time that one has been quiet, and the
    time until the first is free.
    """
    daemon = client(config)
    if watch is None:
        _print(daemon.status(), as_json=as_json, a_line=False)
        return
    try:
        out = show.console()
        if out.is_terminal and not out.is_dumb_terminal and not as_json:
            _refresh(daemon, watch)
        else:
            _repeat(daemon, watch, as_json=as_json)
    except KeyboardInterrupt:
        return


def _print(shown: dict[str, Any], *, as_json: bool, a_line: bool) -> None:
    if as_json:
        show.print_json(shown, a_line=a_line)
    else:
        show.say(show.console(), screen(shown))


def _repeat(daemon: Client, every: float, *, as_json: bool) -> None:
    """Print one status after the other, for a pipe: a line of JSON or a block of text each."""
    first = True
    while True:
        try:
            shown = daemon.status()
        except ClientError as error:
            if first:
                raise
            click.echo(f"nodemanager: {visible(str(error))}", err=True)
        else:
            if not first and not as_json:
                click.echo()
            _print(shown, as_json=as_json, a_line=True)
        first = False
        time.sleep(every)


def _refresh(daemon: Client, every: float) -> None:
    """Refresh the status in place, for a terminal; leave the last one on the screen."""
    out = show.console()
    shown, of, trouble = daemon.status(), time.time(), ""
    try:
        with Live(console=out, screen=True, auto_refresh=False) as live:
            while True:
                live.update(_framed(shown, of, trouble, every), refresh=True)
                time.sleep(every)
                try:
                    shown, of, trouble = daemon.status(), time.time(), ""
                except ClientError as error:
                    trouble = str(error)
    finally:
        show.say(out, screen(shown))


def _framed(shown: dict[str, Any], of: float, trouble: str, every: float) -> RenderableType:
    """The status, its time, and a warning when it is stale."""
    foot = Text(f"{local(of)}, every {every:g} s; Ctrl-C ends", style="dim")
    if trouble:
        old = Text(f"the following is from {local(of)}", style="bold red")
        return Group(show.cell(trouble, "bold red"), old, screen(shown), foot)
    return Group(screen(shown), foot)
