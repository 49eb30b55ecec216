"""JSON and text that others wrote: what is taken, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nodemanager.lib.foreign import DEEPEST, is_deep, is_text, loads, shown, strict_loads


def nested(depth: int) -> str:
    return '{"a":[' * (depth // 2) + "1" + "]}" * (depth // 2)


def test_json_as_deep_as_allowed_is_taken() -> None:
    assert loads(nested(DEEPEST)) == json.loads(nested(DEEPEST))
    assert not is_deep(json.loads(nested(DEEPEST)))


@pytest.mark.parametrize("depth", [DEEPEST + 2, 900, 100_000])
def test_json_nested_deeper_is_a_value_error(depth: int) -> None:
    with pytest.raises(ValueError, match="nested too deep"):
        loads(nested(depth))
    with pytest.raises(ValueError, match="nested too deep"):
        loads(nested(depth).encode())


def test_much_json_that_is_flat_is_taken() -> None:
    text = json.dumps([{"a": [n]} for n in range(1000)])
    assert len(loads(text)) == 1000


@pytest.mark.parametrize(
    "text", ['"\\ud800"', '{"\\udfff": 1}', '["a", NaN]', "Infinity", "-Infinity", nested(80)]
)
def test_a_clients_json_may_not_hold_what_can_not_be_written(text: str) -> None:
    with pytest.raises(ValueError):
        strict_loads(text)


@pytest.mark.parametrize("value", ["NaN", {"É": "\U0001f4a9"}, [1, 2.5, None, True], "\\ud800"])
def test_all_other_json_of_a_client_is_taken(value: Any) -> None:
    assert strict_loads(json.dumps(value)) == value


def test_text_with_half_a_surrogate_pair_is_none() -> None:
    assert is_text("café")
    assert not is_text("caf\udce9")
    assert shown("caf\udce9 é") == "caf\\udce9 é"
