"""The base of every adapter over apache-libcloud: calls, errors, threads, malformed items.

An adapter subclasses `LibcloudCloud`, declares its properties (`visible_after`, `ids_unique`,
`may_authorise`, `raw_states`) and implements the abstract hooks. It lets libcloud's exceptions
through: `_call` translates them, once.
"""

from __future__ import annotations

import importlib
import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, ClassVar, TypeVar

from libcloud.compute.base import NodeDriver

from nodemanager.cloud.api import CreateOrder
from nodemanager.cloud.translate import tells_secrets, translate
from nodemanager.core.model import CloudNode, CloudState, Leftover, Listed, Outcome, Size, Tags
from nodemanager.errors import CloudError, ConfigError, IncompleteListing

T = TypeVar("T")

TIMEOUT = 60.0
"""Seconds that one HTTP request to a cloud may take."""


class Unidentifiable(Exception):
    """A listing's item without an id, which can't be distinguished from other nodes."""


class OneTry:
    """Replaces libcloud's own retry class, which sleeps and repeats creates."""

    def __init__(self, **_settings: object) -> None:
        pass

    def __call__(self, function: T) -> T:
        return function


def load_driver_class(dotted: str) -> type[NodeDriver]:
    """The libcloud driver class of `[Cloud] driver_class`; raises ConfigError for anything else."""
    where = f"[Cloud] driver_class = {dotted}"
    module_name, _, class_name = dotted.rpartition(".")
    if not module_name:
        raise ConfigError([f"{where}: give module and class, as in package.module.Class"])
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise ConfigError([f"{where}: {module_name} can't be imported ({why})"]) from error
    found = getattr(module, class_name, None)
    if found is None:
        raise ConfigError([f"{where}: {module_name} has no {class_name}"])
    if not (isinstance(found, type) and issubclass(found, NodeDriver)):
        raise ConfigError([f"{where}: it is no libcloud.compute.base.NodeDriver"])
    return found


