"""The newest version of each page that somebody looks at.

A page is made once for all who look at it, and no more often than costs a small share of a
processor.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urlencode

from nodemanager.core.explain.explain import DecisionView
from nodemanager.lib import foreign
from nodemanager.lib.workers import Workers
from nodemanager.web.dashboard.render import Page, rendered
from nodemanager.web.dashboard.source import ShownDecision, Source
from nodemanager.web.lists import LISTS

MOST_PAGES = 64
SHARE = 1 / 20
"""The share of a processor that making one page anew may take."""
LONGEST_REST_S = 10.0
CHOICES = {key: None for one in LISTS.values() for key in one.kind.filters}
KNOWN = ("range", "since", "until", *CHOICES, "q", "sort", "only", "before")
LONGEST_VALUE = 200

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
    """The newest version of one page."""

    page: Page | None = None
    made_of: DecisionView | None = None
    rests_until: float = 0.0
    making: asyncio.Lock = field(default_factory=asyncio.Lock)


class Store:
    """Makes pages by `build` in `workers`. For use by one event loop."""

    def __init__(self, source: Source, build: Builder, workers: Workers) -> None:
        self._source = source
        self._build = build
        self._workers = workers
        self._shelves: OrderedDict[Address, _Shelf] = OrderedDict()

    async def newest(self, address: Address, *, at_once: bool = False) -> Page | None:
        """The page of the newest decision, or of one shortly before; None before the first.

        With `at_once` it is of the newest. Raises what building raises, as UnknownIdError.
        """
        shelf = self._shelf(address)
        async with shelf.making:
            seen = self._source.seen()
            if seen is None:
                return None
            if shelf.page is not None:
                rests = not at_once and time.monotonic() < shelf.rests_until
                if rests or shelf.made_of is seen.decision:
                    return shelf.page
            begin = time.monotonic()
            shelf.page = await self._workers.run(self._made, seen, address)
            shelf.made_of = seen.decision
            shelf.rests_until = begin + min((time.monotonic() - begin) / SHARE, LONGEST_REST_S)
            return shelf.page

    def _made(self, seen: ShownDecision, address: Address) -> Page:
        page = self._build(self._source, seen, address.path, dict(address.query))
        html = foreign.shown(rendered("blocks.html.j2", page=page))
        version = hashlib.blake2s(html.encode(), digest_size=8).hexdigest()
        return replace(page, html=html, packed=gzip.compress(html.encode(), 1), version=version)

    def _shelf(self, address: Address) -> _Shelf:
        shelf = self._shelves.setdefault(address, _Shelf())
        self._shelves.move_to_end(address)
        while len(self._shelves) > MOST_PAGES:
            self._shelves.popitem(last=False)
        return shelf
