"""The parameters of EC2's calls, composed by hand.

libcloud's create_node can neither tag volumes nor ask for a one-time spot instance.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import replace

from nodemanager.cloud.api import CreateOrder
from nodemanager.cloud.declared import passed_on
from nodemanager.cloud.ec2.options import SUBNET, Template
from nodemanager.cloud.tags import tags_for
from nodemanager.errors import BadRequest

LONGEST_USER_DATA = 16_384
"""Bytes before base64 (EC2's limit)."""
LONGEST_TOKEN = 64
TAGGED_AT_LAUNCH = ("instance", "volume", "network-interface")
"""The resources that RunInstances creates and can tag, but for spot requests, which end by
themselves."""


def filter_params(filters: Mapping[str, str]) -> dict[str, str]:
    """EC2's `Filter.N` parameters, numbered from one; EC2 combines them with AND."""
    params: dict[str, str] = {}
    for number, (name, value) in enumerate(filters.items(), 1):
        params[f"Filter.{number}.Name"] = name
        params[f"Filter.{number}.Value.1"] = value
    return params


def literal(value: str) -> str:
    """`value` as a filter that matches only itself: escapes `*`, `?` and backslash."""
    return "".join(f"\\{char}" if char in "*?\\" else char for char in value)


def run_params(order: CreateOrder, template: Template, own_scratch_mb: int) -> dict[str, str]:
    """The parameters of RunInstances for exactly one node with its tags and scratch volume.

    `own_scratch_mb` is the size of the instance type's own disks. Raises BadRequest for what EC2
    would refuse: too much user data, too long a token.
    """
    template = in_place(template, order.place)
    user_data = order.user_data.encode("utf-8")
    if len(user_data) > LONGEST_USER_DATA:
        raise BadRequest(f"the user data has {len(user_data)} bytes, EC2 takes {LONGEST_USER_DATA}")
    if len(order.client_token) > LONGEST_TOKEN:
        raise BadRequest(f"the client token is longer than EC2's {LONGEST_TOKEN} characters")
    params = {
        "ImageId": template.image_id,
        "InstanceType": order.size.instance_type,
        "MinCount": "1",
        "MaxCount": "1",
        "ClientToken": order.client_token,
        "UserData": base64.b64encode(user_data).decode("ascii"),
        # The user data holds the ping secret. A forged request through a web service on the node
        # must not read it, as IMDSv1, which wants no token, would allow.
        "MetadataOptions.HttpTokens": template.metadata_tokens,
    }
    params |= _optional(
        {
            "KeyName": template.key_name,
            "Placement.AvailabilityZone": template.availability_zone,
            "Placement.GroupName": template.placement_group,
            "EbsOptimized": "true" if template.ebs_optimized else None,
            "InstanceInitiatedShutdownBehavior": (
                "terminate" if template.terminate_on_shutdown else None
            ),
        }
    )
    params |= passed_on(template, "instance")
    params |= _network(template)
    params |= _profile(template.iam_instance_profile)
    params |= _volumes(order.size.scratch_mb - own_scratch_mb, template)
    if template.spot or order.size.preemptible:
        params |= _spot(template.spot_max_price)
    params |= _tags(order, template.tags)
    return params


def in_place(template: Template, place: str | None) -> Template:
    """The template for a node in that subnet or zone; itself where the order names none."""
    if place is None:
        return template
    if place.startswith(SUBNET):
        return replace(template, subnet_id=place, availability_zone=None)
    return replace(template, subnet_id=None, availability_zone=place)


def _optional(params: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in params.items() if value is not None}


def _numbered(name: str, values: Iterable[str]) -> dict[str, str]:
    return {f"{name}.{number}": value for number, value in enumerate(values, 1)}


def _network(template: Template) -> dict[str, str]:
    """Subnet and groups; with a public address or EFA, EC2 wants them on its interface."""
    where = _optional({"SubnetId": template.subnet_id})
    where |= _numbered("SecurityGroupId", template.group_ids)
    if not template.assign_public_ip and not template.efa:
        return where | _numbered("SecurityGroup", template.group_names)
    interface = {
        "DeviceIndex": "0",
        **({"AssociatePublicIpAddress": "true"} if template.assign_public_ip else {}),
        **({"InterfaceType": "efa"} if template.efa else {}),
        "DeleteOnTermination": "true",
        **where,
    }
    return {f"NetworkInterface.1.{name}": value for name, value in interface.items()}


def _profile(profile: str | None) -> dict[str, str]:
    if profile is None:
        return {}
    kind = "Arn" if profile.startswith("arn:") else "Name"
    return {f"IamInstanceProfile.{kind}": profile}


def _volumes(lacking_mb: int, template: Template) -> dict[str, str]:
    """The volume to boot from, where something is asked of it, and one for the scratch space that
    the instance type's own disks lack, if any.

    EBS counts in GiB. One GiB per thousand MB is enough, whether MB means 10^6 or 2^20 bytes.
    """
    volumes: list[tuple[str, Mapping[str, str]]] = []
    if template.root and template.root_device is not None:
        volumes.append((template.root_device, template.root))
    if lacking_mb > 0:
        size_gib = str(-(-lacking_mb // 1000))
        volumes.append((template.scratch_device, {"VolumeSize": size_gib, **template.scratch}))
    params: dict[str, str] = {}
    for number, (device, asked) in enumerate(volumes, 1):
        mapping = f"BlockDeviceMapping.{number}"
        params[f"{mapping}.DeviceName"] = device
        for name, value in {**asked, "DeleteOnTermination": "true"}.items():
            params[f"{mapping}.Ebs.{name}"] = value
    return params


def _spot(max_price: str | None) -> dict[str, str]:
    """A one-time spot request: a persistent one would boot nodes by itself."""
    options = "InstanceMarketOptions.SpotOptions"
    return {
        "InstanceMarketOptions.MarketType": "spot",
        f"{options}.SpotInstanceType": "one-time",
        f"{options}.InstanceInterruptionBehavior": "terminate",
        **_optional({f"{options}.MaxPrice": max_price}),
    }


def _tags(order: CreateOrder, others: Mapping[str, str]) -> dict[str, str]:
    """The tags of the node and of its resources (D4); ours come last and so override others."""
    tags = dict(others)
    tags["Name"] = order.name
    tags |= tags_for(order.tags)
    params: dict[str, str] = {}
    for number, resource in enumerate(TAGGED_AT_LAUNCH, 1):
        specification = f"TagSpecification.{number}"
        params[f"{specification}.ResourceType"] = resource
        for position, (name, value) in enumerate(tags.items(), 1):
            params[f"{specification}.Tag.{position}.Key"] = name
            params[f"{specification}.Tag.{position}.Value"] = value
    return params
