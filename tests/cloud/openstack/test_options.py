"""The sections of an OpenStack file: what each key does, and every problem at once."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests
from keystoneauth1.session import Session
from requests.adapters import BaseAdapter

from nodemanager.app import adapters, from_config
from nodemanager.app.from_config import sizes_of
from nodemanager.cloud.openstack import options as openstack_options
from nodemanager.config import load
from nodemanager.core.model.world import Size
from nodemanager.errors import ConfigError
from tests.cases import cases
from tests.cloud.cloud_config import cloud_config
from tests.fakes.clock import ManualClock

ETC = Path(__file__).parents[3] / "etc"
NETWORKS = "11111111-1111-4111-8111-111111111111, 22222222-2222-4222-8222-222222222222"
CREDENTIAL = {
    "auth_url": "https://keystone.example.org:5000",
    "application_credential_id": "an-id",
    "application_credential_secret": "a-secret",
}
PASSWORD = {
    "auth_url": "https://keystone.example.org:5000/v3",
    "username": "manager",
    "password": "a-secret",
    "project": "compute",
}
IMAGE = {"image": "node-image"}


def read(
    credentials: dict[str, str] = CREDENTIAL,
    listing: dict[str, str] | None = None,
    create: dict[str, str] = IMAGE,
) -> Any:
    config = cloud_config(credentials=credentials, listing=listing or {}, create=create)
    return openstack_options.read(config, 60.0)


def problems(**sections: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(**sections)
    return caught.value.problems


class SignInWire(BaseAdapter):
    """Takes what a client sends to keystone, and answers with a token."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: Any = None

    def send(self, request: Any, *_: Any, **__: Any) -> requests.Response:
        self.sent = json.loads(request.body)
        answer = requests.Response()
        answer.status_code, answer.headers["X-Subject-Token"] = 201, "t"
        answer.headers["Content-Type"] = "application/json"
        answer.raw = io.BytesIO(b'{"token": {}}')
        answer.request, answer.url = request, request.url
        return answer

    def close(self) -> None:
        pass


def sent_by(plugin: Any) -> Any:
    """What that plugin of keystoneauth1's sends to keystone."""
    wire = SignInWire()
    with requests.Session() as own:
        own.mount("https://", wire)
        plugin.get_auth_ref(Session(session=own))
    return wire.sent["auth"]


def test_the_least_file_is_enough() -> None:
    access, wanted, template = read()
    assert str(access.auth_url) == "https://keystone.example.org:5000/v3"
    assert (access.region, access.interface, access.timeout) == (None, "public", 60.0)
    assert (wanted, template.networks, template.config_drive) == ({}, "auto", False)


def test_everything_can_be_set() -> None:
    access, wanted, template = read(
        {
            **PASSWORD,
            "region": "R1",
            "interface": "internal",
            "domain": "people",
            "project_domain": "projects",
            "timeout": "7",
            "ca_bundle": "/etc/ca.pem",
        },
        {"metadata:cluster": "blue"},
        {
            "image": "x",
            "networks": NETWORKS,
            "security_groups": "a, b,",
            "key_name": "k",
            "availability_zone": "z",
            "config_drive": "yes",
            "server_group": "apart",
            "hint:different_cell": "cell1",
            "metadata:team": "physics",
        },
    )
    assert (access.region, access.interface, access.trust) == ("R1", "internal", "/etc/ca.pem")
    assert access.timeout == 7.0
    assert sent_by(access.signs_in) == {
        "identity": {
            "methods": ["password"],
            "password": {
                "user": {
                    "name": "manager",
                    "password": "a-secret",
                    "domain": {"name": "people"},
                }
            },
        },
        "scope": {"project": {"name": "compute", "domain": {"name": "projects"}}},
    }
    assert wanted == {"cluster": "blue"}
    assert template.networks == tuple(NETWORKS.split(", "))
    assert template.security_groups == ("a", "b")
    assert (template.server_group, template.hints) == ("apart", {"different_cell": "cell1"})
    assert template.metadata == {"cluster": "blue", "team": "physics"}


def test_no_repr_shows_a_secret() -> None:
    for credentials in (CREDENTIAL, PASSWORD):
        assert "a-secret" not in repr(read(credentials))


