"""A replay's gain and cost as curves on a terminal."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from nodemanager import extras
from nodemanager.commands.replay_result import ReplayResult
from nodemanager.core.replay.worth import free_sooner

CHART_HEIGHT = 16
CHART_WIDTH = 100
ROOM = 0.25
COLORS = ("green", "blue", "magenta", "cyan", "yellow")


def chart(result: ReplayResult, out: Console) -> str:
    """The chart as text with ANSI colours, plain where `out` has no colours; empty without data."""
    if not extras.is_installed("replay"):
        return f"no chart: it {extras.lacks('replay')}"
    import plotext

    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plotsize(min(CHART_WIDTH, out.width), CHART_HEIGHT)
    made = _sweep_chart(result, plotext) if result.sweep else _time_chart(result, plotext)
    if not made:
        return ""
    drawn = str(plotext.build())
    return drawn if out.color_system else str(plotext.uncolorize(drawn))


def _sweep_chart(result: ReplayResult, plotext: Any) -> bool:
    """Draw gain (left axis) and cost (right axis) over the values; False without enough data."""
    ordered = result.in_order
    if len(ordered) < 2:
        return False
    places = list(range(len(ordered)))
    gains = [balance.slot_s / 3600 for _, balance, _ in ordered]
    costs = [len(balance.hits) for _, balance, _ in ordered]
    plotext.plot(places, gains, label="slot-hours (left)", color="green", marker="braille")
    plotext.plot(places, costs, label="hits (right)", color="red", marker="braille", yside="right")
    ticks = whole_ticks(max(costs))
    # Room for the legend, which plotext draws over the curves; and one zero for both axes.
    low, high = min(0.0, *gains), max(0.0, *gains)
    high += ROOM * (high - low or 1.0)
    top = ticks[-1] * (1 + ROOM)
    plotext.ylim(low, high, yside="left")
    plotext.ylim(low / high * top, top, yside="right")
    plotext.yticks(ticks, [str(one) for one in ticks], yside="right")
    plotext.xticks(places, [label.split(" ")[0] for label, _, _ in ordered])
    plotext.xlabel(result.heading)
    return True


def whole_ticks(most: int) -> list[int]:
    """A few whole numbers from 0 to `most` or a little more."""
    step = max(1, -(-most // 4))
    return list(range(0, max(most, 1) + step, step))


def _time_chart(result: ReplayResult, plotext: Any) -> bool:
    """Draw how many more slots are free than recorded, over time; False without enough data."""
    walls = result.replayed.walls
    unit, unit_s = unit_of(walls[-1] - walls[0])
    drawn = False
    for row, color in zip(result.rows, itertools.cycle(COLORS), strict=False):
        steps = free_sooner(row.balance.moves, walls[0], walls[-1])
        if len(steps) < 3:
            continue
        drawn = True
        xs, ys = stairs(steps)
        at = [(one - walls[0]) / unit_s for one in xs]
        plotext.plot(at, ys, label=row.tried.label, color=color, marker="braille")
    plotext.xlabel(f"{unit} since the recording began")
    plotext.ylabel("additional free slots")
    return drawn


def unit_of(seconds: float) -> tuple[str, float]:
    """The unit for a time of that length, and the unit's seconds."""
    return ("hours", 3600.0) if seconds > 3 * 3600.0 else ("minutes", 60.0)


def stairs(steps: Sequence[tuple[float, int]]) -> tuple[list[float], list[int]]:
    """The points of a line for steps: each value holds until the next."""
    xs: list[float] = []
    ys: list[int] = []
    for at, value in steps:
        if ys:
            xs.append(at)
            ys.append(ys[-1])
        xs.append(at)
        ys.append(value)
    return xs, ys
