"""The options of an EC2 file's own sections, and the settings that they are read into.

Takes Arvados Node Manager's and libcloud's option names, so that a file of Arvados Node Manager
2.0.4 loads unchanged, and our own. Reports every problem at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nodemanager.cloud import declared
from nodemanager.cloud.declared import (
    CREATE,
    CREDENTIALS,
    LIST,
    CloudConfig,
    CloudOption,
    Passed,
    SectionReader,
    Sections,
    file,
    matching,
    names,
    option,
    passed,
    passed_on,
    switch,
)
from nodemanager.cloud.ec2.access import Access, Credentials, access_of
from nodemanager.cloud.refusal import words
from nodemanager.cloud.tags import OUR_TAGS
from nodemanager.lib.near import did_you_mean

STATE_FILTERS = words(
    """
    instance-state-code instance-state-name reason state-reason-code state-reason-message
    """
)
"""Dropped from `[Cloud List]` (T5): such a filter would hide a node that still exists."""

FILTERS = STATE_FILTERS | words(
    """
    architecture availability-zone availability-zone-id client-token dns-name host-id hypervisor
    iam-instance-profile.arn iam-instance-profile.id image-id instance-id instance-lifecycle
    instance-type instance.group-id instance.group-name key-name launch-time
    network-interface.subnet-id network-interface.vpc-id owner-id placement-group-name platform
    private-dns-name product-code requester-id reservation-id root-device-name root-device-type
    spot-instance-request-id subnet-id tag-key tenancy virtualization-type vpc-id
    """
)


_NUMBER = r"[1-9]\d{0,6}"
_VOLUME_TYPE = "gp3|gp2|io2|io1|st1|sc1|standard"


RESERVATION = "CapacityReservationSpecification.CapacityReservation"


@dataclass(frozen=True, slots=True)
class Template:
    """`[Cloud Create]`: the settings of every new node. `tags` are set beside our own."""

    image_id: str = option(
        matching("(ami-|resolve:ssm:).*", "is no AMI: write its id, ami-..., or resolve:ssm:NAME"),
        "ami-0123456789abcdef0",
        default="",
        missing="is missing: the AMI that nodes boot from",
    )
    """The AMI that nodes boot from, or a parameter of SSM that has it, resolve:ssm:NAME. Must be
    given. Amazon is asked for it before the first boot."""
    subnet_id: str | None = option(str, "subnet-0123456789abcdef0")
    """The nodes' subnet; for several, [Cloud] places."""
    security_groups: tuple[str, ...] = option(
        names, "sg-0123456789abcdef0, sg-0fedcba9876543210", default=()
    )
    """The nodes' security groups, separated by commas: ids, or names where no subnet is given."""
    key_name: str | None = option(str, "operators", also=("ex_keyname",))
    """The name of the SSH key pair to install on nodes."""
    ssh_key: str | None = option(file, "/etc/nodemanager/id_ed25519.pub")
    """The path of a public key to install instead of key_name; the first boot imports it as a key
    pair nodemanager-...."""
    iam_instance_profile: str | None = option(str, "compute-node", also=("ex_iamprofile",))
    """The name or ARN of the nodes' own instance profile, not the manager's."""
    availability_zone: str | None = option(str, "us-east-1a")
    """The zone to place nodes in, where no subnet decides it; for several, [Cloud] places."""
    placement_group: str | None = option(str, "cluster", also=("ex_placement_group",))
    """The placement group to place nodes in."""
    assign_public_ip: bool = switch(also=("ex_assign_public_ip",))
    """Whether nodes get a public address."""
    ebs_optimized: bool = switch(also=("ex_ebs_optimized",))
    """Whether nodes have dedicated bandwidth to their volumes, on types without it by default."""
    terminate_on_shutdown: bool = switch(also=("ex_terminate_on_shutdown",))
    """Whether a node that shuts itself down is terminated. EC2 would otherwise keep it stopped."""
    metadata_tokens: str = option(
        matching("required|optional", "neither required nor optional"), default="required"
    )
    """Whether a node's metadata, and so its user data with the ping secret, can be read only with a
    token (IMDSv2): required, or optional for images that know no tokens."""
    spot: bool = switch(also=("ex_spot",))
    """Whether all nodes are one-time spot nodes; [Size NAME] preemptible sets it for one size."""
    spot_max_price: str | None = option(declared.price, "0.05", also=("ex_spot_max_price",))
    """The most to pay for a spot node, in dollars an hour; by default the on-demand price."""
    scratch_device: str = option(str, default="/dev/xvdt")
    """The device name of the volume for [Size NAME] scratch."""
    efa: bool = switch()
    """Whether a node's network interface is an Elastic Fabric Adapter."""
    root_device: str | None = option(str, "/dev/xvda")
    """The image's name of the volume that nodes boot from; without it, EC2 is asked. Under another
    name EC2 would make a second volume."""
    root_volume_size: Passed = passed({_NUMBER: "VolumeSize"}, "a number of GiB", "50", "root")
    """The size of the volume that nodes boot from, in GiB; by default the image's."""
    root_volume_type: Passed = passed(
        {_VOLUME_TYPE: "VolumeType"}, "a type of EBS volume", "gp3", "root"
    )
    """Its type."""
    root_volume_iops: Passed = passed({_NUMBER: "Iops"}, "a number", "3000", "root")
    """Its input/output operations a second."""
    root_volume_throughput: Passed = passed(
        {_NUMBER: "Throughput"}, "a number of MiB a second", "125", "root"
    )
    """Its MiB a second (gp3)."""
    scratch_volume_type: Passed = passed(
        {_VOLUME_TYPE: "VolumeType"}, "a type of EBS volume", "gp3", "scratch"
    )
    """The type of the volume for [Size NAME] scratch."""
    scratch_volume_iops: Passed = passed({_NUMBER: "Iops"}, "a number", "3000", "scratch")
    """Its input/output operations a second; io1 and io2 need them."""
    scratch_volume_throughput: Passed = passed(
        {_NUMBER: "Throughput"}, "a number of MiB a second", "125", "scratch"
    )
    """Its MiB a second (gp3)."""
    volumes_encrypted: Passed = passed("Encrypted", part="volumes")
    """Whether nodes' volumes are encrypted; by default as the account and the image have it."""
    volumes_kms_key: Passed = passed(
        {r"[\w:/-]+": "KmsKeyId"}, "the id, alias or ARN of a key", "alias/compute", "volumes"
    )
    """The key to encrypt them with, instead of the account's own; needs volumes_encrypted."""
    launch_template: Passed = passed(
        {
            r"lt-\w+": "LaunchTemplate.LaunchTemplateId",
            r".{3,128}": "LaunchTemplate.LaunchTemplateName",
        },
        "a launch template's id (lt-...) or name",
        "lt-0123456789abcdef0",
        "instance",
    )
    """A launch template, for what this file does not say; image_id is still this file's."""
    launch_template_version: Passed = passed(
        {r"\$Default|\$Latest|\d+": "LaunchTemplate.Version"},
        "a number, $Default or $Latest",
        "$Default",
        "instance",
    )
    """Its version."""
    capacity_reservation: Passed = passed(
        {
            r"cr-\w+": f"{RESERVATION}Target.CapacityReservationId",
            r"arn:.+": f"{RESERVATION}Target.CapacityReservationResourceGroupArn",
            "open|none|capacity-reservations-only": f"{RESERVATION}Preference",
        },
        "a reservation's id (cr-...), a group's ARN, open, none or capacity-reservations-only",
        "cr-0123456789abcdef0",
        "instance",
    )
    """The capacity that nodes take: a reservation's id, the ARN of a group of them, or none."""
    tenancy: Passed = passed(
        {"default|dedicated|host": "Placement.Tenancy"},
        "default, dedicated or host",
        "default",
        "instance",
    )
    """Whether nodes share their hosts with other customers."""
    metadata_hop_limit: Passed = passed(
        {r"[1-9]|[1-5]\d|6[0-4]": "MetadataOptions.HttpPutResponseHopLimit"},
        "a number from 1 to 64",
        "1",
        "instance",
    )
    """How far the metadata's token may travel: 2 for containers on the node."""
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def root(self) -> Mapping[str, str]:
        """What is asked of the volume that nodes boot from, by parameter of EC2's `Ebs`."""
        return passed_on(self, "root", "volumes")

    @property
    def scratch(self) -> Mapping[str, str]:
        return {"VolumeType": "gp3"} | passed_on(self, "scratch", "volumes")

    @property
    def group_ids(self) -> tuple[str, ...]:
        return tuple(name for name in self.security_groups if name.startswith("sg-"))

    @property
    def group_names(self) -> tuple[str, ...]:
        return tuple(name for name in self.security_groups if not name.startswith("sg-"))


