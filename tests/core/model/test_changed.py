"""A changed copy is what dataclasses.replace gives, and leaves what it was made of alone."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from nodemanager.core.model.changed import changed
from nodemanager.core.observe.history import History


def test_a_changed_copy_is_what_replace_gives() -> None:
    before = History(answered_s=1.0, over_max=frozenset({"i-1"}))
    after = changed(before, answered_s=2.0, partially_listed={"u": "1"})
    assert after == replace(before, answered_s=2.0, partially_listed={"u": "1"})
    assert before == History(answered_s=1.0, over_max=frozenset({"i-1"}))


def test_a_changed_copy_is_frozen() -> None:
    copy: Any = changed(History(), answered_s=2.0)
    with pytest.raises(FrozenInstanceError):
        copy.answered_s = 3.0


def test_a_field_that_is_none_is_refused() -> None:
    fields: dict[str, Any] = {"answerd_s": 2.0}
    with pytest.raises(TypeError, match="answerd_s"):
        changed(History(), **fields)
