"""The alert rules, the Grafana dashboard and the runbook fit the metrics and each other."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import click
import pytest
import yaml

from doc.generate.metrics import series
from nodemanager.cli import group
from nodemanager.core.model.reasons import Reason
from tests.alerts import UNIT_TESTS, alerts, panels, series_in

RUNBOOK = Path(__file__).parent.parent / "doc" / "runbook.rst"
PARTS = ("**What it means.**", "**What to look at.**", "**What to type.** ::")

NOT_OURS = {"up": {"job", "instance"}}
"""Metrics that Prometheus itself makes."""
ADDED = {"job", "instance"}
"""Labels that a scrape adds."""
_MATCHER = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
_REASONS = re.compile(r'\breason\s*(?:=~|!~|!=|=)\s*"([^"]*)"')


EXPRESSIONS = [
    *(pytest.param(alert["expr"], id=alert["alert"]) for alert in alerts()),
    *(pytest.param(expr, id=f"{title}-{n}") for n, (title, expr) in enumerate(panels())),
]


@pytest.fixture(scope="module")
def known() -> dict[str, set[str]]:
    """The labels of each series."""
    return {**series(), **NOT_OURS}


@pytest.mark.parametrize("expr", EXPRESSIONS)
def test_every_metric_and_label_that_is_asked_for_exists(
    expr: str, known: dict[str, set[str]]
) -> None:
    asked = series_in(expr)
    assert asked
    for name, matchers in asked:
        assert name in known, name
        assert set(_MATCHER.findall(matchers)) <= known[name] | ADDED, name


def test_each_reason_that_is_asked_for_is_one_of_ours() -> None:
    asked = {
        reason
        for expr in EXPRESSIONS
        for values in _REASONS.findall(str(expr.values[0]))
        for reason in values.split("|")
    }
    assert asked
    assert asked <= set(Reason)


def test_a_summary_names_only_labels_that_its_alert_has(known: dict[str, set[str]]) -> None:
    for alert in alerts():
        named = set(re.findall(r"\$labels\.(\w+)", alert["annotations"]["summary"]))
        expr = alert["expr"]
        given = ADDED.union(*(known[name] for name, _ in series_in(expr)))
        for gone in re.findall(r"without \(([\w, ]+)\)", expr):
            given -= set(gone.split(", "))
        assert named <= given, alert["alert"]


def promtool(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = ["promtool", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.server("promtool")
def test_the_rules_pass_promtools_unit_tests() -> None:
    done = promtool("test", "rules", UNIT_TESTS)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_has_a_unit_test_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    fires: dict[bool, set[str]] = {True: set(), False: set()}
    for test in yaml.safe_load(UNIT_TESTS.read_text(encoding="utf-8"))["tests"]:
        for point in test["alert_rule_test"]:
            fires[bool(point.get("exp_alerts"))].add(point["alertname"])
    names = {alert["alert"] for alert in alerts()}
    assert fires[True] == names
    assert names - fires[False] == set()


@pytest.mark.server("promtool")
def test_prometheus_can_read_each_expression_of_the_dashboard(tmp_path: Path) -> None:
    given = {"$__rate_interval": "5m", "$instance": ".*", "$job": "nodemanager"}
    rules = []
    for number, (_, expr) in enumerate(panels()):
        for name, value in given.items():
            expr = expr.replace(name, value)
        assert "$" not in expr
        rules.append({"record": f"panel:{number}", "expr": expr})
    file = tmp_path / "panels.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    done = promtool("check", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr


def sections() -> dict[str, str]:
    """The text of each alert's section of the runbook."""
    text = RUNBOOK.read_text(encoding="utf-8")
    parts = re.split(r"(?m)^(Nodemanager\w+)\n-+\n", text)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_each_alert_has_its_section_of_the_runbook_and_leads_there() -> None:
    assert list(sections()) == [alert["alert"] for alert in alerts()]
    for alert in alerts():
        where = f"runbook.html#{alert['alert'].lower()}"
        assert alert["annotations"]["runbook"] == where
        assert alert["labels"]["severity"] in ("page", "ticket")


@pytest.mark.parametrize("name", sections())
def test_a_section_says_what_it_means_what_to_look_at_and_what_to_type(name: str) -> None:
    means, look, type_ = (sections()[name].partition(part)[2].strip() for part in PARTS)
    assert len(means) > len(look) > len(type_) > 0


COMMANDS = sorted(
    {
        line.strip()
        for line in RUNBOOK.read_text(encoding="utf-8").splitlines()
        if line.startswith("    nodemanager ")
    }
)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_runbook_is_one_of_ours_with_options_that_it_has(command: str) -> None:
    _, *words = shlex.split(command)
    at: click.Command | None = group
    while isinstance(at, click.Group):
        at = at.get_command(click.Context(at), words.pop(0))
    assert at is not None
    given = {word for word in words if word.startswith("--")}
    assert given <= {option for one in at.params for option in one.opts}, command
