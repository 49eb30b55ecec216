"""Calls of the `nodes` resource of an Arvados server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from nodemanager.arvados_api.client import ApiClient, ArvadosAnswer, methods_of
from nodemanager.errors import StoreError, StoreRefused
from nodemanager.records import wire

__all__ = ["NO_RESOURCE", "ArvadosAnswer", "ArvadosClient"]
NO_RESOURCE = (
    "this Arvados server has no `nodes` resource (3.0 removed it); keep the records in the"
    " registry instead: [Records] provider = registry"
)


class ArvadosClient:
    """The calls that the record store needs, safe to use from many threads.

    Raises only StoreError and its subclasses; a server without the resource is a StoreRefused.
    """

    def __init__(self, api: ApiClient) -> None:
        self._api = api

    def call(self, method: str, *, slot_asked: bool = False, **parameters: Any) -> ArvadosAnswer:
        """Call `nodes.METHOD`; drops `count` where the server does not know it."""
        known = self._api.methods("nodes")
        if not known:
            # The server may get the resource, as after a start in the wrong order.
            self._api.forget()
            raise StoreRefused(f"Arvados {self._api.host}: {NO_RESOURCE}")
        if "count" not in known.get(method, {}).get("parameters", {}):
            parameters.pop("count", None)
        if slot_asked:
            parameters["assign_slot"] = True
        return self._api.execute("nodes", method, parameters, slot_asked=slot_asked)

    @property
    def token(self) -> str:
        return self._api.token

    def renew(self, token: str) -> None:
        """Send this token with every call that begins from now on."""
        self._api.renew(token)

    def is_administrator(self) -> bool | None:
        """Whether the token is an administrator's; None where the server has no users."""
        return self._api.is_administrator()

    def document(self) -> dict[str, Any]:
        body = self._api.document()
        if not methods_of(body, "nodes"):
            raise StoreRefused(f"Arvados {self._api.host} discovery: {NO_RESOURCE}")
        return body

    def post(self, url: str, form: Mapping[str, str], timeout: float) -> tuple[int, bytes]:
        """Status and body of a POST without a token, as a node sends it."""
        return self._api.post(url, form, timeout)


# A listing of the `nodes` resource that detects when it is incomplete (SAFETY.md L2).

PAGE = 1000
_ADMINISTRATORS_ONLY = ("first_ping_at", "info", "nameservers")
_NOT_ADMINISTRATOR = (
    "the token is not an administrator's: others see only nodes that pinged within the hour;"
    " set [Arvados] token"
)


@dataclass
class Pages:
    """The items of one listing, read page by page by uuid, and the problems of the pages.

    A page may be shorter than asked for: only an empty page is the end. A server that ignores the
    filter or the order shows by uuids that don't rise, or by too few items.
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
                # The page's new items still count as seen (C5).
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
        # The whole listing is compared with the first page's count; the others need none.
        asked |= {"count": "none"} if last else {"count": "exact"}
        body = self.client.call("list", filters=filters, **asked).body
        items, counted = body.get("items"), body.get("items_available")
        if not isinstance(items, list):
            raise StoreError("Arvados nodes.list: the answer has no items; see [Arvados] host")
        return items, counted if isinstance(counted, int) else None


def require_administrator(items: list[Any]) -> None:
    """Raise StoreRefused where an item lacks every field that only administrators see."""
    for item in items:
        if isinstance(item, dict) and not any(name in item for name in _ADMINISTRATORS_ONLY):
            raise StoreRefused(f"Arvados: {_NOT_ADMINISTRATOR}")


def ask_for_administrator(client: ArvadosClient) -> None:
    """Raise StoreRefused where the server says that the token is not an administrator's."""
    if client.is_administrator() is False:
        raise StoreRefused(f"Arvados: {_NOT_ADMINISTRATOR}")


def _rising(page: list[Any], last: str) -> str | None:
    """The page's greatest uuid; None where its uuids don't rise from `last`, or are unreadable."""
    begun = last
    for item in page:
        uuid = _uuid(item)
        if uuid is None:
            # Reading such an item makes the listing incomplete; the others still allow paging.
            continue
        if uuid <= last:
            return None
        last = uuid
    return last if last != begun else None


def _uuid(item: Any) -> str | None:
    uuid = item.get("uuid") if isinstance(item, dict) else None
    return uuid if isinstance(uuid, str) and wire.UUID.fullmatch(uuid) else None
