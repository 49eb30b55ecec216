"""What all libcloud adapters share, seen through a small one of the tests' own."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from libcloud.common.base import ConnectionKey
from libcloud.compute.base import Node, NodeDriver, NodeSize
from libcloud.compute.drivers.dummy import DummyNodeDriver

from nodemanager.cloud.api import CreateOrder
from nodemanager.cloud.dummy.adapter import Dummy, build_cloud, open_book
from nodemanager.cloud.libcloud_base import LibcloudCloud, load_driver_class
from nodemanager.cloud.provider import Provider
from nodemanager.cloud.reading import NodeReader, epoch, sizes_from
from nodemanager.core.model.world import CloudState, Outcome, Size, Tags
from nodemanager.errors import CloudError, ConfigError, IncompleteListing, Throttled
from tests.cases import cases
from tests.cloud.cloud_config import cloud_config
from tests.cloud.pings import PingServer
from tests.fakes.clock import ManualClock

BOOTED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class HttpDriver(NodeDriver):  # type: ignore[misc]
    """Talks to a real server, so that libcloud's own connection is under test."""

    name = "test"
    connectionCls = ConnectionKey

    def list_nodes(self) -> list[Node]:
        self.connection.request("/nodes", method="POST")
        return []


class Answers(Provider):
    """Two listings, as a cloud with tags and filters gives; answers are the test's."""

    name = "test"

    def __init__(self, answers: Sequence[tuple[object, bool]], server: PingServer | None) -> None:
        self.answers = answers
        self.server = server

    def new_driver(self) -> NodeDriver:
        if self.server is None:
            return SimpleNamespace()
        port = self.server.server.server_address[1]
        return HttpDriver("key", secure=False, host="127.0.0.1", port=port)

    def listings(self, driver: NodeDriver) -> Sequence[tuple[object, bool]]:
        return self.answers or super().listings(driver)

    def by_record(self, driver: NodeDriver, record_uuid: str) -> object:
        return self.answers[0][0]

    def by_id(self, driver: NodeDriver, node_id: str) -> object | None:
        return SimpleNamespace(id=None)

    def create(self, driver: NodeDriver, order: CreateOrder) -> object:
        if order.user_data:
            raise RuntimeError(f"can't take {order.user_data}")
        return self.answers[0][0][0]

    def adopt(self, driver: NodeDriver, node_id: str, tags: Tags) -> None:
        raise TimeoutError

    def destroy(self, driver: NodeDriver, node_id: str) -> Outcome:
        raise TimeoutError

    def account(self, driver: NodeDriver) -> str:
        return "account of the tests"


TAGS = {"pool": "mine", "record": "r1", "incarnation": "i1"}


def Cloud(
    *answers: tuple[object, bool], server: PingServer | None = None, timeout: float = 0.3
) -> LibcloudCloud:
    reader = NodeReader(
        {"running": CloudState.RUNNING},
        tags=lambda raw: Tags(**raw.extra["tags"]),
        held=lambda raw: bool((raw.extra or {}).get("held")),
        places=lambda raw: tuple((raw.extra or {}).get("places", ())),
    )
    config = cloud_config(pool="mine", places={"a": "[Cloud] places"})
    return LibcloudCloud(config, Answers(answers, server), reader, timeout=timeout)


def node(node_id: str = "n1", **changes: Any) -> Node:
    made = Node(
        id=node_id,
        name="compute1",
        state="running",
        public_ips=["192.0.2.1"],
        private_ips=["10.0.0.1"],
        driver=None,
        size=NodeSize("m1", "m1", 1, 1, None, 0.1, None),
        created_at=BOOTED,
        extra={"tags": TAGS},
    )
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def test_a_whole_node_is_read_whole() -> None:
    (seen,) = Cloud(([node()], False)).list_nodes().items
    assert (seen.id, seen.name, seen.state) == ("n1", "compute1", CloudState.RUNNING)
    assert (seen.size, seen.created_at) == ("m1", BOOTED.timestamp())
    assert (seen.tags, seen.managed, seen.problems) == (Tags("mine", "r1", "i1"), True, ())
    assert seen.addresses == ("10.0.0.1", "192.0.2.1")


@cases(
    ("changes", "problem"),
    {
        "no-launch-time": ({"created_at": None}, "launch time is missing"),
        "bad-time": ({"created_at": "yesterday"}, "launch time can't be read"),
        "nan-time": ({"created_at": float("nan")}, "launch time can't be read"),
        "no-tags": ({"extra": {}}, "tags can't be read"),
        "no-extra": ({"extra": None}, "tags can't be read"),
        "bad-size": ({"size": "m1"}, "size can't be read"),
        "bad-addresses": ({"public_ips": None}, "addresses can't be read"),
    },
)
def test_a_malformed_node_is_listed_with_what_is_wrong(
    changes: dict[str, Any], problem: str
) -> None:
    listing = Cloud(([node("good"), node("bad", **changes)], True)).list_nodes()
    assert listing.complete
    good, bad = listing.items
    assert (good.id, good.problems) == ("good", ())
    assert bad.id == "bad"
    assert [line.startswith(problem) for line in bad.problems] == [True]
    assert [line.startswith(f"node bad: {problem}") for line in listing.problems] == [True]


