"""Answers operators' commands: finds what they name, and reads the next plan's verdict (O1-O4).

It judges no rule: a refusal names the rule that the plan's verdict bears.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import replace
from typing import Any

from nodemanager.core.judge.node_view import BY_HAND
from nodemanager.core.model.annotations import FORCIBLE, Mark, Marks, broken_as
from nodemanager.core.model.reasons import NOT_DRAINED, OURS, Kind, Reason
from nodemanager.core.model.settings import FREED_KEPT_S
from nodemanager.core.model.verdict import Verdict, keep
from nodemanager.core.observe.history import History, freed_since_listed
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.operate.naming import AmbiguousIdError, Known, Named, UnknownIdError
from nodemanager.core.operate.replies import Reply, Result
from nodemanager.core.operate.verbs import CommandTarget, Verb
from nodemanager.core.plan.destroy import ShutdownOrder
from nodemanager.core.plan.plan import Plan

SENT_AWAY_S = 3600.0
"""Seconds for which a hostname or slot still means the node that an operator sent away by it."""

# What a command names.

UNLISTED = frozenset({Reason.UNKNOWN_ID, Reason.NO_LISTING})
"""Why `find` may know no such id; a hold with `unlisted` is put on it all the same."""


def find(given: str, known: Known) -> Named | Reply:
    """What `given` names, or the answer that it names nothing or too much.

    Before both listings are there only a whole id is believed: any other name may be another's.
    """
    try:
        found = known.find(given)
        if known.is_complete or given in (found.node, found.record):
            return found
        return not_listed_yet(given)
    except AmbiguousIdError as error:
        return Reply(Result.REFUSED, str(error), reason=Reason.AMBIGUOUS_NAME)
    except UnknownIdError as error:
        if not known.is_complete:
            return not_listed_yet(given)
        nearest = error.near[0] if error.near else None
        return Reply(Result.UNKNOWN, str(error), reason=Reason.UNKNOWN_ID, nearest=nearest)


def forcing(forced: Collection[str], mark: Mark) -> Reply | None:
    """The refusal of a `--force` of an unbreakable rule, or without who and why; else None (O3)."""
    if forced and not (mark.by.strip() and mark.reason.strip()):
        text = "a forced clean must say who orders it and why: give both `by` and a reason"
        return Reply(Result.REFUSED, text, reason=Reason.NEVER_FORCED, rule="O3")
    for rule in forced:
        if rule not in FORCIBLE:
            text = (
                f"{rule} may never be broken by hand; these may: {', '.join(FORCIBLE)}. The "
                "pre-write check (C11), the conditional write (C12), breaker, lease and holds "
                "always stand"
            )
            return Reply(Result.REFUSED, text, reason=Reason.NEVER_FORCED, rule="O3")
    return None


# What an order will do.


def consequences(verb: Verb, made: Plan, snapshot: Snapshot, given: str | None) -> list[str]:
    """The sentences about that order now; `given` names what it is about, None for the pool.

    Raises UnknownIdError.
    """
    name, slot, holds = "", "", {""}
    if given is not None:
        named = Known(snapshot.history, made.pairs).find(given)
        name = named.node or named.id
        holds |= {str(view.state) for view in made.views if view.node.id == named.node}
        for record in snapshot.history.listed_records:
            if record.uuid == named.record and record.slot_number is not None:
                slot = f"slot {record.slot_number}"
                holds.add("slot")
    sentences = [("", one) if isinstance(one, str) else one for one in verb.row.says]
    return [
        one.format(name=name, slot=slot, held=slot or "what it holds")
        for condition, one in sentences
        if condition in holds
    ]


# What the plan decided.


def refused(verb: Verb, verdict: Verdict, named: Named) -> Reply:
    """The refusal with the reason of a verdict, its rule, and what it measured."""
    reason = verdict.reason
    rule = verdict.rule or reason.rule
    measures = dict(verdict.measures or {})
    behind = f" ({rule})" if rule is not None else ""
    text = f"{named.called(named.id)}: {reason.value}{behind}: {reason.doc}"
    if measures:
        text += f" [{', '.join(f'{key}={_shown(value)}' for key, value in measures.items())}]"
    if reason.row.clear:
        text += f" {reason.row.clear}"
    force = broken_as(reason)
    if verb is Verb.CLEAN and force is not None:
        text += f" `--force {force}` breaks this rule"
    return Reply(Result.REFUSED, text, named.record, named.node, reason, rule, measures)


def _shown(value: Any) -> str:
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def not_planned(made: Plan, id: str) -> Verdict | None:
    """The verdict that says why the plan was aborted; None if it was not."""
    if made.aborted is None:
        return None
    return made.aborted.to(id)


def sent_away(
    given: str, named: Named | None, gone: Iterable[tuple[ShutdownOrder, float]]
) -> tuple[ShutdownOrder, float] | None:
    """The shutdown by which an operator sent away the node of that hostname or slot, and when.

    `gone` are the shutdowns that ended lately, oldest first. Another node may have the name now,
    and an operator who repeats a drain does not mean that one.
    """
    found = None
    for order, at in gone:
        bore_it = given in (order.hostname, None if order.slot is None else str(order.slot))
        if order.reason in BY_HAND and bore_it:
            found = order, at
    if found is None or (named is not None and named.node == found[0].node_id):
        return None
    return found


def of_sent_away(
    verb: Verb, given: str, order: ShutdownOrder, ago_s: float, now: str | None
) -> Reply:
    """The answer to a command on a name whose node is gone by `order`; `now` has the name now."""
    ago = f"{ago_s:.0f} s" if ago_s < 120 else f"{ago_s / 60:.0f} min"
    name = given if given == order.hostname else f"slot {given}"
    text = f"{order.node_id}, which was {name}, was {order.reason.value} {ago} ago, and is gone"
    if verb not in (Verb.DRAIN, Verb.KILL):
        late, absent = f"too late: {text}", Reason.NODE_ABSENT
        return Reply(Result.REFUSED, late, order.record, order.node_id, absent)
    if now is not None:
        text += f"; {name} is {now} now: give that id if it must go, too"
    return Reply(Result.ALREADY, text, record=order.record, node=order.node_id)


def of_drain(named: Named, made: Plan, snapshot: Snapshot, destroyed: Container[str]) -> Reply:
    """The answer to a drain from the plan's verdict on the node; DONE if the mark stands.

    `destroyed` are nodes that we destroyed.
    """
    verdict = _of_node(named, made, snapshot)
    if verdict.reason is Reason.NODE_ABSENT:
        return _nothing_to_end(named, snapshot.history, destroyed)
    if made.aborted is not None or NOT_DRAINED in verdict.reason.row.means:
        return refused(Verb.DRAIN, verdict, named)
    return given(Verb.DRAIN, named)


def of_cordon(named: Named, made: Plan, snapshot: Snapshot, destroyed: Container[str]) -> Reply:
    """The answer to a cordon, as `of_drain` gives a drain's; a node that is gone refuses it."""
    reply = of_drain(named, made, snapshot, destroyed)
    if reply.result is Result.ALREADY:
        return replace(reply, result=Result.REFUSED, reason=Reason.NODE_ABSENT)
    return reply if reply.result is not Result.DONE else given(Verb.CORDON, named)


