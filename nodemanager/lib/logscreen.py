"""The log for people, on a terminal: local time, aligned, short ids, colours, and fewer lines.

A file, a pipe and the journal get every line, with whole ids (`logline`).
"""

from __future__ import annotations

import os
import re
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from nodemanager.core.model.reasons import Event, is_flip
from nodemanager.lib.logline import Fields, measure, visible

SUMMARY_EVERY_S = 60.0
"""How often a cycle that did nothing is shown."""
DEEDS = ("boots", "shutdowns", "cleans", "deferred")
"""The counts of a cycle's summary that say that something was done."""

TAIL = 6
"""The number of characters shown after an id's last dash; more where two ids look alike."""
MOST_IDS = 20_000
IDS = ("record", "node")
HIDDEN = frozenset({"ts", "event", "level", "reason", "host", "plan", "mode", "incarnation", *IDS})

RESET = "\x1b[0m"
CODES = {
    "bold": 1,
    "dim": 2,
    "red": 31,
    "green": 32,
    "yellow": 33,
    "magenta": 35,
    "cyan": 36,
}
"""The escape code of each word of a style."""
ALARM = "bold red"
ALARMS = frozenset({"opened", "false", "invariant", "died"})
"""Words of the names of events that stop the pool, or say that a promise was broken."""
LEVELS = {"critical": ALARM, "error": ALARM, "warning": "yellow"}
STYLES = (
    ({"operator", "breaker", "config"}, "magenta"),
    ({"clean", "shutdown", "setup", "claimed"}, "cyan"),
    ({"cleaned", "created", "gone", "restored", "paired", "started"}, "green"),
)
"""The style of an event that is no warning, by the words of its name; the first that fits
counts."""
_WORDS = re.compile("[._]")


class Shortened:
    """Ids as short as they may be: each a beginning that no other known id has."""

    def __init__(self, ids: Iterable[str] = ()) -> None:
        self._known = sorted(set(ids))

    def of(self, id: str) -> str:
        """The beginning of `id`, which is known from now on."""
        place = bisect_left(self._known, id)
        if self._known[place : place + 1] != [id]:
            if len(self._known) >= MOST_IDS:
                self._known, place = [], 0
            self._known.insert(place, id)
        beside = self._known[max(0, place - 1) : place] + self._known[place + 1 : place + 2]
        alike = max((len(os.path.commonprefix([id, one])) for one in beside), default=0)  # noqa: RUF071 - by character
        return id[: max(id.rfind("-") + 1 + TAIL, alike + 1)]


class Screen:
    """Renders events for a terminal, and says which are shown there."""

    def __init__(self, *, colours: bool) -> None:
        self._colours = colours
        self._short = Shortened()
        self._summary_at = float("-inf")

    def shows(self, fields: Fields, at: float, *, debug: bool) -> bool:
        """Whether the line of an event logged `at` (epoch seconds) is shown; `debug` shows all."""
        if debug:
            return True
        event = fields.get("event")
        if event == Event.CYCLE_DONE:
            is_idle = not any(fields.get(key) for key in DEEDS)
            if is_idle and at - self._summary_at < SUMMARY_EVERY_S:
                return False
            self._summary_at = at
            return True
        return not is_flip(event, fields.get("reason"))

    def line(self, fields: Fields, at: float, level: str) -> str:
        """One line: time, event, reason, whom it is about, and the measures."""
        event, reason = str(fields.get("event", "")), fields.get("reason")
        style = style_of(event, level)
        parts = [
            self._in("dim", time.strftime("%H:%M:%S", time.localtime(at))),
            self._in(style, f"{visible(event):<21}"),
            self._in("bold", f"{visible(str(reason or '')):<22}"),
            self._whom(fields),
        ]
        more = [measure(key, value) for key, value in self._rest(event, fields)]
        parts.append(self._in("dim", "  ".join(one for one in more if one)))
        if level in LEVELS:
            parts.insert(1, self._in(style, level.upper()))
        return " ".join(part for part in parts if part).rstrip()

    def _rest(self, event: str, fields: Fields) -> Iterator[tuple[str, Any]]:
        """What is shown beside: no zero of a summary, and no name that is the host's."""
        for key, value in fields.items():
            is_zero = event == Event.CYCLE_DONE and value == 0
            is_host = key == "name" and value == fields.get("host")
            if key not in HIDDEN and not is_zero and not is_host:
                yield key, value

    def _whom(self, fields: Fields) -> str:
        """The host and the node, or the record where neither is known."""
        node, record = fields.get("node"), fields.get("record")
        named = [fields.get("host"), None if node is None else self._short.of(str(node))]
        if record is not None and named == [None, None]:
            named.append(self._short.of(str(record)))
        return " ".join(visible(str(one)) for one in named if one)

    def _in(self, style: str, text: str) -> str:
        if not (self._colours and style and text.strip()):
            return text
        codes = "".join(f"\x1b[{CODES[word]}m" for word in style.split())
        return f"{codes}{text}{RESET}"


def wants_colours(environ: Mapping[str, str]) -> bool:
    """Whether a terminal with that environment is to get colours (NO_COLOR, TERM=dumb)."""
    return not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def is_terminal(descriptor: int | None) -> bool:
    try:
        return descriptor is not None and os.isatty(descriptor)
    except OSError:
        return False


def style_of(event: str, level: str) -> str:
    """The style of an event's name, in rich's words, by its level in lower case; blank for none."""
    named = frozenset(_WORDS.split(event))
    if named & ALARMS or level in LEVELS:
        return ALARM if named & ALARMS else LEVELS[level]
    return next((style for words, style in STYLES if words & named), "")
