"""etc/iam/ allows what the OpenStack adapter calls, and nothing more."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from nodemanager.core.model.world import Tags
from tests.cloud.openstack.helpers import by_hand, cloud, order, pin
from tests.cloud.openstack.server import PROJECT_ID, OpenStackServer
from tests.cloud.openstack.things import IMAGE

pytestmark = pytest.mark.socket
IAM = Path(__file__).parents[3] / "etc" / "iam"
MOUNTS = {
    "compute": "/compute",
    "image": "/image",
    "network": "/networking",
    "volumev3": "/volume",
}
"""Where the test server has each service; the rules have the paths of a service's own root."""


def rules_of(name: str) -> list[dict[str, str]]:
    rules: list[dict[str, str]] = json.loads((IAM / name).read_text(encoding="utf-8"))
    return rules


def fits(rule: dict[str, str], method: str, path: str) -> bool:
    """As keystone's middleware compares them: a star is one part of the path."""
    pattern = re.escape(MOUNTS[rule["service"]] + rule["path"]).replace(r"\*", "[^/]+")
    return rule["method"] == method and re.fullmatch(pattern, path) is not None


def everything(server: OpenStackServer) -> list[tuple[str, str]]:
    """Method and path of every call that the adapter sends to a service."""
    theirs = by_hand(server)
    server.calls.clear()
    ours = cloud(server, listing={"metadata:team": "physics"})
    ours.account()
    ours.list_sizes()
    ours.check_image()
    cloud(server, create={"image": "node-image"}).check_image()
    named = {"image": IMAGE, "networks": "private", "server_group": "apart"}
    made = cloud(server, listing={"metadata:team": "physics"}, create=named).create(
        order(record="zzzzz-7ekkf-000000000000001")
    )
    ours.list_nodes()
    ours.find_by_record("zzzzz-7ekkf-000000000000001")
    ours.ask(made.id)
    ours.adopt(theirs, Tags("blue"))
    server.things.leaked = True
    pin(server, made)
    pinned = ours.pins(made.id)
    ours.destroy(made.id)
    ours.find_leftovers()
    for leftover in pinned:
        ours.release(leftover)
    called = [(call.action.split(" ")[1], call.path) for call in server.calls]
    return [one for one in called if not one[1].startswith("/identity")]


def test_the_rules_allow_every_call_and_nothing_more(openstack: OpenStackServer) -> None:
    rules = [*rules_of("openstack.json"), *rules_of("openstack-adopt.json")]
    called = everything(openstack)
    for method, path in called:
        assert any(fits(rule, method, path) for rule in rules), (method, path)
    # Newer clouds have no project in cinder's paths.
    called += [(method, path.replace(f"/{PROJECT_ID}/", "/")) for method, path in called]
    unused = [rule for rule in rules if not any(fits(rule, *one) for one in called)]
    assert unused == []


def test_the_usual_rules_make_nothing_that_exists_ours() -> None:
    """Metadata and tags are how a thing becomes the pool's; only adopting writes them."""
    assert not any(
        rule["method"] in ("PUT", "PATCH") or "metadata" in rule["path"] or "tags" in rule["path"]
        for rule in rules_of("openstack.json")
    )
    assert len(rules_of("openstack-adopt.json")) == 1
