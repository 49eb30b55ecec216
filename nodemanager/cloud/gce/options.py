"""The pass-through sections of a GCE file, read into settings.

Takes Arvados Node Manager's option names, so that a file of Arvados Node Manager 2.0.4 loads
unchanged, and our own; doc/gce.rst has a row for each. Reports every problem at once.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nodemanager import foreign
from nodemanager.cloud.cloud_config import CloudConfig
from nodemanager.cloud.endpoint import Endpoint
from nodemanager.cloud.passed import Passed
from nodemanager.cloud.passed import read as read_passed
from nodemanager.cloud.section_reader import CREATE, CREDENTIALS, LIST, SectionReader, Sections

_FLAG = "true|false"
_LABEL = r"[a-z0-9_-]{0,63}"
LABEL_KEYS = "label:?*"
"""The pattern of keys that give a node a label of the operator's own."""

PASSED: Mapping[str, Passed] = {
    "secure_boot": Passed(
        {_FLAG: "shieldedInstanceConfig.enableSecureBoot"},
        "true or false",
        "Whether nodes boot signed code alone (Shielded VM).",
        "true",
    ),
    "vtpm": Passed(
        {_FLAG: "shieldedInstanceConfig.enableVtpm"},
        "true or false",
        "Whether nodes have a virtual trusted platform module.",
        "true",
    ),
    "integrity_monitoring": Passed(
        {_FLAG: "shieldedInstanceConfig.enableIntegrityMonitoring"},
        "true or false",
        "Whether Google compares each boot with the one before.",
        "true",
    ),
    "confidential_type": Passed(
        {"SEV|SEV_SNP|TDX": "confidentialInstanceConfig.confidentialInstanceType"},
        "SEV, SEV_SNP or TDX",
        "How nodes' memory is encrypted (Confidential VM).",
        "SEV",
    ),
    "min_cpu_platform": Passed(
        {r"[A-Z].{2,40}": "minCpuPlatform"},
        "the name of a platform, as Intel Ice Lake",
        "The oldest processors that nodes may get.",
        "Intel Ice Lake",
    ),
    "nic_type": Passed(
        {"GVNIC|VIRTIO_NET|IDPF": "nicType"},
        "GVNIC, VIRTIO_NET or IDPF",
        "The kind of the nodes' network interface.",
        "GVNIC",
    ),
    "reservation": Passed(
        {
            "any": "reservationAffinity.any",
            "none": "reservationAffinity.none",
            r"[a-z].*": "reservationAffinity.name",
        },
        "any, none, or a reservation's name",
        "The reservation that nodes take, any that fits, or none.",
        "any",
    ),
    "placement_policy": Passed(
        {r"[a-z][-a-z0-9]{0,62}": "resourcePolicies"},
        "a policy's name",
        "The placement policy of the zone's region, such as a compact one.",
        "compact",
    ),
    "instance_template": Passed(
        {r"[a-z][-a-z0-9]{0,62}|.+/instanceTemplates/.+": "template"},
        "a template's name or path",
        "An instance template, for what this file does not say.",
        "compute",
    ),
}
"""By where their values go in the body of instances.insert."""

ACCEPTED: Mapping[str, frozenset[str]] = {
    CREDENTIALS: frozenset(
        {
            "auth_type",
            "credential_file",
            "datacenter",
            "endpoint",
            "key",
            "project",
            "scopes",
            "timeout",
            "token_endpoint",
            "user_id",
        }
    ),
    LIST: frozenset({"tags", "zone"}),
    CREATE: frozenset(
        {
            LABEL_KEYS,
            *PASSED,
            "accelerators",
            "assign_public_ip",
            "boot_disk_gb",
            "boot_disk_type",
            "image",
            "image_project",
            "location",
            "network",
            "ping_host",
            "preemptible",
            "scratch_disk_type",
            "service_account_name",
            "service_accounts",
            "ssh_key",
            "subnet",
            "tags",
            "zone",
        }
    ),
}
"""The keys that each section takes."""

GOOGLE = "https://compute.googleapis.com"
GOOGLE_TOKENS = "https://oauth2.googleapis.com"
FULL_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
SCRATCH_TYPE = re.compile(r"local-ssd|(pd|hyperdisk)-[a-z-]+")

