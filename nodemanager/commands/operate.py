"""Commands that tell a running daemon something: breaker reset, hold, release."""

from __future__ import annotations

import click

from nodemanager.commands.common import client, config_flag


@click.group()
def breaker() -> None:
    """The latch that stops all freeing and destroying."""


@breaker.command("reset")
@config_flag
def breaker_reset(config: str | None) -> None:
    """Close the breaker, once you have looked at what opened it."""
    client(config).reset_breaker()
    click.echo("the breaker is closed")


@click.command()
@click.argument("id")
@click.option("--reason", default="", help="Why, for the log.")
@config_flag
def hold(id: str, reason: str, config: str | None) -> None:
    """Let nothing automatic touch a node or record, over restarts, until it is released.

    ID is a record's uuid or a cloud node's id.
    """
    client(config).hold(id, reason)
    click.echo(f"{id} is on hold; `nodemanager release {id}` ends that")


@click.command()
@click.argument("id")
@config_flag
def release(id: str, config: str | None) -> None:
    """End the hold on a node or record."""
    client(config).release(id)
    click.echo(f"{id} is on hold no longer")
