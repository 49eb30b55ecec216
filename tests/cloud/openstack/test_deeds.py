"""Creating, tagging and destroying by the OpenStack adapter (U5, U6, D3, D6)."""

from __future__ import annotations

import base64
import re
from typing import Any

import pytest

from nodemanager import errors
from nodemanager.cloud.openstack.errors import refusal_of
from nodemanager.core.model.world import CloudState, Outcome, Size, Tags
from tests.cases import cases
from tests.cloud.openstack.account import SERVER_GROUP, network, server_group
from tests.cloud.openstack.helpers import by_hand, cloud, order
from tests.cloud.openstack.nova import NO_VALID_HOST
from tests.cloud.openstack.server import OpenStackServer, changed, plain, refusal
from tests.cloud.openstack.things import IMAGE, NETWORK

pytestmark = pytest.mark.socket
OTHER, ANOTHER = (f"{n}-6666-4666-8666-666666666666" for n in ("66666666", "99999999"))
CREATE, SHOW = "compute POST /servers", "compute GET /servers/{id}"
DELETE = "compute DELETE /servers/{id}"


def test_the_tags_and_the_template_are_in_the_create_call_itself(
    openstack: OpenStackServer,
) -> None:
    ours = cloud(
        openstack,
        listing={"metadata:cluster": "blue"},
        create={
            "image": "node-image",
            "networks": NETWORK,
            "security_groups": "default, compute",
            "key_name": "operators",
            "availability_zone": "az-2",
            "config_drive": "yes",
            "metadata:team": "physics",
        },
    )
    asked = order("compute-ü", user_data="#!/bin/sh\ncurl 'https://x/?ping_secret=hüsh'\n")
    node = ours.create(asked)
    assert (node.tags, node.name, node.problems) == (asked.tags, "compute-ü", ())
    (call,) = openstack.called(CREATE)
    sent = call.body["server"]
    assert base64.b64decode(sent.pop("user_data")).decode() == asked.user_data
    assert sent == {
        "name": "compute-ü",
        "imageRef": IMAGE,
        "flavorRef": openstack.nova.flavors[0]["id"],
        "networks": [{"uuid": NETWORK}],
        "security_groups": [{"name": "default"}, {"name": "compute"}],
        "key_name": "operators",
        "availability_zone": "az-2",
        "config_drive": True,
        "metadata": {
            "cluster": "blue",
            "team": "physics",
            "nodemanager-pool": "blue",
            "nodemanager-record": asked.tags.record,
            "nodemanager-incarnation": asked.tags.incarnation,
            "nodemanager-size": "m1.small",
        },
    }
    assert "hüsh" not in call.path + str(call.query)


def test_a_node_boots_from_a_volume_of_its_own_where_its_flavor_has_no_disk(
    openstack: OpenStackServer,
) -> None:
    huge = order(size=Size("g1.huge", "g1.huge", 64, 524288))
    with pytest.raises(errors.BadRequest, match="Only volume-backed servers"):
        cloud(openstack).create(huge)
    create = {"image": IMAGE, "boot_volume_gb": "40", "boot_volume_type": "ssd"}
    made = cloud(openstack, create=create).create(huge)
    sent = openstack.called(CREATE)[-1].body["server"]
    assert made.size == "g1.huge"
    assert "imageRef" not in sent
    (volume,) = sent["block_device_mapping_v2"]
    assert (volume["uuid"], volume["volume_size"], volume["volume_type"]) == (IMAGE, 40, "ssd")
    assert (volume["source_type"], volume["destination_type"]) == ("image", "volume")
    assert volume["delete_on_termination"] is True


def test_without_more_a_node_is_on_the_project_s_only_network(openstack: OpenStackServer) -> None:
    cloud(openstack).create(order())
    (call,) = openstack.called(CREATE)
    assert call.body["server"]["networks"] == "auto"


