"""`nodemanager verify`: whether the pool is at rest, for deploy scripts and CI."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import click

from nodemanager.commands import show
from nodemanager.commands.client import TIMEOUT_S, Client, ClientError
from nodemanager.commands.common import answered, client, examples
from nodemanager.commands.waiting import seconds
from nodemanager.core.model.reasons import Reason
from nodemanager.lib.logline import Json, span, visible

MOST = 20
"""The most offenders that are shown; --json has them all."""
WIDTH = 10
ALWAYS = ("up", "settling", "stuck")
STYLES = {"settled": "green", "settling": "yellow", "stuck": "bold red"}


@contextmanager
def progress() -> Iterator[Callable[[Json, float], None]]:
    """Tells each attempt on the standard error: in place on a terminal; in a pipe a line each
    that says something else than the one before."""
    out = show.console(stderr=True)
    if out.is_terminal and not out.is_dumb_terminal:
        with out.status("asking the daemon") as spinner:
            yield lambda shown, waited_s: spinner.update(
                show.cell(f"{span(waited_s)}: {_line(shown)}")
            )
        return
    printed = ""

    def tell(shown: Json, waited_s: float) -> None:
        nonlocal printed
        before, printed = printed, _line(shown)
        if printed != before:
            show.say(out, show.cell(f"{span(waited_s)}: {printed}"))

    yield tell


def print_snapshot(shown: Json, attempts: int, waited_s: float) -> None:
    """Print the snapshot: its numbers, and who is not at rest and why."""
    out = show.console()
    tries = f"{attempts} attempt{'' if attempts == 1 else 's'}"
    after = f"after {span(waited_s)}, {tries}"
    outlook = show.cell(f"{shown['outlook']:<{WIDTH}}", STYLES[shown["outlook"]])
    show.say(out, outlook + show.cell(_of(shown, after)))
    lines = {"nodes": _nodes(shown)}
    if shown["boots"]:
        lines["boots"] = _counts(shown["boots"])
    if shown["slots"]:
        lines["slots"] = _slots(shown["slots"])
    for name, text in lines.items():
        show.say(out, show.cell(f"{name:<{WIDTH}}{text}"))
    found = shown["open"]
    if not found:
        return
    table = show.table(
        "outlook", "what", "id", "host", "slot", "reason", "", terminal=out.is_terminal
    )
    for one in found[:MOST]:
        count = f"{one['count']} {one['what']}s" if one["count"] > 1 else one["what"]
        cells = (count, one["id"], one["host"], one["slot"], one["reason"], _why(one))
        table.add_row(
            show.cell(one["outlook"], STYLES.get(one["outlook"], "")),
            *(show.cell("-" if cell is None else cell) for cell in cells),
        )
    show.say(out, table)
    if len(found) > MOST:
        show.say(out, show.cell(f"and {len(found) - MOST} more (--json has them all)"))


def _of(shown: Json, after: str) -> str:
    if not shown["plan"]:
        return f"the daemon has not decided anything yet, {after}"
    plan = f"plan {shown['plan']}, {span(shown['age_s'])} old"
    return f"pool {shown['pool']}  {shown['mode']}  {plan}, {after}"


def _line(shown: Json) -> str:
    """One attempt: what it counted, and the first thing that is not at rest."""
    first, *others = shown["open"]
    more = f" and {len(others)} more" if others else ""
    return f"{_nodes(shown)}; {first['id'] or 'pool'} {first['reason']}{more}"


def _nodes(shown: Json) -> str:
    nodes = shown["nodes"]
    if not nodes:
        return "not known"
    seen = {name: count for name, count in nodes.items() if count or name in ALWAYS}
    seen.pop("listed", None)
    coming = seen.pop("coming", 0)
    return _counts(seen) + (f", {coming} to come" if coming else "")


def _slots(slots: Json) -> str:
    total = "" if slots["total"] is None else f" of {slots['total']}"
    return f"{slots['held']} held{total}, {slots['leaked']} leaked"


def _counts(counts: Json) -> str:
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items())


def _why(item: Json) -> str:
    """The sentence of the reason code, and what was measured."""
    measures = ", ".join(f"{key}={value}" for key, value in item["measures"].items())
    known = {reason.value: reason.doc for reason in Reason}
    says = known.get(item["reason"], "")
    return f"{says} [{measures}]" if measures else says


FIRST_S = 10.0
"""How long the first answer may take, even with a shorter --wait."""
LAST_S = 1.0
"""The last attempt begins this long before the deadline."""

SETTLED, FAILED, STUCK, LATE = 0, 1, 3, 4
"""The exit codes; 2 is wrong usage, as everywhere."""
CODES = {"settled": SETTLED, "stuck": STUCK, "settling": LATE}


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
    daemon = client(config)
    with progress() as tell:
        result = attempt(daemon, wait, interval, allow_empty=allow_empty, tell=tell)
    if as_json:
        show.print_json(result.to_json())
    elif result.snapshot is not None:
        print_snapshot(result.snapshot, result.attempts, result.waited_s)
    if result.error is not None:
        click.echo(f"nodemanager: {visible(result.error)}", err=True)
    sys.exit(result.code)


def attempt(
    daemon: Client,
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
                daemon.get("verify", allow_empty=allow_empty, within_s=min(within_s, TIMEOUT_S))
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
