"""The configuration files of the OpenStack services: the least with which they work together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

REGION = "RegionOne"
SERVICE_PROJECT = "service"
HOST = "compute-host"
MOST_SERVERS = 5
"""Nova's `max_limit`: few, so that the adapter's paging has work."""

Sections = Mapping[str, Mapping[str, object]]

APIS: Mapping[str, tuple[str, str]] = {
    "keystone": ("identity", ""),
    "placement": ("placement", ""),
    "glance": ("image", ""),
    "neutron": ("network", ""),
    "cinder": ("volumev3", "/v3"),
    "nova": ("compute", "/v2.1"),
}
"""By project: its type in the catalog, and the path of its endpoint."""

DATABASES = ("keystone", "placement", "glance", "neutron", "cinder", "nova_api", "nova", "cell0")


@dataclass(frozen=True)
class Places:
    """Where each service finds the others. `databases` are SQLAlchemy's URLs."""

    home: Path
    venv: Path
    ports: Mapping[str, int]
    databases: Mapping[str, str] = field(repr=False)
    password: str = field(repr=False)

    def url(self, project: str) -> str:
        return f"http://127.0.0.1:{self.ports[project]}{APIS[project][1]}"

    @property
    def broker(self) -> str:
        return f"rabbit://openstack:{self.password}@127.0.0.1:{self.ports['rabbitmq']}/"

    def as_user(self, user: str) -> dict[str, object]:
        """How a service logs in to keystone."""
        return {
            "auth_type": "password",
            "auth_url": self.url("keystone"),
            "username": user,
            "password": self.password,
            "user_domain_name": "Default",
            "project_name": SERVICE_PROJECT,
            "project_domain_name": "Default",
            "region_name": REGION,
        }

    def common(self, project: str) -> dict[str, Mapping[str, object]]:
        """What all of them need but keystone. Keystone checks tokens and access rules."""
        own = self.home / project
        return {
            "DEFAULT": {
                "state_path": own,
                "transport_url": self.broker,
                "rpc_response_timeout": 30,
            },
            "database": self.database(project),
            "keystone_authtoken": {
                **self.as_user(project),
                "www_authenticate_uri": self.url("keystone"),
                "service_type": APIS[project][0],
                "service_token_roles_required": "true",
                # Seconds, so that a revoked token is refused soon.
                "token_cache_time": 2,
            },
            "oslo_concurrency": {"lock_path": own / "locks"},
            "oslo_messaging_notifications": {"driver": "noop"},
        }

    def database(self, name: str) -> dict[str, object]:
        return {"connection": self.databases[name], "max_pool_size": 5, "max_overflow": 20}


def merged(*layers: Sections) -> Sections:
    whole: dict[str, dict[str, object]] = {}
    for layer in layers:
        for name, options in layer.items():
            whole.setdefault(name, {}).update(options)
    return whole


def keystone(at: Places) -> Sections:
    return {
        "database": at.database("keystone"),
        "fernet_tokens": {"key_repository": at.home / "keystone/fernet"},
        "credential": {"key_repository": at.home / "keystone/credentials"},
        "oslo_messaging_notifications": {"driver": "noop"},
    }


def placement(at: Places) -> Sections:
    common = at.common("placement")
    return {
        "placement_database": common["database"],
        "keystone_authtoken": common["keystone_authtoken"],
        "api": {"auth_strategy": "keystone"},
    }


def glance(at: Places) -> Sections:
    return merged(
        at.common("glance"),
        {
            "DEFAULT": {"enabled_backends": "files:file"},
            "glance_store": {"default_backend": "files"},
            "files": {"filesystem_store_datadir": at.home / "glance/images"},
            "paste_deploy": {
                "flavor": "keystone",
                "config_file": at.venv / "etc/glance/glance-api-paste.ini",
            },
        },
    )


def neutron(at: Places) -> Sections:
    """Its driver for Open vSwitch binds ports on hosts with an agent: see Stack._agent."""
    return merged(
        at.common("neutron"),
        {
            "DEFAULT": {
                "core_plugin": "ml2",
                "service_plugins": "router",
                "api_paste_config": at.venv / "etc/neutron/api-paste.ini",
                # Seconds; its heart beats once.
                "agent_down_time": 1_000_000,
                "notify_nova_on_port_status_changes": "false",
                "notify_nova_on_port_data_changes": "false",
                "pagination_max_limit": MOST_SERVERS,
            },
            "ml2": {
                "type_drivers": "local,flat",
                "project_network_types": "local",
                "mechanism_drivers": "openvswitch",
            },
            "ml2_type_flat": {"flat_networks": "*"},
            "nova": at.as_user("nova"),
            "quotas": {"quota_port": -1},
        },
    )


def cinder(at: Places) -> Sections:
    """Volumes are rows of cinder's database: its own fake driver stores nothing."""
    return merged(
        at.common("cinder"),
        {
            "DEFAULT": {
                "api_paste_config": at.venv / "etc/cinder/api-paste.ini",
                "resource_query_filters_file": at.venv / "etc/cinder/resource_filters.json",
                "enabled_backends": "fake",
                "my_ip": "127.0.0.1",
                "host": HOST,
                "osapi_max_limit": MOST_SERVERS,
            },
            "fake": {
                "volume_driver": "cinder.tests.fake_driver.FakeLoggingVolumeDriver",
                "volume_backend_name": "fake",
            },
            "service_user": {"send_service_user_token": "true", **at.as_user("cinder")},
            "nova": at.as_user("cinder"),
        },
    )


def nova(at: Places) -> Sections:
    user = at.as_user("nova")
    return merged(
        at.common("nova"),
        {
            "DEFAULT": {
                "compute_driver": "fake.FakeDriver",
                "host": HOST,
                "my_ip": "127.0.0.1",
            },
            "api": {"max_limit": MOST_SERVERS, "auth_strategy": "keystone"},
            "api_database": at.database("nova_api"),
            "wsgi": {"api_paste_config": at.venv / "etc/nova/api-paste.ini"},
            "placement": user,
            "service_user": {"send_service_user_token": "true", **user},
            "neutron": user,
            "cinder": {**user, "catalog_info": "volumev3::publicURL"},
            "glance": user,
            "conductor": {"workers": 1},
            "scheduler": {"workers": 1},
            "quota": {"cores": -1, "instances": -1, "ram": -1},
        },
    )


FILES = {
    "keystone": keystone,
    "placement": placement,
    "glance": glance,
    "neutron": neutron,
    "cinder": cinder,
    "nova": nova,
}
