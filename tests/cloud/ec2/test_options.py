"""What the three pass-through sections of an EC2 file mean."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from nodemanager.cloud.api import CloudDriver
from nodemanager.cloud.ec2 import access as ec2_access
from nodemanager.cloud.ec2 import options as ec2_options
from nodemanager.cloud.ec2.adapter import build_cloud
from nodemanager.cloud.ec2.order import LONGEST_USER_DATA, run_params
from nodemanager.core.model.world import Size
from nodemanager.errors import BadRequest, ConfigError
from tests.cases import cases
from tests.cloud.cloud_config import cloud_config
from tests.cloud.ec2 import schema as ec2_schema
from tests.cloud.ec2.helpers import SMALL, order

KEYS = {"key": "a", "secret": "b"}


def adapter(
    credentials: dict[str, str] | None = None,
    listing: dict[str, str] | None = None,
    create: dict[str, str] | None = None,
) -> CloudDriver:
    return build_cloud(
        cloud_config(
            pool="blue",
            credentials=KEYS if credentials is None else credentials,
            listing=listing or {},
            create={"image_id": "ami-1", **(create or {})},
        ),
        timeout=20.0,
    )


def params(size: Size = SMALL, **create: str) -> dict[str, str]:
    template = adapter(create=create)._provider.template
    return run_params(order(size=size), template, 0)


def problems(**sections: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        adapter(**sections)
    return caught.value.problems


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("cloud.example.org:8773", "https://cloud.example.org:8773"),
        (
            "https://cloud.example.org/services/compute/",
            "https://cloud.example.org:443/services/compute",
        ),
        ("http://[::1]:5000", "http://[::1]:5000"),
    ],
)
def test_an_endpoint_is_a_host_or_a_url_and_has_sts_too(text: str, address: str) -> None:
    access = adapter({**KEYS, "endpoint": text})._provider.access
    assert (str(access.endpoint), str(access.sts)) == (address, address)


def test_sts_may_be_elsewhere_and_http_is_for_loopback_unless_the_file_says_so() -> None:
    own = {"endpoint": "http://[::1]:5000", "sts_endpoint": "http://localhost:5001"}
    assert str(adapter({**KEYS, **own})._provider.access.sts) == "http://localhost:5001"
    plain = {"endpoint": "http://cloud.example.org", "insecure": "yes"}
    assert (
        str(adapter({**KEYS, **plain})._provider.access.endpoint) == "http://cloud.example.org:80"
    )


def test_an_endpoint_may_be_named_as_libcloud_does() -> None:
    given = {"host": "127.0.0.1", "port": "5000", "secure": "no"}
    assert str(adapter({**KEYS, **given})._provider.access.endpoint) == "http://127.0.0.1:5000"


def test_a_region_that_libcloud_does_not_know_and_a_private_link_have_amazons_sts() -> None:
    """The hosts of each partition are held against Amazon's own library below."""
    access = adapter({**KEYS, "region": "mx-central-1"})._provider.access
    assert str(access.endpoint) == "https://ec2.mx-central-1.amazonaws.com:443"
    link = {"endpoint": "vpce-0a.ec2.eu-west-1.vpce.amazonaws.com", "region": "eu-west-1"}
    access = adapter({**KEYS, **link})._provider.access
    assert str(access.endpoint) == f"https://{link['endpoint']}:443"
    assert str(access.sts) == "https://sts.eu-west-1.amazonaws.com:443"


def test_a_time_out_under_cloud_credentials_is_the_forerunner_s() -> None:
    cloud = adapter({**KEYS, "timeout": "7"})
    assert cloud.timeout == 7.0
    assert cloud._drivers.mine().connection.timeout == 7.0


