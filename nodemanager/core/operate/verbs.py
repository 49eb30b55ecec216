"""The commands of operators and the answers to them, as data.

A client on the command line loads only this, and nothing of what decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from typing import Any

from nodemanager.core.model.reasons import Event, Reason


class CommandTarget(Enum):
    """What a command is about: the pool, a node, or whatever has the id, a node or a record."""

    POOL = auto()
    NODE = auto()
    ANY = auto()


@dataclass(frozen=True, slots=True)
class VerbRow:
    """One command: its `heading` for people, and the event that it is logged as.

    One that `undoes` ends an order that stands; one that is a `danger` ends work, or frees
    something.
    """

    heading: str
    event: Event
    subject: CommandTarget
    undoes: bool = False
    danger: bool = False
    needs_reason: bool = False


class Verb(StrEnum):
    """The commands of an operator to the daemon."""

    HOLD = "hold"
    RELEASE = "release"
    DRAIN = "drain"
    CORDON = "cordon"
    UNCORDON = "uncordon"
    RUN = "run"
    KILL = "kill"
    CLEAN = "clean"
    PAUSE = "pause"
    RESUME = "resume"
    ROTATE_PAUSE = "rotate_pause"
    ROTATE_RESUME = "rotate_resume"
    BREAKER_RESET = "breaker_reset"

    @property
    def row(self) -> VerbRow:
        return _ROWS[self]


_ROWS: Mapping[Verb, VerbRow] = {
    Verb.HOLD: VerbRow("Hold", Event.OPERATOR_HOLD, CommandTarget.ANY),
    Verb.RELEASE: VerbRow("Release", Event.OPERATOR_RELEASE, CommandTarget.ANY, undoes=True),
    Verb.DRAIN: VerbRow("Drain", Event.OPERATOR_DRAIN, CommandTarget.NODE),
    Verb.CORDON: VerbRow("Cordon", Event.OPERATOR_CORDON, CommandTarget.NODE),
    Verb.UNCORDON: VerbRow("Uncordon", Event.OPERATOR_UNCORDON, CommandTarget.NODE, undoes=True),
    Verb.RUN: VerbRow(
        "Undo drain or kill", Event.OPERATOR_UNDRAIN, CommandTarget.NODE, undoes=True
    ),
    Verb.KILL: VerbRow(
        "Kill", Event.OPERATOR_KILL, CommandTarget.NODE, danger=True, needs_reason=True
    ),
    Verb.CLEAN: VerbRow("Clean", Event.OPERATOR_CLEAN, CommandTarget.ANY, danger=True),
    Verb.PAUSE: VerbRow(
        "Pause the pool", Event.OPERATOR_PAUSE, CommandTarget.POOL, needs_reason=True
    ),
    Verb.RESUME: VerbRow("Resume the pool", Event.OPERATOR_RESUME, CommandTarget.POOL, undoes=True),
    Verb.ROTATE_PAUSE: VerbRow(
        "Pause the rotation", Event.OPERATOR_ROTATE_PAUSE, CommandTarget.POOL, needs_reason=True
    ),
    Verb.ROTATE_RESUME: VerbRow(
        "Resume the rotation", Event.OPERATOR_ROTATE_RESUME, CommandTarget.POOL, undoes=True
    ),
    Verb.BREAKER_RESET: VerbRow(
        "Reset the breaker", Event.OPERATOR_BREAKER_RESET, CommandTarget.POOL, danger=True
    ),
}


class Result(StrEnum):
    """How a command ended. DONE and ALREADY are successes; only DONE changed anything."""

    DONE = "done"
    ALREADY = "already"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    FAILED = "failed"
    UNDER_WAY = "under_way"


@dataclass(frozen=True, slots=True)
class Command:
    """An operator's command. `forced` are the rules that they break by name (O3).

    `unlisted` lets a hold be put on what no listing shows.
    """

    verb: Verb
    by: str
    reason: str = ""
    id: str | None = None
    forced: tuple[str, ...] = ()
    unlisted: bool = False


def lacks_reason(command: Command) -> str | None:
    """Why the command needs a reason, if it lacks one; None if nothing is missing."""
    if command.reason:
        return None
    if command.verb.row.needs_reason:
        return f"a {command.verb.value.replace('_', ' ')} needs a reason"
    if command.forced:
        return "a clean that breaks a rule needs a reason"
    return None


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a command: `text` is for people, the rest for programs.

    `reason` is the reason code of a refusal, `rule` the id of the rule behind it, and `measures`
    what it measured. `nearest` is a known id like the one that was given.
    """

    result: Result
    text: str
    record: str | None = None
    node: str | None = None
    reason: Reason | None = None
    rule: str | None = None
    measures: Mapping[str, Any] = field(default_factory=dict)
    nearest: str | None = None

    @property
    def ok(self) -> bool:
        return self.result in (Result.DONE, Result.ALREADY)
