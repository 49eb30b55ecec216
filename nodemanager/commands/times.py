"""Times on the command line: how users write them, and how times and durations are shown."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import datetime, timedelta

import click

from nodemanager.lib.logline import timestamp

HOW = "write 14:05, 2026-03-01 14:05, 2026-03-01T14:05:00Z, or 2h for two hours ago"

_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?", re.ASCII)
_DATED = re.compile(r"\d{4}-\d{2}-\d{2}.*", re.ASCII)
_DAYS = {"today": 0, "yesterday": 1}


def moment(text: str, now: float) -> float:
    """The epoch seconds that `text` means at `now` (epoch seconds).

    Takes RFC 3339, also with a blank for the T, without an offset (local time), or shortened down
    to the date; `14:05`, the last time it was that late; `2h` or `2h ago`; `now`; `today` and
    `yesterday`, from midnight on. Raises ValueError, whose text says how to write a time.
    """
    written = text.strip()
    if written.lower() == "now":
        return now
    if written.lower() in _DAYS:
        day = datetime.fromtimestamp(now).replace(hour=0, minute=0, second=0, microsecond=0)
        return (day - timedelta(days=_DAYS[written.lower()])).timestamp()
    clock = _CLOCK.fullmatch(written)
    if clock is not None:
        return _last(int(clock[1]), int(clock[2]), int(clock[3] or 0), now)
    if _DATED.fullmatch(written):
        return _dated(written)
    ago = written.lower().removesuffix("ago").strip()
    if ago and ago[-1] in "smhd":
        from nodemanager.config import kinds

        try:
            return now - kinds.duration().parse(ago)
        except ValueError as error:
            raise ValueError(f"{text!r}: {error}") from error
    raise ValueError(f"{text!r} is not a time: {HOW}")


def _dated(written: str) -> float:
    try:
        # Without an offset in the text, astimezone takes this machine's own.
        return datetime.fromisoformat(written.upper().replace(" ", "T")).astimezone().timestamp()
    except (ValueError, OverflowError, OSError) as error:
        raise ValueError(f"{written!r} is not a time: {HOW}") from error


# Naive on purpose: local wall times, whatever the zone's offset is on that day. `fold` is 0 for the
# first and 1 for the second of two moments with the same wall time.


def _last(hour: int, minute: int, second: int, now: float) -> float:
    here = datetime.fromtimestamp(now)
    try:
        today = here.replace(hour=hour, minute=minute, second=second, microsecond=0)
    except ValueError as error:
        raise ValueError(f"{hour}:{minute:02d} is not a time of day") from error
    days = today, today - timedelta(days=1)
    moments = (day.replace(fold=fold).timestamp() for day in days for fold in (0, 1))
    return max(at for at in moments if at <= now)


def _given(text: str) -> float:
    try:
        return moment(text, time.time())
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def time_option(name: str, help: str) -> Callable[[click.decorators.FC], click.decorators.FC]:
    """The option --NAME TIME, whose value is epoch seconds; --until must be after --since."""
    return click.option(
        f"--{name}", type=_given, metavar="TIME", help=help, callback=_after_the_other
    )


def _after_the_other(
    ctx: click.Context, param: click.Parameter, value: float | None
) -> float | None:
    """Checks the range once the second of its ends is read, in whatever order they were given."""
    ends = {**ctx.params, param.name: value}
    since, until = ends.get("since"), ends.get("until")
    if since is not None and until is not None and until <= since:
        raise click.UsageError("--until must be a time after --since")
    return value


def local(at: float) -> str:
    """Epoch seconds as local time, for a terminal: `2026-03-01 14:05:07`."""
    return datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M:%S")


def time_text(at: float, *, terminal: bool) -> str:
    """Epoch seconds as local time on a terminal, as RFC 3339 in UTC in a pipe."""
    return local(at) if terminal else timestamp(at)
