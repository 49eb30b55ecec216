"""The intents that the daemon writes before it acts, and that a later run reads (SAFETY.md R1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any

from nodemanager.core.execute.news import NodeExpected
from nodemanager.core.execute.setup import SetUpOrder
from nodemanager.core.execute.workflow import Action, Key, Workflow, WorkflowState
from nodemanager.core.explain.events import CLEANED
from nodemanager.core.model.world import Outcome, Record, life_key
from nodemanager.core.observe.evidence import Look
from nodemanager.core.plan.destroy import ShutdownOrder
from nodemanager.core.safety.orders import CleanOrder
from nodemanager.journal.api import Concluded, Intent, IntentKind, OpenIntent
from nodemanager.journal.codec import codec_of, decoded


def destroy_key(node_id: str) -> str:
    return f"destroy:{node_id}"


def clean_key(uuid: str) -> str:
    """A clean's key; its fence has the same one, because both are finished as one action."""
    return f"clean:{uuid}"


_KEPT_AS = {
    (Action.CLEAN, "Fencing"): IntentKind.FENCE,
    (Action.CLEAN, "Lifting"): IntentKind.FENCE,
}
"""The kinds of journal entries that are not named after their action."""
_ACTIONS = {IntentKind.FENCE: Action.CLEAN}


def action_of(kind: IntentKind) -> Action | None:
    """The action of journal entries of this kind; None for a kind without a workflow."""
    try:
        return _ACTIONS.get(kind) or Action(kind.value)
    except ValueError:
        return None


def entry_of(key: Key, state: WorkflowState, workflow: Workflow[Any]) -> Intent:
    """A workflow's journal entry: its state, and the record's pre-image beside it."""
    data = codec_of(type(state)).encode(state)
    data.pop("before", None)
    name, about = type(state).__name__, workflow.about(state)
    return Intent(
        _KEPT_AS.get((key.action, name)) or IntentKind(key.action.value),
        str(key),
        state.order.plan_id,
        record=about.record,
        node=about.node or about.names,
        details={**data, "state": name},
        pre_image=state.before,
    )


def state_of(workflow: Workflow[Any], intent: Intent) -> Any:
    """The workflow's state in its entry. Raises ValueError if it can't be decoded."""
    details = intent.details
    name = details.get("state")
    kind = next((one for one in workflow.states if one.__name__ == name), None)
    if kind is None:
        raise ValueError(f"no state {name} of {workflow.action.value}")
    names = {one.name for one in fields(kind)}
    data = {key: one for key, one in details.items() if key in names}
    if intent.pre_image is not None and "before" in names:
        data["before"] = codec_of(Record).encode(intent.pre_image)
    return decoded(kind, data)


def may_be_under_way(intents: Iterable[OpenIntent]) -> Iterator[tuple[str, bool]]:
    """The records that a former run may have been writing to, and whether by a clean."""
    for one in intents:
        intent = one.intent
        if intent.record is None:
            continue
        if intent.kind in (IntentKind.CLAIM, IntentKind.CREATE):
            yield intent.record, False
        elif intent.pre_image is not None:
            try:
                fenced = clean_order(intent).fenced
            except ValueError:
                fenced = True
            yield intent.record, fenced


def answers_of_creates(ended: Iterable[Concluded]) -> Iterator[tuple[NodeExpected, float]]:
    """The nodes that creates returned, and when (epoch seconds)."""
    for one in ended:
        node_id, record = one.details.get("node"), one.details.get("record")
        if one.intent.kind is not IntentKind.CREATE or node_id is None or record is None:
            continue
        try:
            order: SetUpOrder = decoded(SetUpOrder, one.intent.details.get("order"))
        except ValueError:
            continue
        life = order.claim.incarnation
        expected = NodeExpected(record, life, order.size.name, node_id, place=order.place)
        yield expected, one.concluded_at


def ends_of(ended: Iterable[Concluded]) -> Iterator[str]:
    """The keys of lives that cleans ended, and the ids of nodes that destroys ended."""
    for one in ended:
        intent = one.intent
        if one.outcome == Outcome.GONE.value and intent.node is not None:
            yield intent.node
        elif one.outcome == CLEANED and intent.record is not None:
            try:
                yield life_key(intent.record, clean_order(intent).incarnation)
            except ValueError:
                continue


def sent_destroys(
    ended: Iterable[Concluded], left: Iterable[OpenIntent]
) -> Iterator[tuple[str, float | None]]:
    """The nodes whose destroy was sent and that nobody waits for any more, and since when (epoch
    seconds); None for one passed over."""
    for one in ended:
        intent = one.intent
        is_refused = one.outcome == Outcome.FAILED.value
        if intent.kind is IntentKind.DESTROY and intent.node is not None and not is_refused:
            yield intent.node, one.concluded_at
    for unended in left:
        intent = unended.intent
        if intent.kind is IntentKind.DESTROY and intent.node is not None and unended.passed_over:
            yield intent.node, None


def open_destroys(left: Iterable[OpenIntent]) -> Iterator[str]:
    """The nodes whose destroy was sent, or may have been, and that this run waits for."""
    for one in left:
        intent = one.intent
        if intent.kind is IntentKind.DESTROY and intent.node is not None and not one.passed_over:
            yield intent.node


def shutdowns_in(ended: Iterable[Concluded]) -> Iterator[tuple[ShutdownOrder, float]]:
    """The shutdowns that ended in gone, and when (epoch seconds)."""
    for one in ended:
        if one.intent.kind is not IntentKind.DESTROY or one.outcome != Outcome.GONE.value:
            continue
        try:
            order: ShutdownOrder = decoded(ShutdownOrder, one.intent.details.get("order"))
        except ValueError:
            continue
        yield order, one.concluded_at


def clean_order(intent: Intent) -> CleanOrder:
    """The order in a clean's entry. Raises ValueError if it can't be decoded."""
    order: CleanOrder = decoded(CleanOrder, intent.details.get("order"))
    return order


def clean_look(intent: Intent) -> Look:
    """The evidence in a clean's entry. Raises ValueError if it can't be decoded."""
    look: Look = decoded(Look, intent.details.get("look"))
    return look


def fields_of(one: OpenIntent) -> dict[str, Any]:
    """The log fields of an open intent."""
    intent = one.intent
    return {
        "action": intent.kind.value,
        "record": intent.record,
        "node": intent.node,
        "plan": intent.plan_id,
    }
