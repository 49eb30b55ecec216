"""What the dashboard's charts show: a row for each series, noted once a minute for a week."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import NamedTuple

from nodemanager.core.explain.inventory import slot_states
from nodemanager.core.model.reasons import Event
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.sizes import Sizes
from nodemanager.core.plan.plan import Plan
from nodemanager.core.replay.spending import CostCause, prices_by_cause

Levels = Callable[[Plan, Settings], Mapping[str, float]]


class Series(NamedTuple):
    """One series, by its name in the legend and in the style sheet. Of an `event` the number in
    each minute counts. What `is_rest` only fills the chart up."""

    name: str
    event: Event | None = None
    is_rest: bool = False


class Chart(NamedTuple):
    """A chart of series, as areas on top of each other if `stacked`, else as lines. The marks of
    one that `counts` are whole numbers. `levels` reads its series from the last decision of each
    minute; one of which the decision says nothing is left out."""

    id: str
    title: str
    series: tuple[Series, ...]
    levels: Levels
    stacked: bool = True
    counts: bool = True

    def key(self, series: Series) -> str:
        """What the values of that series are kept as."""
        return f"{self.id}.{series.name}"


def _slots(made: Plan, settings: Settings) -> Mapping[str, float]:
    states = slot_states(made)
    return {} if states is None else {k: v for k, v in asdict(states).items() if v is not None}


def _nodes(made: Plan, settings: Settings) -> Mapping[str, float]:
    return {} if made.slots is None else {n: made.counts.get(f"nodes_{n}", 0) for n in _STATES}


def _refused(made: Plan, settings: Settings) -> Mapping[str, float]:
    return {} if made.wants is None else {"refused": sum(made.wants.refused.values())}


def _costs(made: Plan, settings: Settings) -> Mapping[str, float]:
    return {} if made.wants is None else prices_by_cause(made.views, Sizes(settings.sizes))


_STATES = ("busy", "idle", "booting", "unlisted", "unpaired", "down", "unknown", "shutdown")
SLOTS = Chart(
    "slots",
    "Slots over time",
    (*map(Series, ("used", "idle", "leaked")), Series("free", is_rest=True)),
    _slots,
)
NODES = Chart("nodes", "Nodes by state", (*map(Series, _STATES),), _nodes)
BOOTS = Chart(
    "boots",
    "Boots and refusals",
    (
        Series("booted", Event.NODE_CREATED),
        Series("failed", Event.NODE_SETUP_FAILED),
        Series("refused"),
    ),
    _refused,
    stacked=False,
)
COST = Chart(
    "cost",
    "Price per hour of all nodes with a known price, by cause",
    (*(Series(cause.value) for cause in CostCause),),
    _costs,
    counts=False,
)
CHARTS = (SLOTS, NODES, BOOTS, COST)
EVENTS = {
    one.event: chart.key(one) for chart in CHARTS for one in chart.series if one.event is not None
}
"""The key of each event that is counted."""


def levels_of(made: Plan, settings: Settings) -> dict[str, float]:
    """The values of all series but those of events, by their keys."""
    return {
        f"{chart.id}.{name}": value
        for chart in CHARTS
        for name, value in chart.levels(made, settings).items()
    }
