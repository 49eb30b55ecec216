"""Creates, destroys and adoptions on Google's compute API."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodemanager import errors
from nodemanager.cloud.gce.options import Template
from nodemanager.cloud.gce.order import insert_body
from nodemanager.cloud.tags import label_value
from nodemanager.core.model.world import CloudState, Outcome, Tags
from tests.cases import cases
from tests.cloud.faults import lost
from tests.cloud.gce.helpers import SMALL, ZONE, by_hand, cloud, instance, order
from tests.cloud.gce.server import GceServer, changed, plain, refusal
from tests.cloud.orders import finished

pytestmark = pytest.mark.socket

INSERT = "instances.insert"
OPERATION = "zoneOperations.get"


def inserted(gce: GceServer) -> dict[str, Any]:
    """The body of the one insert."""
    (call,) = gce.called(INSERT)
    return dict(call.body)


def test_the_insert_call_itself_carries_labels_disk_labels_and_the_request_id(
    gce: GceServer,
) -> None:
    asked = order("compute3", size=replace(SMALL, name="Small.Spot_1"))
    made = cloud(gce).create(asked)
    body = inserted(gce)
    tags = asked.tags
    assert body["labels"] == {
        "nodemanager-pool": "blue",
        "nodemanager-record": tags.record,
        "nodemanager-incarnation": tags.incarnation,
        "nodemanager-size": "_53mall_2e_53pot_5f1",
        "nodemanager-name": "compute3",
    }
    (disk,) = body["disks"]
    assert disk["initializeParams"]["labels"] == body["labels"]
    assert (disk["boot"], disk["autoDelete"]) == (True, True)
    assert gce.called(INSERT)[0].query["requestId"]
    assert (made.name, made.tags, made.size) == ("compute3", tags, "n1-standard-1")
    rest = [call.action for call in gce.calls if not call.action.startswith("images.")]
    assert rest == [INSERT]


@pytest.mark.parametrize(
    ("user_data", "key"),
    [
        ("https://example.org/ping?ping_secret=hush", "arv-ping-url"),
        ("#!/bin/sh\necho hello\n", "startup-script"),
        ("#cloud-config\nhostname: x\n", "user-data"),
        ("Content-Type: multipart/mixed", "user-data"),
    ],
)
def test_the_user_data_is_put_where_the_node_finds_it(
    gce: GceServer, user_data: str, key: str
) -> None:
    cloud(gce).create(order(user_data=user_data))
    assert inserted(gce)["metadata"]["items"] == [{"key": key, "value": user_data}]


def test_the_settings_of_cloud_create_reach_the_instance(gce: GceServer, tmp_path: Path) -> None:
    key = tmp_path / "id.pub"
    key.write_text("ssh-ed25519 AAAA me\n")
    create = {
        "network": "cluster",
        "subnet": "nodes",
        "tags": "open, own",
        "ssh_key": str(key),
        "service_accounts": "[{'email':'a@example.org', 'scopes':['storage-ro', 'https://x/y']}]",
        "assign_public_ip": "no",
        "boot_disk_type": "pd-ssd",
        "boot_disk_gb": "30",
    }
    cloud(gce, create=create, listing={"tags": "compute"}).create(order())
    body = inserted(gce)
    assert body["networkInterfaces"] == [
        {
            "network": "global/networks/cluster",
            "subnetwork": "regions/us-central1/subnetworks/nodes",
        }
    ]
    assert body["tags"]["items"] == ["compute", "open", "own"]
    assert {"key": "ssh-keys", "value": "root:ssh-ed25519 AAAA me"} in body["metadata"]["items"]
    assert body["serviceAccounts"] == [
        {
            "email": "a@example.org",
            "scopes": [
                "https://www.googleapis.com/auth/devstorage.read_only",
                "https://x/y",
            ],
        }
    ]
    made = body["disks"][0]["initializeParams"]
    assert (made["diskType"], made["diskSizeGb"]) == (f"zones/{ZONE}/diskTypes/pd-ssd", "30")


def test_a_preemptible_node_stays_as_a_stopped_one_when_it_is_taken_away(gce: GceServer) -> None:
    ours = cloud(gce)
    made = ours.create(order(size=replace(SMALL, preemptible=True)))
    assert inserted(gce)["scheduling"] == {
        "provisioningModel": "SPOT",
        "instanceTerminationAction": "STOP",
        "automaticRestart": False,
        "onHostMaintenance": "TERMINATE",
    }
    gce.project.stop(ZONE, made.id)
    gce.project.settle()
    node = ours.ask(made.id)
    assert node is not None
    assert node.state is CloudState.STOPPED


@cases(
    ("kind", "scratch_mb", "disks"),
    {
        "none": ("local-ssd", 0, []),
        "one-local": ("local-ssd", 100_000, ["SCRATCH"]),
        "two-local": ("local-ssd", 375_001, ["SCRATCH"] * 2),
        "nine-local-are-sixteen": ("local-ssd", 9 * 375_000, ["SCRATCH"] * 16),
        "persistent": ("pd-ssd", 100_001, ["101"]),
        "least-persistent": ("pd-ssd", 5, ["10"]),
    },
)
def test_scratch_space_is_whole_local_ssds_or_one_disk(
    gce: GceServer, kind: str, scratch_mb: int, disks: list[str]
) -> None:
    ours = cloud(gce, create={"scratch_disk_type": kind})
    made = ours.create(order(size=replace(SMALL, scratch_mb=scratch_mb)))
    extra = inserted(gce)["disks"][1:]
    assert [one.get("type") or one["initializeParams"]["diskSizeGb"] for one in extra] == disks
    assert all(one["autoDelete"] for one in extra)
    ours.destroy(made.id)
    gce.project.settle()
    assert gce.project.disks == {}


def test_more_scratch_than_local_ssds_have_is_refused_before_anything_is_sent(
    gce: GceServer,
) -> None:
    with pytest.raises(errors.BadRequest, match="scratch"):
        cloud(gce).create(order(size=replace(SMALL, scratch_mb=10_000_000)))
    assert gce.called(INSERT) == []


def test_a_size_whose_name_no_label_can_hold_is_refused(gce: GceServer) -> None:
    with pytest.raises(errors.BadRequest, match="longer than"):
        cloud(gce).create(order(size=replace(SMALL, name="S" * 40)))


@pytest.mark.parametrize(
    ("image", "found"),
    [
        ("debian-12", "projects/debian-cloud/global/images/family/debian-12"),
        (
            "debian-12-bookworm-v20260901",
            "projects/debian-cloud/global/images/debian-12-bookworm-v20260901",
        ),
        ("our-node", "projects/some-project/global/images/family/our-node"),
        ("our-node-7", "projects/some-project/global/images/our-node-7"),
        (
            "https://www.googleapis.com/compute/v1/projects/debian-cloud/global/images/family/debian-12",
            "projects/debian-cloud/global/images/family/debian-12",
        ),
    ],
)
def test_an_image_is_a_name_a_family_or_a_path(gce: GceServer, image: str, found: str) -> None:
    ours = cloud(gce, create={"image": image})
    ours.check_image()
    asked = len(gce.calls)
    ours.check_image()
    ours.create(order())
    assert inserted(gce)["disks"][0]["initializeParams"]["sourceImage"] == found
    assert gce.calls[asked].action == INSERT


def test_an_image_that_is_nowhere_is_told_before_anything_is_created(gce: GceServer) -> None:
    ours = cloud(gce, create={"image": "debian-7"})
    for attempt in (ours.check_image, lambda: ours.create(order())):
        with pytest.raises(errors.BadRequest, match="image = debian-7"):
            attempt()
    assert gce.called(INSERT) == []


# What becomes of the operation.


def test_an_insert_without_a_target_is_unclear_where_its_operation_cant_be_asked_for_u6(
    gce: GceServer,
) -> None:
    gce.fault(INSERT, after=changed(lambda told: told.pop("targetId")))
    gce.fault(OPERATION, before=refusal("forbidden", 403))
    ours, asked = cloud(gce), order()
    with pytest.raises(errors.CloudError, match="without an id") as caught:
        ours.create(asked)
    assert not caught.value.definite
    assert ours.create(asked).id in {node.id for node in ours.list_nodes().items}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("ZONE_RESOURCE_POOL_EXHAUSTED", errors.CapacityUnavailable),
        ("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", errors.CapacityUnavailable),
        ("QUOTA_EXCEEDED", errors.QuotaExceeded),
        ("IP_SPACE_EXHAUSTED", errors.QuotaExceeded),
        ("RESOURCE_OPERATION_RATE_EXCEEDED", errors.Throttled),
        ("PERMISSIONS_ERROR", errors.Unauthorized),
        ("INTERNAL_ERROR", errors.CloudError),
        ("SOMETHING_NEW", errors.CloudError),
    ],
)
def test_an_operation_that_fails_says_why(
    gce: GceServer, code: str, expected: type[errors.CloudError]
) -> None:
    gce.project.takes = 0.05
    gce.project.next_fails.append((code, "The zone does not have enough resources available."))
    ours = cloud(gce)
    with pytest.raises(errors.CloudError, match=code) as caught:
        finished(ours, order())
    assert type(caught.value) is expected
    assert caught.value.definite is (expected is not errors.CloudError)
    assert "enough resources" in str(caught.value)
    assert gce.project.instances == {}
    assert gce.project.disks == {}
    finished(ours, order())


REASONS = (
    ("quotaExceeded", 403, errors.QuotaExceeded),
    ("rateLimitExceeded", 403, errors.Throttled),
    ("userRateLimitExceeded", 403, errors.Throttled),
    ("rateLimitExceeded", 429, errors.Throttled),
    ("resourcePoolExhausted", 503, errors.CapacityUnavailable),
    ("forbidden", 403, errors.Unauthorized),
    ("somethingNew", 403, errors.Unauthorized),
    ("authError", 401, errors.Unauthorized),
    ("invalid", 400, errors.BadRequest),
    ("notFound", 404, errors.BadRequest),
    ("somethingNew", 429, errors.Throttled),
    ("somethingNew", 409, errors.CloudError),
    ("backendError", 503, errors.CloudError),
    ("backendError", 400, errors.CloudError),
    ("internalError", 500, errors.CloudError),
    ("somethingNew", 500, errors.CloudError),
)


def test_googles_reason_decides_what_a_refused_create_means(gce: GceServer) -> None:
    ours = cloud(gce)
    for reason, status, expected in REASONS:
        gce.fault(INSERT, before=refusal(reason, status, "no, hush", retry_after="9"))
        before = len(gce.called(INSERT))
        with pytest.raises(errors.CloudError, match=f"{reason}: no") as caught:
            ours.create(order())
        assert type(caught.value) is expected, (reason, status)
        assert caught.value.definite is (expected is not errors.CloudError)
        assert caught.value.retry_after == 9.0
        assert len(gce.called(INSERT)) == before + 1


def test_a_create_whose_answer_was_lost_is_repeated_and_makes_one_node_u9(gce: GceServer) -> None:
    ours, asked = cloud(gce), order()
    gce.fault(INSERT, after=lost)
    with pytest.raises(errors.CloudError) as caught:
        ours.create(asked)
    assert not caught.value.definite
    made = ours.create(asked)
    assert [node.id for node in ours.list_nodes().items] == [made.id]
    first, second = gce.called(INSERT)
    assert first.query["requestId"] == second.query["requestId"]
    assert first.body == second.body


def test_a_name_that_another_node_has_makes_no_node_of_ours(gce: GceServer) -> None:
    asked = order("compute1", incarnation="ab" * 16)
    by_hand(gce, name="compute1-abababab")
    with pytest.raises(errors.BadRequest, match="alreadyExists") as caught:
        cloud(gce).create(asked)
    assert caught.value.definite


# Destroys and adoptions.


def test_a_node_of_another_zone_is_destroyed_where_it_is(gce: GceServer) -> None:
    far = by_hand(gce, "europe-west4-a", labels={"nodemanager-pool": "blue"})
    assert cloud(gce).destroy(far) is Outcome.ACCEPTED
    (call,) = gce.called("instances.delete")
    assert (call.path["zone"], call.path["instance"]) == ("europe-west4-a", far)


def test_one_that_stops_already_is_accepted_whatever_google_says_of_it(gce: GceServer) -> None:
    """CL11: Google refuses the delete of what is not ready for one, and deletes it all the same."""
    ours = cloud(gce)
    made = ours.create(order())
    gce.project.put(made.id, "STOPPING")
    gce.fault("instances.delete", before=refusal("resourceNotReady", 400))
    assert ours.destroy(made.id) is Outcome.ACCEPTED


def test_an_adopted_node_keeps_its_labels(gce: GceServer) -> None:
    ours = cloud(gce)
    theirs = by_hand(gce)
    ours.adopt(theirs, Tags("blue", "zzzzz-7ekkf-000000000000001", "f" * 32))
    labels = instance(gce, theirs)["labels"]
    assert labels["owner"] == "alice"
    assert labels["nodemanager-pool"] == label_value("blue")
    ours.adopt(theirs, Tags("blue", "zzzzz-7ekkf-000000000000001", "f" * 32))
    assert len(gce.called("instances.setLabels")) == 1


def test_labels_that_changed_meanwhile_are_not_overwritten(gce: GceServer) -> None:
    ours = cloud(gce)
    theirs = by_hand(gce)
    stale = changed(lambda told: told.update(labelFingerprint="b2xk"))
    ours.list_nodes()
    ours.ask(theirs)
    gce.fault("instances.get", after=stale)
    with pytest.raises(errors.BadRequest, match="conditionNotMet"):
        ours.adopt(theirs, Tags("blue"))
    assert instance(gce, theirs)["labels"] == {"owner": "alice"}


def test_an_adoption_that_is_not_done_in_time_may_still_be(gce: GceServer) -> None:
    ours = cloud(gce, timeout=0.5)
    theirs = by_hand(gce)
    ours.account()
    gce.project.takes = 1000.0
    with pytest.raises(errors.CloudError, match="not set yet") as caught:
        ours.adopt(theirs, Tags("blue"))
    assert not caught.value.definite


@pytest.mark.parametrize("how", [{"after": lost}, {"before": plain(502, "")}], ids=["cut", "proxy"])
def test_an_adoption_whose_end_is_not_heard_of_is_known_by_its_labels(
    gce: GceServer, how: dict[str, Any]
) -> None:
    ours = cloud(gce)
    theirs = by_hand(gce)
    gce.fault("instances.setLabels", after=changed(lambda told: told.update(status="PENDING")))
    gce.fault("zoneOperations.wait", **how)
    ours.adopt(theirs, Tags("blue"))
    assert instance(gce, theirs)["labels"]["nodemanager-pool"] == "blue"


def test_a_node_on_hold_is_held(gce: GceServer) -> None:
    ours = cloud(gce)
    for value, held in (("yes", True), ("until-friday", True), ("no", False), ("", False)):
        labels = {"nodemanager-pool": "blue", "nodemanager-hold": value}
        node = ours.ask(by_hand(gce, labels=labels))
        assert node is not None
        assert node.held is held


@cases(
    ("create", "expected"),
    {
        "shielded": (
            {"secure_boot": "true", "vtpm": "true", "integrity_monitoring": "false"},
            {
                "shieldedInstanceConfig": {
                    "enableSecureBoot": True,
                    "enableVtpm": True,
                    "enableIntegrityMonitoring": False,
                }
            },
        ),
        "confidential": (
            {"confidential_type": "SEV"},
            {"confidentialInstanceConfig": {"confidentialInstanceType": "SEV"}},
        ),
        "platform": ({"min_cpu_platform": "Intel Ice Lake"}, {"minCpuPlatform": "Intel Ice Lake"}),
        "accelerators": (
            {"accelerators": "nvidia-tesla-t4:2"},
            {
                "guestAccelerators": [
                    {
                        "acceleratorType": f"zones/{ZONE}/acceleratorTypes/nvidia-tesla-t4",
                        "acceleratorCount": 2,
                    }
                ],
                "scheduling": {"onHostMaintenance": "TERMINATE"},
            },
        ),
        "reservation": (
            {"reservation": "ours"},
            {
                "reservationAffinity": {
                    "consumeReservationType": "SPECIFIC_RESERVATION",
                    "key": "compute.googleapis.com/reservation-name",
                    "values": ["ours"],
                }
            },
        ),
        "no-reservation": (
            {"reservation": "none"},
            {"reservationAffinity": {"consumeReservationType": "NO_RESERVATION"}},
        ),
        "placement": (
            {"placement_policy": "compact"},
            {"resourcePolicies": ["regions/us-central1/resourcePolicies/compact"]},
        ),
    },
)
def test_an_option_goes_into_the_body_as_google_describes_it(
    gce: GceServer, create: dict[str, str], expected: dict[str, Any]
) -> None:
    """The server holds each body against Google's own description of its API (`gce.wrong`)."""
    cloud(gce, create=create).create(order())
    body = inserted(gce)
    assert {key: body[key] for key in expected} == expected