@cases(
    ("sections", "told"),
    {
        "nothing": (
            {"credentials": {}},
            [
                "[Cloud Credentials] auth_url: is missing",
                "[Cloud Credentials] application_credential_id: is missing, with its secret; or",
            ],
        ),
        "no-secret": (
            {"credentials": {**CREDENTIAL, "application_credential_secret": ""}},
            ["[Cloud Credentials] application_credential_secret: is missing"],
        ),
        "both": (
            {"credentials": {**CREDENTIAL, "project": "p", "username": "u"}},
            [
                "[Cloud Credentials] username: contradicts application_credential_id",
                "[Cloud Credentials] project: contradicts application_credential_id",
            ],
        ),
        "no-password": (
            {"credentials": {**PASSWORD, "password": ""}},
            ["[Cloud Credentials] password: is missing: username needs it"],
        ),
        "no-project": (
            {"credentials": {**PASSWORD, "project": ""}},
            ["[Cloud Credentials] project: is missing: its name, or its id as project_id"],
        ),
        "project-twice": (
            {"credentials": {**PASSWORD, "project_id": "p"}},
            ["[Cloud Credentials] project_id: contradicts project: give one of them"],
        ),
        "plain-http": (
            {"credentials": {**CREDENTIAL, "auth_url": "http://keystone.example.org/v3"}},
            ["[Cloud Credentials] auth_url = http://keystone.example.org/v3: plain http"],
        ),
        "odd-values": (
            {"credentials": {**CREDENTIAL, "interface": "secret", "timeout": "0"}},
            [
                "[Cloud Credentials] interface = secret: not one of public, internal, admin",
                "[Cloud Credentials] timeout = 0: not a number above zero",
            ],
        ),
        "create": (
            {
                "create": {
                    "server_group": "apart",
                    "hint:group": "apart",
                    "hint:query": " ",
                    "config_drive": "perhaps",
                    "boot_volume_gb": "1.5",
                }
            },
            [
                "[Cloud Create] boot_volume_gb = 1.5: not a whole number",
                "[Cloud Create] image: is missing",
                "[Cloud Create] hint:group: contradicts server_group: give one of them",
                "[Cloud Create] hint:query: is empty; leave it out",
                "[Cloud Create] config_drive = perhaps: neither yes nor no",
            ],
        ),
        "volume": (
            {"create": {**IMAGE, "boot_volume_type": "ssd"}},
            ["[Cloud Create] boot_volume_type = ssd: needs boot_volume_gb"],
        ),
        "metadata": (
            {"create": {**IMAGE, "metadata:nodemanager-pool": "x", "metadata:a": 256 * "x"}},
            [
                "[Cloud Create] metadata:nodemanager-pool: nodemanager itself sets this one",
                "[Cloud Create] metadata:a: longer than nova's 255 characters",
            ],
        ),
        "metadata-names": (
            {"listing": {"metadata:größe": "x"}, "create": {**IMAGE, "metadata:a/b": "x"}},
            [
                "[Cloud List] metadata:größe: nova takes only letters of ASCII",
                "[Cloud Create] metadata:a/b: nova takes only letters of ASCII",
            ],
        ),
    },
)
def test_every_problem_is_told_at_once(sections: dict[str, Any], told: list[str]) -> None:
    found = problems(**sections)
    assert len(found) == len(told)
    for line in told:
        assert any(one.startswith(line) for one in found), (line, found)
        assert "a-secret" not in "".join(found)


def sizes_in(tmp_path: Path, change: Callable[[str], str]) -> tuple[Size, ...]:
    """The sizes by the sample file with that change; nothing may be asked of the cloud."""
    path = tmp_path / "pool.cfg"
    path.write_text(change((ETC / "openstack.cfg").read_text(encoding="utf-8")), encoding="utf-8")
    config = load(path, environ={}, accepts=adapters.accepted_keys)
    cloud = adapters.build_cloud(config, ManualClock())
    try:
        return sizes_of(config, cloud)
    finally:
        cloud.close()


def test_a_manager_learns_its_sizes_without_its_cloud(tmp_path: Path) -> None:
    sizes = {size.name: size for size in sizes_in(tmp_path, lambda text: text)}
    assert set(sizes) == {"m1.small", "m1.large"}
    assert (sizes["m1.large"].cores, sizes["m1.large"].ram_mb) == (4, 8192)


def test_a_size_that_the_file_does_not_describe_is_told_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        sizes_in(tmp_path, lambda text: text.replace("ram = 8192\n", ""))
    (problem,) = caught.value.problems
    assert "[Size m1.large] instance_type = m1.large: cores, ram and price must be given" in problem
    assert re.match(r".*pool\.cfg:\d+: ", problem)


def test_a_file_without_sizes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        sizes_in(
            tmp_path, lambda text: re.sub(r"^\[Size.*?(?=^\[Records)", "", text, flags=re.S | re.M)
        )
    (problem,) = caught.value.problems
    assert "[Size NAME]: is missing: openstack boots only sizes that the file has" in problem


