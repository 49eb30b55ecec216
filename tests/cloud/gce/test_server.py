"""The GCE server of these tests: held to Google's discovery document, and to Google's own SDK."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import requests
from google.api_core.exceptions import NotFound
from google.auth.transport.requests import Request
from google.oauth2 import credentials, service_account

from nodemanager.core.model.world import CloudState, LeftoverKind, Outcome, Tags
from tests.cases import cases
from tests.cloud.gce import auth as gce_auth
from tests.cloud.gce.helpers import POOL, ZONE, add_disk, cloud, order
from tests.cloud.gce.project import NAME as PROJECT
from tests.cloud.gce.server import GceServer
from tests.cloud.orders import finished

if TYPE_CHECKING:
    # Its import takes seconds: not where tests are only collected.
    from google.cloud import compute_v1

pytestmark = pytest.mark.socket

INSTANCES = f"/compute/v1/projects/{PROJECT}/zones/{ZONE}/instances"


@pytest.fixture
def token(gce: GceServer) -> str:
    """By Google's own auth library."""
    info = {**json.loads(gce_auth.key_file()), "token_uri": f"{gce.url}/token"}
    scopes = ["https://www.googleapis.com/auth/compute"]
    account = service_account.Credentials.from_service_account_info(info, scopes=scopes)
    account.refresh(Request())
    return str(account.token)


@pytest.fixture
def instances(gce: GceServer, token: str) -> compute_v1.InstancesClient:
    from google.cloud import compute_v1
    from google.cloud.compute_v1.services.instances.transports import InstancesRestTransport

    return compute_v1.InstancesClient(
        transport=InstancesRestTransport(
            host=f"127.0.0.1:{gce.port}",
            url_scheme="http",
            credentials=credentials.Credentials(token),
        )
    )


def new_instance(name: str, **fields: Any) -> compute_v1.Instance:
    from google.cloud import compute_v1

    disk = compute_v1.AttachedDisk(
        boot=True,
        auto_delete=True,
        initialize_params=compute_v1.AttachedDiskInitializeParams(
            source_image="projects/debian-cloud/global/images/family/debian-12"
        ),
    )
    return compute_v1.Instance(
        name=name,
        machine_type=f"zones/{ZONE}/machineTypes/e2-micro",
        disks=[disk],
        network_interfaces=[compute_v1.NetworkInterface(network="global/networks/default")],
        **fields,
    )


def listed(client: compute_v1.InstancesClient, **how: Any) -> dict[str, compute_v1.Instance]:
    from google.cloud import compute_v1

    request = compute_v1.AggregatedListInstancesRequest(project=PROJECT, **how)
    pages = client.aggregated_list(request=request)
    return {str(one.id): one for _, scope in pages for one in scope.instances}


@pytest.mark.proof
def test_googles_own_sdk_sees_lists_and_ends_what_our_adapter_made(
    gce: GceServer, instances: compute_v1.InstancesClient
) -> None:
    ours = cloud(gce)
    asked = order("compute7")
    made = ours.create(asked)

    seen = listed(instances, filter=f"labels.nodemanager-pool={POOL}")[made.id]
    assert seen.labels["nodemanager-record"] == asked.tags.record
    assert seen.name == f"compute7-{(asked.tags.incarnation or '')[:8]}"
    assert seen.status == "RUNNING"
    assert seen.machine_type.endswith("/n1-standard-1")

    instances.delete_unary(project=PROJECT, zone=ZONE, instance=seen.name)
    gce.project.settle()
    assert ours.list_nodes().items == ()
    assert ours.ask(made.id) is None


@pytest.mark.proof
def test_our_adapter_sees_and_ends_what_googles_own_sdk_made(
    gce: GceServer, instances: compute_v1.InstancesClient
) -> None:
    from google.cloud import compute_v1

    ours = cloud(gce, listing={"tags": "compute"})
    tags = compute_v1.Tags(items=["compute", "other"])
    labels = {"nodemanager-pool": POOL, "nodemanager-record": "zzzzz-7ekkf-000000000000001"}
    with_label = instances.insert_unary(
        project=PROJECT, zone=ZONE, instance_resource=new_instance("labelled", labels=labels)
    )
    with_tag = instances.insert_unary(
        project=PROJECT, zone=ZONE, instance_resource=new_instance("tagged", tags=tags)
    )
    instances.insert_unary(project=PROJECT, zone=ZONE, instance_resource=new_instance("a-stranger"))

    listing = ours.list_nodes()
    assert {node.name: node.id for node in listing.items} == {
        "labelled": str(with_label.target_id),
        "tagged": str(with_tag.target_id),
    }
    assert all(node.managed and node.state is CloudState.RUNNING for node in listing.items)
    (found,) = ours.find_by_record("zzzzz-7ekkf-000000000000001")
    assert (found.id, found.tags) == (
        str(with_label.target_id),
        Tags(POOL, "zzzzz-7ekkf-000000000000001"),
    )

    assert ours.destroy(found.id) is Outcome.ACCEPTED
    gce.project.settle()
    with pytest.raises(NotFound):
        instances.get(project=PROJECT, zone=ZONE, instance="labelled")


