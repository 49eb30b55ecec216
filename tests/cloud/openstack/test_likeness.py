"""Our OpenStack server answers as the real services do: each question here goes to both.

To ours in every run, to a real OpenStack by `make proof NAME=openstack`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import requests

from nodemanager.cloud.openstack.wire import MICROVERSION
from tests.cases import cases
from tests.cloud.openstack import schema as openstack_schema
from tests.cloud.openstack.server import PASSWORD, PROJECT, USER, shared
from tests.cloud.openstack.things import ADDRESS, IMAGE, NETWORK
from tests.openstack import CLOUD_FILE, people
from tests.openstack.hand import shared as hand

pytestmark = pytest.mark.socket
OURS, REAL = "ours", "real"
NONE = "6695eb01-0000-4000-8000-97f2502e193f"
HTML = "html"
"""In place of an error's name."""
MISSING = object()


@dataclass
class Site:
    """One of the two clouds, as a project's member asks it without any library of OpenStack's."""

    urls: dict[str, str]
    token: str = field(repr=False)
    image: str
    network: str
    outside: str = ""

    @classmethod
    def of(cls, auth_url: str, user: str, password: str, project: str, **more: str) -> Site:
        domain = {"name": "Default"}
        person = {"name": user, "password": password, "domain": domain}
        identity = {"methods": ["password"], "password": {"user": person}}
        scope = {"project": {"name": project, "domain": domain}}
        answer = requests.post(
            f"{auth_url}/auth/tokens",
            json={"auth": {"identity": identity, "scope": scope}},
            timeout=30,
        )
        found = {
            service["type"]: service["endpoints"][0]["url"]
            for service in answer.json()["token"]["catalog"]
        }
        urls = {
            "identity": auth_url,
            "compute": found["compute"],
            "image": f"{found['image']}/v2",
            "network": f"{found['network']}/v2.0",
            "volume": found.get("volumev3") or found["block-storage"],
        }
        return cls(urls, answer.headers["X-Subject-Token"], **more)

    def ask(
        self, method: str, service: str, path: str, body: Any = None, **headers: str
    ) -> requests.Response:
        given = {"X-Auth-Token": self.token}
        if service == "compute":
            # Cinder refuses a version that is not its own.
            given["OpenStack-API-Version"] = f"compute {MICROVERSION}"
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        url = self.urls[service] + path
        return requests.request(method, url, json=body, headers=given, timeout=60)

    def server(self, **changes: Any) -> dict[str, Any]:
        """The body of a create; MISSING leaves a field out."""
        flavors = self.ask("GET", "compute", "/flavors/detail").json()["flavors"]
        small = next(one["id"] for one in flavors if one["name"] == "m1.small")
        asked = {"name": "x", "imageRef": self.image, "flavorRef": small, "networks": "auto"}
        asked |= changes
        return {"server": {name: value for name, value in asked.items() if value is not MISSING}}


@pytest.fixture(params=[OURS, pytest.param(REAL, marks=pytest.mark.openstack)])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    if request.param == OURS:
        server = shared()
        server.reset()
        yield Site.of(server.auth_url, USER, PASSWORD, PROJECT, image=IMAGE, network=NETWORK)
        server.reset()
        return
    if CLOUD_FILE not in os.environ:
        pytest.skip("needs a real OpenStack: make proof NAME=openstack")
    cloud = hand().cloud
    yield Site.of(
        f"{cloud.auth_url}/v3",
        people.USER,
        cloud.password,
        people.PROJECT,
        image=cloud.image,
        network=cloud.network,
        outside=cloud.outside,
    )
    hand().clear()


def outline(answer: requests.Response) -> tuple[int, str]:
    """The status, and the name of the error or of what is listed; HTML for a page of that."""
    if "json" not in answer.headers["content-type"]:
        return answer.status_code, HTML
    return answer.status_code, next(iter(answer.json()))