def test_every_problem_is_told_at_once() -> None:
    found = problems(
        credentials={
            "key": "only",
            "profile": "p",
            "region": "us-esat",
            "insecure": "maybe",
            "timeout": "0",
        },
        listing={"tag:a": "1", "tag_a": "2", "vpc-id": " "},
        create={
            "image_id": "",
            "tag:Name": "x",
            "security_groups": "default",
            "subnet_id": "subnet-1",
            "ex_keyname": "k",
            "ssh_key": "/k.pub",
            "spot": "yes",
            "ex_spot": "yes",
            "spot_max_price": "-1",
        },
    )
    words = {line.split(":")[0].split(" = ")[0] for line in found}
    assert words == {
        "[Cloud Credentials] region",
        "[Cloud Credentials] key",
        "[Cloud Credentials] profile",
        "[Cloud Credentials] insecure",
        "[Cloud Credentials] timeout",
        "[Cloud List] tag_a",
        "[Cloud List] vpc-id",
        "[Cloud Create] ex_spot",
        "[Cloud Create] image_id",
        "[Cloud Create] security_groups",
        "[Cloud Create] spot_max_price",
        "[Cloud Create] ssh_key",
        "[Cloud Create] tag",
    }


@pytest.mark.parametrize("image", ["ubuntu-22.04", "ami", "i-0abc"])
def test_what_is_no_image_of_ec2_is_told(image: str) -> None:
    (problem,) = problems(create={"image_id": image})
    told = f"[Cloud Create] image_id = {image}: is no AMI: write its id, ami-..., or resolve:ssm:"
    assert problem.startswith(told)


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://cloud.example.org",
        "ftp://cloud.example.org",
        "https://",
        "host:notaport",
        "https://user@cloud.example.org",
    ],
)
def test_an_endpoint_that_can_t_be_is_refused(endpoint: str) -> None:
    (line,) = problems(credentials={**KEYS, "endpoint": endpoint})
    assert line.startswith("[Cloud Credentials] endpoint")


def test_a_secret_is_in_no_problem_and_no_repr() -> None:
    found = problems(credentials={"secret": "wJalrXUtnFEMI", "token": "FwoGZXIvYXdzE"})
    cloud = adapter({"key": "AKID", "secret": "wJalrXUtnFEMI", "token": "FwoGZXIvYXdzE"})
    shown = repr([found, cloud, cloud._provider, cloud._provider.keys.keys()])
    assert "wJalrXUtnFEMI" not in shown
    assert "FwoGZXIvYXdzE" not in shown


def test_the_forerunner_s_own_example_is_taken() -> None:
    cloud = adapter(
        {"key": "k", "secret": "s", "region": "us-east-1"},
        {
            "instance-state-name": "running",
            "tag_arvados-class": "dynamic-compute",
            "tag_cluster": "zyxwv",
        },
        {
            "ping_host": "hostname:port",
            "image_id": "ami-1",
            "subnet_id": "subnet-1",
            "security_groups": "sg-1, sg-2",
            "ex_keyname": "string",
            "ex_iamprofile": "arn:aws:iam::123456789012:instance-profile/ROLENAME",
        },
    )
    assert cloud._provider.filters == {
        "tag:arvados-class": "dynamic-compute",
        "tag:cluster": "zyxwv",
    }
    made = run_params(order(), cloud._provider.template, 0)
    wanted = {
        "ImageId": "ami-1",
        "SubnetId": "subnet-1",
        "SecurityGroupId.1": "sg-1",
        "SecurityGroupId.2": "sg-2",
        "KeyName": "string",
        "IamInstanceProfile.Arn": "arn:aws:iam::123456789012:instance-profile/ROLENAME",
        "TagSpecification.1.Tag.1.Key": "arvados-class",
        "TagSpecification.1.Tag.1.Value": "dynamic-compute",
    }
    assert wanted.items() <= made.items()


