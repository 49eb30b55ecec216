"""The pass-through sections of an Azure file, read into settings.

Takes Arvados Node Manager's option names, so that a file of Arvados Node Manager 2.0.4 loads
unchanged, and our own; doc/azure.rst has a row for each. Reports every problem at once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from libcloud.common.azure_arm import publicEnvironments

from nodemanager.cloud.cloud_config import CloudConfig
from nodemanager.cloud.endpoint import Endpoint
from nodemanager.cloud.passed import Passed
from nodemanager.cloud.passed import read as read_passed
from nodemanager.cloud.section_reader import SectionReader
from nodemanager.cloud.tags import OUR_TAGS
from nodemanager.cloud.words import words
from nodemanager.errors import ConfigError

if TYPE_CHECKING:
    from nodemanager.cloud.azure.sign_in import Principal

CREDENTIALS = "Cloud Credentials"
LIST = "Cloud List"
CREATE = "Cloud Create"

ALIASES = {
    "ex_disk_size": "boot_disk_gb",
    "ex_network": "network",
    "ex_resource_group": "resource_group",
    "ex_storage_account_type": "boot_disk_type",
    "ex_subnet": "subnet",
    "ex_user_name": "user_name",
}
"""libcloud's option names, which Arvados Node Manager passed through, and our names for them."""

WITHOUT_EFFECT = words("ex_blob_container ex_os_disk_delete ex_storage_account")
"""Taken, with a warning (nodemanager.config): a node's disks are managed, and end with it."""

TAG_KEYS = frozenset({"tag_?*"})

_ID = r"/subscriptions/[^/\s]+(/[^/\s]+)+"
_SECURITY = "properties.securityProfile"

PASSED: Mapping[str, Passed] = {
    "security_type": Passed(
        {"TrustedLaunch|ConfidentialVM|Standard": f"{_SECURITY}.securityType"},
        "TrustedLaunch, ConfidentialVM or Standard",
        "What guards nodes' boot and memory; by default as the image's generation has it.",
        "TrustedLaunch",
    ),
    "secure_boot": Passed(
        {"true|false": f"{_SECURITY}.uefiSettings.secureBootEnabled"},
        "true or false",
        "Whether nodes boot signed code alone; needs security_type.",
        "true",
    ),
    "vtpm": Passed(
        {"true|false": f"{_SECURITY}.uefiSettings.vTpmEnabled"},
        "true or false",
        "Whether nodes have a virtual trusted platform module; needs security_type.",
        "true",
    ),
    "encryption_at_host": Passed(
        {"true|false": f"{_SECURITY}.encryptionAtHost"},
        "true or false",
        "Whether a node's host encrypts its disks and caches.",
        "true",
    ),
    "proximity_group": Passed(
        {_ID: "properties.proximityPlacementGroup.id"},
        "a resource id",
        "The proximity placement group of all nodes.",
        "/subscriptions/ID/resourceGroups/GROUP/providers/Microsoft.Compute/proximityPlacementGroups/NAME",
    ),
    "capacity_reservation_group": Passed(
        {_ID: "properties.capacityReservation.capacityReservationGroup.id"},
        "a resource id",
        "The capacity reservation group that nodes take their capacity from.",
        "/subscriptions/ID/resourceGroups/GROUP/providers/Microsoft.Compute/capacityReservationGroups/NAME",
    ),
    "host_group": Passed(
        {_ID: "properties.hostGroup.id"},
        "a resource id",
        "The group of dedicated hosts that nodes run on.",
        "/subscriptions/ID/resourceGroups/GROUP/providers/Microsoft.Compute/hostGroups/NAME",
    ),
}
"""By where their values go in the machine's body."""
EPHEMERAL = words("CacheDisk NvmeDisk ResourceDisk")
EVICTIONS = words("Deallocate Delete")

