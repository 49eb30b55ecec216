"""Listings by the OpenStack adapter: complete or refused, never short (L1, L2, T4, T5, P3)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import libcloud
import pytest

from nodemanager import errors
from nodemanager.cloud.openstack.adapter import READER
from nodemanager.cloud.openstack.node import Server
from nodemanager.core.model.world import CloudState
from tests.cases import cases
from tests.cloud.faults import Reply, truncated
from tests.cloud.openstack import schema as openstack_schema
from tests.cloud.openstack.helpers import by_hand, cloud, order
from tests.cloud.openstack.server import OpenStackServer, changed, plain, refusal

pytestmark = pytest.mark.socket
LIST, SHOW = "compute GET /servers/detail", "compute GET /servers/{id}"
RECORDED = Path(libcloud.__file__).parent / "test/compute/fixtures/openstack_v1_1"
UNKNOWN = "6695eb01-0000-4000-8000-97f2502e193f"


def test_every_page_is_followed_though_no_link_leads_to_it(openstack: OpenStackServer) -> None:
    ours = cloud(openstack)
    made = {ours.create(order()).id for _ in range(5)}
    openstack.nova.max_limit = 2
    without_links = changed(lambda body: {"servers": body["servers"]})
    openstack.fault(LIST, times=99, after=without_links)
    listing = ours.list_nodes()
    assert listing.complete
    assert {node.id for node in listing.items} == made


@pytest.mark.parametrize("limit", [1, 2], ids=["leads-back", "goes-on"])
def test_a_page_that_begins_anew_lists_no_server_twice(
    openstack: OpenStackServer, limit: int
) -> None:
    """Nova takes a marker for none while its server leaves the queue of boots."""
    ours = cloud(openstack)
    made = [ours.create(order()).id for _ in range(3)]
    openstack.nova.max_limit = 1
    openstack.nova.begins_anew = {made[-1]}

    def next_limit(reply: Reply) -> Reply:
        openstack.nova.max_limit = limit
        return reply

    openstack.fault(LIST, after=next_limit)
    listing = ours.list_nodes()
    assert listing.complete
    assert sorted(node.id for node in listing.items) == sorted(made)


def test_a_marker_that_was_deleted_meanwhile_makes_no_short_listing(
    openstack: OpenStackServer,
) -> None:
    ours = cloud(openstack)
    made = [ours.create(order()).id for _ in range(3)]
    openstack.nova.max_limit = 1

    def delete_it(reply: Reply) -> Reply:
        openstack.nova.delete(made[-1], openstack.project_id)
        return reply

    openstack.fault(LIST, after=delete_it)
    with pytest.raises(errors.IncompleteListing, match="marker"):
        ours.list_nodes()


def test_a_cell_that_is_down_makes_the_listing_incomplete(openstack: OpenStackServer) -> None:
    ours = cloud(openstack)
    asked = order()
    hidden = ours.create(asked).id
    ours.create(order())
    openstack.nova.servers[hidden].cell = "cell2"
    openstack.nova.down = {"cell2"}
    with pytest.raises(errors.IncompleteListing, match="a cell is down"):
        ours.list_nodes()
    assert asked.tags.record is not None
    with pytest.raises(errors.IncompleteListing, match="a cell is down"):
        ours.find_by_record(asked.tags.record)


def test_a_server_in_a_cell_that_is_down_still_exists_by_its_id(openstack: OpenStackServer) -> None:
    ours = cloud(openstack)
    hidden = ours.create(order()).id
    openstack.nova.servers[hidden].cell = "cell2"
    openstack.nova.down = {"cell2"}
    seen = ours.ask(hidden)
    assert seen is not None
    assert (seen.state, seen.is_absent) == (CloudState.UNKNOWN, False)
    assert any(line.startswith("tags can't be read") for line in seen.problems)


def test_beyond_one_page_a_server_that_is_not_listed_any_more_is_asked_for(
    openstack: OpenStackServer,
) -> None:
    """Nova has no room on a full page to tell of a cell that is down."""
    ours = cloud(openstack)
    made = [ours.create(order()).id for _ in range(4)]
    openstack.nova.max_limit = 2
    assert len(ours.list_nodes().items) == 4
    openstack.nova.servers[made[0]].cell = "cell2"
    openstack.nova.down = {"cell2"}
    with pytest.raises(errors.IncompleteListing, match="exists and is not listed"):
        ours.list_nodes()
    openstack.nova.down = set()
    openstack.nova.delete(made[0], openstack.project_id)
    assert {node.id for node in ours.list_nodes().items} == set(made[1:])


def test_the_first_page_is_asked_for_without_any_parameter(openstack: OpenStackServer) -> None:
    """With one, nova would be silent about a cell that is down."""
    cloud(openstack).list_nodes()
    first = openstack.called(LIST)[0]
    assert first.query == {}
    assert first.headers["openstack-api-version"] == "compute 2.69"


@cases(
    ("fault", "expected"),
    {
        "half-an-answer": ({"after": truncated}, errors.IncompleteListing),
        "no-servers": ({"after": changed(lambda body: {})}, errors.IncompleteListing),
        "none": ({"after": changed(lambda body: {"servers": None})}, errors.IncompleteListing),
        "a-list": ({"after": changed(lambda body: [])}, errors.ForeignAnswer),
        "odd": ({"after": changed(lambda body: {"flavors": []})}, errors.IncompleteListing),
        "no-content": ({"before": plain(204, "")}, errors.IncompleteListing),
        "413": ({"before": refusal(413, retry_after="7")}, errors.Throttled),
    },
)
def test_an_odd_answer_is_never_an_empty_listing(
    openstack: OpenStackServer, fault: dict[str, Any], expected: type[errors.CloudError]
) -> None:
    ours = cloud(openstack)
    ours.create(order())
    openstack.fault(LIST, times=9, **fault)
    with pytest.raises(errors.CloudError) as caught:
        ours.list_nodes()
    assert type(caught.value) is expected


def test_the_wait_that_the_cloud_asks_for_is_passed_on(openstack: OpenStackServer) -> None:
    ours = cloud(openstack)
    for status in (413, 429, 503):
        openstack.fault(LIST, before=refusal(status, retry_after="7"))
        with pytest.raises(errors.CloudError) as caught:
            ours.list_nodes()
        assert caught.value.retry_after == 7.0, status


def test_only_nova_s_own_word_means_that_a_server_does_not_exist(
    openstack: OpenStackServer,
) -> None:
    """A path that the cloud does not have is answered with 404, too."""
    ours = cloud(openstack)
    made = ours.create(order())
    for action, ask in ((SHOW, ours.ask), ("compute DELETE /servers/{id}", ours.destroy)):
        answer = plain(404, '{"message": "not found"}', "application/json")
        openstack.fault(action, before=answer)
        with pytest.raises(errors.CloudError):
            ask(made.id)
    assert ours.ask(UNKNOWN) is None


STATES = {
    "ACTIVE": CloudState.RUNNING,
    "BUILD": CloudState.PENDING,
    "DELETED": CloudState.TERMINATED,
    "ERROR": CloudState.STOPPED,
    "HARD_REBOOT": CloudState.RUNNING,
    "MIGRATING": CloudState.RUNNING,
    "PASSWORD": CloudState.RUNNING,
    "PAUSED": CloudState.STOPPED,
    "REBOOT": CloudState.RUNNING,
    "REBUILD": CloudState.RUNNING,
    "RESCUE": CloudState.RUNNING,
    "RESIZE": CloudState.RUNNING,
    "REVERT_RESIZE": CloudState.RUNNING,
    "SHELVED": CloudState.STOPPED,
    "SHELVED_OFFLOADED": CloudState.STOPPED,
    "SHUTOFF": CloudState.STOPPED,
    "SOFT_DELETED": CloudState.STOPPING,
    "SUSPENDED": CloudState.STOPPED,
    "UNKNOWN": CloudState.UNKNOWN,
    "VERIFY_RESIZE": CloudState.RUNNING,
    "OF_NEXT_YEAR": CloudState.UNKNOWN,
}


def test_only_a_deleted_server_is_absent_t4(openstack: OpenStackServer) -> None:
    ours = cloud(openstack)
    for status, state in STATES.items():
        made = ours.create(order())
        openstack.nova.put(made.id, status)
        seen = ours.ask(made.id)
        assert seen is not None
        assert (seen.state, seen.raw_state) == (state, status)
        assert seen.is_absent is (status == "DELETED")
    assert STATES.keys() - {"OF_NEXT_YEAR"} == openstack_schema.STATES["server"]
    assert set(openstack.wrong) == {"server.status: 'OF_NEXT_YEAR' is no state of it"}
    openstack.wrong.clear()


def test_the_cloud_list_chooses_what_is_managed_and_new_nodes_match_it_t5(
    openstack: OpenStackServer,
) -> None:
    ours = cloud(openstack, listing={"metadata:cluster": "blue"})
    made = ours.create(order())
    theirs = by_hand(openstack, metadata={"cluster": "blue", "owner": "alice"})
    others = by_hand(openstack, metadata={"cluster": "green"})
    managed = {node.id: node.managed for node in ours.list_nodes().items}
    assert managed == {made.id: True, theirs: True, others: False}
    assert openstack.nova.servers[made.id].metadata["cluster"] == "blue"


@pytest.mark.parametrize(
    ("name", "count"),
    [("_servers_detail", 2), ("_servers_detail_EMPTY", 0), ("_servers_detail_ERROR_STATE", 1)],
)
def test_libcloud_s_recorded_answers_are_read(name: str, count: int) -> None:
    recorded = json.loads((RECORDED / f"{name}.json").read_text(encoding="utf-8"))["servers"]
    # They are of a nova whose ids were still numbers.
    recorded = [{**one, "id": str(one["id"])} for one in recorded]
    nodes = [READER.read(Server.of(one), "blue") for one in recorded]
    assert len(nodes) == count
    for node, raw in zip(nodes, recorded, strict=True):
        assert (str(node.id), node.name, node.raw_state) == (
            raw["id"],
            raw["name"],
            raw["status"],
        )
        assert node.state in {CloudState.PENDING, CloudState.RUNNING, CloudState.STOPPED}
        assert node.created_at is not None
        assert node.size
