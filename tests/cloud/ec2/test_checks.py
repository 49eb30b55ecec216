"""What `check-cloud` asks EC2: each missing permission by name, and nothing that does any harm."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nodemanager.cloud.api import CloudDriver
from nodemanager.cloud.checks import CheckStatus, Found, Wanted
from nodemanager.core.model.world import Tags
from tests.cloud import asking
from tests.cloud.ec2.helpers import POOL, SMALL, by_hand, cloud, order
from tests.cloud.ec2.moto_server import MotoServer, refusal

pytestmark = pytest.mark.socket

WANTED = Wanted(POOL, (SMALL,))
REFUSED = (
    "You are not authorized to perform this operation. User: arn:aws:iam::1:user/x is not "
    "authorized to perform: ec2:CreateTags on resource: arn:aws:ec2:us-east-1:1:instance/* because "
    "no identity-based policy allows the ec2:CreateTags action."
)


def asked(ec2: CloudDriver) -> dict[str, Found]:
    return asking.asked(ec2, WANTED)


def as_at_amazon(ec2: Any) -> CloudDriver:
    inside = ec2._provider
    inside.access = replace(inside.access, amazon=True)
    driver: CloudDriver = ec2
    return driver


@pytest.mark.parametrize(
    "actions",
    [("DescribeInstances", "DescribeAddresses", "DescribeImages"), ("RunInstances",)],
    ids=["to-see", "to-boot"],
)
def test_a_missing_permission_is_named(server: MotoServer, actions: tuple[str, ...]) -> None:
    for action in actions:
        server.fault(action, times=9, before=refusal("UnauthorizedOperation", 403))
    found = asked(as_at_amazon(cloud(server)))
    for action in actions:
        said = found[f"permission ec2:{action}"]
        assert said.mark is CheckStatus.FAILED
        assert f"ec2:{action} is not allowed" in said.text
        assert "etc/iam/ec2.json" in said.to_do


def test_a_refusal_that_names_another_permission_is_told_by_that_one(server: MotoServer) -> None:
    server.fault("RunInstances", before=refusal("UnauthorizedOperation", 403, REFUSED))

    found = asked(as_at_amazon(cloud(server)))["permission ec2:RunInstances"]

    assert found.mark is CheckStatus.FAILED
    assert found.text == "ec2:CreateTags is not allowed on arn:aws:ec2:us-east-1:1:instance/*"


def test_asking_changes_nothing_and_amazon_is_asked_with_the_pool_s_tag(
    server: MotoServer,
) -> None:
    ec2 = as_at_amazon(cloud(server))
    node = ec2.create(order())
    before = len(server.calls)

    found = asked(ec2)

    assert {one.mark for one in found.values()} <= {CheckStatus.FINE, CheckStatus.NOT_ASKED}
    assert found["permission ec2:TerminateInstances"] == Found("allowed")
    alive = ec2.ask(node.id)
    assert alive is not None
    assert alive.state.value == "running"
    assert len(ec2.list_nodes().items) == 1
    sent = [call for call in server.calls[before:] if not call.action.startswith("Describe")]
    assert all(call.params["DryRun"] == "true" for call in sent)
    (boot,) = [call.params for call in sent if call.action == "RunInstances"]
    assert POOL in boot.values()


def test_no_end_is_sent_to_an_api_that_is_not_amazon_s(server: MotoServer) -> None:
    ec2 = cloud(server)
    ec2.create(order())
    found = asked(ec2)
    assert found["permission ec2:TerminateInstances"].mark is CheckStatus.NOT_ASKED
    assert server.called("TerminateInstances") == []


def without_dry_run(server: MotoServer, monkeypatch: pytest.MonkeyPatch, *actions: str) -> None:
    """The API ignores DryRun for these actions."""
    work = server._work

    def ignoring(environ: dict[str, Any], call: Any) -> Any:
        if call.action in actions:
            call = replace(call, params={k: v for k, v in call.params.items() if k != "DryRun"})
        return work(environ, call)

    monkeypatch.setattr(server, "_work", ignoring)


def test_an_api_that_ignores_dry_run_is_sent_nothing_that_boots(
    server: MotoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_dry_run(server, monkeypatch, "DescribeInstances", "RunInstances")
    found = asked(cloud(server))
    assert found["permission ec2:RunInstances"].mark is CheckStatus.NOT_ASKED
    assert server.called("RunInstances") == []


def test_a_node_that_was_made_in_spite_of_dry_run_is_ended_and_was_never_the_pool_s(
    server: MotoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_dry_run(server, monkeypatch, "RunInstances")
    ec2 = cloud(server)

    found = asked(ec2)["permission ec2:RunInstances"]

    assert found.mark is CheckStatus.FAILED
    assert "ended at once" in found.text
    assert ec2.list_nodes().items == ()
    (there,) = cloud(server, pool=f"{POOL}-preflight").list_nodes().items
    assert there.tags == Tags(f"{POOL}-preflight")
    assert there.is_absent


def test_what_the_daemon_never_asks_for_is_no_failure_where_it_is_not_allowed(
    server: MotoServer,
) -> None:
    for action in ("DescribeSubnets", "DescribeInstanceTypeOfferings"):
        server.fault(action, before=refusal("UnauthorizedOperation", 403))
    create = {"image_id": "ami-1", "subnet_id": "subnet-1"}

    found = asked(as_at_amazon(cloud(server, create=create)))

    for name in ("place subnet-1", "offer of m5.large"):
        assert found[name].mark is CheckStatus.NOT_ASKED
        assert "ec2-check.json" in found[name].to_do


def test_what_an_api_like_ec2s_does_not_have_is_no_failure(server: MotoServer) -> None:
    """CL13."""
    for action in ("DescribeSubnets", "DescribeInstanceTypeOfferings"):
        server.fault(action, before=refusal("InvalidAction", 400))
    create = {"image_id": "ami-1", "subnet_id": "subnet-1"}

    found = asked(cloud(server, create=create))

    for name in ("place subnet-1", "offer of m5.large"):
        assert found[name].mark is CheckStatus.NOT_ASKED
        assert "InvalidAction" in found[name].text


def test_the_subnet_is_looked_up(server: MotoServer) -> None:
    there = by_hand(server, "DescribeSubnets")
    create = {"image_id": "ami-1", "subnet_id": there["subnetId"]}
    found = asked(as_at_amazon(cloud(server, create=create)))[f"place {there['subnetId']}"]
    assert found.mark is CheckStatus.FINE
    assert there["vpcId"] in found.text


def test_what_else_the_file_names_is_part_of_the_question_about_a_boot(server: MotoServer) -> None:
    create = {"image_id": "ami-1", "security_groups": "sg-1", "key_name": "nobody"}
    asked(as_at_amazon(cloud(server, create=create)))
    (call,) = server.called("RunInstances")
    assert "sg-1" in call.params.values()
    assert (call.params["KeyName"], call.params["DryRun"]) == ("nobody", "true")


def test_a_size_that_the_zone_lacks_is_told(server: MotoServer) -> None:
    create = {"image_id": "ami-1", "availability_zone": "us-east-1e"}
    found = asked(cloud(server, create=create))["offer of m5.large"]
    assert found.mark is CheckStatus.FAILED
    assert "zone us-east-1e does not offer m5.large" in found.text
