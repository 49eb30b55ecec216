"""The effects that a workflow may ask for: questions, writes and waits. A closed set.

A worker (nodemanager/actors/workers) carries a question or a write out, and answers with what came
back or with the error. The daemon's timer carries out a wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from nodemanager.core.model.world import Claim, CloudNode, Leftover, Record, Size, Tags
from nodemanager.core.plan.destroy import ShutdownEvidence
from nodemanager.errors import RemoteError


@dataclass(frozen=True, slots=True)
class LookAtRecord:
    """Read the record, and ask the cloud which nodes have its tag (C11).

    With `asks_id` the worker also asks the cloud by instance id: by `instance_id` or, without one,
    by the record's. Answered with CleanEvidence. With `not_after` (CLOCK_BOOTTIME) it serves an
    order that is void later on: then nobody is asked, and TooLate is the answer.
    """

    uuid: str
    asks_id: bool = False
    instance_id: str | None = None
    not_after: float | None = None


@dataclass(frozen=True, slots=True)
class CheckImage:
    """Ask the cloud whether the image that nodes boot from is there."""


@dataclass(frozen=True, slots=True)
class FindByTag:
    """Ask the cloud which nodes have the record's tag. Answered with those nodes."""

    uuid: str


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """Read the record. Answered with the record, None where there is none."""

    uuid: str


@dataclass(frozen=True, slots=True)
class ClaimRecord:
    """Claim the record, or a new one, in the store of that id (L5). Answered with the record.

    The worker sets `claim.at` to the store's time: its CLOCK_BOOTTIME plus `offset`, in seconds.
    """

    record: Record | None
    claim: Claim
    store_id: str
    offset: float


@dataclass(frozen=True, slots=True)
class RenewClaim:
    """Write the claim again, with the time of now as in ClaimRecord. Answered with the record."""

    record: Record
    claim: Claim
    offset: float


@dataclass(frozen=True, slots=True)
class CreateNode:
    """Create a node for the claimed record, in `place` if it is given. Answered with Created."""

    record: Record
    claim: Claim
    size: Size
    place: str | None = None


@dataclass(frozen=True, slots=True)
class Created:
    """The node that the cloud created, and how many seconds its answer took."""

    node: CloudNode
    took_s: float


@dataclass(frozen=True, slots=True)
class FinishCreate:
    """Ask the cloud how the create ended that it goes on with; remove what a failed one left.

    `pending` is the cloud's word for it, `place` where the node was to be. The answer is None once
    the node is made, the next `pending` while the create goes on, and the error of a create that
    was refused in the end (D6).
    """

    pending: str
    place: str | None = None


@dataclass(frozen=True, slots=True)
class LookAtNode:
    """Ask the cloud what the node pins, if `pins`; then read its record; then ask the scheduler for
    the nodes named `hostnames`, if any (D2). Answer: NodeLooked."""

    node_id: str
    record: str | None
    pins: bool = True
    hostnames: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeLooked:
    """The answer to LookAtNode. `pins` is None where not asked, or `pins_error` says why (D4)."""

    found: ShutdownEvidence
    pins: tuple[Leftover, ...] | None = None
    pins_error: RemoteError | None = None


@dataclass(frozen=True, slots=True)
class WriteClaim:
    """Put the claim on the record, if it is still at this version. Answered with the record."""

    record: Record
    claim: Claim


@dataclass(frozen=True, slots=True)
class TellDrain:
    """Put the drain order into the answers to the pings of the record's node, or take it out (D12).

    The store refuses it unless the record still has this incarnation and this drain order. Answered
    with the record after the write.
    """

    record: Record
    on: bool


@dataclass(frozen=True, slots=True)
class TellScheduler:
    """Tell the scheduler to give the node of that name no more work, or work again (D12).

    It is not sent after `not_after` (CLOCK_BOOTTIME): then an order sent later is not undone by it.
    """

    hostname: str
    on: bool
    not_after: float


