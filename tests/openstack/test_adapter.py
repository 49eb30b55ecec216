"""The adapter on a real nova: what its own test server could have wrong.

The contract suite runs beside this (tests/contract/clouds.py); here is what needs a hand in the
cloud: a cell that is down, a host that is frozen, a quota, an administrator's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import pytest
import requests

from nodemanager.cloud.api import CloudDriver
from nodemanager.core.model.world import CloudNode, CloudState, LeftoverKind, Outcome, Size, Tags
from nodemanager.errors import BadRequest, CloudError, LeftAlone, QuotaExceeded, Unauthorized
from tests.cases import cases
from tests.cloud.openstack.helpers import order
from tests.openstack.hand import SLOW_S, Hand
from tests.openstack.settings import MOST_SERVERS
from tests.waiting import until

pytestmark = pytest.mark.openstack


@pytest.fixture
def ours(cloud: Hand) -> Iterator[CloudDriver]:
    with closing(cloud.adapter()) as driver:
        yield driver
    cloud.clear()


def boot(cloud: Hand, ours: CloudDriver) -> CloudNode:
    """A node that runs."""
    made = ours.create(order())
    cloud.wait(made.id, "ACTIVE")
    return seen(ours, made.id)


def seen(ours: CloudDriver, node_id: str) -> CloudNode:
    node = ours.ask(node_id)
    assert node is not None
    return node


def listed(ours: CloudDriver) -> set[str]:
    listing = ours.list_nodes()
    assert listing.complete
    return {node.id for node in listing.items}


def answered(what: Callable[[], Any]) -> Callable[[], Any]:
    """False while the cloud still has the fault that a test gave it."""

    def ask() -> Any:
        with suppress(CloudError):
            return what() or True
        return False

    return ask


def test_a_node_gets_its_user_data_name_size_and_address(cloud: Hand, ours: CloudDriver) -> None:
    asked = order("compute-ü", user_data="#!/bin/sh\ncurl 'https://x/?ping_secret=hüsh'\n")
    made = ours.create(asked)
    cloud.wait(made.id, "ACTIVE")
    node = seen(ours, made.id)
    assert cloud.user_data(made.id).decode() == asked.user_data
    assert (node.name, node.tags, node.size, node.problems) == (
        "compute-ü",
        asked.tags,
        "m1.small",
        (),
    )
    assert [address.startswith("10.0.") for address in node.addresses] == [True]


def test_a_boot_and_an_end_take_their_time(cloud: Hand, ours: CloudDriver) -> None:
    with cloud.compute_frozen():
        made = ours.create(order())
        assert (made.state, seen(ours, made.id).state) == (CloudState.PENDING,) * 2
        assert listed(ours) == {made.id}
    cloud.wait(made.id, "ACTIVE")
    with cloud.compute_frozen():
        assert ours.destroy(made.id) is Outcome.ACCEPTED
        assert seen(ours, made.id).state is CloudState.STOPPING
        assert ours.destroy(made.id) is Outcome.ACCEPTED
    until("its end", lambda: ours.ask(made.id) is None, SLOW_S)
    assert ours.destroy(made.id) is Outcome.UNKNOWN


def test_a_server_that_boots_takes_no_tags_yet(cloud: Hand, ours: CloudDriver) -> None:
    with cloud.compute_frozen():
        theirs = cloud.start_by_hand()
        with pytest.raises(BadRequest, match="vm_state building") as caught:
            ours.adopt(theirs, Tags("blue"))
        assert caught.value.definite
        assert seen(ours, theirs).tags == Tags()
    cloud.wait(theirs, "ACTIVE")
    ours.adopt(theirs, Tags("blue"))
    assert seen(ours, theirs).tags == Tags("blue")


def test_every_page_of_servers_is_followed(cloud: Hand, ours: CloudDriver) -> None:
    made = {ours.create(order()).id for _ in range(MOST_SERVERS + 2)}
    assert listed(ours) == made


def test_a_cell_that_is_down_makes_no_short_listing(cloud: Hand, ours: CloudDriver) -> None:
    """Over PostgreSQL, nova answers 500 in place of telling of the cell ("Handling Down Cells")."""
    made = boot(cloud, ours)
    with cloud.cell_down(), pytest.raises(CloudError):
        ours.list_nodes()
    until("nova's cell", answered(lambda: listed(ours) == {made.id}), SLOW_S)


def test_a_node_without_a_host_is_a_stopped_one_in_error(cloud: Hand, ours: CloudDriver) -> None:
    with cloud.no_host():
        made = ours.create(order())
        cloud.wait(made.id, "ERROR")
    node = seen(ours, made.id)
    assert (node.state, node.raw_state) == (CloudState.STOPPED, "ERROR")
    assert ours.destroy(made.id) is Outcome.ACCEPTED
    until("its end", lambda: ours.ask(made.id) is None, SLOW_S)


def test_a_quota_that_is_used_up_makes_no_node(cloud: Hand, ours: CloudDriver) -> None:
    with cloud.quota(cores=0), pytest.raises(QuotaExceeded, match="Quota exceeded for cores"):
        ours.create(order())
    assert listed(ours) == set()


def test_a_flavor_without_a_disk_needs_a_volume(cloud: Hand, ours: CloudDriver) -> None:
    flavor = cloud.admin.compute.create_flavor(name="m1.diskless", vcpus=1, ram=1024, disk=0)
    try:
        with pytest.raises(BadRequest, match="Only volume-backed servers are allowed"):
            ours.create(order(size=Size("m1.diskless", "m1.diskless", 1, 1024)))
    finally:
        cloud.admin.compute.delete_flavor(flavor.id)


@cases(
    "create",
    {
        "key": {"key_name": "nobody-s"},
        "zone": {"availability_zone": "nowhere"},
        "network": {"networks": "6695eb01-0000-4000-8000-97f2502e193f"},
        "image-id": {"image": "6695eb01-0000-4000-8000-97f2502e193f"},
        "image-name": {"image": "no-such-image"},
    },
)
def test_an_order_that_nova_can_t_fill_is_refused_for_good(
    cloud: Hand, create: dict[str, str], ours: CloudDriver
) -> None:
    with closing(cloud.adapter(create=create)) as wrong, pytest.raises(BadRequest) as caught:
        wrong.create(order())
    assert caught.value.definite
    assert listed(ours) == set()


def test_of_several_networks_one_must_be_named(cloud: Hand, ours: CloudDriver) -> None:
    network = cloud.member.network.create_network(name="another")
    try:
        cloud.member.network.create_subnet(network_id=network.id, ip_version=4, cidr="10.9.0.0/24")
        with pytest.raises(BadRequest, match="Multiple possible networks found"):
            ours.create(order())
        with closing(cloud.adapter(create={"networks": network.id})) as named:
            made = named.create(order())
            cloud.wait(made.id, "ACTIVE")
            assert seen(ours, made.id).addresses[0].startswith("10.9.0.")
    finally:
        cloud.clear()
        cloud.admin.network.delete_network(network)


def test_without_a_network_a_node_has_no_port(cloud: Hand, ours: CloudDriver) -> None:
    with closing(cloud.adapter(create={"networks": "none"})) as alone:
        made = alone.create(order())
    cloud.wait(made.id, "ACTIVE")
    assert seen(ours, made.id).addresses == ()
    assert ours.pins(made.id) == ()


def test_an_image_by_its_name_must_be_active(cloud: Hand) -> None:
    with closing(cloud.adapter(create={"image": "node-image"})) as named:
        named.check_image()
    cloud.admin.image.deactivate_image(cloud.cloud.image)
    try:
        with (
            closing(cloud.adapter(create={"image": "node-image"})) as named,
            pytest.raises(BadRequest, match="its state is deactivated"),
        ):
            named.check_image()
    finally:
        cloud.admin.image.reactivate_image(cloud.cloud.image)


def test_an_administrator_s_lock_refuses_the_end(cloud: Hand, ours: CloudDriver) -> None:
    made = boot(cloud, ours)
    cloud.admin.compute.lock_server(made.id)
    with pytest.raises(BadRequest, match="is locked") as caught:
        ours.destroy(made.id)
    assert caught.value.definite
    cloud.admin.compute.unlock_server(made.id)
    assert ours.destroy(made.id) is Outcome.ACCEPTED


def test_a_port_that_nova_forgot_is_left_to_administrators(cloud: Hand, ours: CloudDriver) -> None:
    """So is neutron's policy now; older ones let the project's member delete it."""
    made = boot(cloud, ours)
    (pinned,) = ours.pins(made.id)
    assert (pinned.kind, pinned.tagged) == (LeftoverKind.INTERFACE, False)
    with pytest.raises(LeftAlone, match="running"):
        ours.release(pinned)
    cloud.bind(pinned.id, "")
    ours.destroy(made.id)
    until("its end", lambda: ours.ask(made.id) is None, SLOW_S)
    with pytest.raises(LeftAlone, match="nova did not make it"):
        ours.release(pinned)
    cloud.bind(pinned.id, made.id)
    with pytest.raises(LeftAlone, match="only administrators"):
        ours.release(pinned)
    cloud.admin.network.delete_port(pinned.id)
    assert ours.release(pinned) is Outcome.GONE


def test_a_port_that_nova_did_not_make_is_given_back(cloud: Hand, ours: CloudDriver) -> None:
    port = cloud.member.network.create_port(network_id=cloud.cloud.network)
    theirs = cloud.by_hand(networks=[{"port": port.id}])
    ours.adopt(theirs, Tags("blue", "zzzzz-7ekkf-000000000000001", 32 * "f"))
    (pinned,) = ours.pins(theirs)
    ours.destroy(theirs)
    until("its end", lambda: ours.ask(theirs) is None, SLOW_S)
    with pytest.raises(LeftAlone, match="nova did not make it"):
        ours.release(pinned)


def test_a_token_that_keystone_revokes_costs_one_question_more(
    cloud: Hand, ours: CloudDriver
) -> None:
    made = boot(cloud, ours)
    with cloud.user_disabled():
        until("a refusal", lambda: refused(ours), SLOW_S)
    assert listed(ours) == {made.id}


def refused(ours: CloudDriver) -> bool:
    try:
        ours.list_nodes()
    except Unauthorized:
        return True
    return False


@contextmanager
def credential(cloud: Hand, rules: list[dict[str, str]]) -> Iterator[dict[str, str]]:
    user = cloud.member.current_user_id
    made = cloud.member.identity.create_application_credential(
        user, "less", secret="less-secret", access_rules=rules
    )
    try:
        yield {
            "application_credential_id": made.id,
            "application_credential_secret": "less-secret",
        }
    finally:
        cloud.member.identity.delete_application_credential(user, made)


def test_a_call_without_an_access_rule_is_unauthorized(cloud: Hand) -> None:
    """The rules of etc/iam are in force: what they leave out is refused."""
    rule = {"service": "compute", "method": "GET", "path": "/v2.1/servers/detail"}
    with (
        credential(cloud, [rule]) as given,
        closing(cloud.adapter(credentials=given)) as limited,
    ):
        assert listed(limited) == set()
        with pytest.raises(Unauthorized):
            limited.list_sizes()


def test_wrong_credentials_are_unauthorized(cloud: Hand) -> None:
    wrong = {**cloud.credentials, "application_credential_secret": "wrong"}
    with closing(cloud.adapter(credentials=wrong)) as refused, pytest.raises(Unauthorized):
        refused.account()
    told = requests.get(f"{cloud.cloud.auth_url}/v3/auth/tokens", timeout=30)
    assert told.status_code == 401
