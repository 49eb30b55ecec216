"""`nodemanager advise` and `cost`: what the journal says of every window, and of money."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path

import click

from nodemanager.commands import show
from nodemanager.commands.common import config_flag, config_path, examples, jobs_option
from nodemanager.commands.times import time_option
from nodemanager.config import load

WEEK_S = 7 * 86400.0


def _recorded(command: Callable[..., None]) -> Callable[..., None]:
    """JOURNAL, --since, --until, --json and --config. A given JOURNAL is read whole by default."""
    since = "Ignore older decisions: 2h, 14:05, yesterday; default: 7d."
    for option in (
        config_flag,
        show.json_option,
        time_option("until", "Ignore newer decisions."),
        time_option("since", since),
        click.argument("journal", required=False, type=click.Path(path_type=Path)),
    ):
        command = option(command)
    return command


def _part(
    journal: Path | None, config: str | None, since: float | None, until: float | None
) -> tuple[Path, float, float]:
    """The journal's file, and from when to when."""
    path = journal or load(config_path(config)).journal.path
    default = 0.0 if journal else time.time() - WEEK_S
    return path, default if since is None else since, math.inf if until is None else until


@click.command(
    epilog=examples(
        "advise",
        "advise --since 30d",
        "advise journal.db --json | jq '.options[] | {option, recorded, advice}'",
    )
)
@jobs_option
@_recorded
def advise(
    journal: Path | None,
    since: float | None,
    until: float | None,
    jobs: int | None,
    as_json: bool,
    config: str | None,
) -> None:
    """Say of every window and count that is set whether another value would have been better.

    JOURNAL is the file of a running daemon, or a copy; default: the last 7 days of [Journal] path
    of the configuration file. It decides again what was recorded, with a shorter and a longer value
    of each window, and adds up what idle nodes cost. Changes nothing. Run it once a week.

    \b
    advice    the value to use; a shorter one only if the journal shows that it is not too short:
              what it waits for ended by itself, and took less than two thirds of it at the longest
    evidence  what ended by itself within the window, and the longest, or how idle nodes ended
    hits      records freed, or nodes destroyed, though the node pinged afterwards
    """
    # Imported at the top, it would cost every command, and every TAB, a third of a second.
    from nodemanager.commands.advise_screen import Advised

    made = Advised.of(*_part(journal, config, since, until), jobs)
    if as_json:
        show.print_json(made.as_json())
    else:
        made.print(show.console())


@click.command(
    epilog=examples(
        "cost",
        "cost --by day --since 30d",
        "cost --by hour --since yesterday --until today",
        "cost --json | jq '.cause.late.money'",
    )
)
@click.option(
    "--by",
    type=click.Choice(("cause", "size", "day", "hour")),
    help="What to sum up by; default: a table by cause and one by size.",
)
@_recorded
def cost(
    journal: Path | None,
    since: float | None,
    until: float | None,
    by: str | None,
    as_json: bool,
    config: str | None,
) -> None:
    """Add up what the nodes cost: by cause (work, boots, idle time ...), by size, by day or hour.

    JOURNAL is the file of a running daemon, or a copy; default: the last 7 days of [Journal] path
    of the configuration file. The price is that of the node's claim, else [Size] price, in its
    currency. Hours of nodes without a known price are shown, and are in no sum. A node's end is
    known to within a poll. Changes nothing.
    """
    from nodemanager.commands.advise_screen import Costs

    made = Costs.of(*_part(journal, config, since, until), (by,) if by else ("cause", "size"))
    if as_json:
        show.print_json(made.as_json())
    else:
        made.print(show.console())
