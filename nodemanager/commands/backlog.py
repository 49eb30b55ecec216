"""`nodemanager backlog`: frees what leaked before the first start, after a review (S5)."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nodemanager.commands.common import client, daemon_flags
from nodemanager.lib.logline import logfmt, visible

if TYPE_CHECKING:
    from nodemanager.commands.client import Client

POLL_S = 0.5
PATIENCE_S = 60.0
"""Seconds to wait for a daemon that restarts."""


@click.group()
def backlog() -> None:
    """Free what leaked before the first start: review it as a file, then apply the file.

    \b
    nodemanager backlog plan --out leaked.plan
    $EDITOR leaked.plan
    nodemanager backlog apply leaked.plan
    """


@backlog.command()
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
    made = client(config).backlog()
    if out is not None:
        backlog_file.write(out, made)
    if as_json:
        click.echo(json.dumps(made, indent=2))
    elif out is None and not sys.stdout.isatty():
        click.echo(backlog_file.render(made), nl=False)
    else:
        _summarize(made)
        _tell_next(made, out)


@backlog.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--no-wait", is_flag=True, help="Don't wait for it; see `backlog status` later.")
@click.option("--json", "as_json", is_flag=True, help="Print each item's outcome as JSON.")
@daemon_flags
def apply(file: Path, no_wait: bool, as_json: bool, config: str | None) -> None:
    """Carry out a reviewed plan: only what has not changed since.

    The daemon judges each item again and asks the cloud right before it writes. It frees at most
    max_cleans_per_cycle records from one poll to the next, leaves alone what changed, and reports
    the reason. It goes on when this command ends, and after a restart. Applying the same file again
    reports what is done already.
    """
    from nodemanager.commands import backlog_file

    reviewed = backlog_file.read(file)
    if not reviewed.items:
        click.echo(f"{file}: every line is commented out; nothing to do", err=True)
        return
    daemon = client(config)
    order = {**reviewed.bound_to, "items": list(reviewed.items)}
    run = daemon.apply_backlog(order)
    if not no_wait:
        _follow(daemon, run)
    _report(daemon.backlog_run(items=True), as_json=as_json)


@backlog.command()
@click.option("--json", "as_json", is_flag=True, help="Print each item's outcome as JSON.")
@daemon_flags
def status(as_json: bool, config: str | None) -> None:
    """Show the progress of the plan that is being applied, or of the last one."""
    _report(client(config).backlog_run(items=True), as_json=as_json)


@backlog.command()
@daemon_flags
def stop(config: str | None) -> None:
    """Stop applying the plan: no further item is freed or adopted."""
    run = client(config).stop_backlog()
    left = run["counts"]["stopped"]
    click.echo(f"the plan is ended; {left} of its {run['items_total']} items stay as they are")


def _summarize(made: Mapping[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    title = f"backlog of pool {made['pool']}, {made['records']} records, {made['made_at']}"
    table = Table(title=title, title_justify="left")
    for heading in ("what", "in the plan", "reason"):
        table.add_column(heading)
    for heading in ("how many", "slots", "quiet for"):
        table.add_column(heading, justify="right")
    groups: dict[tuple[str, bool, str], list[Mapping[str, Any]]] = {}
    for item in made["items"]:
        groups.setdefault((item["deed"], item["chosen"], item["reason"]), []).append(item)
    for (deed, chosen, reason), items in groups.items():
        quiet = sorted(item["measures"]["idle_s"] for item in items if "idle_s" in item["measures"])
        span = f"{_span(quiet[0])} .. {_span(quiet[-1])}" if quiet else ""
        slots = sum(item["slot"] is not None for item in items)
        row = (deed, "yes" if chosen else "left out", reason, str(len(items)), str(slots), span)
        table.add_row(*row)
    if groups:
        Console().print(table)


def _tell_next(made: Mapping[str, Any], out: Path | None) -> None:
    if made["freeing"]:
        click.echo(f"{made['freeing']} more are being freed by the daemon itself")
    if not made["items"]:
        click.echo("nothing waits for your decision")
    elif out is None:
        click.echo("to review and apply it: nodemanager backlog plan --out FILE")
    else:
        click.echo(f"written to {out}; edit it, then: nodemanager backlog apply {out}")


def _span(seconds: float) -> str:
    for name, length in (("y", 31_557_600.0), ("d", 86_400.0), ("h", 3_600.0), ("min", 60.0)):
        if seconds >= length:
            return f"{seconds / length:.1f} {name}"
    return f"{seconds:.0f} s"


def _follow(daemon: Client, run: Mapping[str, Any]) -> None:
    """Wait until the run has ended, with a progress bar on a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from nodemanager.commands.client import ClientError

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True)
    run_id, lost_at = run["id"], None
    with Progress(
        *columns, TimeElapsedColumn(), console=console, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("applying", total=run["items_total"])
        try:
            while run["open"]:
                time.sleep(POLL_S)
                try:
                    run, lost_at = daemon.backlog_run(), None
                except ClientError:
                    lost_at = lost_at or time.monotonic()
                    if time.monotonic() - lost_at > PATIENCE_S:
                        raise
                    bar.update(task, description="waiting for the daemon")
                    continue
                if run["id"] != run_id:
                    raise ClientError("another plan is being applied now; see the log")
                counts, waits = run["counts"], run.get("waits_for")
                done = run["items_total"] - counts["waiting"] - counts["let_go"]
                said = f"waiting: {waits}" if waits else "applying"
                bar.update(task, completed=done, description=said)
        except KeyboardInterrupt:
            click.echo(
                "the daemon goes on; see `nodemanager backlog status`, stop it with "
                "`nodemanager backlog stop`",
                err=True,
            )


_DONE = {"clean": "cleaned", "adopt": "adopted"}


def _report(run: Mapping[str, Any], *, as_json: bool) -> None:
    from nodemanager.commands import backlog_file

    if as_json:
        click.echo(json.dumps(run, indent=2))
        return
    counts = run["counts"]
    words = (("already", "done before"), ("skipped", "left alone"), ("stopped", "not reached"))
    done = Counter(item["deed"] for item in run["items"] if item["where"] == "done")
    told = [f"{number} {_DONE[deed]}" for deed, number in done.items()]
    told += [f"{counts[where]} {said}" for where, said in words if counts[where]]
    left = counts["waiting"] + counts["let_go"]
    if left:
        waits = f", waiting: {run.get('waits_for')}" if run.get("waits_for") else ""
        told.append(f"{left} to go{waits}")
    click.echo(visible(f"{run['items_total']} items: {', '.join(told)}"))
    for item in run["items"]:
        if item["where"] == "skipped":
            why = item["reason"]
            measures = f" ({logfmt(item['measures'])})" if item["measures"] else ""
            said = f"left alone: {item['id']} {why}{measures}: {backlog_file.DOCS[why]}"
            click.echo(visible(said))
