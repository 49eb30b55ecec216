"""What the tests of the EC2 adapter share."""

from __future__ import annotations

import secrets
from typing import Any

from nodemanager.cloud.api import CreateOrder
from nodemanager.cloud.ec2 import Ec2Cloud
from nodemanager.core.model import Size, Tags
from tests.cloud.moto_server import MotoServer

POOL = "blue"
PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB3G5lb1l5yk2z8P2a1KrjI1m0fO4wqBSO2bcwS0b0v1 me\n"
SMALL = Size("m5.large", "m5.large", 2, 8192)


def cloud(server: MotoServer | str, **settings: Any) -> Ec2Cloud:
    """An adapter for that server; `settings` replace the constructor's arguments."""
    url = server if isinstance(server, str) else server.url
    given: dict[str, Any] = {
        "pool": POOL,
        "credentials": {"key": "AKIDEXAMPLE", "secret": "wJalrXUtnFEMI"},
        "listing": {},
        "create": {"image_id": "ami-12345678"},
        "timeout": 20.0,
        **settings,
    }
    given["credentials"] = {"endpoint": url, **given["credentials"]}
    return Ec2Cloud(**given)


def order(
    name: str = "compute-1", *, pool: str = POOL, size: Size = SMALL, **rest: Any
) -> CreateOrder:
    """An order for a node with a record and an incarnation of its own."""
    incarnation = rest.pop("incarnation", None) or secrets.token_hex(16)
    record = rest.pop("record", None) or f"zzzzz-7ekkf-{secrets.token_hex(7)}x"
    return CreateOrder(
        name=name,
        size=size,
        tags=Tags(pool, record, incarnation),
        client_token=rest.pop("client_token", incarnation),
        user_data=rest.pop("user_data", "https://example.org/ping?ping_secret=hush"),
    )
