"""The running cloud as the contract suite sees it (tests/contract/clouds.py)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from nodemanager.cloud.api import CloudDriver
from nodemanager.cloud.openstack.wire import Wire
from nodemanager.core.model.world import CloudState
from tests.contract.cloud_fixture import CloudFixture, method_through
from tests.openstack.hand import shared


@contextmanager
def real_openstack(_tmp_path: Path) -> Iterator[CloudFixture]:
    """For the contract suite (tests/contract/clouds.py)."""
    with ExitStack() as closing:
        hand = shared()
        closing.callback(hand.clear)
        freezing = closing.enter_context(ExitStack())

        def open_cloud(pool: str) -> CloudDriver:
            cloud = hand.adapter(pool=pool)
            closing.callback(cloud.close)
            return cloud

        def half_deleted(node_id: str) -> None:
            hand.wait(node_id, "ACTIVE")
            freezing.enter_context(hand.compute_frozen())
            hand.member.compute.delete_server(node_id)

        def without_image() -> CloudDriver:
            cloud = hand.adapter(create={"image": "no-such"})
            closing.callback(cloud.close)
            return cloud

        yield CloudFixture(
            open=open_cloud,
            listing_through=lambda change: method_through(Wire, "servers", change),
            states={
                CloudState.RUNNING: lambda node_id: hand.wait(node_id, "ACTIVE"),
                CloudState.STOPPED: hand.stop,
                CloudState.STOPPING: half_deleted,
            },
            pin=hand.pin,
            by_hand=hand.by_hand,
            without_image=without_image,
            unknown_id="6695eb01-0000-4000-8000-97f2502e193f",
        )