def test_a_secret_may_be_in_a_file_of_its_own(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("from-the-file\n", encoding="utf-8")
    path = tmp_path / "pool.cfg"
    text = (ETC / "openstack.cfg").read_text(encoding="utf-8")
    path.write_text(
        text.replace(
            "application_credential_secret = SECRET",
            f"application_credential_secret_file = {secret}",
        ),
        encoding="utf-8",
    )
    config = load(path, environ={}, accepts=adapters.accepted_keys)
    assert config.cloud_credentials["application_credential_secret"] == "from-the-file"
    assert "from-the-file" in from_config.secrets_of(config)


CLOUDS = """
clouds:
  horizon:
    auth:
      auth_url: https://keystone.example.org:5000/v3
      application_credential_id: an-id
      application_credential_secret: a-secret
    region_name: R1
    interface: internal
    auth_type: v3applicationcredential
    identity_api_version: 3
  user:
    auth:
      auth_url: https://keystone.example.org:5000/v3
      username: manager
      password: a-secret
      project_name: compute
      user_domain_name: people
      project_domain_name: projects
    cacert: /etc/ca.pem
  odd:
    auth: {auth_url: "https://keystone.example.org", passcode: t, username: u,
           password: a-secret, project_id: p}
  downloaded:
    auth:
      auth_url: https://keystone.example.org:5000
      username: "alice"
      password: "a-secret"
      project_id: 8538a3f13f9541b28c2620eb19065e45
      project_name: "demo"
      user_domain_name: "Default"
    region_name: "RegionOne"
    interface: "public"
    identity_api_version: 3
  devstack:
    auth: {auth_url: "https://keystone.example.org/identity", password: a-secret,
           project_name: demo, project_domain_id: default, username: demo, user_domain_id: default}
    identity_api_version: '3'
    region_name: RegionOne
    volume_api_version: '3'
  vendor:
    profile: rackspace
    auth: {username: u, password: a-secret, project_id: p}
  broken: [1]
"""


@pytest.fixture
def clouds(tmp_path: Path) -> str:
    path = tmp_path / "clouds.yaml"
    path.write_text(CLOUDS, encoding="utf-8")
    return str(path)


def test_a_cloud_of_clouds_yaml_has_what_the_section_does_not_give(clouds: str) -> None:
    access, _, _ = read({"cloud": "horizon", "clouds_yaml": clouds})
    assert sent_by(access.signs_in) == sent_by(read(CREDENTIAL)[0].signs_in)
    assert (str(access.auth_url), access.region, access.interface) == (
        "https://keystone.example.org:5000/v3",
        "R1",
        "internal",
    )
    own, _, _ = read({"cloud": "user", "clouds_yaml": clouds, "region": "R2"})
    assert (own.region, own.trust) == ("R2", "/etc/ca.pem")
    scope = sent_by(own.signs_in)["scope"]
    assert scope == {"project": {"name": "compute", "domain": {"name": "projects"}}}


@pytest.mark.parametrize("cloud", ["user", "downloaded", "devstack"])
def test_a_cloud_signs_in_as_openstacks_own_library_does(clouds: str, cloud: str) -> None:
    """CL1: Horizon's file has the project's id beside its name, DevStack's the domains' ids."""
    # It takes long to import.
    from openstack.config import OpenStackConfig

    region = OpenStackConfig(config_files=[clouds]).get_one(cloud=cloud)
    # The version is found by asking; the rest is what every sign-in sends.
    theirs = region.get_auth().create_plugin(Session(), (3, 0), "https://keystone/v3")
    ours = read({"cloud": cloud, "clouds_yaml": clouds})[0].signs_in
    assert sent_by(ours) == sent_by(theirs)


def test_a_trust_takes_the_place_of_the_project() -> None:
    trusted = {key: text for key, text in PASSWORD.items() if key != "project"}
    access, _, _ = read({**trusted, "trust_id": "a-trust"})
    assert sent_by(access.signs_in)["scope"] == {"OS-TRUST:trust": {"id": "a-trust"}}
    assert problems(credentials={**PASSWORD, "trust_id": "a-trust"}) == [
        "[Cloud Credentials] project: contradicts trust_id: give one of them"
    ]


def test_what_the_section_gives_goes_before_the_file_whether_by_name_or_by_id(clouds: str) -> None:
    own = {"cloud": "downloaded", "clouds_yaml": clouds, "project": "ours", "domain_id": "d"}
    auth = sent_by(read(own)[0].signs_in)
    assert auth["scope"] == {"project": {"name": "ours", "domain": {"id": "d"}}}
    assert auth["identity"]["password"]["user"]["domain"] == {"id": "d"}


def test_the_usual_place_of_clouds_yaml_is_looked_at(
    clouds: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openstack_options, "PLACES", (tmp_path / "none.yaml", Path(clouds)))
    assert read({"cloud": "horizon"})[0].region == "R1"


@cases(
    ("given", "told"),
    {
        "name": ({"cloud": "horizn"}, "cloud = horizn: the file has no such cloud; it has"),
        "odd": ({"cloud": "odd"}, "cloud = odd: nodemanager does not understand its auth.passcode"),
        "profile": ({"cloud": "vendor"}, "cloud = vendor: nodemanager knows no vendor profiles"),
        "broken": ({"cloud": "broken"}, "cloud = broken: the file has no such cloud"),
        "no-cloud": ({}, "clouds_yaml = "),
        "no-file": ({"cloud": "x", "clouds_yaml": "/none"}, "clouds_yaml: there is no /none"),
        "no-yaml": ({"cloud": "x", "clouds_yaml": __file__}, "clouds_yaml = "),
    },
)
def test_what_is_wrong_with_clouds_yaml_is_told_without_its_values(
    clouds: str, given: dict[str, str], told: str
) -> None:
    found = problems(credentials={"clouds_yaml": clouds, **given})
    assert any(line.startswith(f"[Cloud Credentials] {told}") for line in found), found
    assert "a-secret" not in "".join(found)
