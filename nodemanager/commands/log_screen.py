"""A logged event's line on a terminal, for `nodemanager log`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.text import Text

from nodemanager.commands import show
from nodemanager.commands.times import local
from nodemanager.core.model.reasons import Event, is_flip
from nodemanager.journal.event import LEVEL, LoggedEvent
from nodemanager.lib.logline import measure
from nodemanager.lib.logscreen import style_of

MOST_NAMES = 4


def line_of(one: LoggedEvent) -> Text:
    """An event's line for a terminal: time, event, reason, subject and measures."""
    line = Text(f"{local(one.at)}  ", style="dim")
    line.append(f"{one.event:<21} ", style=f"not dim {style_of(one.event, one.level)}")
    line.append(f"{one.reason or '':<22} ", style="not dim bold")
    whom = [one.host or "", one.record or "", one.node or ""]
    line.append(show.cell(" ".join(word for word in whom if word), "not dim"))
    for key, value in one.more.items():
        if value is not None and key != LEVEL:
            line.append("  ").append(show.cell(measure(key, value), "dim"))
    return line


class Folding:
    """Folds what says only that nodes turned busy or idle, as most events of a busy pool do."""

    def __init__(self, *, folds: bool = True) -> None:
        self._folds = folds
        self._turns: list[LoggedEvent] = []

    def take(self, news: Iterable[LoggedEvent]) -> Iterator[LoggedEvent]:
        """The events, turns in a row as one; the last turns are kept for those to come."""
        for one in news:
            if self._folds and is_flip(one.event, one.reason):
                self._turns.append(one)
                continue
            yield from self.rest()
            yield one

    def rest(self) -> Iterator[LoggedEvent]:
        """What is kept."""
        turns, self._turns = self._turns, []
        if len(turns) < 2:
            yield from turns
            return
        names = list(dict.fromkeys(one.host or one.node or "" for one in turns))
        more = " ..." if len(names) > MOST_NAMES else ""
        yield LoggedEvent(
            turns[0].at,
            Event.NODE_KEEP.value,
            "busy or idle",
            host=" ".join(names[:MOST_NAMES]) + more,
            more={"times": len(turns), "until": local(turns[-1].at).split()[-1]},
        )
