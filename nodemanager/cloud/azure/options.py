"""The options of an Azure file's own sections, and the settings that they are read into.

Takes Arvados Node Manager's option names, so that a file of Arvados Node Manager 2.0.4 loads
unchanged, and our own. Reports every problem at once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from nodemanager.cloud import declared
from nodemanager.cloud.azure.access import Access, Credentials, access_of
from nodemanager.cloud.declared import (
    CREATE,
    CREDENTIALS,
    LIST,
    CloudConfig,
    CloudOption,
    Passed,
    SectionReader,
    Sections,
    matching,
    one_of,
    option,
    passed,
    switch,
)
from nodemanager.cloud.tags import OUR_TAGS

_ID = r"/subscriptions/[^/\s]+(/[^/\s]+)+"
_SECURITY = "properties.securityProfile"
SYSTEM = "system"
CLASS_TAG = "tag_arvados-class"
"""By this tag Arvados Node Manager chose the machines that were its own."""
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

_URN = re.compile(r"[^:/\s]+:[^:/\s]+:[^:/\s]+:[^:/\s]+")
_RESOURCE = re.compile(r"/[^/\s]+(/[^/\s]+)+")
_DISK_TYPE = one_of(
    *("PremiumV2_LRS", "Premium_LRS", "Premium_ZRS"),
    *("StandardSSD_LRS", "StandardSSD_ZRS", "Standard_LRS"),
)


def _image(value: str) -> dict[str, str]:
    if value.startswith(("http://", "https://")):
        raise ValueError("Azure boots no VHD file any more: make an image of it")
    if _URN.fullmatch(value):
        return dict(zip(("publisher", "offer", "sku", "version"), value.split(":"), strict=True))
    if not _RESOURCE.fullmatch(value):
        raise ValueError("neither Publisher:Offer:SKU:Version nor a resource id")
    return {GALLERIES_OF_OTHERS.get(value.lower().split("/")[1], "id"): value}


def _plan(value: str) -> dict[str, str]:
    parts = value.split(":")
    if len(parts) != 3 or not all(parts):
        raise ValueError("is Publisher:Product:Plan, as the image's page has it")
    return dict(zip(("publisher", "product", "name"), parts, strict=True))


def _identities(value: str) -> tuple[str, ...]:
    found = declared.names(value)
    if not all(one == SYSTEM or _RESOURCE.fullmatch(one) for one in found):
        raise ValueError("neither system nor resource ids of managed identities")
    return found


_resource = matching(
    "/subscriptions/.*|[^/]*", "neither a name nor a resource id (/subscriptions/...)"
)


@dataclass(frozen=True, slots=True)
class Template:
    """`[Cloud Create]`: the settings of every new node. `subnet` and `network_security_group` are
    resource ids, `image` Azure's image reference. `tags` are set beside our own."""

    image: Mapping[str, str] = option(
        _image,
        "Canonical:ubuntu-24_04-lts:server:latest",
        default={},
        missing="is missing: Publisher:Offer:SKU:Version, or an image's resource id",
    )
    """The image that nodes boot from: Publisher:Offer:SKU:Version of the marketplace (latest for
    the newest), or the resource id of an image or of a gallery's image. Must be given. Idle nodes
    on an older version are replaced. The sample's has cloud-init."""
    network: str = option(_resource, "nodes", default="", also=("ex_network",))
    """The nodes' virtual network, by its name in the resource group or its id. Must be given."""
    subnet: str = option(str, default="default", also=("ex_subnet",))
    """The nodes' subnet in that network, or a subnet's resource id."""
    ssh_key: str = option(
        declared.file,
        "/etc/nodemanager/id_ed25519.pub",
        default="",
        missing="is missing: a file with a public key; Azure makes no node without",
    )
    """The file of a public key to install for user_name. Must be given: Azure makes no node
    without."""
    user_name: str = option(
        matching(r"[a-z_][a-z0-9_-]{0,31}", "is no name of a Linux user"),
        default="nodemanager",
        also=("ex_user_name",),
    )
    """The nodes' administrator."""
    network_security_group: str | None = option(_resource, "nodes")
    """The security group of the nodes' interfaces, by its name or resource id."""
    assign_public_ip: bool = switch()
    """Whether nodes get a public address of the Standard kind, which lets nothing in without a
    security group that allows it."""
    accelerated_networking: bool = switch()
    """Whether nodes get accelerated networking; some sizes can't."""
    zone: str | None = option(matching("|".join(ZONES), "is 1, 2 or 3"), "1")
    """The availability zone to boot nodes in: 1, 2 or 3; for several, [Cloud] places. By default
    Azure chooses."""
    preemptible: bool = switch()
    """Whether all nodes are Spot machines; [Size NAME] preemptible is for one size."""
    spot_max_price: float | None = option(declared.number, "0.05")
    """The most that a Spot machine may cost, in dollars an hour; by default the usual price, so
    that none is taken away for its price."""
    boot_disk_type: str = option(
        _DISK_TYPE, default="StandardSSD_LRS", also=("ex_storage_account_type",)
    )
    """The type of the boot disk."""
    boot_disk_gb: int | None = option(declared.whole, "30", also=("ex_disk_size",))
    """The size of the boot disk; by default the image's."""
    scratch_disk_type: str | None = option(_DISK_TYPE, "StandardSSD_LRS")
    """The type of a disk for [Size NAME] scratch. By default there is none: many sizes have a
    temporary disk."""
    ephemeral_os_disk: str | None = option(
        one_of("CacheDisk", "NvmeDisk", "ResourceDisk"), "CacheDisk"
    )
    """Put the boot disk on the node's host, on its CacheDisk, NvmeDisk or ResourceDisk: faster, it
    costs nothing, and is lost with the host. The size must have room for the image."""
    eviction_policy: str = option(one_of("Deallocate", "Delete"), default="Delete")
    """What becomes of a Spot machine that is taken back: Delete or Deallocate, which keeps its
    disks and its share of the quota until the manager ends it."""
    identity: tuple[str, ...] = option(_identities, "system", default=())
    """Whom nodes are for Azure: system for an identity of each, or the resource ids of managed
    identities, separated by commas, which the manager needs the right to assign."""
    image_plan: Mapping[str, str] = option(_plan, "Publisher:Product:Plan", default={})
    """The purchase plan of a marketplace image, as Publisher:Product:Plan. The subscription must
    have accepted its terms."""
    security_type: Passed = passed(
        {"TrustedLaunch|ConfidentialVM|Standard": f"{_SECURITY}.securityType"},
        "TrustedLaunch, ConfidentialVM or Standard",
        "TrustedLaunch",
    )
    """What guards nodes' boot and memory; by default as the image's generation has it."""
    secure_boot: Passed = passed(f"{_SECURITY}.uefiSettings.secureBootEnabled")
    """Whether nodes boot signed code alone; needs security_type."""
    vtpm: Passed = passed(f"{_SECURITY}.uefiSettings.vTpmEnabled")
    """Whether nodes have a virtual trusted platform module; needs security_type."""
    encryption_at_host: Passed = passed(f"{_SECURITY}.encryptionAtHost")
    """Whether a node's host encrypts its disks and caches."""
    proximity_group: Passed = passed(
        {_ID: "properties.proximityPlacementGroup.id"},
        "a resource id",
        "/subscriptions/ID/resourceGroups/GROUP/providers/Microsoft.Compute/proximityPlacementGroups/NAME",
    )
    """The proximity placement group of all nodes."""
    capacity_reservation_group: Passed = passed(
        {_ID: "properties.capacityReservation.capacityReservationGroup.id"},
        "a resource id",
        "/subscriptions/ID/resourceGroups/GROUP/providers/Microsoft.Compute/capacityReservationGroups/NAME",
    )
    """The capacity reservation group that nodes take their capacity from."""
    host_group: Passed = passed(
        {_ID: "properties.hostGroup.id"},
        "a resource id",
        "/subscriptions/ID/resourceGroups/GROUP/providers/Microsoft.Compute/hostGroups/NAME",
    )
    """The group of dedicated hosts that nodes run on."""
    tags: Mapping[str, str] = field(default_factory=dict)


