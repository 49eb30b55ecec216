"""The texts above the provider's own keys in the sample files etc/*.cfg.

The adapters decide which keys they take.
"""

from __future__ import annotations

from nodemanager.cloud.azure.options import PASSED as AZURE_PASSED
from nodemanager.cloud.ec2.options import PASSED
from nodemanager.cloud.gce.options import PASSED as GCE_PASSED
from nodemanager.cloud.libvirt.options import PASSED as LIBVIRT_PASSED

PING_HOST = """The address that nodes ping: host[:port], which means https, or a whole URL. It
        must lead to [Registry] listen, or to the Arvados server."""

LOCAL_CREATE: dict[str, str] = {
    "boot_delay": "How long a node takes to boot.",
    "work_for": "How long a node is busy at a time; then it is idle for half as long.",
    "vanish_after": """This long after the first boot, one busy node vanishes, without a trace in
        the cloud; only once.""",
    "ping_interval": "How often a node pings.",
    "image": """The id of the image that nodes boot from, or the name of a file in images of the
        cloud's directory that has the id. Nodes of another image are replaced.""",
}

GCE_CREDENTIALS: dict[str, str] = {
    "project": "The id of the project to run nodes in (gcloud projects list).",
    "key": """The file of a service account's key: Google's JSON, or PEM with user_id. Without it,
        the service account of the instance that this runs on is used.""",
    "user_id": "The service account's address. Google's JSON file has it.",
    "auth_type": "SA for a key, GCE for the instance's own service account.",
    "timeout": "How many seconds to wait for one answer.",
    "endpoint": "Another address of Google's compute API, as host[:port] or a URL.",
    "token_endpoint": "Where access tokens are asked for, with a key.",
}

GCE_LIST: dict[str, str] = {
    "tags": """Network tags, separated by commas, that our nodes have beside this manager's own
        labels; every new node gets them.""",
    "zone": "Only nodes of this zone.",
}

GCE_CREATE: dict[str, str] = {
    "ping_host": PING_HOST,
    "zone": "The zone to boot nodes in. Must be given.",
    "image": """The image that nodes boot from: a name, a family, or a path such as
        projects/my-project/global/images/NAME. Must be given. This one has cloud-init.""",
    "image_project": "The project to look for the image in; by default this one, then public ones.",
    "network": "The nodes' network.",
    "subnet": "The nodes' subnetwork, where the network does not choose it.",
    "tags": "More network tags for every node, separated by commas, for firewall rules.",
    "assign_public_ip": "Whether nodes get a public address.",
    "ssh_key": "The path of a public key to install for root.",
    "service_account_name": "The service account that nodes run as. Without it they have none.",
    "preemptible": "Whether all nodes are spot nodes; [Size NAME] preemptible is for one size.",
    "boot_disk_type": "The type of the boot disk.",
    "boot_disk_gb": "The size of the boot disk; by default the image's.",
    "scratch_disk_type": """The disks for [Size NAME] scratch: local-ssd, or a type of persistent
        disk such as pd-balanced or hyperdisk-balanced.""",
    "accelerators": "The type of accelerators, and how many each node has.",
    "label:owner": "A label of your own for every node and its disks.",
    **{key: one.text for key, one in GCE_PASSED.items()},
    "user_data": """A template for what nodes do at boot, with {ping_url}, {record}, {hostname} and
        {incarnation}: a script (#!) for Google's guest agent, anything else for cloud-init.
        Without it they get the bare ping URL as metadata arv-ping-url.""",
}

AZURE_CREDENTIALS: dict[str, str] = {
    "subscription_id": "The subscription to run nodes in (az account show --query id).",
    "tenant_id": "Its directory (az account show --query tenantId).",
    "region": "The region to run nodes in.",
    "key": """The client id of a service principal. Without secret, certificate and
        federated_token_path, the identity of the machine that this runs on is used; this then
        chooses one of several.""",
    "secret": "The service principal's secret; secret_file = PATH reads it from a file.",
    "certificate": "The file of its certificate and private key, in PEM, instead of a secret.",
    "federated_token_path": "The file of a federated token, such as Kubernetes's, instead of both.",
    "cloud_environment": "AzureChinaCloud or AzureUSGovernment, where it is not the public cloud.",
    "timeout": "How many seconds to wait for one answer.",
    "endpoint": "Another address of Azure Resource Manager, as host[:port] or a URL.",
    "login_endpoint": "Where access tokens are asked for, with a service principal.",
}

AZURE_LIST: dict[str, str] = {
    "resource_group": "The resource group that the nodes are in. Must be given.",
    "tag_cluster": """A tag that our nodes have beside this manager's own; every new node gets
        it.""",
}

