"""The newest version of each page that somebody looks at, and the few before it.

A page is made once for all who look at it, and no more often than costs a small share of a
processor. Whoever knows an earlier version gets only what changed since.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urlencode

from nodemanager.core.explain.picture import Picture
from nodemanager.logline import Json
from nodemanager.web.dashboard.page import Page, changes
from nodemanager.web.dashboard.source import ShownDecision, Source
from nodemanager.workers import Workers

MOST_PAGES = 64
KEPT_VERSIONS = 6
SHARE = 1 / 20
"""The share of a processor that making one page anew may take."""
LONGEST_REST_S = 10.0
KNOWN = ("range", "from", "to", "state", "size", "reason", "q", "sort", "only", "before", "until")
LONGEST_VALUE = 200
WHOLE: Json = {"whole": True}

Builder = Callable[[Source, ShownDecision, str, Mapping[str, str]], Page]


@dataclass(frozen=True)
class Address:
    """What a page is found by: its path, and those keys of the query that any page knows."""

    path: str
    query: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, path: str, query: Mapping[str, str]) -> Address:
        given = {key: query[key][:LONGEST_VALUE] for key in KNOWN if query.get(key)}
        return cls(path, tuple(given.items()))

    def __str__(self) -> str:
        return self.path + (f"?{urlencode(self.query)}" if self.query else "")


@dataclass
class _Shelf:
    """The versions of one page, the newest last."""

    versions: OrderedDict[str, Page] = field(default_factory=OrderedDict)
    made_of: Picture | None = None
    rests_until: float = 0.0
    making: asyncio.Lock = field(default_factory=asyncio.Lock)
    told: dict[tuple[str, str], Json | None] = field(default_factory=dict)

    @property
    def newest(self) -> Page | None:
        return next(reversed(self.versions.values()), None)


class Store:
    """Makes pages by `build` in `workers`. For use by one event loop."""

    def __init__(self, source: Source, build: Builder, workers: Workers) -> None:
        self._source = source
        self._build = build
        self._workers = workers
        self._shelves: OrderedDict[Address, _Shelf] = OrderedDict()
        self._run = secrets.token_hex(4)
        self._count = 0

    async def newest(self, address: Address, *, at_once: bool = False) -> Page | None:
        """The page of the newest decision, or of one shortly before; None before the first.

        With `at_once` it is of the newest. Raises what building raises, as UnknownIdError.
        """
        shelf = self._shelf(address)
        async with shelf.making:
            seen = self._source.seen()
            if seen is None:
                return None
            newest = shelf.newest
            if newest is not None and shelf.made_of is seen.picture:
                return newest
            if newest is not None and not at_once and time.monotonic() < shelf.rests_until:
                return newest
            begin = time.monotonic()
            query = dict(address.query)
            made = await self._workers.run(self._build, self._source, seen, address.path, query)
            took_s = time.monotonic() - begin
            shelf.rests_until = begin + min(took_s / SHARE, LONGEST_REST_S)
            shelf.made_of = seen.picture
            return self._put(shelf, made)

    def since(self, address: Address, version: str, page: Page) -> Json | None:
        """What changed from that version to `page`, which is the newest; None for nothing."""
        shelf = self._shelf(address)
        key = (version, page.version)
        if key not in shelf.told:
            old = shelf.versions.get(version)
            shelf.told[key] = WHOLE if old is None else changes(old, page)
        return shelf.told[key]

    def _put(self, shelf: _Shelf, made: Page) -> Page:
        newest = shelf.newest
        if newest is not None and changes(newest, made) is None:
            return newest
        self._count += 1
        page = replace(made, version=f"{self._run}-{self._count}")
        shelf.versions[page.version] = page
        shelf.told.clear()
        while len(shelf.versions) > KEPT_VERSIONS:
            shelf.versions.popitem(last=False)
        return page

    def _shelf(self, address: Address) -> _Shelf:
        shelf = self._shelves.setdefault(address, _Shelf())
        self._shelves.move_to_end(address)
        while len(self._shelves) > MOST_PAGES:
            self._shelves.popitem(last=False)
        return shelf
