"""What the GCE adapter takes for a complete listing, and what it refuses (L1, L2, T4, T5)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager import errors
from nodemanager.cloud.gce.instance import instance_name
from nodemanager.cloud.tags import label_value, read_label
from nodemanager.core.model.world import CloudState
from tests.cases import cases
from tests.cloud.gce.helpers import POOL, ZONE, by_hand, cloud, order
from tests.cloud.gce.project import ZONES
from tests.cloud.gce.server import GceServer, changed, plain, refusal

LIST = "instances.aggregatedList"


@pytest.mark.parametrize("filtered", [True, False], ids=["by-label", "by-cloud-list"])
def test_every_page_of_every_zone_is_followed(gce: GceServer, filtered: bool) -> None:
    labels = {"nodemanager-pool": POOL}
    tags = {"items": ["compute"]}
    made = {by_hand(gce, zone, labels=labels, tags=tags) for zone in ZONES for _ in range(3)}
    ours = cloud(gce, page_size=2, listing={} if filtered else {"tags": "compute"})
    listing = ours.list_nodes()
    assert {node.id for node in listing.items} == made
    assert listing.complete
    tokens = [call.query.get("pageToken") for call in gce.called(LIST)]
    assert len(tokens) == 5
    assert len(set(tokens)) == 5


def warned(code: str) -> Callable[[Any], None]:
    def change(told: Any) -> None:
        told["warning"] = {"code": code, "message": "some results may be missing"}

    return change


def scoped(change: Callable[[dict[str, Any]], object]) -> Callable[[Any], None]:
    return lambda told: change(told["items"])


@cases(
    "change",
    {
        "unreachable": warned("UNREACHABLE"),
        "partial": warned("PARTIAL_SUCCESS"),
        "unknown-warning": warned("SOMETHING_NEW"),
        "empty-warning": lambda told: told.update(warning={}),
        "unreachables": lambda told: told.update(unreachables=["zones/x"]),
        "no-items": lambda told: told.pop("items"),
        "no-zones": lambda told: told.update(items={}),
        "only-regions": scoped(lambda items: [items.pop(f"zones/{zone}") for zone in ZONES]),
        "a-zone-warns-beside-its-items": scoped(
            lambda items: items[f"zones/{ZONE}"].update(warning={"code": "UNREACHABLE"})
        ),
        "items-are-a-list": lambda told: told.update(items=[]),
        "a-null-zone": scoped(lambda items: items.update({"zones/z": None})),
        "no-list": scoped(lambda items: items[f"zones/{ZONE}"].update(instances={})),
        "foreign-kind": lambda told: told.update(kind="compute#diskList"),
        "no-kind": lambda told: told.pop("kind"),
    },
)
def test_an_answer_that_may_lack_nodes_is_no_listing(
    gce: GceServer, change: Callable[[Any], object]
) -> None:
    by_hand(gce, labels={"nodemanager-pool": POOL})
    ours = cloud(gce)
    assert len(ours.list_nodes().items) == 1
    gce.fault(LIST, after=changed(change))
    with pytest.raises((errors.IncompleteListing, errors.ForeignAnswer)) as caught:
        ours.list_nodes()
    assert not caught.value.definite
    assert len(ours.list_nodes().items) == 1


def test_a_zone_that_cant_be_reached_is_no_empty_zone(gce: GceServer) -> None:
    """libcloud drops such a zone, and lists the others as if they were all."""
    kept = by_hand(gce, "us-central1-b", labels={"nodemanager-pool": POOL})
    ours = cloud(gce)
    gce.project.unreachable = {"us-central1-b"}
    for ask in (ours.list_nodes, lambda: ours.find_by_record("zzzzz-7ekkf-000000000000001")):
        with pytest.raises(errors.IncompleteListing, match="us-central1-b"):
            ask()
    with pytest.raises(errors.CloudError):
        ours.ask(kept)
    gce.project.unreachable = set()
    assert ours.ask(kept) is not None
    gce.project.unreachable = {"us-central1-b"}
    with pytest.raises(errors.CloudError) as caught:
        ours.ask(kept)
    assert not caught.value.definite


STATES = {
    "PENDING": CloudState.PENDING,
    "PROVISIONING": CloudState.PENDING,
    "STAGING": CloudState.PENDING,
    "RUNNING": CloudState.RUNNING,
    "PENDING_STOP": CloudState.STOPPING,
    "STOPPING": CloudState.STOPPING,
    "SUSPENDING": CloudState.STOPPING,
    "DEPROVISIONING": CloudState.STOPPING,
    "TERMINATED": CloudState.STOPPED,
    "STOPPED": CloudState.STOPPED,
    "SUSPENDED": CloudState.STOPPED,
    "REPAIRING": CloudState.UNKNOWN,
}


def test_each_of_googles_states_holds_its_slot(gce: GceServer) -> None:
    """A preempted or stopped instance is TERMINATED at Google's, and is there still (T4)."""
    ours = cloud(gce)
    made = ours.create(order())
    for status, state in STATES.items():
        gce.project.put(made.id, status)
        for node in (ours.ask(made.id), *ours.list_nodes().items):
            assert node is not None
            assert (node.state, node.raw_state, node.is_absent) == (state, status, False)
    for asked in gce.called(LIST):
        assert asked.query["filter"] == f'labels.nodemanager-pool="{POOL}"'


