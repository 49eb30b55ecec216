"""`nodemanager backlog`: frees what leaked before the first start, after a review (S5)."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nodemanager.commands import show
from nodemanager.commands.common import client, daemon_flags, examples
from nodemanager.core.model.reasons import Event
from nodemanager.lib.logline import Json, logfmt, span, visible

if TYPE_CHECKING:
    from nodemanager.commands.client import Client

POLL_S = 0.5
PATIENCE_S = 60.0
"""Seconds to wait for a daemon that restarts."""
HEARD_WITHIN_S = 10.0
"""Seconds after which the journal has each event that was logged."""
DONE = {"clean": "cleaned", "adopt": "adopted"}
ALONE = "left alone"
UNKNOWN = "not known (see the log)"
OTHERS = ("done before", ALONE, "to go", UNKNOWN)


@click.group()
def backlog() -> None:
    """Free what leaked before the first start: review it as a file, then apply the file.

    \b
    nodemanager backlog plan --out leaked.plan
    $EDITOR leaked.plan
    nodemanager backlog apply leaked.plan
    """


@backlog.command(
    short_help="Show what would be freed, as a file to review.",
    epilog=examples("backlog plan", "backlog plan --out leaked.plan"),
)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the plan here.")
@click.option("--force", is_flag=True, help="Overwrite the file of --out.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print the plan as JSON, with all its evidence."
)
@daemon_flags
def plan(out: Path | None, force: bool, as_json: bool, config: str | None) -> None:
    """Show what would be freed and why: as a file to review, and as a summary.

    Prints the summary on a terminal; in a pipe, without --out, the plan itself. Changes nothing.
    """
    from nodemanager.commands import backlog_file

    if out is not None and out.exists() and not force:
        raise click.UsageError(f"{out} exists, and may have been edited; --force overwrites it")
    made = client(config).get("backlog")
    if out is not None:
        backlog_file.write(out, made)
    if as_json:
        show.print_json(made)
    elif out is None and not sys.stdout.isatty():
        click.echo(backlog_file.render(made), nl=False)
    else:
        _summarize(made)
        _tell_next(made, out)


@backlog.command(
    short_help="Let go what is in a reviewed plan.",
    epilog=examples("backlog apply leaked.plan", "backlog apply --no-wait leaked.plan"),
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--no-wait", is_flag=True, help="Don't wait for it; see `backlog status` later.")
@click.option("--json", "as_json", is_flag=True, help="Print each item's outcome as JSON.")
@daemon_flags
def apply(file: Path, no_wait: bool, as_json: bool, config: str | None) -> None:
    """Let go what is in a reviewed plan, if it has not changed since.

    The daemon marks each item, judges it again and asks the cloud right before it writes. It frees
    at most max_cleans_per_cycle records from one poll to the next, leaves alone what changed, and
    reports the reason. It goes on when this command ends, and after a restart. Applying the same
    file again reports what is done already.
    """
    from nodemanager.commands import backlog_file

    reviewed = backlog_file.read(file)
    if not reviewed.items:
        click.echo(f"{file}: every line is commented out; nothing to do", err=True)
        return
    daemon = client(config)
    newest = max((one["number"] for one in daemon.get("decisions")["decisions"]), default=0)
    order = {**reviewed.bound_to, "items": list(reviewed.items)}
    items = daemon.post("backlog", "apply", **order)["items"]
    try:
        if not no_wait:
            _follow(daemon, items)
    except KeyboardInterrupt:
        click.echo("the daemon goes on; `nodemanager backlog stop` stops it", err=True)
    found = _outcomes(daemon, items, newest)
    if as_json:
        show.print_json(found)
    else:
        _report(found)


@backlog.command(
    short_help="Show what was let go and is not done yet.", epilog=examples("backlog status")
)
@click.option("--json", "as_json", is_flag=True, help="Print each item as JSON.")
@daemon_flags
def status(as_json: bool, config: str | None) -> None:
    """Show what was let go and is not done yet; the log tells what became of the rest."""
    marks = client(config).get("backlog", "marks")
    if as_json:
        show.print_json(marks)
        return
    reasons = Counter(one["reason"] for one in marks["items"])
    counted = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
    waits = f"; waiting: {marks['waits_for']}" if marks.get("waits_for") and counted else ""
    click.echo(f"{len(marks['items'])} items to go{': ' if counted else ''}{counted}{waits}")


@backlog.command(short_help="Let nothing more go.", epilog=examples("backlog stop"))
@daemon_flags
def stop(config: str | None) -> None:
    """Let nothing more go: no further item of a plan is freed or adopted."""
    left = client(config).post("backlog", "stop")["stopped"]
    click.echo(f"nothing more is let go; {left} items stay as they are")


def _summarize(made: Mapping[str, Any]) -> None:
    title = f"backlog of pool {made['pool']}, {made['records']} records, {made['made_at']}"
    numbers = ("how many", "slots", "quiet for")
    headings = ("what", "in the plan", "reason", *numbers)
    table = show.table(*headings, title=title, terminal=True, right=",".join(numbers))
    groups: dict[tuple[str, bool, str], list[Mapping[str, Any]]] = {}
    for item in made["items"]:
        groups.setdefault((item["deed"], item["chosen"], item["reason"]), []).append(item)
    for (deed, chosen, reason), items in groups.items():
        quiet = sorted(item["measures"]["idle_s"] for item in items if "idle_s" in item["measures"])
        between = f"{span(quiet[0])} .. {span(quiet[-1])}" if quiet else ""
        slots = sum(item["slot"] is not None for item in items)
        row = (deed, "yes" if chosen else "left out", reason, str(len(items)), str(slots), between)
        table.add_row(*row)
    if groups:
        show.say(show.console(), table)


def _tell_next(made: Mapping[str, Any], out: Path | None) -> None:
    if made["freeing"]:
        click.echo(f"{made['freeing']} more are being freed by the daemon itself")
    if not made["items"]:
        click.echo("nothing waits for your decision")
    elif out is None:
        click.echo("to review and apply it: nodemanager backlog plan --out FILE")
    else:
        click.echo(f"written to {out}; edit it, then: nodemanager backlog apply {out}")


def _follow(daemon: Client, items: Sequence[Json]) -> None:
    """Wait until none of the items is marked, with a progress bar on a terminal."""
    from nodemanager.commands.client import ClientError

    left, heard_at = {_key(one) for one in items}, time.monotonic()
    with show.progress("applying", len(left)) as tick:
        while left:
            try:
                marked = {_key(one) for one in daemon.get("backlog", "marks")["items"]}
            except ClientError:
                if time.monotonic() - heard_at > PATIENCE_S:
                    raise
            else:
                heard_at = time.monotonic()
                tick(len(left - marked))
                left &= marked
            time.sleep(POLL_S if left else 0)


def _key(item: Json) -> tuple[str, str]:
    return item["deed"], item["id"]


def _outcomes(daemon: Client, items: Sequence[Json], newest: int) -> list[Json]:
    """What became of each item: in `outcome`, with the reason and measures where it was left.

    The journal says so, a moment after the mark was taken off; what it does not say is not known.
    """
    waits_until = time.monotonic() + HEARD_WITHIN_S
    while True:
        left = {_key(one) for one in daemon.get("backlog", "marks")["items"]}
        ends = _ends(daemon, newest)
        found = [{**item, **_outcome(item, left, ends.get(_key(item)))} for item in items]
        is_known = all(one["outcome"] != UNKNOWN for one in found)
        if is_known or time.monotonic() > waits_until:
            return found
        time.sleep(POLL_S)


def _outcome(item: Json, left: Container[tuple[str, str]], end: Json | None) -> Json:
    if item["stands"] == "done":
        return {"outcome": "done before"}
    if item["stands"] == "changed":
        return {"outcome": ALONE}
    if _key(item) in left:
        return {"outcome": "to go"}
    if end is None:
        return {"outcome": UNKNOWN}
    if end["event"] != Event.BACKLOG_SKIPPED:
        return {"outcome": DONE[item["deed"]]}
    measures = {key: one for key, one in end["measures"].items() if key != "action"}
    return {"outcome": ALONE, "reason": end["reason"], "measures": measures}


def _ends(daemon: Client, newest: int) -> dict[tuple[str, str], Json]:
    """By item, how it ended after the event of that number: freed, adopted or left alone."""
    found: dict[tuple[str, str], Json] = {}
    for event in (Event.RECORD_CLEANED, Event.NODE_ADOPTED, Event.BACKLOG_SKIPPED):
        for one in _since(daemon, event, newest):
            is_clean = event is Event.RECORD_CLEANED or one["measures"].get("action") == "clean"
            found["clean" if is_clean else "adopt", one["record" if is_clean else "node"]] = one
    return found


def _since(daemon: Client, event: Event, newest: int) -> Iterator[Json]:
    """The events of that name after that number, the newest first."""
    before = None
    while True:
        shown = daemon.get("decisions", event=event.value, before=before)
        yield from (one for one in shown["decisions"] if one["number"] > newest)
        before = shown["before"]
        if before is None or before <= newest:
            return


def _report(found: Sequence[Json]) -> None:
    from nodemanager.commands import backlog_file

    counts = Counter(one["outcome"] for one in found)
    counted = [f"{counts[word]} {word}" for word in (*DONE.values(), *OTHERS) if counts[word]]
    click.echo(f"{len(found)} items: {', '.join(counted)}")
    for one in found:
        if one["outcome"] == ALONE:
            why = one["reason"]
            measures = f" ({logfmt(one['measures'])})" if one["measures"] else ""
            click.echo(visible(f"{ALONE}: {one['id']} {why}{measures}: {backlog_file.DOCS[why]}"))