def given(verb: Verb, named: Named) -> Reply:
    """The answer to an order about a node that stands now."""
    return _said(Result.DONE, named, worded(verb, verb.row.done, named))


def worded(verb: Verb, text: str, named: Named | None) -> str:
    """A text of the verb's row about the thing that an operator named; None is the pool."""
    if named is None:
        return text
    is_of = {CommandTarget.NODE: named.node, CommandTarget.RECORD: named.record}
    id = is_of.get(verb.row.subject) or named.id
    return text.format(id=id, which=named.called(id))


def of_kill(named: Named, made: Plan, snapshot: Snapshot, destroyed: Container[str]) -> Reply:
    """The answer to a kill from the plan's verdict on the node; DONE if the mark stands.

    `destroyed` are nodes that we destroyed.
    """
    verdict = _of_node(named, made, snapshot)
    if verdict.reason is Reason.NODE_ABSENT:
        return _nothing_to_end(named, snapshot.history, destroyed)
    if verdict.kind is Kind.SHUTDOWN:
        return given(Verb.KILL, named)
    if verdict.reason in OURS or verdict.reason is Reason.SHUTDOWN_CAP:
        why = verdict.reason.value.replace("_", " ")
        text = f"{named.called(_node(named))} is shut down as soon as it may be ({why})"
        return _said(Result.DONE, named, text)
    return refused(Verb.KILL, verdict, named)


def of_clean(named: Named, made: Plan) -> Reply | None:
    """The answer to a clean from the plan's verdict on the record; None if it is ordered."""
    uuid = named.record or named.id
    verdict = not_planned(made, uuid) or next((one for one in made.records if one.id == uuid), None)
    if verdict is None:
        return refused(Verb.CLEAN, keep(uuid, Reason.CHANGED_SINCE_LISTING), named)
    if verdict.kind is Kind.CLEAN:
        return None
    if verdict.reason is Reason.HOLDS_NOTHING or uuid in freed_since_listed(made.history):
        return _said(Result.ALREADY, named, worded(Verb.CLEAN, Verb.CLEAN.row.already, named))
    action = (verdict.measures or {}).get("action")
    if verdict.reason is Reason.IN_FLIGHT and action in ("clean", "fenced"):
        return _said(Result.ALREADY, named, f"{named.called(uuid)} is being cleaned")
    return refused(Verb.CLEAN, verdict, named)


