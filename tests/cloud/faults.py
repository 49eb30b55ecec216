"""What goes wrong between a cloud's server and its adapter, for the servers that answer in JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Reply:
    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Fault:
    """What goes wrong with the next `times` calls of `action`.

    `before` gives an answer instead of doing the work; `after` spoils the answer to work that was
    done. Either gives None to cut the connection without an answer.
    """

    action: str
    times: int = 1
    before: Callable[[], Reply | None] | None = None
    after: Callable[[Reply], Reply | None] | None = None


def lost(_reply: Reply) -> None:
    """The work is done, and nobody hears of it."""


def truncated(reply: Reply) -> Reply:
    """Half an answer that claims to be whole."""
    return Reply(reply.status, reply.body[: len(reply.body) // 2], reply.headers)
