"""Who and what is in the cloud: the services' users and endpoints, then a project like anybody's.

By OpenStack's own SDK, as the administrator.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.live.harness import TREE
from tests.openstack.settings import APIS, REGION, SERVICE_PROJECT, Places

PROJECT, USER, DOMAIN = "compute", "manager", "Default"
IMAGE = "node-image"
RULES = ("openstack.json", "openstack-adopt.json")
"""In etc/iam: what the application credential of the tests may do, and nothing else."""


@dataclass(frozen=True)
class Cloud:
    """What the tests need of the running cloud; it goes to them as JSON.

    `image`, `network` and `outside` are ids, `nova_database` is libpq's URL of cell1's.
    `compute_group` is the process group of nova's compute service.
    """

    auth_url: str
    project_id: str
    credential: str
    password: str = field(repr=False)
    credential_secret: str = field(repr=False)
    admin_password: str = field(repr=False)
    image: str
    network: str
    outside: str
    compute_group: int
    postgres: str
    nova_database: str

    def connection(self) -> Any:
        """The SDK as the project's member."""
        return _connected(self.auth_url, USER, self.password, PROJECT)

    def admin(self) -> Any:
        """The SDK as the administrator, in the same project."""
        return _connected(self.auth_url, "admin", self.admin_password, PROJECT)


def _connected(auth_url: str, user: str, password: str, project: str) -> Any:
    # It takes long to import: not where tests are only collected.
    from openstack.connection import Connection

    return Connection(
        auth={
            "auth_url": auth_url,
            "username": user,
            "password": password,
            "project_name": project,
            "user_domain_name": DOMAIN,
            "project_domain_name": DOMAIN,
        },
        region_name=REGION,
    )


def register(at: Places) -> None:
    """The users of the services, and the catalog."""
    identity = _connected(at.url("keystone"), "admin", at.password, "admin").identity
    domain = identity.find_domain(DOMAIN).id
    project = identity.create_project(name=SERVICE_PROJECT, domain_id=domain)
    roles = [identity.find_role(name) for name in ("admin", "service")]
    for name, (kind, _) in APIS.items():
        if name == "keystone":
            continue
        user = identity.create_user(name=name, password=at.password, domain_id=domain)
        for role in roles:
            identity.assign_project_role_to_user(project, user, role)
        service = identity.create_service(name=name, type=kind)
        for interface in ("public", "internal"):
            identity.create_endpoint(
                service_id=service.id,
                interface=interface,
                region_id=REGION,
                url=at.url(name),
            )


def has_host(at: Places) -> bool:
    """Whether a compute host has told placement what it offers."""
    admin = _connected(at.url("keystone"), "admin", at.password, "admin")
    return any(True for _ in admin.placement.resource_providers())


def settle(at: Places) -> dict[str, Any]:
    """A project with a member, an image, a network, flavors, and an application credential."""
    admin = _connected(at.url("keystone"), "admin", at.password, "admin")
    identity = admin.identity
    domain = identity.find_domain(DOMAIN).id
    project = identity.create_project(name=PROJECT, domain_id=domain)
    password = secrets.token_hex(16)
    user = identity.create_user(name=USER, password=password, domain_id=domain)
    identity.assign_project_role_to_user(project, user, identity.find_role("member"))
    me = identity.find_user("admin")
    identity.assign_project_role_to_user(project, me, identity.find_role("admin"))
    for name, cores, ram, disk, ephemeral in (
        ("m1.small", 1, 2048, 20, 0),
        ("m1.large", 4, 8192, 80, 100),
    ):
        admin.compute.create_flavor(name=name, vcpus=cores, ram=ram, disk=disk, ephemeral=ephemeral)
    image = admin.image.create_image(
        name=IMAGE,
        container_format="bare",
        disk_format="raw",
        visibility="public",
        data=b"no machine boots from this",
    )
    outside = admin.network.create_network(
        name="outside",
        is_router_external=True,
        provider_network_type="flat",
        provider_physical_network="outside",
    )
    admin.network.create_subnet(network_id=outside.id, ip_version=4, cidr="203.0.113.0/24")
    network = admin.network.create_network(name="inside", project_id=project.id)
    subnet = admin.network.create_subnet(
        network_id=network.id, project_id=project.id, ip_version=4, cidr="10.0.0.0/16"
    )
    router = admin.network.create_router(
        name="way-out", project_id=project.id, external_gateway_info={"network_id": outside.id}
    )
    admin.network.add_interface_to_router(router, subnet_id=subnet.id)
    member = _connected(at.url("keystone"), USER, password, PROJECT)
    secret = secrets.token_hex(16)
    credential = member.identity.create_application_credential(
        user, "nodemanager", secret=secret, access_rules=rules()
    )
    return {
        "auth_url": at.url("keystone"),
        "project_id": project.id,
        "password": password,
        "credential": credential.id,
        "credential_secret": secret,
        "admin_password": at.password,
        "image": image.id,
        "network": network.id,
        "outside": outside.id,
    }


def rules() -> list[Mapping[str, str]]:
    """The shipped access rules."""
    files = [TREE / "etc/iam" / name for name in RULES]
    return [rule for file in files for rule in json.loads(file.read_text(encoding="utf-8"))]


def read(path: Path) -> Cloud:
    return Cloud(**json.loads(path.read_text(encoding="utf-8")))
