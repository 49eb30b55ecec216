"""The sample files: the options that each sets, and those that it only shows.

The comment above an option comes from the option's own declaration.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from doc.generate.passthrough import (
    EC2_CREATE,
    EC2_CREDENTIALS,
    EC2_LIST,
    LOCAL_CREATE,
)


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
            {"boot_delay": "3", "work_for": "20", "vanish_after": "20", "ping_interval": Hint("2")},
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
        Part("Cloud", {"provider": "ec2", "shutdown_windows": "20, 999999", "driver_class": SHOWN}),
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
                "scratch_volume_type": Hint("gp3"),
                "user_data": Hint("/etc/nodemanager/user-data.yaml"),
                "tag_owner": Hint("example"),
            },
            EC2_CREATE,
        ),
        Part("Size m5.large", {"cores": "2", "price": "0.096"}),
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
        Part("Journal", {"path": SHOWN, "keep": SHOWN, "max_size": SHOWN}),
    ),
)

DUMMY = Sample(
    "dummy",
    """The cloud library's own simulated cloud, in memory: to try a configuration, or a record
    store, without any machine. Its nodes never ping.""",
    (
        Part("Daemon", {"min_nodes": "0", "max_nodes": "2", "poll_time": "15"}),
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
            {"min_nodes": "0", "max_nodes": "2", "max_total_price": "1.00"},
        ),
        Part("Manage", {"port": "8994"}),
        Part(
            "Arvados",
            {
                "host": "zzzzz.example.org",
                "token": "TOKEN",
                "timeout": SHOWN,
                "insecure": SHOWN,
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

SAMPLES = (LOCAL, EC2, DUMMY, ARVADOS, REGISTRY)