def _of_node(named: Named, made: Plan, snapshot: Snapshot) -> Verdict:
    """The plan's verdict on a node; one that neither listing nor answer has is expected or absent.

    An unlisted node that the cloud has is judged as if it were listed if it is silent (D13), and
    waits for a whole listing if it pings (P6).
    """
    node_id = _node(named)
    judged = (*made.views, *made.unheard)
    views = (view.verdict for view in judged if view.node.id == node_id)
    found = not_planned(made, node_id) or next(views, None)
    if found is not None:
        return found
    for one in made.unlisted.verdicts.values():
        if (one.measures or {}).get("node") == node_id:
            return keep(node_id, one.reason)
    expected = any(one.node_id == node_id for one in snapshot.expected.values())
    return keep(node_id, Reason.NODE_EXPECTED if expected else Reason.NODE_ABSENT)


def _nothing_to_end(named: Named, history: History, destroyed: Container[str]) -> Reply:
    """The answer to a drain or kill of an unlisted node; we destroyed those in `destroyed`."""
    node_id = _node(named)
    if _is_gone(node_id, history, destroyed):
        return _said(Result.ALREADY, named, f"{named.called(node_id)} is gone already")
    why = "it is not listed, but may live. Try again when a listing shows it"
    return _said(Result.REFUSED, named, f"{named.called(node_id)}: {why}", Reason.NODE_ABSENT)


def _is_gone(node_id: str, history: History, destroyed: Container[str]) -> bool:
    """Whether the node ended: we destroyed it, the cloud says so, or its record was freed.

    That no listing shows it is no proof, because the listing may be short.
    """
    return (
        node_id in destroyed
        or node_id in history.ended
        or any(
            life.node_id == node_id and life.reported_at is None for life in history.freed.values()
        )
    )


def _node(named: Named) -> str:
    return named.node or named.id


def without(named: Named, reason: Reason, known: Known) -> Reply:
    """The refusal of a command that needs a node or record, if the named one has none."""
    if not known.is_complete:
        return not_listed_yet(named.id)
    return _said(Result.REFUSED, named, f"{named.called(named.id)}: {reason.doc}", reason)


def too_late(named: Named) -> Reply:
    text = f"{named.called(_node(named))}: its destroy was sent already, and can't be undone"
    return _said(Result.REFUSED, named, text, Reason.SHUTTING_DOWN)


def nothing_to_undo(named: Named, known: Known, destroyed: Container[str]) -> Reply:
    """The refusal to undo anything for an unlisted node; we destroyed those in `destroyed`."""
    refusal = without(named, Reason.NODE_ABSENT, known)
    if refusal.reason is Reason.NO_LISTING:
        return refusal
    node_id = _node(named)
    is_gone = _is_gone(node_id, known.history, destroyed)
    why = (
        "too late: it is gone" if is_gone else "it is not listed, and has no drain or kill to undo"
    )
    return replace(refusal, text=f"{named.called(node_id)}: {why}")


def not_listed_yet(given: str) -> Reply:
    """The refusal of a command before there is a listing of everything."""
    text = f"{given}: {Reason.NO_LISTING.doc} Nothing was done: try again in a moment"
    return Reply(Result.REFUSED, text, reason=Reason.NO_LISTING, rule=Reason.NO_LISTING.rule)


def failed(named: Named, text: str) -> Reply:
    return _said(Result.FAILED, named, text)


def _said(result: Result, named: Named, text: str, reason: Reason | None = None) -> Reply:
    return Reply(result, text, named.record, named.node, reason)


# Marks that stand.


def without_marks(marks: Marks, node_ids: Collection[str]) -> Marks:
    drains = {id: one for id, one in marks.drains.items() if id not in node_ids}
    kills = {id: one for id, one in marks.kills.items() if id not in node_ids}
    return replace(marks, drains=drains, kills=kills)


def ended(marks: Mapping[str, Mark], snapshot: Snapshot) -> frozenset[str]:
    """The marked nodes that are gone: terminated, destroyed by us, or unlisted with an old mark.

    A node that a listing just lacks keeps its mark, because the listing may be short.
    """
    history, present = snapshot.history, snapshot.history.present
    if history.cloud is None or not marks:
        return frozenset()
    over = history.ended.keys() | snapshot.gone.keys()
    over |= {
        id
        for id, mark in marks.items()
        if id not in present and snapshot.wall_clock.age(mark.at, snapshot.now) > FREED_KEPT_S
    }
    return frozenset(over & marks.keys())


def since(mark: Mark, stamp: str) -> str:
    """A mark in words: by whom, since when (`stamp`), and why."""
    why = f": {mark.reason}" if mark.reason else ""
    return f"by {mark.by or 'somebody'} since {stamp}{why}"
