"""The options of a Google file's own sections, and the settings that they are read into.

Takes Arvados Node Manager's option names, so that a file of Arvados Node Manager 2.0.4 loads
unchanged, and our own. Reports every problem at once.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nodemanager.cloud import declared
from nodemanager.cloud.declared import (
    CREATE,
    CREDENTIALS,
    LIST,
    CloudConfig,
    CloudOption,
    Endpoint,
    Passed,
    SectionReader,
    Sections,
    file,
    matching,
    names,
    option,
    passed,
    switch,
)
from nodemanager.lib import foreign

_LABEL = r"[a-z0-9_-]{0,63}"
_NAME = r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?"
_PROJECT = r"(?:[a-z0-9.-]+:)?[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_NO_ZONE = "is no zone's name (they look like us-central1-a)"

GOOGLE = "https://compute.googleapis.com"
GOOGLE_TOKENS = "https://oauth2.googleapis.com"
FULL_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
IMAGE_PATH = re.compile(r"(?:.*/)?projects/([^/]+)/global/images/((?:family/)?[^/]+)")
"""An image's path or URL: its project, and its name, or `family/` and its family's."""

_ZONE = r"[a-z]+-[a-z]+\d+-[a-z][a-z0-9]*"


def _network_tags(value: str) -> tuple[str, ...]:
    found = names(value)
    if not all(re.fullmatch(_NAME, tag) for tag in found):
        raise ValueError("a network tag has small letters, digits and -")
    return found


def _accelerators(value: str) -> tuple[str, int]:
    found = re.fullmatch(r"([a-z][-a-z0-9]+)(?::([1-9]|1[0-6]))?", value)
    if found is None:
        raise ValueError("is a type and how many, as nvidia-tesla-t4:2")
    return found[1], int(found[2] or 1)


@dataclass(frozen=True, slots=True)
class ServiceAccountOfNode:
    """What a node may do at Google; `scopes` are URLs, or libcloud's short names for them."""

    email: str
    scopes: tuple[str, ...]


def _accounts(value: str) -> tuple[ServiceAccountOfNode, ...]:
    """Arvados Node Manager's list of `email` and `scopes`."""
    try:
        # Its examples write Python's quotes, which are not JSON's.
        accounts = ast.literal_eval(value)
        return tuple(ServiceAccountOfNode(one["email"], tuple(one["scopes"])) for one in accounts)
    except (ValueError, SyntaxError, TypeError, KeyError):
        raise ValueError("is no list like [{'email': ADDRESS, 'scopes': [...]}]") from None


@dataclass(frozen=True, slots=True)
class Credentials:
    """`[Cloud Credentials]` as the file has it."""

    project: str | None = option(str, "my-project")
    """The id of the project to run nodes in (gcloud projects list); by default the one that
    Google's JSON file of a key names."""
    key: str | None = option(str, "/etc/nodemanager/gce-key.json")
    """One of Google's JSON files: a service account's key, a workload identity (but for one whose
    token a program tells), a user's or an impersonation; or a service account's key in PEM, with
    user_id. Without it the file that GOOGLE_APPLICATION_CREDENTIALS names is used, and without that
    the account of the instance that this runs on."""
    user_id: str | None = option(str, "nodemanager@my-project.iam.gserviceaccount.com")
    """The service account's address, for a key in PEM. Google's JSON file has it."""
    auth_type: str | None = option(
        matching("SA|GCE", "SA (a service account's key) or GCE (the instance's role)"), "SA"
    )
    """SA: there must be a key. GCE: the instance's own account, even if there is one."""
    timeout: float | None = option(declared.number, "60")
    """How many seconds to wait for one answer."""
    endpoint: Endpoint = option(
        declared.endpoint, GOOGLE, default=Endpoint.parse(GOOGLE, insecure=False)
    )
    """Another address of Google's compute API, as host[:port] (https) or a URL. Plain http is for
    loopback."""
    token_endpoint: Endpoint | None = option(declared.endpoint, "https://accounts.google.com")
    """Where access tokens are asked for, with a service account's key."""
    datacenter: str | None = option(str)
    """libcloud's name for zone, which goes before it."""
    credential_file: str | None = option(str)
    """Accepted for old files, without effect."""
    scopes: str | None = option(str)
    """Accepted for old files: access tokens always have compute's."""


