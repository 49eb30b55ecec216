"""What the alert rules and the Grafana dashboard ask Prometheus for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

_ETC = Path(__file__).parent.parent / "etc"
RULES = _ETC / "prometheus" / "nodemanager.rules.yml"
UNIT_TESTS = _ETC / "prometheus" / "nodemanager.tests.yml"
DASHBOARD = _ETC / "grafana" / "nodemanager.json"
_METRIC = re.compile(r"\b((?:nodemanager|process)_[a-z_]+|up)\b(?:\{([^}]*)\})?")


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> Iterator[tuple[str, str]]:
    """Each expression of the dashboard, with the title of what shows it."""
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
    for annotation in board["annotations"]["list"]:
        yield annotation["name"], annotation["expr"]


def series_in(expr: str) -> list[tuple[str, str]]:
    """The names of the series in an expression, each with what is in its braces."""
    return _METRIC.findall(expr)


def metrics_used() -> set[str]:
    """The names of nodemanager's own series that the rules and the dashboard use."""
    exprs = [*(alert["expr"] for alert in alerts()), *(expr for _, expr in panels())]
    names = {name for expr in exprs for name, _ in series_in(expr)}
    return {name for name in names if name.startswith("nodemanager_")}
