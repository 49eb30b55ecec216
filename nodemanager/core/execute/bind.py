"""Writes the id of its node into a claim, so that the store refuses pings of other nodes (P1a).

The node is the one that has our tag, or that the create answered. A manager that was killed
between the create and this write finds the tag or, where somebody removed the tag, the answer of
the create in its journal (`expected_again`).

The plan gives the orders (`plan.orders`); the workflow reads the record again, as each ping makes
another version, confirms, and writes.
"""

from __future__ import annotations

from dataclasses import replace

from nodemanager.core.execute.effects import WriteClaim
from nodemanager.core.execute.once import OnceState, RecordAction, writing
from nodemanager.core.execute.workflow import Action, Failed, Level, LogLine, Seen, Step
from nodemanager.core.judge.preconditions import standing_block
from nodemanager.core.model.reasons import Event
from nodemanager.core.model.world import Claim, Record
from nodemanager.core.plan.orders import BindOrder
from nodemanager.errors import Conflict


def confirm_bind(order: BindOrder, record: Record | None, seen: Seen) -> Claim | None:
    """The claim to write on the record, as just read; None where nothing is to be written.

    It is None also for another incarnation of the record, whose node is another one.
    """
    snapshot, uuid = seen.snapshot, order.uuid
    claim = record.claim if record is not None else None
    if record is None or claim is None or claim.incarnation != order.incarnation:
        return None
    if claim.node_id is not None or record.problems or record.held or uuid in snapshot.holds:
        return None
    if standing_block(snapshot, seen.settings, polls=False, breaker=False) is not None:
        return None
    if uuid in snapshot.record_flights or seen.stopping:
        return None
    return replace(claim, node_id=order.node_id)


class Bind(RecordAction[BindOrder]):
    """Read, confirm, write. The write names a version: the store refuses a late one."""

    action = Action.BIND
    in_flight = "bind"

    def found(
        self, order: BindOrder, answer: Record | None, seen: Seen
    ) -> Step[OnceState[BindOrder]]:
        claim = confirm_bind(order, answer, seen)
        if claim is None or answer is None:
            return Step(None)
        return writing(order, WriteClaim(answer, claim))

    def done(
        self, order: BindOrder, answer: object, seen: Seen, *, late: bool
    ) -> Step[OnceState[BindOrder]]:
        return Step(None, tell=(_log_line(order, None),))

    def failed(
        self, order: BindOrder, failed: Failed, seen: Seen, *, late: bool
    ) -> Step[OnceState[BindOrder]]:
        # Whatever it was, the next plan tries again.
        return Step(None, tell=(_log_line(order, failed.error),))


def _log_line(order: BindOrder, error: Exception | None) -> LogLine:
    """A failure is a warning, but for a write that lost: mostly a ping came in between."""
    is_usual = error is None or isinstance(error, Conflict)
    fields = {
        "record": order.uuid,
        "node": order.node_id,
        "incarnation": order.incarnation,
        "error": error,
    }
    return LogLine(Event.RECORD_BOUND, fields, Level.DEBUG if is_usual else Level.WARNING)
