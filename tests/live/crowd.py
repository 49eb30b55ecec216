"""Nodes of another pool that ping a registry as fast as it answers."""

from __future__ import annotations

import http.client
import json
import threading
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlencode, urlsplit

from tests.live.harness import Registry

THREADS = 4


@dataclass
class Crowd:
    """Nodes of another pool, which ping one after the other, as fast as they are answered."""

    url: str
    rows: list[dict[str, Any]]
    acknowledged: dict[str, str] = field(default_factory=dict)
    """The newest stamp that each was told, by record."""
    answered: int = 0
    unheard: int = 0
    strange: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._over = threading.Event()
        parts = [self.rows[number::THREADS] for number in range(THREADS)]
        self._threads = [threading.Thread(target=self._run, args=(part,)) for part in parts]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _run(self, rows: list[dict[str, Any]]) -> None:
        line = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=10)
        number = 0
        while not self._over.is_set():
            row = rows[number % len(rows)]
            number += 1
            form = {"ping_secret": row["info"]["ping_secret"], "local_ipv4": address(row)}
            try:
                line.request(
                    "POST",
                    f"/arvados/v1/nodes/{row['uuid']}/ping",
                    urlencode(form),
                    {"content-type": "application/x-www-form-urlencoded"},
                )
                answer = line.getresponse()
                body = answer.read()
            except (OSError, http.client.HTTPException):
                self.unheard += 1
                line.close()
                # Nobody is there: not a busy loop until somebody is.
                self._over.wait(0.02)
                continue
            if answer.status == 200:
                self.answered += 1
                self.acknowledged[row["uuid"]] = str(json.loads(body)["last_ping_at"])
            else:
                self.strange.add(answer.status)
        line.close()


def address(row: dict[str, Any]) -> str:
    return f"10.9.0.{row['slot_number']}"


def others(registry: Registry, first: int, many: int) -> list[dict[str, Any]]:
    """The records of another pool's nodes, in the slots after `first`."""
    return [
        registry.create(slot_number=first + number, properties={"nodemanager_pool": "another"})
        for number in range(1, many + 1)
    ]


def lost(row: dict[str, Any], acknowledged: str) -> bool:
    kept = row["last_ping_at"]
    return kept is None or datetime.fromisoformat(kept) < datetime.fromisoformat(acknowledged)
