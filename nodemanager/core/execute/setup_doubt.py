"""The part of a set-up whose claim or create has an unknown outcome (U5, U9).

The record listing tells what became of the claim, and the node's tag what became of the create.
"""

from __future__ import annotations

from dataclasses import replace

from nodemanager.core.execute.books import (
    NodeDenied,
    NodeExpected,
)
from nodemanager.core.execute.effects import (
    ClaimRecord,
    Created,
    CreateNode,
    FindByTag,
    RenewClaim,
)
from nodemanager.core.execute.setup_state import (
    Doubtful,
    State,
)
from nodemanager.core.execute.setup_steps import (
    created_as,
    failed,
    in_doubt_of,
    released,
    whose,
)
from nodemanager.core.execute.workflow import (
    Answered,
    Ended,
    Event,
    Failed,
    News,
    Seen,
    Step,
)
from nodemanager.core.model.settings import ASK_AGAIN_S
from nodemanager.core.model.world import Guarantee, Record


def in_doubt(state: Doubtful, event: Event, seen: Seen) -> Step[State]:
    order = state.order
    match event:
        case News():
            return _listed(state, seen)
        case Answered(effect=FindByTag(), answer=nodes):
            for node in nodes:
                if not node.is_absent and node.tags.incarnation == order.claim.incarnation:
                    uuid, life = state.record or "", order.claim.incarnation
                    found = NodeExpected(
                        uuid, life, order.size.name, node.id, is_new=False, place=order.place
                    )
                    details = {"node": node.id, "record": state.record}
                    return Step(None, learn=(found,), ended=Ended("created", details))
            return _denied(state, seen.snapshot.now)
        case Failed(effect=FindByTag()):
            return Step(replace(state, asked=False))
        # A worker that was given up answers after all.
        case Answered(effect=CreateNode(record=record), answer=Created() as created):
            return created_as(order, record, created)
        case Answered(effect=ClaimRecord() | RenewClaim(), answer=Record() as record):
            if state.sent:
                return Step(state)
            return released(order, record, Step(None), "withdrawn", seen)
        case Failed(effect=CreateNode(record=record), error=error):
            told = failed(order, record, "create", error, definite=False)
            return Step(state, tell=(told,))
        case Failed(effect=ClaimRecord(), error=error) if error.definite:
            told = failed(order, None, "claim", error)
            return Step(None, tell=(told,), ended=Ended("refused", {"stage": "claim"}))
        case Failed(effect=ClaimRecord(), error=error):
            return Step(state, tell=(failed(order, None, "claim", error),))
    return Step(state)


def _denied(state: Doubtful, now: float) -> Step[State]:
    """The cloud has no node of the create, which may still come (U9, A2); it is asked once more."""
    if not state.sent or state.record is None:
        return Step(state)
    denied = NodeDenied(state.record, state.order.claim.incarnation)
    is_first = state.denied_at is None
    left = replace(state, denied_at=now, asked=False) if is_first else state
    return Step(left, learn=(denied,))


def _listed(state: Doubtful, seen: Seen) -> Step[State]:
    """What the listings tell of the set-up; where they don't, ask the cloud by the record's tag."""
    history = seen.snapshot.history
    listing, incarnation = history.records, state.order.claim.incarnation
    if listing is None or state.since is None or listing.started_at <= state.since:
        return Step(state)
    claimed = (one for one in listing.items if one.incarnation == incarnation)
    record = next((one for one in claimed if one.claim is not None), None)
    if record is None and seen.snapshot.touched.get(state.record or "", -1.0) >= listing.started_at:
        # The listing shows the record as before the claim, though it began later.
        return Step(state)
    if record is None:
        # The record was never claimed, or was freed since: by C21 at the latest.
        return Step(None, ended=Ended("released"))
    return _claimed(state, record, seen)


def _claimed(state: Doubtful, record: Record, seen: Seen) -> Step[State]:
    """What the listings tell of the node; its record is claimed."""
    doubt, nodes = in_doubt_of(record), seen.snapshot.history.bearers.get(record.uuid, ())
    borne = any(node.tags.incarnation == record.incarnation for node in nodes)
    if record.last_ping_at is not None or borne:
        return Step(None, learn=doubt, ended=Ended("created", whose(record)))
    if not state.sent and seen.guarantee is Guarantee.CAS:
        # No create follows it, so it need not hold its slot until it expires. A renewal that is on
        # its way is refused once it is freed, where the store compares.
        return released(state.order, record, Step(None), "withdrawn", seen)
    now = seen.snapshot.now
    if state.asked or (state.denied_at is not None and now - state.denied_at < ASK_AGAIN_S):
        return Step(state)
    asking = replace(state, record=record.uuid, asked=True)
    return Step(asking, (FindByTag(record.uuid),), learn=doubt)
