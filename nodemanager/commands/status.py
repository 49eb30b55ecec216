"""`nodemanager status` and `why`: what a running daemon sees and does, and what keeps it so."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import click

from nodemanager.commands.common import answered, client, examples
from nodemanager.commands.watch import show_it, watch_option
from nodemanager.lib.logline import Json
from nodemanager.lib.near import did_you_mean


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
        shown = daemon.get("why", size=size)
        if size is not None and not shown["sizes"] and shown["aborted"] is None:
            hint = did_you_mean(size, shown["known"])
            known = ", ".join(shown["known"]) or "none"
            raise UnknownSizeError(f"there is no size {size!r}{hint}; the sizes are {known}")
        return shown

    show_it(ask, watch, screen, as_json=as_json)


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
        with suppress(ClientError):
            shown["lately"] = daemon.get("events")["groups"]
        return shown

    daemon = client(config)
    show_it(ask, watch, screen, as_json=as_json)
