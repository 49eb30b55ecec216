"""What the Azure adapter takes for a complete listing, and what it refuses (L1, L2, T4, T5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nodemanager import errors
from nodemanager.cloud.azure.order import machine_name
from nodemanager.core.model.world import CloudState, Tags
from tests.cases import cases
from tests.cloud.azure.auth import SUBSCRIPTION, TENANT
from tests.cloud.azure.helpers import POOL, by_hand, cloud, machine, order
from tests.cloud.azure.server import AzureServer, changed, plain, refusal
from tests.cloud.azure.world import GROUP, OTHER_GROUP, ROOT, VMS
from tests.cloud.orders import finished

LIST = "virtualMachines.list"
OURS = {"nodemanager-pool": POOL}

pytestmark = pytest.mark.socket


@pytest.mark.parametrize(
    "link",
    ["https://elsewhere.example.org/x", "http://127.0.0.1:9/x", "ftp://127.0.0.1/x", 7, ["x"]],
)
def test_a_link_that_leads_elsewhere_never_gets_our_token(azure: AzureServer, link: object) -> None:
    by_hand(azure, tags=OURS)
    azure.fault(LIST, after=changed(lambda told: told.update(nextLink=link)))
    with pytest.raises((errors.ForeignAnswer, errors.IncompleteListing)):
        cloud(azure).list_nodes()
    assert len(azure.called(LIST)) == 1


def first(change: Callable[[dict[str, Any]], object]) -> Callable[[Any], object]:
    return lambda told: change(told["value"][0])


@cases(
    "change",
    {
        "no-value": lambda told: told.pop("value"),
        "null": lambda told: told.update(value=None),
        "an-object": lambda told: told.update(value={}),
        "twice": lambda told: told["value"].append(told["value"][0]),
        "another-kind": first(
            lambda one: one.update(id=one["id"].replace(VMS, "Microsoft.Compute/disks"))
        ),
        "another-group": first(lambda one: one.update(id=one["id"].replace(GROUP, OTHER_GROUP))),
        "another-account": first(
            lambda one: one.update(id=one["id"].replace(SUBSCRIPTION, TENANT))
        ),
    },
)
def test_an_answer_that_may_lack_nodes_is_no_listing(
    azure: AzureServer, change: Callable[[Any], object]
) -> None:
    by_hand(azure, tags=OURS)
    ours = cloud(azure)
    assert len(ours.list_nodes().items) == 1
    azure.fault(LIST, after=changed(change))
    with pytest.raises((errors.IncompleteListing, errors.ForeignAnswer)) as caught:
        ours.list_nodes()
    assert not caught.value.definite
    assert len(ours.list_nodes().items) == 1


@cases(
    ("code", "status", "expected"),
    {
        "429": ("OperationNotAllowed", 429, errors.Throttled),
        "no-such-group": ("ResourceGroupNotFound", 404, errors.BadRequest),
        "no-subscription": ("SubscriptionNotFound", 404, errors.Unauthorized),
    },
)
def test_azures_own_refusal_of_a_listing_is_told_by_its_code(
    azure: AzureServer, code: str, status: int, expected: type[errors.CloudError]
) -> None:
    azure.fault(LIST, before=refusal(code, status, "too many requests", "7"))
    with pytest.raises(errors.CloudError) as caught:
        cloud(azure).list_nodes()
    assert (type(caught.value), caught.value.retry_after) == (expected, 7.0)


STATES = (
    ("Creating", None, CloudState.PENDING),
    ("Creating", "PowerState/starting", CloudState.PENDING),
    ("Succeeded", "PowerState/starting", CloudState.PENDING),
    ("Creating", "PowerState/running", CloudState.RUNNING),
    ("Succeeded", "PowerState/running", CloudState.RUNNING),
    ("Updating", "PowerState/running", CloudState.RUNNING),
    # An operation on it failed, and it works all the same.
    ("Failed", "PowerState/running", CloudState.RUNNING),
    ("Failed", None, CloudState.STOPPED),
    ("Failed", "PowerState/stopped", CloudState.STOPPED),
    ("Succeeded", "PowerState/stopping", CloudState.STOPPING),
    ("Succeeded", "PowerState/deallocating", CloudState.STOPPING),
    ("Deleting", "PowerState/running", CloudState.STOPPING),
    ("Deleting", None, CloudState.STOPPING),
    ("Succeeded", "PowerState/stopped", CloudState.STOPPED),
    ("Succeeded", "PowerState/deallocated", CloudState.STOPPED),
    ("Succeeded", "PowerState/unknown", CloudState.UNKNOWN),
    ("Succeeded", None, CloudState.UNKNOWN),
    ("Dreaming", None, CloudState.UNKNOWN),
    ("Migrating", "PowerState/dreaming", CloudState.UNKNOWN),
)
"""Of the provisioning and the power: what they mean."""


@pytest.mark.parametrize("rights", ["subscription", "group"])
def test_each_of_azures_states_holds_its_slot(azure: AzureServer, rights: str) -> None:
    """The power states come in one answer for the subscription, or, without the right to that, one
    by one (T4)."""
    if rights == "group":
        azure.allowed_everywhere = set()
    ours = cloud(azure)
    asked = order()
    made = ours.create(asked)
    record = asked.tags.record
    assert record is not None
    for provisioning, power, state in STATES:
        azure.world.put(made.id, provisioning, power)
        views = (ours.ask(made.id), *ours.list_nodes().items, *ours.find_by_record(record))
        assert len(views) == 3
        for node in views:
            assert node is not None
            assert (node.state, node.is_absent) == (state, False), (provisioning, power)
            assert node.raw_state in (provisioning, power)
            assert node.problems == ()


def test_only_the_missing_right_makes_the_states_be_asked_one_by_one(azure: AzureServer) -> None:
    ours = cloud(azure)
    ours.create(order())
    azure.fault("virtualMachines.listAll", before=refusal("InternalServerError", 500))
    with pytest.raises(errors.CloudError):
        ours.list_nodes()


def test_the_listing_is_the_pools_own_nodes_of_the_group(azure: AzureServer) -> None:
    ours = cloud(azure)
    made = ours.create(order()).id
    cloud(azure, pool="green").create(order(pool="green"))
    by_hand(azure)
    by_hand(azure, f"{ROOT}/resourceGroups/{OTHER_GROUP}", tags=OURS)
    assert [node.id for node in ours.list_nodes().items] == [made]


@pytest.mark.parametrize(
    ("listing", "create"),
    [
        ({"tag_arvados-class": "dynamic"}, {}),
        # The forerunner's file has it there, and its machines were listed by it.
        ({}, {"tag_arvados-class": "dynamic"}),
    ],
)
def test_cloud_list_chooses_nodes_of_other_hands_by_tag(
    azure: AzureServer, listing: dict[str, str], create: dict[str, str]
) -> None:
    wanted = by_hand(azure, tags={"arvados-class": "dynamic", "x": "y"})
    by_hand(azure, tags={"arvados-class": "other"})
    by_hand(azure)
    (node,) = cloud(azure, listing=listing, create=create).list_nodes().items
    assert (node.id, node.managed, node.tags) == (wanted, True, Tags())


def test_tag_names_have_no_case_at_azure(azure: AzureServer) -> None:
    ours = cloud(azure)
    asked = order()
    made = ours.create(asked)
    one = machine(azure, made.id)
    one["tags"] = {name.upper(): value for name, value in one["tags"].items()}
    (node,) = ours.list_nodes().items
    assert (node.tags, node.name) == (asked.tags, asked.name)


# Asking for one.


def test_a_node_is_asked_for_by_name_once_it_is_known_else_searched_for(azure: AzureServer) -> None:
    made = cloud(azure).create(order())
    ours = cloud(azure)
    assert ours.ask(made.id) is not None
    assert len(azure.called(LIST)) == 1
    assert ours.ask(made.id) is not None
    assert len(azure.called(LIST)) == 1


def test_a_name_in_other_hands_is_not_our_node(azure: AzureServer) -> None:
    ours = cloud(azure)
    made = finished(ours, order())
    one = machine(azure, made.id)
    one["properties"]["vmId"] = "0" * 8 + "-0000-4000-8000-" + "0" * 12
    assert ours.ask(made.id) is None
    one["properties"]["vmId"] = made.id
    assert ours.ask(made.id) is not None


@cases(
    ("how", "expected"),
    {
        "group": (refusal("ResourceGroupNotFound", 404), errors.BadRequest),
        "subscription": (refusal("SubscriptionNotFound", 404), errors.Unauthorized),
        "another-not-found": (refusal("NotFound", 404), errors.BadRequest),
        "another-resource": (plain(200, '{"id": "/x"}'), errors.ForeignAnswer),
    },
)
def test_only_azures_own_no_such_resource_is_no_such_node(
    azure: AzureServer, how: Callable[[], Any], expected: type[errors.CloudError]
) -> None:
    ours = cloud(azure)
    made = ours.create(order())
    azure.fault("virtualMachines.get", before=how)
    with pytest.raises(expected):
        ours.ask(made.id)
    azure.fault("virtualMachines.get", before=refusal("ResourceNotFound", 404))
    assert ours.ask(made.id) is None


def test_a_resource_group_that_is_not_there_denies_no_node(azure: AzureServer) -> None:
    ours = cloud(azure, listing={"resource_group": "Gone"})
    for ask in (
        ours.list_nodes,
        lambda: ours.find_by_record("zzzzz-7ekkf-000000000000001"),
        lambda: ours.ask("6695eb01-0000-4000-8000-97f2502e193f"),
    ):
        with pytest.raises(errors.BadRequest, match="ResourceGroupNotFound"):
            ask()


# The account.


def test_the_account_is_the_subscription_and_its_directory(azure: AzureServer) -> None:
    line = cloud(azure).account()
    assert line == (
        "subscription=11111111-2222-4333-8444-555555555555 "
        "tenant=99999999-8888-4777-8666-555555555555 group=nodes "
        f"endpoint={azure.url}"
    )


@cases(
    "change",
    {
        "directory": lambda told: told.update(tenantId="another"),
        "subscription": lambda told: told.update(id="/subscriptions/another"),
    },
)
def test_another_account_than_the_files_is_no_account_l5(
    azure: AzureServer, change: Callable[[Any], object]
) -> None:
    azure.fault("subscriptions.get", after=changed(change))
    with pytest.raises(errors.ForeignAnswer):
        cloud(azure).account()


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("compute1", "compute1-01234567"),
        ("compute1.example.org", "compute1-example-org-01234567"),
        ("x" * 80, "x" * 55 + "-01234567"),
        ("_", "n-01234567"),
    ],
)
def test_a_machines_name_is_as_azure_takes_names(name: str, found: str) -> None:
    assert machine_name(name, "0123456789abcdef") == found
    assert len(found) <= 64
