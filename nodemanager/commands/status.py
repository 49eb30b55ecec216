"""`nodemanager status`: one screen about what a running daemon sees and does."""

from __future__ import annotations

from typing import Any

import click

from nodemanager.commands import show
from nodemanager.commands.common import answered, client, examples
from nodemanager.commands.watch import watch as watch_it
from nodemanager.commands.watch import watch_option


@click.command(
    epilog=examples("status", "status --watch 5", "status --json | jq .slots.leaked"),
)
@watch_option
@answered
def status(watch: float | None, as_json: bool, config: str | None) -> None:
    """Show slots, nodes, polls, breaker and pending work of the running daemon.

    A slot is leaked while its record's node is gone and the record still holds it. Each cause is
    the reason code that keeps such records, with the longest time that one has been quiet, and the
    time until the first is free.
    """
    from nodemanager.commands.status_screen import screen

    def told(shown: dict[str, Any]) -> None:
        if as_json:
            show.print_json(shown, a_line=watch is not None)
        else:
            show.say(show.console(), screen(shown))

    daemon = client(config)
    if watch is None:
        told(daemon.status())
    else:
        watch_it(daemon.status, watch, drawn=screen, told=told, in_place=not as_json)
