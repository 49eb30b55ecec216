"""`nodemanager log`: the decisions and actions in the journal."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from nodemanager.commands import common, show
from nodemanager.commands.completion import complete_id
from nodemanager.commands.times import time_option
from nodemanager.core.model.reasons import Event, Reason
from nodemanager.errors import JournalError
from nodemanager.journal.event import LEVEL, LoggedEvent
from nodemanager.lib.logline import as_json as json_line
from nodemanager.lib.logline import logfmt, timestamp
from nodemanager.lib.near import did_you_mean

if TYPE_CHECKING:
    from rich.console import Console

    from nodemanager.journal.story import Story

LEVELS = ("info", "warning", "error")
LOOK_EVERY_S = 1.0
LAST = 10
"""How many earlier events `--follow` shows by default."""

Filter = Callable[[LoggedEvent], bool]


def _known(word: str, kind: type[Event] | type[Reason], what: str) -> frozenset[str]:
    """The names of that kind that the word means; `node.` means all that begin so."""
    names = [one.value for one in kind]
    of = {one for one in names if one == word or one.startswith(f"{word.rstrip('.')}.")}
    if not of:
        hint = did_you_mean(word, names)
        text = f"{word!r} is no {what}{hint}; the manual's page on events has them all"
        raise click.BadParameter(text)
    return frozenset(of)


def names_of(
    kind: type[Event] | type[Reason], what: str
) -> Callable[[click.Context, click.Parameter, tuple[str, ...]], frozenset[str]]:
    """An option's callback: all names of that kind that are given. Raises click.BadParameter."""

    def parsed(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> frozenset[str]:
        given = (one.strip() for value in values for one in value.split(","))
        return frozenset().union(*(_known(word, kind, what) for word in given if word))

    return parsed


def _names_option(
    name: str, kind: type[Event] | type[Reason], what: str, help: str
) -> Callable[[click.decorators.FC], click.decorators.FC]:
    """An option that takes names of that kind, and completes them."""

    def completed(_: click.Context, __: click.Parameter, begun: str) -> list[CompletionItem]:
        known = [one for one in kind if one.value.startswith(begun)]
        return [CompletionItem(one.value, help=one.doc) for one in known]

    return click.option(
        f"--{name}",
        f"{name}s",
        multiple=True,
        callback=names_of(kind, what),
        shell_complete=completed,
        metavar=name.upper(),
        help=help,
    )


@click.command(
    epilog=common.examples(
        "log compute7",
        "log --since 2h --reason stale_slot",
        "log --level warning --since yesterday",
        "log --event breaker,operator --follow",
        "log i-0abc --follow",
        "log --since yesterday --until 03:00",
        "log --journal copy.db --json | jq .reason",
    )
)
@click.argument("id", required=False, shell_complete=complete_id)
@time_option("since", "Only from 2h (ago), 14:05, RFC 3339 ... on.")
@time_option("until", "Only up to this time.")
@_names_option(
    "reason", Reason, "reason code", "Only events with this reason code; may be repeated."
)
@_names_option(
    "event",
    Event,
    "event",
    "Only this event, or all of a kind, as `breaker` or `node`; may be repeated.",
)
@click.option(
    "--level",
    type=click.Choice(LEVELS, case_sensitive=False),
    default=LEVELS[0],
    show_default=True,
    help="Only events of this level or above.",
)
@click.option(
    "--last", "-n", type=click.IntRange(min=0), metavar="N", help="Only the last N events."
)
@click.option(
    "--all",
    "-a",
    "whole",
    is_flag=True,
    help="Show each time a node turned busy or idle, which a terminal folds.",
)
@click.option("--follow", "-f", is_flag=True, help="Go on with new events until Ctrl-C.")
@common.journal_option("A journal, or a copy of one; default: the configured one.")
@show.json_option
@common.config_flag
def log(
    id: str | None,
    since: float | None,
    until: float | None,
    reasons: frozenset[str],
    events: frozenset[str],
    level: str,
    last: int | None,
    whole: bool,
    follow: bool,
    journal: Path | None,
    as_json: bool,
    config: str | None,
) -> None:
    """Show what was decided and done, and why, for ID or for everything.

    ID is a record's uuid, a hostname, a slot number, a cloud node's id or name, or the beginning of
    an id; the events of its pair are included. Shows changed verdicts, actions and their outcomes,
    operators' commands and the breaker, oldest first. It reads the journal, whether the daemon runs
    or not, or a copy of it. Times are local on a terminal, UTC elsewhere. On a terminal what says
    only that nodes turned busy or idle is one line until something else happens.
    """
    # Shell completion must not wait for these imports.
    from nodemanager.core.operate.naming import UnknownIdError
    from nodemanager.journal.story import Story

    if follow and until is not None:
        raise click.UsageError("--follow never ends, but --until ends the log: give one of them")
    path = journal if journal is not None else common.journal_of(common.reached(config))
    if follow and last is None and since is None:
        last = LAST
    story = Story(common.existing_journal(path, given=journal is not None), since or 0.0, id, until)
    out = show.console()
    folds = out.is_terminal and not (as_json or whole or reasons or events)
    tell = _teller(out, as_json=as_json)
    news = _News(story, _filter(reasons, events, level), folds=folds)
    try:
        if not _tell(news.first(last, follow=follow), tell):
            # An empty answer may mean a mistyped reason.
            click.echo("the journal has no such events", err=True)
        while follow:
            time.sleep(LOOK_EVERY_S)
            _tell(news.more(), tell)
    except UnknownIdError as error:
        raise JournalError(f"{path}: {error}") from error
    except KeyboardInterrupt:
        return


def _filter(reasons: frozenset[str], events: frozenset[str], level: str) -> Filter:
    least = LEVELS.index(level)

    def wanted(one: LoggedEvent) -> bool:
        return (
            (not reasons or one.reason in reasons)
            and (not events or one.event in events)
            and LEVELS.index(level_of(one)) >= least
        )

    return wanted


class _News:
    """The wanted events as they are shown."""

    def __init__(self, story: Story, wanted: Filter, *, folds: bool) -> None:
        from nodemanager.commands.listing_screen import Folding

        self._story, self._wanted = story, wanted
        self._folding = Folding(folds=folds)

    def more(self) -> Iterator[LoggedEvent]:
        return self._folding.take(filter(self._wanted, self._story.news()))

    def first(self, last: int | None, *, follow: bool) -> Iterable[LoggedEvent]:
        """All there are, or the `last` ones."""
        found = self.more() if follow else chain(self.more(), self._folding.rest())
        return found if last is None else deque(found, maxlen=last)


def _tell(news: Iterable[LoggedEvent], tell: Callable[[LoggedEvent], None]) -> int:
    printed = 0
    for one in news:
        tell(one)
        printed += 1
    sys.stdout.flush()
    return printed


def _teller(out: Console, *, as_json: bool) -> Callable[[LoggedEvent], None]:
    if as_json:
        return lambda one: click.echo(json_line(fields_of(one)))
    if out.is_terminal:
        from nodemanager.commands.listing_screen import line_of

        return lambda one: out.print(line_of(one), soft_wrap=True)
    return lambda one: click.echo(logfmt(fields_of(one)))


def level_of(one: LoggedEvent) -> str:
    """The event's level; the journal keeps those above info."""
    level = str(one.more.get(LEVEL, LEVELS[0]))
    return level if level in LEVELS else LEVELS[-1]


def fields_of(one: LoggedEvent) -> dict[str, Any]:
    """An event's fields for a pipe, under the keys of the daemon's own log."""
    return {
        "ts": timestamp(one.at),
        "event": one.event,
        "level": one.more.get(LEVEL),
        "reason": one.reason,
        "record": one.record,
        "slot": one.slot,
        "host": one.host,
        "node": one.node,
        **{key: value for key, value in one.more.items() if key != LEVEL},
        "plan": one.plan,
    }
