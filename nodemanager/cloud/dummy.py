"""The `dummy` cloud: libcloud's own in-memory driver, for trials and benchmarks.

libcloud's dummy takes no tags, names or client tokens and gives no launch time. It numbers nodes
by how many there are, so it reuses an id after a destroy. Therefore the adapter keeps tags,
tokens and launch times in a book beside the driver, and gives each node an id of its own.
Everything is lost when the process ends.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

from libcloud.compute.base import NodeDriver
from libcloud.compute.drivers.dummy import DummyNodeDriver

from nodemanager.clock import Clock
from nodemanager.cloud.api import CreateOrder
from nodemanager.cloud.libcloud_base import LibcloudCloud
from nodemanager.core.model import NO_TAGS, CloudState, Leftover, Outcome, Tags
from nodemanager.errors import BadRequest

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Entry:
    """What libcloud's dummy can't keep about a node. `created_at` is epoch seconds."""

    created_at: float
    tags: Tags = NO_TAGS
    size: str | None = None


@dataclass(slots=True)
class Book:
    """The state of one dummy cloud; several adapters may share it, under `lock`."""

    driver: NodeDriver
    lock: threading.RLock = field(default_factory=threading.RLock)
    entries: dict[str, Entry] = field(default_factory=dict)
    nodes: dict[str, Any] = field(default_factory=dict)
    by_token: dict[str, Any] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))


class DummyCloud(LibcloudCloud):
    """A CloudDriver over libcloud's dummy driver.

    `credentials["creds"]` goes to the driver: for a number N it starts with N nodes that are not
    ours, for anything else with two.
    """

    provider = "dummy"
    visible_after = 0.0
    ids_unique = True
    takes_client_tokens = True
    may_authorise = True
    raw_states: ClassVar[Mapping[str, CloudState]] = {
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
    ACCEPTED: ClassVar[Mapping[str, frozenset[str]]] = {
        "Cloud Credentials": frozenset({"creds"}),
        "Cloud List": frozenset(),
        "Cloud Create": frozenset(),
    }

    def __init__(
        self,
        *,
        pool: str,
        credentials: Mapping[str, str],
        clock: Clock,
        driver_class: str | None = None,
    ) -> None:
        super().__init__(pool=pool, default_class=DummyNodeDriver, driver_class=driver_class)
        self.credentials = credentials
        self.clock = clock
        self.book = self._open_book()

    def _open_book(self) -> Book:
        book = Book(self._call("open the dummy cloud", self._new_driver))
        started_with = self._call("list nodes", book.driver.list_nodes)
        for node in started_with if isinstance(started_with, list) else ():
            if node is not None:
                # libcloud gives its first node the number 0, which it turns into no id at all.
                node.id = node.id or "0"
                book.entries[node.id] = Entry(created_at=self.clock.wall())
                book.nodes[node.id] = node
        return book

    # The nodes live in the driver object, so all threads share one driver and take turns.

    @property
    def _driver(self) -> NodeDriver:
        return self.book.driver

    def _call(self, doing: str, function: Callable[[], T], secrets: Iterable[str] = ()) -> T:
        book = getattr(self, "book", None)
        if book is None:
            return super()._call(doing, function, secrets)
        with book.lock:
            return super()._call(doing, function, secrets)

    def _new_driver(self) -> NodeDriver:
        return self.driver_type(self.credentials.get("creds", "dummy"))

    def _account(self, driver: NodeDriver) -> str:
        return f"dummy:{self.credentials.get('creds', 'dummy')}"

    def _listings(self, driver: NodeDriver) -> Sequence[tuple[object, bool]]:
        return [(self._by_record(driver, ""), False)]

    def _by_record(self, driver: NodeDriver, record_uuid: str) -> object:
        answer = driver.list_nodes()
        # libcloud returns its own list, which the next create changes; so copy it.
        return list(answer) if isinstance(answer, list) else answer

    def _by_id(self, driver: NodeDriver, node_id: str) -> object | None:
        return self.book.nodes.get(node_id)

    def _create(self, driver: NodeDriver, order: CreateOrder) -> object:
        made = self.book.by_token.get(order.client_token)
        if made is not None:
            return made
        node: Any = driver.create_node(name=order.name, size=None, image=None)
        node.id = f"dummy-{next(self.book.numbers)}"
        node.name = order.name
        self.book.entries[node.id] = Entry(
            created_at=self.clock.wall(), tags=order.tags, size=order.size.instance_type
        )
        self.book.nodes[node.id] = node
        self.book.by_token[order.client_token] = node
        return node

    def _adopt(self, driver: NodeDriver, node_id: str, tags: Tags) -> None:
        if node_id not in self.book.nodes:
            raise BadRequest(f"there is no node {node_id}")
        self.book.entries[node_id] = replace(self.book.entries[node_id], tags=tags)

    def _destroy(self, driver: NodeDriver, node_id: str) -> Outcome:
        node = self.book.nodes.get(node_id)
        if node is None:
            return Outcome.UNKNOWN
        if not driver.destroy_node(node):
            return Outcome.FAILED
        del self.book.nodes[node_id]
        return Outcome.GONE

    # A node of this cloud has no volume, interface or address that could outlive it.

    def _pins(self, driver: NodeDriver, node_id: str) -> tuple[Leftover, ...]:
        return ()

    def _find_leftovers(self, driver: NodeDriver) -> tuple[Leftover, ...]:
        return ()

    def _release(self, driver: NodeDriver, leftover: Leftover) -> Outcome:
        return Outcome.GONE

    def _created_at(self, raw: Any) -> float | None:
        return self._entry(raw).created_at

    def _size_of(self, raw: Any) -> str | None:
        return self._entry(raw).size

    def _tags_of(self, raw: Any) -> Tags:
        return self._entry(raw).tags

    def _entry(self, raw: Any) -> Entry:
        return self.book.entries[raw.id]
