"""`nodemanager status`: one screen about what a running daemon sees and does."""

from __future__ import annotations

from typing import Any

import click

from nodemanager.commands.common import answered, client, examples
from nodemanager.commands.watch import told, watch_option


@click.command(
    epilog=examples("status", "status --watch 5", "status --json | jq .slots.leaked"),
)
@watch_option
@answered
def status(watch: float | None, as_json: bool, config: str | None) -> None:
    """Show slots, nodes, polls, breaker, pending work and what happened lately.

    A slot whose node is gone stays held for the record's window; past it, it is leaked. Each cause
    is the reason code that keeps such records, with the longest time that one has been quiet, and
    the time until the first is free.
    """
    from nodemanager.commands.client import ClientError
    from nodemanager.commands.status_screen import screen

    def ask() -> dict[str, Any]:
        """The picture; for people with what happened lately, where that can be told."""
        shown = daemon.status()
        if as_json:
            return shown
        try:
            return {**shown, "lately": daemon.events()["groups"]}
        except ClientError:
            return shown

    daemon = client(config)
    told(ask, watch, screen, as_json=as_json)
