"""One question that a judge asks of a record or a node: the row of an ordered table.

The judge asks them in the order of their table, and the first that has a word keeps what it is
asked of; `explain` asks them all. Nobody else knows the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple, TypeVar

Ask = TypeVar("Ask", bound=Callable[..., Any])


class Check(NamedTuple, Generic[Ask]):
    """`ask` gives a verdict, or None where the rule has nothing against it.

    `rule` is its id in SAFETY.md, `name` what `explain` knows it by. `moot` says of a judge that
    no item of its snapshot can be kept by this; then it is not asked, which saves time.
    """

    rule: str
    name: str
    ask: Ask
    moot: Callable[[Any], bool] | None = None


def asked_by(judge: object, checks: Iterable[Check[Ask]]) -> tuple[Ask, ...]:
    """What has to be asked at all in the judge's snapshot, in order."""
    return tuple([ask for _, _, ask, moot in checks if moot is None or not moot(judge)])