OWN = declared.options_of(Template)
_FILTER = CloudOption(str)
_TAG_WITH_COLONS = CloudOption(str, text="The same; NAME is the tag's own name.")
SECTIONS: Mapping[str, Mapping[str, CloudOption]] = {
    CREDENTIALS: declared.options_of(Credentials),
    LIST: {
        "tag_?*": CloudOption(
            str,
            "cluster = example",
            text="""A tag that our nodes have beside this manager's own; every new node gets it. Any
                filter of EC2 may be used here, under its own name. An underscore in a tag's name
                means a colon.""",
        ),
        "tag:?*": _TAG_WITH_COLONS,
        **dict.fromkeys(sorted(FILTERS), _FILTER),
        "vpc-id": CloudOption(
            str, "vpc-0123456789abcdef0", text="A filter, for example by network."
        ),
    },
    CREATE: {
        "ping_host": declared.PING_HOST,
        **OWN,
        "user_data": declared.USER_DATA,
        "tag_?*": CloudOption(
            str,
            "owner = example",
            text="""A tag for every node, its volumes and its network interface, beside those of
                [Cloud List]. An underscore in a tag's name means a colon.""",
        ),
        "tag:?*": _TAG_WITH_COLONS,
    },
}

SUBNET = "subnet-"
"""How a subnet's id begins. Every other place is an availability zone."""


