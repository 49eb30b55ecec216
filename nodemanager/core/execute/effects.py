"""What a workflow may ask of the world: questions, writes and waits. A closed set.

Each is carried out by one worker (nodemanager/actors), which says what came back or the error.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from nodemanager.core.execute.destroy import ShutdownEvidence
from nodemanager.core.model.world import Claim, CloudNode, Leftover, Record, Size, Tags
from nodemanager.errors import RemoteError


@dataclass(frozen=True, slots=True)
class LookAtRecord:
    """Read the record, and ask the cloud which nodes bear its tag (C11).

    With `asks_id` the cloud is asked by instance id, too: by `instance_id` where one is given, by
    that of the record otherwise. Answered with CleanEvidence.
    """

    uuid: str
    asks_id: bool = False
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class CheckImage:
    """Ask the cloud whether the image that nodes boot from is there."""


@dataclass(frozen=True, slots=True)
class FindByTag:
    """Ask the cloud which nodes bear the record's tag. Answered with these."""

    uuid: str


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """Read the record. Answered with it, or None where there is none."""

    uuid: str


@dataclass(frozen=True, slots=True)
class ClaimRecord:
    """Claim the record, or a new one, in the store of that id (L5). Answered with the record.

    `claim.at` is left to the worker: its CLOCK_BOOTTIME, and `offset`, is the store's time.
    """

    record: Record | None
    claim: Claim
    store_id: str
    offset: float


@dataclass(frozen=True, slots=True)
class RenewClaim:
    """Claim it again, as of now. Answered with the record."""

    record: Record
    claim: Claim
    offset: float


@dataclass(frozen=True, slots=True)
class CreateNode:
    """Create a node on the claimed record. Answered with Created."""

    record: Record
    claim: Claim
    size: Size


@dataclass(frozen=True, slots=True)
class Created:
    """The cloud's answer to a create, and how long it took."""

    node: CloudNode
    took_s: float


@dataclass(frozen=True, slots=True)
class LookAtNode:
    """Read the node's record, after asking the cloud what the node pins unless told not to (D2).

    Answered with NodeLooked.
    """

    node_id: str
    record: str | None
    pins: bool = True


@dataclass(frozen=True, slots=True)
class NodeLooked:
    """`pins` is None where that was not asked, or `pins_error` was the answer (D4)."""

    found: ShutdownEvidence
    pins: tuple[Leftover, ...] | None = None
    pins_error: RemoteError | None = None


@dataclass(frozen=True, slots=True)
class WriteClaim:
    """Put the claim on the record where it is still at this version."""

    record: Record
    claim: Claim


@dataclass(frozen=True, slots=True)
class TellDrain:
    """Put the order to drain into the answers to the pings of the record's node, or take it out.

    Only while the record has the incarnation and the order that this one has (D12). Answered with
    the record as it stands since.
    """

    record: Record
    on: bool


@dataclass(frozen=True, slots=True)
class RestoreRecord:
    """Put the freed record, as it is now, back to what is `known` of it (U8).

    Answered with the record as it stands since.
    """

    record: Record
    known: Record = field(repr=False)


@dataclass(frozen=True, slots=True)
class AskNode:
    """Ask the cloud for the node by its id. Answered with it, None for "no such node"."""

    node_id: str


@dataclass(frozen=True, slots=True)
class DestroyNode:
    """Ask for the node's end, not after that CLOCK_BOOTTIME (C11). Answered with an Outcome."""

    node_id: str
    not_after: float


@dataclass(frozen=True, slots=True)
class AdoptNode:
    """Put these tags on a node that somebody made by hand (D11)."""

    node_id: str
    tags: Tags


@dataclass(frozen=True, slots=True)
class DeleteRecord:
    """Delete the record where it is still at this version (C12)."""

    record: Record


@dataclass(frozen=True, slots=True)
class FenceRecord:
    """Lock the record's node out (C12). Answered with the record behind its fence."""

    record: Record


@dataclass(frozen=True, slots=True)
class LiftFence:
    """Give the node its secret back; without one, the one that the store kept with the fence."""

    record: Record
    ping_secret: str | None = field(repr=False, default=None)


@dataclass(frozen=True, slots=True)
class FreeRecord:
    """Free the record; where the store compares, if it is still at this version (C12).

    Answered with the record as it is then.
    """

    record: Record
    reason: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Come back to it in so many seconds."""

    seconds: float


Question = LookAtRecord | ReadRecord | CheckImage | FindByTag | LookAtNode | AskNode
Freeing = FenceRecord | LiftFence | FreeRecord
Intended = DeleteRecord | Freeing | ClaimRecord | RenewClaim | CreateNode | DestroyNode
"""Writes that the journal has as begun before they leave (R1)."""
StoreWrite = (
    DeleteRecord | Freeing | ClaimRecord | RenewClaim | WriteClaim | TellDrain | RestoreRecord
)
CloudWrite = CreateNode | DestroyNode | AdoptNode
Write = StoreWrite | CloudWrite
Effect = Question | Write | Wait