IMAGE_PATH = re.compile(r"(?:.*/)?projects/([^/]+)/global/images/((?:family/)?[^/]+)")
"""An image's path or URL: its project, and its name, or `family/` and its family's."""
_NAME = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")
_PROJECT = re.compile(r"(?:[a-z0-9.-]+:)?[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_ZONE = re.compile(r"[a-z]+-[a-z]+\d+-[a-z][a-z0-9]*")


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

    zone: str | None = None
    tags: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.zone or self.tags)


@dataclass(frozen=True, slots=True)
class ServiceAccountOfNode:
    """What a node may do at Google; `scopes` are URLs, or libcloud's short names for them."""

    email: str
    scopes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Template:
    """`[Cloud Create]`: the settings of every new node."""

    image: str
    image_project: str | None = None
    network: str = "default"
    subnet: str | None = None
    tags: tuple[str, ...] = ()
    ssh_key: str | None = None
    service_accounts: tuple[ServiceAccountOfNode, ...] = ()
    preemptible: bool = False
    assign_public_ip: bool = True
    boot_disk_type: str | None = None
    boot_disk_gb: int | None = None
    scratch_disk_type: str = "local-ssd"
    accelerators: tuple[str, int] | None = None
    """The type, and how many each node has."""
    labels: Mapping[str, str] = field(default_factory=dict)
    passed: Mapping[str, str] = field(default_factory=dict)
    """By where it goes in the body; see PASSED."""


def read(config: CloudConfig, timeout: float) -> tuple[Access, ListFilter, Template]:
    """The settings of the three sections. Raises ConfigError with every problem in them."""
    given = Sections.of(config)
    access = _access(given.credentials, given.create, timeout, tuple(config.places))
    listed = _listing(given.listing)
    template = _template(given.create, listed)
    for place, option in config.places.items():
        if not _ZONE.fullmatch(place):
            given.create.problems.append(
                f"{option}: {place} is no zone's name (they look like us-central1-a)"
            )
    given.check()
    return access, listed, template


def _access(
    given: SectionReader, create: SectionReader, timeout: float, places: tuple[str, ...]
) -> Access:
    auth = given.text("auth_type")
    if auth not in (None, "SA", "GCE"):
        given.wrong("auth_type", "SA (a service account's key) or GCE (the instance's role)", auth)
    text = given.text("key")
    if text is None and auth != "GCE":
        text = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    if auth == "SA" and text is None:
        given.wrong("key", "is missing: the file of the service account's key, for auth_type = SA")
    info = _info(given, text)
    project = given.text("project") or (info or {}).get("project_id")
    if not project:
        given.wrong("project", "is missing: the id of the project (gcloud projects list)")
    elif not _PROJECT.fullmatch(str(project)):
        given.wrong("project", "is no project's id, which has small letters", str(project))
    return Access(
        project=str(project),
        zone=_zone(given, create, places),
        endpoint=given.endpoint("endpoint", GOOGLE),
        timeout=given.number("timeout") or timeout,
        info=None if auth == "GCE" else info,
    )


def _info(given: SectionReader, text: str | None) -> Mapping[str, Any] | None:
    """Google's JSON of credentials: `text` is it, or its path, or a service account's key in PEM.

    No problem that is told here has any of the key in it.
    """
    # The manual's generators read this module's tables without that library.
    from nodemanager.cloud.gce.token import credentials_of

    if text is None:
        return None
    if "{" not in text and "-----BEGIN" not in text:
        try:
            text = Path(text).expanduser().read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is no text"
            given.wrong("key", f"the file can't be read: {why}")
            return None
    info: dict[str, Any] = {"type": "service_account", "private_key": text}
    if text.startswith("{"):
        try:
            info = foreign.loads(text)
        except ValueError:
            given.wrong("key", "the file is no whole JSON")
            return None
    if info.get("type") == "service_account":
        tokens = given.text("token_endpoint")
        where = f"{given.endpoint('token_endpoint', GOOGLE_TOKENS)}/token"
        info["token_uri"] = where if tokens else info.get("token_uri") or where
        info |= {"client_email": mail} if (mail := given.text("user_id")) else {}
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


