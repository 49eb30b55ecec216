"""The JSON shape of a record, and what becomes of an item that does not have it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.core.model.world import Claim, WorkerState
from nodemanager.records import wire
from nodemanager.records.rows import new_secret
from tests.cases import cases

UUID = "zzzzz-7ekkf-0123456789abcde"
CLAIM = Claim("main", "manager-1", 7, 1700000000.25, "node-1", "0123456789abcdef" * 2, 2220.0)


def item(**changes):
    whole = {
        "uuid": UUID,
        "etag": "4",
        "slot_number": 3,
        "hostname": "compute3",
        "ip_address": "10.0.0.3",
        "first_ping_at": "2023-11-14T22:13:20.000000000Z",
        "last_ping_at": "2023-11-14T22:14:20.500000000Z",
        "modified_at": "2023-11-14T22:14:20.500000000Z",
        "crunch_worker_state": "down",
        "info": {"ping_secret": "s3cret", "ec2_instance_id": "i-1", "worker_state": "alloc"},
        "properties": {wire.POOL: "main", wire.CLAIM: wire.claim_json(CLAIM)},
    }
    return {name: value for name, value in (whole | changes).items() if value is not ...}


def parse(given):
    return wire.read(given, version=given.get("etag") or "", when=wire.parse_stamp)


def test_a_whole_item_is_read_whole():
    record = parse(item())
    assert record.uuid == UUID
    assert record.version == "4"
    assert (record.slot_number, record.hostname) == (3, "compute3")
    assert record.ip_address == "10.0.0.3"
    assert record.first_ping_at == 1700000000.0
    assert record.last_ping_at == record.modified_at == 1700000060.5
    assert record.worker_state is WorkerState.BUSY
    assert record.instance_id == "i-1"
    assert record.pool == "main"
    assert record.claim == CLAIM
    assert record.ping_secret == "s3cret"
    assert not record.held
    assert record.problems == ()


@cases(
    ("changes", "named"),
    {
        "no-modified-at": ({"modified_at": None}, "modified_at"),
        "modified-at-left-out": ({"modified_at": ...}, "modified_at"),
        "modified-at-no-time": ({"modified_at": "yesterday"}, "modified_at"),
        "time-as-number": ({"last_ping_at": 1700000000}, "last_ping_at"),
        "month-13": ({"last_ping_at": "2023-13-01T00:00:00Z"}, "last_ping_at"),
        "not-an-administrators-view": ({"first_ping_at": ...}, "first_ping_at"),
        "info-left-out": ({"info": ...}, "info"),
        "info-no-object": ({"info": "text"}, "info"),
        "secret-no-text": ({"info": {"ping_secret": 3}}, "info.ping_secret"),
        "bad-instance": ({"info": {"ec2_instance_id": []}}, "info.ec2_instance_id"),
        "bad-worker-state": ({"info": {"worker_state": 3}}, "info.worker_state"),
        "slot-as-text": ({"slot_number": "3"}, "slot_number"),
        "slot-as-flag": ({"slot_number": True}, "slot_number"),
        "slot-below-0": ({"slot_number": -1}, "slot_number"),
        "slot-as-float": ({"slot_number": 1.0}, "slot_number"),
        "hostname-no-text": ({"hostname": 3}, "hostname"),
        "properties-no-object": ({"properties": [1]}, "properties"),
        "pool-no-text": ({"properties": {wire.POOL: 3}}, wire.POOL),
        "claim-no-object": ({"properties": {wire.CLAIM: "x"}}, wire.CLAIM),
        "two-pools": (
            {"properties": {wire.POOL: "other", wire.CLAIM: wire.claim_json(CLAIM)}},
            "different pools",
        ),
        "no-version": ({"etag": ..., "modified_at": ...}, "version"),
    },
)
def test_a_malformed_part_is_named_and_the_rest_is_kept(changes, named):
    record = parse(item(**changes))
    assert record.uuid == UUID
    assert any(named in problem for problem in record.problems)
    listed = wire.collect(parse, [item(**changes)])
    assert listed.complete
    assert listed.items == (record,)
    assert all(line.startswith(UUID) for line in listed.problems)


@pytest.mark.parametrize(
    "spoilt",
    [
        *({name: None} for name in ("pool", "manager", "token", "at", "node_name", "incarnation")),
        {"token": True},
        {"token": "7"},
        {"at": "2023-11-14T22:13:20.000000000Z"},
        {"at": float("nan")},
        {"at": -1},
        {"window": "2220"},
        {"window": 0},
        {"window": float("nan")},
        {"window": float("inf")},
        {"window": True},
        {"incarnation": "short"},
        {"incarnation": "X" * 32},
        {"size": 7},
        {"price": "0.1"},
        {"price": True},
        {"price": -0.1},
        {"price": float("inf")},
    ],
    ids=str,
)
def test_a_bad_claim_is_a_problem_and_no_claim(spoilt):
    claim = wire.claim_json(CLAIM) | spoilt
    record = parse(item(properties={wire.POOL: "main", wire.CLAIM: claim}))
    assert record.claim is None
    assert record.problems


def test_a_claim_of_an_older_version_names_no_window():
    """C21, S6: it stands as long as the settings of today say."""
    older = replace(CLAIM, window=None)
    assert "window" not in wire.claim_json(older)
    assert wire.parse_claim(wire.claim_json(older)) == older


@pytest.mark.parametrize(
    "unreadable",
    [{}, {"uuid": None}, {"uuid": 3}, {"uuid": "x"}, {"uuid": UUID + "\n"}],
    ids=repr,
)
def test_an_item_without_a_readable_uuid_makes_the_listing_incomplete(unreadable):
    with pytest.raises(wire.Unreadable):
        parse(unreadable)
    listed = wire.collect(parse, [unreadable, item()])
    assert not listed.complete
    assert [record.uuid for record in listed.items] == [UUID]
    assert len(listed.problems) == 1


def test_a_repeated_uuid_makes_the_listing_incomplete():
    listed = wire.collect(parse, [item(), item()])
    assert not listed.complete
    assert len(listed.items) == 1


def test_slot_zero_is_a_slot():
    assert parse(item(slot_number=0)).slot_number == 0
    assert parse(item(slot_number=0)).holds_slot


def test_a_hold_is_any_truthy_mark():
    for mark, held in [(True, True), ("by ann", True), (1, True), (False, False), ("", False)]:
        assert parse(item(properties={wire.HOLD: mark})).held is held


def test_a_claim_alone_names_the_pool():
    record = parse(item(properties={wire.CLAIM: wire.claim_json(CLAIM)}))
    assert record.pool == "main"
    assert not record.problems


def test_empty_hashes_may_be_null():
    record = parse(item(properties=None, info=None))
    assert (record.properties, record.info) == ({}, {})
    assert not record.problems


@pytest.mark.parametrize("raw", ["down", "idle", "busy", "odd", None])
def test_the_derived_state_is_never_evidence_of_down(raw):
    record = parse(item(crunch_worker_state=raw, info={}))
    expected = raw if raw in ("idle", "busy") else "unknown"
    assert record.derived_state == expected
    assert record.worker_state is None


@pytest.mark.parametrize(("raw", "means"), [("mix-", "busy"), ("idle~", "down"), ("idle", "idle")])
def test_a_nodes_own_word_is_read_as_slurm_means_it(raw, means):
    assert parse(item(info={wire.WORKER_STATE: raw})).worker_state == means


@pytest.mark.parametrize(
    ("raw", "failed"),
    [
        ("fail", True),
        (" FAIL* ", True),
        ("down", False),
        ("idle", False),
        ("allocated+fail", False),
    ],
)
def test_a_node_that_says_fail_is_told_from_one_that_says_down(raw, failed):
    assert parse(item(info={"worker_state": raw})).failed is failed


@given(st.integers(min_value=0, max_value=4 * 10**18))
def test_nanoseconds_come_back_exactly(nanoseconds):
    assert wire.parse_stamp_ns(wire.stamp_ns(nanoseconds)) == nanoseconds


@given(st.integers(min_value=0, max_value=4 * 10**15))
def test_epoch_seconds_come_back_to_the_microsecond(microseconds):
    assert wire.parse_stamp(wire.stamp(microseconds / 1e6)) == microseconds / 1e6


@given(st.floats(min_value=0, max_value=9e10), st.integers(min_value=0), st.text())
def test_a_claim_comes_back_exactly(at, token, name):
    claim = Claim(name, name, token, at, name, "0" * 32)
    assert wire.parse_claim(wire.claim_json(claim)) == claim


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(sorted(item())), _JSON))
def test_no_item_whatsoever_stops_a_listing(changes):
    listed = wire.collect(parse, [item(**changes), item(uuid="zzzzz-7ekkf-00000000000000z")])
    assert listed.items[-1].uuid == "zzzzz-7ekkf-00000000000000z"
    assert len(listed.items) == (1 if "uuid" in changes else 2)
    assert listed.complete == ("uuid" not in changes)


@pytest.mark.parametrize(
    ("size", "price"), [("m5.large", 0.096), ("m5.large", None), (None, None)], ids=str
)
def test_a_claim_comes_back_with_the_size_that_it_was_made_for_u11(size, price):
    claim = replace(CLAIM, size=size, price=price)
    properties = wire.claimed({"kept": 1}, claim)
    record = parse(item(properties=properties))
    assert (record.claim, record.pool, record.problems) == (claim, "main", ())
    assert properties["kept"] == 1
    cloud_node = None if size is None else {"size": size, "price": price}
    assert properties.get("cloud_node") == cloud_node


def test_a_ping_secret_can_not_be_guessed() -> None:
    """Whoever guesses one pings as the node: it has 192 bits."""
    made = {new_secret() for _ in range(200)}
    assert len(made) == 200
    assert {len(one) for one in made} == {32}


def test_what_is_nested_too_deep_is_a_problem_of_its_record():
    deep = {}
    for _ in range(500):
        deep = {"a": deep}
    for where in ("properties", "info"):
        record = parse(item(**{where: {**item()[where], "note": deep}}))
        assert f"{where} is nested too deep" in record.problems


@pytest.mark.parametrize("drain", [b"x", 7, [], "caf\udce9"], ids=repr)
def test_a_drain_order_that_is_no_text_is_a_problem(drain):
    record = parse(item(drain=drain))
    assert record.drain is None
    assert "drain is not text" in record.problems
