"""What a cloud can be asked before the first node boots (`nodemanager check-cloud`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from nodemanager.core.model.world import Size


class CheckStatus(StrEnum):
    """How a check ended. Only FAILED makes the command fail."""

    FINE = "ok"
    WARNING = "warning"
    FAILED = "failed"
    NOT_ASKED = "not asked"


@dataclass(frozen=True, slots=True)
class Found:
    """The answer to one check, as one line for people, and what to do if it is not fine."""

    text: str
    mark: CheckStatus = CheckStatus.FINE
    to_do: str = ""


def held_against(sizes: Iterable[Size], text: str, cores: int, ram_mb: int) -> Found:
    """What the cloud says of its type of node, `text`; a warning where one of the `sizes` of that
    type promises more."""
    for size in sizes:
        if size.cores > cores or size.ram_mb > ram_mb:
            return Found(
                f"{text}, but [Size {size.name}] says {size.cores} cores, {size.ram_mb} MB",
                CheckStatus.WARNING,
                "correct the section: jobs are sent there that do not fit",
            )
    return Found(text)


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

    It has `nodes` now, by their ids.
    """

    pool: str
    sizes: tuple[Size, ...]
    nodes: tuple[str, ...] = ()

    @property
    def places(self) -> tuple[str, ...]:
        """The zones and subnets of all sizes, each once."""
        return tuple(dict.fromkeys(place for size in self.sizes for place in size.places))

    @property
    def types(self) -> dict[str, list[Size]]:
        """The sizes by the cloud's own types of nodes; a type may be there as spot and without."""
        found: dict[str, list[Size]] = {}
        for size in sorted(self.sizes, key=lambda size: size.instance_type):
            found.setdefault(size.instance_type, []).append(size)
        return found
