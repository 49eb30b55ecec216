"""Tells and keeps which zones and subnets rest for which sizes (SAFETY.md D6)."""

from __future__ import annotations

from dataclasses import replace

from nodemanager.actors.daemon.context import Context
from nodemanager.core.execute.books import CreateRefused
from nodemanager.core.model.reasons import Event, Reason
from nodemanager.core.observe.snapshot import Rests
from nodemanager.core.plan.places import without_ended
from nodemanager.errors import PlaceFull
from nodemanager.journal.kept import PLACE_RESTS
from nodemanager.logline import timestamp


class PlaceRests:
    """Keeps the rests of places over restarts; `Limits` takes them into every decision.

    A pool whose sizes have no places writes nothing.
    """

    def __init__(self, context: Context) -> None:
        self._context = context

    def refused(self, one: CreateRefused) -> None:
        """Keep and tell the rest of a place that the refusal of a create has begun, if it has."""
        if not isinstance(one.error, PlaceFull):
            return
        rests, place = self._rests, one.error.place
        self._context.journal_writer.keep(PLACE_RESTS, rests)
        for size in one.sizes:
            self._context.log.event(
                Event.PLACE_RESTING,
                reason=Reason.PLACE_RESTS,
                size=size,
                place=place,
                until=timestamp(self._wall(rests[size][place])),
            )

    def tend(self, now: float) -> None:
        """Forget and tell the rests that have ended."""
        before = self._rests
        after = without_ended(before, now)
        if after is before:
            return
        self._take(after)
        self._context.journal_writer.keep(PLACE_RESTS, after)
        for size, places in before.items():
            for place in places.keys() - after.get(size, {}).keys():
                self._context.log.event(Event.PLACE_RESUMED, size=size, place=place)

    def load(self, rests: Rests) -> None:
        """Take the rests of a former run, beside those of this run.

        None lasts longer than a new one would, however our wall clock was set.
        """
        longest = self._context.now + self._context.settings.max_poll_time
        for size, places in rests.items():
            capped = {place: min(until, longest) for place, until in places.items()}
            self._take({**self._rests, size: {**capped, **self._rests.get(size, {})}})

    @property
    def _rests(self) -> Rests:
        return self._context.limits.places

    def _take(self, rests: Rests) -> None:
        books = self._context.books
        self._context.books = replace(books, limits=replace(books.limits, places=rests))

    def _wall(self, at: float) -> float:
        clock = self._context.clock
        return clock.wall() + at - clock.boottime()
