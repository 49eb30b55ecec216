"""The list call of the `nodes` contract, line by line: limit, order, filters, select, count."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.contract.nodes_api import NOBODY, Api, quotes, serving
from tests.contract.stores import running_postgres


@quotes("list: limit 100 by default, at most 1000")
def test_a_list_has_100_items_and_at_most_1000(api):
    for _ in range(101):
        api.create()
    first = api.list()
    assert (len(first["items"]), first["limit"], first["items_available"]) == (100, 100, 101)
    assert first["offset"] == 0
    assert len(api.list(limit=1000)["items"]) == 101
    assert api.list(limit=5000)["limit"] == 1000
    assert api.list(limit=0)["items"] == []
    assert len(api.list(offset=100)["items"]) == 1


@quotes("order `modified_at desc, uuid`")
def test_the_order_is_the_newest_change_first(api):
    nodes = []
    for _ in range(3):
        nodes += [api.create()["uuid"], api.create()["uuid"]]
        api.clock.advance(1)
    newest_first = [*sorted(nodes[4:]), *sorted(nodes[2:4]), *sorted(nodes[:2])]
    assert api.found() == newest_first
    assert api.found(order=["uuid asc"]) == sorted(nodes)
    assert api.found(order="uuid desc") == sorted(nodes, reverse=True)
    assert api.found(order=["modified_at"])[:2] == sorted(nodes[:2])


FILTERS = [
    (["slot_number", "=", 2], {2}),
    (["slot_number", "=", None], {None}),
    (["slot_number", "!=", 2], {1, 3, None}),
    (["slot_number", "!=", None], {1, 2, 3}),
    (["slot_number", "<", 2], {1}),
    (["slot_number", "<=", 2], {1, 2}),
    (["slot_number", ">", 2], {3}),
    (["slot_number", ">=", 2], {2, 3}),
    (["slot_number", "in", [1, 3]], {1, 3}),
    (["slot_number", "in", [1, None]], {1, None}),
    (["slot_number", "in", []], set()),
    (["slot_number", "not in", [1, 3]], {2, None}),
    (["slot_number", "not in", [1, None]], {2, 3}),
    (["hostname", "=", "compute2"], {2}),
    (["hostname", "like", "compute%"], {1, 2}),
    (["hostname", "like", "Compute%"], {3}),
    (["hostname", "like", "compute_"], {1, 2}),
    (["hostname", "ilike", "COMPUTE%"], {1, 2, 3}),
    (["created_at", ">=", "SECOND"], {2, 3, None}),
    (["created_at", "<", "SECOND"], {1}),
]
"""Conditions, and the slots of the records they select of 1, 2, 3 and none."""


def assert_selects(api: Api, condition: list[Any], slots: set[int | None]) -> None:
    attribute, operator, operand = condition
    if operand == "SECOND":
        operand = api.list(filters=[["slot_number", "=", 2]])["items"][0]["created_at"]
    listed = api.list(filters=[[attribute, operator, operand]])
    assert {item["slot_number"] for item in listed["items"]} == slots
    assert listed["items_available"] == len(listed["items"]) == len(slots)
    assert api.found(filters=[[attribute, operator, operand], ["uuid", "=", NOBODY]]) == []


def fill(api: Api) -> None:
    api.create(assign_slot="true")
    api.clock.advance(1)
    api.create(assign_slot="true")
    api.create({"hostname": "Compute3"}, assign_slot="true")
    api.create()


@quotes("filters = != < <= > >= like ilike in `not in`")
def test_filters_select_exactly(api):
    fill(api)
    for condition, slots in FILTERS:
        assert_selects(api, condition, slots)


@pytest.mark.server("postgresql")
def test_filters_and_orders_mean_the_same_on_postgresql():
    with serving(running_postgres().new_database()) as api:
        fill(api)
        for condition, slots in FILTERS:
            assert_selects(api, condition, slots)
        by_slot = [api.list(order=f"slot_number {way}")["items"] for way in ("asc", "desc")]
        up, down = ([item["slot_number"] for item in items] for items in by_slot)
        assert up == [1, 2, 3, None]
        assert down == [None, 3, 2, 1]


def test_a_missing_slot_sorts_as_the_highest(api):
    fill(api)
    assert [item["slot_number"] for item in api.list(order="slot_number")["items"]][3] is None
    assert api.list(order="slot_number desc")["items"][0]["slot_number"] is None


@quotes("select")
def test_select_shows_only_what_is_asked_for(api):
    node = api.create()
    assert api.list(select=["uuid", "etag"])["items"] == [
        {"uuid": node["uuid"], "etag": node["etag"]}
    ]


@quotes("count=none")
def test_count_none_leaves_the_count_out(api):
    api.create()
    assert "items_available" not in api.list(count="none")
    assert api.list(count="exact")["items_available"] == 1


def test_a_list_may_come_as_a_post_that_says_it_is_a_get(api):
    nodes = [api.create()["uuid"] for _ in range(3)]
    asked = {"filters": json.dumps([["uuid", "in", nodes[:2] * 200]]), "limit": "1"}
    answer = api.call("POST", data=asked, headers={"X-HTTP-Method-Override": "GET"})
    assert answer.status_code == 200
    assert answer.json()["items_available"] == 2
    assert len(answer.json()["items"]) == 1
    assert len(api.found()) == 3