class LibcloudCloud(ABC):
    """A CloudDriver (nodemanager.cloud.api) over one libcloud NodeDriver class.

    Each thread gets a libcloud driver of its own. A libcloud connection keeps the current request
    (action, context, socket, page state) in its attributes, so two threads on one connection
    would read each other's answers. With a lock instead, a create would wait for a listing of
    thousands of nodes. An adapter whose state lives in the driver object itself overrides
    `_driver`.
    """

    provider: str = ""
    visible_after: float = 300.0
    ids_unique: bool = False
    takes_client_tokens: bool = False
    may_authorise: bool = False
    raw_states: ClassVar[Mapping[str, CloudState]] = {}
    """The cloud's own names of states (T4); a name that is missing here means `unknown`."""

    ACCEPTED: ClassVar[Mapping[str, frozenset[str]]] = {}
    """The keys that each pass-through section of the configuration takes."""

    def __init__(
        self,
        *,
        pool: str,
        default_class: type[NodeDriver],
        driver_class: str | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        self.pool = pool
        self.timeout = timeout
        self.driver_type = load_driver_class(driver_class) if driver_class else default_class
        self._mine = threading.local()
        self._made: list[NodeDriver] = []
        self._made_lock = threading.Lock()

    # The hooks of an adapter.

    @abstractmethod
    def _new_driver(self) -> NodeDriver:
        """A new driver: `self.driver_type` called with the credentials."""

    @abstractmethod
    def _account(self, driver: NodeDriver) -> str:
        """See CloudDriver.account."""

    def _listings(self, driver: NodeDriver) -> Sequence[tuple[object, bool]]:
        """The complete answers whose union is the listing (T5).

        Each comes with True when it answers the query by `[Cloud List]`. An adapter follows every
        page and filters out no state. The caller refuses an answer that is no list, and items
        without an id.
        """
        return [(driver.list_nodes(), False)]

    @abstractmethod
    def _by_record(self, driver: NodeDriver, record_uuid: str) -> object:
        """The answer of an unfiltered search for the tag, as a list of libcloud nodes."""

    @abstractmethod
    def _by_id(self, driver: NodeDriver, node_id: str) -> object | None:
        """The libcloud node of that id; None only for the cloud's own "no such node"."""

    @abstractmethod
    def _create(self, driver: NodeDriver, order: CreateOrder) -> object:
        """Create the node with its tags in one call; gives the libcloud node."""

    def _check_image(self, driver: NodeDriver) -> None:
        """See CloudDriver.check_image; this default is for clouds that have no images."""
        return

    @abstractmethod
    def _adopt(self, driver: NodeDriver, node_id: str, tags: Tags) -> None:
        """See CloudDriver.adopt; the node was there a moment ago."""

    @abstractmethod
    def _destroy(self, driver: NodeDriver, node_id: str) -> Outcome:
        """See CloudDriver.destroy."""

    @abstractmethod
    def _pins(self, driver: NodeDriver, node_id: str) -> tuple[Leftover, ...]:
        """See CloudDriver.pins; here in any order, and empty where nodes pin nothing."""

    @abstractmethod
    def _find_leftovers(self, driver: NodeDriver) -> tuple[Leftover, ...]:
        """See CloudDriver.find_leftovers."""

    @abstractmethod
    def _release(self, driver: NodeDriver, leftover: Leftover) -> Outcome:
        """See CloudDriver.release."""

    def _raw_state_of(self, raw: Any) -> str:
        """The state's name; overridden where libcloud's NodeState is too coarse (T4)."""
        return str(raw.state)

    @abstractmethod
    def _tags_of(self, raw: Any) -> Tags:
        """Our tags on the node."""

    def _held(self, raw: Any) -> bool:
        """Whether an operator's hold is set, where a cloud keeps it as a tag."""
        return False

    def _created_at(self, raw: Any) -> float | None:
        """The launch time in epoch seconds; None where the cloud gave none."""
        return epoch(raw.created_at)

    def _size_of(self, raw: Any) -> str | None:
        """The cloud's own id of the node's size."""
        return None if raw.size is None else str(raw.size.id)

    def _addresses_of(self, raw: Any) -> tuple[str, ...]:
        return tuple(str(address) for address in (*raw.private_ips, *raw.public_ips))

    def _cores_of(self, size: Any) -> int:
        extra = size.extra if isinstance(size.extra, dict) else {}
        return max(1, int(extra.get("cpu") or extra.get("vcpu") or 1))

    def _understand(self, error: Exception, doing: str) -> CloudError | None:
        """The CloudError for one of the cloud's own error codes (D6); None for others.

        `translate` handles those for which this gives None.

        Its text must pass `translate.describe`.
        """
        return None

    # The port.

    def account(self) -> str:
        return self._call("account", lambda: self._account(self._driver))

    def list_nodes(self) -> Listed[CloudNode]:
        answers = self._call("list nodes", lambda: list(self._listings(self._driver)))
        found: dict[str, list[CloudNode]] = {}
        problems: list[str] = []
        complete = True
        for answer, matches in answers:
            here: dict[str, list[CloudNode]] = {}
            for position, raw in enumerate(checked_list(answer, "list nodes")):
                try:
                    node = self.convert(raw, matches_cloud_list=matches)
                except Unidentifiable as error:
                    complete = False
                    problems.append(f"item {position} of the node listing: {error}")
                    continue
                here.setdefault(node.id, []).append(node)
            for node_id, nodes in here.items():
                # A node in two answers is one node. A node twice in one answer stays twice, so
                # that the check for impossible listings sees it (L4).
                managed = any(node.managed for node in (*found.get(node_id, ()), *nodes))
                found[node_id] = [with_managed(node, managed) for node in nodes]
        items = tuple(node for nodes in found.values() for node in nodes)
        problems += [f"node {node.id}: {line}" for node in items for line in node.problems]
        return Listed(items, complete=complete, problems=tuple(problems))

    def list_sizes(self) -> tuple[Size, ...]:
        answer = self._call("list sizes", lambda: self._driver.list_sizes())
        sizes = [self._size(raw) for raw in checked_list(answer, "list sizes")]
        return tuple(size for size in sizes if size is not None)

    def find_by_record(self, record_uuid: str) -> tuple[CloudNode, ...]:
        doing = f"find nodes of record {record_uuid}"
        answer = self._call(doing, lambda: self._by_record(self._driver, record_uuid))
        try:
            nodes = [self.convert(raw) for raw in checked_list(answer, doing)]
        except Unidentifiable as error:
            raise IncompleteListing(f"{doing}: {error}") from error
        if any(line.startswith("tags") for node in nodes for line in node.problems):
            raise IncompleteListing(f"{doing}: a node's tags can't be read")
        return tuple(node for node in nodes if node.tags.record == record_uuid)

    def ask(self, node_id: str) -> CloudNode | None:
        doing = f"ask for node {node_id}"
        raw = self._call(doing, lambda: self._by_id(self._driver, node_id))
        if raw is None:
            return None
        return self._identified(raw, doing)

    def check_image(self) -> None:
        self._call("check the image", lambda: self._check_image(self._driver))

    def create(self, order: CreateOrder) -> CloudNode:
        doing = f"create {order.name}"
        raw = self._call(
            doing, lambda: self._create(self._driver, order), secrets=(order.user_data,)
        )
        return self._identified(raw, doing)

    def adopt(self, node_id: str, tags: Tags) -> None:
        self._call(f"adopt node {node_id}", lambda: self._adopt(self._driver, node_id, tags))

    def destroy(self, node_id: str) -> Outcome:
        return self._call(f"destroy node {node_id}", lambda: self._destroy(self._driver, node_id))

    def pins(self, node_id: str) -> tuple[Leftover, ...]:
        doing = f"ask what node {node_id} pins"
        found = self._call(doing, lambda: self._pins(self._driver, node_id))
        return tuple(sorted(found, key=lambda leftover: (leftover.order, leftover.id)))

    def find_leftovers(self) -> tuple[Leftover, ...]:
        return self._call("find leftovers", lambda: self._find_leftovers(self._driver))

    def release(self, leftover: Leftover) -> Outcome:
        doing = f"release {leftover.kind} {leftover.id}"
        return self._call(doing, lambda: self._release(self._driver, leftover))

    def close(self) -> None:
        with self._made_lock:
            made, self._made = self._made, []
            self._mine = threading.local()
        for driver in made:
            if (session := http_session(driver)) is not None:
                with suppress(Exception):
                    session.close()

    # For the adapters.

    @property
    def _driver(self) -> NodeDriver:
        """This thread's driver."""
        driver = getattr(self._mine, "driver", None)
        if driver is None:
            driver = self._tame(self._new_driver())
            self._mine.driver = driver
            with self._made_lock:
                self._made.append(driver)
        return driver

    def _tame(self, driver: NodeDriver) -> NodeDriver:
        """Give the driver's connection our time-out and switch its retries off.

        libcloud retries, even creates, where LIBCLOUD_RETRY_FAILED_HTTP_REQUESTS is set. A new
        driver already has an open session, so the time-out is set there as well.
        """
        connection = getattr(driver, "connection", None)
        if connection is not None:
            connection.timeout = self.timeout
            connection.retryCls = OneTry
            if (session := http_session(driver)) is not None:
                session.timeout = self.timeout
        return driver

    def _call(self, doing: str, function: Callable[[], T], secrets: Iterable[str] = ()) -> T:
        """The result of `function`; translates whatever it raises to a CloudError."""
        secrets = tuple(secrets)
        try:
            return function()
        except Exception as error:
            ours = self._understand(error, doing) or translate(error, doing, secrets)
            if ours is error:
                raise
            if tells_secrets(error, secrets):
                raise ours from None
            raise ours from error

    def _identified(self, raw: Any, doing: str) -> CloudNode:
        try:
            return self.convert(raw)
        except Unidentifiable as error:
            raise CloudError(f"{doing}: the answer is {error}") from error

    def convert(self, raw: Any, *, matches_cloud_list: bool = False) -> CloudNode:
        """The CloudNode for a libcloud node; raises Unidentifiable when it has no id.

        A field that can't be read is left out and named in `problems` (P3).
        """
        if raw is None:
            raise Unidentifiable("None in place of a node")
        node_id = getattr(raw, "id", None)
        if not isinstance(node_id, str) or not node_id:
            raise Unidentifiable("a node without an id")
        problems: list[str] = []

        def read(field: str, reader: Callable[[Any], T], otherwise: T) -> T:
            try:
                return reader(raw)
            except Exception as error:
                problems.append(f"{field} can't be read ({type(error).__name__}: {error})")
                return otherwise

        raw_state = read("state", self._raw_state_of, "")
        created_at = read("launch time", self._created_at, None)
        if created_at is None and not any(line.startswith("launch time") for line in problems):
            problems.append("launch time is missing")
        tags = read("tags", self._tags_of, Tags())
        name = getattr(raw, "name", None)
        return CloudNode(
            id=node_id,
            name=name if isinstance(name, str) else "",
            state=self.raw_states.get(raw_state, CloudState.UNKNOWN),
            size=read("size", self._size_of, None),
            created_at=created_at,
            tags=tags,
            managed=matches_cloud_list or tags.pool == self.pool,
            held=read("hold", self._held, False),
            raw_state=raw_state,
            addresses=read("addresses", self._addresses_of, ()),
            problems=tuple(problems),
        )

    def _size(self, raw: Any) -> Size | None:
        """The Size for a libcloud size; None for one that can't be read, since no node can boot
        with it."""
        try:
            price = None if raw.price is None else float(raw.price)
            return Size(
                name=str(raw.id),
                instance_type=str(raw.id),
                cores=self._cores_of(raw),
                ram_mb=int(raw.ram or 0),
                # libcloud gives GB. A thousand MB per GB never promises more than the disk has.
                scratch_mb=int(raw.disk or 0) * 1000,
                price=price if price is None or math.isfinite(price) else None,
            )
        except (AttributeError, TypeError, ValueError):
            return None


def http_session(driver: NodeDriver) -> Any:
    """The requests session of a driver's connection; None where it has none."""
    connection = getattr(getattr(driver, "connection", None), "connection", None)
    return getattr(connection, "session", None)


def checked_list(answer: object, doing: str) -> list[Any]:
    """`answer` if it is a list; raises IncompleteListing for anything else, such as None (L1)."""
    if not isinstance(answer, list):
        raise IncompleteListing(f"{doing}: the answer is a {type(answer).__name__}, not a list")
    return answer


def with_managed(node: CloudNode, managed: bool) -> CloudNode:
    """The node with `managed` set to that."""
    return node if node.managed is managed else replace(node, managed=managed)


def epoch(moment: object) -> float | None:
    """Epoch seconds of a datetime (UTC where it names no zone) or a number; None for None."""
    if moment is None:
        return None
    if isinstance(moment, datetime):
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    # Raises TypeError for anything that is not a number.
    seconds = float(moment)  # type: ignore[arg-type]
    if not math.isfinite(seconds):
        raise ValueError(f"{seconds} is no time")
    return seconds
