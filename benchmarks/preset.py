"""The daemon's own command, over a dummy cloud that begins with tagged nodes.

`python -m benchmarks.preset ARGUMENTS...` is `nodemanager ARGUMENTS...` but for that: the dummy
cloud lives in the daemon's memory, so that nobody outside can put nodes into it. BENCH_NODES in
the environment says how many, and BENCH_ANSWER_S how many seconds each of the cloud's answers
takes, as one of a cloud at a distance does.
"""

from __future__ import annotations

import os
import time
from typing import Any

from libcloud.compute.base import Node, NodeDriver
from libcloud.compute.drivers.dummy import DummyNodeDriver
from libcloud.compute.types import NodeState

from benchmarks import pools
from nodemanager import cli
from nodemanager.cloud.dummy import adapter as dummy
from nodemanager.core.model.world import Tags
from nodemanager.lib.clock import Clock

ANSWER_S = float(os.environ.get("BENCH_ANSWER_S", "0"))


class Distant(dummy.Dummy):
    """The dummy, which answers late, and finds the nodes with a tag by itself, as clouds do."""

    def by_record(self, driver: NodeDriver, record_uuid: str) -> object:
        time.sleep(ANSWER_S)
        nodes: Any = super().by_record(driver, record_uuid)
        entries = self.book.entries
        if not record_uuid:
            return nodes
        return [node for node in nodes if entries[node.id].tags.record == record_uuid]

    def by_id(self, driver: NodeDriver, node_id: str) -> object | None:
        time.sleep(ANSWER_S)
        return super().by_id(driver, node_id)


def fill(book: dummy.Book, count: int, launched_at: float) -> None:
    """Replace what libcloud's dummy begins with by the nodes of a pool of `count`."""
    driver: Any = book.driver
    assert isinstance(driver, DummyNodeDriver)
    nodes = [_node(number, driver) for number in range(count)]
    driver.nl[:] = nodes
    book.nodes.clear()
    book.entries.clear()
    for number, node in enumerate(nodes):
        tags = Tags(pools.POOL, pools.uuid_of(number), pools.incarnation_of(number))
        book.nodes[node.id] = node
        book.entries[node.id] = dummy.DummyNodeData(launched_at, tags, pools.SIZE.instance_type)


def _node(number: int, driver: DummyNodeDriver) -> Node:
    name = f"compute-{number:012x}-{pools.POOL}"
    address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    node = Node(pools.instance_of(number), name, NodeState.RUNNING, [address], [], driver)
    node.id = pools.instance_of(number)
    return node


def main() -> None:
    count = int(os.environ["BENCH_NODES"])

    open_book = dummy.open_book

    def preset(creds: str, clock: Clock, driver_class: str | None) -> dummy.Book:
        book = open_book(creds, clock, driver_class)
        fill(book, count, clock.wall() - 50_000.0)
        return book

    dummy.open_book = preset
    # mypy takes a class for no variable.
    dummy.Dummy = Distant  # type: ignore[misc]
    cli.main()


if __name__ == "__main__":
    main()
