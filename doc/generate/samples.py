"""The sample files: the options that each sets, and those that it only shows.

The comment above an option comes from the option's own declaration.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from doc.generate.passthrough import (
    AZURE_CREATE,
    AZURE_CREDENTIALS,
    AZURE_LIST,
    EC2_CREATE,
    EC2_CREDENTIALS,
    EC2_LIST,
    GCE_CREATE,
    GCE_CREDENTIALS,
    GCE_LIST,
    LIBVIRT_CREATE,
    LIBVIRT_CREDENTIALS,
    LOCAL_CREATE,
    OPENSTACK_CREATE,
    OPENSTACK_CREDENTIALS,
    OPENSTACK_LIST,
)
from nodemanager.cloud.azure.options import PASSED as AZURE_PASSED
from nodemanager.cloud.ec2.options import PASSED
from nodemanager.cloud.gce.options import PASSED as GCE_PASSED
from nodemanager.cloud.libvirt.options import PASSED as LIBVIRT_PASSED


@dataclass(frozen=True, slots=True)
class Hint:
    """A key that the sample shows with this value, commented out."""

    value: str


SHOWN = Hint("")
"""An option that the sample shows with its default, commented out."""
Value = str | Hint


@dataclass(frozen=True, slots=True)
class Part:
    """One section of a sample. `texts` are the comments for a pass-through section's keys."""

    section: str
    values: dict[str, Value] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    intro: str = ""


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample file, etc/NAME.cfg."""

    name: str
    intro: str
    parts: tuple[Part, ...]


LOCAL = Sample(
    "local",
    """A demonstration cluster on this machine: its nodes are processes, and every window is short.
    `make run` runs it.""",
    (
        Part(
            "Daemon",
            {
                "min_nodes": "4",
                "max_nodes": "4",
                "poll_time": "2",
                "max_poll_time": "5",
                "poll_stale_after": "20",
                "boot_fail_after": "30",
                "node_stale_after": "60",
                "state_dir": SHOWN,
            },
        ),
        Part("Manage", {"port": "8989", "ManagementToken": SHOWN}),
        Part("Logging", {"level": SHOWN, "format": SHOWN}),
        Part("Cloud", {"provider": "local", "shutdown_windows": "1, 999999"}),
        Part(
            "Cloud Create",
            {
                "boot_delay": "3",
                "work_for": "20",
                "vanish_after": "20",
                "ping_interval": Hint("2"),
                "image": Hint("worker"),
            },
            LOCAL_CREATE,
        ),
        Part("Records", {"provider": "registry"}),
        Part("Registry", {"slots": "4", "listen": "127.0.0.1:8990"}),
        Part("Cleaning", {"settle": "10"}),
    ),
)

_ALL_REGISTRY: dict[str, Value] = {
    "database": SHOWN,
    "slots": "64",
    "hostname": SHOWN,
    "domain": SHOWN,
    "listen": SHOWN,
    "token": SHOWN,
    "tls_cert": Hint("/etc/nodemanager/registry.crt"),
    "tls_key": Hint("/etc/nodemanager/registry.key"),
}

_ALL_CLEANING: dict[str, Value] = dict.fromkeys(
    (
        "settle",
        "absent_listings",
        "collapse_fraction",
        "max_cleans_per_cycle",
        "max_shutdowns_per_cycle",
        "action_timeout",
        "max_retry_after",
        "visible_after",
        "claim_expiry",
        "adopt_unclaimed",
        "backlog",
        "prune_after",
    ),
    SHOWN,
)

EC2 = Sample(
    "ec2",
    """Nodes on Amazon EC2, with their records in the registry of this program. Before the first
    boot, set [Cloud Create] image_id and ping_host, and the sizes to choose from.""",
    (
        Part(
            "Daemon",
            {
                "pool": SHOWN,
                "min_nodes": "0",
                "max_nodes": "2",
                "max_total_price": "1.00",
                "wishlist_command": Hint("/usr/local/bin/wishlist"),
                "poll_time": SHOWN,
                "cloudlist_poll_time": SHOWN,
                "nodelist_poll_time": SHOWN,
                "wishlist_poll_time": SHOWN,
                "max_poll_time": SHOWN,
                "poll_stale_after": SHOWN,
                "boot_fail_after": SHOWN,
                "node_stale_after": SHOWN,
                "consecutive_idle_count": SHOWN,
                "node_mem_scaling": SHOWN,
                "watchdog": SHOWN,
                "certs_file": Hint("/etc/ssl/certs/ca-certificates.crt"),
                "state_dir": SHOWN,
            },
        ),
        Part("Manage", {"address": SHOWN, "port": "8991", "ManagementToken": SHOWN}),
        Part("Logging", {"file": SHOWN, "level": SHOWN, "format": SHOWN}),
        Part(
            "Cloud",
            {
                "provider": "ec2",
                "shutdown_windows": "20, 999999",
                "driver_class": SHOWN,
                "places": Hint("us-east-1a, us-east-1b"),
            },
        ),
        Part(
            "Cloud Credentials",
            {
                "region": "us-east-1",
                "key": Hint("AKIA..."),
                "secret": Hint("..."),
                "token": Hint("..."),
                "profile": Hint("nodemanager"),
                "timeout": Hint("60"),
                "endpoint": Hint("https://ec2.example.org:8773"),
                "sts_endpoint": Hint("https://sts.example.org"),
                "ca_bundle": Hint("/etc/ssl/certs/example.pem"),
                "insecure": Hint("no"),
            },
            EC2_CREDENTIALS,
        ),
        Part(
            "Cloud List",
            {"tag_cluster": Hint("example"), "vpc-id": Hint("vpc-0123456789abcdef0")},
            EC2_LIST,
        ),
        Part(
            "Cloud Create",
            {
                "ping_host": Hint("registry.example.org"),
                "image_id": Hint("ami-0123456789abcdef0"),
                "subnet_id": Hint("subnet-0123456789abcdef0"),
                "security_groups": Hint("sg-0123456789abcdef0, sg-0fedcba9876543210"),
                "key_name": Hint("operators"),
                "ssh_key": Hint("/etc/nodemanager/id_ed25519.pub"),
                "iam_instance_profile": Hint("compute-node"),
                "availability_zone": Hint("us-east-1a"),
                "placement_group": Hint("cluster"),
                "assign_public_ip": Hint("no"),
                "ebs_optimized": Hint("no"),
                "terminate_on_shutdown": Hint("no"),
                "metadata_tokens": Hint("required"),
                "spot": Hint("no"),
                "spot_max_price": Hint("0.05"),
                "scratch_device": Hint("/dev/xvdt"),
                "efa": Hint("no"),
                "root_device": Hint("/dev/xvda"),
                **{key: Hint(one.example) for key, one in PASSED.items()},
                "user_data": Hint("/etc/nodemanager/user-data.yaml"),
                "tag_owner": Hint("example"),
            },
            EC2_CREATE,
        ),
        Part("Size m5.large", {"cores": "2", "price": "0.096", "place_order": Hint("spread")}),
        Part(
            "Size m5.xlarge",
            {
                "instance_type": SHOWN,
                "cores": "4",
                "ram": Hint("15500"),
                "scratch": Hint("100000"),
                "price": "0.192",
                "preemptible": Hint("no"),
            },
        ),
        Part("Records", {"provider": "registry"}),
        Part(
            "Registry",
            {**_ALL_REGISTRY, "domain": Hint("example.org"), "listen": Hint("0.0.0.0:8990")},
        ),
        Part("Cleaning", _ALL_CLEANING),
        Part("Lease", {"store": SHOWN, "database": SHOWN, "duration": SHOWN}),
        Part("Journal", {"path": SHOWN, "keep": SHOWN, "max_size": SHOWN}),
    ),
)

GCE = Sample(
    "gce",
    """Nodes on Google Compute Engine, with their records in the registry of this program. Before
    the first boot, set [Cloud Credentials] project, [Cloud Create] zone and ping_host, and the
    sizes to choose from.""",
    (
        Part(
            "Daemon",
            {
                "min_nodes": "0",
                "max_nodes": "2",
                "max_total_price": "1.00",
                "wishlist_command": Hint("/usr/local/bin/wishlist"),
                "node_stale_after": SHOWN,
            },
        ),
        Part("Manage", {"port": "8996"}),
        Part(
            "Cloud",
            {
                "provider": "gce",
                "shutdown_windows": "20, 999999",
                "places": Hint("us-central1-a, us-central1-b"),
            },
        ),
        Part(
            "Cloud Credentials",
            {
                "project": "my-project",
                "key": Hint("/etc/nodemanager/gce-key.json"),
                "user_id": Hint("nodemanager@my-project.iam.gserviceaccount.com"),
                "auth_type": Hint("SA"),
                "timeout": Hint("60"),
                "endpoint": Hint("https://compute.googleapis.com"),
                "token_endpoint": Hint("https://accounts.google.com"),
            },
            GCE_CREDENTIALS,
        ),
        Part(
            "Cloud List",
            {"tags": Hint("example, compute"), "zone": Hint("us-central1-a")},
            GCE_LIST,
        ),
        Part(
            "Cloud Create",
            {
                "zone": "us-central1-a",
                "image": "ubuntu-2404-lts-amd64",
                "ping_host": Hint("registry.example.org"),
                "user_data": Hint("/etc/nodemanager/user-data.yaml"),
                "image_project": Hint("my-project"),
                "network": Hint("default"),
                "subnet": Hint("compute"),
                "tags": Hint("outbound-only"),
                "assign_public_ip": Hint("yes"),
                "ssh_key": Hint("/etc/nodemanager/id_ed25519.pub"),
                "service_account_name": Hint("node@my-project.iam.gserviceaccount.com"),
                "preemptible": Hint("no"),
                "boot_disk_type": Hint("pd-balanced"),
                "boot_disk_gb": Hint("20"),
                "scratch_disk_type": Hint("local-ssd"),
                "accelerators": Hint("nvidia-tesla-t4:1"),
                "label:owner": Hint("example"),
                **{key: Hint(one.example) for key, one in GCE_PASSED.items()},
            },
            GCE_CREATE,
        ),
        Part("Size e2-standard-2", {"cores": "2", "price": "0.067", "place_order": Hint("spread")}),
        Part(
            "Size e2-standard-4",
            {"cores": "4", "price": "0.134", "preemptible": Hint("no")},
        ),
        Part("Records", {"provider": "registry"}),
        Part(
            "Registry",
            {"slots": "64", "domain": Hint("example.org"), "listen": Hint("0.0.0.0:8990")},
        ),
    ),
)

AZURE = Sample(
    "azure",
    """Nodes on Microsoft Azure, with their records in the registry of this program. Before the
    first boot, set [Cloud Credentials], [Cloud List] resource_group, [Cloud Create] network,
    ssh_key and ping_host, and the sizes to choose from.""",
    (
        Part(
            "Daemon",
            {
                "min_nodes": "0",
                "max_nodes": "2",
                "max_total_price": "1.00",
                "wishlist_command": Hint("/usr/local/bin/wishlist"),
                "node_stale_after": SHOWN,
            },
        ),
        Part("Manage", {"port": "8999"}),
        Part(
            "Cloud",
            {"provider": "azure", "shutdown_windows": "20, 999999", "places": Hint("1, 2, 3")},
        ),
        Part(
            "Cloud Credentials",
            {
                "subscription_id": "00000000-0000-0000-0000-000000000000",
                "tenant_id": "00000000-0000-0000-0000-000000000000",
                "region": "eastus",
                "key": Hint("00000000-0000-0000-0000-000000000000"),
                "secret": Hint("SECRET"),
                "certificate": Hint("/etc/nodemanager/azure-client.pem"),
                "federated_token_path": Hint("/var/run/secrets/azure/tokens/azure-identity-token"),
                "cloud_environment": Hint("AzureUSGovernment"),
                "timeout": Hint("60"),
                "endpoint": Hint("https://management.azure.com"),
                "login_endpoint": Hint("https://login.microsoftonline.com"),
            },
            AZURE_CREDENTIALS,
        ),
        Part(
            "Cloud List",
            {"resource_group": "nodes", "tag_cluster": Hint("example")},
            AZURE_LIST,
        ),
        Part(
            "Cloud Create",
            {
                "image": "Canonical:ubuntu-24_04-lts:server:latest",
                "network": "nodes",
                "subnet": Hint("default"),
                "ssh_key": "/etc/nodemanager/id_ed25519.pub",
                "user_name": Hint("nodemanager"),
                "ping_host": Hint("registry.example.org"),
                "user_data": Hint("/etc/nodemanager/user-data.yaml"),
                "network_security_group": Hint("nodes"),
                "assign_public_ip": Hint("no"),
                "accelerated_networking": Hint("no"),
                "zone": Hint("1"),
                "preemptible": Hint("no"),
                "spot_max_price": Hint("0.05"),
                "boot_disk_type": Hint("StandardSSD_LRS"),
                "boot_disk_gb": Hint("30"),
                "scratch_disk_type": Hint("StandardSSD_LRS"),
                "ephemeral_os_disk": Hint("CacheDisk"),
                "eviction_policy": Hint("Delete"),
                "identity": Hint("system"),
                "image_plan": Hint("Publisher:Product:Plan"),
                **{key: Hint(one.example) for key, one in AZURE_PASSED.items()},
                "tag_owner": Hint("example"),
            },
            AZURE_CREATE,
        ),
        Part(
            "Size Standard_D2s_v4", {"cores": "2", "price": "0.096", "place_order": Hint("spread")}
        ),
        Part(
            "Size Standard_D4s_v4",
            {"cores": "4", "price": "0.192", "preemptible": Hint("no")},
        ),
        Part("Records", {"provider": "registry"}),
        Part(
            "Registry",
            {"slots": "64", "domain": Hint("example.org"), "listen": Hint("0.0.0.0:8990")},
        ),
    ),
)

OPENSTACK = Sample(
    "openstack",
    """Nodes on an OpenStack cloud, with their records in the registry of this program. Before the
    first boot, set [Cloud Credentials], [Cloud Create] image and ping_host, and the sizes to choose
    from: each is a flavor of the cloud, by its name.""",
    (
        Part(
            "Daemon",
            {
                "pool": SHOWN,
                "min_nodes": "0",
                "max_nodes": "2",
                "max_total_price": "1.00",
                "wishlist_command": Hint("/usr/local/bin/wishlist"),
                "boot_fail_after": SHOWN,
                "node_stale_after": SHOWN,
            },
        ),
        Part("Manage", {"port": "8997", "ManagementToken": SHOWN}),
        Part("Logging", {"file": SHOWN, "level": SHOWN, "format": SHOWN}),
        Part(
            "Cloud",
            {
                "provider": "openstack",
                "shutdown_windows": "5, 999999",
                "driver_class": SHOWN,
                "places": Hint("az-1, az-2"),
            },
        ),
        Part(
            "Cloud Credentials",
            {
                "cloud": Hint("example"),
                "clouds_yaml": Hint("/etc/openstack/clouds.yaml"),
                "auth_url": "https://keystone.example.org:5000",
                "region": Hint("RegionOne"),
                "application_credential_id": "0123456789abcdef0123456789abcdef",
                "application_credential_secret": "SECRET",
                "username": Hint("nodemanager"),
                "password": Hint("..."),
                "project": Hint("cluster"),
                "domain": Hint("Default"),
                "interface": Hint("public"),
                "timeout": Hint("60"),
                "ca_bundle": Hint("/etc/ssl/certs/example.pem"),
                "insecure": Hint("no"),
            },
            OPENSTACK_CREDENTIALS,
        ),
        Part("Cloud List", {"metadata:cluster": Hint("example")}, OPENSTACK_LIST),
        Part(
            "Cloud Create",
            {
                "ping_host": Hint("registry.example.org"),
                "image": "node-image",
                "networks": Hint("private"),
                "security_groups": Hint("default, compute"),
                "key_name": Hint("operators"),
                "availability_zone": Hint("nova"),
                "boot_volume_gb": Hint("20"),
                "boot_volume_type": Hint("ssd"),
                "server_group": Hint("apart"),
                "hint:different_cell": Hint("cell1"),
                "config_drive": Hint("no"),
                "user_data": Hint("/etc/nodemanager/user-data.yaml"),
                "metadata:owner": Hint("example"),
            },
            OPENSTACK_CREATE,
        ),
        Part(
            "Size m1.small",
            {"cores": "1", "ram": "2048", "price": "0.02", "place_order": Hint("spread")},
        ),
        Part(
            "Size m1.large",
            {
                "instance_type": SHOWN,
                "cores": "4",
                "ram": "8192",
                "scratch": Hint("80000"),
                "price": "0.08",
            },
        ),
        Part("Records", {"provider": "registry"}),
        Part(
            "Registry",
            {**_ALL_REGISTRY, "domain": Hint("example.org"), "listen": Hint("0.0.0.0:8990")},
        ),
    ),
)

LIBVIRT = Sample(
    "libvirt",
    """Nodes on one hypervisor of your own, through libvirt, with their records in the registry of
    this program. It needs libvirt's module for Python (doc/libvirt.rst). Before the first boot, set
    [Cloud Create] image and ping_host, and the sizes to choose from.""",
    (
        Part(
            "Daemon",
            {
                "min_nodes": "0",
                "max_nodes": "2",
                "wishlist_command": Hint("/usr/local/bin/wishlist"),
                "node_stale_after": SHOWN,
            },
        ),
        Part("Manage", {"port": "8998", "ManagementToken": SHOWN}),
        Part("Logging", {"file": SHOWN, "level": SHOWN, "format": SHOWN}),
        Part("Cloud", {"provider": "libvirt", "shutdown_windows": SHOWN, "driver_class": SHOWN}),
        Part(
            "Cloud Credentials",
            {
                "uri": "qemu:///system",
                "key": Hint("nodemanager"),
                "secret": Hint("..."),
                "timeout": Hint("60"),
            },
            LIBVIRT_CREDENTIALS,
        ),
        Part(
            "Cloud Create",
            {
                "ping_host": Hint("registry.example.org"),
                "image": "node-image.qcow2",
                "storage_pool": "default",
                "network": "default",
                "bridge": Hint("br0"),
                "disk": Hint("20000"),
                "vcpus": Hint("1"),
                "memory": Hint("1024"),
                "os_memory": Hint("512"),
                "host_devices": Hint("0000:65:00.0+0000:65:00.1, 0000:66:00.0"),
                **{key: Hint(one.example) for key, one in LIBVIRT_PASSED.items()},
                "domain_xml": Hint("/etc/nodemanager/domain.xml"),
                "user_data": Hint("/etc/nodemanager/user-data.yaml"),
            },
            LIBVIRT_CREATE,
        ),
        Part("Size small", {"cores": "1", "ram": "2048", "price": "0.01"}),
        Part("Size large", {"cores": "4", "ram": "8192", "scratch": "50000", "price": "0.04"}),
        Part("Records", {"provider": "registry"}),
        Part("Registry", {**_ALL_REGISTRY, "listen": Hint("0.0.0.0:8990")}),
    ),
)

DUMMY = Sample(
    "dummy",
    """The cloud library's own simulated cloud, in memory: to try a configuration, or a record
    store, without any machine. Its nodes never ping.""",
    (
        Part(
            "Daemon",
            {"min_nodes": "0", "max_nodes": "2", "poll_time": "15", "node_stale_after": SHOWN},
        ),
        Part("Manage", {"port": "8992"}),
        Part("Cloud", {"provider": "dummy"}),
        Part("Registry", {"slots": "4", "listen": "127.0.0.1:8993"}),
    ),
)

ARVADOS = Sample(
    "arvados",
    """Nodes on Amazon EC2 for an Arvados server that keeps the records (before Arvados 3.0). A
    configuration of Arvados Node Manager works unchanged; this one shows what you can add to it.
    ec2.cfg has every key of the cloud's sections.""",
    (
        Part(
            "Daemon",
            {
                "min_nodes": "0",
                "max_nodes": "2",
                "max_total_price": "1.00",
                "node_stale_after": SHOWN,
            },
        ),
        Part("Manage", {"port": "8994"}),
        Part(
            "Arvados",
            {
                "host": "zzzzz.example.org",
                "token": "TOKEN",
                "timeout": SHOWN,
                "insecure": SHOWN,
                "containers_queue": SHOWN,
                "jobs_queue": SHOWN,
            },
        ),
        Part("Records", {"provider": SHOWN, "slots": SHOWN}),
        Part("Cloud", {"provider": "ec2", "shutdown_windows": "20, 999999"}),
        Part("Cloud Credentials", {"region": "us-east-1"}, EC2_CREDENTIALS),
        Part("Cloud List", {"tag_cluster": "zzzzz"}, EC2_LIST),
        Part(
            "Cloud Create",
            {
                "ping_host": "zzzzz.example.org",
                "image_id": Hint("ami-0123456789abcdef0"),
                "subnet_id": Hint("subnet-0123456789abcdef0"),
                "security_groups": Hint("sg-0123456789abcdef0"),
            },
            EC2_CREATE,
        ),
        Part("Size m5.large", {"cores": "2", "price": "0.096"}),
    ),
)

