"""What changed and what did not, for data that a plan copies and compares several times."""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import TYPE_CHECKING, Any

__all__ = ["changed", "same_items"]

if TYPE_CHECKING:
    # A faster `replace`. The type checker sees `replace` itself, and so checks names and types.
    from dataclasses import replace as changed
else:

    def changed(item: Any, /, **fields: Any) -> Any:
        """A copy of `item`, without slots or __post_init__; TypeError for an unknown field."""
        before = item.__dict__
        # The fastest way there is: `|` copies a dictionary as it lies in memory.
        after = before | fields
        if len(after) != len(before):
            raise TypeError(f"{item.__class__.__name__} has not all of {', '.join(fields)}")
        copy = object.__new__(item.__class__)
        object.__setattr__(copy, "__dict__", after)
        return copy


def same_items(one: Sequence[object], other: Sequence[object]) -> bool:
    """Whether both have the very same objects in the same order; equal ones are not enough."""
    return len(one) == len(other) and all(map(is_, one, other))