OWN = declared.options_of(Template)
_NO_EFFECT = CloudOption(
    str, text="Taken from old files, with a warning: a node's disks are managed, and end with it."
)
SECTIONS: Mapping[str, Mapping[str, CloudOption]] = {
    CREDENTIALS: declared.options_of(Credentials),
    LIST: {
        "resource_group": CloudOption(
            matching(r"[\w().-]{0,89}[\w()-]", "is no name of a resource group"),
            "nodes",
            text="The resource group that the nodes are in. Must be given.",
            default="",
            missing="is missing: the resource group that the nodes are in",
            also=("ex_resource_group",),
        ),
        "tag_?*": CloudOption(
            str,
            "cluster = example",
            text="""A tag by which machines are managed, too; with several, those that have all of
                them. Every new node gets it. Without any, [Cloud Create] tag_arvados-class
                counts.""",
        ),
    },
    CREATE: {
        "ping_host": declared.PING_HOST,
        **OWN,
        "user_data": CloudOption(
            str,
            "/etc/nodemanager/user-data.yaml",
            text="""A template for what nodes do at boot, with {ping_url}, {record}, {hostname} and
                {incarnation}, for cloud-init. Without it they get a script that stores the bare
                ping URL.""",
        ),
        "tag_?*": CloudOption(
            str, "owner = example", text="A tag of your own for all that a node is made of."
        ),
        "ex_use_managed_disks": CloudOption(
            declared.flag,
            text="Only yes is taken: Azure has no unmanaged disks any more.",
            default=True,
        ),
        "ex_blob_container": _NO_EFFECT,
        "ex_os_disk_delete": _NO_EFFECT,
        "ex_storage_account": _NO_EFFECT,
    },
}