REGISTRY = Sample(
    "registry",
    """The record registry on its own (nodemanager registry), for pools whose managers run
    elsewhere. A manager on this machine shares it when its [Registry] database is the same and its
    listen is blank.""",
    (
        Part("Registry", {**_ALL_REGISTRY, "listen": "127.0.0.1:8995"}),
        Part("Logging", {"file": SHOWN, "level": SHOWN, "format": SHOWN}),
    ),
)

SLURM = Sample(
    "slurm",
    """An elastic partition of Slurm, on Amazon EC2: its queue is the demand, its nodes are the
    slots of this program's registry. Before the first boot, set [Cloud Create] image_id and
    ping_host, and the sizes; `nodemanager slurm-config` prints the lines for slurm.conf. For
    another cloud, take the [Cloud...] sections of its own sample.""",
    (
        Part(
            "Daemon",
            {
                "dispatcher": "slurm",
                "min_nodes": "0",
                "max_nodes": "16",
                "max_total_price": "5.00",
                "consecutive_idle_count": SHOWN,
                "boot_fail_after": SHOWN,
                "node_stale_after": SHOWN,
                "node_mem_scaling": SHOWN,
            },
        ),
        Part(
            "Slurm",
            {
                "conf": Hint("/etc/slurm/slurm.conf"),
                "partitions": "elastic",
                "timeout": SHOWN,
            },
        ),
        Part("Manage", {"port": "9000"}),
        Part("Cloud", {"provider": "ec2", "shutdown_windows": "5, 999999"}),
        Part("Cloud Credentials", {"region": "us-east-1"}, EC2_CREDENTIALS),
        Part(
            "Cloud Create",
            {
                "ping_host": "https://registry.example.org:8990",
                "image_id": "ami-0123456789abcdef0",
                "subnet_id": Hint("subnet-0123456789abcdef0"),
                "security_groups": Hint("sg-0123456789abcdef0"),
                "iam_instance_profile": Hint("compute-node"),
                "user_data": Hint("/etc/nodemanager/user-data.yaml"),
            },
            EC2_CREATE,
        ),
        Part(
            "Size m5.large",
            {
                "cores": "2",
                "ram": "7200",
                "price": "0.096",
                "features": Hint("rack1"),
                "gres": Hint("gpu:tesla:1"),
            },
        ),
        Part("Records", {"provider": "registry"}),
        Part(
            "Registry",
            {"slots": "16", "hostname": SHOWN, "listen": Hint("0.0.0.0:8990")},
        ),
    ),
)

SAMPLES = (LOCAL, EC2, GCE, AZURE, OPENSTACK, LIBVIRT, DUMMY, ARVADOS, SLURM, REGISTRY)
