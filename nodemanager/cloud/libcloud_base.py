"""What all clouds over apache-libcloud have in common: calls, threads, errors, partial answers."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

from libcloud.compute.base import NodeDriver

from nodemanager import errors
from nodemanager.cloud.api import CreateOrder
from nodemanager.cloud.checks import Check, Found, Wanted
from nodemanager.cloud.declared import CloudConfig
from nodemanager.cloud.provider import GoesOn, Leftovers, Provider
from nodemanager.cloud.reading import NodeReader, Unidentifiable, checked_list
from nodemanager.cloud.refusal import CodedRefusal, tells_secrets, translate
from nodemanager.core.model.world import CloudNode, Leftover, Listed, Outcome, Size, Tags

T = TypeVar("T")
P = ParamSpec("P")

TIMEOUT = 60.0
"""Seconds that one HTTP request to a cloud may take."""


def load_driver_class(dotted: str | None, own: type[T], base: type[Any] | None = None) -> type[T]:
    """The libcloud driver class of `[Cloud] driver_class`, `own` where there is none.

    Raises ConfigError for anything but a subclass of `base`, or of `own` where that is None.
    """
    if not dotted:
        return own
    where = f"[Cloud] driver_class = {dotted}"
    module_name, _, class_name = dotted.rpartition(".")
    if not module_name:
        raise errors.ConfigError([f"{where}: give module and class, as in package.module.Class"])
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise errors.ConfigError([f"{where}: {module_name} can't be imported ({why})"]) from error
    found = getattr(module, class_name, None)
    if found is None:
        raise errors.ConfigError([f"{where}: {module_name} has no {class_name}"])
    base = base or own
    serves = isinstance(found, type) and issubclass(found, base)
    if not serves:
        raise errors.ConfigError(
            [f"{where}: it is no subclass of {base.__module__}.{base.__name__}"]
        )
    # libcloud has no types: to the checker what `issubclass` found is still Any.
    return found  # type: ignore[no-any-return]


def connected(driver_type: type[T], answers: type, **settings: object) -> type[T]:
    """The libcloud driver class with that mix-in in its connections, which get the settings as
    attributes; see `nodemanager.cloud.transport`."""
    # libcloud has no types.
    own: type = driver_type.connectionCls  # type: ignore[attr-defined]
    connection = type(own.__name__, (answers, own), settings)
    return type(driver_type.__name__, (driver_type,), {"connectionCls": connection})


class OneTry:
    """Replaces libcloud's own retry class, which sleeps and repeats creates."""

    def __init__(self, **_settings: object) -> None:
        pass

    def __call__(self, function: T) -> T:
        return function


class Drivers:
    """A driver for each thread; a request of theirs takes `timeout` seconds at the most.

    A libcloud connection keeps the current request (action, context, socket, page state) in its
    attributes, so two threads on one connection would read each other's answers. With a lock
    instead, a create would wait for a listing of thousands of nodes.
    """

    def __init__(self, provider: Provider, timeout: float) -> None:
        self._provider = provider
        self._timeout = timeout
        self._mine = threading.local()
        self._made: list[NodeDriver] = []
        self._made_lock = threading.Lock()

    def mine(self) -> NodeDriver:
        driver = getattr(self._mine, "driver", None)
        if driver is None:
            driver = self._tame(self._provider.new_driver())
            self._mine.driver = driver
            with self._made_lock:
                self._made.append(driver)
        return driver

    def close(self) -> None:
        with self._made_lock:
            made, self._made = self._made, []
            self._mine = threading.local()
        for driver in made:
            with suppress(Exception):
                self._provider.close(driver)
            if (session := _http_session(driver)) is not None:
                with suppress(Exception):
                    session.close()

    def _tame(self, driver: NodeDriver) -> NodeDriver:
        """Give the driver's connection our time-out and switch its retries off.

        libcloud retries, even creates, where LIBCLOUD_RETRY_FAILED_HTTP_REQUESTS is set. A new
        driver already has an open session, so the time-out is set there as well.
        """
        connection = getattr(driver, "connection", None)
        if connection is not None:
            connection.timeout = self._timeout
            connection.retryCls = OneTry
            if (session := _http_session(driver)) is not None:
                session.timeout = self._timeout
        return driver


