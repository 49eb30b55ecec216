"""The EC2 adapter against a real EC2 API server over HTTP."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from nodemanager.cloud.ec2_instance import HOLD_TAG, INCARNATION_TAG, POOL_TAG, RECORD_TAG
from nodemanager.core.model import CloudState, Outcome, Size
from nodemanager.errors import (
    CloudError,
    ConfigError,
    ForeignAnswer,
    IncompleteListing,
)
from tests.cloud.ec2_helpers import POOL, SMALL, cloud, order
from tests.cloud.moto_server import (
    MotoServer,
    Reply,
    lost,
    plain,
    refusal,
    replaced,
    shared,
    truncated,
)

NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"


@pytest.fixture
def server() -> Iterator[MotoServer]:
    moto = shared()
    moto.reset()
    yield moto
    moto.reset()


# Listings (L2, T5).


def test_an_empty_reservation_set_is_a_true_empty(server: MotoServer) -> None:
    listed = cloud(server).list_nodes()
    assert listed.items == ()
    assert listed.complete


def test_every_page_is_followed(server: MotoServer) -> None:
    ec2 = cloud(server, page_size=2)
    made = {ec2.create(order(f"compute-{number}")).id for number in range(7)}
    assert {node.id for node in ec2.list_nodes().items} == made
    asked = [call.params for call in server.called("DescribeInstances")]
    assert [params["MaxResults"] for params in asked] == ["2"] * 4
    assert ["NextToken" in params for params in asked] == [False, True, True, True]


def test_a_server_that_gives_smaller_pages_than_asked_for_is_followed(server: MotoServer) -> None:
    ec2 = cloud(server)
    server.page_limit = 1
    made = {ec2.create(order(f"compute-{number}")).id for number in range(3)}
    assert {node.id for node in ec2.list_nodes().items} == made
    assert server.called("DescribeInstances")[0].params["MaxResults"] == "1000"


def test_pages_that_repeat_are_no_listing(server: MotoServer) -> None:
    ec2 = cloud(server, page_size=1)
    for number in range(3):
        ec2.create(order(f"compute-{number}"))
    first: list[bytes] = []

    def again(reply: Reply) -> Reply:
        first.append(reply.body)
        return Reply(reply.status, reply.headers, first[0])

    server.fault("DescribeInstances", times=9, after=again)
    with pytest.raises(IncompleteListing):
        ec2.list_nodes()
    assert len(first) == 2


@pytest.mark.parametrize(
    ("spoiled", "error"),
    [
        pytest.param({"after": truncated}, IncompleteListing, id="half-an-answer"),
        pytest.param({"after": lost}, CloudError, id="no-answer"),
        pytest.param(
            {"after": replaced(NAMESPACE, "http://ec2.amazonaws.com/doc/2016-11-15")},
            ForeignAnswer,
            id="another-namespace",
        ),
        pytest.param(
            {"after": replaced("DescribeInstancesResponse", "ListAllMyBucketsResult")},
            ForeignAnswer,
            id="another-service",
        ),
        pytest.param(
            {"after": replaced("reservationSet", "somethingElse")},
            ForeignAnswer,
            id="no-reservation-set",
        ),
        pytest.param(
            {"after": replaced("instancesSet", "somethingElse")},
            ForeignAnswer,
            id="a-reservation-without-instances",
        ),
        pytest.param({"before": plain(200, "")}, IncompleteListing, id="an-empty-body"),
        pytest.param({"before": plain(200, "<html/>")}, ForeignAnswer, id="a-web-page"),
        pytest.param({"before": plain(404, "<html/>")}, ForeignAnswer, id="a-proxy-s-404"),
        pytest.param({"before": plain(502, "bad gateway")}, CloudError, id="a-bad-gateway"),
    ],
)
def test_what_is_not_wholly_ec2_s_answer_is_no_listing(
    server: MotoServer, spoiled: dict[str, Any], error: type[CloudError]
) -> None:
    ec2 = cloud(server)
    ec2.create(order())
    server.fault("DescribeInstances", **spoiled)
    with pytest.raises(error) as caught:
        ec2.list_nodes()
    assert type(caught.value) is error
    assert not caught.value.definite
    assert len(ec2.list_nodes().items) == 1


def test_a_page_that_fails_fails_the_listing(server: MotoServer) -> None:
    ec2 = cloud(server, page_size=1)
    for number in range(3):
        ec2.create(order(f"compute-{number}"))
    pages: list[Reply] = []

    def second_is_cut(reply: Reply) -> Reply:
        pages.append(reply)
        return truncated(reply) if len(pages) == 2 else reply

    server.fault("DescribeInstances", times=3, after=second_is_cut)
    with pytest.raises(IncompleteListing):
        ec2.list_nodes()


def test_cloud_list_does_not_narrow_what_is_seen(server: MotoServer) -> None:
    ec2 = cloud(
        server,
        listing={"tag:team": "physics", "instance-state-name": "running"},
        create={"image_id": "ami-1"},
    )
    ours = cloud(server).create(order())
    theirs = cloud(server, create={"image_id": "ami-1", "tag:team": "physics"}).create(
        order("other", pool="red")
    )
    gone = cloud(server, create={"image_id": "ami-1", "tag:team": "physics"}).create(
        order("gone", pool="red")
    )
    cloud(server).create(order("unrelated", pool="red"))
    ec2.destroy(gone.id)
    seen = {node.id: node for node in ec2.list_nodes().items}
    assert set(seen) == {ours.id, theirs.id, gone.id}
    assert all(node.managed for node in seen.values())
    assert seen[theirs.id].tags.pool == "red"
    assert seen[gone.id].state is CloudState.TERMINATED
    filters = [
        value
        for call in server.called("DescribeInstances")
        for name, value in call.params.items()
        if name.endswith(".Name")
    ]
    assert filters == [f"tag:{POOL_TAG}", "tag:team"]


def test_a_node_in_both_questions_is_one_node(server: MotoServer) -> None:
    ec2 = cloud(server, listing={"tag:team": "physics"})
    made = ec2.create(order())
    assert [node.id for node in ec2.list_nodes().items] == [made.id]


def test_a_pool_named_with_wildcards_lists_its_own_nodes_alone(server: MotoServer) -> None:
    cloud(server).create(order(pool="bluegreen"))
    mine = cloud(server, pool="blue*").create(order(pool="blue*"))
    assert [node.id for node in cloud(server, pool="blue*").list_nodes().items] == [mine.id]


@pytest.mark.parametrize(
    ("raw", "state"),
    [
        pytest.param("pending", CloudState.PENDING, id="pending"),
        pytest.param("running", CloudState.RUNNING, id="running"),
        pytest.param("shutting-down", CloudState.STOPPING, id="shutting-down"),
        pytest.param("terminated", CloudState.TERMINATED, id="terminated"),
        pytest.param("stopping", CloudState.STOPPING, id="stopping"),
        pytest.param("stopped", CloudState.STOPPED, id="stopped"),
        pytest.param("hibernating", CloudState.UNKNOWN, id="a-word-of-tomorrow"),
    ],
)
def test_raw_states_are_mapped(server: MotoServer, raw: str, state: CloudState) -> None:
    ec2 = cloud(server)
    ec2.create(order())
    server.fault("DescribeInstances", after=replaced("<name>running</name>", f"<name>{raw}</name>"))
    (node,) = ec2.list_nodes().items
    assert (node.state, node.raw_state) == (state, raw)
    assert node.is_absent is (raw == "terminated")


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        pytest.param("launchTime", "noLaunchTime", "launch time", id="no-launch-time"),
        pytest.param("<launchTime>2", "<launchTime>x2", "launch time", id="a-strange-launch-time"),
        pytest.param("instanceState>", "noState>", "state", id="no-state"),
        pytest.param("<key>", "<notKey>", "tags", id="a-tag-without-a-key"),
    ],
)
def test_an_instance_that_is_malformed_is_kept_with_its_problems(
    server: MotoServer, old: str, new: str, problem: str
) -> None:
    ec2 = cloud(server)
    made = ec2.create(order())
    closing = old.replace("<", "</"), new.replace("<", "</")

    def spoil(reply: Reply) -> Reply:
        reply = replaced(old, new)(reply)
        return replaced(*closing)(reply) if old == "<key>" else reply

    server.fault("DescribeInstances", after=spoil)
    listed = ec2.list_nodes()
    (node,) = listed.items
    assert node.id == made.id
    assert listed.complete
    assert any(line.startswith(problem) for line in node.problems)
    assert not node.is_absent


def test_an_instance_without_an_id_makes_the_listing_incomplete(server: MotoServer) -> None:
    ec2 = cloud(server)
    ec2.create(order("compute-1"))
    ec2.create(order("compute-2"))
    made: list[str] = []

    def first_id_goes(reply: Reply) -> Reply:
        made.append("seen")
        body = reply.body.replace(b"<instanceId>", b"<instanceId/><no>", 1)
        body = body.replace(b"</instanceId>", b"</no>", 1)
        return Reply(reply.status, reply.headers, body)

    server.fault("DescribeInstances", after=first_id_goes)
    listed = ec2.list_nodes()
    assert made
    assert not listed.complete
    assert len(listed.items) == 1


# Questions by id and by tag (C11).


def test_an_id_is_asked_for_with_no_filter(server: MotoServer) -> None:
    other = cloud(server).create(order(pool="red"))
    ec2 = cloud(server, listing={"tag:team": "physics"})
    found = ec2.ask(other.id)
    assert found is not None
    assert found.tags.pool == "red"
    (call,) = server.called("DescribeInstances")
    assert [name for name in call.params if name not in ("Action", "Version")] == ["InstanceId.1"]


def test_no_such_instance_is_none(server: MotoServer) -> None:
    assert cloud(server).ask("i-0123456789abcdef0") is None


def test_an_empty_answer_to_a_question_by_id_is_no_denial(server: MotoServer) -> None:
    empty = (
        f'<DescribeInstancesResponse xmlns="{NAMESPACE}"><reservationSet/>'
        "</DescribeInstancesResponse>"
    )
    server.fault("DescribeInstances", before=plain(200, empty))
    with pytest.raises(ForeignAnswer):
        cloud(server).ask("i-0123456789abcdef0")


def test_terminated_is_seen_as_terminated(server: MotoServer) -> None:
    ec2 = cloud(server)
    made = ec2.create(order(record="zzzzz-7ekkf-000000000000001"))
    ec2.destroy(made.id)
    asked = ec2.ask(made.id)
    (by_tag,) = ec2.find_by_record("zzzzz-7ekkf-000000000000001")
    (listed,) = ec2.list_nodes().items
    assert asked is not None
    assert {asked.state, by_tag.state, listed.state} == {CloudState.TERMINATED}


def test_a_record_s_nodes_are_found_whatever_their_pool(server: MotoServer) -> None:
    wanted = cloud(server).create(order(pool="red", record="zzzzz-7ekkf-000000000000002"))
    cloud(server).create(order(pool="red", record="zzzzz-7ekkf-000000000000003"))
    ec2 = cloud(server, listing={"tag:team": "physics"}, page_size=1)
    found = ec2.find_by_record("zzzzz-7ekkf-000000000000002")
    assert [node.id for node in found] == [wanted.id]


def test_an_operator_s_hold_is_a_tag(server: MotoServer) -> None:
    held = cloud(server, create={"image_id": "ami-1", "tag:colour": "red"}).create(order())
    plain_node = cloud(server).create(order())
    server.fault("DescribeInstances", after=replaced("<key>colour</key>", f"<key>{HOLD_TAG}</key>"))
    seen = {node.id: node.held for node in cloud(server).list_nodes().items}
    assert seen == {held.id: True, plain_node.id: False}


# Creating (U5).


def _tags(params: dict[str, str], specification: int) -> dict[str, str]:
    root = f"TagSpecification.{specification}.Tag."
    return {
        value: params[name.replace(".Key", ".Value")]
        for name, value in params.items()
        if name.startswith(root) and name.endswith(".Key")
    }


def test_the_tags_are_in_the_create_call_itself(server: MotoServer) -> None:
    ec2 = cloud(
        server,
        listing={"tag:cluster": "zyxwv", "tag:owner": "a*"},
        create={"image_id": "ami-1", "tag:team": "physics"},
    )
    wanted = order("compute-ü")
    node = ec2.create(wanted)
    assert node.tags == wanted.tags
    assert node.name == "compute-ü"
    assert node.problems == ()
    (call,) = server.called("RunInstances")
    expected = {
        "Name": "compute-ü",
        POOL_TAG: POOL,
        RECORD_TAG: wanted.tags.record,
        INCARNATION_TAG: wanted.tags.incarnation,
        "cluster": "zyxwv",
        "team": "physics",
    }
    assert call.params["TagSpecification.1.ResourceType"] == "instance"
    assert call.params["TagSpecification.2.ResourceType"] == "volume"
    assert _tags(call.params, 1) == expected
    assert _tags(call.params, 2) == expected
    assert not server.called("CreateTags")


def test_the_client_token_and_the_user_data_travel_in_the_body(server: MotoServer) -> None:
    user_data = "#!/bin/sh\ncurl 'https://example.org/ping?ping_secret=hüsh&a=b'\n" + "x" * 12_000
    cloud(server).create(order(user_data=user_data, client_token="token-1"))
    (call,) = server.called("RunInstances")
    assert call.params["ClientToken"] == "token-1"
    assert base64.b64decode(call.params["UserData"]).decode() == user_data
    assert (call.method, call.query) == ("POST", "")


def test_a_create_whose_answer_is_lost_is_found_by_tag(server: MotoServer) -> None:
    ec2 = cloud(server)
    wanted = order(record="zzzzz-7ekkf-000000000000004")
    server.fault("RunInstances", after=lost)
    with pytest.raises(CloudError) as caught:
        ec2.create(wanted)
    assert not caught.value.definite
    assert "hush" not in str(caught.value)
    (found,) = ec2.find_by_record("zzzzz-7ekkf-000000000000004")
    assert found.tags == wanted.tags
    assert len(server.called("RunInstances")) == 1


def test_libcloud_s_own_retrying_does_not_repeat_a_create(
    server: MotoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIBCLOUD_RETRY_FAILED_HTTP_REQUESTS", "1")
    server.fault("RunInstances", times=5, before=plain(503, "busy"))
    with pytest.raises(CloudError):
        cloud(server).create(order())
    assert len(server.called("RunInstances")) == 1


def test_a_redirect_does_not_repeat_a_create(server: MotoServer) -> None:
    def moved() -> Reply:
        return Reply("307 Moved", [("Location", f"{server.url}/")], b"")

    server.fault("RunInstances", before=moved)
    with pytest.raises(CloudError) as caught:
        cloud(server).create(order())
    assert not caught.value.definite
    assert len(server.called("RunInstances")) == 1


@pytest.mark.parametrize(
    "spoiled",
    [
        pytest.param({"after": truncated}, id="half-an-answer"),
        pytest.param({"after": replaced(NAMESPACE, "urn:other")}, id="another-namespace"),
        pytest.param({"after": replaced("instancesSet", "nothing")}, id="no-instances"),
    ],
)
def test_a_create_whose_answer_can_t_be_read_is_not_definite(
    server: MotoServer, spoiled: dict[str, Any]
) -> None:
    server.fault("RunInstances", **spoiled)
    ec2 = cloud(server)
    with pytest.raises(CloudError) as caught:
        ec2.create(order())
    assert not caught.value.definite
    assert len(ec2.list_nodes().items) == 1


def test_a_cloud_that_drops_our_tags_is_told_on(server: MotoServer) -> None:
    server.fault("RunInstances", after=replaced("nodemanager-", "somebody-"))
    node = cloud(server).create(order())
    assert any("tags" in line for line in node.problems)


def test_an_error_s_text_does_not_repeat_the_user_data(server: MotoServer) -> None:
    wanted = order(user_data="ping_secret=hush")
    coded = base64.b64encode(b"ping_secret=hush").decode()
    said = f"bad value '{coded}' or ping_secret=hush"
    server.fault("RunInstances", before=refusal("InvalidParameterValue", 400, said))
    with pytest.raises(CloudError) as caught:
        cloud(server).create(wanted)
    seen = [str(caught.value), str(caught.value.__cause__), str(caught.value.__context__)]
    assert not any(coded in text or "hush" in text for text in seen)


def test_a_scratch_volume_is_made_and_goes_with_the_node(server: MotoServer) -> None:
    ec2 = cloud(server)
    ec2.create(order(size=Size("large", "m5.large", 2, 8192, scratch_mb=100_000)))
    params = server.called("RunInstances")[0].params
    mapping = {
        name.removeprefix("BlockDeviceMapping.1."): value
        for name, value in params.items()
        if name.startswith("BlockDeviceMapping")
    }
    assert mapping == {
        "DeviceName": "/dev/xvdt",
        "Ebs.VolumeSize": "100",
        "Ebs.VolumeType": "gp3",
        "Ebs.DeleteOnTermination": "true",
    }


def test_a_type_with_enough_disk_gets_no_scratch_volume(server: MotoServer) -> None:
    ec2 = cloud(server)
    own = next(size for size in ec2.list_sizes() if size.instance_type == "m5d.large")
    assert own.scratch_mb > 70_000
    ec2.create(order(size=Size("disk", "m5d.large", 2, 8192, scratch_mb=70_000)))
    params = server.called("RunInstances")[0].params
    assert not [name for name in params if name.startswith("BlockDeviceMapping")]


def test_the_ssh_key_is_imported_once_under_a_name_of_its_own(
    server: MotoServer, tmp_path: Any
) -> None:
    public = tmp_path / "id.pub"
    public.write_text(
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB3G5lb1l5yk2z8P2a1KrjI1m0fO4wqBSO2bcwS0b0v1 me\n"
    )
    create = {"image_id": "ami-1", "ssh_key": str(public)}
    for ec2 in (cloud(server, create=create), cloud(server, create=create)):
        ec2.create(order())
        ec2.create(order())
    names = {call.params["KeyName"] for call in server.called("RunInstances")}
    assert len(names) == 1
    assert len(server.called("ImportKeyPair")) == 2


# Destroying (D3).


def test_a_destroy_is_confirmed_by_its_answer(server: MotoServer) -> None:
    ec2 = cloud(server)
    made = ec2.create(order())
    assert ec2.destroy(made.id) is Outcome.ACCEPTED
    assert ec2.destroy(made.id) is Outcome.GONE
    assert ec2.destroy("i-0123456789abcdef0") is Outcome.UNKNOWN


def test_a_node_that_goes_on_running_is_not_gone(server: MotoServer) -> None:
    ec2 = cloud(server)
    made = ec2.create(order())
    server.fault("TerminateInstances", after=replaced("shutting-down", "running"))
    assert ec2.destroy(made.id) is Outcome.UNKNOWN


def test_an_answer_about_another_node_is_refused(server: MotoServer) -> None:
    ec2 = cloud(server)
    made = ec2.create(order())
    server.fault("TerminateInstances", after=replaced(made.id, "i-0ffffffffffffffff"))
    with pytest.raises(ForeignAnswer):
        ec2.destroy(made.id)


# The rest of the port.


def test_the_account_is_one_stable_line(server: MotoServer) -> None:
    ec2 = cloud(server, credentials={"key": "a", "secret": "b", "region": "eu-west-1"})
    line = ec2.account()
    assert line == f"account=123456789012 region=eu-west-1 endpoint={server.url}"
    assert (
        cloud(server, credentials={"region": "eu-west-1", "key": "c", "secret": "d"}).account()
        == line
    )


def test_an_api_without_sts_is_told_by_region_and_endpoint(server: MotoServer) -> None:
    server.fault("GetCallerIdentity", before=refusal("InvalidAction", 400))
    assert cloud(server).account() == f"account=unknown region=us-east-1 endpoint={server.url}"


def test_a_failing_sts_is_an_error_not_another_account(server: MotoServer) -> None:
    server.fault("GetCallerIdentity", before=plain(503, "busy"))
    with pytest.raises(CloudError):
        cloud(server).account()


def test_the_region_is_signed_for_even_where_libcloud_does_not_know_it(
    server: MotoServer,
) -> None:
    ec2 = cloud(server, credentials={"key": "a", "secret": "b", "region": "ap-southeast-7"})
    assert ec2.list_nodes().items == ()
    (call,) = server.called("DescribeInstances")
    assert "/ap-southeast-7/ec2/aws4_request" in call.headers["authorization"]
    assert len(ec2.list_sizes()) > 100


def test_sizes_tell_an_unknown_price_from_a_price_of_zero(server: MotoServer) -> None:
    sizes = {size.instance_type: size for size in cloud(server).list_sizes()}
    assert len(sizes) == 800
    assert (sizes["m5.large"].cores, sizes["m5.large"].ram_mb) == (2, 8192)
    assert sizes["m5.large"].price == pytest.approx(0.096)
    unknown = [size for size in sizes.values() if size.price is None]
    assert len(unknown) == 118
    assert not [size for size in sizes.values() if size.price == 0]


def test_driver_class_is_used(server: MotoServer) -> None:
    ec2 = cloud(server, driver_class="tests.cloud.ec2_driver.CountingDriver")
    ec2.create(order())
    assert ec2.list_nodes().items
    agents = {call.headers["user-agent"] for call in server.calls}
    assert all("Counting EC2" in agent for agent in agents)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("libcloud.compute.drivers.dummy.DummyNodeDriver", id="another-provider-s"),
        pytest.param("nowhere.at.all.Driver", id="missing"),
    ],
)
def test_a_driver_class_that_can_t_serve_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="driver_class"):
        cloud("http://127.0.0.1:1", driver_class=name)


def test_threads_do_not_read_each_other_s_answers(server: MotoServer) -> None:
    ec2 = cloud(server)
    made = [ec2.create(order(f"compute-{number}")).id for number in range(4)]
    wrong: list[object] = []

    def ask(node_id: str) -> None:
        for _ in range(8):
            node = ec2.ask(node_id)
            if node is None or node.id != node_id:
                wrong.append(node)

    threads = [threading.Thread(target=ask, args=(node_id,)) for node_id in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert wrong == []
    assert len(server.called("DescribeInstances")) == 32


def test_a_server_that_never_answers_is_given_up(server: MotoServer) -> None:
    release = threading.Event()

    def hang() -> Reply:
        release.wait(30)
        return plain(503, "late")()

    server.fault("DescribeInstances", before=hang)
    try:
        with pytest.raises(CloudError) as caught:
            cloud(server, timeout=0.3).list_nodes()
    finally:
        release.set()
    assert isinstance(caught.value.__cause__, requests.exceptions.Timeout)


def test_a_netrc_file_does_not_replace_the_signature(
    server: MotoServer, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("default login somebody password else\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    cloud(server).list_nodes()
    assert server.calls[-1].key_id == "AKIDEXAMPLE"


def test_size_is_the_instance_type(server: MotoServer) -> None:
    ec2 = cloud(server)
    ec2.create(order(size=SMALL))
    assert [node.size for node in ec2.list_nodes().items] == ["m5.large"]
