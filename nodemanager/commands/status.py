"""`nodemanager status`: what a running daemon sees and does, on one screen."""

from __future__ import annotations

import time
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from nodemanager.client import Client, ClientError
from nodemanager.commands import show
from nodemanager.commands.common import client, daemon_flags
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
    help=f"Refresh every SECONDS (default {EVERY_S:g}) until Ctrl-C.",
)
@show.json_option
@daemon_flags
def status(watch: float | None, as_json: bool, config: str | None) -> None:
    """Slots, nodes, polls, breaker and what waits, from the running daemon.

    A slot is leaked while its record's node is gone. Each cause is the reason code that keeps such
    records, with the longest quiet time among them and when the first slot will be free.
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
    """For a pipe: one picture after the other, a line of JSON each or blocks of text."""
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
    """For a terminal: in its place, and the last one left behind at the end."""
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
    """The picture, when it is of, and that it is an old one where nobody answers any more."""
    foot = Text(f"{local(of)}, every {every:g} s; Ctrl-C ends", style="dim")
    if trouble:
        old = Text(f"what follows is of {local(of)}", style="bold red")
        return Group(show.cell(trouble, "bold red"), old, screen(shown), foot)
    return Group(screen(shown), foot)