_OURS = OUR_TAGS | {"Name"}


def tag_name(key: str) -> str | None:
    """The tag that an option key such as `tag:NAME` or `tag_NAME` means; None for other keys."""
    if key.startswith("tag:"):
        return key[4:] or None
    if key.startswith("tag_"):
        return key[4:].replace("_", ":") or None
    return None


def read(config: CloudConfig, timeout: float) -> tuple[Access, dict[str, str], Template]:
    """The settings of the three sections; the dict holds the filters of `[Cloud List]`.

    The filters have EC2's own names and none of STATE_FILTERS. Raises ConfigError with every
    problem of the three sections.
    """
    given = Sections.of(config, SECTIONS)
    access = access_of(given.credentials, timeout)
    filters = _filters(given.listing)
    template = _template(given.create, filters)
    _check_places(given.create, config.places, access, template)
    given.check()
    return access, filters, template


def _filters(given: SectionReader) -> dict[str, str]:
    filters: dict[str, str] = {}
    for key, value in given.values.items():
        tag = tag_name(key)
        name = key if tag is None else f"tag:{tag}"
        if name in STATE_FILTERS:
            continue
        if name in filters:
            given.wrong(key, f"{name} is given twice")
        if not value.strip():
            given.wrong(key, "an empty filter matches nothing; leave it out")
        filters[name] = value.strip()
    return filters


def _template(given: SectionReader, filters: Mapping[str, str]) -> Template:
    template = Template(**given.read(OWN), tags=_create_tags(given, filters))
    if template.group_names and (template.subnet_id or template.assign_public_ip):
        given.wrong("security_groups", "beside subnet_id or assign_public_ip, EC2 takes ids (sg-)")
    if template.key_name and given.text("ssh_key"):
        given.wrong("ssh_key", "contradicts key_name: give one of them")
    image = template.image_id
    if template.root and image and not image.startswith("ami-") and not template.root_device:
        why = f"is needed beside image_id = {image}, of which EC2 does not say what it calls"
        given.wrong("root_device", f"{why} the volume to boot from")
    if "KmsKeyId" in template.root and template.root.get("Encrypted") != "true":
        given.wrong("volumes_kms_key", "needs volumes_encrypted = true")
    if given.text("launch_template_version") and not given.text("launch_template"):
        given.wrong("launch_template_version", "needs launch_template")
    return template


def _check_places(
    given: SectionReader, places: Mapping[str, str], access: Access, template: Template
) -> None:
    """Say what is wrong with the places as such; check-cloud asks EC2 whether they are there."""
    for place, named_by in places.items():
        if place.startswith(SUBNET):
            if template.group_names:
                names = ", ".join(template.group_names)
                given.wrong("security_groups", f"beside {named_by}, EC2 takes ids (sg-)", names)
        elif access.amazon and not place.startswith(access.region):
            zones = [f"{access.region}{letter}" for letter in "abcdef"]
            given.problems.append(
                f"{named_by}: {place} is neither a subnet's id (subnet-...) nor a zone of "
                f"{access.region}{did_you_mean(place, zones)}"
            )
        elif template.subnet_id is not None:
            given.problems.append(
                f"{named_by}: {place} is a zone, and [Cloud Create] subnet_id is in one zone: "
                "name subnets, or leave subnet_id out"
            )


def _create_tags(given: SectionReader, filters: Mapping[str, str]) -> dict[str, str]:
    """The tags of this section and those of `[Cloud List]`, so that new nodes match its filters.

    A filter with a wildcard has no single value, so it gives no tag.
    """
    tags = {
        name[4:]: value
        for name, value in filters.items()
        if name.startswith("tag:") and not set(value) & {"*", "?"} and name[4:] not in _OURS
    }
    for key, value in given.values.items():
        tag = tag_name(key)
        if tag is None:
            continue
        if tag in _OURS:
            given.wrong(key, "this tag is set by nodemanager itself")
        tags[tag] = value.strip()
    return tags
