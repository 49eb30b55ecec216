"""What the samples say of the keys that go to a provider's adapter.

The adapters decide what they take; these are the texts above the keys in etc/*.cfg.
"""

from __future__ import annotations

LOCAL_CREATE: dict[str, str] = {
    "boot_delay": "How long a node takes to boot.",
    "work_for": "How long it is busy at a time; then it is idle for half as long.",
    "vanish_after": """So long after the first boot, one busy node is killed behind the manager's
        back, once.""",
    "ping_interval": "How often a node pings.",
}

EC2_CREDENTIALS: dict[str, str] = {
    "region": "The region to run nodes in.",
    "key": """The access key. Without key and secret, the standard AWS chain is used: environment,
        profile, instance role.""",
    "secret": "Its secret; secret_file = PATH reads it from a file.",
    "token": "The session token, where the key is a temporary one.",
    "profile": "A profile of ~/.aws/credentials, instead of a key.",
    "timeout": "How many seconds to wait for one answer.",
    "endpoint": "Another EC2 API than Amazon's, as host[:port] or a URL.",
    "sts_endpoint": "Where that API tells whose account it is.",
    "ca_bundle": "Certificate authorities to trust for it, in PEM.",
    "insecure": "Take any certificate, and plain http from anywhere.",
}

EC2_LIST: dict[str, str] = {
    "tag_cluster": """Tags by which nodes of ours are known, beside this manager's own; they are put
        on every node it creates. Any of EC2's filters may stand here under its own name. An
        underscore in a tag's name means a colon.""",
    "vpc-id": "For example, one network.",
}

EC2_CREATE: dict[str, str] = {
    "ping_host": """Where nodes ping: host[:port], which means https, or a whole URL. It must lead
        to [Registry] listen, or to the Arvados server.""",
    "image_id": "The AMI that nodes boot from. Must be given.",
    "subnet_id": "The subnet they are in.",
    "security_groups": "Their security groups, with commas between.",
    "key_name": "The name of the SSH key pair to install ...",
    "ssh_key": "... or the path of a public key; one or the other.",
    "iam_instance_profile": "The instance profile they run with.",
    "availability_zone": "The zone to place them in.",
    "placement_group": "The placement group to place them in.",
    "assign_public_ip": "Whether they get a public address.",
    "ebs_optimized": "Whether their volumes have a line of their own.",
    "terminate_on_shutdown": "Whether a node that shuts itself down is terminated.",
    "metadata_tokens": """Whether a node's metadata, and so its user data with the ping secret, is
        told only to who has a token (IMDSv2): required, or optional for images that know no
        tokens.""",
    "spot": "Whether they are spot nodes; [Size NAME] preemptible says so for one size.",
    "spot_max_price": "The most to pay for one, per hour.",
    "scratch_device": "The name of the volume made for [Size NAME] scratch.",
    "scratch_volume_type": "And its type.",
    "user_data": """A template for their user data, with {ping_url}, {record}, {hostname} and
        {incarnation}. Without it they get the bare ping URL.""",
    "tag_owner": "A tag to put on every node.",
}
