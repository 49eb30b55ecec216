"""What an operator orders, and what is answered.

A client on the command line loads only this and the verbs, and nothing of what decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from nodemanager.core.model.reasons import Reason
from nodemanager.core.operate.verbs import Verb


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
        return f"a {command.verb.typed} needs a reason"
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