@dataclass(frozen=True, slots=True)
class Access:
    """`[Cloud Credentials]`. `info` is Google's JSON file of credentials; None where the instance's
    own role is used."""

    project: str
    zone: str
    endpoint: Endpoint
    timeout: float
    info: Mapping[str, Any] | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class ListFilter:
    """`[Cloud List]`: what is managed beside the pool's own nodes; nothing where both are empty."""

    tags: tuple[str, ...] = option(_network_tags, "example, compute", default=())
    """Network tags, separated by commas; nodes that have all of them are managed, too. Every new
    node gets them."""
    zone: str | None = option(matching(_ZONE, _NO_ZONE), "us-central1-a")
    """Only nodes of this zone."""

    def __bool__(self) -> bool:
        return bool(self.zone or self.tags)


@dataclass(frozen=True, slots=True)
class Template:
    """`[Cloud Create]`: the settings of every new node."""

    image: str = option(
        matching(
            f"{_NAME}|{IMAGE_PATH.pattern}",
            "neither a name nor projects/PROJECT/global/images/NAME",
        ),
        "ubuntu-2404-lts-amd64",
        default="",
        missing="is missing: the name, family or path of the image to boot from",
    )
    """The image that nodes boot from: a name, a family, or a path such as
    projects/my-project/global/images/NAME. Must be given. A name is looked for in the own project,
    then in the public one that its beginning stands for. Of a family each boot gets the newest, and
    idle nodes on an older one are replaced. The sample's has cloud-init."""
    image_project: str | None = option(str, "my-project")
    """The only project to look for it in."""
    network: str = option(str, default="default")
    """The name or path of the nodes' network."""
    subnet: str | None = option(str, "compute")
    """The name or path of their subnetwork, where the network does not choose it. A name is looked
    for in the zone's region."""
    tags: tuple[str, ...] = option(_network_tags, "outbound-only", default=())
    """More network tags for every node, separated by commas, for firewall rules."""
    assign_public_ip: bool = switch(default=True)
    """Whether nodes get a public address."""
    ssh_key: str | None = option(file, "/etc/nodemanager/id_ed25519.pub")
    """The path of a public key to install for root."""
    service_account_name: str | None = option(str, "node@my-project.iam.gserviceaccount.com")
    """The address of the service account that nodes run as, with the scope cloud-platform. Without
    it they have none, and need none."""
    service_accounts: tuple[ServiceAccountOfNode, ...] = option(_accounts, default=(), hidden=True)
    """Arvados Node Manager's form of it: [{'email': ADDRESS, 'scopes': ['storage-ro']}]. A scope is
    a URL, or libcloud's short name for it."""
    preemptible: bool = switch()
    """Whether all nodes are spot nodes; [Size NAME] preemptible is for one size."""
    boot_disk_type: str | None = option(str, "pd-balanced")
    """The type of the boot disk."""
    boot_disk_gb: int | None = option(declared.whole, "20")
    """The size of the boot disk; by default the image's."""
    scratch_disk_type: str = option(
        matching(r"local-ssd|(pd|hyperdisk)-[a-z-]+", "not local-ssd, pd-... or hyperdisk-..."),
        default="local-ssd",
    )
    """The disks for [Size NAME] scratch: local-ssd, or a type of persistent disk such as
    pd-balanced or hyperdisk-balanced. Newer machine types, as n4 and c4, take hyperdisks alone."""
    accelerators: tuple[str, int] | None = option(_accelerators, "nvidia-tesla-t4:1")
    """The type of accelerators, and how many each node has; a2, a3 and g2 have theirs built in.
    Such a node ends when its host is serviced, since Google can't move it."""
    secure_boot: Passed = passed("shieldedInstanceConfig.enableSecureBoot")
    """Whether nodes boot signed code alone (Shielded VM)."""
    vtpm: Passed = passed("shieldedInstanceConfig.enableVtpm")
    """Whether nodes have a virtual trusted platform module."""
    integrity_monitoring: Passed = passed("shieldedInstanceConfig.enableIntegrityMonitoring")
    """Whether Google compares each boot with the one before."""
    confidential_type: Passed = passed(
        {"SEV|SEV_SNP|TDX": "confidentialInstanceConfig.confidentialInstanceType"},
        "SEV, SEV_SNP or TDX",
        "SEV",
    )
    """How nodes' memory is encrypted (Confidential VM)."""
    min_cpu_platform: Passed = passed(
        {r"[A-Z].{2,40}": "minCpuPlatform"},
        "the name of a platform, as Intel Ice Lake",
        "Intel Ice Lake",
    )
    """The oldest processors that nodes may get."""
    nic_type: Passed = passed(
        {"GVNIC|VIRTIO_NET|IDPF": "nicType"}, "GVNIC, VIRTIO_NET or IDPF", "GVNIC"
    )
    """The kind of the nodes' network interface."""
    reservation: Passed = passed(
        {
            "any": "reservationAffinity.any",
            "none": "reservationAffinity.none",
            r"[a-z].*": "reservationAffinity.name",
        },
        "any, none, or a reservation's name",
        "any",
    )
    """The reservation that nodes take, any that fits, or none."""
    placement_policy: Passed = passed(
        {r"[a-z][-a-z0-9]{0,62}": "resourcePolicies"}, "a policy's name", "compact"
    )
    """The placement policy of the zone's region, such as a compact one."""
    instance_template: Passed = passed(
        {r"[a-z][-a-z0-9]{0,62}|.+/instanceTemplates/.+": "template"},
        "a template's name or path",
        "compute",
    )
    """An instance template, for what this file does not say."""
    labels: Mapping[str, str] = field(default_factory=dict)


