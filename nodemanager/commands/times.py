"""How a moment is given on the command line, and how moments and spans are shown."""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta

import click

from nodemanager.config import kinds
from nodemanager.logline import timestamp

HOW = "write 14:05, 2026-03-01 14:05, 2026-03-01T14:05:00Z, or 2h for two hours ago"

_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?", re.ASCII)
_DATED = re.compile(r"\d{4}-\d{2}-\d{2}.*", re.ASCII)
_DAYS = {"today": 0, "yesterday": 1}
_duration = kinds.duration()


def moment(text: str, now: float) -> float:
    """The epoch seconds that `text` means at `now` (epoch seconds).

    RFC 3339, with a blank for the T, local time without an offset, and with any end left out down
    to the date; `14:05`, the newest one that is not to come; `2h` or `2h ago`; `now`; `today` and
    `yesterday`, from midnight on. Raises ValueError, whose text says how one is written.
    """
    written = text.strip()
    if written.lower() == "now":
        return now
    if written.lower() in _DAYS:
        return _midnight(now, _DAYS[written.lower()])
    clock = _CLOCK.fullmatch(written)
    if clock is not None:
        return _last(int(clock[1]), int(clock[2]), int(clock[3] or 0), now)
    if _DATED.fullmatch(written):
        return _dated(written)
    ago = written.lower().removesuffix("ago").strip()
    if ago and ago[-1] in "smhd":
        try:
            return now - _duration.parse(ago)
        except ValueError as error:
            raise ValueError(f"{text!r}: {error}") from error
    raise ValueError(f"{text!r} is no time: {HOW}")


def _dated(written: str) -> float:
    try:
        # It reads an offset, or none: then astimezone takes this machine's own.
        return datetime.fromisoformat(written.upper().replace(" ", "T")).astimezone().timestamp()
    except (ValueError, OverflowError, OSError) as error:
        raise ValueError(f"{written!r} is no time: {HOW}") from error


def _midnight(now: float, days_ago: int) -> float:
    day = datetime.fromtimestamp(now).replace(hour=0, minute=0, second=0, microsecond=0)
    return (day - timedelta(days=days_ago)).timestamp()


def _last(hour: int, minute: int, second: int, now: float) -> float:
    # Naive on purpose: the wall time of this machine's zone, whatever its offset is on that day.
    here = datetime.fromtimestamp(now)
    try:
        at = here.replace(hour=hour, minute=minute, second=second, microsecond=0)
    except ValueError as error:
        raise ValueError(f"{hour}:{minute:02d} is no time of a day") from error
    return (at if at <= here else at - timedelta(days=1)).timestamp()


def given(text: str) -> float:
    """The moment that an option's value means: `click.option("--since", type=given)`."""
    try:
        return moment(text, time.time())
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def local(at: float) -> str:
    """Epoch seconds for whoever sits before a terminal: `2026-03-01 14:05:07`, local time."""
    return datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M:%S")


def told(at: float, *, terminal: bool) -> str:
    """Local time on a terminal, RFC 3339 in UTC for whatever reads a pipe."""
    return local(at) if terminal else timestamp(at)


def span(seconds: float) -> str:
    """A length of time in its two largest units: `45s`, `3m 20s`, `2h 05m`, `3d 04h`."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    minutes, second = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m {second:02d}s"
    hours, minute = divmod(minutes, 60)
    if hours < 24:
        return f"{hours}h {minute:02d}m"
    days, hour = divmod(hours, 24)
    return f"{days}d {hour:02d}h"
