"""What `check-cloud` asks OpenStack: each refusal by its policy's name, and what boots fail of."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from nodemanager.cloud.checks import CheckStatus, Found, Wanted
from nodemanager.cloud.openstack.rights import CALLS, NAMES
from nodemanager.core.model.world import Size
from tests.cloud.asking import asked
from tests.cloud.openstack.account import (
    GROUP,
    KEY,
    SERVER_GROUP,
    UNLIMITED,
    VOLUME_TYPE,
    ZONE,
    network,
    server_group,
)
from tests.cloud.openstack.helpers import (
    BY_CREDENTIAL,
    BY_PASSWORD,
    POOL,
    SMALL,
    cloud,
    order,
)
from tests.cloud.openstack.nova import Refused
from tests.cloud.openstack.server import (
    USER,
    OpenStackServer,
    answering,
    changed,
    plain,
    refusal,
)
from tests.cloud.openstack.test_rights import rules_of
from tests.cloud.openstack.things import IMAGE, NETWORK

pytestmark = pytest.mark.socket

EVERYTHING = {
    "security_groups": "default",
    "key_name": KEY,
    "availability_zone": ZONE,
    "boot_volume_gb": "20",
    "boot_volume_type": VOLUME_TYPE,
}
OTHER = "66666666-6666-4666-8666-666666666666"
POLICY = "Policy doesn't allow os_compute_api:servers:create to be performed."


def answers(
    server: OpenStackServer,
    *sizes: Size,
    max_nodes: int = 2,
    nodes: tuple[str, ...] = (),
    credentials: dict[str, str] = BY_CREDENTIAL,
    **create: str,
) -> dict[str, Found]:
    ours = cloud(server, credentials=credentials, create={"image": IMAGE, **create})
    return asked(ours, Wanted(POOL, sizes or (SMALL,), max_nodes, nodes))


def placed(name: str) -> list[dict[str, str]]:
    """The access rules of etc/iam with the paths that the server has."""
    mounts = {"compute": "/compute", "image": "/image", "network": "/networking"}
    return [
        {**rule, "path": mounts.get(rule["service"], "/volume") + rule["path"]}
        | ({"service": "block-storage"} if rule["service"] == "volumev3" else {})
        for rule in rules_of(name)
    ]


def failed(found: dict[str, Found]) -> set[str]:
    return {name for name, one in found.items() if one.mark is CheckStatus.FAILED}


def test_where_all_is_well_every_check_says_so_and_nothing_is_made(
    openstack: OpenStackServer,
) -> None:
    found = answers(openstack, **EVERYTHING)
    # There is no harmless question about deleting.
    assert {name for name, one in found.items() if one.mark is not CheckStatus.FINE} == {
        "permissions to end nodes"
    }
    assert openstack.nova.servers == {}
    sent = {call.action for call in openstack.calls if " GET " not in call.action}
    assert sent == {"identity POST /auth/tokens", "compute POST /servers"}


@pytest.mark.parametrize(
    ("credentials", "said"),
    [
        pytest.param(BY_CREDENTIAL, "by application credential nodemanager", id="credential"),
        pytest.param(BY_PASSWORD, "roles member, reader", id="password"),
    ],
)
def test_the_user_and_the_project_are_named(
    openstack: OpenStackServer, credentials: dict[str, str], said: str
) -> None:
    found = answers(openstack, credentials=credentials)["user"]
    assert f"user {USER} of domain Default, project compute" in found.text
    assert said in found.text


def test_a_reader_is_warned(openstack: OpenStackServer) -> None:
    openstack.account.roles = ("reader",)
    assert answers(openstack)["user"].mark is CheckStatus.WARNING


# Permissions.


@pytest.mark.parametrize(
    ("action", "answer", "check", "named"),
    [
        pytest.param(
            "compute POST /servers",
            refusal(403, POLICY),
            "permission POST /servers",
            "os_compute_api:servers:create is not allowed",
            id="nova",
        ),
        pytest.param(
            "network GET /ports",
            answering(
                Refused(
                    403,
                    {
                        "NeutronError": {
                            "type": "PolicyNotAuthorized",
                            "message": "(rule:get_port and rule:x) is disallowed by policy",
                            "detail": "",
                        }
                    },
                )
            ),
            "permission GET /ports",
            "get_port is not allowed",
            id="neutron",
        ),
        pytest.param(
            "volume GET /volumes/detail",
            refusal(403, "Policy doesn't allow volume:get_all to be performed."),
            "permission GET /volumes/detail",
            "volume:get_all is not allowed",
            id="cinder",
        ),
        pytest.param(
            "image GET /images",
            plain(403, "<html>403 Forbidden</html>"),
            "permission GET /images",
            "GET /images is not allowed",
            id="glance-names-none",
        ),
    ],
)
def test_a_refusal_is_told_by_the_policy_s_own_name(
    openstack: OpenStackServer, action: str, answer: Any, check: str, named: str
) -> None:
    openstack.fault(action, before=answer, times=9)
    found = answers(openstack)
    assert found[check].mark is CheckStatus.FAILED
    assert named in found[check].text
    assert "openstack.json" in found[check].to_do


def test_the_question_about_a_create_can_t_make_a_node_of_ours(openstack: OpenStackServer) -> None:
    answers(openstack)
    (call,) = openstack.called("compute POST /servers")
    asked_for = call.body["server"]
    assert asked_for["flavorRef"] not in {one["id"] for one in openstack.nova.flavors}
    assert "metadata" not in asked_for


def test_a_server_that_was_made_all_the_same_is_ended_at_once(openstack: OpenStackServer) -> None:
    ours = cloud(openstack)
    made = ours.create(order())
    told = {"server": {"id": made.id, "links": []}}
    openstack.fault("compute POST /servers", before=answering(Refused(202, told)))
    found = answers(openstack)["permission POST /servers"]
    assert found.mark is CheckStatus.FAILED
    assert "ended at once" in found.text
    assert ours.ask(made.id) is None


def test_another_answer_to_that_question_settles_nothing(openstack: OpenStackServer) -> None:
    openstack.fault("compute POST /servers", before=refusal(400, "Invalid input for networks"))
    assert answers(openstack)["permission POST /servers"].mark is CheckStatus.NOT_ASKED


# Access rules.


def test_the_calls_that_are_compared_are_those_of_the_file() -> None:
    """Cinder's twice: its endpoint may have the project's id in its path or not."""
    places = {
        "compute": ["/v2.1"],
        "image": ["/v2"],
        "network": ["/v2.0"],
        "volume": ["/v3", "/v3/*"],
    }
    names = {"volume": "volumev3"}
    calls = [
        (names.get(service, service), method, place + path.format("*"))
        for service, method, path in (*CALLS, *NAMES)
        for place in places[service]
    ]
    rules = [(one["service"], one["method"], one["path"]) for one in rules_of("openstack.json")]
    assert sorted(calls) == sorted(rules)
    assert len(set(rules)) == len(rules)


def test_a_credential_with_the_file_s_rules_may_do_all(openstack: OpenStackServer) -> None:
    openstack.account.rules = [*placed("openstack.json"), *placed("openstack-check.json")]
    found = answers(openstack, **EVERYTHING)
    assert failed(found) == set()
    assert found["access rules"].mark is CheckStatus.FINE
    assert {name for name, one in found.items() if one.mark is CheckStatus.NOT_ASKED} == {
        "permissions to end nodes"
    }


@pytest.mark.parametrize(
    ("method", "path", "checks"),
    [
        ("DELETE", "/compute/v2.1/servers/*", {"access rules"}),
        ("POST", "/compute/v2.1/servers", {"access rules", "permission POST /servers"}),
        ("GET", "/networking/v2.0/ports", {"access rules", "permission GET /ports"}),
        ("DELETE", "/volume/v3/*/volumes/*", {"access rules"}),
    ],
)
def test_a_call_without_an_access_rule_is_named(
    openstack: OpenStackServer, method: str, path: str, checks: set[str]
) -> None:
    rules = [*placed("openstack.json"), *placed("openstack-check.json")]
    openstack.account.rules = [r for r in rules if (r["method"], r["path"]) != (method, path)]
    assert len(openstack.account.rules) == len(rules) - 1
    found = answers(openstack)
    assert failed(found) == checks
    assert all("rule of the credential allows" in found[name].text for name in checks)
    shown = path.replace("/v3/*", f"/v3/{32 * 'a'}")
    assert found["access rules"].text.endswith(f"allows {method} {shown}")


@pytest.mark.parametrize(
    ("path", "create"),
    [
        ("/networking/v2.0/networks", {"networks": "private"}),
        ("/compute/v2.1/os-server-groups", {"server_group": "apart"}),
    ],
)
def test_a_rule_for_names_is_needed_only_where_the_file_has_names(
    openstack: OpenStackServer, path: str, create: dict[str, str]
) -> None:
    rules = placed("openstack.json")
    openstack.account.rules = [rule for rule in rules if rule["path"] != path]
    assert len(openstack.account.rules) == len(rules) - 1
    ids = {"networks": NETWORK, "server_group": SERVER_GROUP}
    assert "access rules" not in failed(answers(openstack, **ids))
    found = answers(openstack, **ids | create)["access rules"]
    assert found.text.endswith(f"allows GET {path}")


def test_a_rule_of_another_service_allows_nothing(openstack: OpenStackServer) -> None:
    rules = placed("openstack.json")
    openstack.account.rules = [
        {**rule, "service": "object-store"} if rule["service"] == "image" else rule
        for rule in rules
    ]
    found = answers(openstack)["access rules"]
    assert found.mark is CheckStatus.FAILED
    assert found.text.endswith("allows GET /image/v2/images, GET /image/v2/images/*")


def test_a_service_that_the_cloud_lacks_needs_no_rule(openstack: OpenStackServer) -> None:
    rules = placed("openstack.json")
    openstack.account.rules = [one for one in rules if one["service"] != "block-storage"]
    del openstack.catalog["block-storage"]
    found = answers(openstack)
    assert found["permission GET /volumes/detail"].mark is CheckStatus.NOT_ASKED
    assert found["access rules"].mark is CheckStatus.FINE


def test_rules_may_be_written_with_names_and_two_stars(openstack: OpenStackServer) -> None:
    openstack.account.rules = [
        {"service": service, "method": method, "path": path}
        for method in ("GET", "POST", "DELETE")
        for service, path in (
            ("compute", "/compute/**"),
            ("image", "/image/v2/images"),
            ("image", "/image/v2/images/{image_id}"),
            ("network", "/networking/**"),
            ("volumev3", "/volume/v3/{project_id}/**"),
        )
    ]
    assert answers(openstack)["access rules"].mark is CheckStatus.FINE


def test_what_only_the_checks_read_is_not_asked_without_their_rules(
    openstack: OpenStackServer,
) -> None:
    openstack.account.rules = placed("openstack.json")
    found = answers(openstack, **EVERYTHING)
    assert failed(found) == set()
    unasked = {name for name, one in found.items() if one.mark is CheckStatus.NOT_ASKED}
    assert unasked == {
        *("permissions to end nodes", "security group default", "key pair"),
        *("availability zone", "volume type", "quota instances", "quota cores", "quota ram"),
        *("quota volumes", "quota gigabytes", "quota ports"),
    }
    assert "openstack-check.json" in found["quota cores"].to_do


def test_the_checks_rules_are_those_of_their_calls_alone(openstack: OpenStackServer) -> None:
    answers(openstack, networks=NETWORK, **EVERYTHING)
    answers(openstack)
    from tests.cloud.openstack.test_rights import fits

    called = {
        (call.action.split(" ")[1], call.path)
        for call in openstack.calls
        if not call.path.startswith("/identity")
    }
    usual, more = rules_of("openstack.json"), rules_of("openstack-check.json")
    rest = [one for one in called if not any(fits(rule, *one) for rule in usual)]
    assert all(any(fits(rule, *one) for rule in more) for one in rest)
    assert all(any(fits(rule, *one) for one in rest) for rule in more)
    assert {rule["method"] for rule in more} == {"GET"}


def test_an_error_of_one_check_stops_no_other(openstack: OpenStackServer) -> None:
    openstack.fault("compute GET /limits", before=plain(503, "no"))
    openstack.fault("image GET /images/{id}", before=lambda: None)
    openstack.fault(
        "network GET /quotas/{id}/details", after=changed(lambda told: {"quota": {"port": 7}})
    )
    found = answers(openstack)
    assert failed(found) == {"quota instances", "image id", "quota ports"}
    assert found["quota cores"].mark is CheckStatus.FINE


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(refusal(404, "The resource could not be found."), id="json"),
        pytest.param(plain(404, "The resource could not be found."), id="text"),
    ],
)
def test_a_neutron_without_that_question_is_no_failure(
    openstack: OpenStackServer, answer: Any
) -> None:
    openstack.fault("network GET /quotas/{id}/details", before=answer)
    assert answers(openstack)["quota ports"].mark is CheckStatus.NOT_ASKED


# What nodes are made of.


@pytest.mark.parametrize(
    ("image", "said"),
    [
        pytest.param("another-image", "0 images", id="none"),
        pytest.param(OTHER, "404", id="no-such-id"),
    ],
)
def test_an_image_that_is_not_there_is_told(
    openstack: OpenStackServer, image: str, said: str
) -> None:
    found = answers(openstack, image=image)["image id"]
    assert found.mark is CheckStatus.FAILED
    assert said in found.text


def test_an_image_is_told_by_its_id_with_its_state(openstack: OpenStackServer) -> None:
    assert answers(openstack, image="node-image")["image id"].text == (
        f"node-image, id {IMAGE}, active"
    )
    openstack.things.images[IMAGE]["status"] = "queued"
    assert answers(openstack)["image id"].mark is CheckStatus.FAILED
    second = {"id": OTHER, "name": "node-image", "status": "active"}
    openstack.things.images[OTHER] = second
    found = answers(openstack, image="node-image")["image id"]
    assert found.mark is CheckStatus.FAILED
    assert OTHER in found.text


@pytest.mark.parametrize(
    ("size", "image", "mark", "said"),
    [
        pytest.param(Size("a", "m1.tiny", 1, 1), {}, CheckStatus.FAILED, "no flavor", id="unknown"),
        pytest.param(
            Size("a", "m1.small", 2, 1),
            {},
            CheckStatus.WARNING,
            "[Size a] says 2 cores",
            id="cores",
        ),
        pytest.param(
            Size("a", "m1.small", 1, 4096), {}, CheckStatus.WARNING, "4096 MB", id="memory"
        ),
        pytest.param(
            Size("a", "m1.small", 1, 1, scratch_mb=30_000),
            {},
            CheckStatus.WARNING,
            "30000",
            id="scratch",
        ),
        pytest.param(
            Size("a", "g1.huge", 64, 1),
            {},
            CheckStatus.FAILED,
            "disk 0 GB",
            id="no-disk-to-boot-from",
        ),
        pytest.param(
            SMALL, {"min_ram": 4096}, CheckStatus.FAILED, "needs 4096 MB", id="image-memory"
        ),
        pytest.param(
            SMALL, {"min_disk": 30}, CheckStatus.FAILED, "a disk of 30 GB", id="image-disk"
        ),
        pytest.param(
            SMALL,
            {"size": 25 * 1024**3},
            CheckStatus.FAILED,
            "a disk of 25 GB",
            id="image-too-large",
        ),
        pytest.param(
            SMALL, {"min_disk": 20, "min_ram": 2048}, CheckStatus.FINE, "", id="just-enough"
        ),
    ],
)
def test_a_flavor_is_held_against_the_file_and_the_image(
    openstack: OpenStackServer, size: Size, image: dict[str, int], mark: CheckStatus, said: str
) -> None:
    openstack.things.images[IMAGE] |= image
    found = answers(openstack, size)[f"flavor {size.instance_type}"]
    assert found.mark is mark
    assert said in found.text


def test_a_boot_volume_makes_up_for_a_flavor_s_disk(openstack: OpenStackServer) -> None:
    openstack.things.images[IMAGE]["min_disk"] = 30
    huge = Size("a", "g1.huge", 64, 1)
    assert answers(openstack, huge, boot_volume_gb="30")["flavor g1.huge"].mark is CheckStatus.FINE


def test_a_disabled_flavor_is_told(openstack: OpenStackServer) -> None:
    openstack.nova.flavors[0]["OS-FLV-DISABLED:disabled"] = True
    assert answers(openstack)["flavor m1.small"].mark is CheckStatus.FAILED


@pytest.mark.parametrize(
    ("networks", "mark", "said"),
    [
        pytest.param([], CheckStatus.WARNING, "has none", id="none"),
        pytest.param(
            [network(NETWORK, "one"), network(OTHER, "two", shared=True)],
            CheckStatus.FAILED,
            "the project has several: one",
            id="an-own-and-a-shared-one",
        ),
        pytest.param(
            [network(NETWORK, "one"), network(OTHER, "two", tenant_id="b")],
            CheckStatus.FINE,
            "one, id",
            id="another-project-s",
        ),
        pytest.param(
            [network(NETWORK, "one", subnets=[])],
            CheckStatus.FAILED,
            "without a subnet",
            id="no-subnet",
        ),
    ],
)
def test_without_a_network_in_the_file_there_must_be_only_one(
    openstack: OpenStackServer, networks: list[dict[str, Any]], mark: CheckStatus, said: str
) -> None:
    openstack.account.networks = networks
    found = answers(openstack)["network"]
    assert found.mark is mark
    assert said in found.text


def test_each_network_of_the_file_is_looked_up(openstack: OpenStackServer) -> None:
    found = answers(openstack, networks=f"{NETWORK}, {OTHER}")
    assert found[f"network {NETWORK}"].mark is CheckStatus.FINE
    assert found[f"network {OTHER}"].mark is CheckStatus.FAILED
    # Two ports for each node.
    assert "room for 250 more m1.small" in found["quota ports"].text
    openstack.account.networks[0]["status"] = "DOWN"
    assert answers(openstack, networks=NETWORK)[f"network {NETWORK}"].mark is CheckStatus.FAILED
    assert "network" not in answers(openstack, networks="none")


def test_what_the_file_names_is_looked_up(openstack: OpenStackServer) -> None:
    found = answers(openstack, networks="private", server_group="apart")
    assert f"private, id {NETWORK}, ACTIVE" in found["network private"].text
    assert found["server group"].text == f"apart, id {SERVER_GROUP}, anti-affinity"
    openstack.account.networks.append(network(OTHER, "private"))
    openstack.account.server_groups.append(server_group(OTHER, "apart"))
    found = answers(openstack, networks="private, nobody", server_group="apart")
    assert failed(found) == {"network private", "network nobody", "server group"}
    assert found["network private"].text == "the project has 2 networks of that name"
    assert found["network nobody"].text == "the project has no networks of that name"
    assert found["server group"].to_do == "give one's id: openstack server group list"


def test_groups_keys_zones_and_types_are_looked_up(openstack: OpenStackServer) -> None:
    create = {
        "security_groups": f"nobody, {GROUP}",
        "key_name": "nobody",
        "availability_zone": "moon",
        "boot_volume_gb": "5",
        "boot_volume_type": "floppy",
    }
    found = answers(openstack, **create)
    wrong = {"security group nobody", "key pair", "availability zone", "volume type"}
    assert failed(found) == wrong
    assert all(found[name].to_do for name in wrong)
    assert found[f"security group {GROUP}"].mark is CheckStatus.FINE
    openstack.account.groups.append({"id": OTHER, "name": "default", "security_group_rules": []})
    assert failed(answers(openstack, security_groups="default")) == {"security group default"}


def test_a_zone_that_is_down_is_told(openstack: OpenStackServer) -> None:
    openstack.account.zones[ZONE] = False
    found = answers(openstack, availability_zone=ZONE)
    assert failed(found) == {"availability zone"}


# Quotas.


@pytest.mark.parametrize(
    ("quota", "limit", "mark"),
    [
        pytest.param("instances", 2, CheckStatus.FINE, id="just-enough"),
        pytest.param("instances", 1, CheckStatus.WARNING, id="one-too-few"),
        pytest.param("cores", 0, CheckStatus.FAILED, id="not-even-one"),
        pytest.param("ram", 4095, CheckStatus.WARNING, id="memory"),
        pytest.param("gigabytes", 39, CheckStatus.WARNING, id="volumes"),
        pytest.param("ram", UNLIMITED, CheckStatus.FINE, id="no-limit"),
    ],
)
def test_a_quota_is_held_against_max_nodes(
    openstack: OpenStackServer, quota: str, limit: int, mark: CheckStatus
) -> None:
    openstack.account.quotas[quota] = limit
    found = answers(openstack, boot_volume_gb="20")[f"quota {quota}"]
    assert found.mark is mark
    assert bool(found.to_do) is (mark is not CheckStatus.FINE)


def test_what_runs_counts_as_used_and_the_pool_s_own_as_had(openstack: OpenStackServer) -> None:
    ours = cloud(openstack)
    node = ours.create(order())
    openstack.account.quotas["instances"] = 2
    wanted = Wanted(POOL, (SMALL,), 2, (node.id,))
    found = asked(ours, wanted)["quota instances"]
    assert found == Found(
        "1 of 2 used: room for 1 more m1.small; the pool has 1 of max_nodes = 2", CheckStatus.FINE
    )
    assert asked(ours, replace(wanted, nodes=()))["quota instances"].mark is CheckStatus.WARNING


def test_the_flavor_s_own_cores_count_and_not_the_file_s(openstack: OpenStackServer) -> None:
    openstack.account.quotas["cores"] = 8
    found = answers(openstack, Size("a", "m1.large", 1, 1024))
    assert "room for 2 more a;" in found["quota cores"].text


def test_no_secret_is_in_an_answer(openstack: OpenStackServer) -> None:
    for credentials in (BY_CREDENTIAL, BY_PASSWORD):
        told = json.dumps(
            [one.text for one in answers(openstack, credentials=credentials).values()]
        )
        assert "s3cret" not in told
