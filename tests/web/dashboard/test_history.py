"""The charts' past: one sample a minute, over restarts, and how it is drawn."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from nodemanager.core.model.reasons import Event
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import Size, WorkerState
from nodemanager.core.plan.plan import Plan
from nodemanager.web.dashboard import charts
from nodemanager.web.dashboard.charts import MOST_POINTS, drawn
from nodemanager.web.dashboard.history import (
    BOOTS,
    CHARTS,
    COST,
    KEPT_S,
    NODES,
    SLOTS,
    ChartHistory,
    Sample,
)
from tests.waiting import until
from tests.web.dashboard.console import small

SETTINGS = Settings("pool", sizes=(Size("small", "t.small", cores=1, ram_mb=1000, price=0.25),))


def plan(nodes: int = 2) -> Plan:
    made = small(nodes=nodes)
    made.flags["slots"] = 20
    made.settle()
    assert made.last is not None
    return made.last


def slots(minute: int, used: int, leaked: int = 1, free: int = 10) -> Sample:
    values = {"slots.used": used, "slots.idle": 2, "slots.leaked": leaked, "slots.free": free}
    return Sample(minute * 60.0, values)


def test_the_last_sample_of_each_minute_is_kept() -> None:
    history = ChartHistory()
    one, two = plan(2), plan(4)
    for second in range(0, 190, 10):
        history.add(float(second), two if second % 60 == 50 else one, SETTINGS)
    kept = history.since(0.0)
    assert [(each.at, each.values["slots.used"]) for each in kept] == [(50, 5), (110, 5), (170, 5)]
    assert [each.at for each in history.since(60.0)] == [110, 170]
    assert {key: kept[0].values[key] for key in ("slots.leaked", "slots.free")} == {
        "slots.leaked": 0,
        "slots.free": 15,
    }
    assert kept[0].values["nodes.unknown"] == 4
    assert kept[0].values["boots.refused"] == 0


def test_what_is_counted_counts_in_the_minute_that_heard_it() -> None:
    history = ChartHistory()
    made = plan()
    history.heard(Event.NODE_CREATED)
    history.add(10.0, made, SETTINGS)
    history.heard(Event.NODE_CREATED)
    history.heard(Event.NODE_SETUP_FAILED)
    history.heard(Event.NODE_PAIRED)
    history.add(20.0, made, SETTINGS)
    history.heard(Event.NODE_CREATED)
    history.add(70.0, made, SETTINGS)
    history.add(130.0, made, SETTINGS)
    counts = [(one.values["boots.booted"], one.values["boots.failed"]) for one in history.since(0)]
    assert counts == [(2, 1), (1, 0)]


def test_the_price_is_noted_by_what_it_is_for_and_adds_up_to_that_of_the_decision() -> None:
    made = small(nodes=4)
    size = Size("small", "t.small", cores=1, ram_mb=1000, price=0.25)
    made.with_settings(sizes=(size,))
    for number, state in ((1, WorkerState.BUSY), (2, WorkerState.IDLE), (3, WorkerState.IDLE)):
        made.ping(f"r{number}", state)
    made.settle()
    assert made.last is not None
    history = ChartHistory()
    for minute in range(2):
        history.add(minute * 60.0, made.last, made.settings)
    (sample,) = history.since(0.0)
    costs = {key: value for key, value in sample.values.items() if key.startswith("cost.")}
    assert costs == {"cost.busy": 0.25, "cost.late": 0.5, "cost.unknown": 0.25}
    assert made.last.wants is not None
    assert sum(costs.values()) == made.last.wants.price


def test_the_causes_of_the_cost_are_stacked_and_none_that_cost_nothing() -> None:
    values = {"cost.busy": 0.5, "cost.late": 0.25}
    found = drawn(COST, [Sample(minute * 60.0, values) for minute in range(10)], 0.0, 600.0)
    assert found is not None
    assert [name for name, _ in found.legend] == ["busy", "late"]
    assert "busy: 0.5 at the end, at most 0.5; late: 0.25 at the end" in found.svg


def test_it_is_bounded() -> None:
    history = ChartHistory()
    made = plan()
    for minute in range(KEPT_S // 60 + 100):
        history.add(minute * 60.0, made, SETTINGS)
    kept = history.since(0.0)
    assert len(kept) == KEPT_S // 60
    assert kept[0].at == 99 * 60.0


def test_a_restart_goes_on_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "charts.history"
    history = ChartHistory(path)
    made = plan()
    for minute in range(4):
        history.add(minute * 60.0, made, SETTINGS)
    until("three lines", lambda: path.exists() and len(path.read_text().splitlines()) == 3)
    assert path.stat().st_mode & 0o777 == 0o600
    with path.open("a") as file:
        file.write("torn 1 2\n50 slots.used=nan\n60 slots.used=1 slots.id\n9999999999")
    assert ChartHistory(path).since(0.0) == history.since(0.0)


def test_a_path_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    history = ChartHistory(tmp_path / "missing" / "charts.history")
    for minute in range(3):
        history.add(minute * 60.0, plan(), SETTINGS)
    assert len(history.since(0.0)) == 2


def test_the_chart_stacks_the_layers_in_steps_and_leaves_gaps() -> None:
    samples = [slots(minute, 3 + minute // 5) for minute in (*range(10), *range(30, 40))]
    found = drawn(SLOTS, samples, 0.0, 40 * 60.0)
    assert found is not None
    svg = ElementTree.fromstring(found.svg)
    paths: dict[str | None, list[str]] = {}
    for one in svg.iter("path"):
        paths.setdefault(one.get("class"), []).append(str(one.get("d")))
    del paths["grid"]
    assert {name: len(those) for name, those in paths.items()} == dict.fromkeys(
        ("used", "idle", "leaked", "free"), 2
    )
    assert "used: 10 at the end, at most 10; idle: 2 at the end" in str(svg.get("aria-label"))
    # Only across and up or down: a height stays until the next sample.
    for one in paths["used"]:
        assert re.fullmatch(r"M[\d.]+ [\d.]+([HV][\d.]+)+Z", one)
    top = re.match(r"M\S+ ([\d.]+)V", paths["used"][0])
    base = re.findall(r"V([\d.]+)", paths["idle"][0])[-1]
    assert top is not None
    assert float(top[1]) == float(base)
    assert [name for name, _ in found.legend] == ["used", "idle", "leaked", "free"]


def test_counts_are_lines_with_their_sums_and_what_never_was_is_left_out() -> None:
    samples = [
        Sample(minute * 60.0, {"boots.booted": 1, "boots.failed": 0, "boots.refused": minute})
        for minute in range(10)
    ]
    found = drawn(BOOTS, samples, 0.0, 600.0)
    assert found is not None
    assert found.legend == (("booted", "10"), ("refused", ""))
    assert 'class="line booted"' in found.svg
    assert "10 booted; refused: 9 at the end, at most 9." in found.svg
    assert drawn(NODES, samples, 0.0, 600.0) is None


@pytest.mark.parametrize("price", [0.0021, 0.02, 0.16, 3.5, 1250.0])
def test_each_label_of_a_price_has_room_beside_its_chart(price: float) -> None:
    """On a phone a digit takes 11 of the picture's units; of 0.015 only .015 was seen."""
    values = dict.fromkeys((COST.key(one) for one in COST.series), 0.0)
    values[COST.key(COST.series[0])] = price
    found = drawn(COST, [Sample(minute * 60.0, values) for minute in range(10)], 0.0, 600.0)
    assert found is not None
    labels = re.findall(r'class="y" x="([\d.]+)" y="[\d.]+">([^<]+)<', str(found.svg))
    assert len(labels) > 2
    assert all(len(text) * 11 <= float(x) for x, text in labels), labels


def test_a_week_is_drawn_with_few_points_and_its_worst_moment() -> None:
    samples = [slots(minute, 3, leaked=minute % 2) for minute in range(KEPT_S // 60)]
    samples[5000] = slots(5000, 3, leaked=9, free=1)
    found = drawn(SLOTS, samples, 0.0, float(KEPT_S))
    assert found is not None
    assert len(found.svg) < 80 * MOST_POINTS * 2
    assert "leaked: 1 at the end, at most 9; free: 10 at the end, at least 1." in found.svg


def test_no_chart_without_two_samples() -> None:
    assert all(drawn(chart, [slots(1, 3)], 0.0, 100.0) is None for chart in CHARTS)


def test_every_series_has_a_colour() -> None:
    css = (Path(charts.__file__).parent / "static" / "dashboard.css").read_text()
    for chart in CHARTS:
        for one in chart.series:
            assert re.search(rf"\.{one.name}[ ,][^}}]*{{ --of: ", css), one.name
