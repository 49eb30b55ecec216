"""What is known of an operator's command: the columns of the table of verbs."""

from __future__ import annotations

from enum import Enum, Flag, auto
from typing import NamedTuple


class CommandTarget(Enum):
    """What a command is about; `ANY` is whatever has the id, a node or a record."""

    POOL = ""
    NODE = "node"
    RECORD = "record"
    ANY = "id"


class Takes(Flag):
    """The options of a command, besides its reason."""

    FORCE = auto()
    """The rules to break by name (O3)."""
    UNLISTED = auto()
    YES = auto()
    """It asks before it does it, unless this is given."""
    WAIT = auto()
    """It can wait until the order is carried out."""


Sentence = str | tuple[str, str]
"""A sentence, or one that holds only for a `busy` node, an `idle` one, or one that has a `slot`."""


class PoolMark(NamedTuple):
    """How a mark on the whole pool is told while it stands: how bad that is, and what it means.

    `word` is that in logs and metrics, and `part` the key of status.json that tells of it.
    """

    level: str
    title: str
    word: str
    part: str
    subject: str = "the whole pool"

    @property
    def flag(self) -> str:
        """The key in that part which says whether it stands."""
        return self.word.rpartition("_")[2]


class VerbRow(NamedTuple):
    """One command: its `heading` for people, and what it is about.

    It is typed as its value, or as `typed`; `help` and `examples` are those of `--help`, and `does`
    is its line in the list of the commands, empty for one of GROUPS. `says` tells before it is
    given what it will do; `done` and `already` answer it. One that `ends` marks takes off those of
    the kinds that it names; one that sets a mark on the whole pool has a `standing`. One that is a
    `danger` ends work, or frees something.
    """

    value: str
    heading: str
    subject: CommandTarget
    help: str
    says: tuple[Sentence, ...]
    examples: tuple[str, ...] = ()
    does: str = ""
    done: str = ""
    already: str = ""
    typed: str = ""
    takes: Takes = Takes(0)
    ends: tuple[str, ...] = ()
    standing: PoolMark | None = None
    danger: bool = False
    needs_reason: bool = False
