"""A replay's result as one HTML page without scripts or fetched content, for light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import jinja2
import pygal
from markupsafe import Markup
from pygal.style import Style

from nodemanager import __version__
from nodemanager.commands.replay_advice import (
    advice_in_words,
    changed_settings_of,
    settings_of,
)
from nodemanager.commands.replay_curves import stairs, unit_of, whole_ticks
from nodemanager.commands.replay_result import (
    COLUMNS,
    NOTES,
    ReplayResult,
    hit_cells,
    hits_by_life,
    move_cells,
    numbers_of,
)
from nodemanager.commands.times import told
from nodemanager.core.replay.worth import free_sooner
from nodemanager.logline import visible

MOVES = 500
"""The most moved cleans shown for each set of settings."""
_STYLE = Style(
    background="transparent",
    plot_background="transparent",
    foreground="var(--text)",
    foreground_strong="var(--text)",
    foreground_subtle="var(--rule)",
    colors=("var(--gain)", "var(--cost)", "var(--third)", "var(--fourth)", "var(--fifth)"),
    opacity="1",
    opacity_hover="1",
    transition="0s",
    font_family="inherit",
    label_font_size=13,
    major_label_font_size=13,
    legend_font_size=14,
    title_font_size=15,
)


def page(result: ReplayResult) -> str:
    """The whole page; escapes every text from a cloud or a user."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("nodemanager.commands"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    outline = result.outline
    return environment.get_template(
        "replay.html.j2"
    ).render(
        version=__version__,
        journal=visible(result.path),
        pool=visible(outline.settings.pool),
        settings=[(name, visible(value)) for name, value in settings_of(result).items()],
        changed=changed_settings_of(result),
        advice=visible(advice_in_words(result)),
        first=told(outline.first, terminal=False),
        last=told(outline.last, terminal=False),
        outline=outline,
        differing=result.replayed.differing,
        differences=[
            (
                one.plan_id,
                told(one.wall, terminal=False),
                one.subject,
                visible(one.id),
                " ".join(one.recorded or ("-",)),
                " ".join(one.now or ("-",)),
            )
            for one in result.replayed.differences
        ],
        heading=result.heading,
        columns=COLUMNS,
        rows=[
            (visible(label), numbers_of(balance, result.decimals), is_recorded)
            for label, balance, is_recorded in result.in_order
        ],
        tried=bool(result.rows),
        chart=Markup(_chart(result)),  # noqa: S704 - pygal escapes, and no script is left in it
        chart_title=_chart_title(result),
        moves=[
            (
                visible(row.tried.label),
                [move_cells(result, move, terminal=False) for move in row.balance.moves[:MOVES]],
                max(0, len(row.balance.moves) - MOVES),
            )
            for row in result.rows
        ],
        hits=[hit_cells(result, one, terminal=False) for one in hits_by_life(result)],
        warnings=list(
            dict.fromkeys(
                visible(text) for row in result.rows for text in row.tried.variation.warnings
            )
        ),
        notes=NOTES,
    )


# Charts.


def _chart_title(result: ReplayResult) -> str:
    if result.sweep is not None:
        return f"Gain and cost over {result.heading}"
    return "Additional free slots, compared with the recording, over time"


def _chart(result: ReplayResult) -> str:
    if result.sweep is not None:
        return "".join(map(_inline, _sweep_charts(result)))
    chart = _time_chart(result)
    return "" if chart is None else _inline(chart)


def _options() -> dict[str, Any]:
    return {
        "style": _STYLE,
        "js": [],
        "width": 900,
        "height": 380,
        "explicit_size": False,
        "legend_at_bottom": True,
        "disable_xml_declaration": True,
        "show_minor_x_labels": True,
        "no_data_text": "",
    }


def _sweep_charts(result: ReplayResult) -> Iterator[Any]:
    """Gain and cost, one above the other: two axes in one chart would have two zeros."""
    ordered = result.in_order
    if len(ordered) < 2:
        return
    labels = [visible(label.split(" ")[0]) for label, _, _ in ordered]
    gain = pygal.Line(zero=0, **_options())
    gain.x_labels = labels
    gains = [round(balance.slot_s / 3600, 3) for _, balance, _ in ordered]
    gain.add("slot-hours free sooner", gains)
    yield gain
    costs = [len(balance.hits) for _, balance, _ in ordered]
    ticks = whole_ticks(max(costs))
    options = {**_options(), "height": 220, "range": (0, ticks[-1]), "y_labels": ticks}
    cost = pygal.Bar(x_title=result.heading, value_formatter=lambda many: f"{many:.0f}", **options)
    cost.x_labels = labels
    # The second colour, as everywhere.
    cost.add("", [])
    cost.add("hits", costs)
    yield cost


def _time_chart(result: ReplayResult) -> Any:
    walls = result.replayed.walls
    unit, unit_s = unit_of(walls[-1] - walls[0])
    chart = pygal.XY(x_title=f"{unit} since the recording began", show_dots=False, **_options())
    drawn = False
    for row in result.rows:
        steps = free_sooner(row.balance.moves, walls[0], walls[-1])
        if len(steps) < 3:
            continue
        drawn = True
        xs, ys = stairs(steps)
        points = [
            (round((at - walls[0]) / unit_s, 4), value) for at, value in zip(xs, ys, strict=True)
        ]
        chart.add(visible(row.tried.label), points)
    return chart if drawn else None


def _inline(chart: Any) -> str:
    """The chart's SVG without pygal's script and without its comments, which name servers."""
    svg = chart.render_tree()
    for parent in list(svg.iter()):
        for child in list(parent):
            name = child.tag if isinstance(child.tag, str) else ""
            if not name or name.endswith("script"):
                parent.remove(child)
    svg.set("role", "img")
    return ElementTree.tostring(svg, encoding="unicode")
