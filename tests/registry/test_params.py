"""What a request asks: forms are read alike by the quick way and by the strict one."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

import falcon
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nodemanager.registry import door

PARTS = ["a", "b", "=", "&", "+", ";", ",", "%", "%41", "%26", "%ff", "%c3%a9", "%zz", "\xe9", "\0"]


def strictly(text: str) -> dict[str, str] | None:
    try:
        return dict(parse_qsl(text, keep_blank_values=True, errors="strict"))
    except ValueError:
        return None


@given(st.lists(st.sampled_from(PARTS), max_size=12).map("".join))
@example("a=%ff&a=b")
@example("=&=a&a=b&a=c")
def test_a_form_says_what_the_strict_reader_finds_in_it(text: str) -> None:
    found: dict[str, Any] | None
    try:
        found = door._form(text)
    except falcon.HTTPBadRequest:
        found = None
    assert found == strictly(text)


@pytest.mark.parametrize("one", ["a=b", "a=%62"])
def test_a_form_of_too_many_fields_is_refused(one: str) -> None:
    assert door._form("&".join([one] * door._MAX_FIELDS)) == {"a": "b"}
    with pytest.raises(falcon.HTTPBadRequest):
        door._form("&".join([one] * (door._MAX_FIELDS + 1)))