def test_a_node_that_did_not_change_is_the_object_of_the_listing_before() -> None:
    answer = [node("n1"), node("n2"), node("bad", size="m1")]
    cloud = Cloud((answer, False))
    first = cloud.list_nodes()
    answer[:] = [node("n2"), node("bad", size="m1"), node("n1")]
    again = cloud.list_nodes()
    assert [one.id for one in again.items] == ["n2", "bad", "n1"]
    assert again.items[0] is first.items[1]
    assert again.items[2] is first.items[0]
    assert again.items[1] == first.items[2]
    assert again.problems == first.problems


@cases(
    "changes",
    {
        "name": {"name": "compute2"},
        "no-name": {"name": None},
        "state": {"state": "stopped"},
        "size": {"size": NodeSize("m2", "m2", 1, 1, None, 0.1, None)},
        "bad-size": {"size": "m1"},
        "launch-time": {"created_at": BOOTED.timestamp() + 1},
        "no-launch-time": {"created_at": None},
        "address": {"public_ips": ["192.0.2.2"]},
        "bad-addresses": {"public_ips": None},
        "tags": {"extra": {"tags": {"pool": "mine", "record": "r2"}}},
        "no-longer-ours": {"extra": {"tags": {"pool": "other"}}},
        "bad-tags": {"extra": {}},
        "hold": {"extra": {"tags": {}, "held": True}},
        "place": {"extra": {"tags": TAGS, "places": ["b"]}},
    },
)
def test_a_node_listed_before_is_read_as_a_look_at_it_alone_reads_it(
    changes: dict[str, Any],
) -> None:
    answer = [node()]
    cloud = Cloud((answer, False))
    before = cloud.list_nodes()
    answer[:] = [node(**changes)]
    changed = cloud.list_nodes()
    assert changed == Cloud((answer, False)).list_nodes()
    assert changed.items != before.items
    answer[:] = [node()]
    assert cloud.list_nodes() == before


def test_a_node_that_is_no_longer_matched_is_no_longer_managed() -> None:
    answer = [node(extra={"tags": {}})]
    cloud = Cloud((answer, True))
    assert [one.managed for one in cloud.list_nodes().items] == [True]
    provider = cloud._provider
    assert isinstance(provider, Answers)
    provider.answers = ((answer, False),)
    assert [one.managed for one in cloud.list_nodes().items] == [False]


def test_an_unknown_raw_state_is_unknown_and_not_absent() -> None:
    (seen,) = Cloud(([node(state="dreaming")], False)).list_nodes().items
    assert (seen.state, seen.raw_state, seen.is_absent) == (CloudState.UNKNOWN, "dreaming", False)


def test_the_union_of_two_listings_has_each_node_once_and_knows_who_manages_it() -> None:
    other = {"tags": {"pool": "other"}}
    by_tag = [node("ours")]
    by_list = [node("ours"), node("untagged", extra={"tags": {}}), node("theirs", extra=other)]
    listing = Cloud((by_tag, False), (by_list, True)).list_nodes()
    assert [one.id for one in listing.items] == ["ours", "untagged", "theirs"]
    assert all(one.managed for one in listing.items)
    everything = Cloud(([node("theirs", extra=other)], False)).list_nodes()
    assert [one.managed for one in everything.items] == [False]


def test_an_id_twice_in_one_answer_stays_visible_as_the_contradiction_it_is() -> None:
    listing = Cloud(([node("n1"), node("n1")], False), ([node("n2")], True)).list_nodes()
    assert [one.id for one in listing.items] == ["n1", "n1", "n2"]


def test_one_bad_answer_of_two_is_no_listing() -> None:
    with pytest.raises(IncompleteListing):
        Cloud(([node()], False), (None, True)).list_nodes()


@pytest.mark.parametrize("bad", [None, node("x", extra={})], ids=["none", "no-tags"])
def test_a_search_with_an_unreadable_item_denies_nothing(bad: object) -> None:
    with pytest.raises(IncompleteListing):
        Cloud(([node(), bad], False)).find_by_record("r1")


def test_a_search_gives_only_that_records_nodes() -> None:
    cloud = Cloud(([node(), node("n2", extra={"tags": {"record": "r2"}})], False))
    assert [one.id for one in cloud.find_by_record("r2")] == ["n2"]


