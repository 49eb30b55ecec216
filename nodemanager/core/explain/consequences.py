"""What an operator's order will do, in sentences, before it is given."""

from __future__ import annotations

from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.operate.naming import Known
from nodemanager.core.operate.verbs import Verb
from nodemanager.core.plan.plan import Plan


def consequences(verb: Verb, made: Plan, snapshot: Snapshot, given: str | None) -> list[str]:
    """The sentences about that order now; `given` names what it is about, None for the pool.

    Raises UnknownIdError.
    """
    name, slot, holds = "", "", {""}
    if given is not None:
        named = Known(snapshot.history, made.pairs).find(given)
        name = named.node or named.id
        holds |= {str(view.state) for view in made.views if view.node.id == named.node}
        for record in snapshot.history.records.items if snapshot.history.records else ():
            if record.uuid == named.record and record.slot_number is not None:
                slot = f"slot {record.slot_number}"
                holds.add("slot")
    sentences = [("", one) if isinstance(one, str) else one for one in verb.row.says]
    return [
        one.format(name=name, slot=slot, held=slot or "what it holds")
        for condition, one in sentences
        if condition in holds
    ]