@pytest.mark.parametrize(
    ("method", "service", "path", "expected", "says"),
    [
        ("GET", "compute", "/servers/detail", (200, "servers"), ""),
        ("GET", "compute", f"/servers/detail?marker={NONE}", (400, "badRequest"), "not found"),
        ("GET", "compute", "/servers/detail?limit=x", (400, "badRequest"), "Invalid input"),
        ("GET", "compute", f"/servers/{NONE}", (404, "itemNotFound"), "could not be found"),
        ("DELETE", "compute", f"/servers/{NONE}", (404, "itemNotFound"), "could not be found"),
        ("GET", "compute", "/no-such-path", (404, HTML), "could not be found"),
        ("GET", "compute", "/flavors/detail", (200, "flavors"), "OS-FLV-EXT-DATA:ephemeral"),
        ("GET", "compute", f"/flavors/detail?marker={NONE}", (400, "badRequest"), "not found"),
        ("GET", "compute", "/os-server-groups", (200, "server_groups"), ""),
        ("GET", "compute", "/os-server-groups?limit=1&offset=9", (200, "server_groups"), "[]"),
        ("GET", "network", "/networks?name=nobody", (200, "networks"), "[]"),
        ("GET", "network", f"/ports/{NONE}", (404, "NeutronError"), "PortNotFound"),
        ("DELETE", "network", f"/ports/{NONE}", (404, "NeutronError"), "PortNotFound"),
        ("GET", "network", f"/ports?limit=1&marker={NONE}", (404, "NeutronError"), "PortNotFound"),
        ("GET", "network", f"/ports?device_id={NONE}", (200, "ports"), ""),
        ("GET", "network", f"/floatingips/{NONE}", (404, "NeutronError"), "FloatingIPNotFound"),
        ("DELETE", "network", f"/floatingips/{NONE}", (404, "NeutronError"), "FloatingIPNotFound"),
        ("GET", "volume", f"/volumes/{NONE}", (404, "itemNotFound"), "could not be found"),
        ("DELETE", "volume", f"/volumes/{NONE}", (404, "itemNotFound"), "could not be found"),
        ("GET", "volume", "/volumes/detail", (200, "volumes"), ""),
        ("GET", "volume", f"/volumes/detail?marker={NONE}", (404, "itemNotFound"), ""),
        ("GET", "image", f"/images/{NONE}", (404, HTML), "No image found with ID"),
        ("GET", "image", "/images?name=node-image", (200, "images"), "active"),
    ],
)
def test_a_question_is_answered_alike(
    site: Site, method: str, service: str, path: str, expected: tuple[int, str], says: str
) -> None:
    answer = site.ask(method, service, path)
    assert outline(answer) == expected, answer.text
    assert says in answer.text


@cases(
    ("changes", "status", "says"),
    {
        "no-networks": ({"networks": MISSING}, 400, "'networks' is a required"),
        "no-image": ({"imageRef": MISSING}, 400, "Missing imageRef attribute"),
        "no-name": ({"name": MISSING}, 400, "'name' is a required"),
        "surprise": ({"surprise": 1}, 400, "Additional properties are not allowed"),
        "flavor": ({"flavorRef": NONE}, 400, f"Flavor {NONE} could not be found"),
        "image": ({"imageRef": NONE}, 400, "Can not find requested image"),
        "key": ({"key_name": "nobody's"}, 400, "Invalid key_name provided"),
        "zone": ({"availability_zone": "x"}, 400, "zone is not available"),
        "network": ({"networks": [{"uuid": NONE}]}, 400, f"Network {NONE} could not be"),
        "group": ({"security_groups": [{"name": "x"}]}, 400, "Unable to find security_group"),
        "user-data": ({"user_data": 65_536 * "a"}, 400, "too long"),
        "metadata-value": ({"metadata": {"a": 256 * "b"}}, 400, "too long"),
        "metadata-name": ({"metadata": {"a/b": "c"}}, 400, "does not match any"),
        "metadata-umlaut": ({"metadata": {"ä": "c"}}, 400, "does not match any"),
        "metadata-items": (
            {"metadata": {f"a{number}": "" for number in range(129)}},
            403,
            "Maximum number of metadata items exceeds 128",
        ),
    },
)
def test_an_order_is_refused_alike(
    site: Site, changes: dict[str, Any], status: int, says: str
) -> None:
    answer = site.ask("POST", "compute", "/servers", site.server(**changes))
    assert outline(answer) == (status, {400: "badRequest", 403: "forbidden"}[status]), answer.text
    assert says in answer.text