OWN = declared.options_of(Template)
SECTIONS: Mapping[str, Mapping[str, CloudOption]] = {
    CREDENTIALS: declared.options_of(Credentials),
    LIST: declared.options_of(ListFilter),
    CREATE: {
        "zone": CloudOption(
            str,
            "us-central1-a",
            text="The zone to boot nodes in. Must be given, unless [Cloud] places names several.",
            also=("location",),
        ),
        "ping_host": declared.PING_HOST,
        "user_data": CloudOption(
            str,
            "/etc/nodemanager/user-data.yaml",
            text="""A template for what nodes do at boot, with {ping_url}, {record}, {hostname} and
                {incarnation}: a script (#!) for Google's guest agent, anything else for cloud-init.
                Without it they get the bare ping URL as metadata arv-ping-url.""",
        ),
        **OWN,
        "label:?*": CloudOption(
            str, "owner = example", text="A label of your own for every node and its disks."
        ),
    },
}


def read(config: CloudConfig, timeout: float) -> tuple[Access, ListFilter, Template]:
    """The settings of the three sections. Raises ConfigError with every problem in them."""
    given = Sections.of(config, SECTIONS)
    access = _access(given.credentials, given.create, timeout, tuple(config.places))
    listed = ListFilter(**given.listing.read())
    template = _template(given.create, listed)
    for place, named_by in config.places.items():
        if not re.fullmatch(_ZONE, place):
            given.create.problems.append(f"{named_by}: {place} {_NO_ZONE}")
    given.check()
    return access, listed, template


