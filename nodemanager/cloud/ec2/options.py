"""The pass-through sections of an EC2 file, read into settings.

Takes Arvados Node Manager's and libcloud's option names, so that a file of Arvados Node Manager
2.0.4 loads unchanged, and our own; doc/ec2.rst has a row for each. Reports every problem at once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nodemanager.cloud.cloud_config import CloudConfig
from nodemanager.cloud.endpoint import Endpoint
from nodemanager.cloud.passed import Passed
from nodemanager.cloud.passed import read as read_passed
from nodemanager.cloud.section_reader import CREATE, CREDENTIALS, LIST, SectionReader, Sections
from nodemanager.cloud.tags import OUR_TAGS
from nodemanager.cloud.words import words
from nodemanager.near import did_you_mean

STATE_FILTERS = words(
    """
    instance-state-code instance-state-name reason state-reason-code state-reason-message
    """
)
"""Dropped from `[Cloud List]` (T5): such a filter would hide a node that still exists."""

IMAGES = ("ami-", "resolve:ssm:")
"""What the id of an image begins with, or a parameter of SSM that has it."""

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

ALIASES = {
    "ex_assign_public_ip": "assign_public_ip",
    "ex_ebs_optimized": "ebs_optimized",
    "ex_iamprofile": "iam_instance_profile",
    "ex_keyname": "key_name",
    "ex_placement_group": "placement_group",
    "ex_spot": "spot",
    "ex_spot_max_price": "spot_max_price",
    "ex_terminate_on_shutdown": "terminate_on_shutdown",
}
"""libcloud's option names, which Arvados Node Manager passed through, and our names for them."""

TAG_KEYS = frozenset({"tag:?*", "tag_?*"})
"""Patterns for tag options. In Arvados Node Manager's `tag_` form each underscore stands for a
colon: `tag_a` is `tag:a`."""

_NUMBER = r"[1-9]\d{0,6}"
_VOLUME_TYPE = "gp3|gp2|io2|io1|st1|sc1|standard"

ROOT: Mapping[str, Passed] = {
    "root_volume_size": Passed(
        {_NUMBER: "VolumeSize"},
        "a number of GiB",
        "The size of the volume that nodes boot from, in GiB; by default the image's.",
        "50",
    ),
    "root_volume_type": Passed(
        {_VOLUME_TYPE: "VolumeType"}, "a type of EBS volume", "Its type.", "gp3"
    ),
    "root_volume_iops": Passed(
        {_NUMBER: "Iops"}, "a number", "Its input/output operations a second.", "3000"
    ),
    "root_volume_throughput": Passed(
        {_NUMBER: "Throughput"}, "a number of MiB a second", "Its MiB a second (gp3).", "125"
    ),
}
"""Of the volume that nodes boot from, by their parameters of EC2's `Ebs`."""

SCRATCH: Mapping[str, Passed] = {
    "scratch_volume_type": Passed(
        {_VOLUME_TYPE: "VolumeType"},
        "a type of EBS volume",
        "The type of the volume for [Size NAME] scratch.",
        "gp3",
    ),
    "scratch_volume_iops": Passed(
        {_NUMBER: "Iops"},
        "a number",
        "Its input/output operations a second; io1 and io2 need them.",
        "3000",
    ),
    "scratch_volume_throughput": Passed(
        {_NUMBER: "Throughput"}, "a number of MiB a second", "Its MiB a second (gp3).", "125"
    ),
}
"""Of the volume for `[Size]` scratch."""

VOLUMES: Mapping[str, Passed] = {
    "volumes_encrypted": Passed(
        {"true|false": "Encrypted"},
        "true or false",
        "Whether nodes' volumes are encrypted; by default as the account and the image have it.",
        "true",
    ),
    "volumes_kms_key": Passed(
        {r"[\w:/-]+": "KmsKeyId"},
        "the id, alias or ARN of a key",
        "The key to encrypt them with, instead of the account's own; needs volumes_encrypted.",
        "alias/compute",
    ),
}
"""Of both."""