@cases(
    ("create", "expected"),
    {
        "key-name": ({"key_name": "k"}, {"KeyName": "k"}),
        "profile-name": ({"iam_instance_profile": "role"}, {"IamInstanceProfile.Name": "role"}),
        "groups-by-name": (
            {"security_groups": "one, two"},
            {"SecurityGroup.1": "one", "SecurityGroup.2": "two"},
        ),
        "public-address": (
            {"assign_public_ip": "yes", "subnet_id": "subnet-1", "security_groups": "sg-1"},
            {
                "NetworkInterface.1.DeviceIndex": "0",
                "NetworkInterface.1.AssociatePublicIpAddress": "true",
                "NetworkInterface.1.DeleteOnTermination": "true",
                "NetworkInterface.1.SubnetId": "subnet-1",
                "NetworkInterface.1.SecurityGroupId.1": "sg-1",
            },
        ),
        "placement": (
            {"availability_zone": "us-east-1b", "placement_group": "rack"},
            {"Placement.AvailabilityZone": "us-east-1b", "Placement.GroupName": "rack"},
        ),
        "flags": (
            {"ebs_optimized": "on", "ex_terminate_on_shutdown": "true"},
            {"EbsOptimized": "true", "InstanceInitiatedShutdownBehavior": "terminate"},
        ),
        "spot": (
            {"spot": "yes", "spot_max_price": "0.05"},
            {
                "InstanceMarketOptions.MarketType": "spot",
                "InstanceMarketOptions.SpotOptions.SpotInstanceType": "one-time",
                "InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior": "terminate",
                "InstanceMarketOptions.SpotOptions.MaxPrice": "0.05",
            },
        ),
    },
)
def test_an_option_becomes_ec2_s_parameters(
    create: dict[str, str], expected: dict[str, str]
) -> None:
    base, made = params(), params(**create)
    varying = ("ClientToken", "TagSpecification")
    extra = {
        name: value
        for name, value in made.items()
        if name not in base and not name.startswith(varying)
    }
    assert extra == expected


@pytest.mark.parametrize(
    ("create", "expected"), [({}, "required"), ({"metadata_tokens": "optional"}, "optional")]
)
def test_a_nodes_metadata_wants_a_token_unless_the_file_says_otherwise(
    create: dict[str, str], expected: str
) -> None:
    """X16: its user data holds the ping secret."""
    assert params(**create)["MetadataOptions.HttpTokens"] == expected


def test_metadata_tokens_are_required_or_optional() -> None:
    with pytest.raises(ConfigError, match="metadata_tokens = no: neither required nor optional"):
        params(metadata_tokens="no")


@cases(
    ("wanted_mb", "own_mb", "gib"),
    {
        "none-wanted": (0, 0, None),
        "the-type-has-it": (75_000, 75_000, None),
        "what-the-type-lacks": (100_000, 75_000, "25"),
        "the-least": (75_001, 75_000, "1"),
        "rounded-up": (102_400, 0, "103"),
        "as-much-as-is-asked-for": (30_000_000, 0, "30000"),
    },
)
def test_a_scratch_volume_is_as_large_as_what_the_type_lacks_n3_p5(
    wanted_mb: int, own_mb: int, gib: str | None
) -> None:
    size = Size("s", "m5.large", 2, 8192, scratch_mb=wanted_mb)
    made = run_params(order(size=size), adapter()._provider.template, own_mb)
    assert made.get("BlockDeviceMapping.1.Ebs.VolumeSize") == gib


def test_what_ec2_would_refuse_is_not_sent() -> None:
    template = adapter()._provider.template
    run_params(order(user_data="x" * LONGEST_USER_DATA), template, 0)
    with pytest.raises(BadRequest, match="user data"):
        run_params(order(user_data="ü" * LONGEST_USER_DATA), template, 0)
    with pytest.raises(BadRequest, match="token"):
        run_params(order(client_token="t" * 65), template, 0)


def test_our_own_tags_can_t_be_set_by_a_filter_of_cloud_list() -> None:
    cloud = adapter(listing={"tag:nodemanager-pool": "green"})
    made = run_params(order(), cloud._provider.template, 0)
    assert "green" not in made.values()