@pytest.mark.proof
def test_the_sdk_and_the_adapter_see_the_same_disks(gce: GceServer, token: str) -> None:
    from google.cloud import compute_v1
    from google.cloud.compute_v1.services.disks.transports import DisksRestTransport

    disks = compute_v1.DisksClient(
        transport=DisksRestTransport(
            host=f"127.0.0.1:{gce.port}",
            url_scheme="http",
            credentials=credentials.Credentials(token),
        )
    )
    ours = cloud(gce)
    made = ours.create(order())
    left = add_disk(gce, made)
    (pinned,) = ours.pins(made.id)
    assert pinned.key == (LeftoverKind.VOLUME, left)
    name = left.rpartition("/")[2]
    shown = disks.get(project=PROJECT, zone=ZONE, disk=name)
    assert list(shown.users) == [gce.project.instance(ZONE, made.id)["selfLink"]]
    ours.destroy(made.id)
    assert ours.release(pinned) in (Outcome.ACCEPTED, Outcome.GONE)
    gce.project.settle()
    with pytest.raises(NotFound):
        disks.get(project=PROJECT, zone=ZONE, disk=name)


@pytest.mark.proof
def test_the_sdk_follows_the_pages_of_the_server(
    gce: GceServer, instances: compute_v1.InstancesClient
) -> None:
    from google.cloud import compute_v1

    for number in range(5):
        instances.insert_unary(
            project=PROJECT, zone=ZONE, instance_resource=new_instance(f"node-{number}")
        )
    pager = instances.list(
        request=compute_v1.ListInstancesRequest(project=PROJECT, zone=ZONE, max_results=2)
    )
    assert [len(page.items) for page in pager.pages] == [2, 2, 1]
    assert len(listed(instances, max_results=2)) == 5


@pytest.mark.proof
def test_the_sdk_waits_for_an_operation_that_finishes_later(
    gce: GceServer, instances: compute_v1.InstancesClient
) -> None:
    from google.cloud import compute_v1

    gce.project.takes = 0.3
    operation = instances.insert_unary(
        project=PROJECT, zone=ZONE, instance_resource=new_instance("slow")
    )
    assert operation.status is compute_v1.Operation.Status.PENDING
    shown = instances.get(project=PROJECT, zone=ZONE, instance="slow")
    assert shown.status == "PROVISIONING"
    asked = requests.post(
        f"{gce.url}/compute/v1/projects/{PROJECT}/zones/{ZONE}/operations/{operation.name}/wait",
        headers={"Authorization": f"Bearer {next(iter(gce.tokens.valid))}"},
        timeout=30,
    )
    assert asked.json()["status"] == "DONE"
    assert instances.get(project=PROJECT, zone=ZONE, instance="slow").status == "RUNNING"


@cases(
    ("verb", "path", "body", "said"),
    {
        "path": ("GET", "/compute/v1/projects/p/nodes", None, "no such method"),
        "verb": ("PUT", INSTANCES, {}, "no such method"),
        "query": ("GET", f"{INSTANCES}?state=up", None, "unknown parameter state"),
        "typed-query": ("GET", f"{INSTANCES}?maxResults=x", None, "no whole number"),
        "range": ("GET", f"{INSTANCES}?maxResults=-1", None, "out of range"),
        "pattern": ("GET", f"{INSTANCES}/Upper", None, "does not match"),
        "no-body": ("GET", INSTANCES, {}, "a body where none is taken"),
        "field": ("POST", INSTANCES, {"name": "a", "tag": 1}, "body.tag is unknown"),
        "array": ("POST", INSTANCES, {"name": "a", "tags": {"items": "x"}}, "is no array"),
        "type": ("POST", INSTANCES, {"name": 7}, "body.name is no string"),
        "name": ("POST", INSTANCES, {"name": "A.b"}, "does not match"),
        "output": ("POST", INSTANCES, {"name": "a", "status": "RUNNING"}, "for output only"),
        "map": ("POST", INSTANCES, {"name": "a", "labels": {"a": 1}}, "labels.a is no string"),
        "enum": (
            "POST",
            INSTANCES,
            {"name": "a", "scheduling": {"provisioningModel": "CHEAP"}},
            "is not one of",
        ),
        "required": ("POST", INSTANCES, {"labels": {}}, "body.name is missing"),
    },
)
def test_a_request_that_google_does_not_describe_is_noticed(
    gce: GceServer, token: str, verb: str, path: str, body: Any, said: str
) -> None:
    answer = requests.request(
        verb,
        gce.url + path,
        headers={"Authorization": f"Bearer {token}"},
        data=None if body is None else json.dumps(body),
        timeout=30,
    )
    assert answer.status_code == 400
    assert any(said in line for line in gce.wrong), gce.wrong
    gce.wrong.clear()
    assert gce.project.instances == {}


@pytest.mark.parametrize(
    ("field", "value"), [("ranking", "first"), ("id", 7), ("status", "BOOTED")]
)
def test_an_answer_that_google_does_not_describe_is_noticed(
    gce: GceServer, field: str, value: object
) -> None:
    ours = cloud(gce)
    made = finished(ours, order())
    gce.project.instance(ZONE, made.id)[field] = value
    ours.account()
    with pytest.raises(Exception, match="HTTP 500"):
        ours.list_nodes()
    assert any("our own answer" in line and field in line for line in gce.wrong), gce.wrong
    gce.wrong.clear()


@pytest.mark.parametrize(
    "wanted", ["labels.a=b OR labels.b=c", "nodes.name=x", "name", "(name=a", "name eq a id=7"]
)
def test_a_filter_that_is_not_served_is_refused_rather_than_guessed(
    gce: GceServer, token: str, wanted: str
) -> None:
    answer = requests.get(
        gce.url + INSTANCES,
        params={"filter": wanted},
        headers={"Authorization": f"Bearer {token}"},
        timeout=30,
    )
    assert answer.status_code == 400
    assert answer.json()["error"]["errors"][0]["reason"] == "invalid"


def test_without_a_token_nothing_is_told(gce: GceServer) -> None:
    answer = requests.get(gce.url + INSTANCES, timeout=30)
    assert answer.status_code == 401
    assert answer.json()["error"]["errors"][0]["reason"] == "authError"