RESERVATION = "CapacityReservationSpecification.CapacityReservation"
INSTANCE: Mapping[str, Passed] = {
    "launch_template": Passed(
        {
            r"lt-\w+": "LaunchTemplate.LaunchTemplateId",
            r".{3,128}": "LaunchTemplate.LaunchTemplateName",
        },
        "a launch template's id (lt-...) or name",
        "A launch template, for what this file does not say; image_id is still this file's.",
        "lt-0123456789abcdef0",
    ),
    "launch_template_version": Passed(
        {r"\$Default|\$Latest|\d+": "LaunchTemplate.Version"},
        "a number, $Default or $Latest",
        "Its version.",
        "$Default",
    ),
    "capacity_reservation": Passed(
        {
            r"cr-\w+": f"{RESERVATION}Target.CapacityReservationId",
            r"arn:.+": f"{RESERVATION}Target.CapacityReservationResourceGroupArn",
            "open|none|capacity-reservations-only": f"{RESERVATION}Preference",
        },
        "a reservation's id (cr-...), a group's ARN, open, none or capacity-reservations-only",
        "The capacity that nodes take: a reservation's id, the ARN of a group of them, or none.",
        "cr-0123456789abcdef0",
    ),
    "tenancy": Passed(
        {"default|dedicated|host": "Placement.Tenancy"},
        "default, dedicated or host",
        "Whether nodes share their hosts with other customers.",
        "default",
    ),
    "metadata_hop_limit": Passed(
        {r"[1-9]|[1-5]\d|6[0-4]": "MetadataOptions.HttpPutResponseHopLimit"},
        "a number from 1 to 64",
        "How far the metadata's token may travel: 2 for containers on the node.",
        "1",
    ),
}
"""Of the instance, by their parameters of RunInstances."""

PASSED: Mapping[str, Passed] = {**ROOT, **SCRATCH, **VOLUMES, **INSTANCE}

ACCEPTED: Mapping[str, frozenset[str]] = {
    CREDENTIALS: words(
        """
        ca_bundle endpoint host insecure key port profile region secret secure sts_endpoint timeout
        token
        """
    ),
    LIST: FILTERS | TAG_KEYS,
    CREATE: words(
        """
        availability_zone efa image_id metadata_tokens ping_host root_device scratch_device
        security_groups ssh_key subnet_id user_data
        """
    )
    | {*ALIASES, *ALIASES.values(), *TAG_KEYS, *PASSED},
}
"""The keys that each section takes; `*` and `?` in them are wildcards, as in fnmatch."""

SUBNET = "subnet-"
"""How a subnet's id begins. Every other place is an availability zone."""

PARTITIONS: Mapping[str, tuple[str, str]] = {
    "cn-": ("amazonaws.com.cn", "api.amazonwebservices.com.cn"),
    "eusc-": ("amazonaws.eu", "api.amazonwebservices.eu"),
    "us-iso-": ("c2s.ic.gov", "api.aws.ic.gov"),
    "us-isob-": ("sc2s.sgov.gov", "api.aws.scloud"),
    "eu-isoe-": ("cloud.adc-e.uk", "api.cloud-aws.adc-e.uk"),
    "us-isof-": ("csp.hci.ic.gov", "api.aws.hci.ic.gov"),
    "": ("amazonaws.com", "api.aws"),
}
"""By how the names of a partition's regions begin: the domain of its hosts, and of those that speak
IPv6, too. From botocore's data/partitions.json, which a test compares."""

_OURS = OUR_TAGS | {"Name"}
_REGION = re.compile(r"[a-z]{2,4}(-[a-z]+){1,3}-\d{1,2}")


