"""`nodemanager verify`: whether the pool is at rest, for deploy scripts and CI."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import click

from nodemanager.commands.client import TIMEOUT_S, ClientError
from nodemanager.commands.common import answered, client, examples
from nodemanager.commands.waiting import seconds
from nodemanager.lib.logline import Json, visible

FIRST_S = 10.0
"""How long the first answer may take, even with a shorter --wait."""
LAST_S = 1.0
"""The last attempt begins this long before the deadline."""

SETTLED, FAILED, STUCK, LATE = 0, 1, 3, 4
"""The exit codes; 2 is wrong usage, as everywhere."""
CODES = {"settled": SETTLED, "stuck": STUCK, "settling": LATE}


class VerifyClient(Protocol):
    """What is asked: the client of a running daemon."""

    def verify(self, *, allow_empty: bool, within_s: float) -> Json: ...


@dataclass(frozen=True)
class VerifyResult:
    """How it ended: the exit code, the newest snapshot, and the error that ended it."""

    code: int
    attempts: int
    waited_s: float
    snapshot: Json | None = None
    error: str | None = None

    def to_json(self) -> Json:
        return {
            "verified": self.code == SETTLED,
            "exit_code": self.code,
            "attempts": self.attempts,
            "waited_s": round(self.waited_s, 3),
            "error": self.error,
            "snapshot": self.snapshot,
        }


@click.command(
    epilog=examples(
        "verify",
        "verify --wait 10m --interval 10",
        "verify --wait 0 --allow-empty",
        "verify --json | jq -r '.snapshot.open[] | \"\\(.id) \\(.reason)\"'",
    )
)
@click.option(
    "--wait",
    default="60",
    show_default=True,
    callback=seconds,
    metavar="TIME",
    help="Wait that long, by the clock, for what may still settle: 90, 10m; 0 looks once.",
)
@click.option(
    "--interval",
    default="5",
    show_default=True,
    callback=seconds,
    metavar="TIME",
    help="Look again after that time.",
)
@click.option("--allow-empty", is_flag=True, help="A pool without any node is fine.")
@answered
def verify(
    wait: float, interval: float, allow_empty: bool, as_json: bool, config: str | None
) -> None:
    """Check that the pool is at rest: every wanted node is up, and nothing is wrong.

    Each attempt takes all it says from one snapshot of the running daemon. It waits only for what
    may still settle, and ends at once on what waiting can't mend. Nodes and records on hold, and
    nodes of others, are counted apart and never fail it.

    \b
    Exit codes:
      0  at rest
      1  no daemon answers, or it answers with an error
      2  wrong usage or configuration
      3  something that waiting can't mend, a pool without a node, or an impossible sum
      4  nothing is wrong, but something had not settled in time
    """
    from nodemanager.commands import show, verify_screen

    daemon = client(config)
    with verify_screen.progress() as tell:
        result = attempt(daemon, wait, interval, allow_empty=allow_empty, tell=tell)
    if as_json:
        show.print_json(result.to_json())
    elif result.snapshot is not None:
        verify_screen.print_snapshot(result.snapshot, result.attempts, result.waited_s)
    if result.error is not None:
        click.echo(f"nodemanager: {visible(result.error)}", err=True)
    sys.exit(result.code)


def attempt(
    daemon: VerifyClient,
    wait_s: float,
    interval_s: float,
    *,
    allow_empty: bool = False,
    tell: Callable[[Json, float], None] = lambda shown, waited_s: None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> VerifyResult:
    """Look until the pool is at rest or stuck, the daemon fails, or `wait_s` seconds have passed.

    Calls `tell` with each snapshot that has not settled. `wait_s` is by the clock: slow answers
    don't lengthen it.
    """
    began, shown, attempts = clock(), None, 0
    while True:
        left_s = wait_s - (clock() - began)
        within_s = left_s if attempts else max(left_s, FIRST_S)
        attempts += 1
        try:
            shown = _checked(
                daemon.verify(allow_empty=allow_empty, within_s=min(within_s, TIMEOUT_S))
            )
        except ClientError as error:
            waited_s = clock() - began
            # An answer that the deadline cut off says nothing; the snapshot before it stands.
            code = LATE if shown is not None and waited_s >= wait_s else FAILED
            return VerifyResult(code, attempts, waited_s, shown, str(error))
        waited_s = clock() - began
        code = CODES[shown["outlook"]]
        if code != LATE or wait_s - waited_s <= LAST_S:
            return VerifyResult(code, attempts, waited_s, shown)
        tell(shown, waited_s)
        sleep(min(interval_s, wait_s - LAST_S - waited_s))


def _checked(shown: Json) -> Json:
    """The answer. Raises ClientError where it can't be one, or contradicts itself."""
    outlook, found = shown.get("outlook"), shown.get("open")
    if outlook not in CODES or not isinstance(found, list):
        raise ClientError("the daemon's answer is not understood: it is of another version")
    if (outlook == "settled") == bool(found):
        raise ClientError(f"the daemon's answer contradicts itself: {outlook}, {len(found)} open")
    return shown
