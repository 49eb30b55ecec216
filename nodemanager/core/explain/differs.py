"""Where a manager that stands by decides otherwise than the one that acts (L6).

The one that acts tells the others, as text, what it decided. A standby has read the same listings a
moment sooner or later, knows nothing of what operators said to the other one, and its own orders
are never carried out: only what differs for long, and what nobody marked, tells anything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from nodemanager.core.explain.explain import DecisionView
from nodemanager.core.plan.plan import Plan

SHUTDOWN, CLEAN = "shutdown", "clean"

Differences = Mapping[str, tuple[str | None, str | None]]
"""By id or option: what it is here, and there."""


@dataclass(frozen=True, slots=True)
class ManagerDecision:
    """The newest decision of one manager, under the lease's `token`.

    `orders` has by record uuid or node id why it is freed or ended, or that this is under way.
    Nothing is compared of those that an operator `marked`, or while the pool `rests`. `options` are
    the settings that decisions depend on, as text.
    """

    plan: str
    token: int
    rests: bool
    orders: Mapping[str, str]
    marked: tuple[str, ...]
    options: Mapping[str, str]

    def to_text(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"), sort_keys=True)


def read(text: object) -> ManagerDecision | None:
    """What another manager told; None if it is not readable, as of another version."""
    try:
        given: dict[str, Any] = json.loads(str(text))
        return ManagerDecision(
            plan=str(given["plan"]),
            token=int(given["token"]),
            rests=bool(given["rests"]),
            orders=_texts(given["orders"]),
            marked=tuple(map(str, given["marked"])),
            options=_texts(given["options"]),
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _texts(given: Any) -> dict[str, str]:
    return {str(key): str(value) for key, value in dict(given).items()}


def decided(decision: DecisionView, token: int) -> ManagerDecision:
    snapshot, made, settings = decision.snapshot, decision.made, decision.settings
    flights = {**snapshot.record_flights, **snapshot.node_flights}
    under_way = {
        id: flight.kind
        for id, flight in flights.items()
        if flight.kind.partition(":")[0] in (SHUTDOWN, CLEAN)
    }
    orders = {one.uuid: one.reason.value for one in made.cleans}
    orders |= {one.node_id: one.reason.value for one in made.shutdowns}
    rests = made.aborted is not None or snapshot.breaker.is_open or snapshot.paused is not None
    marked = {*snapshot.holds, *snapshot.kills, *snapshot.drains, *snapshot.by_hand}
    return ManagerDecision(
        plan=made.plan_id,
        token=token,
        rests=rests or snapshot.read_only is not None,
        orders=under_way | orders,
        marked=tuple(sorted(marked)),
        options={one.name: _shown(getattr(settings, one.name)) for one in fields(settings)},
    )


def _shown(value: object) -> str:
    """The same text for the same value in all processes, which have sets in other orders."""
    return repr(sorted(value) if isinstance(value, frozenset) else value)


def differences(here: ManagerDecision, there: ManagerDecision) -> Differences:
    """By id, why it is freed or ended here and there, each None where it is not."""
    if here.rests or there.rests:
        return {}
    ids = here.orders.keys() ^ there.orders.keys()
    return {id: (here.orders.get(id), there.orders.get(id)) for id in ids.difference(there.marked)}


def options(here: ManagerDecision, there: ManagerDecision) -> Differences:
    """The options that decisions depend on and that are not the same here and there."""
    names = sorted({*here.options, *there.options})
    both = {name: (here.options.get(name), there.options.get(name)) for name in names}
    return {name: values for name, values in both.items() if values[0] != values[1]}


def judged(made: Plan, id: str) -> tuple[str, str | None]:
    """Whether that is a record or a node, and why it is kept; None where nothing is known of it."""
    for kind, verdicts in (
        ("record", made.records),
        ("node", (view.verdict for view in made.views)),
    ):
        for verdict in verdicts:
            if verdict.id == id:
                return kind, verdict.reason.value
    return "node", None
