"""The decorator of data that each poll makes anew for every node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["made_often"]

if TYPE_CHECKING:
    # What changes one of these fails the type check.
    from dataclasses import dataclass as made_often
else:
    from dataclasses import dataclass

    def made_often(*, frozen: bool, slots: bool) -> Any:
        """A dataclass that is frozen for the type checker alone.

        Python freezes by calling a function for each field, which makes the listing of 10,000
        nodes and records six times as expensive to put together.
        """
        assert frozen
        return dataclass(slots=slots, unsafe_hash=True)