@cases(
    ("key", "taken"),
    {
        "tag-colon": ("tag:arvados-class", True),
        "tag-underscore": ("tag_cluster", True),
        "no-name": ("tag:", False),
        "another-word": ("tags", False),
    },
)
@pytest.mark.parametrize("section", ["Cloud List", "Cloud Create"])
def test_a_tag_of_any_name_is_accepted(section: str, key: str, taken: bool) -> None:
    names = ec2_options.SECTIONS[section]
    assert any(fnmatchcase(key, name) for name in names) is taken
    assert (ec2_options.tag_name(key) is not None) is taken


def test_a_public_key_that_can_t_be_read_is_told_at_start(tmp_path: Path) -> None:
    (line,) = problems(create={"ssh_key": str(tmp_path / "nowhere.pub")})
    assert line.startswith("[Cloud Create] ssh_key = ")
    assert "No such file" in line


@pytest.mark.parametrize("dual", [False, True], ids=["", "over-ipv6-too"])
def test_each_partition_has_the_hosts_that_amazons_own_library_asks(dual: bool) -> None:
    """CL3: no account at Amazon is unknown (L5)."""
    from botocore.config import Config
    from botocore.session import Session

    session = Session()
    table = session.get_component("data_loader").load_data("partitions")["partitions"]
    names = ("dnsSuffix", "dualStackDnsSuffix")
    domains = {tuple(one["outputs"][name] for name in names) for one in table}
    assert domains == set(ec2_access.PARTITIONS.values())
    keys = {"aws_access_key_id": "k", "aws_secret_access_key": "s"}
    for partition in table:
        if dual and partition["id"].startswith("aws-iso"):
            # botocore's models know no such hosts there.
            continue
        region = next(name for name in partition["regions"] if "global" not in name)
        config = Config(use_dualstack_endpoint=dual)
        clients = {
            name: session.create_client(name, region_name=region, config=config, **keys)
            for name in ("ec2", "sts")
        }
        told = {name: urlsplit(one.meta.endpoint_url).hostname for name, one in clients.items()}
        endpoint = {"endpoint": told["ec2"]} if dual else {}
        access = adapter({**KEYS, "region": region, **endpoint})._provider.access
        assert {"ec2": access.endpoint.host, "sts": access.sts.host} == told
        assert access.amazon


VOLUME = {"DeleteOnTermination": True}
ROOT_ASKED = {"VolumeSize": 50, "VolumeType": "io2", "Iops": 9000, **VOLUME}