AZURE_CREATE: dict[str, str] = {
    "ping_host": PING_HOST,
    "image": """The image that nodes boot from: Publisher:Offer:SKU:Version, or an image's resource
        id. Must be given. This one has cloud-init.""",
    "network": "The nodes' virtual network, by its name or resource id. Must be given.",
    "subnet": "The nodes' subnet in that network.",
    "ssh_key": """The file of a public key to install for user_name. Must be given: Azure makes no
        node without.""",
    "user_name": "The nodes' administrator.",
    "network_security_group": "The security group of the nodes' interfaces.",
    "assign_public_ip": "Whether nodes get a public address.",
    "accelerated_networking": "Whether nodes get accelerated networking; some sizes can't.",
    "zone": "The availability zone to boot nodes in: 1, 2 or 3. By default Azure chooses.",
    "preemptible": "Whether all nodes are Spot machines; [Size NAME] preemptible is for one size.",
    "spot_max_price": "The most that a Spot machine may cost an hour; by default the usual price.",
    "boot_disk_type": "The type of the boot disk.",
    "boot_disk_gb": "The size of the boot disk; by default the image's.",
    "scratch_disk_type": """The type of a disk for [Size NAME] scratch. By default there is none:
        many sizes have a temporary disk.""",
    "ephemeral_os_disk": """Put the boot disk on the node's host, on its CacheDisk, NvmeDisk or
        ResourceDisk: faster, and it costs nothing.""",
    "eviction_policy": "What becomes of a Spot machine that is taken back: Delete or Deallocate.",
    "identity": """Whom nodes are for Azure: system, or the resource ids of managed identities,
        separated by commas.""",
    "image_plan": "The purchase plan of a marketplace image, as Publisher:Product:Plan.",
    **{key: one.text for key, one in AZURE_PASSED.items()},
    "user_data": """A template for what nodes do at boot, with {ping_url}, {record}, {hostname} and
        {incarnation}, for cloud-init. Without it they get a script that stores the bare ping
        URL.""",
    "tag_owner": "A tag of your own for all that a node is made of.",
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
    "ping_host": PING_HOST,
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
    "root_device": """The image's name of the volume that nodes boot from; without it, EC2 is
        asked.""",
    "efa": "Whether a node's network interface is an Elastic Fabric Adapter.",
    **{key: one.text for key, one in PASSED.items()},
    "user_data": """A template for the nodes' user data, with {ping_url}, {record}, {hostname} and
        {incarnation}. Without it they get the bare ping URL.""",
    "tag_owner": "A tag to put on every node.",
}

OPENSTACK_CREDENTIALS: dict[str, str] = {
    "auth_url": "The URL of keystone, the cloud's identity service, with or without /v3.",
    "cloud": """The name of a cloud in clouds.yaml, which then has what is not given here.""",
    "clouds_yaml": """The path of that file; without it, OpenStack's own places are looked at.""",
    "region": "The region to run nodes in; may be left out where the catalog has only one.",
    "application_credential_id": """The application credential, which belongs to one project.
        Better than a password: it can be limited and withdrawn on its own.""",
    "application_credential_secret": """Its secret; application_credential_secret_file = PATH reads
        it from a file.""",
    "username": "The user, instead of an application credential.",
    "password": "The user's password; password_file = PATH reads it from a file.",
    "project": "The name of the project to run nodes in, for username.",
    "project_id": "Its id, instead of its name.",
    "domain": "The domain of user and project.",
    "user_id": "The user's id, instead of the name.",
    "domain_id": "The id of the domain of user and project, instead of its name.",
    "project_domain": "The project's domain, where it is another one.",
    "project_domain_id": "Its id, instead of its name.",
    "interface": "Which endpoints of the catalog to use: public, internal or admin.",
    "timeout": "How many seconds to wait for one answer.",
    "ca_bundle": "Certificate authorities to trust for the cloud, in PEM.",
    "insecure": "Accept any certificate, and plain http to any host.",
}

OPENSTACK_LIST: dict[str, str] = {
    "metadata:cluster": """Metadata that our nodes have beside this manager's own; every new node
        gets it. Other nodes that have all of it are counted, too.""",
}

OPENSTACK_CREATE: dict[str, str] = {
    "ping_host": EC2_CREATE["ping_host"],
    "image": "The name or id of the image that nodes boot from. Must be given.",
    "networks": """The nodes' networks by id or name, separated by commas; auto for the project's
        only one, none for no network.""",
    "security_groups": "The nodes' security groups, separated by commas.",
    "key_name": "The name of the SSH key pair to install on nodes.",
    "availability_zone": "The zone to place nodes in.",
    "boot_volume_gb": """The size of a volume for each node to boot from, in GB, where its flavor
        has no disk. Without it, nodes boot from their host's disk.""",
    "boot_volume_type": "The type of that volume.",
    "server_group": """The server group that nodes are in, by id or name: nova places them by its
        policy, together or apart.""",
    "hint:different_cell": "A hint for nova's scheduler, as NAME = VALUE.",
    "config_drive": "Whether nodes get their user data on a drive, beside the metadata service.",
    "user_data": EC2_CREATE["user_data"],
    "metadata:owner": "Metadata to put on every node.",
}

LIBVIRT_CREDENTIALS: dict[str, str] = {
    "uri": """The hypervisor: qemu:///system is this machine's, qemu+tls://HOST/system or
        qemu+ssh://USER@HOST/system?no_tty=1 another's.""",
    "key": "The user, only for a +tcp uri.",
    "secret": "The user's password; secret_file = PATH reads it from a file.",
    "timeout": "How many seconds to wait for one answer.",
}

LIBVIRT_CREATE: dict[str, str] = {
    "ping_host": EC2_CREATE["ping_host"],
    "image": """The volume that nodes boot from, by its name in storage_pool, or by its path in any
        storage pool. Nodes never write to it. Must be given.""",
    "storage_pool": "The storage pool that the nodes' own volumes are made in.",
    "network": "The libvirt network that nodes are in.",
    "bridge": "The host's bridge that nodes are on, instead of a network.",
    "disk": "The size of the boot volume, in MB, where the image is smaller.",
    "vcpus": "The cores of the size `default`, for a file without any [Size NAME].",
    "memory": "The memory of that size, in MB.",
    "os_memory": """The memory, in MB, that a node gets beyond [Size NAME] ram, for its operating
        system.""",
    "host_devices": """The host's PCI devices that nodes get, such as GPUs, separated by commas:
        each node gets the first that no domain has. A plus joins what one node gets.""",
    **{key: one.text for key, one in LIBVIRT_PASSED.items()},
    "domain_xml": """A libvirt domain that every node is like: machine, processor, devices. Its
        name, uuid, memory, vcpu and our disks are filled in.""",
    "user_data": EC2_CREATE["user_data"],
}
