"""OpenStack's own SDK and our adapter at one server: each creates, lists and deletes what the other
sees. So the server can't drift from the API without one of them failing (issue F)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from nodemanager.core.model.world import CloudState, LeftoverKind, Outcome
from tests.cloud.openstack.account import ZONE
from tests.cloud.openstack.helpers import POOL, cloud, neutron_tags, order, our_tags
from tests.cloud.openstack.server import (
    CREDENTIAL,
    CREDENTIAL_SECRET,
    PASSWORD,
    PROJECT,
    REGION,
    USER,
    OpenStackServer,
)
from tests.cloud.openstack.things import IMAGE, PORT

pytestmark = [
    pytest.mark.socket,
    # The SDK warns of its own old ways.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::PendingDeprecationWarning"),
]


@pytest.fixture
def sdk(openstack: OpenStackServer) -> Iterator[Any]:
    yield from connected(
        openstack,
        "v3applicationcredential",
        application_credential_id=CREDENTIAL,
        application_credential_secret=CREDENTIAL_SECRET,
    )


def connected(server: OpenStackServer, how: str, **auth: str) -> Iterator[Any]:
    from openstack.connection import Connection

    made = Connection(auth_type=how, auth={"auth_url": server.auth_url, **auth}, region_name=REGION)
    yield made
    made.close()


def test_what_the_adapter_creates_the_sdk_lists_and_deletes(
    openstack: OpenStackServer, sdk: Any
) -> None:
    ours, asked = cloud(openstack), order("compute-7")
    made = ours.create(asked)
    (seen,) = sdk.compute.servers()
    assert (seen.id, seen.name, seen.status) == (made.id, "compute-7", "ACTIVE")
    assert seen.metadata["nodemanager-pool"] == POOL
    assert seen.metadata["nodemanager-record"] == asked.tags.record
    assert seen.flavor["original_name"] == "m1.small"
    sdk.compute.delete_server(made.id)
    assert ours.ask(made.id) is None
    assert ours.list_nodes().items == ()


def test_what_the_sdk_creates_the_adapter_lists_adopts_and_destroys(
    openstack: OpenStackServer, sdk: Any
) -> None:
    ours = cloud(openstack)
    flavor = next(one for one in sdk.compute.flavors() if one.name == "m1.large")
    theirs = sdk.compute.create_server(
        name="by-sdk", image_id=IMAGE, flavor_id=flavor.id, networks="auto", metadata={"a": "b"}
    )
    (seen,) = ours.list_nodes().items
    assert (seen.id, seen.name, seen.size) == (theirs.id, "by-sdk", "m1.large")
    assert (seen.managed, seen.state, seen.problems) == (False, CloudState.RUNNING, ())
    tags = order().tags
    ours.adopt(theirs.id, tags)
    known = sdk.compute.get_server(theirs.id)
    assert known.metadata == {
        "a": "b",
        "nodemanager-pool": tags.pool,
        "nodemanager-record": tags.record,
        "nodemanager-incarnation": tags.incarnation,
        "nodemanager-size": tags.size,
    }
    assert ours.destroy(theirs.id) is Outcome.ACCEPTED
    assert list(sdk.compute.servers()) == []


def test_both_follow_every_page(openstack: OpenStackServer, sdk: Any) -> None:
    openstack.nova.max_limit = 3
    ours = cloud(openstack)
    made = {ours.create(order()).id for _ in range(7)}
    assert {server.id for server in sdk.compute.servers()} == made
    assert {node.id for node in ours.list_nodes().items} == made


def test_the_sdk_sees_and_deletes_what_a_node_leaves(openstack: OpenStackServer, sdk: Any) -> None:
    ours = cloud(openstack)
    made = ours.create(order())
    (nova_s_own,) = sdk.network.ports(device_id=made.id)
    port = openstack.things.add(PORT, tags=neutron_tags(our_tags(made)))
    openstack.things.attach(port, made.id)
    pinned = {leftover.id for leftover in ours.pins(made.id)}
    assert pinned == {nova_s_own.id, port}
    ours.destroy(made.id)
    assert [(one.kind, one.id) for one in ours.find_leftovers()] == [(LeftoverKind.INTERFACE, port)]
    sdk.network.delete_port(port)
    assert ours.find_leftovers() == ()


def test_the_password_of_a_user_serves_both(openstack: OpenStackServer) -> None:
    (sdk,) = connected(
        openstack,
        "password",
        username=USER,
        password=PASSWORD,
        project_name=PROJECT,
        user_domain_name="Default",
        project_domain_name="Default",
    )
    assert sdk.current_project_id == openstack.project_id


def test_the_sdk_reads_our_server_s_refusals_as_openstack_s(
    openstack: OpenStackServer, sdk: Any
) -> None:
    from openstack.exceptions import ForbiddenException, NotFoundException

    openstack.nova.cores = 0
    flavor = next(sdk.compute.flavors())
    with pytest.raises(ForbiddenException, match="Quota exceeded for cores"):
        sdk.compute.create_server(name="x", image_id=IMAGE, flavor_id=flavor.id, networks="auto")
    with pytest.raises(NotFoundException, match="could not be found"):
        sdk.compute.get_server("6695eb01-0000-4000-8000-97f2502e193f")


def test_the_sdk_reads_the_networks_and_zones_that_the_adapter_reads(sdk: Any) -> None:
    (network,) = sdk.network.networks()
    assert network.is_admin_state_up
    assert [one.name for one in sdk.compute.availability_zones()] == [ZONE]
