"""What a new cloud writes; `LibcloudCloud` makes a CloudDriver of it (doc/developing.rst).

It lets the exceptions of libcloud through: `LibcloudCloud` translates them, once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from libcloud.compute.base import NodeDriver

from nodemanager.cloud.api import CreateOrder
from nodemanager.cloud.checks import Check, Wanted
from nodemanager.cloud.reading import sizes_from
from nodemanager.cloud.refusal import CodedRefusal
from nodemanager.core.model.world import Leftover, Outcome, Size, Tags
from nodemanager.errors import CloudError


@dataclass(frozen=True, slots=True)
class GoesOn:
    """The libcloud node of a create that goes on, and what `finish` is asked with."""

    raw: object
    pending: str


class Provider(ABC):
    """The calls of one cloud. A method gets the driver of the thread that it runs in.

    The properties are those of CloudDriver; the methods without a docstring are, too.
    """

    name: ClassVar[str]
    """The value of `[Cloud] provider` that selects this cloud."""
    visible_after: ClassVar[float] = 300.0
    ids_unique: ClassVar[bool] = False
    takes_client_tokens: ClassVar[bool] = False
    may_authorise: ClassVar[bool] = False
    sizes_from_file: ClassVar[bool] = False
    makes_any_size: ClassVar[bool] = False

    @abstractmethod
    def new_driver(self) -> NodeDriver:
        """A new libcloud driver with the credentials, for one thread."""

    @abstractmethod
    def account(self, driver: NodeDriver) -> str: ...

    def listings(self, driver: NodeDriver) -> Sequence[tuple[object, bool]]:
        """The complete answers whose union is the listing (T5).

        Each comes with True when it answers the query by `[Cloud List]`. It follows every page
        and filters out no state. The caller refuses an answer that is no list, and items
        without an id.
        """
        return [(driver.list_nodes(), False)]

    def by_record(self, driver: NodeDriver, record_uuid: str) -> object:
        """The answer of a search for the tag without any other filter, as a list of libcloud
        nodes; other records' nodes may be in it."""
        return driver.list_nodes()

    @abstractmethod
    def by_id(self, driver: NodeDriver, node_id: str) -> object | None:
        """The libcloud node of that id; None only for the cloud's own "no such node"."""

    def sizes(self, driver: NodeDriver) -> tuple[Size, ...]:
        return sizes_from(driver.list_sizes())

    def check_image(self, driver: NodeDriver) -> None:
        """See CloudDriver; this default is for clouds that have no images."""
        return

    def image(self, driver: NodeDriver) -> str | None:
        """See CloudDriver; this default is for clouds whose listings tell no node's image."""
        return None

    @abstractmethod
    def create(self, driver: NodeDriver, order: CreateOrder) -> object:
        """Create the node with its tags in one call; gives the libcloud node, in a GoesOn where the
        cloud has not said yet whether it will be made."""

    def finish(self, driver: NodeDriver, pending: str) -> str | CodedRefusal | None:
        """See CloudDriver; a create that was refused in the end gives the refusal. This default is
        for clouds whose creates end with their answer."""
        return None

    @abstractmethod
    def adopt(self, driver: NodeDriver, node_id: str, tags: Tags) -> None: ...

    @abstractmethod
    def destroy(self, driver: NodeDriver, node_id: str) -> Outcome: ...

    def preflight(self, driver: NodeDriver, wanted: Wanted) -> Sequence[Check]:
        """What `check-cloud` can ask only this cloud, beside what CloudDriver has for every one:
        its own dry run, sizes, places. Nothing is sent before a check is asked."""
        return ()

    def close(self, driver: NodeDriver) -> None:
        """Close what the driver has open beside an HTTP session."""
        return

    def understand(self, error: Exception, doing: str) -> CloudError | None:
        """The CloudError for one of the cloud's own errors (D6); None for others.

        `translate` handles those for which this gives None. Its text must contain no secret; that
        of a CodedRefusal has none any more.
        """
        return error.typed(doing) if isinstance(error, CodedRefusal) else None


class Leftovers(Protocol):
    """What a cloud's nodes leave behind; CloudDriver says what each call promises (D4).

    A cloud whose nodes have no volume, interface or address that could outlive them has none.
    """

    def pins(self, driver: NodeDriver, node_id: str) -> tuple[Leftover, ...]:
        """In any order."""
        ...

    def find(self, driver: NodeDriver) -> tuple[Leftover, ...]: ...

    def release(self, driver: NodeDriver, leftover: Leftover) -> Outcome: ...