@dataclass(frozen=True, slots=True)
class MarkDown:
    """Tell the scheduler that the node of that name is gone, which was `node_id`.

    The worker first reads the record: if the name is another node's by now, nothing is sent. Nor is
    it if it `asks_twins`, and the cloud has another node with the record's tag, or if the node
    `had_joined` and the scheduler waits for the next machine of that name (U14). False is the
    answer for that last one.
    """

    hostname: str
    record: str
    incarnation: str | None
    node_id: str
    asks_twins: bool = False
    had_joined: bool = False

    def is_still_its(self, record: Record | None) -> bool:
        """Whether the name is that node's as far as its record tells, and nobody else's (C20).

        Two nodes of one create have one name: to mark it down would end the other one's job.
        """
        if record is None or record.incarnation != self.incarnation:
            return False
        return record.instance_id in (None, self.node_id)

    def is_alone(self, tagged: Iterable[CloudNode]) -> bool:
        """Whether of the nodes with the record's tag no other one lives."""
        return all(node.id == self.node_id or node.is_absent for node in tagged)


@dataclass(frozen=True, slots=True)
class RestoreRecord:
    """Put the freed `record` back to its pre-image `known` (U8). Answered with the new record."""

    record: Record
    known: Record = field(repr=False)


@dataclass(frozen=True, slots=True)
class AskNode:
    """Ask the cloud for the node by its id. Answered with the node, None for "no such node"."""

    node_id: str


@dataclass(frozen=True, slots=True)
class DestroyNode:
    """Destroy the node, not after that CLOCK_BOOTTIME (C11). Answered with an Outcome."""

    node_id: str
    not_after: float


@dataclass(frozen=True, slots=True)
class AdoptNode:
    """Put our tags on a node that somebody made by hand (D11)."""

    node_id: str
    tags: Tags


@dataclass(frozen=True, slots=True)
class DeleteRecord:
    """Delete the record, if it is still at this version (C12)."""

    record: Record


@dataclass(frozen=True, slots=True)
class FenceRecord:
    """Lock the record's node out (C12). Answered with the record behind its fence."""

    record: Record


@dataclass(frozen=True, slots=True)
class LiftFence:
    """Give the node `ping_secret` back, or the secret that the store kept with the fence (C12).

    Answered with the record after the write; with None where there was no fence and so no write.
    """

    record: Record
    ping_secret: str | None = field(repr=False, default=None)


@dataclass(frozen=True, slots=True)
class FreeRecord:
    """Free the record; where the store compares, only if it is still at this version (C12).

    `reason` goes into the record. Answered with the record after the write.
    """

    record: Record
    reason: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Resume the workflow (`Due`) after `seconds`."""

    seconds: float


Question = LookAtRecord | ReadRecord | CheckImage | FindByTag | LookAtNode | AskNode
Freeing = FenceRecord | LiftFence | FreeRecord
Intended = (
    DeleteRecord | Freeing | ClaimRecord | RenewClaim | CreateNode | FinishCreate | DestroyNode
)
"""Writes that the journal has as intents before they leave (R1)."""
StoreWrite = (
    DeleteRecord | Freeing | ClaimRecord | RenewClaim | WriteClaim | TellDrain | RestoreRecord
)
CloudWrite = CreateNode | FinishCreate | DestroyNode | AdoptNode
SchedulerWrite = TellScheduler | MarkDown
Write = StoreWrite | CloudWrite | SchedulerWrite
Effect = Question | Write | Wait


def is_paced(effect: Effect) -> bool:
    """Whether it waits while the cloud wants fewer calls (U13).

    A clean's first look does. Its later ones do not: behind a fence the node can't ping meanwhile.
    """
    if isinstance(effect, LookAtRecord):
        return effect.not_after is not None
    return isinstance(effect, CheckImage | FindByTag | LookAtNode | AskNode | CloudWrite)
