"""The texts above the provider's own keys in the sample files etc/*.cfg.

The adapters decide which keys they take.
"""

from __future__ import annotations

LOCAL_CREATE: dict[str, str] = {
    "boot_delay": "How long a node takes to boot.",
    "work_for": "How long a node is busy at a time; then it is idle for half as long.",
    "vanish_after": """This long after the first boot, one busy node vanishes, without a trace in
        the cloud; only once.""",
    "ping_interval": "How often a node pings.",
}

EC2_CREDENTIALS: dict[str, str] = {
    "region": "The region to run nodes in.",
    "key": """The access key. Without key and secret, the standard AWS chain is used: environment,
        profile, instance role.""",
    "secret": "The key's secret; secret_file = PATH reads it from a file.",
    "token": "The session token, for a temporary key.",
    "profile": "A profile of ~/.aws/credentials, instead of a key.",
    "timeout": "How many seconds to wait for one answer.",
    "endpoint": "The EC2 API to use instead of Amazon's, as host[:port] or a URL.",
    "sts_endpoint": "That API's STS, which tells the account.",
    "ca_bundle": "Certificate authorities to trust for the API, in PEM.",
    "insecure": "Accept any certificate, and plain http to any host.",
}

EC2_LIST: dict[str, str] = {
    "tag_cluster": """A tag that our nodes have beside this manager's own; every new node gets it.
        Any filter of EC2 may be used here, under its own name. An underscore in a tag's name means
        a colon.""",
    "vpc-id": "A filter, for example by network.",
}

EC2_CREATE: dict[str, str] = {
    "ping_host": """The address that nodes ping: host[:port], which means https, or a whole URL. It
        must lead to [Registry] listen, or to the Arvados server.""",
    "image_id": "The AMI that nodes boot from. Must be given.",
    "subnet_id": "The nodes' subnet.",
    "security_groups": "The nodes' security groups, separated by commas.",
    "key_name": "The name of the SSH key pair to install on nodes.",
    "ssh_key": "The path of a public key to install instead of key_name.",
    "iam_instance_profile": "The nodes' instance profile.",
    "availability_zone": "The zone to place nodes in.",
    "placement_group": "The placement group to place nodes in.",
    "assign_public_ip": "Whether nodes get a public address.",
    "ebs_optimized": "Whether nodes have dedicated bandwidth to their volumes.",
    "terminate_on_shutdown": "Whether a node that shuts itself down is terminated.",
    "metadata_tokens": """Whether a node's metadata, and so its user data with the ping secret, can
        be read only with a token (IMDSv2): required, or optional for images that know no
        tokens.""",
    "spot": "Whether all nodes are spot nodes; [Size NAME] preemptible sets it for one size.",
    "spot_max_price": "The most to pay for a spot node, per hour.",
    "scratch_device": "The device name of the volume for [Size NAME] scratch.",
    "scratch_volume_type": "The type of that volume.",
    "user_data": """A template for the nodes' user data, with {ping_url}, {record}, {hostname} and
        {incarnation}. Without it they get the bare ping URL.""",
    "tag_owner": "A tag to put on every node.",
}