def _zone(given: SectionReader, create: SectionReader, places: tuple[str, ...]) -> str:
    """The zone to boot in: `zone` or `location`, else libcloud's `datacenter`, else the first of
    the places."""
    named = [key for key in ("zone", "location") if create.text(key)]
    if len(named) == 2:
        create.wrong("location", "means the same as zone, which is given, too")
    zone = create.text(named[0]) if named else given.text("datacenter")
    if zone is None and places:
        return places[0]
    if zone is None:
        create.wrong("zone", "is missing: the zone to boot nodes in, such as us-central1-a")
        return ""
    if not _ZONE.fullmatch(zone):
        where, key = (create, named[0]) if named else (given, "datacenter")
        where.wrong(key, "is no zone's name (they look like us-central1-a)", zone)
    return zone


def _tags(given: SectionReader) -> tuple[str, ...]:
    tags = tuple(tag.strip() for tag in (given.text("tags") or "").split(",") if tag.strip())
    for tag in tags:
        if not _NAME.fullmatch(tag):
            given.wrong("tags", "a network tag has small letters, digits and -", tag)
    return tags


def _listing(given: SectionReader) -> ListFilter:
    zone = given.text("zone")
    if zone is not None and not _ZONE.fullmatch(zone):
        given.wrong("zone", "is no zone's name (they look like us-central1-a)", zone)
    return ListFilter(zone, frozenset(_tags(given)))


def _template(given: SectionReader, listed: ListFilter) -> Template:
    image = given.text("image")
    if image is None:
        given.wrong("image", "is missing: the name, family or path of the image to boot from")
    elif not _NAME.fullmatch(image) and not IMAGE_PATH.fullmatch(image):
        given.wrong("image", "neither a name nor projects/PROJECT/global/images/NAME", image)
    gigabytes = given.number("boot_disk_gb")
    scratch = given.text("scratch_disk_type") or "local-ssd"
    if not SCRATCH_TYPE.fullmatch(scratch):
        given.wrong("scratch_disk_type", "not local-ssd, pd-... or hyperdisk-...", scratch)
    return Template(
        image=image or "",
        image_project=given.text("image_project"),
        network=given.text("network") or "default",
        subnet=given.text("subnet"),
        tags=tuple(dict.fromkeys((*sorted(listed.tags), *_tags(given)))),
        ssh_key=_public_key(given),
        service_accounts=_service_accounts(given),
        preemptible=given.flag("preemptible"),
        assign_public_ip=given.flag("assign_public_ip", default=True),
        boot_disk_type=given.text("boot_disk_type"),
        boot_disk_gb=None if gigabytes is None else int(gigabytes),
        scratch_disk_type=scratch,
        accelerators=_accelerators(given),
        labels=_labels(given),
        passed=read_passed(given, PASSED),
    )


def _accelerators(given: SectionReader) -> tuple[str, int] | None:
    text = given.text("accelerators")
    if text is None:
        return None
    found = re.fullmatch(r"([a-z][-a-z0-9]+)(?::([1-9]|1[0-6]))?", text)
    if found is None:
        given.wrong("accelerators", "is a type and how many, as nvidia-tesla-t4:2", text)
        return None
    return found[1], int(found[2] or 1)


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


def _public_key(given: SectionReader) -> str | None:
    path = given.text("ssh_key")
    if path is None:
        return None
    try:
        return Path(path).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        given.wrong("ssh_key", f"can't be read: {why}", path)
        return None


def _service_accounts(given: SectionReader) -> tuple[ServiceAccountOfNode, ...]:
    """Arvados Node Manager's list of `email` and `scopes`, or one account by its address."""
    name, text = given.text("service_account_name"), given.text("service_accounts")
    if name is not None and text is not None:
        given.wrong("service_account_name", "contradicts service_accounts: give one of them")
    if name is not None:
        return (ServiceAccountOfNode(name, (FULL_SCOPE,)),)
    if text is None:
        return ()
    try:
        # Its examples write Python's quotes, which are not JSON's.
        told = ast.literal_eval(text)
        return tuple(ServiceAccountOfNode(one["email"], tuple(one["scopes"])) for one in told)
    except (ValueError, SyntaxError, TypeError, KeyError):
        given.wrong("service_accounts", "is no list like [{'email': ADDRESS, 'scopes': [...]}]")
        return ()