def test_an_answer_without_an_id_to_a_question_by_id_is_an_error_not_a_denial() -> None:
    with pytest.raises(CloudError, match="without an id"):
        Cloud().ask("n1")


def test_a_traceback_of_a_failed_create_does_not_show_the_user_data() -> None:
    order = CreateOrder("c1", Size("m1", "m1", 1, 1), Tags(), "t", "ping_secret=hidden")
    with pytest.raises(CloudError) as caught:
        Cloud().create(order)
    shown = "".join(traceback.format_exception(caught.value))
    assert "RuntimeError" in str(caught.value)
    assert "hidden" not in shown.replace(repr(order), "")


def test_a_new_node_whose_tags_are_not_those_ordered_is_told_so() -> None:
    order = CreateOrder("c1", Size("m1", "m1", 1, 1), Tags("mine", "r1", "other"), "t", "")
    made = Cloud(([node()], False)).create(order)
    assert made.problems == ("tags in the answer are not those that were ordered",)
    order = replace(order, tags=Tags("mine", "r1", "i1"))
    assert Cloud(([node()], False)).create(order).problems == ()


def test_each_thread_has_a_driver_of_its_own() -> None:
    cloud = Cloud(([], False))
    meet = threading.Barrier(3)

    def drivers(_: int) -> tuple[int, int]:
        meet.wait(10)
        return id(cloud._drivers.mine()), id(cloud._drivers.mine())

    with ThreadPoolExecutor(3) as threads:
        seen = list(threads.map(drivers, range(3)))
    assert len({first for first, _ in seen}) == 3
    assert all(first == second for first, second in seen)


def test_a_call_ends_at_its_time_limit(pings: PingServer) -> None:
    pings.gate.clear()
    with pytest.raises(CloudError, match="list nodes: ReadTimeout") as caught:
        Cloud(server=pings).list_nodes()
    assert not caught.value.definite


def test_nothing_is_asked_twice_even_where_libcloud_would(
    pings: PingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIBCLOUD_RETRY_FAILED_HTTP_REQUESTS", "yes")
    pings.status = 429
    # libcloud would wait a second, and try again within its time-out.
    cloud = Cloud(server=pings, timeout=3.0)
    with pytest.raises(Throttled):
        cloud.list_nodes()
    assert len(pings.pings) == 1
    cloud.close()


@cases(
    ("dotted", "why"),
    {
        "no-module": ("Plain", "give module and class"),
        "no-such-module": ("no.such.module.Driver", "can't be imported"),
        "no-such-class": ("libcloud.compute.base.Nothing", "has no Nothing"),
        "no-driver": ("pathlib.Path", "it is no subclass of libcloud"),
        "no-class": ("libcloud.compute.base.os", "it is no subclass of libcloud"),
    },
)
def test_a_wrong_driver_class_is_told_by_name(dotted: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_driver_class(dotted, NodeDriver)
    (problem,) = caught.value.problems
    assert problem.startswith(f"[Cloud] driver_class = {dotted}: ")
    assert why in problem


def test_a_driver_class_takes_the_place_of_the_providers_own() -> None:
    cloud = build_cloud(
        cloud_config(
            pool="mine",
            credentials={"creds": "3"},
            clock=ManualClock(),
            driver_class=f"{__name__}.HoledDriver",
        )
    )
    assert not cloud.list_nodes().complete


def test_an_answer_of_the_dummy_cloud_stays_as_it_was_when_a_node_is_made() -> None:
    clock = ManualClock()
    dummy = Dummy(open_book("3", clock, None), "3", clock)
    answer = dummy.by_record(dummy.new_driver(), "r1")
    order = CreateOrder("c1", Size("m1", "m1", 1, 1), Tags("mine", "r1", "i1"), "t", "")
    dummy.create(dummy.new_driver(), order)
    assert len(answer) == 3


class HoledDriver(DummyNodeDriver):  # type: ignore[misc]
    def list_nodes(self) -> list[Node | None]:
        return [*super().list_nodes(), None]


@pytest.mark.parametrize("word", ["cpu", "vcpu", "vcpus", "vcpu_count", "cpus", "cores"])
def test_cores_are_read_by_each_word_that_libcloud_s_drivers_have_for_them(word: str) -> None:
    listed = [NodeSize("s-4", "s-4", 8192, 160, None, 0.05, None, extra={word: 4})]
    (size,) = sizes_from(listed)
    assert (size.name, size.cores, size.ram_mb, size.scratch_mb) == ("s-4", 4, 8192, 160_000)


def test_a_time_without_a_zone_is_utc() -> None:
    assert epoch(BOOTED.replace(tzinfo=None)) == BOOTED.timestamp()
    assert epoch(None) is None
