"""A cheaper frozen dataclass, for objects that each poll creates for every node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["made_often"]

if TYPE_CHECKING:
    # The type checker sees a frozen dataclass, so that an assignment to a field fails the check.
    from dataclasses import dataclass as made_often
else:
    from dataclasses import dataclass

    def made_often(*, frozen: bool, slots: bool) -> Any:
        """A dataclass that only the type checker treats as frozen.

        A frozen dataclass sets each field through a function call, which makes building a listing
        of 10,000 nodes and records six times as expensive.
        """
        assert frozen
        return dataclass(slots=slots, unsafe_hash=True)
