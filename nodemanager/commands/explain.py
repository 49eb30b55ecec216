"""`nodemanager explain ID`: why a record or node is left alone, and when that changes; what a job
waits for; what a reason means."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from nodemanager.commands import common, show
from nodemanager.commands.completion import complete_id
from nodemanager.commands.times import time_option
from nodemanager.core.model.reasons import Event, Reason
from nodemanager.errors import NodeManagerError


class UnknownError(NodeManagerError):
    """The given id names nothing, or more than one thing."""


@click.command(
    epilog=common.examples(
        "explain compute7",
        "explain i-0abc --all",
        "explain i-0abc --at 14:05",
        "explain 7 --journal copy.db --at '2026-03-01 02:30'",
        "explain compute7 --json | jq .earliest",
        "explain job 1234",
        "explain within_window",
    )
)
@click.argument("id", shell_complete=complete_id)
@click.argument("job", required=False)
@time_option("at", "As of 2h (ago), 14:05, RFC 3339 ...; by the journal.")
@time_option("since", "Show its history from then on; default: all there is.")
@click.option("--all", "-a", "whole", is_flag=True, help="Show every rule and the whole history.")
@common.journal_option()
@common.answered
def explain(
    id: str,
    job: str | None,
    at: float | None,
    since: float | None,
    whole: bool,
    journal: Path | None,
    as_json: bool,
    config: str | None,
) -> None:
    """Explain why ID is left alone or not, and when it could be freed or shut down.

    ID is a record's uuid, a hostname, a slot number, a cloud node's id or name, or the beginning of
    an id. Says in a sentence what is decided, and the earliest time at which nothing will forbid
    it if only time passes; then the rules that block, with their measured values and thresholds.
    --all shows every rule that was checked. The running daemon answers; with --at or --journal,
    or when no daemon runs, the journal is replayed.

    `explain job JOB` (or JOB alone, where nothing else goes by it) says what a job waits for, or
    which node it had when it left the queue. ID may also be a reason code or an event: then it says
    what that means, by which rule, and which options it depends on.
    """
    from nodemanager.commands.explain_screen import screen

    if job is not None and id != "job":
        raise click.UsageError(f"give one ID, or `job` and a job's id: {id!r} is not `job`")
    means = meaning(id) if job is None else None
    if means is not None:
        if as_json:
            show.print_json(means)
        else:
            click.echo("\n".join(lines(means)))
        return
    asked = _Asked(job or id, job is not None, at, since, whole)
    shown = asked.from_daemon(config) if journal is None else asked.of(journal, given=True)
    if as_json:
        show.print_json(shown)
        return
    out = show.console()
    for part in screen(shown, terminal=out.is_terminal, now=time.time(), whole=whole):
        show.say(out, part)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is to be explained, as of when, and how much of its history."""

    id: str
    is_job: bool
    at: float | None
    since: float | None
    whole: bool

    def from_daemon(self, config: str | None) -> dict[str, Any]:
        """The daemon's answer; or the journal's, of an earlier time or where no daemon answers."""
        from nodemanager.commands.client import ClientError, NobodyThereError

        found = common.reached(config)
        path = common.journal_of(found)
        if self.at is not None:
            return self.of(path, given=False)
        daemon = common.client_of(found)
        try:
            if self.is_job:
                return daemon.get("jobs", self.id)
            return daemon.get("explain", self.id, since=self.since, all=self.whole)
        except NobodyThereError as error:
            try:
                common.existing_journal(path, given=False)
            except NodeManagerError:
                raise ClientError(
                    f"{error}; and there is no journal {path} to read instead"
                ) from error
        click.echo(f"no daemon answers: this is from its journal, {path}", err=True)
        return self.of(path, given=False)

    def of(self, path: Path, *, given: bool) -> dict[str, Any]:
        """The answer of the journal at `path`."""
        # These imports are slow, and shell completion must not wait for them.
        from nodemanager.core.operate.naming import UnknownIdError
        from nodemanager.journal.explained import MOST, Part, view_at
        from nodemanager.journal.job import explain_any, explain_job

        with _progress() as step:
            decision = view_at(common.existing_journal(path, given=given), self.at, step=step)
        try:
            if self.is_job:
                return explain_job(decision, self.id, source=str(path), journal=path)
            part = Part(self.since, most=math.inf if self.whole else MOST)
            return explain_any(decision, self.id, source=str(path), journal=path, part=part)
        except UnknownIdError as error:
            raise UnknownError(f"{path}: {error}") from error


@contextmanager
def _progress() -> Iterator[Callable[[int], None]]:
    """Show the replay's progress on a terminal; a segment has a few hundred decisions at most."""
    out = show.console(stderr=True)
    if not out.is_terminal:
        yield lambda done: None
        return
    with out.status("replaying the journal") as status:
        yield lambda done: status.update(f"replaying the journal: {done} decisions")


# What a reason code or an event means: for `nodemanager explain within_window`.


def meaning(word: str) -> dict[str, Any] | None:
    """What the word says, its rule, the options that it depends on, and how an operator ends it;
    None if it is no reason code and no event. A line of the log has it as `reason=within_window`.
    """
    from nodemanager.config.sections import SECTIONS

    word = word.removeprefix("reason=").removeprefix("event=")
    known = next((one for one in (*Reason, *Event) if one.value == word), None)
    if known is None:
        return None
    named = set(re.findall(r"`(\w+)`", known.doc))
    options = [one for each in SECTIONS for one in each.options if one.name in named]
    is_reason = isinstance(known, Reason)
    row = known.row if isinstance(known, Reason) else None
    return {
        "subject": "reason" if is_reason else "event",
        "id": word,
        "says": known.doc,
        "rule": known.rule if isinstance(known, Reason) else None,
        "options": {f"[{one.section}] {one.name}": one.help.split(". ")[0] for one in options},
        "ends": [] if row is None else [one for one in (row.clear, row.frees, row.restores) if one],
    }


def lines(shown: dict[str, Any]) -> list[str]:
    """The sentence, and below it the rule, the options and how it ends."""
    rule = [f"{shown['rule']}, on the manual's page of rules"] if shown["rule"] else []
    options = [f"{name}: {help.rstrip('.')}." for name, help in shown["options"].items()]
    see = [f"nodemanager log --{shown['subject']} {shown['id']}"]
    parts = {"rule": rule, "option": options, "ends": shown["ends"], "see": see}
    below = [f"{label:<8}{text}" for label, texts in parts.items() for text in texts]
    return [f"{shown['id']}: {shown['says']}", *below]
