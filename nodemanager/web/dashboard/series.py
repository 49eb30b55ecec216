"""What the dashboard's charts show: a row for each series, noted once a minute for a week."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from nodemanager.core.explain.slot_states import slot_states
from nodemanager.core.model.reasons import Event
from nodemanager.core.plan.plan import Plan

LevelOf = Callable[[Plan], float | None]


class Series(NamedTuple):
    """One series: its name in the legend and in the style sheet, and where its values come from.

    A `level` is read from the last decision of each minute; None where it does not say. Of an
    `event` the number in each minute counts. What `is_rest` only fills the chart up.
    """

    name: str
    level: LevelOf | None = None
    event: Event | None = None
    is_rest: bool = False


class Chart(NamedTuple):
    """A chart of series, as areas on top of each other if `stacked`, else as lines. The marks of
    one that `counts` are whole numbers."""

    id: str
    title: str
    series: tuple[Series, ...]
    stacked: bool = True
    counts: bool = True

    def key(self, series: Series) -> str:
        """What the values of that series are kept as."""
        return f"{self.id}.{series.name}"


def _slots(name: str) -> LevelOf:
    return lambda made: getattr(slot_states(made), name, None)


def _nodes(name: str) -> LevelOf:
    return lambda made: None if made.slots is None else made.counts.get(f"nodes_{name}", 0)


def _refused(made: Plan) -> float | None:
    return None if made.wants is None else sum(made.wants.refused.values())


SLOTS = Chart(
    "slots",
    "Slots over time",
    (
        *(Series(name, _slots(name)) for name in ("used", "idle", "leaked")),
        Series("free", _slots("free"), is_rest=True),
    ),
)
NODES = Chart(
    "nodes",
    "Nodes by state",
    tuple(
        Series(name, _nodes(name))
        for name in ("busy", "idle", "booting", "unpaired", "down", "unknown", "shutdown")
    ),
)
BOOTS = Chart(
    "boots",
    "Boots and refusals",
    (
        Series("booted", event=Event.NODE_CREATED),
        Series("failed", event=Event.NODE_SETUP_FAILED),
        Series("refused", _refused),
    ),
    stacked=False,
)
COST = Chart(
    "cost",
    "Price per hour of all nodes with a known price",
    (Series("priced", lambda made: None if made.wants is None else made.wants.price),),
    counts=False,
)
CHARTS = (SLOTS, NODES, BOOTS, COST)
LEVELS = {
    chart.key(one): one.level for chart in CHARTS for one in chart.series if one.level is not None
}
EVENTS = {
    one.event: chart.key(one) for chart in CHARTS for one in chart.series if one.event is not None
}
"""The key of each event that is counted."""