@dataclass(frozen=True, slots=True)
class Access:
    """`[Cloud Credentials]`: endpoints, keys and the time-out (seconds)."""

    region: str
    endpoint: Endpoint
    sts: Endpoint
    amazon: bool
    timeout: float
    trust: str | bool | None
    keys: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Template:
    """`[Cloud Create]`: the settings of every new node. `tags` are set beside our own."""

    image_id: str
    subnet_id: str | None = None
    group_ids: tuple[str, ...] = ()
    group_names: tuple[str, ...] = ()
    key_name: str | None = None
    ssh_key: bytes | None = None
    iam_instance_profile: str | None = None
    availability_zone: str | None = None
    placement_group: str | None = None
    assign_public_ip: bool = False
    ebs_optimized: bool = False
    terminate_on_shutdown: bool = False
    metadata_tokens: str = "required"
    spot: bool = False
    spot_max_price: str | None = None
    efa: bool = False
    root_device: str | None = None
    """The image's own name of the volume that it boots from; None: EC2 is asked for it."""
    scratch_device: str = "/dev/xvdt"
    root: Mapping[str, str] = field(default_factory=dict)
    """What is asked of the volume that nodes boot from, by parameter of EC2's `Ebs`."""
    scratch: Mapping[str, str] = field(default_factory=dict)
    instance: Mapping[str, str] = field(default_factory=dict)
    """By parameter of RunInstances."""
    tags: Mapping[str, str] = field(default_factory=dict)


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
    given = Sections.of(config)
    access = _access(given.credentials, timeout)
    filters = _filters(given.listing)
    template = _template(given.create, filters)
    _check_places(given.create, config.places, access, template)
    given.check()
    return access, filters, template


def _access(given: SectionReader, timeout: float) -> Access:
    region = given.text("region") or "us-east-1"
    host = f"ec2.{region}.{_domains(region)[0]}"
    if not _REGION.fullmatch(region) and not given.text("endpoint"):
        given.wrong("region", "not a region's name (they look like us-east-1)", region)
    keys = _keys(given)
    insecure = given.flag("insecure")
    own = given.text("endpoint")
    endpoint = _endpoint(given, "endpoint", own or _host_and_port(given, host), insecure)
    domain = _amazon_domain(endpoint.host)
    sts = given.text("sts_endpoint")
    if sts is not None:
        sts_endpoint = _endpoint(given, "sts_endpoint", sts, insecure)
    elif domain is not None:
        sts_endpoint = Endpoint(f"sts.{region}.{domain}", 443)
    else:
        sts_endpoint = endpoint
    return Access(
        region=region,
        endpoint=endpoint,
        sts=sts_endpoint,
        amazon=domain is not None,
        timeout=given.number("timeout") or timeout,
        trust=False if insecure else given.text("ca_bundle"),
        keys=keys,
    )


def _domains(region: str) -> tuple[str, str]:
    """The domains of the region's partition; see PARTITIONS."""
    return next(both for begin, both in PARTITIONS.items() if region.startswith(begin))


def _amazon_domain(host: str) -> str | None:
    """Amazon's domain that the host is in; None where it is another's."""
    domains = (domain for both in PARTITIONS.values() for domain in both)
    return next((domain for domain in domains if host.endswith(f".{domain}")), None)


def _keys(given: SectionReader) -> dict[str, str]:
    """The credentials that the file itself gives, by option name."""
    for one, other in (("key", "secret"), ("secret", "key"), ("token", "key")):
        if given.text(one) and not given.text(other):
            given.wrong(one, f"needs {other}, too; without both, Amazon's standard chain is used")
    if given.text("profile") and given.text("key"):
        given.wrong("profile", "contradicts key: give one of them")
    return {
        key: given.values[key] for key in ("key", "secret", "token", "profile") if given.text(key)
    }


def _host_and_port(given: SectionReader, host: str) -> str:
    """libcloud's own `host`, `port` and `secure`, as a URL."""
    scheme = "https" if given.flag("secure", default=True) else "http"
    port = given.text("port")
    return f"{scheme}://{given.text('host') or host}" + (f":{port}" if port else "")