def test_a_status_that_is_newer_than_this_program_is_unknown(gce: GceServer) -> None:
    ours = cloud(gce)
    made = ours.create(order())
    spoil = scoped(lambda items: items[f"zones/{ZONE}"]["instances"][0].update(status="DREAMING"))
    gce.fault(LIST, after=changed(spoil))
    (node,) = ours.list_nodes().items
    assert (node.id, node.state, node.raw_state) == (made.id, CloudState.UNKNOWN, "DREAMING")


@pytest.mark.parametrize(
    "field", ["creationTimestamp", "status", "machineType", "labels", "networkInterfaces", "zone"]
)
def test_a_node_with_a_field_that_cant_be_read_stays_in_the_listing(
    gce: GceServer, field: str
) -> None:
    ours = cloud(gce, listing={"tags": "compute"}, create={"tags": "compute"})
    made = ours.create(order())
    for value in (None, 7, "x", ["x"]):

        def spoil(told: Any, value: object = value) -> None:
            told["items"][f"zones/{ZONE}"]["instances"][0][field] = value

        gce.fault(LIST, after=changed(spoil))
        listing = ours.list_nodes()
        assert [node.id for node in listing.items] == [made.id], value


@cases(
    ("listing", "managed"),
    {
        "nothing": ({}, {"ours"}),
        "tag": ({"tags": "a"}, {"ours", "a", "ab", "far"}),
        "two-tags": ({"tags": "b, a"}, {"ours", "ab"}),
        "zone": ({"zone": "us-central1-b"}, {"ours", "far"}),
        "zone-and-tag": ({"zone": ZONE, "tags": "a"}, {"ours", "a", "ab"}),
    },
)
def test_cloud_list_chooses_what_is_managed_never_what_exists_t5(
    gce: GceServer, listing: dict[str, str], managed: set[str]
) -> None:
    by_hand(gce, "europe-west4-a", "ours", labels={"nodemanager-pool": POOL})
    by_hand(gce, ZONE, "a", tags={"items": ["a"]})
    by_hand(gce, ZONE, "ab", tags={"items": ["a", "b"]})
    by_hand(gce, ZONE, "plain")
    by_hand(gce, "us-central1-b", "far", tags={"items": ["a"]})
    by_hand(gce, ZONE, "theirs", labels={"nodemanager-pool": "another"})
    if listing.get("zone") == ZONE and "tags" not in listing:
        managed = {*managed, "plain", "theirs"}
    nodes = cloud(gce, listing=listing).list_nodes().items
    assert {node.name for node in nodes} == managed
    assert all(node.managed for node in nodes)


def test_a_node_is_asked_for_by_its_number_not_by_its_name(gce: GceServer) -> None:
    """A name may be another instance's tomorrow."""
    ours = cloud(gce)
    made = ours.create(order())
    name = gce.project.instance(ZONE, made.id)["name"]
    ours.destroy(made.id)
    gce.project.settle()
    again = by_hand(gce, name=name)
    assert ours.ask(made.id) is None
    found = ours.ask(again)
    assert found is not None
    assert found.name == name
    assert all(call.path["instance"] in (made.id, again) for call in gce.called("instances.get"))


@cases(
    "change",
    {
        "another-project": lambda told: told.update(name="another", id="12345"),
        "no-number": lambda told: told.pop("id"),
    },
)
def test_another_project_than_the_files_is_no_account_l5(
    gce: GceServer, change: Callable[[Any], object]
) -> None:
    ours = cloud(gce)
    gce.fault("projects.get", after=changed(change))
    with pytest.raises(errors.ForeignAnswer):
        ours.account()
    assert ours.account()


def test_a_project_that_is_not_there_is_no_evidence_about_a_node(gce: GceServer) -> None:
    """Google says notFound of a project that the credentials may not see, too."""
    ours = cloud(gce)
    made = ours.create(order())
    for name in ("instances.get", "zones.get"):
        gce.fault(name, before=refusal("notFound", 404, "The resource 'projects/p' was not found"))
    with pytest.raises(errors.CloudError, match="notFound"):
        ours.ask(made.id)
    gce.fault("instances.get", before=plain(404, "<html>no such page</html>"))
    with pytest.raises(errors.CloudError):
        ours.ask(made.id)
    assert ours.ask(made.id) is not None


@given(st.text(max_size=20))
def test_a_labels_value_is_read_back_p11(text: str) -> None:
    try:
        coded = label_value(text)
    except ValueError:
        return
    assert read_label(coded) == text
    assert len(coded) <= 63
    assert set(coded) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-")


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("m4_2elarge", "m4.large"),
        ("a_b", "a_b"),
        ("a_5fb", "a_b"),
        ("a_ff", "a_ff"),
        ("a_61", "a_61"),
    ],
)
def test_a_label_that_somebody_else_wrote_is_taken_as_it_stands(value: str, read: str) -> None:
    assert read_label(value) == read


@given(st.text(min_size=1, max_size=90), st.sampled_from(["", "00ff" * 8]))
def test_an_instances_name_is_one_that_google_takes_p11(name: str, incarnation: str) -> None:
    shaped = instance_name(name, incarnation)
    assert re.fullmatch(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?", shaped), shaped


def test_a_name_keeps_the_records_handle() -> None:
    assert instance_name("compute3", "0123456789abcdef" * 2) == "compute3-01234567"
    assert instance_name("Compute_3.example.org", "f" * 32) == "compute-3-example-org-ffffffff"
    assert instance_name("7", "a" * 32) == "n-7-aaaaaaaa"
