"""A listing of the `nodes` resource that is whole, or says that it is not (SAFETY.md L2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from nodemanager.errors import StoreError, StoreRefused
from nodemanager.records import wire
from nodemanager.records.arvados_client import ArvadosClient

PAGE = 1000
_ADMINISTRATORS_ONLY = ("first_ping_at", "info", "nameservers")
_NOT_ADMINISTRATOR = (
    "the token is not an administrator's: others see only nodes that pinged within the hour;"
    " set [Arvados] token"
)


@dataclass
class Pages:
    """The items of one listing, page by page by uuid, and what was wrong with the pages.

    A page may be shorter than asked for: the end is a page with nothing on it. What a server does
    that ignores the filter or the order shows as uuids that don't rise, or as too few items.
    """

    client: ArvadosClient
    filters: tuple[list[Any], ...] = ()
    problems: list[str] = field(default_factory=list)

    def __iter__(self) -> Iterator[Any]:
        last, got, available = "", 0, 0
        seen: set[str | None] = set()
        while True:
            page, counted = self._page(last)
            if not last and counted is not None:
                available = counted
            if not page:
                break
            require_administrator(page)
            rising = _rising(page, last)
            if rising is None:
                self.problems.append(f"uuids do not rise after {last or 'the start'}")
                # What is new on it was seen all the same (C5).
                yield from (item for item in page if _uuid(item) not in seen)
                return
            yield from page
            got += len(page)
            seen.update(map(_uuid, page))
            last = rising
        if got < available:
            self.problems.append(f"{got} records came where the server counted {available}")

    def _page(self, last: str) -> tuple[list[Any], int | None]:
        filters = [*self.filters, *([["uuid", ">", last]] if last else [])]
        asked: dict[str, Any] = {"limit": PAGE, "order": ["uuid asc"]}
        # The first page's count is what the whole is held against; the others need none.
        asked |= {"count": "none"} if last else {"count": "exact"}
        body = self.client.call("list", filters=filters, **asked).body
        items, counted = body.get("items"), body.get("items_available")
        if not isinstance(items, list):
            raise StoreError("Arvados nodes.list: the answer has no items; see [Arvados] host")
        return items, counted if isinstance(counted, int) else None


def require_administrator(items: list[Any]) -> None:
    """StoreRefused where an item lacks every field that only administrators are shown."""
    for item in items:
        if isinstance(item, dict) and not any(name in item for name in _ADMINISTRATORS_ONLY):
            raise StoreRefused(f"Arvados: {_NOT_ADMINISTRATOR}")


def ask_for_administrator(client: ArvadosClient) -> None:
    """The same asked of the server, for when there are no items to tell by."""
    if client.is_administrator() is False:
        raise StoreRefused(f"Arvados: {_NOT_ADMINISTRATOR}")


def _rising(page: list[Any], last: str) -> str | None:
    """The page's greatest uuid; None where they don't rise from `last` on, or none can be read."""
    begun = last
    for item in page:
        uuid = _uuid(item)
        if uuid is None:
            # It makes the listing incomplete where it is read; the others still page on.
            continue
        if uuid <= last:
            return None
        last = uuid
    return last if last != begun else None


def _uuid(item: Any) -> str | None:
    uuid = item.get("uuid") if isinstance(item, dict) else None
    return uuid if isinstance(uuid, str) and wire.UUID.fullmatch(uuid) else None
