"""A real Prometheus that scrapes a daemon and evaluates the shipped alert rules.

Its clock can't be turned, so each rule's `for:` and the intervals are a second; the expressions
are the shipped ones.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import requests
import yaml

from tests.alerts import RULES
from tests.live.harness import free_port
from tests.waiting import until

EACH = "1s"


class Prometheus:
    """A running server; `url` is where it listens."""

    def __init__(self, home: Path, daemon: str) -> None:
        """`daemon` is the URL of a management server, `home` an empty directory."""
        home.mkdir()
        target = daemon.partition("://")[2].rstrip("/")
        rules = yaml.safe_load(RULES.read_text(encoding="utf-8"))
        for group in rules["groups"]:
            for rule in group["rules"]:
                if "for" in rule:
                    rule["for"] = EACH
        (home / "rules.yml").write_text(yaml.safe_dump(rules), encoding="utf-8")
        config = {
            "global": {"scrape_interval": EACH, "evaluation_interval": EACH},
            "rule_files": ["rules.yml"],
            "scrape_configs": [
                {"job_name": "nodemanager", "static_configs": [{"targets": [target]}]}
            ],
        }
        (home / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._log = home / "prometheus.log"
        with open(self._log, "wb") as output:
            self._process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={home}/prometheus.yml",
                    f"--storage.tsdb.path={home}/data",
                    f"--web.listen-address=127.0.0.1:{port}",
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def firing(self) -> set[str]:
        """The names of the alerts that fire now."""
        return {
            one["labels"]["alertname"]
            for one in self._asked("alerts")["alerts"]
            if one["state"] == "firing"
        }

    def evaluated(self) -> bool:
        """Whether it has scraped the daemon, and evaluated every rule without an error."""
        with suppress(requests.ConnectionError):
            targets = self._asked("targets")["activeTargets"]
            rules = [rule for group in self._asked("rules")["groups"] for rule in group["rules"]]
            return (
                bool(rules)
                and all(one["health"] == "up" for one in targets)
                and all(rule["health"] == "ok" for rule in rules)
            )
        return False

    def told(self) -> str:
        """What it said last."""
        said = self._log.read_text(encoding="utf-8", errors="replace")
        return "\n".join(said.splitlines()[-20:])

    def _asked(self, what: str) -> dict[str, Any]:
        answer = requests.get(f"{self.url}/api/v1/{what}", timeout=10)
        if answer.status_code == 503:
            # It has not started yet.
            raise requests.ConnectionError(answer.text)
        return dict(answer.json()["data"])

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def prometheus(home: Path, daemon: str) -> Iterator[Prometheus]:
    """A server that has evaluated the rules on the daemon's metrics, while the context lasts."""
    made = Prometheus(home, daemon)
    try:
        until("Prometheus to evaluate the rules", made.evaluated, told=made.told)
        yield made
    finally:
        made.close()
