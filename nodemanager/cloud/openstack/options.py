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
from nodemanager.cloud.openstack.clouds import AUTH, NAMED, with_cloud
from nodemanager.cloud.section_reader import CREATE, CREDENTIALS, LIST, SectionReader, Sections
from nodemanager.cloud.tags import OUR_TAGS

METADATA = "metadata:"
METADATA_KEYS = frozenset({f"{METADATA}?*"})
METADATA_NAME = re.compile(r"[a-zA-Z0-9\-_:. ]+")
"""Nova refuses a create with any other name."""
LONGEST_METADATA = 255
BY_CREDENTIAL = ("application_credential_id", "application_credential_secret")
HINT = "hint:"
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
            "trust_id",
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
            "server_group",
            "user_data",
            f"{HINT}?*",
            *METADATA_KEYS,
        }
    ),
}
"""The keys that each section takes; `*` and `?` in them are wildcards, as in fnmatch."""


@dataclass(frozen=True, slots=True)
class Access:
    """`[Cloud Credentials]`. `auth_url` ends with /v3, `signs_in` is keystoneauth1's plugin."""

    auth_url: Endpoint
    region: str | None
    interface: str
    timeout: float
    trust: str | bool | None
    insecure: bool
    signs_in: Any = field(repr=False)


@dataclass(frozen=True, slots=True)
class Template:
    """`[Cloud Create]`: the settings of every new node.

    `networks` and `server_group` are ids or names, which the adapter looks up. Without
    `boot_volume_gb` a node boots from its host's disk. `hints` are for nova's scheduler.
    """

    image: str
    networks: str | tuple[str, ...] = AUTO
    security_groups: tuple[str, ...] = ()
    key_name: str | None = None
    availability_zone: str | None = None
    config_drive: bool = False
    boot_volume_gb: int | None = None
    boot_volume_type: str | None = None
    server_group: str | None = None
    hints: Mapping[str, str] = field(default_factory=dict)
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
    auth_url = _auth_url(given, insecure)
    return Access(
        auth_url=auth_url,
        region=given.text("region"),
        interface=interface,
        timeout=given.number("timeout") or timeout,
        trust=False if insecure else given.text("ca_bundle"),
        insecure=insecure,
        signs_in=_signs_in(given, str(auth_url)),
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


def _signs_in(given: SectionReader, auth_url: str) -> Any:
    """keystoneauth1's plugin for the section; None where anything is wrong."""
    # The manual's generators read this module's tables without that library.
    from keystoneauth1.identity import v3

    # A secret is taken as the file has it, with its spaces.
    told = {key: given.values[ours] for key, ours in AUTH.items() if given.text(ours)}
    told.pop("auth_url", None)
    if any(given.text(key) for key in BY_CREDENTIAL):
        _all_given(given, BY_CREDENTIAL)
        for key, ours in AUTH.items():
            if key in told and ours not in BY_CREDENTIAL:
                given.wrong(ours, "contradicts application_credential_id, which has a project")
                del told[key]
        return None if given.problems else v3.ApplicationCredential(auth_url, **told)
    for name, id in (*NAMED.items(), *(("trust_id", key) for key in ("project", "project_id"))):
        if given.text(name) and given.text(id):
            given.wrong(id, f"contradicts {name}: give one of them")
    who = "user_id" if given.text("user_id") else "username"
    if not given.text(who) and not given.text("password"):
        given.wrong(
            "application_credential_id",
            "is missing, with its secret; or else give username, password and project",
        )
        return None
    _all_given(given, (who, "password"))
    if not any(given.text(key) for key in ("project", "project_id", "trust_id")):
        given.wrong("project", "is missing: its name, or its id as project_id")
    if given.problems:
        return None
    user = _domain(told, "user") or {"user_domain_name": "Default"}
    project = {key.replace("user", "project"): text for key, text in user.items()}
    return v3.Password(auth_url, **{**user, **(_domain(told, "project") or project), **told})


def _domain(told: Mapping[str, str], of: str) -> dict[str, str]:
    """The domain that was told of a `user` or `project`, in keystoneauth1's words."""
    return {key: told[key] for key in (f"{of}_domain_id", f"{of}_domain_name") if key in told}


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
        networks=_networks(given.text("networks") or AUTO),
        security_groups=tuple(name for name in groups if name),
        key_name=given.text("key_name"),
        availability_zone=given.text("availability_zone"),
        config_drive=given.flag("config_drive"),
        boot_volume_gb=None if gigabytes is None else int(gigabytes),
        boot_volume_type=kind,
        server_group=given.text("server_group"),
        hints=_hints(given),
        # New nodes match [Cloud List].
        metadata={**wanted, **_metadata(given)},
    )


def _networks(text: str) -> str | tuple[str, ...]:
    if text in (AUTO, NONE):
        return text
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _hints(given: SectionReader) -> dict[str, str]:
    found = {key: given.text(key) for key in given.values if key.startswith(HINT)}
    if given.text("server_group") and f"{HINT}group" in found:
        given.wrong(f"{HINT}group", "contradicts server_group: give one of them")
    for key, text in found.items():
        if text is None:
            given.wrong(key, "is empty; leave it out")
    return {key.removeprefix(HINT): text for key, text in found.items() if text is not None}


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
