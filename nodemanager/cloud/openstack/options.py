"""The pass-through sections of an OpenStack file, read into settings.

doc/openstack.rst has a row for each key. Reports every problem at once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nodemanager.cloud.cloud_config import CloudConfig
from nodemanager.cloud.endpoint import Endpoint
from nodemanager.cloud.openstack.clouds import NAMED, with_cloud
from nodemanager.cloud.section_reader import CREATE, CREDENTIALS, LIST, SectionReader, Sections
from nodemanager.cloud.tags import OUR_TAGS

METADATA = "metadata:"
METADATA_KEYS = frozenset({f"{METADATA}?*"})
METADATA_NAME = re.compile(r"[a-zA-Z0-9\-_:. ]+")
"""Nova refuses a create with any other name."""
LONGEST_METADATA = 255
INTERFACES = ("public", "internal", "admin")
AUTO, NONE = "auto", "none"
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)

ACCEPTED: Mapping[str, frozenset[str]] = {
    CREDENTIALS: frozenset(
        {
            "application_credential_id",
            "application_credential_secret",
            "auth_url",
            "ca_bundle",
            "cloud",
            "clouds_yaml",
            "domain",
            "domain_id",
            "insecure",
            "interface",
            "password",
            "project",
            "project_domain",
            "project_domain_id",
            "project_id",
            "region",
            "timeout",
            "user_id",
            "username",
        }
    ),
    LIST: METADATA_KEYS,
    CREATE: frozenset(
        {
            "availability_zone",
            "boot_volume_gb",
            "boot_volume_type",
            "config_drive",
            "image",
            "key_name",
            "networks",
            "ping_host",
            "security_groups",
            "user_data",
            *METADATA_KEYS,
        }
    ),
}
"""The keys that each section takes; `*` and `?` in them are wildcards, as in fnmatch."""


@dataclass(frozen=True, slots=True)
class Access:
    """`[Cloud Credentials]`. `auth` is what keystone takes; `auth_url` ends with /v3."""

    auth_url: Endpoint
    region: str | None
    interface: str
    timeout: float
    trust: str | bool | None
    insecure: bool
    auth: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Template:
    """`[Cloud Create]`: the settings of every new node. `networks` is as nova takes it.

    Without `boot_volume_gb` a node boots from its host's disk.
    """

    image: str
    networks: str | tuple[str, ...] = AUTO
    security_groups: tuple[str, ...] = ()
    key_name: str | None = None
    availability_zone: str | None = None
    config_drive: bool = False
    boot_volume_gb: int | None = None
    boot_volume_type: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)


def read(config: CloudConfig, timeout: float) -> tuple[Access, dict[str, str], Template]:
    """The settings of the three sections; the dict is the metadata that `[Cloud List]` asks for.

    Raises ConfigError with every problem of the three sections.
    """
    given = Sections.of(config)
    access = _access(given.credentials, timeout)
    wanted = _metadata(given.listing)
    template = _template(given.create, wanted)
    for place, option in config.places.items():
        if UUID.fullmatch(place):
            given.create.problems.append(
                f"{option}: {place} is an id, and a place is an availability zone's name; "
                "a network is no place, and goes into [Cloud Create] networks"
            )
    given.check()
    return access, wanted, template


def _access(given: SectionReader, timeout: float) -> Access:
    given = with_cloud(given)
    insecure = given.flag("insecure")
    interface = given.text("interface") or "public"
    if interface not in INTERFACES:
        given.wrong("interface", f"not one of {', '.join(INTERFACES)}", interface)
    return Access(
        auth_url=_auth_url(given, insecure),
        region=given.text("region"),
        interface=interface,
        timeout=given.number("timeout") or timeout,
        trust=False if insecure else given.text("ca_bundle"),
        insecure=insecure,
        auth=_auth(given),
    )


def _auth_url(given: SectionReader, insecure: bool) -> Endpoint:
    text = given.text("auth_url")
    if text is None:
        given.wrong("auth_url", "is missing: keystone's URL, as `openstack catalog list` shows it")
        return Endpoint("", 443)
    # Some clouds name it with the version, others without.
    text = re.sub(r"/v3/?$", "", text.rstrip("/")) + "/v3"
    try:
        return Endpoint.parse(text, insecure)
    except ValueError as error:
        given.wrong("auth_url", str(error), given.text("auth_url"))
        return Endpoint("", 443)


def _auth(given: SectionReader) -> dict[str, Any]:
    """The `auth` object of keystone's POST /v3/auth/tokens."""
    by_credential = ("application_credential_id", "application_credential_secret")
    by_password = ("password", *NAMED, *NAMED.values())
    if any(given.text(key) for key in by_credential):
        _all_given(given, by_credential)
        for key in by_password:
            if given.text(key):
                given.wrong(key, "contradicts application_credential_id, which has a project")
        secret = {"id": given.text(by_credential[0]), "secret": given.values.get(by_credential[1])}
        return _identity("application_credential", secret)
    for name, id in NAMED.items():
        if given.text(name) and given.text(id):
            given.wrong(id, f"contradicts {name}: give one of them")
    who = "user_id" if given.text("user_id") else "username"
    if not given.text(who) and not given.text("password"):
        given.wrong(
            "application_credential_id",
            "is missing, with its secret; or else give username, password and project",
        )
        return {}
    _all_given(given, (who, "password"))
    domain = _named(given, "domain") or {"name": "Default"}
    user: dict[str, Any] = {**_named(given, "username"), "password": given.values.get("password")}
    if "name" in user:
        user["domain"] = domain
    project: dict[str, Any] = {**_named(given, "project")}
    if not project:
        given.wrong("project", "is missing: its name, or its id as project_id")
    if "name" in project:
        project["domain"] = _named(given, "project_domain") or domain
    return {**_identity("password", {"user": user}), "scope": {"project": project}}


