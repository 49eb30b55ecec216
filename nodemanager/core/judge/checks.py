"""One rule that a judge asks of a record or a node: the row of an ordered table.

The judge asks them in the order of their table, and the first that returns a verdict decides.
`explain` asks them all, and tells what each measured and what would end its no.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

Ask = TypeVar("Ask", bound=Callable[..., Any])

Measured = Mapping[str, Any]
"""What was measured, each value beside its threshold."""
Wait = float | str
"""Seconds of nothing but time and polls that answer; or, in words, what it waits for instead."""
Waits = Callable[[Any, Any, Measured], Wait]


class Check(NamedTuple, Generic[Ask]):
    """`ask` gives a verdict, or None where the rule has nothing against its subject.

    `rule` is its id in SAFETY.md, `asks` what must hold. `wait` says what ends a no: seconds, words
    into which measures are filled, or a function of judge, subject and measures. `measure` gives
    the measures whatever the answer is. `moot` says of a judge that nothing in its snapshot can be
    kept by this; then the judge skips it to save time. `unasked` says why the rule can't be asked,
    where it can't. Where a `decisive` rule blocks, no other is asked. A rule of a `course` is asked
    only of the nodes that take that course. What is `of_pairs` holds of every record that has its
    pair, which the judge skips it for.
    """

    rule: str
    ask: Ask
    asks: str
    wait: Wait | Waits = 0.0
    measure: Callable[[Any, Any], Measured] = lambda judge, subject: {}
    moot: Callable[[Any], bool] | None = None
    unasked: Callable[[Any, Any], str | None] = lambda judge, subject: None
    decisive: bool = False
    course: str | None = None
    of_pairs: bool = False

    @property
    def name(self) -> str:
        """What `explain` knows it by."""
        return self.ask.__name__.lstrip("_")


def asked_by(judge: object, checks: Iterable[Check[Ask]]) -> tuple[Ask, ...]:
    """What has to be asked at all in the judge's snapshot, in order."""
    return tuple([one.ask for one in checks if one.moot is None or not one.moot(judge)])


def until(measure: str, limit: str) -> Waits:
    """Wait until what is measured has grown to its limit."""

    def left(judge: object, subject: object, measures: Measured) -> Wait:
        return float(measures[limit] - measures[measure])

    return left


def wait_of(check: Check[Ask], judge: object, subject: object, measures: Measured) -> Wait:
    """What would end the check's no."""
    if callable(check.wait):
        return check.wait(judge, subject, measures)
    return check.wait.format(**measures) if isinstance(check.wait, str) else check.wait