def read(config: CloudConfig, timeout: float) -> tuple[Access, dict[str, str], Template]:
    """The settings of the three sections; the dict has the tags that `[Cloud List]` chooses by.

    Raises ConfigError with every problem in them.
    """
    given = Sections.of(config, SECTIONS)
    access = access_of(given.credentials, given.listing, timeout)
    tags = _tags(given.listing)
    template = _template(given.create, access, tags)
    if not tags and (own := given.create.text(CLASS_TAG)):
        tags = {CLASS_TAG.removeprefix("tag_"): own}
    problems = given.create.problems
    for place, named_by in config.places.items():
        if place not in ZONES:
            problems.append(f"{named_by}: {place} is no zone of Azure: they are {', '.join(ZONES)}")
    if len(config.pool) > LONGEST_TAG:
        problems.append(f"[Daemon] pool: a tag has at most {LONGEST_TAG} characters")
    given.check()
    return access, tags, template


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
    own = given.read({**OWN, "ex_use_managed_disks": given.options["ex_use_managed_disks"]})
    if not own.pop("ex_use_managed_disks"):
        given.wrong("ex_use_managed_disks", "Azure has no unmanaged disks any more: leave it out")
    if own["spot_max_price"] is not None and not own["preemptible"]:
        given.wrong("spot_max_price", "is for Spot machines: preemptible = yes is missing")
    every = {**tags, **_tags(given)}
    if len(every) + OURS > MOST_TAGS:
        given.wrong("tag_", f"Azure takes {MOST_TAGS} tags, of which {OURS} are the manager's")
    group = f"/subscriptions/{access.subscription}/resourceGroups/{access.group}"
    if own["network_security_group"] is not None:
        own["network_security_group"] = _id(
            group, "networkSecurityGroups", own["network_security_group"]
        )
    if not own["subnet"].startswith("/subscriptions/"):
        if not given.text("network"):
            given.wrong("network", "is missing: the virtual network of the nodes")
        network = _id(group, "virtualNetworks", own["network"])
        own["subnet"] = f"{network}/subnets/{own['subnet']}"
    return Template(**own, tags=every)


def _id(group: str, kind: str, text: str) -> str:
    """The resource id of something of Microsoft.Network, given by its name or by its id."""
    named = f"{group}/providers/Microsoft.Network/{kind}/{text}"
    return text if text.startswith("/subscriptions/") else named
