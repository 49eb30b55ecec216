"""The options of an OpenStack file's own sections, and the settings that they are read into.

Reports every problem at once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nodemanager.cloud import declared
from nodemanager.cloud.declared import (
    CREATE,
    CREDENTIALS,
    LIST,
    CloudConfig,
    CloudOption,
    Endpoint,
    SectionReader,
    Sections,
    one_of,
    option,
    switch,
)
from nodemanager.cloud.tags import OUR_TAGS

PLACES = (Path("~/.config/openstack/clouds.yaml"), Path("/etc/openstack/clouds.yaml"))
"""Where OpenStack's own client looks, but for the current directory: a service has none."""

AUTH: Mapping[str, str] = {
    "application_credential_id": "application_credential_id",
    "application_credential_secret": "application_credential_secret",
    "auth_url": "auth_url",
    "password": "password",
    "project_domain_id": "project_domain_id",
    "project_domain_name": "project_domain",
    "project_id": "project_id",
    "project_name": "project",
    "trust_id": "trust_id",
    "user_domain_id": "domain_id",
    "user_domain_name": "domain",
    "user_id": "user_id",
    "username": "username",
}
"""keystoneauth1's words for what signs in, which a clouds.yaml has, too, and our options."""
NAMED: Mapping[str, str] = {
    "project": "project_id",
    "project_domain": "project_domain_id",
    "domain": "domain_id",
    "username": "user_id",
}
"""What may be given by its name or by its id, by the option of the name."""
TOP: Mapping[str, str] = {"cacert": "ca_bundle", "interface": "interface", "region_name": "region"}


def with_cloud(given: SectionReader) -> SectionReader:
    """The section with what the cloud that it names says; the section's own values go first.

    No problem that is told here has a value of the file in it.
    """
    name, path = given.text("cloud"), given.text("clouds_yaml")
    if name is None:
        if path is not None:
            given.wrong("clouds_yaml", "needs cloud, the name of one in that file", path)
        return given
    found = _read(given, Path(path) if path else None)
    cloud = found.get(name) if found is not None else {}
    if not isinstance(cloud, dict):
        known = ", ".join(sorted(map(str, found or {}))) or "none"
        given.wrong("cloud", f"the file has no such cloud; it has {known}", name)
        cloud = {}
    auth = cloud.get("auth") or {}
    if not isinstance(auth, dict):
        given.wrong("cloud", "its auth is no mapping", name)
        auth = {}
    for key in sorted(set(map(str, auth)) - AUTH.keys()):
        given.wrong("cloud", f"nodemanager does not understand its auth.{key}", name)
    if "profile" in cloud:
        given.wrong("cloud", "nodemanager knows no vendor profiles; write auth_url here", name)
    fields = {ours: str(auth[key]) for key, ours in AUTH.items() if auth.get(key)}
    fields |= {ours: str(cloud[key]) for key, ours in TOP.items() if cloud.get(key)}
    if cloud.get("verify") is False:
        fields["insecure"] = "yes"
    own = {key: value for key, value in given.values.items() if value.strip()}
    return SectionReader(
        given.section, {**_named_once(fields, own), **own}, given.problems, given.options
    )