ACCEPTED: Mapping[str, frozenset[str]] = {
    CREDENTIALS: words(
        """
        certificate cloud_environment endpoint federated_token_path key login_endpoint region secret
        subscription_id tenant_id timeout
        """
    ),
    LIST: words("ex_resource_group resource_group") | TAG_KEYS,
    CREATE: words(
        """
        accelerated_networking assign_public_ip boot_disk_gb boot_disk_type ex_disk_size ex_network
        ex_storage_account_type ex_subnet ex_use_managed_disks ex_user_name image network
        ephemeral_os_disk eviction_policy identity image_plan network_security_group ping_host
        preemptible scratch_disk_type spot_max_price ssh_key subnet user_name zone
        """
    )
    | PASSED.keys()
    | WITHOUT_EFFECT
    | TAG_KEYS,
}
"""The keys that each section takes; `*` and `?` in them are wildcards, as in fnmatch."""

SYSTEM = "system"
WAYS = {
    "secret": "AZURE_CLIENT_SECRET",
    "certificate": "AZURE_CLIENT_CERTIFICATE_PATH",
    "federated_token_path": "AZURE_FEDERATED_TOKEN_FILE",
}
"""How a service principal shows who it is, by our options, and by azure-identity's names."""
CLASS_TAG = "tag_arvados-class"
"""By this tag Arvados Node Manager chose the machines that were its own."""
DISK_TYPES = words(
    "Premium_LRS Premium_ZRS PremiumV2_LRS StandardSSD_LRS StandardSSD_ZRS Standard_LRS"
)
ZONES = ("1", "2", "3")
MOST_TAGS, LONGEST_TAG_NAME, LONGEST_TAG = 50, 512, 256
"""Azure's limits for one resource, and in characters."""
GALLERIES_OF_OTHERS = {
    "communitygalleries": "communityGalleryImageId",
    "sharedgalleries": "sharedGalleryImageId",
}
"""Azure's field for an image by how its resource id begins; `id` for the operator's own."""
OURS = 5
"""How many tags a node has from us: its name, and those of nodemanager.cloud.tags without hold."""

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_GROUP = re.compile(r"[\w().-]{0,89}[\w()-]")
_URN = re.compile(r"[^:/\s]+:[^:/\s]+:[^:/\s]+:[^:/\s]+")
_RESOURCE = re.compile(r"/[^/\s]+(/[^/\s]+)+")
_REGION = re.compile(r"[a-z]+[0-9]{0,2}")
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")


@dataclass(frozen=True, slots=True)
class Access:
    """`[Cloud Credentials]`, and the resource group. `principal` is None where the machine's own
    identity is used. `scope` is what a token is asked for."""

    subscription: str
    tenant: str
    group: str
    region: str
    endpoint: Endpoint
    login: Endpoint
    scope: str
    timeout: float
    client_id: str
    principal: Principal | None


@dataclass(frozen=True, slots=True)
class Template:
    """`[Cloud Create]`: the settings of every new node. `subnet` and `network_security_group` are
    resource ids, `image` Azure's image reference. `tags` are set beside our own."""

    image: Mapping[str, str]
    subnet: str
    user_name: str
    ssh_key: str
    zone: str | None = None
    network_security_group: str | None = None
    assign_public_ip: bool = False
    accelerated_networking: bool = False
    preemptible: bool = False
    spot_max_price: float | None = None
    boot_disk_type: str = "StandardSSD_LRS"
    boot_disk_gb: int | None = None
    scratch_disk_type: str | None = None
    ephemeral_os_disk: str | None = None
    """Where on its host a node's boot disk is; None: it is a managed disk."""
    eviction_policy: str = "Delete"
    identities: tuple[str, ...] = ()
    plan: Mapping[str, str] = field(default_factory=dict)
    passed: Mapping[str, str] = field(default_factory=dict)
    """By where it goes in the body; see PASSED."""
    tags: Mapping[str, str] = field(default_factory=dict)


