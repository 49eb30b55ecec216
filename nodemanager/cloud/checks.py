"""What a cloud can be asked before the first node boots (`nodemanager check-cloud`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import ClassVar

from nodemanager.cloud.refusal import CodedRefusal
from nodemanager.core.model.world import Size
from nodemanager.errors import Unauthorized


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


@dataclass(frozen=True, slots=True)
class Offer:
    """What a cloud says of one of its types of nodes. `where` is where it has it, for people.

    `scratch_mb` is None where only the adapter's own table tells it.
    """

    cores: int
    ram_mb: int
    scratch_mb: int | None = None
    spot: bool = True
    where: str = ""


@dataclass
class CloudChecks(ABC):
    """What only the cloud itself can be asked: rights, types of nodes and places.

    Nothing is sent before a check is asked. A question that the manager has no right to ask, or
    that the cloud does not know, is no failure.
    """

    wanted: Wanted

    READS: ClassVar[str] = ""
    """The advice for such a question."""
    ROLE: ClassVar[str] = ""
    """The advice for a right that the manager lacks, or that could not be asked for."""
    UNKNOWN: ClassVar[Collection[str]] = ()
    """The codes by which an API says that it does not know a question."""

    @property
    def own_place(self) -> str | None:
        """Where nodes boot whose size names no place."""
        return None

    @property
    def all_spot(self) -> bool:
        """Whether the file has every node booted as a spot node."""
        return False

    def rights(self) -> Mapping[str, Callable[[], Found]]:
        """The questions about rights, as the vendor's own dry run answers them, by name."""
        return {}

    @abstractmethod
    def offer(self, kind: str, place: str | None) -> Offer | Found:
        """What the cloud says of that type of nodes there, or why it has none."""

    @abstractmethod
    def place(self, place: str) -> Found:
        """What the cloud says of that zone or subnet."""

    def all(self) -> list[Check]:
        asks = {
            **{f"offer of {kind}": partial(self._offered, kind) for kind in self.wanted.types},
            **{
                f"place {one}": partial(self._placed, one)
                for one in dict.fromkeys((self.own_place, *self.wanted.places))
                if one is not None
            },
        }
        rights = [
            Check(name, partial(self._answered, ask), self.ROLE)
            for name, ask in self.rights().items()
        ]
        return rights + [Check(name, partial(self._answered, ask)) for name, ask in asks.items()]

    def _answered(self, ask: Callable[[], Found]) -> Found:
        try:
            return ask()
        except CodedRefusal as refusal:
            if refusal.meaning is not Unauthorized and refusal.code not in self.UNKNOWN:
                raise
            return Found(str(refusal)[:300], CheckStatus.NOT_ASKED, self.READS)

    def _offered(self, kind: str) -> Found:
        """Whether the cloud has the type, as spot where that is wanted, and all that is promised.

        A type may be there as spot and without.
        """
        sizes = self.wanted.types[kind]
        found = self.offer(kind, None if sizes[0].places else self.own_place)
        if isinstance(found, Found):
            return found
        where = f"{found.where}: " if found.where else ""
        text = f"{where}{found.cores} cores, {found.ram_mb} MB"
        if not found.spot and (self.all_spot or any(size.preemptible for size in sizes)):
            text = f"{text}, never as a spot node"
            return Found(text, CheckStatus.FAILED, "take preemptible out")
        disk_mb = found.scratch_mb
        for size in sizes:
            lacks_disk = disk_mb is not None and size.scratch_mb > disk_mb
            if size.cores > found.cores or size.ram_mb > found.ram_mb or lacks_disk:
                scratch = f", scratch {size.scratch_mb} MB" if lacks_disk else ""
                promised = f"{size.cores} cores, {size.ram_mb} MB{scratch}"
                return Found(
                    f"{text}, but [Size {size.name}] says {promised}",
                    CheckStatus.WARNING,
                    "correct the section: jobs are sent there that do not fit",
                )
        return Found(text)

    def _placed(self, place: str) -> Found:
        """Whether there is that place, and whether it has the types of its sizes."""
        found = self.place(place)
        sizes = (size for size in self.wanted.sizes if place in size.places)
        for kind in sorted({size.instance_type for size in sizes}):
            offer = self.offer(kind, place)
            if found.mark is CheckStatus.FINE and isinstance(offer, Found):
                return Found(
                    f"{place}: {offer.text}", offer.mark, "take it out of the places of that size"
                )
        return found