@cases(
    ("create", "meant"),
    {
        "root-volume": (
            {
                "root_device": "/dev/sda1",
                "root_volume_size": "50",
                "root_volume_type": "io2",
                "root_volume_iops": "9000",
            },
            {"BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Ebs": ROOT_ASKED}]},
        ),
        "encrypted": (
            {
                "root_device": "/dev/xvda",
                "root_volume_throughput": "500",
                "volumes_encrypted": "true",
                "volumes_kms_key": "alias/compute",
            },
            {
                "BlockDeviceMappings": [
                    {
                        "DeviceName": "/dev/xvda",
                        "Ebs": {
                            "Throughput": 500,
                            "Encrypted": True,
                            "KmsKeyId": "alias/compute",
                            **VOLUME,
                        },
                    }
                ]
            },
        ),
        "launch-template": (
            {"launch_template": "lt-0a", "launch_template_version": "$Latest"},
            {"LaunchTemplate": {"LaunchTemplateId": "lt-0a", "Version": "$Latest"}},
        ),
        "launch-template-by-name": (
            {"launch_template": "compute nodes"},
            {"LaunchTemplate": {"LaunchTemplateName": "compute nodes"}},
        ),
        "reservation": (
            {"capacity_reservation": "cr-0a"},
            {
                "CapacityReservationSpecification": {
                    "CapacityReservationTarget": {"CapacityReservationId": "cr-0a"}
                }
            },
        ),
        "group-of-reservations": (
            {"capacity_reservation": "arn:aws:resource-groups:us-east-1:1:group/ours"},
            {
                "CapacityReservationSpecification": {
                    "CapacityReservationTarget": {
                        "CapacityReservationResourceGroupArn": (
                            "arn:aws:resource-groups:us-east-1:1:group/ours"
                        )
                    }
                }
            },
        ),
        "no-reservation": (
            {"capacity_reservation": "none"},
            {"CapacityReservationSpecification": {"CapacityReservationPreference": "none"}},
        ),
        "tenancy": ({"tenancy": "dedicated"}, {"Placement": {"Tenancy": "dedicated"}}),
        "hop-limit": (
            {"metadata_hop_limit": "2"},
            {"MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 2}},
        ),
        "efa": (
            {"efa": "yes", "subnet_id": "subnet-1", "security_groups": "sg-1"},
            {
                "NetworkInterfaces": [
                    {
                        "DeviceIndex": 0,
                        "InterfaceType": "efa",
                        "DeleteOnTermination": True,
                        "SubnetId": "subnet-1",
                        "Groups": ["sg-1"],
                    }
                ]
            },
        ),
    },
)
def test_an_option_is_sent_as_amazons_own_library_sends_it(
    create: dict[str, str], meant: dict[str, Any]
) -> None:
    """What is sent beside what is sent without the option, held against botocore's model."""
    one = order()
    plain, made = (
        run_params(one, adapter(create=asked)._provider.template, 0) for asked in ({}, create)
    )
    from botocore.serialize import create_serializer
    from botocore.validate import ParamValidator

    operation = ec2_schema.model().operation_model("RunInstances")
    whole = {"MinCount": 1, "MaxCount": 1, **meant}
    report = ParamValidator().validate(whole, operation.input_shape)
    assert not report.has_errors(), report.generate_report()
    sent = create_serializer("ec2").serialize_to_request(whole, operation)["body"]
    told = {name: str(value) for name, value in sent.items()}
    beside = {"Action", "Version"}
    assert {**plain, **{key: told[key] for key in told.keys() - beside}} == made


def test_the_scratch_volume_is_of_the_kind_that_the_file_says() -> None:
    made = params(
        Size("s", "m5.large", 2, 8192, scratch_mb=100_000),
        scratch_volume_type="io2",
        scratch_volume_iops="5000",
        root_device="/dev/sda1",
        root_volume_size="30",
    )
    mappings = {name: made[name] for name in made if name.startswith("BlockDeviceMapping.")}
    assert mappings == {
        "BlockDeviceMapping.1.DeviceName": "/dev/sda1",
        "BlockDeviceMapping.1.Ebs.VolumeSize": "30",
        "BlockDeviceMapping.1.Ebs.DeleteOnTermination": "true",
        "BlockDeviceMapping.2.DeviceName": "/dev/xvdt",
        "BlockDeviceMapping.2.Ebs.VolumeSize": "100",
        "BlockDeviceMapping.2.Ebs.VolumeType": "io2",
        "BlockDeviceMapping.2.Ebs.Iops": "5000",
        "BlockDeviceMapping.2.Ebs.DeleteOnTermination": "true",
    }


def test_an_option_that_needs_another_says_so() -> None:
    told = problems(
        create={
            "image_id": "resolve:ssm:/ours",
            "root_volume_size": "30",
            "volumes_kms_key": "k",
            "launch_template_version": "1",
        }
    )
    assert told == [
        "[Cloud Create] root_device: is needed beside image_id = resolve:ssm:/ours, of which EC2 "
        "does not say what it calls the volume to boot from",
        "[Cloud Create] volumes_kms_key: needs volumes_encrypted = true",
        "[Cloud Create] launch_template_version: needs launch_template",
    ]