def read(config: CloudConfig, timeout: float) -> tuple[Access, dict[str, str], Template]:
    """The settings of the three sections; the dict has the tags that `[Cloud List]` chooses by.

    Raises ConfigError with every problem in them.
    """
    problems: list[str] = []
    listed = SectionReader(LIST, _renamed(LIST, config.listing, problems), problems)
    wanted = SectionReader(CREATE, _renamed(CREATE, config.create, problems), problems)
    access = _access(SectionReader(CREDENTIALS, config.credentials, problems), listed, timeout)
    tags = _tags(listed)
    template = _template(wanted, access, tags)
    if not tags and wanted.text(CLASS_TAG):
        tags = {CLASS_TAG.removeprefix("tag_"): str(wanted.text(CLASS_TAG))}
    for place, option in config.places.items():
        if place not in ZONES:
            problems.append(f"{option}: {place} is no zone of Azure: they are {', '.join(ZONES)}")
    if len(config.pool) > LONGEST_TAG:
        problems.append(f"[Daemon] pool: a tag has at most {LONGEST_TAG} characters")
    if problems:
        raise ConfigError(problems)
    return access, tags, template


def _renamed(section: str, given: Mapping[str, str], problems: list[str]) -> dict[str, str]:
    """The section by our own names of its options."""
    found = dict(given)
    for old, new in ALIASES.items():
        if old in found:
            if new in given:
                problems.append(f"[{section}] {old}: means the same as {new}, which is given, too")
            found.setdefault(new, found.pop(old))
    return found


def _access(given: SectionReader, listed: SectionReader, timeout: float) -> Access:
    resources, directory = _environment(given)
    given, how = _signing_in(given)
    client_id, tenant = given.text("key") or "", given.text("tenant_id") or ""
    if tenant and not _UUID.fullmatch(tenant) and "." not in tenant:
        given.wrong("tenant_id", "neither a UUID nor a domain")
    subscription = _uuid(given, "subscription_id", "az account show --query id")
    if how and not tenant:
        given.wrong("tenant_id", "is missing: the directory (az account show --query tenantId)")
    if how and not client_id:
        given.wrong("key", "is missing: the client id of the service principal")
    return Access(
        subscription=subscription,
        tenant=tenant,
        group=_group(listed),
        region=_region(given),
        endpoint=given.endpoint("endpoint", resources),
        login=given.endpoint("login_endpoint", directory),
        scope=f"{resources}/.default",
        timeout=given.number("timeout") or timeout,
        client_id=client_id,
        principal=_principal(given, how, tenant, client_id) if how else None,
    )


def _environment(given: SectionReader) -> tuple[str, str]:
    """The URLs of the resource manager and of the sign-in, by libcloud's table."""
    name = given.text("cloud_environment") or "default"
    known = [one for one in publicEnvironments if one != "AzureGermanCloud"]
    if name not in known:
        given.wrong("cloud_environment", f"not one of {', '.join(known)}", name)
        name = "default"
    found = publicEnvironments[name]
    hosts = (found["resourceManagerEndpointUrl"], found["activeDirectoryEndpointUrl"])
    resources, directory = (urlsplit(one).hostname for one in hosts)
    return f"https://{resources}", f"https://{directory}"


def _signing_in(given: SectionReader) -> tuple[SectionReader, str]:
    """The section, and which of its options shows who the manager is; none of them where the
    machine's own identity is used.

    A section with none of them is filled from the environment, by azure-identity's names: a pod
    has them from Azure's webhook.
    """
    ways = [key for key in WAYS if given.text(key)]
    for more in ways[1:]:
        given.wrong(more, f"contradicts {ways[0]}: give one of them")
    if ways:
        return given, ways[0]
    how = next((key for key, name in WAYS.items() if os.environ.get(name)), "")
    if not how:
        return given, ""
    names = {how: WAYS[how], "key": "AZURE_CLIENT_ID", "tenant_id": "AZURE_TENANT_ID"}
    found = {key: os.environ.get(name, "") for key, name in names.items()}
    own = {key: text for key, text in given.values.items() if text.strip()}
    return SectionReader(given.section, {**found, **own}, given.problems), how