@cases(
    ("beside", "says"),
    {
        "no-such-group": (
            {"os:scheduler_hints": {"group": NONE}},
            f"Instance group {NONE} could not be found",
        ),
        "by-name": ({"os:scheduler_hints": {"group": "apart"}}, "Invalid input"),
        "surprise": ({"surprise": 1}, "Additional properties are not allowed"),
    },
)
def test_what_is_beside_an_order_is_refused_alike(
    site: Site, beside: dict[str, Any], says: str
) -> None:
    answer = site.ask("POST", "compute", "/servers", {**site.server(), **beside})
    assert outline(answer) == (400, "badRequest"), answer.text
    assert says in answer.text


@cases(
    ("version", "expected"),
    {
        "newer": ("2.999", (406, "computeFault")),
        "nonsense": ("nonsense", (400, "badRequest")),
        "oldest": ("2.1", (200, "servers")),
    },
)
def test_microversions_are_alike(site: Site, version: str, expected: tuple[int, str]) -> None:
    given = {"OpenStack_API_Version": f"compute {version}"}
    assert outline(site.ask("GET", "compute", "/servers/detail", **given)) == expected


@pytest.mark.parametrize(
    ("service", "path", "expected"),
    [
        ("compute", "/servers/detail", (401, "error")),
        ("network", "/ports", (401, "error")),
        ("volume", "/volumes/detail", (401, "error")),
        ("image", "/images", (401, HTML)),
    ],
)
def test_a_wrong_token_is_refused_alike(
    site: Site, service: str, path: str, expected: tuple[int, str]
) -> None:
    assert outline(site.ask("GET", service, path, X_Auth_Token="wrong")) == expected


@cases(("credential", "expected"), {"withdrawn": ({"id": "gone", "secret": "x"}, (404, "error"))})
def test_a_credential_is_refused_alike(
    site: Site, credential: dict[str, str], expected: tuple[int, str]
) -> None:
    how = {"methods": ["application_credential"], "application_credential": credential}
    answer = site.ask("POST", "identity", "/auth/tokens", {"auth": {"identity": how}})
    assert outline(answer) == expected
    assert "Could not find Application Credential" in answer.text


def test_a_server_shows_what_the_adapter_reads(site: Site) -> None:
    made = site.ask("POST", "compute", "/servers", site.server(metadata={"a": "b"}))
    assert outline(made) == (202, "server")
    shown = site.ask("GET", "compute", f"/servers/{made.json()['server']['id']}").json()["server"]
    ours = {
        *("id", "name", "status", "created", "metadata", "flavor", "addresses", "tenant_id"),
        *("OS-EXT-STS:task_state", "os-extended-volumes:volumes_attached", "image", "links"),
    }
    assert ours <= shown.keys()
    assert shown["flavor"]["original_name"] == "m1.small"
    assert shown["metadata"] == {"a": "b"}


def test_a_marker_that_is_gone_begins_the_addresses_anew(site: Site) -> None:
    """Other listings of neutron and nova refuse it."""
    for _ in range(3):
        if site.outside:
            body = {"floatingip": {"floating_network_id": site.outside}}
            assert site.ask("POST", "network", "/floatingips", body).status_code == 201
        else:
            shared().things.add(ADDRESS)
    first, again = (
        site.ask("GET", "network", f"/floatingips?limit=2{marker}").json()["floatingips"]
        for marker in ("", f"&marker={NONE}")
    )
    assert len(first) == 2
    assert [one["id"] for one in first] == [one["id"] for one in again]


def test_what_openstacks_own_description_does_not_know_is_told() -> None:
    body = {"servers": [{"id": "x", "status": "ASLEEP", "colour": "red"}], "links": []}
    assert openstack_schema.wrong_in(body) == [
        "server.colour: OpenStack knows no such field",
        "server.status: 'ASLEEP' is no state of it",
    ]