def test_interface_labels_and_scratch_disk_are_as_the_file_says(gce: GceServer) -> None:
    create = {
        "nic_type": "GVNIC",
        "label:owner": "ops",
        "scratch_disk_type": "hyperdisk-balanced",
        "instance_template": "compute",
    }
    size = replace(SMALL, scratch_mb=100_000)
    cloud(gce, create=create).create(order(size=size))
    body = inserted(gce)
    assert body["networkInterfaces"][0]["nicType"] == "GVNIC"
    assert body["labels"]["owner"] == "ops"
    assert [disk["initializeParams"]["labels"]["owner"] for disk in body["disks"]] == ["ops", "ops"]
    made = body["disks"][1]["initializeParams"]
    assert made["diskType"] == f"zones/{ZONE}/diskTypes/hyperdisk-balanced"
    assert gce.called(INSERT)[0].query["sourceInstanceTemplate"] == (
        "global/instanceTemplates/compute"
    )


@pytest.mark.parametrize("machine", ["a2-highgpu-1g", "g2-standard-4", "h3-standard-88"])
def test_a_type_that_google_can_not_move_ends_when_its_host_is_serviced(machine: str) -> None:
    """CL8: Google refuses one whose order does not say so."""
    asked = order(size=replace(SMALL, instance_type=machine))
    body = insert_body(asked, Template("x"), ZONE, "projects/p/global/images/x", str)
    assert body["scheduling"] == {"onHostMaintenance": "TERMINATE"}
    plain = insert_body(order(), Template("x"), ZONE, "projects/p/global/images/x", str)
    assert "scheduling" not in plain
