"""`--watch`: shows the newest answer of the daemon again and again, until Ctrl-C."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from nodemanager.commands import show
from nodemanager.commands.times import local
from nodemanager.lib.logline import Json, visible

if TYPE_CHECKING:
    from rich.console import RenderableType

Fetch = Callable[[], Json]

EVERY_S = 2.0
SHORTEST_S = 0.2

watch_option = click.option(
    "--watch",
    type=click.FloatRange(min=SHORTEST_S),
    is_flag=False,
    flag_value=EVERY_S,
    metavar="[SECONDS]",
    help=f"Refresh it until Ctrl-C; every {EVERY_S:g} seconds unless given.",
)


def show_it(
    ask: Fetch, every: float | None, drawn: Callable[[Json], RenderableType], *, as_json: bool
) -> None:
    """Show the answer as it is `drawn` or as JSON, once or, with `every`, again and again."""

    def tell(shown: Json) -> None:
        if as_json:
            show.print_json(shown, a_line=every is not None)
        else:
            show.say(show.console(), drawn(shown))

    if every is None:
        tell(ask())
    else:
        watch(ask, every, drawn=drawn, printed=tell, in_place=not as_json)


def watch(
    ask: Fetch,
    every: float,
    *,
    drawn: Callable[[Json], RenderableType],
    printed: Callable[[Json], None],
    in_place: bool,
) -> None:
    """Show what `ask` gives: `drawn` in place on a terminal, else each as `printed` prints it.

    An error of a later answer does not end it: a daemon may restart meanwhile.
    """
    out = show.console()
    try:
        if in_place and out.is_terminal and not out.is_dumb_terminal:
            _refresh(ask, every, drawn)
        else:
            _repeat(ask, every, printed)
    except KeyboardInterrupt:
        return


def _repeat(ask: Fetch, every: float, printed: Callable[[Json], None]) -> None:
    """Print one answer after the other, for a pipe."""
    from nodemanager.commands.client import ClientError

    first = True
    while True:
        try:
            shown = ask()
        except ClientError as error:
            if first:
                raise
            click.echo(f"nodemanager: {visible(str(error))}", err=True)
        else:
            printed(shown)
        first = False
        time.sleep(every)


def _refresh(ask: Fetch, every: float, drawn: Callable[[Json], RenderableType]) -> None:
    """Refresh the answer in place, for a terminal; leave the last one on the screen."""
    from rich.live import Live

    from nodemanager.commands.client import ClientError

    out = show.console()
    shown, of, trouble = ask(), time.time(), ""
    try:
        with Live(console=out, screen=True, auto_refresh=False) as live:
            while True:
                live.update(_framed(drawn(shown), of, trouble, every), refresh=True)
                time.sleep(every)
                try:
                    shown, of, trouble = ask(), time.time(), ""
                except ClientError as error:
                    trouble = str(error)
    finally:
        show.say(out, drawn(shown))


def _framed(drawn: RenderableType, of: float, trouble: str, every: float) -> RenderableType:
    """What is shown, its time, and a warning when it is stale."""
    from rich.console import Group

    foot = show.cell(f"{local(of)}, every {every:g} s; Ctrl-C ends", "dim")
    if trouble:
        old = show.cell(f"the following is from {local(of)}", "bold red")
        return Group(show.cell(trouble, "bold red"), old, drawn, foot)
    return Group(drawn, foot)