def _principal(given: SectionReader, how: str, tenant: str, client_id: str) -> Principal | None:
    # The manual's generators read this module's tables without that library.
    from nodemanager.cloud.azure.sign_in import Principal

    text = given.text(how) or ""
    if how == "certificate" and "-----BEGIN" not in text:
        try:
            text = Path(text).expanduser().read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is no PEM"
            given.wrong(how, f"the file can't be read: {why}")
            return None
    made = Principal(tenant, client_id, text, how)
    if how == "certificate" and not given.problems:
        try:
            made()
        except Exception:
            # Those of cryptography are many, and all mean the same here.
            given.wrong(how, "no PEM with a certificate and its RSA key, without a password")
    return made


def _uuid(given: SectionReader, key: str, how: str) -> str:
    text = given.text(key)
    if text is None:
        given.wrong(key, f"is missing ({how})")
    elif not _UUID.fullmatch(text):
        given.wrong(key, f"is no UUID ({how})")
    return (text or "").lower()


def _region(given: SectionReader) -> str:
    """The region's name, such as eastus; Azure's display names, such as East US, are taken, too."""
    text = given.text("region")
    if text is None:
        given.wrong("region", "is missing: where nodes boot, such as eastus")
        return ""
    name = text.lower().replace(" ", "")
    if not _REGION.fullmatch(name):
        given.wrong("region", "is no region's name (az account list-locations)", text)
    return name


def _group(given: SectionReader) -> str:
    text = given.text("resource_group")
    if text is None:
        given.wrong("resource_group", "is missing: the resource group that the nodes are in")
        return ""
    if not _GROUP.fullmatch(text):
        given.wrong("resource_group", "is no name of a resource group", text)
    return text


def _tags(given: SectionReader) -> dict[str, str]:
    """The `tag_NAME` options; NAME is the tag's own name."""
    found = {}
    for key in given.values:
        if not key.startswith("tag_") or not (value := given.text(key)):
            continue
        name = key.removeprefix("tag_")
        if name.lower() in OUR_TAGS | {"nodemanager-name"}:
            given.wrong(key, "this tag is the manager's own")
        elif len(name) > LONGEST_TAG_NAME or any(sign in name for sign in "<>%&\\?/"):
            given.wrong(key, "Azure takes no such name: at most 512 characters, none of <>%&\\?/")
        elif len(value) > LONGEST_TAG:
            given.wrong(key, f"Azure takes at most {LONGEST_TAG} characters")
        else:
            found[name] = value
    return found


def _template(given: SectionReader, access: Access, tags: Mapping[str, str]) -> Template:
    gigabytes, price = given.number("boot_disk_gb"), given.number("spot_max_price")
    if not given.flag("ex_use_managed_disks", default=True):
        given.wrong("ex_use_managed_disks", "Azure has no unmanaged disks any more: leave it out")
    if price is not None and not given.flag("preemptible"):
        given.wrong("spot_max_price", "is for Spot machines: preemptible = yes is missing")
    user = given.text("user_name") or "nodemanager"
    if not _USER.fullmatch(user):
        given.wrong("user_name", "is no name of a Linux user", user)
    zone = given.text("zone")
    if zone is not None and zone not in ZONES:
        given.wrong("zone", "is 1, 2 or 3", zone)
    every = {**tags, **_tags(given)}
    if len(every) + OURS > MOST_TAGS:
        given.wrong("tag_", f"Azure takes {MOST_TAGS} tags, of which {OURS} are the manager's")
    return Template(
        image=_image(given),
        subnet=_subnet(given, access),
        user_name=user,
        ssh_key=_public_key(given),
        zone=zone,
        network_security_group=_resource(
            given, access, "network_security_group", "networkSecurityGroups"
        ),
        assign_public_ip=given.flag("assign_public_ip"),
        accelerated_networking=given.flag("accelerated_networking"),
        preemptible=given.flag("preemptible"),
        spot_max_price=price,
        boot_disk_type=_disk_type(given, "boot_disk_type") or "StandardSSD_LRS",
        boot_disk_gb=None if gigabytes is None else int(gigabytes),
        scratch_disk_type=_disk_type(given, "scratch_disk_type"),
        ephemeral_os_disk=_one_of(given, "ephemeral_os_disk", EPHEMERAL),
        eviction_policy=_one_of(given, "eviction_policy", EVICTIONS) or "Delete",
        identities=_identities(given),
        plan=_plan(given),
        passed=read_passed(given, PASSED),
        tags=every,
    )


