"""The port to a cloud: what every adapter promises, and nothing of how it does it.

One contract suite, tests/contract/test_cloud_contract.py, holds every adapter to this text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from nodemanager.core.model import CloudNode, Leftover, Listed, Outcome, Size, Tags


@dataclass(frozen=True, slots=True)
class CreateOrder:
    """A node to create. The tags travel in the create call itself (U5).

    `user_data` holds the record's ping URL with its secret: kept out of the repr.
    `client_token` makes a repeated call the same call, where the cloud has such tokens.
    """

    name: str
    size: Size
    tags: Tags
    client_token: str
    user_data: str = field(repr=False)


class CloudDriver(Protocol):
    """A cloud as the manager sees it.

    Every call ends within the configured time-out and raises only `nodemanager.errors.CloudError`
    and its subclasses. A driver is used by several threads at once.
    """

    provider: str
    """The `[Cloud] provider` it serves."""
    visible_after: float
    """Seconds after a create until an unfiltered question about the node is answered truly (A1)."""
    ids_unique: bool
    """Node ids are never used again, so that a record may pair by instance id (P1)."""
    takes_client_tokens: bool
    """Creates with one `client_token` make one node, however often they are sent (U9)."""
    may_authorise: bool
    """The contract suite proves its listings complete; without that it frees nothing (L2)."""

    def account(self) -> str:
        """The account, region and API that the credentials lead to, as one stable line (L5).

        Once it was told, every other call with credentials that may be another account's raises
        Unauthorized, until it is told for those.
        """
        ...

    def list_nodes(self) -> Listed[CloudNode]:
        """Every node by our pool's tag and by `[Cloud List]`, in every state, all pages (T5).

        A node that can be identified but not read whole is listed with `problems`; one that
        can't be identified makes the listing incomplete. Raises when the answer is not known
        to be whole: an empty tuple means that the cloud said "none" (L1, L2).
        """
        ...

    def list_sizes(self) -> tuple[Size, ...]:
        """The sizes of this cloud, `name` and `instance_type` both the cloud's own id."""
        ...

    def find_by_record(self, record_uuid: str) -> tuple[CloudNode, ...]:
        """Every node, in every state, whose `nodemanager-record` tag is `record_uuid`.

        No other filter: neither the pool nor `[Cloud List]` (C11).
        """
        ...

    def ask(self, node_id: str) -> CloudNode | None:
        """The node of that id, in whatever state, or None for the cloud's "no such node".

        MalformedId where the cloud says that no node of its own can have such an id.
        """
        ...

    def check_image(self) -> None:
        """Ask whether the image that nodes boot from is there; once it was, never again.

        BadRequest where the cloud says that it is not. A cloud that has no images, can't say, or
        won't tell us passes.
        """
        ...

    def create(self, order: CreateOrder) -> CloudNode:
        """Create the node, tags and all, in one call that is never repeated here.

        A definite refusal raises an error whose `definite` is True: nothing was made (U6).
        """
        ...

    def adopt(self, node_id: str, tags: Tags) -> None:
        """Put those of our tags that are given on a node that bears none; idempotent (D11).

        All of them or none. Whatever else it bears stays. BadRequest where the cloud has no such
        node, or takes no tags: then nothing was changed.
        """
        ...

    def destroy(self, node_id: str) -> Outcome:
        """Ask for the node's end; idempotent.

        GONE only when the cloud says terminated; "no such node" is UNKNOWN here, since only the
        caller knows the node's age (D3). ACCEPTED when the end is on its way.
        """
        ...

    def pins(self, node_id: str) -> tuple[Leftover, ...]:
        """What the node holds now and would leave behind at its end, in the order of release (D4).

        Only what bears our pool's tags as the create set them: never an operator's own volume,
        and nothing on hold. Empty for a node that is not there. Raises when the answer is not
        known to be whole.
        """
        ...

    def find_leftovers(self) -> tuple[Leftover, ...]:
        """What bears our pool's tags, is used by nothing, and whose node is not there any more.

        This is how a manager without its ledger finds them again. A node younger than
        `visible_after` may be missed here, so that the ledger lets that time pass before it
        releases anything found; `release` asks once more.
        """
        ...

    def release(self, leftover: Leftover) -> Outcome:
        """Ask for its end; idempotent.

        GONE only when the cloud says that it is not there. ACCEPTED when its end is on its way,
        or while its node's end still holds it. LeftAlone for what is held, no longer bears our
        tags, or is used by another node; its node is asked for first, and one that lives keeps
        it. Nothing is ever detached from anything.
        """
        ...

    def close(self) -> None:
        """Give back connections; the nodes live on."""
        ...
