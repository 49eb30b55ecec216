"""The port to a cloud: what every adapter promises.

One contract suite, tests/contract/test_cloud_contract.py, holds every adapter to this text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from nodemanager.cloud.checks import Check, Wanted
from nodemanager.core.model.world import CloudNode, Leftover, Listed, Outcome, Size, Tags
from nodemanager.errors import CloudError


@dataclass(frozen=True, slots=True)
class CreateOrder:
    """A node to create. The tags travel in the create call itself (U5).

    `user_data` holds the record's ping URL with its secret, so the repr leaves it out.
    `client_token` makes a repeated create idempotent, where the cloud has such tokens. `place` is
    the zone or subnet to create it in, by the cloud's own name; None leaves it to `[Cloud Create]`.
    """

    name: str
    size: Size
    tags: Tags
    client_token: str
    user_data: str = field(repr=False)
    place: str | None = None


class CloudDriver(Protocol):
    """A cloud as the manager sees it.

    Every call ends within the configured time-out and raises only `nodemanager.errors.CloudError`
    and its subclasses. A driver is used by several threads at once.
    """

    provider: str
    """The value of `[Cloud] provider` that selects this driver."""
    visible_after: float
    """Seconds after a create until an unfiltered query is sure to show the node (A1)."""
    ids_unique: bool
    """Node ids are never reused, so that a record may pair by instance id (P1)."""
    takes_client_tokens: bool
    """Repeated creates with one `client_token` make only one node (U9)."""
    may_authorise: bool
    """The contract suite proves that its listings are complete; without that proof nothing
    may be freed (L2)."""
    sizes_from_file: bool
    """`list_sizes` sends a request. A manager starts without its cloud, so the configuration must
    describe every size."""
    timeout: float
    """Seconds after which no request that was sent is under way any more."""
    makes_any_size: bool
    """The cloud boots nodes of whatever cores and memory it is told, and has no sizes of its own
    that a `[Size]` could be compared with."""

    def account(self) -> str:
        """The account, region and API that the credentials lead to, as one stable line (L5).

        After this call, every other call whose credentials may belong to another account raises
        Unauthorized, until `account` is called again with those credentials.
        """
        ...

    def list_nodes(self) -> Listed[CloudNode]:
        """Every node with our pool's tag or in `[Cloud List]`, in every state, all pages (T5).

        A node with an id whose other fields can't all be read is listed with `problems`; a node
        without an id makes the listing incomplete. Raises when the answer may be incomplete:
        an empty tuple means that the cloud said "none" (L1, L2).
        """
        ...

    def list_sizes(self) -> tuple[Size, ...]:
        """The sizes of this cloud; `name` and `instance_type` are both the cloud's own id."""
        ...

    def find_by_record(self, record_uuid: str) -> tuple[CloudNode, ...]:
        """Every node, in every state, whose `nodemanager-record` tag is `record_uuid`.

        Uses no other filter: neither the pool nor `[Cloud List]` (C11).
        """
        ...

    def ask(self, node_id: str) -> CloudNode | None:
        """The node of that id, in any state, or None for the cloud's "no such node".

        Raises MalformedId where the cloud says that none of its nodes can have such an id.
        """
        ...

    def check_image(self) -> None:
        """Check that the image that nodes boot from exists; a success is remembered.

        Raises BadRequest where the cloud says that it does not. Passes where the cloud has no
        images, can't say, or refuses to tell us.
        """
        ...

    def image(self) -> str | None:
        """The immutable id of the image that a node created now would boot from.

        The driver resolves a name or alias with this call, and by one list call at the most finds
        out what a node listing alone does not tell of the listed nodes' images; the next listing
        has it. None where the cloud has no images, its
        listing does not tell a node's, or the id can't be found out: then no node counts as
        outdated by its image.
        """
        ...

    def create(self, order: CreateOrder) -> CloudNode:
        """Create the node with its tags in one call, which the driver never repeats.

        A definite refusal raises an error whose `definite` is True: nothing was made (U6). It is
        PlaceFull where the order names a place, and another may have room. The driver waits for no
        operation of the cloud: where the create goes on, the node is `pending`, and `finish` tells
        how the create ended.
        """
        ...

    def finish(self, pending: str, place: str | None) -> str | CloudError | None:
        """How the create ended that answered a node with that `pending`; idempotent (D6).

        None: the node is made. A text: the create goes on, and is asked for by that text next. An
        error: it was refused in the end, and is what `create` would have raised in that `place`;
        what it left is gone. Raises where none of that can be told.
        """
        ...

    def adopt(self, node_id: str, tags: Tags) -> None:
        """Set the given tags of ours on a node that has none; idempotent (D11).

        Sets all of them or none, and keeps the node's other tags. Raises BadRequest where the
        cloud has no such node or takes no tags: then nothing was changed.
        """
        ...

    def destroy(self, node_id: str) -> Outcome:
        """Ask the cloud to terminate the node; idempotent.

        GONE only when the cloud says terminated; "no such node" is UNKNOWN here, since only the
        caller knows the node's age (D3). ACCEPTED while the node is terminating.
        """
        ...

    def pins(self, node_id: str) -> tuple[Leftover, ...]:
        """What the node holds now and would leave behind at its end, in the order of release (D4).

        Contains only what has our pool's tags as the create set them: never an operator's own
        volume, and nothing on hold. Empty for a node that does not exist. Raises when the answer
        may be incomplete.
        """
        ...

    def find_leftovers(self) -> tuple[Leftover, ...]:
        """Unused resources with our pool's tags whose node no longer exists.

        By this call a manager that lost its ledger finds leftovers again. The call may miss a
        node younger than `visible_after`, so the ledger lets that time pass before it releases
        what was found; `release` checks once more.
        """
        ...

    def release(self, leftover: Leftover) -> Outcome:
        """Ask the cloud to delete a leftover; idempotent.

        GONE only when the cloud says that it does not exist. ACCEPTED while it is being deleted,
        or while its terminating node still uses it. Raises LeftAlone for a leftover that is on
        hold, no longer has our tags, is used by another node, or whose own node still lives:
        the driver asks for that node first. Never detaches anything.
        """
        ...

    def preflight(self, wanted: Wanted) -> Sequence[Check]:
        """The checks of `check-cloud` that only this cloud has; they change nothing."""
        ...

    def close(self) -> None:
        """Close the connections; the nodes live on."""
        ...
