"""The checks that a judge applies to a record or a node: the rows of an ordered table.

A judge asks its checks in order, and the first that returns a verdict decides. `explain` asks them
all, and tells what each measured and what would end its objection.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from nodemanager.core.model.verdict import Objection, Verdict
from nodemanager.core.model.world import CloudNode, Record

Ask = TypeVar("Ask", bound=Callable[..., Any])
Said = TypeVar("Said", Verdict, Objection)

Measured = Mapping[str, Any]
"""Measured values, each with its threshold."""
WaitHint = float | str
"""Seconds to wait while all polls answer; or, in words, what must happen instead."""
Waits = Callable[[Any, Any, Measured], WaitHint]


class RuleCheck(NamedTuple, Generic[Ask]):
    """One rule; `ask` returns a verdict, or None if the rule does not object to the subject.

    `rule` is the id in SAFETY.md, `asks` what must hold. `wait` says what ends an objection:
    seconds, a text that is formatted with the measures, or a function of judge, subject and
    measures. `measure` gives the measures whatever the answer is. If `moot` is true of a judge, the
    check can't object to anything in its snapshot, and the judge skips it to save time. `unasked`
    tells why the rule can't be asked, or None. If a `decisive` check objects, no other is asked. A
    check with a `course` applies only to nodes on that course. A check `of_pairs` never objects to
    a paired record, so that the judge skips it there.
    """

    rule: str
    ask: Ask
    asks: str
    wait: WaitHint | Waits = 0.0
    measure: Callable[[Any, Any], Measured] = lambda judge, subject: {}
    moot: Callable[[Any], bool] | None = None
    unasked: Callable[[Any, Any], str | None] = lambda judge, subject: None
    decisive: bool = False
    course: str | None = None
    of_pairs: bool = False

    @property
    def name(self) -> str:
        """The name by which `explain` knows the check."""
        return self.ask.__name__.lstrip("_")

    def bears(self, said: Said) -> Said:
        """What the check said, with its rule; a check may name another rule itself."""
        return said if said.rule is not None else type(said)(*said[:-1], self.rule)


def asked_by(judge: object, checks: Iterable[RuleCheck[Ask]]) -> tuple[RuleCheck[Ask], ...]:
    """The checks that are not moot for this judge, in order."""
    return tuple([one for one in checks if one.moot is None or not one.moot(judge)])


def until(measure: str, limit: str) -> Waits:
    """A `wait` of as many seconds as the measure has left to its limit."""

    def left(judge: object, subject: object, measures: Measured) -> WaitHint:
        return float(measures[limit] - measures[measure])

    return left


def wait_of(check: RuleCheck[Ask], judge: object, subject: object, measures: Measured) -> WaitHint:
    """What would end the check's objection, given its measures."""
    if callable(check.wait):
        return check.wait(judge, subject, measures)
    return check.wait.format(**measures) if isinstance(check.wait, str) else check.wait


def until_released(holds: Collection[str], *kept: Record | CloudNode | str | None) -> str:
    """What ends a hold on any of `kept`: its release, or taking off a mark of its own (C9).

    A mark is in a record's properties or in a node's tags; an id alone has none.
    """
    ends: dict[str, None] = {}
    for one in kept:
        id = one.uuid if isinstance(one, Record) else one.id if isinstance(one, CloudNode) else one
        if id in holds:
            ends[f"`nodemanager release {id}`"] = None
        if isinstance(one, Record | CloudNode) and one.held:
            ends[f"take the hold mark off {id}"] = None
    return f"not while it is on hold; to end that, {' and '.join(ends)}"