def _named(given: SectionReader, name: str) -> dict[str, str]:
    """What keystone is told of a user, project or domain: its id or its name; empty if neither."""
    id_text, text = given.text(NAMED[name]), given.text(name)
    if id_text is not None:
        return {"id": id_text}
    return {} if text is None else {"name": text}


def _identity(method: str, given: Mapping[str, Any]) -> dict[str, Any]:
    return {"identity": {"methods": [method], method: given}}


def _all_given(given: SectionReader, keys: tuple[str, ...]) -> None:
    for key in keys:
        if not given.text(key):
            others = " and ".join(other for other in keys if other != key)
            given.wrong(key, f"is missing: {others} needs it")


def _template(given: SectionReader, wanted: Mapping[str, str]) -> Template:
    image = given.text("image")
    if image is None:
        given.wrong("image", "is missing: the name or id of the image that nodes boot from")
    gigabytes, kind = given.number("boot_volume_gb"), given.text("boot_volume_type")
    if gigabytes is not None and gigabytes != int(gigabytes):
        given.wrong("boot_volume_gb", "not a whole number", given.text("boot_volume_gb"))
    if kind is not None and given.text("boot_volume_gb") is None:
        given.wrong("boot_volume_type", "needs boot_volume_gb", kind)
    groups = (name.strip() for name in (given.text("security_groups") or "").split(","))
    return Template(
        image=image or "",
        networks=_networks(given),
        security_groups=tuple(name for name in groups if name),
        key_name=given.text("key_name"),
        availability_zone=given.text("availability_zone"),
        config_drive=given.flag("config_drive"),
        boot_volume_gb=None if gigabytes is None else int(gigabytes),
        boot_volume_type=kind,
        # New nodes match [Cloud List].
        metadata={**wanted, **_metadata(given)},
    )


def _networks(given: SectionReader) -> str | tuple[str, ...]:
    text = given.text("networks") or AUTO
    if text in (AUTO, NONE):
        return text
    networks = tuple(name.strip() for name in text.split(",") if name.strip())
    for network in networks:
        if not UUID.fullmatch(network):
            given.wrong("networks", "no id; `openstack network list` shows them", network)
    return networks


def _metadata(given: SectionReader) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in given.values.items():
        name = key.removeprefix(METADATA)
        if not key.startswith(METADATA):
            continue
        if name in OUR_TAGS:
            given.wrong(key, "nodemanager itself sets this one")
        if max(len(name), len(value.strip())) > LONGEST_METADATA:
            given.wrong(key, f"longer than nova's {LONGEST_METADATA} characters")
        if not METADATA_NAME.fullmatch(name):
            given.wrong(
                key, "nova takes only letters of ASCII, digits, spaces and - _ : . in a name"
            )
        found[name] = value.strip()
    return found
