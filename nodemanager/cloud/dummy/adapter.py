"""The `dummy` cloud: libcloud's own in-memory driver, for trials and benchmarks.

libcloud's dummy takes no tags, names or client tokens and gives no launch time. It numbers nodes
by how many there are, so it reuses an id after a destroy. Therefore the adapter keeps tags,
tokens and launch times in a book beside the driver, and gives each node an id of its own.
Everything is lost when the process ends.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from libcloud.compute.base import NodeDriver
from libcloud.compute.drivers.dummy import DummyNodeDriver

from nodemanager.cloud.api import CreateOrder
from nodemanager.cloud.declared import CloudConfig
from nodemanager.cloud.libcloud_base import LibcloudCloud, load_driver_class
from nodemanager.cloud.provider import Provider
from nodemanager.cloud.reading import NodeReader, sizes_from
from nodemanager.cloud.refusal import translate
from nodemanager.core.model.world import NO_TAGS, CloudState, Outcome, Size, Tags
from nodemanager.errors import BadRequest
from nodemanager.lib.clock import Clock

STATES: Mapping[str, CloudState] = {
    "running": CloudState.RUNNING,
    "rebooting": CloudState.RUNNING,
    "reconfiguring": CloudState.RUNNING,
    "updating": CloudState.RUNNING,
    "migrating": CloudState.RUNNING,
    "normal": CloudState.RUNNING,
    "starting": CloudState.PENDING,
    "pending": CloudState.PENDING,
    "stopping": CloudState.STOPPING,
    "stopped": CloudState.STOPPED,
    "suspended": CloudState.STOPPED,
    "paused": CloudState.STOPPED,
    "error": CloudState.STOPPED,
    "terminated": CloudState.TERMINATED,
}


@dataclass(frozen=True, slots=True)
class DummyNodeData:
    """What libcloud's dummy can't keep about a node. `created_at` is epoch seconds."""

    created_at: float
    tags: Tags = NO_TAGS
    size: str | None = None


@dataclass(slots=True)
class Book:
    """The state of one dummy cloud; several adapters may share it, under `lock`."""

    driver: NodeDriver
    lock: threading.RLock = field(default_factory=threading.RLock)
    entries: dict[str, DummyNodeData] = field(default_factory=dict)
    nodes: dict[str, Any] = field(default_factory=dict)
    by_token: dict[str, Any] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))


def open_book(creds: str, clock: Clock, driver_class: str | None) -> Book:
    """A new dummy cloud; raises CloudError where a `driver_class` does not open."""
    driver_type = load_driver_class(driver_class, DummyNodeDriver, base=NodeDriver)
    try:
        book = Book(driver_type(creds))
        started_with = book.driver.list_nodes()
    except Exception as error:
        raise translate(error, "open the dummy cloud") from error
    for node in started_with if isinstance(started_with, list) else ():
        if node is not None:
            # libcloud gives its first node the number 0, which it turns into no id at all.
            node.id = node.id or "0"
            book.entries[node.id] = DummyNodeData(created_at=clock.wall())
            book.nodes[node.id] = node
    return book


@dataclass(frozen=True, slots=True)
class Dummy(Provider):
    """libcloud's dummy. Its nodes live in the driver object, so all threads share one and take
    turns."""

    book: Book
    creds: str
    clock: Clock

    name = "dummy"
    visible_after = 0.0
    ids_unique = True
    takes_client_tokens = True
    may_authorise = True

    def new_driver(self) -> NodeDriver:
        return self.book.driver

    def sizes(self, driver: NodeDriver) -> tuple[Size, ...]:
        """The sizes by their names, such as Medium, as the forerunner's example has them."""
        listed = driver.list_sizes()
        names = {str(raw.id): str(raw.name) for raw in listed}
        return tuple(
            replace(size, name=names[size.name], instance_type=names[size.name])
            for size in sizes_from(listed)
        )

    def account(self, driver: NodeDriver) -> str:
        return f"dummy:{self.creds}"

    def listings(self, driver: NodeDriver) -> Sequence[tuple[object, bool]]:
        return [(self.by_record(driver, ""), False)]

    def by_record(self, driver: NodeDriver, record_uuid: str) -> object:
        with self.book.lock:
            answer = driver.list_nodes()
            # libcloud returns its own list, which the next create changes; so copy it.
            return list(answer) if isinstance(answer, list) else answer

    def by_id(self, driver: NodeDriver, node_id: str) -> object | None:
        return self.book.nodes.get(node_id)

    def create(self, driver: NodeDriver, order: CreateOrder) -> object:
        with self.book.lock:
            made = self.book.by_token.get(order.client_token)
            if made is not None:
                return made
            node: Any = driver.create_node(name=order.name, size=None, image=None)
            node.id = f"dummy-{next(self.book.numbers)}"
            node.name = order.name
            self.book.entries[node.id] = DummyNodeData(
                created_at=self.clock.wall(), tags=order.tags, size=order.size.instance_type
            )
            self.book.nodes[node.id] = node
            self.book.by_token[order.client_token] = node
            return node

    def adopt(self, driver: NodeDriver, node_id: str, tags: Tags) -> None:
        with self.book.lock:
            if node_id not in self.book.nodes:
                raise BadRequest(f"there is no node {node_id}")
            self.book.entries[node_id] = replace(self.book.entries[node_id], tags=tags)

    def destroy(self, driver: NodeDriver, node_id: str) -> Outcome:
        with self.book.lock:
            node = self.book.nodes.get(node_id)
            if node is None:
                return Outcome.UNKNOWN
            if not driver.destroy_node(node):
                return Outcome.FAILED
            del self.book.nodes[node_id]
            return Outcome.GONE


def build_cloud(config: CloudConfig, *, book: Book | None = None) -> LibcloudCloud:
    """A CloudDriver over libcloud's dummy driver, or over the `book` of another one.

    The key `creds` of the credentials goes to the driver: for a number N it starts with N nodes
    that are not ours, for anything else with two.
    """
    creds = config.credentials.get("creds", "dummy")
    shared = book or open_book(creds, config.clock, config.driver_class)
    reader = NodeReader(
        STATES,
        tags=lambda raw: shared.entries[raw.id].tags,
        created_at=lambda raw: shared.entries[raw.id].created_at,
        size=lambda raw: shared.entries[raw.id].size,
    )
    return LibcloudCloud(config, Dummy(shared, creds, config.clock), reader)
