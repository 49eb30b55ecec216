"""etc/iam/ allows what the adapter calls, and nothing more."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodemanager.cloud.api import CloudDriver
from nodemanager.cloud.checks import Wanted
from nodemanager.core.model.world import Tags
from nodemanager.errors import BadRequest, CloudError
from tests.cloud.ec2 import helpers
from tests.cloud.ec2.moto_server import MotoServer

ROOT = Path(__file__).parents[3]
OURS = (":instance/", ":volume/", ":network-interface/", ":elastic-ip/")
NEEDS_NO_PERMISSION = {"sts:GetCallerIdentity"}
ACTION = re.compile(
    r'"((?:Create|Delete(?!On)|Describe|Get|Import|Release|Run|Terminate)[A-Z]\w+)"'
)
A_NODE = {"ImageId": "ami-1", "MinCount": "1", "MaxCount": "1", "InstanceType": "t2.micro"}
BEHIND_RUN_INSTANCES = {"iam:PassRole"}


@pytest.fixture
def statements() -> list[dict[str, Any]]:
    names = ("ec2.json", "ec2-adopt.json", "ec2-check.json")
    return [statement for name in names for statement in statements_of(name)]


def statements_of(name: str) -> list[dict[str, Any]]:
    policy = json.loads((ROOT / "etc" / "iam" / name).read_text(encoding="utf-8"))
    assert policy["Version"] == "2012-10-17"
    statements: list[dict[str, Any]] = policy["Statement"]
    return statements


def listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def ask_as_at_amazon(ec2: CloudDriver) -> None:
    """What is asked of Amazon alone."""
    inside = ec2._provider
    inside.access = replace(inside.access, amazon=True)
    with suppress(BadRequest):
        ec2.check_image()
    inside.access = replace(inside.access, amazon=False)


def ask_the_checks(server: MotoServer) -> None:
    ec2 = helpers.cloud(server, create={"image_id": "ami-1", "subnet_id": "subnet-1"})
    size = replace(helpers.SMALL, places=("us-east-1a",))
    for check in ec2.preflight(Wanted(helpers.POOL, (size,))):
        with suppress(CloudError):
            check.ask()
    ec2.close()


def called_by_everything(server: MotoServer, tmp_path: Path) -> set[str]:
    public = tmp_path / "id.pub"
    public.write_text(helpers.PUBLIC_KEY)
    ec2 = helpers.cloud(
        server,
        listing={"tag:team": "physics"},
        create={"image_id": "ami-1", "ssh_key": str(public)},
    )
    ec2.account()
    ec2.list_sizes()
    ask_as_at_amazon(ec2)
    ask_the_checks(server)
    made = ec2.create(helpers.order(record="zzzzz-7ekkf-000000000000001"))
    ec2.list_nodes()
    ec2.find_by_record("zzzzz-7ekkf-000000000000001")
    ec2.ask(made.id)
    ec2.adopt(helpers.by_hand(server, "RunInstances", **A_NODE)["instanceId"], Tags("main"))
    helpers.add_address(
        server,
        helpers.tags_of(made),
        interface=helpers.add_interface(server, made, helpers.tags_of(made)),
    )
    helpers.add_volume(server, made, helpers.tags_of(made))
    pinned = ec2.pins(made.id)
    ec2.destroy(made.id)
    ec2.find_leftovers()
    for leftover in pinned:
        ec2.release(leftover)
    ec2.close()
    service = re.compile(r"Credential=[^,]*/([a-z0-9]+)/aws4_request")
    found = set()
    for call in server.calls:
        if call.key_id == "":
            continue
        signed = service.search(call.headers["authorization"])
        assert signed is not None
        found.add(f"{signed[1]}:{call.action}")
    return found


def test_the_policy_allows_every_call_and_nothing_more(
    server: MotoServer, statements: list[dict[str, Any]], tmp_path: Path
) -> None:
    allowed = {action for statement in statements for action in listed(statement["Action"])}
    called = called_by_everything(server, tmp_path)
    assert called > NEEDS_NO_PERMISSION
    assert allowed == called - NEEDS_NO_PERMISSION | BEHIND_RUN_INSTANCES


def test_no_call_of_the_adapter_was_left_out_above(server: MotoServer, tmp_path: Path) -> None:
    written = {
        action
        for source in (ROOT / "nodemanager" / "cloud" / "ec2").glob("*.py")
        for action in ACTION.findall(source.read_text(encoding="utf-8"))
    }
    called = {action.partition(":")[2] for action in called_by_everything(server, tmp_path)}
    assert written == called


def test_what_changes_something_is_bound_to_the_pool_s_tag(
    statements: list[dict[str, Any]],
) -> None:
    for statement in statements:
        resources = listed(statement["Resource"])
        if any(kind in resource for resource in resources for kind in OURS):
            conditions = statement["Condition"]["StringEquals"]
            assert {"aws:RequestTag/nodemanager-pool", "aws:ResourceTag/nodemanager-pool"} & set(
                conditions
            )
        if not all(action.startswith("ec2:Describe") for action in listed(statement["Action"])):
            assert "*" not in resources


def test_only_a_node_of_no_pool_can_be_adopted_and_only_with_our_tags_d11() -> None:
    (adopting,) = statements_of("ec2-adopt.json")
    assert listed(adopting["Action"]) == ["ec2:CreateTags"]
    assert all(":instance/" in resource for resource in listed(adopting["Resource"]))
    assert adopting["Condition"]["Null"] == {"aws:ResourceTag/nodemanager-pool": "true"}
    keys = adopting["Condition"]["ForAllValues:StringEquals"]["aws:TagKeys"]
    assert set(keys) == {"nodemanager-pool", "nodemanager-record", "nodemanager-incarnation"}


def test_the_usual_policy_makes_nothing_that_exists_ours() -> None:
    tagging = [
        one for one in statements_of("ec2.json") if "ec2:CreateTags" in listed(one["Action"])
    ]
    assert tagging
    for statement in tagging:
        assert statement["Condition"]["StringEquals"]["ec2:CreateAction"] == "RunInstances"
