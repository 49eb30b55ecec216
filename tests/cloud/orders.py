"""Orders for nodes, each with a record and an incarnation of its own."""

from __future__ import annotations

import secrets
import time
from typing import Any

from nodemanager.cloud.api import CloudDriver, CreateOrder
from nodemanager.core.model.world import CloudNode, Size, Tags

POOL = "blue"
LONGEST_S = 30.0
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


def finished(driver: CloudDriver, asked: CreateOrder) -> CloudNode:
    """The node of a create that was asked for until it had ended; raises what it ended with."""
    node = driver.create(asked)
    pending: object = node.pending
    until = time.monotonic() + LONGEST_S
    while isinstance(pending, str) and pending:
        assert time.monotonic() < until, f"the create of {node.name} does not end"
        pending = driver.finish(pending, asked.place)
    if isinstance(pending, Exception):
        raise pending
    return node