def _one_of(given: SectionReader, key: str, allowed: frozenset[str]) -> str | None:
    text = given.text(key)
    if text is not None and text not in allowed:
        given.wrong(key, f"not one of {', '.join(sorted(allowed))}", text)
    return text


def _identities(given: SectionReader) -> tuple[str, ...]:
    """The ids of identities that operators made, or `system` for one of each node's own."""
    found = tuple(one.strip() for one in (given.text("identity") or "").split(",") if one.strip())
    for one in found:
        if one != SYSTEM and not _RESOURCE.fullmatch(one):
            given.wrong("identity", "neither system nor resource ids of managed identities", one)
    return found


def _plan(given: SectionReader) -> dict[str, str]:
    text = given.text("image_plan")
    if text is None:
        return {}
    parts = text.split(":")
    if len(parts) != 3 or not all(parts):
        given.wrong("image_plan", "is Publisher:Product:Plan, as the image's page has it", text)
        return {}
    return dict(zip(("publisher", "product", "name"), parts, strict=True))


def _image(given: SectionReader) -> dict[str, str]:
    text = given.text("image")
    if text is None:
        given.wrong("image", "is missing: Publisher:Offer:SKU:Version, or an image's resource id")
    elif text.startswith(("http://", "https://")):
        given.wrong("image", "Azure boots no VHD file any more: make an image of it", text)
    elif _URN.fullmatch(text):
        return dict(zip(("publisher", "offer", "sku", "version"), text.split(":"), strict=True))
    elif _RESOURCE.fullmatch(text):
        kind = text.lower().split("/")[1]
        return {GALLERIES_OF_OTHERS.get(kind, "id"): text}
    else:
        given.wrong("image", "neither Publisher:Offer:SKU:Version nor a resource id", text)
    return {}


def _resource(given: SectionReader, access: Access, key: str, kind: str) -> str | None:
    """The resource id of something of Microsoft.Network, given by its name or by its id."""
    text = given.text(key)
    if text is None or text.startswith("/subscriptions/"):
        return text
    if "/" in text:
        given.wrong(key, "neither a name nor a resource id (/subscriptions/...)", text)
    group = f"/subscriptions/{access.subscription}/resourceGroups/{access.group}"
    return f"{group}/providers/Microsoft.Network/{kind}/{text}"


def _subnet(given: SectionReader, access: Access) -> str:
    subnet = given.text("subnet") or "default"
    if subnet.startswith("/subscriptions/"):
        return subnet
    network = _resource(given, access, "network", "virtualNetworks")
    if network is None:
        given.wrong("network", "is missing: the virtual network of the nodes")
    return f"{network}/subnets/{subnet}"


def _disk_type(given: SectionReader, key: str) -> str | None:
    text = given.text(key)
    if text is not None and text not in DISK_TYPES:
        given.wrong(key, f"not one of {', '.join(sorted(DISK_TYPES))}", text)
    return text


def _public_key(given: SectionReader) -> str:
    path = given.text("ssh_key")
    if path is None:
        given.wrong("ssh_key", "is missing: a file with a public key; Azure makes no node without")
        return ""
    try:
        return Path(path).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        given.wrong("ssh_key", f"can't be read: {why}", path)
        return ""
