"""The slots over time: one sample a minute, over restarts, and their chart."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

from nodemanager.core.explain.slot_states import SlotStates
from nodemanager.web.dashboard.charts import MOST_POINTS, slots_chart, sweep_chart
from nodemanager.web.dashboard.history import KEPT_S, Sample, SlotHistory
from tests.waiting import until

STATES = SlotStates(3, 2, 1, 10)


def test_the_last_sample_of_each_minute_is_kept() -> None:
    history = SlotHistory()
    for second in range(0, 190, 10):
        history.add(float(second), SlotStates(second, 0, 0, None))
    assert [(one.at, one.used) for one in history.since(0.0)] == [(50, 50), (110, 110), (170, 170)]
    assert [one.at for one in history.since(60.0)] == [110, 170]


def test_it_is_bounded() -> None:
    history = SlotHistory()
    for minute in range(KEPT_S // 60 + 100):
        history.add(minute * 60.0, STATES)
    kept = history.since(0.0)
    assert len(kept) == KEPT_S // 60
    assert kept[0].at == 99 * 60.0


def test_a_restart_goes_on_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "slots.history"
    history = SlotHistory(path)
    for minute in range(4):
        history.add(minute * 60.0, STATES)
    until("three lines", lambda: path.exists() and len(path.read_text().splitlines()) == 3)
    assert path.stat().st_mode & 0o777 == 0o600
    with path.open("a") as file:
        file.write("torn 1 2\n9999999999")
    again = SlotHistory(path)
    assert again.since(0.0) == [Sample(minute * 60.0, 3, 2, 1, 10) for minute in range(3)]


def test_a_path_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    history = SlotHistory(tmp_path / "missing" / "slots.history")
    for minute in range(3):
        history.add(minute * 60.0, STATES)
    assert len(history.since(0.0)) == 2


def test_the_chart_stacks_the_layers_and_leaves_gaps() -> None:
    samples = [Sample(minute * 60.0, 3, 2, 1, 10) for minute in (*range(10), *range(30, 40))]
    svg = ElementTree.fromstring(slots_chart(samples, 0.0, 40 * 60.0))
    paths: dict[str | None, list[str | None]] = {}
    for one in svg.iter("path"):
        paths.setdefault(one.get("class"), []).append(one.get("d"))
    assert {name: len(found) for name, found in paths.items() if name != "grid"} == dict.fromkeys(
        ("used", "idle", "leaked", "free"), 2
    )
    assert "3 used, 2 idle, 1 leaked, 10 free" in str(svg.get("aria-label"))
    top_of_used = re.match(r"M\S+ (\S+)L", str(paths["used"][0]))
    base_of_idle = re.findall(r"\S+ ([\d.]+)", str(paths["idle"][0]))[-1]
    assert top_of_used is not None
    assert float(top_of_used[1]) == float(base_of_idle.rstrip("Z"))


def test_a_week_is_drawn_with_few_points_and_its_worst_moment() -> None:
    samples = [Sample(minute * 60.0, 3, 2, 0, 10) for minute in range(KEPT_S // 60)]
    samples[5000] = Sample(5000 * 60.0, 3, 2, 9, 1)
    chart = slots_chart(samples, 0.0, float(KEPT_S))
    assert len(chart) < 80 * MOST_POINTS * 2
    assert "At most 9 leaked, at least 1 free" in chart


def test_no_chart_without_two_samples() -> None:
    assert slots_chart([], 0.0, 100.0) == ""
    assert sweep_chart([("1h", 1.0, 0, True)], "gain", "hits") == ""


def test_the_sweeps_chart_shows_losses_below_zero_and_marks_hits() -> None:
    rows = [("30m", 2.0, 3, False), ("1h", 0.0, 0, True), ("2h", -1.5, 0, False)]
    chart = sweep_chart(rows, "slot-hours", "hits")
    svg = ElementTree.fromstring(chart)
    bars = {one.get("class"): one for one in svg.iter("rect")}
    assert bars.keys() == {"gain", "own"}
    assert "3 hits" in "".join(svg.itertext())
    assert "2h: slot-hours -1.5, hits 0" in str(svg.get("aria-label"))