class LibcloudCloud:
    """A CloudDriver (nodemanager.cloud.api) over libcloud.

    `provider` knows the calls of one cloud, `reader` the fields of its nodes, and `leftovers`
    what they leave behind. `timeout` is in seconds and applies to each HTTP request.
    """

    def __init__(
        self,
        config: CloudConfig,
        provider: Provider,
        reader: NodeReader,
        leftovers: Leftovers | None = None,
        *,
        timeout: float = TIMEOUT,
    ) -> None:
        self.pool = config.pool
        self.timeout = timeout
        self.provider = provider.name
        self.visible_after = provider.visible_after
        self.ids_unique = provider.ids_unique
        self.takes_client_tokens = provider.takes_client_tokens
        self.may_authorise = provider.may_authorise
        self.sizes_from_file = provider.sizes_from_file
        self.makes_any_size = provider.makes_any_size
        self._provider = provider
        # Without places nobody asks where a node is.
        self._reader = reader if config.places else replace(reader, places=lambda raw: ())
        self._leftovers = leftovers
        self._drivers = Drivers(provider, timeout)
        self._listed: Mapping[str, CloudNode] = {}
        """The nodes of the newest listing, for the next one to take over what did not change."""

    def account(self) -> str:
        return self._call("account", self._provider.account)

    def list_nodes(self) -> Listed[CloudNode]:
        answers = self._call("list nodes", self._provider.listings)
        known, read = self._listed, self._reader.read
        listings: list[list[CloudNode]] = []
        problems: list[str] = []
        complete = True
        for answer, matches in answers:
            nodes: list[CloudNode] = []
            for position, raw in enumerate(checked_list(answer, "list nodes")):
                try:
                    nodes.append(read(raw, self.pool, matches_cloud_list=matches, known=known))
                except Unidentifiable as error:
                    complete = False
                    problems.append(f"item {position} of the node listing: {error}")
            listings.append(nodes)
        items = _merged(listings)
        self._listed = {node.id: node for node in items}
        problems += [f"node {node.id}: {line}" for node in items for line in node.problems]
        return Listed(items, complete=complete, problems=tuple(problems))

    def list_sizes(self) -> tuple[Size, ...]:
        return self._call("list sizes", self._provider.sizes)

    def find_by_record(self, record_uuid: str) -> tuple[CloudNode, ...]:
        doing = f"find nodes of record {record_uuid}"
        answer = self._call(doing, self._provider.by_record, record_uuid)
        try:
            nodes = [self._reader.read(raw, self.pool) for raw in checked_list(answer, doing)]
        except Unidentifiable as error:
            raise errors.IncompleteListing(f"{doing}: {error}") from error
        if any(line.startswith("tags") for node in nodes for line in node.problems):
            raise errors.IncompleteListing(f"{doing}: a node's tags can't be read")
        return tuple(node for node in nodes if node.tags.record == record_uuid)

    def ask(self, node_id: str) -> CloudNode | None:
        doing = f"ask for node {node_id}"
        raw = self._call(doing, self._provider.by_id, node_id)
        return None if raw is None else self._identified(raw, doing)

    def check_image(self) -> None:
        self._call("check the image", self._provider.check_image)

    def image(self) -> str | None:
        return self._call("find the image", self._provider.image)

    def create(self, order: CreateOrder) -> CloudNode:
        doing = f"create {order.name}"
        try:
            raw = self._call(doing, self._provider.create, order)
        except errors.CloudError as error:
            full = None if order.place is None else _full_place(error, order.place)
            if full is None:
                raise
            raise full from error.__cause__
        raw, pending = (raw.raw, raw.pending) if isinstance(raw, GoesOn) else (raw, "")
        node = replace(self._identified(raw, doing), pending=pending)
        if node.tags != order.tags:
            problem = "tags in the answer are not those that were ordered"
            node = replace(node, problems=(*node.problems, problem))
        return node

    def finish(self, pending: str, place: str | None) -> str | errors.CloudError | None:
        outcome = self._call("ask how a create ended", self._provider.finish, pending)
        if not isinstance(outcome, CodedRefusal):
            return outcome
        # It may quote the order, whose secrets nobody has at hand any more.
        outcome.hide(())
        error = self._provider.understand(outcome, "create") or translate(outcome, "create")
        error.__cause__ = outcome
        return error if place is None else _full_place(error, place) or error

    def adopt(self, node_id: str, tags: Tags) -> None:
        self._call(f"adopt node {node_id}", self._provider.adopt, node_id, tags)

    def destroy(self, node_id: str) -> Outcome:
        return self._call(f"destroy node {node_id}", self._provider.destroy, node_id)

    def pins(self, node_id: str) -> tuple[Leftover, ...]:
        if self._leftovers is None:
            return ()
        found = self._call(f"ask what node {node_id} pins", self._leftovers.pins, node_id)
        return tuple(sorted(found, key=lambda leftover: (leftover.order, leftover.id)))

    def find_leftovers(self) -> tuple[Leftover, ...]:
        return self._call("find leftovers", self._leftovers.find) if self._leftovers else ()

    def release(self, leftover: Leftover) -> Outcome:
        if self._leftovers is None:
            return Outcome.GONE
        doing = f"release {leftover.kind} {leftover.id}"
        return self._call(doing, self._leftovers.release, leftover)

    def preflight(self, wanted: Wanted) -> Sequence[Check]:
        made = self._call("prepare the checks", self._provider.preflight, wanted)
        return [replace(one, ask=partial(self._asked, one)) for one in made]

    def _asked(self, check: Check) -> Found:
        return self._call(check.name, lambda driver: check.ask())

    def close(self) -> None:
        self._drivers.close()

    def _call(
        self,
        doing: str,
        function: Callable[Concatenate[NodeDriver, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """The result of `function`; translates whatever it raises to a CloudError."""
        try:
            return function(self._drivers.mine(), *args, **kwargs)
        except Exception as error:
            # An order's user data holds the ping secret.
            secrets = tuple(arg.user_data for arg in args if isinstance(arg, CreateOrder))
            if isinstance(error, CodedRefusal):
                error.hide(secrets)
            ours = self._provider.understand(error, doing) or translate(error, doing, secrets)
            if ours is error:
                raise
            if tells_secrets(error, secrets):
                raise ours from None
            raise ours from error

    def _identified(self, raw: object, doing: str) -> CloudNode:
        try:
            return self._reader.read(raw, self.pool)
        except Unidentifiable as error:
            raise errors.CloudError(f"{doing}: the answer is {error}") from error


def _merged(listings: Sequence[Sequence[CloudNode]]) -> tuple[CloudNode, ...]:
    """The nodes of several answers, as one listing.

    A node in two answers is one node. A node twice in one answer stays twice, so that the check for
    impossible listings sees it (L4).
    """
    shown = [nodes for nodes in listings if nodes]
    if len(shown) == 1 and len({node.id for node in shown[0]}) == len(shown[0]):
        return tuple(shown[0])
    found: dict[str, list[CloudNode]] = {}
    for nodes in shown:
        here: dict[str, list[CloudNode]] = {}
        for node in nodes:
            here.setdefault(node.id, []).append(node)
        for node_id, same in here.items():
            managed = any(node.managed for node in (*found.get(node_id, ()), *same))
            found[node_id] = [with_managed(node, managed) for node in same]
    return tuple(node for nodes in found.values() for node in nodes)


def _full_place(error: errors.CloudError, place: str) -> errors.PlaceFull | None:
    """PlaceFull for the error of a create there, if another place may have room; else None (D6)."""
    cause = error.__cause__
    refusal = cause if isinstance(cause, CodedRefusal) else None
    full_there = refusal is not None and refusal.code in refusal.FULL_THERE
    if not full_there and not isinstance(error, errors.CapacityUnavailable):
        return None
    return errors.PlaceFull(str(error), place=place, retry_after=error.retry_after)


def with_managed(node: CloudNode, managed: bool) -> CloudNode:
    """The node with `managed` set to that."""
    return node if node.managed is managed else replace(node, managed=managed)


def _http_session(driver: NodeDriver) -> Any:
    """The requests session of a driver's connection; None where it has none."""
    connection = getattr(getattr(driver, "connection", None), "connection", None)
    return getattr(connection, "session", None)
