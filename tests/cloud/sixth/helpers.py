"""What the tests of the worked example share."""

from __future__ import annotations

from typing import Any

from nodemanager.cloud.api import CloudDriver, CreateOrder
from nodemanager.core.model.world import Size
from tests.cloud.cloud_config import cloud_config
from tests.cloud.orders import POOL, order_for
from tests.cloud.sixth.adapter import build_cloud
from tests.cloud.sixth.server import IMAGE, REGION, TOKEN, DigitalOceanServer
from tests.cloud.sixth.wire import PAGE_SIZE

SMALL = Size("s-1vcpu-1gb", "s-1vcpu-1gb", 1, 1024)


def cloud(
    server: DigitalOceanServer | str,
    *,
    timeout: float = 60.0,
    page_size: int = PAGE_SIZE,
    **settings: Any,
) -> CloudDriver:
    """An adapter for that server; `settings` replace parts of its configuration."""
    url = server if isinstance(server, str) else server.url
    given: dict[str, Any] = {"pool": POOL, "credentials": {}, "create": {}, **settings}
    given["credentials"] = {"endpoint": url, "token": TOKEN, **given["credentials"]}
    given["create"] = {"region": REGION, "image": IMAGE, **given["create"]}
    return build_cloud(cloud_config(**given), timeout=timeout, page_size=page_size)


def order(name: str = "compute1", *, size: Size = SMALL, **rest: Any) -> CreateOrder:
    """An order for a droplet with a record and an incarnation of its own."""
    return order_for(name, size, **rest)
