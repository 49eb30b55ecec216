"""`--wait`: waits until what an operator ordered is done, or was called off."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import click

from nodemanager.errors import NodeManagerError
from nodemanager.lib.logline import visible

if TYPE_CHECKING:
    from nodemanager.commands.client import Client

LOOK_EVERY_S = 1.0
SENT_AWAY = ("drain", "kill")
GOING = ("shutting_down", "changed_since_listing", "node_absent", "in_flight")
"""The reasons of a node that a listing from before its end may still show."""


class NotDoneError(NodeManagerError):
    """What was waited for did not come, or not in time."""


def seconds(ctx: click.Context, param: click.Parameter, text: str | None) -> float | None:
    """The seconds of a duration; --wait may be 0, and then looks once."""
    from nodemanager.config import kinds

    if text is None:
        return None
    if param.name == "wait" and text.strip() == "0":
        return 0.0
    try:
        return kinds.duration().parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


wait_option = click.option(
    "--wait",
    callback=seconds,
    metavar="TIME",
    help="Wait that long until it is done: 90, 15m; without it, nothing is waited for.",
)


def until_gone(daemon: Client, nodes: Iterable[str], limit_s: float) -> None:
    """Wait until no drain or kill of these nodes stands, and they are gone; tell each.

    The daemon forgets an order once its node is gone, or when somebody undid it: then a later
    decision still leaves the node alone. Raises NotDoneError.
    """
    seen: dict[str, str] = {}

    def look(left: frozenset[str]) -> Mapping[str, str]:
        marks = daemon.status(with_names=True).get("marks", ())
        ordered = {mark["id"] for mark in marks if mark["kind"] in SENT_AWAY}
        done = left - ordered
        if not done:
            return {}
        shown = daemon.get("nodes")
        listed = {row["node"]: row for row in shown["nodes"]}
        for id in sorted(done & listed.keys()):
            # The newest decision may be older than the end of the order.
            is_later = seen.setdefault(id, shown["plan"]) != shown["plan"]
            if is_later and listed[id]["reason"] not in GOING:
                raise NotDoneError(f"called off: {id} is listed, and no order for it stands")
        return {id: f"{id} is gone" for id in done - listed.keys()}

    _until(set(nodes), look, limit_s)


def until_clean(daemon: Client, records: Iterable[str], limit_s: float) -> None:
    """Wait until these records are clean; tell each. Raises NotDoneError."""

    def look(left: frozenset[str]) -> Mapping[str, str]:
        states = {id: daemon.get("explain", id)["record"]["state"] for id in left}
        return {id: f"{id} is clean" for id, state in states.items() if state == "cleaned"}

    _until(set(records), look, limit_s)


def _until(
    left: set[str],
    look: Callable[[frozenset[str]], Mapping[str, str]],
    limit_s: float,
) -> None:
    how_long = f"within {limit_s:g} s"
    try:
        if _comes(left, look, limit_s):
            return
    except KeyboardInterrupt:
        how_long = "until Ctrl-C"
    raise NotDoneError(
        f"not done {how_long}: {', '.join(sorted(left))}; the order stands, and "
        "`nodemanager explain ID` says what it waits for"
    )


def _comes(
    left: set[str], look: Callable[[frozenset[str]], Mapping[str, str]], limit_s: float
) -> bool:
    """Whether all is done in time; takes what is done out of `left`, and tells it."""
    from nodemanager.commands.client import NobodyThereError

    ends_at = time.monotonic() + limit_s
    while left:
        try:
            done = look(frozenset(left))
        except NobodyThereError:
            # A daemon may restart meanwhile; the orders are in its journal.
            done = {}
        for said in done.values():
            click.echo(visible(said), err=True)
        left -= done.keys()
        if left:
            if time.monotonic() >= ends_at:
                return False
            time.sleep(LOOK_EVERY_S)
    return True