def test_networks_and_a_server_group_may_be_named_and_hints_go_beside_the_server(
    openstack: OpenStackServer,
) -> None:
    hints = {"hint:different_cell": "cell1"}
    named = {"image": IMAGE, "networks": "private", "server_group": "apart", **hints}
    cloud(openstack, create=named).create(order())
    by_id = {"image": IMAGE, "networks": NETWORK, "server_group": SERVER_GROUP, **hints}
    cloud(openstack, create=by_id).create(order())
    one, other = openstack.called(CREATE)
    assert one.body["server"]["networks"] == other.body["server"]["networks"] == [{"uuid": NETWORK}]
    expected = {"different_cell": "cell1", "group": SERVER_GROUP}
    assert one.body["os:scheduler_hints"] == other.body["os:scheduler_hints"] == expected
    assert len(openstack.called("network GET /networks")) == 1
    assert len(openstack.called("compute GET /os-server-groups")) == 1


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("networks", f"networks = twice: 2 of that name, so give one's id: {OTHER}, {ANOTHER}"),
        ("server_group", f"server_group = twice: 2 of that name, so give one's id: {OTHER}"),
        ("networks", "networks = nobody: none of that name is there"),
        ("server_group", "server_group = nobody: none of that name is there"),
    ],
)
def test_a_name_that_none_or_several_have_makes_no_server(
    openstack: OpenStackServer, option: str, said: str
) -> None:
    for thing_id in (OTHER, ANOTHER):
        openstack.account.networks.append(network(thing_id, "twice"))
        openstack.account.server_groups.append(server_group(thing_id, "twice"))
    name = "twice" if "twice" in said else "nobody"
    ours = cloud(openstack, create={"image": IMAGE, option: name})
    with pytest.raises(errors.BadRequest, match=re.escape(f"[Cloud Create] {said}")):
        ours.create(order())
    assert openstack.called(CREATE) == []


@cases(
    "answer",
    {
        "500": refusal(500),
        "a-proxy-s-502": plain(502, "<h1>nginx</h1>"),
        "401": refusal(401),
        "cut": lambda: None,
    },
)
def test_a_create_that_was_answered_stays_created_whatever_the_next_question_gives(
    openstack: OpenStackServer, answer: Any
) -> None:
    ours, asked = cloud(openstack), order("compute-9")
    openstack.fault(SHOW, times=2, before=answer)
    made = ours.create(asked)
    assert (made.name, made.is_absent) == ("compute-9", False)
    assert "tags in the answer are not those that were ordered" in made.problems
    assert [node.id for node in ours.list_nodes().items] == [made.id]


def test_the_admin_s_password_in_the_answer_is_kept_nowhere(openstack: OpenStackServer) -> None:
    openstack.fault(SHOW, before=refusal(500))
    made = cloud(openstack).create(order())
    assert "sEcrEt" not in repr(made)


@cases(
    ("answer", "expected", "definite"),
    {
        "quota": (
            refusal(403, "Quota exceeded for cores: Requested 8, but already used 4 of 8 cores"),
            errors.QuotaExceeded,
            True,
        ),
        "ports": (refusal(403, "Maximum number of ports exceeded"), errors.QuotaExceeded, True),
        "policy": (
            refusal(403, "Policy doesn't allow os_compute_api:servers:create to be performed."),
            errors.Unauthorized,
            True,
        ),
        "401": (refusal(401, "no"), errors.Unauthorized, True),
        "401-text": (plain(401, "Authentication required"), errors.Unauthorized, True),
        "400": (refusal(400, "Invalid key_name provided."), errors.BadRequest, True),
        "zone": (
            refusal(400, "The requested availability zone is not available"),
            errors.BadRequest,
            True,
        ),
        "409": (
            refusal(409, "Multiple possible networks found, use a Network ID to be more specific."),
            errors.BadRequest,
            True,
        ),
        "413": (refusal(413, "slow", "30"), errors.Throttled, True),
        "429": (refusal(429, "slow", "30"), errors.Throttled, True),
        "a-proxy-s-429": (plain(429, "slow"), errors.Throttled, True),
        "capacity": (refusal(500, NO_VALID_HOST), errors.CapacityUnavailable, True),
        "500": (refusal(500, "Unexpected API Error."), errors.CloudError, False),
        "503": (refusal(503, "busy", "30"), errors.CloudError, False),
        "a-proxy-s-504": (plain(504, "<h1>nginx</h1>"), errors.CloudError, False),
        "a-proxy-s-413": (plain(413, "<h1>nginx</h1>"), errors.ForeignAnswer, False),
        "cut": (lambda: None, errors.CloudError, False),
    },
)
def test_a_refusal_says_what_to_do_next_d6_u6(
    openstack: OpenStackServer, answer: Any, expected: type[errors.CloudError], definite: bool
) -> None:
    openstack.fault(CREATE, before=answer)
    with pytest.raises(errors.CloudError) as caught:
        cloud(openstack).create(order())
    assert type(caught.value) is expected
    assert caught.value.definite is definite
    assert len(openstack.called(CREATE)) == 1
    reply = answer()
    wants = reply is not None and "Retry-After" in reply.headers
    assert caught.value.retry_after == (30.0 if wants else None)


