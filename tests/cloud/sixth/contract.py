"""The worked example as a cloud of the contract suite, and as one that misbehaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from nodemanager.cloud.api import CloudDriver
from nodemanager.core.model.world import CloudState
from tests.cloud.sixth import helpers, server
from tests.cloud.sixth.wire import Wire
from tests.cloud.world import World
from tests.contract.cloud_fixture import CloudFixture, method_through
from tests.live.proxy import Proxy


@contextmanager
def digitalocean_cloud(_tmp_path: Path) -> Iterator[CloudFixture]:
    """A server of DigitalOcean's API over HTTP; its droplets have the fields of those that libcloud
    recorded.
    """
    here = server.shared()
    here.reset()
    opened: list[CloudDriver] = []

    def open_cloud(pool: str) -> CloudDriver:
        opened.append(helpers.cloud(here, pool=pool, page_size=2))
        return opened[-1]

    def put(status: str) -> Callable[[str], None]:
        return lambda node_id: here.put(node_id, status)

    try:
        yield CloudFixture(
            open=open_cloud,
            listing_through=lambda change: method_through(Wire, "droplets", change),
            states={
                CloudState.PENDING: put("new"),
                CloudState.RUNNING: put("active"),
                CloudState.STOPPED: put("off"),
                CloudState.UNKNOWN: put("archive"),
            },
            by_hand=here.make,
            without_image=lambda: helpers.cloud(here, create={"image": "no-such-image"}),
            unknown_id="1234567",
        )
    finally:
        for cloud in opened:
            cloud.close()
        here.reset()


@contextmanager
def digitalocean_world() -> Iterator[World]:
    here = server.shared()
    here.reset()
    with closing(Proxy(here.url, lambda _: "?")) as way:
        yield World(
            open=lambda timeout: helpers.cloud(way.url, timeout=timeout, page_size=2),
            straight=helpers.cloud(here, page_size=2),
            meeting=way.meeting,
            order=helpers.order,
            by_hand=here.make,
            vanish=here.forget,
            ends_nothing=lambda: setattr(here, "ends_nothing", True),
        )
    here.reset()
