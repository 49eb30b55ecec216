"""What `explain` finds: each rule's answer, what it measured, and what it waits for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from nodemanager.core.judge.preconditions import STANDING, Measured, RuleCheck, wait_of
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.verdict import Objection, Verdict
from nodemanager.core.observe.snapshot import Snapshot


class RuleStatus(StrEnum):
    """A rule's answer. `calls` means that the rule calls for a node's shutdown."""

    BLOCKS = "blocks"
    PASSED = "passed"
    CALLS = "calls"
    NOT_ASKED = "not_asked"


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule's answer. `asks` is what must hold. `why` says what a block waits for, who broke the
    rule by hand, or why it was not asked. `wait_s` is set if time and polls alone end a block."""

    rule: str
    name: str
    asks: str
    status: RuleStatus
    reason: Reason | None = None
    measures: Measured = field(default_factory=dict)
    why: str | None = None
    wait_s: float | None = None


def found(
    check: RuleCheck[Any],
    judge: object,
    subject: object,
    said: Verdict | Objection | None,
    rule: str = "",
) -> Finding:
    """The finding of a check that said this (None: passed); `rule` replaces the check's own."""
    measures = check.measure(judge, subject)
    finding = Finding(
        rule or check.rule, check.name, check.asks, RuleStatus.PASSED, measures=measures
    )
    if said is None:
        return finding
    if isinstance(said, Verdict) and said.kind is Kind.SHUTDOWN:
        return replace(finding, status=RuleStatus.CALLS, reason=said.reason)
    measures, by = {**(said.measures or {}), **measures}, said.rule or finding.rule
    blocked = replace(
        finding, rule=by, status=RuleStatus.BLOCKS, reason=said.reason, measures=measures
    )
    wait = wait_of(check, judge, subject, measures)
    if isinstance(wait, str):
        return replace(blocked, why=wait)
    return replace(blocked, wait_s=max(0.0, wait))


def ask_standing(snapshot: Snapshot, settings: Settings) -> list[Finding]:
    """The findings of all rules that can forbid every free and destroy."""
    return [found(check, snapshot, settings, check.ask(snapshot, settings)) for check in STANDING]


def skipped(check: RuleCheck[Any], why: str, rule: str = "") -> Finding:
    """The finding of a check that was not asked."""
    return not_asked(rule or check.rule, check.name, check.asks, why)


def not_asked(rule: str, name: str, asks: str, why: str, **measures: Any) -> Finding:
    return Finding(rule, name, asks, RuleStatus.NOT_ASKED, measures=measures, why=why)


def blocking(findings: Iterable[Finding]) -> list[Finding]:
    return [one for one in findings if one.status is RuleStatus.BLOCKS]


@dataclass(frozen=True, slots=True)
class Earliest:
    """When no rule would block any more, if nothing but the time changes.

    `in_s` counts from the snapshot. If it is None, no moment is known, `why` says what must happen
    first, and `not_before_s` is a lower bound, if there is one.
    """

    in_s: float | None
    why: tuple[str, ...] = ()
    not_before_s: float | None = None


ROUNDS = 32
LONGEST_S = 10 * 366 * 86400.0


def earliest(ask_at: Callable[[float], list[Finding]], tick_s: float) -> Earliest:
    """The first moment at which no rule blocks; `ask_at` asks all rules that many seconds ahead.

    Each block says how long it lasts at least. After the longest of these all are asked again.
    """
    ahead = 0.0
    for _ in range(ROUNDS):
        blocks = blocking(ask_at(ahead))
        if not blocks:
            return Earliest(ahead)
        words = tuple(dict.fromkeys(one.why for one in blocks if one.why is not None))
        longest = max((one.wait_s for one in blocks if one.wait_s is not None), default=0.0)
        if words:
            return Earliest(None, words, ahead + longest if ahead + longest > tick_s else None)
        ahead += max(longest + tick_s, tick_s)
        if ahead > LONGEST_S:
            break
    return Earliest(None, ("no moment within ten years, as things stand",))