@cases(
    ("status", "body", "expected"),
    {
        "neutron-quota": (
            409,
            b'{"NeutronError": {"type": "OverQuota", "message": "for resources: [\'port\']."}}',
            errors.QuotaExceeded,
        ),
        "cinder-quota": (
            413,
            b'{"overLimit": {"code": 413, "message": "VolumeLimitExceeded: over the limit"}}',
            errors.QuotaExceeded,
        ),
        "unified-limits": (
            403,
            b'{"forbidden": {"code": 403, "message": "Project a is over a limit for [VCPU]"}}',
            errors.QuotaExceeded,
        ),
        "old": (406, b'{"x": {"message": "Version 2.69 is not supported"}}', errors.BadRequest),
        "a-list": (400, b"[1]", errors.BadRequest),
        "odd": (400, b'{"message": 7}', errors.BadRequest),
    },
)
def test_each_service_s_words_are_understood(
    status: int, body: bytes, expected: type[errors.CloudError]
) -> None:
    assert refusal_of(status, body, None).meaning is expected


def test_a_nova_that_is_too_old_is_told(openstack: OpenStackServer) -> None:
    openstack.nova.maximum = (2, 65)
    with pytest.raises(errors.BadRequest, match=r"Version 2\.69 is not supported by the API"):
        cloud(openstack).list_nodes()


def test_a_node_without_a_host_is_a_stopped_one_in_error(openstack: OpenStackServer) -> None:
    """Nova takes the create, and says only later that no host has room."""
    ours = cloud(openstack)
    openstack.nova.no_host = True
    made = ours.create(order())
    (seen,) = ours.list_nodes().items
    assert (seen.state, seen.raw_state) == (CloudState.STOPPED, "ERROR")
    assert ours.destroy(made.id) is Outcome.ACCEPTED


def test_what_nova_would_refuse_is_not_sent(openstack: OpenStackServer) -> None:
    ours = cloud(openstack)
    with pytest.raises(errors.BadRequest, match="user data"):
        ours.create(order(user_data="x" * 50_000))
    with pytest.raises(errors.BadRequest, match="preemptible"):
        ours.create(order(size=Size("m1.small", "m1.small", 1, 2048, preemptible=True)))
    with pytest.raises(
        errors.BadRequest, match=r"no flavor of that name; did you mean .m1.large.\?"
    ):
        ours.create(order(size=Size("large", "m1.larg", 1, 2048)))
    assert openstack.called(CREATE) == []


def test_a_new_flavor_is_found_though_the_flavors_were_listed_before(
    openstack: OpenStackServer,
) -> None:
    ours = cloud(openstack)
    assert {size.name for size in ours.list_sizes()} == {"m1.small", "m1.large", "g1.huge"}
    openstack.nova.flavors.append({**openstack.nova.flavors[0], "id": "new", "name": "m2"})
    assert ours.create(order(size=Size("m2", "m2", 1, 2048))).size == "m2"


def test_the_sizes_are_the_flavors(openstack: OpenStackServer) -> None:
    sizes = {size.name: size for size in cloud(openstack).list_sizes()}
    large = sizes["m1.large"]
    assert (large.cores, large.ram_mb, large.scratch_mb, large.price) == (4, 8192, 180_000, None)


@cases(
    ("image", "told"),
    {
        "name": ("another", "there is none of that name"),
        "id": ("33333333-3333-4333-8333-333333333333", "No image found with ID"),
        "twice": ("twice", "2 have it"),
        "state": ("queued", "its state is queued"),
    },
)
def test_an_image_that_no_node_can_boot_from_is_told(
    openstack: OpenStackServer, image: str, told: str
) -> None:
    for number, name in enumerate(("twice", "twice", "queued")):
        status = "queued" if name == "queued" else "active"
        openstack.things.images[f"{number}"] = {"id": f"{number}", "name": name, "status": status}
    ours = cloud(openstack, create={"image": image})
    with pytest.raises(errors.BadRequest) as caught:
        ours.check_image()
    assert f"[Cloud Create] image = {image}: " in str(caught.value)
    assert told in str(caught.value)


def test_adopting_keeps_other_metadata_and_is_all_or_nothing(openstack: OpenStackServer) -> None:
    ours = cloud(openstack)
    theirs = by_hand(openstack)
    tags = Tags("blue", "zzzzz-7ekkf-000000000000001", 32 * "f")
    openstack.fault("compute POST /servers/{id}/metadata", after=changed(lambda body: {}))
    with pytest.raises(errors.ForeignAnswer):
        ours.adopt(theirs, tags)
    ours.adopt(theirs, tags)
    assert openstack.nova.servers[theirs].metadata["owner"] == "alice"


def test_a_server_that_boots_takes_no_tags_yet(openstack: OpenStackServer) -> None:
    ours = cloud(openstack)
    openstack.nova.boot_s = 60
    theirs = by_hand(openstack)
    with pytest.raises(errors.BadRequest, match="vm_state building") as caught:
        ours.adopt(theirs, Tags("blue"))
    assert caught.value.definite
    openstack.nova.servers[theirs].ready_at = 0.0
    ours.adopt(theirs, Tags("blue"))
