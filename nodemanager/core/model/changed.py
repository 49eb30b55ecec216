"""A faster `dataclasses.replace`: a plan copies its largest data several times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["changed"]

if TYPE_CHECKING:
    # The type checker sees `replace`, so that it checks field names and types.
    from dataclasses import replace as changed
else:

    def changed(item: Any, /, **fields: Any) -> Any:
        """A copy of `item`, without slots or __post_init__; TypeError for an unknown field."""
        before = item.__dict__
        copy = object.__new__(item.__class__)
        copy.__dict__.update(before, **fields)
        if len(copy.__dict__) != len(before):
            raise TypeError(f"{item.__class__.__name__} has not all of {', '.join(fields)}")
        return copy