def _access(
    given: SectionReader, create: SectionReader, timeout: float, places: tuple[str, ...]
) -> Access:
    found = Credentials(**given.read())
    auth, text = found.auth_type, found.key
    if text is None and auth != "GCE":
        text = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    if auth == "SA" and text is None:
        given.wrong("key", "is missing: the file of the service account's key, for auth_type = SA")
    info = _info(given, found, text)
    project = found.project or (info or {}).get("project_id")
    if not project:
        given.wrong("project", "is missing: the id of the project (gcloud projects list)")
    elif not re.fullmatch(_PROJECT, str(project)):
        given.wrong("project", "is no project's id, which has small letters", str(project))
    return Access(
        project=str(project),
        zone=_own_zone(found.datacenter, given, create, places),
        endpoint=found.endpoint,
        timeout=found.timeout or timeout,
        info=None if auth == "GCE" else info,
    )


def _info(given: SectionReader, found: Credentials, text: str | None) -> Mapping[str, Any] | None:
    """Google's JSON of credentials: `text` is it, or its path, or a service account's key in PEM.

    No problem that is told here has any of the key in it.
    """
    # The manual's generators read this module's tables without that library.
    from nodemanager.cloud.gce.token import credentials_of

    if text is None:
        return None
    if "{" not in text and "-----BEGIN" not in text:
        try:
            text = file(text)
        except ValueError as error:
            given.wrong("key", f"the file {error}")
            return None
    info: dict[str, Any] = {"type": "service_account", "private_key": text}
    if text.startswith("{"):
        try:
            info = foreign.loads(text)
        except ValueError:
            given.wrong("key", "the file is no whole JSON")
            return None
    if info.get("type") == "service_account":
        own = found.token_endpoint
        where = f"{own or Endpoint.parse(GOOGLE_TOKENS, insecure=False)}/token"
        info["token_uri"] = where if own else info.get("token_uri") or where
        info |= {"client_email": mail} if (mail := found.user_id) else {}
        if not info.get("client_email"):
            why = "is missing: the service account's address, where key is no JSON"
            given.wrong("user_id", why)
            return None
    try:
        credentials_of(info)
    except Exception:
        # google-auth has many; all mean the same here.
        given.wrong(
            "key",
            "is nothing that signs in: give the JSON file of a service account's key, of a "
            "workload identity, of a user or of an impersonation, or PEM without a password",
        )
        return None
    return info


def _own_zone(
    datacenter: str | None, given: SectionReader, create: SectionReader, places: tuple[str, ...]
) -> str:
    """The zone to boot in: `zone`, else libcloud's `datacenter`, else the first of the places."""
    own = create.text("zone")
    zone = own or datacenter
    if zone is None and places:
        return places[0]
    if zone is None:
        create.wrong("zone", "is missing: the zone to boot nodes in, such as us-central1-a")
        return ""
    if not re.fullmatch(_ZONE, zone):
        where, key = (create, "zone") if own else (given, "datacenter")
        where.wrong(key, _NO_ZONE, zone)
    return zone


def _template(given: SectionReader, listed: ListFilter) -> Template:
    found = given.read(OWN)
    if (name := found["service_account_name"]) is not None:
        if given.text("service_accounts"):
            given.wrong("service_account_name", "contradicts service_accounts: give one of them")
        found["service_accounts"] = (ServiceAccountOfNode(name, (FULL_SCOPE,)),)
    found["tags"] = tuple(dict.fromkeys((*sorted(listed.tags), *found["tags"])))
    return Template(**found, labels=_labels(given))


def _labels(given: SectionReader) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in given.values.items():
        name = key.removeprefix("label:")
        if name == key:
            continue
        if name.startswith("nodemanager-"):
            given.wrong(key, "this label is set by nodemanager itself")
        elif not re.fullmatch(f"[a-z]{_LABEL}", name) or not re.fullmatch(_LABEL, value.strip()):
            given.wrong(key, "name and value have small letters, digits, - and _", value)
        found[name] = value.strip()
    return found
