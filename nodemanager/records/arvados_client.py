"""Calls of the `nodes` resource of an Arvados server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nodemanager.arvados_api.client import ApiClient, ArvadosAnswer, methods_of
from nodemanager.errors import StoreRefused

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
        """The token that calls send now."""
        return self._api.token

    def renew(self, token: str) -> None:
        """Send this token with every call that begins from now on."""
        self._api.renew(token)

    def is_administrator(self) -> bool | None:
        """Whether the token is an administrator's; None where the server has no users."""
        return self._api.is_administrator()

    def document(self) -> dict[str, Any]:
        """The current discovery document."""
        body = self._api.document()
        if not methods_of(body, "nodes"):
            raise StoreRefused(f"Arvados {self._api.host} discovery: {NO_RESOURCE}")
        return body

    def post(self, url: str, form: Mapping[str, str], timeout: float) -> tuple[int, bytes]:
        """Status and body of a POST without a token, as a node sends it."""
        return self._api.post(url, form, timeout)