def _named_once(fields: dict[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """What the file told, without the names of what it tells the id of, too, as the one that
    Horizon hands out does; and without what the section names itself."""
    left_out: set[str] = set()
    for name_key, id_key in NAMED.items():
        if id_key in fields:
            left_out.add(name_key)
        if name_key in own or id_key in own:
            left_out |= {name_key, id_key}
    return {key: value for key, value in fields.items() if key not in left_out}


def _read(given: SectionReader, path: Path | None) -> dict[Any, Any] | None:
    """The clouds of the file; None where it can't be read, which was told."""
    # Only installations that have such a file need it. It ships no types.
    import yaml  # type: ignore[import-untyped]

    places = [place.expanduser() for place in PLACES] if path is None else [path]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        given.wrong("clouds_yaml", f"there is no {' or '.join(map(str, places))}")
        return None
    try:
        clouds = yaml.safe_load(found.read_text(encoding="utf-8"))["clouds"]
    except OSError as error:
        given.wrong("clouds_yaml", f"can't be read: {error.strerror}", str(found))
        return None
    except (yaml.YAMLError, UnicodeDecodeError, KeyError, TypeError):
        given.wrong("clouds_yaml", "is no YAML file with a mapping `clouds`", str(found))
        return None
    return clouds if isinstance(clouds, dict) else {}


METADATA = "metadata:"
METADATA_NAME = re.compile(r"[a-zA-Z0-9\-_:. ]+")
"""Nova refuses a create with any other name."""
LONGEST_METADATA = 255
BY_CREDENTIAL = ("application_credential_id", "application_credential_secret")
HINT = "hint:"
AUTO, NONE = "auto", "none"
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def _networks(text: str) -> str | tuple[str, ...]:
    if text in (AUTO, NONE):
        return text
    return declared.names(text)


@dataclass(frozen=True, slots=True)
class Credentials:
    """`[Cloud Credentials]` as the file has it."""

    auth_url: str | None = option(str, "https://keystone.example.org:5000")
    """The URL of keystone, the cloud's identity service, with or without /v3. Must be given, here
    or in clouds.yaml. Plain http is for loopback, unless insecure."""
    cloud: str | None = option(str, "example")
    """The name of a cloud in clouds.yaml, which then has what is not given here. Of a name and an
    id of the same thing the id counts; secure.yaml and vendor profiles are not read."""
    clouds_yaml: str | None = option(str, "/etc/openstack/clouds.yaml")
    """The path of that file; by default openstack/clouds.yaml in ~/.config, then in /etc."""
    region: str | None = option(str, "RegionOne")
    """The region to run nodes in; may be left out where the catalog has only one."""
    application_credential_id: str | None = option(str, "0123456789abcdef0123456789abcdef")
    """The application credential, which belongs to one project. Better than a password: it can be
    limited by access rules, and is withdrawn on its own."""
    application_credential_secret: str | None = option(str, "SECRET")
    """Its secret; application_credential_secret_file = PATH reads it from a file."""
    username: str | None = option(str, "nodemanager")
    """The user, instead of an application credential."""
    user_id: str | None = option(str)
    """The user's id, instead of the name."""
    password: str | None = option(str, "...")
    """The user's password; password_file = PATH reads it from a file."""
    project: str | None = option(str, "cluster")
    """The name of the project to run nodes in, for a user and password."""
    project_id: str | None = option(str)
    """Its id, instead of its name."""
    trust_id: str | None = option(str)
    """A trust to that user, instead of the project: it has the project and the roles."""
    domain: str | None = option(str, "Default")
    """The domain of user and project."""
    domain_id: str | None = option(str)
    """Its id, instead of its name."""
    project_domain: str | None = option(str)
    """The project's domain, where it is another one."""
    project_domain_id: str | None = option(str)
    """Its id, instead of its name."""
    interface: str = option(one_of("public", "internal", "admin"), default="public")
    """Which endpoints of the catalog to use: public, internal or admin."""
    timeout: float | None = option(declared.number, "60")
    """How many seconds to wait for one answer."""
    ca_bundle: str | None = option(str, "/etc/ssl/certs/example.pem")
    """A file of the certificate authorities to trust for the cloud, in place of the system's."""
    insecure: bool = switch()
    """Accept any certificate, and plain http to any host. For tests."""


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
    """`[Cloud Create]`: the settings of every new node. The adapter looks names up."""

    image: str = option(
        str,
        "node-image",
        default="",
        missing="is missing: the name or id of the image that nodes boot from",
    )
    """The name or id of the image that nodes boot from. Must be given. A name is looked up for each
    node, and exactly one active image must have it."""
    networks: str | tuple[str, ...] = option(_networks, "private", default=AUTO)
    """The nodes' networks by id or name, separated by commas; auto for the project's only one (nova
    may make one where there is none), none for no network."""
    security_groups: tuple[str, ...] = option(declared.names, "default, compute", default=())
    """The nodes' security groups by id or name, separated by commas; by default nova's."""
    key_name: str | None = option(str, "operators")
    """The name of the SSH key pair to install on nodes."""
    availability_zone: str | None = option(str, "nova")
    """The zone to place nodes in; for several, [Cloud] places. By default nova's scheduler
    chooses."""
    boot_volume_gb: int | None = option(declared.whole, "20")
    """The size of a volume for each node to boot from, in GB, where its flavor has no disk. Nova
    deletes it with the server. Without it, nodes boot from their host's disk."""
    boot_volume_type: str | None = option(str, "ssd")
    """The type of that volume."""
    server_group: str | None = option(str, "apart")
    """The server group that nodes are in, by id or name: nova places them by its policy, together
    or apart. Where no host is left for it, the size rests."""
    config_drive: bool = switch()
    """Whether nodes get their user data on a drive, beside the metadata service."""
    hints: Mapping[str, str] = field(default_factory=dict)
    """For nova's scheduler."""
    metadata: Mapping[str, str] = field(default_factory=dict)


OWN = declared.options_of(Template)
SECTIONS: Mapping[str, Mapping[str, CloudOption]] = {
    CREDENTIALS: declared.options_of(Credentials),
    LIST: {
        f"{METADATA}?*": CloudOption(
            str,
            "cluster = example",
            text="""Metadata that our nodes have beside this manager's own; every new node gets it.
                Other nodes that have all of it are counted, too.""",
        )
    },
    CREATE: {
        "ping_host": declared.PING_HOST,
        **OWN,
        f"{HINT}?*": CloudOption(
            str, "different_cell = cell1", text="A hint for nova's scheduler, sent as text."
        ),
        "user_data": declared.USER_DATA,
        f"{METADATA}?*": CloudOption(
            str,
            "owner = example",
            text="""Metadata to put on every node. Names may have ASCII letters, digits, spaces and
                - _ : .""",
        ),
    },
}


def read(config: CloudConfig, timeout: float) -> tuple[Access, dict[str, str], Template]:
    """The settings of the three sections; the dict is the metadata that `[Cloud List]` asks for.

    Raises ConfigError with every problem of the three sections.
    """
    given = Sections.of(config, SECTIONS)
    access = _access(given.credentials, timeout)
    wanted = _metadata(given.listing)
    template = _template(given.create, wanted)
    for place, named_by in config.places.items():
        if UUID.fullmatch(place):
            given.create.problems.append(
                f"{named_by}: {place} is an id, and a place is an availability zone's name; "
                "a network is no place, and goes into [Cloud Create] networks"
            )
    given.check()
    return access, wanted, template


def _access(given: SectionReader, timeout: float) -> Access:
    given = with_cloud(given)
    found = Credentials(**given.read())
    auth_url = _auth_url(given, found.insecure)
    return Access(
        auth_url=auth_url,
        region=found.region,
        interface=found.interface,
        timeout=found.timeout or timeout,
        trust=False if found.insecure else found.ca_bundle,
        insecure=found.insecure,
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
    fields = {key: given.values[ours] for key, ours in AUTH.items() if given.text(ours)}
    fields.pop("auth_url", None)
    if any(given.text(key) for key in BY_CREDENTIAL):
        _all_given(given, BY_CREDENTIAL)
        for key, ours in AUTH.items():
            if key in fields and ours not in BY_CREDENTIAL:
                given.wrong(ours, "contradicts application_credential_id, which has a project")
                del fields[key]
        return None if given.problems else v3.ApplicationCredential(auth_url, **fields)
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
    user = _domain(fields, "user") or {"user_domain_name": "Default"}
    project = {key.replace("user", "project"): text for key, text in user.items()}
    return v3.Password(auth_url, **{**user, **(_domain(fields, "project") or project), **fields})


def _domain(fields: Mapping[str, str], of: str) -> dict[str, str]:
    """The domain that was told of a `user` or `project`, in keystoneauth1's words."""
    return {key: fields[key] for key in (f"{of}_domain_id", f"{of}_domain_name") if key in fields}


def _all_given(given: SectionReader, keys: tuple[str, ...]) -> None:
    for key in keys:
        if not given.text(key):
            others = " and ".join(other for other in keys if other != key)
            given.wrong(key, f"is missing: {others} needs it")


def _template(given: SectionReader, wanted: Mapping[str, str]) -> Template:
    # New nodes match [Cloud List].
    metadata = {**wanted, **_metadata(given)}
    template = Template(**given.read(OWN), hints=_hints(given), metadata=metadata)
    if template.boot_volume_type is not None and given.text("boot_volume_gb") is None:
        given.wrong("boot_volume_type", "needs boot_volume_gb", template.boot_volume_type)
    return template


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
