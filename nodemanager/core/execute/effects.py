"""What a workflow may ask of the world: questions, writes and waits. A closed set.

Each is carried out by one worker (nodemanager/actors), which says what came back or the error.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from nodemanager.core.model import Claim, Record, Tags


@dataclass(frozen=True, slots=True)
class LookAtRecord:
    """Read the record, and ask the cloud which nodes bear its tag (C11).

    Answered with CleanEvidence.
    """

    uuid: str


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """Read the record. Answered with it, or None where there is none."""

    uuid: str


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
    """Ask the cloud for the node by its id. Answered with it, or None for "no such node"."""

    node_id: str


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
class Wait:
    """Come back to it in so many seconds."""

    seconds: float


Question = LookAtRecord | ReadRecord | AskNode
Intended = DeleteRecord
"""Writes that the journal has as begun before they leave (R1)."""
StoreWrite = DeleteRecord | WriteClaim | TellDrain | RestoreRecord
CloudWrite = AdoptNode
Write = StoreWrite | CloudWrite
Effect = Question | Write | Wait
