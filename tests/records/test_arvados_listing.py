"""A listing of the `nodes` resource is whole, or says that it is not (SAFETY.md L1, L2)."""

from __future__ import annotations

from typing import Any

import pytest

from nodemanager.errors import StoreError, StoreRefused
from tests.cases import cases
from tests.records.arvados_servers import Asked, Reply, listing, node, open_store

MANY = [node(number) for number in range(1, 8)]


def uuids(items: Any) -> list[str]:
    return [item["uuid"] if isinstance(item, dict) else item.uuid for item in items]


@cases(
    ("items", "how"),
    {
        "one-page": (MANY, {}),
        "pages-shorter-than-asked-for": (MANY, {"cap": 3}),
        "one-a-page-uncounted": (MANY, {"cap": 1, "count": False}),
        "no-records": ([], {}),
    },
)
def test_every_page_is_followed_until_an_empty_one(api, items, how):
    api.script = listing(items, **how)
    listed = open_store(api.url).list_records()
    assert listed.complete
    assert not listed.problems
    assert uuids(listed.items) == uuids(items)
    assert not api.script(api.asked[-1]).body["items"]


@cases(
    "script",
    {
        "ignores-the-filter": listing(MANY, filters=False),
        "ignores-the-filter-short-pages": listing(MANY, cap=3, filters=False),
        "ignores-the-order": listing(MANY[::-1], order=False),
        "rises-by-chance": listing([*MANY[3:], *MANY[:3]], cap=4, order=False),
        "repeats-a-uuid": listing([*MANY, MANY[2]]),
        "item-with-an-odd-uuid": listing([*MANY, {**MANY[2], "uuid": "?"}]),
        "item-without-uuid": lambda _: Reply({"items": [{"info": {}}]}),
        "item-that-is-no-object": lambda _: Reply({"items": ["what"]}),
        "nothing-of-three-counted": lambda _: Reply({"items": [], "items_available": 3}),
    },
)
def test_what_a_server_leaves_out_or_repeats_makes_the_listing_incomplete(api, script):
    api.script = script
    listed = open_store(api.url).list_records()
    assert not listed.complete
    assert listed.problems
    assert len(api.asked) < 5
    assert len(set(uuids(listed.items))) == len(listed.items)


def test_what_an_incomplete_listing_did_show_is_in_it(api):
    api.script = listing(MANY[::-1], order=False)
    listed = open_store(api.url).list_records()
    assert set(uuids(listed.items)) == set(uuids(MANY))


@cases(
    "body",
    {
        "no-items": {"errors": []},
        "items-null": {"items": None},
        "a-list": [],
        "html": b"<html>hello</html>",
        "half-an-answer": b'{"items": [',
        "no-text": b"\xff\xfe",
        "too-deep": b"[" * 100_000,
    },
)
def test_an_answer_that_is_not_arvados_is_a_failure_and_no_empty_list(api, body):
    api.script = lambda _: Reply(body)
    with pytest.raises(StoreError) as raised:
        open_store(api.url).list_records()
    assert not raised.value.definite


def test_an_unreadable_record_is_listed_with_its_problems(api):
    api.script = listing([node(1), node(2, slot_number="three")])
    listed = open_store(api.url).list_records()
    assert listed.complete
    assert [bool(item.problems) for item in listed.items] == [False, True]


def test_a_record_without_modified_at_is_unreadable_and_the_others_are_not(api):
    api.script = listing([node(1, modified_at=None), node(2)])
    listed = open_store(api.url).list_records()
    assert [bool(item.problems) for item in listed.items] == [True, False]


def test_records_without_an_administrators_fields_are_refused(api):
    shown = [
        {k: v for k, v in item.items() if k not in ("first_ping_at", "info", "nameservers")}
        for item in MANY
    ]
    api.script = listing(shown)
    with pytest.raises(StoreRefused, match="administrator"):
        open_store(api.url).list_records()
    api.script = lambda _: Reply(shown[0])
    with pytest.raises(StoreRefused, match="administrator"):
        open_store(api.url).read(shown[0]["uuid"])


def with_users(items: list[Any], user: dict[str, Any], asked_for: list[str]) -> Any:
    nodes = listing(items)

    def script(asked: Asked) -> Reply:
        if asked.path.endswith("/users/current"):
            asked_for.append(asked.path)
            return Reply(user)
        return nodes(asked)

    return script


USERS = {
    "methods": {
        "current": {
            "id": "arvados.users.current",
            "path": "users/current",
            "httpMethod": "GET",
            "parameters": {},
            "response": {"$ref": "Node"},
        }
    }
}


@cases("items", {"none": [], "seven": MANY})
def test_a_user_who_is_no_administrator_gets_no_listing_even_an_empty_one(api, items):
    api.script = with_users(items, {"is_admin": False}, [])
    api.document["resources"]["users"] = USERS
    with pytest.raises(StoreRefused, match="administrator"):
        open_store(api.url).list_records()


def test_an_administrator_is_asked_once_and_again_only_about_an_empty_listing(api):
    asked: list[str] = []
    api.script = with_users(MANY, {"is_admin": True}, asked)
    api.document["resources"]["users"] = USERS
    store = open_store(api.url)
    for _ in range(3):
        assert store.list_records().complete
    assert len(asked) == 1
    api.script = with_users([], {"is_admin": False}, asked)
    with pytest.raises(StoreRefused):
        store.list_records()


def test_a_rotated_token_must_be_an_administrators_too(api):
    asked: list[str] = []
    api.script = with_users(MANY, {"is_admin": True}, asked)
    api.document["resources"]["users"] = USERS
    store = open_store(api.url)
    assert store.list_records().complete
    store.renew("another")
    api.script = with_users(MANY, {"is_admin": False}, asked)
    with pytest.raises(StoreRefused, match="administrator"):
        store.list_records()
    assert len(asked) == 2


def test_a_parameter_that_the_document_does_not_declare_is_not_sent(api):
    api.script = listing(MANY)
    del api.document["resources"]["nodes"]["methods"]["list"]["parameters"]["count"]
    assert open_store(api.url).list_records().complete
    assert all("count" not in asked.params for asked in api.asked)


def test_a_server_without_the_resource_is_refused_with_what_to_do(api):
    api.script = listing(MANY)
    del api.document["resources"]["nodes"]
    for call in (open_store(api.url).list_records, open_store(api.url).store_id):
        with pytest.raises(StoreRefused, match="provider = registry"):
            call()
    assert not api.asked
