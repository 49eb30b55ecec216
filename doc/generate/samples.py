"""The sample files: the options that each sets, and those that it only shows.

The comment above an option comes from the option's own declaration.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from doc.generate import cloud_options


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


def of_cloud(cloud: str, section: str, *given: str) -> Part:
    """A section of the cloud's own: every option that has an example, set to it where it is one of
    the given ones."""
    every = _shown(cloud, section)
    values: dict[str, Value] = {
        name: example if name in given else Hint(example) for name, (_, example) in every.items()
    }
    return Part(section, values, {name: text for name, (text, _) in every.items()})


def some_of_cloud(cloud: str, section: str, values: dict[str, Value]) -> Part:
    """A section of the cloud's own with those options alone."""
    every = _shown(cloud, section)
    return Part(section, values, {name: every[name][0] for name in values})


def _shown(cloud: str, section: str) -> dict[str, tuple[str, str]]:
    """Text and example of each option that has one, by its name in the sample."""
    found = {}
    for key, declared in cloud_options.options(cloud, section).items():
        name, example = key, declared.example
        if not example and isinstance(declared.default, str):
            example = declared.default
        if "?*" in key and example:
            own, _, example = example.partition(" = ")
            name = key.replace("?*", own)
        if example:
            found[name] = (cloud_options.text(cloud, section, key), example)
    return found


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
        of_cloud("local", "Cloud Create", "boot_delay", "work_for", "vanish_after"),
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
        of_cloud("ec2", "Cloud Credentials", "region"),
        of_cloud("ec2", "Cloud List"),
        of_cloud("ec2", "Cloud Create"),
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
        of_cloud("gce", "Cloud Credentials", "project"),
        of_cloud("gce", "Cloud List"),
        of_cloud("gce", "Cloud Create", "zone", "image"),
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
        of_cloud("azure", "Cloud Credentials", "subscription_id", "tenant_id", "region"),
        of_cloud("azure", "Cloud List", "resource_group"),
        of_cloud("azure", "Cloud Create", "image", "network", "ssh_key"),
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
        of_cloud(
            "openstack",
            "Cloud Credentials",
            "auth_url",
            "application_credential_id",
            "application_credential_secret",
        ),
        of_cloud("openstack", "Cloud List"),
        of_cloud("openstack", "Cloud Create", "image"),
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
        of_cloud("libvirt", "Cloud Credentials", "uri"),
        of_cloud("libvirt", "Cloud Create", "image", "storage_pool", "network"),
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
        some_of_cloud("ec2", "Cloud Credentials", {"region": "us-east-1"}),
        some_of_cloud("ec2", "Cloud List", {"tag_cluster": "zzzzz"}),
        some_of_cloud(
            "ec2",
            "Cloud Create",
            {
                "ping_host": "zzzzz.example.org",
                "image_id": Hint("ami-0123456789abcdef0"),
                "subnet_id": Hint("subnet-0123456789abcdef0"),
                "security_groups": Hint("sg-0123456789abcdef0"),
            },
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
        some_of_cloud("ec2", "Cloud Credentials", {"region": "us-east-1"}),
        some_of_cloud(
            "ec2",
            "Cloud Create",
            {
                "ping_host": "https://registry.example.org:8990",
                "image_id": "ami-0123456789abcdef0",
                "subnet_id": Hint("subnet-0123456789abcdef0"),
                "security_groups": Hint("sg-0123456789abcdef0"),
                "iam_instance_profile": Hint("compute-node"),
                "user_data": Hint("/etc/nodemanager/user-data.yaml"),
            },
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
