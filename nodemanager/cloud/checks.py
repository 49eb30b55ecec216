"""What a cloud can be asked before the first node boots (`nodemanager check-cloud`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from nodemanager.core.model.world import Size


class Mark(StrEnum):
    """How a check ended. Only FAILED makes the command fail."""

    FINE = "ok"
    WARNING = "warning"
    FAILED = "failed"
    NOT_ASKED = "not asked"


@dataclass(frozen=True, slots=True)
class Found:
    """The answer to one check, as one line for people, and what to do if it is not fine."""

    text: str
    mark: Mark = Mark.FINE
    to_do: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """One question: `ask` gives what was found, or raises a NodeManagerError for a failure.

    `to_do` is the advice for such an error. A check changes nothing and leaves nothing behind.
    """

    name: str
    ask: Callable[[], Found]
    to_do: str = ""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the pool would boot: its sizes, and the tag `pool` of its nodes.

    It may have `max_nodes` at a time, and has `nodes` now, by their ids.
    """

    pool: str
    sizes: tuple[Size, ...]
    max_nodes: int = 1
    nodes: tuple[str, ...] = ()
