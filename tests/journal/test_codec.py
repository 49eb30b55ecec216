"""Core's data as JSON and back: exactly the same, whatever the values."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from enum import Enum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodemanager.core.model.breaker import Breaker
from nodemanager.core.model.scheduling import Dispatched, SchedulerNode, SchedulerReport
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.model.world import Claim, CloudNode, Job, Listing, Record, Size, StoreTime
from nodemanager.core.observe.clocks import Future, MeasuredClock
from nodemanager.core.observe.facts import CloudPollBegun, DemandSeen, NodesAnswered, PollMissed
from nodemanager.core.observe.history import Unpaired
from nodemanager.core.observe.listing_history import Absence, KnownSets
from nodemanager.core.observe.pings import Heard
from nodemanager.core.observe.snapshot import Expected, Flight, Limits
from nodemanager.core.plan.destroy import ShutdownOrder
from nodemanager.core.plan.orders import BootOrder
from nodemanager.core.safety.orders import CleanOrder
from nodemanager.journal.codec import dump, load, without_secrets
from nodemanager.journal.listings import NODES, RECORDS
from tests.journal.random_world import bare

pytestmark = pytest.mark.slow

TYPES = [
    *(CloudNode, Record, Claim, Size, Job, StoreTime, Settings, Breaker, Limits, Flight, Expected),
    *(Verdict, Absence, Heard, Unpaired, KnownSets, Future, MeasuredClock),
    *(CleanOrder, ShutdownOrder, BootOrder),
    *(CloudPollBegun, DemandSeen, NodesAnswered, PollMissed),
    *(SchedulerNode, SchedulerReport, Dispatched),
]

text = st.text(alphabet=st.characters(), max_size=6)
floats = st.floats(allow_nan=False)
anything: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | floats | text,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(text | st.sampled_from(["()", "{}", "{,}"]), inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.integers(), inner, max_size=2)
    ),
    max_leaves=6,
)


def values(of: Any, depth: int = 0) -> st.SearchStrategy[Any]:
    """Any value of a type, as its annotations have it."""
    simple = {str: text, int: st.integers(), float: floats, bool: st.booleans(), Any: anything}
    if of in simple:
        return simple[of]
    if of is type(None):
        return st.none()
    origin, arguments = typing.get_origin(of), typing.get_args(of)
    if origin is tuple:
        if arguments[-1] is not Ellipsis:
            return st.tuples(*(values(one, depth) for one in arguments))
        size = 0 if depth > 1 else 2
        return st.lists(values(arguments[0], depth + 1), max_size=size).map(tuple)
    if origin is frozenset:
        return st.frozensets(values(arguments[0], depth), max_size=3)
    if origin is Mapping:
        return st.dictionaries(text, values(arguments[1], depth), max_size=3)
    if origin is None or isinstance(origin, type):
        cls = origin or of
        if isinstance(cls, type) and issubclass(cls, Enum):
            return st.sampled_from(list(cls))
        if isinstance(cls, type) and hasattr(cls, "_fields"):
            hints = typing.get_type_hints(cls)
            return st.builds(cls, **{name: values(one, depth) for name, one in hints.items()})
        if dataclasses.is_dataclass(cls):
            hints = typing.get_type_hints(cls)
            if depth > 2:
                return st.builds(cls)
            return st.builds(cls, **{name: values(one, depth) for name, one in hints.items()})
    return st.one_of(*(values(arm, depth) for arm in arguments))


@pytest.mark.parametrize("of", TYPES, ids=lambda of: of.__name__)
def test_a_value_comes_back_as_it_was(of: type) -> None:
    @settings(max_examples=25, derandomize=True, deadline=None, database=None)
    @given(values(of))
    def check(value: Any) -> None:
        again = load(of, dump(value))
        assert again == value
        # 1 == 1.0 == True: types count, too.
        assert repr(again) == repr(value) or _unordered(again)

    check()


def _unordered(value: Any) -> bool:
    """A frozenset has no order of its own, and a secret no repr."""
    return "frozenset" in repr(value)


@settings(max_examples=60, derandomize=True, deadline=None, database=None)
@given(st.lists(values(Record), max_size=5), st.lists(values(Record), max_size=5), st.randoms())
def test_any_listing_comes_back_whatever_the_one_before(
    old: list[Record], new: list[Record], dice: Any
) -> None:
    before = Listing(tuple(old), 1.5, 2.5)
    mixed = [*new, *(dataclasses.replace(one, version="x") for one in old if dice.random() < 0.8)]
    dice.shuffle(mixed)
    listing = Listing(tuple(mixed), 3.25, 4.125, dice.random() < 0.5, ("what",))
    stripped = Listing(tuple(map(_stripped, old)), 1.5, 2.5)
    again = RECORDS.decode(stripped, RECORDS.encode(before, listing))
    assert again == dataclasses.replace(listing, items=tuple(map(_stripped, mixed)))


def _stripped(record: Record) -> Record:
    return dataclasses.replace(
        record,
        ping_secret=None,
        info=without_secrets(record.info),
        properties=without_secrets(record.properties),
    )


@settings(max_examples=40, derandomize=True, deadline=None, database=None)
@given(st.lists(values(CloudNode), max_size=6))
def test_a_listing_of_nodes_comes_back_without_one_before(items: list[CloudNode]) -> None:
    listing = Listing(tuple(items), -0.5, float("inf"))
    assert NODES.decode(None, NODES.encode(None, listing)) == listing


def test_an_unchanged_listing_costs_nothing() -> None:
    records = tuple(Record(f"r-{n}", "v", n, info={"ping_secret": "s"}) for n in range(100))
    before = Listing(records, 1.0, 2.0)
    again = Listing(tuple(dataclasses.replace(one) for one in records), 3.0, 4.0)
    assert RECORDS.encode(before, again) == {"at": [3.0, 4.0]}
    one_pinged = (*records[:40], dataclasses.replace(records[40], version="w"), *records[41:])
    data = RECORDS.encode(before, Listing(one_pinged, 3.0, 4.0))
    assert data == {"at": [3.0, 4.0], "changed": {"version": [[41], ["w"]]}}


def test_two_fields_that_changed_alike_are_told_once_if_they_are_of_one_type() -> None:
    known = Record("r-1", "v", 3, last_ping_at=1.0, modified_at=1.0)
    pinged = dataclasses.replace(known, slot_number=5, last_ping_at=5.0, modified_at=5.0)
    before, after = Listing((known,), 1.0, 2.0), Listing((pinged,), 3.0, 4.0)
    data = RECORDS.encode(before, after)
    assert data["changed"]["last_ping_at"] == [[1], [5.0]]
    assert data["changed"]["modified_at"] == "last_ping_at"
    again = RECORDS.decode(before, data)
    assert again == after
    assert isinstance(again.items[0].last_ping_at, float)


def test_a_field_added_later_reads_as_its_default() -> None:
    assert load(Size, '{"name":"s","instance_type":"t","cores":1,"ram_mb":2}') == Size(
        "s", "t", 1, 2
    )


@pytest.mark.parametrize("data", ['{"nam":"s"}', "[]", "7", '{"name":"s"}'])
def test_what_is_no_such_value_is_refused(data: str) -> None:
    with pytest.raises(ValueError, match="Size"):
        load(Size, data)


def test_secrets_are_left_out_however_deep() -> None:
    record = Record("r", "v", ping_secret="s", info={"ping_secret": "s", "a": 1})
    assert bare(record) == Record("r", "v", info={"a": 1})
    kept = {"claim": {"token": 3}, "list": [{"x": 1}], "tuple": ({"y": 2},)}
    given = {**kept, "password": "s", "list": [{"x": 1, "api_key": "s"}]}
    assert without_secrets(given) == kept
