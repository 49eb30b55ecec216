"""Orders for nodes, each with a record and an incarnation of its own."""

from __future__ import annotations

import secrets
from typing import Any

from nodemanager.cloud.api import CreateOrder
from nodemanager.core.model.world import Size, Tags

POOL = "blue"
PING_URL = "https://example.org/ping?ping_secret=hush"


def order_for(name: str, size: Size, *, pool: str = POOL, **rest: Any) -> CreateOrder:
    """An order; `rest` is its incarnation, record, client_token, user_data or place."""
    incarnation = rest.get("incarnation") or secrets.token_hex(16)
    record = rest.get("record") or f"zzzzz-7ekkf-{secrets.token_hex(7)}x"
    return CreateOrder(
        name=name,
        size=size,
        tags=Tags(pool, record, incarnation, size.name),
        client_token=rest.get("client_token", incarnation),
        user_data=rest.get("user_data", PING_URL),
        place=rest.get("place"),
    )
