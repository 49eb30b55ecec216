"""A copy of frozen data with other values in some fields, made in a fraction of the usual time.

`dataclasses.replace` reads and sets field by field; a plan copies its largest data several times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["changed"]

if TYPE_CHECKING:
    # The same for whoever calls it, so that the fields are checked by name and type.
    from dataclasses import replace as changed
else:

    def changed(item: Any, /, **fields: Any) -> Any:
        """What dataclasses.replace gives, of a class without slots and without __post_init__."""
        before = item.__dict__
        copy = object.__new__(item.__class__)
        copy.__dict__.update(before, **fields)
        if len(copy.__dict__) != len(before):
            raise TypeError(f"{item.__class__.__name__} has not all of {', '.join(fields)}")
        return copy