def _endpoint(given: SectionReader, key: str, text: str, insecure: bool) -> Endpoint:
    try:
        return Endpoint.parse(text, insecure)
    except ValueError as error:
        given.wrong(key, str(error), text)
        return Endpoint("", 443)


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
    values = _without_aliases(given)
    given = SectionReader(given.section, values, given.problems)
    image = given.text("image_id")
    if image is None:
        given.wrong("image_id", "is missing: the AMI that nodes boot from")
    elif not image.startswith(IMAGES):
        given.wrong("image_id", "is no AMI: write its id, ami-..., or resolve:ssm:NAME", image)
    groups = [name.strip() for name in (given.text("security_groups") or "").split(",")]
    group_ids = tuple(name for name in groups if name.startswith("sg-"))
    group_names = tuple(name for name in groups if name and not name.startswith("sg-"))
    public = given.flag("assign_public_ip")
    if group_names and (given.text("subnet_id") or public):
        given.wrong("security_groups", "beside subnet_id or assign_public_ip, EC2 takes ids (sg-)")
    price = given.number("spot_max_price")
    volumes = read_passed(given, VOLUMES)
    root = read_passed(given, ROOT) | volumes
    _check_passed(given, image, root)
    return Template(
        image_id=image or "",
        subnet_id=given.text("subnet_id"),
        group_ids=group_ids,
        group_names=group_names,
        key_name=given.text("key_name"),
        ssh_key=_public_key(given),
        iam_instance_profile=given.text("iam_instance_profile"),
        availability_zone=given.text("availability_zone"),
        placement_group=given.text("placement_group"),
        assign_public_ip=public,
        ebs_optimized=given.flag("ebs_optimized"),
        terminate_on_shutdown=given.flag("terminate_on_shutdown"),
        metadata_tokens=_metadata_tokens(given),
        spot=given.flag("spot"),
        spot_max_price=None if price is None else given.text("spot_max_price"),
        efa=given.flag("efa"),
        root_device=given.text("root_device"),
        scratch_device=given.text("scratch_device") or "/dev/xvdt",
        root=root,
        scratch={"VolumeType": "gp3"} | read_passed(given, SCRATCH) | volumes,
        instance=read_passed(given, INSTANCE),
        tags=_create_tags(given, filters),
    )


def _check_passed(given: SectionReader, image: str | None, root: Mapping[str, str]) -> None:
    """Say which of the options that are passed on lack one that they need."""
    is_ami = image is None or image.startswith("ami-")
    if root and not is_ami and not given.text("root_device"):
        why = f"is needed beside image_id = {image}, of which EC2 does not say what it calls"
        given.wrong("root_device", f"{why} the volume to boot from")
    if "KmsKeyId" in root and root.get("Encrypted") != "true":
        given.wrong("volumes_kms_key", "needs volumes_encrypted = true")
    if given.text("launch_template_version") and not given.text("launch_template"):
        given.wrong("launch_template_version", "needs launch_template")


def _metadata_tokens(given: SectionReader) -> str:
    text = given.text("metadata_tokens") or "required"
    if text not in ("required", "optional"):
        given.wrong("metadata_tokens", "neither required nor optional", text)
    return text


def _public_key(given: SectionReader) -> bytes | None:
    path = given.text("ssh_key")
    if path is None:
        return None
    if given.text("key_name"):
        given.wrong("ssh_key", "contradicts key_name: give one of them")
        return None
    try:
        return Path(path).read_bytes().strip()
    except OSError as error:
        given.wrong("ssh_key", f"can't be read: {error.strerror}", path)
        return None


def _check_places(
    given: SectionReader, places: Mapping[str, str], access: Access, template: Template
) -> None:
    """Say what is wrong with the places as such; check-cloud asks EC2 whether they are there."""
    for place, option in places.items():
        if place.startswith(SUBNET):
            if template.group_names:
                names = ", ".join(template.group_names)
                given.wrong("security_groups", f"beside {option}, EC2 takes ids (sg-)", names)
        elif access.amazon and not place.startswith(access.region):
            zones = [f"{access.region}{letter}" for letter in "abcdef"]
            given.problems.append(
                f"{option}: {place} is neither a subnet's id (subnet-...) nor a zone of "
                f"{access.region}{did_you_mean(place, zones)}"
            )
        elif template.subnet_id is not None:
            given.problems.append(
                f"{option}: {place} is a zone, and [Cloud Create] subnet_id is in one zone: "
                "name subnets, or leave subnet_id out"
            )


def _without_aliases(given: SectionReader) -> dict[str, str]:
    values: dict[str, str] = {}
    for key, value in given.values.items():
        name = ALIASES.get(key, key)
        if name in values:
            given.wrong(key, f"means the same as {name}, which is given, too")
        values[name] = value
    return values


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
