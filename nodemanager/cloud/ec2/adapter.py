"""The adapter for Amazon EC2 and compatible APIs, over apache-libcloud's driver."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from operator import attrgetter
from typing import Any

from libcloud.compute.base import NodeDriver
from libcloud.compute.drivers.ec2 import EC2NodeDriver

from nodemanager.cloud.api import CreateOrder
from nodemanager.cloud.checks import Check, Wanted
from nodemanager.cloud.declared import CloudConfig
from nodemanager.cloud.ec2 import errors, options
from nodemanager.cloud.ec2.access import Access, Keys, KeySource, key_source
from nodemanager.cloud.ec2.checks import Ec2Checks
from nodemanager.cloud.ec2.leftovers import Ec2Leftovers
from nodemanager.cloud.ec2.options import Template
from nodemanager.cloud.ec2.order import filter_params, literal, run_params
from nodemanager.cloud.ec2.wire import PAGE_SIZE, Instance, Wire
from nodemanager.cloud.libcloud_base import TIMEOUT, LibcloudCloud, connected, load_driver_class
from nodemanager.cloud.provider import Provider
from nodemanager.cloud.reading import NodeReader, epoch, sizes_from
from nodemanager.cloud.refusal import unless_missing
from nodemanager.cloud.tags import POOL_TAG, RECORD_TAG, on_hold, tags_for, tags_from
from nodemanager.cloud.transport import WholeAnswers
from nodemanager.core.model.world import CloudState, Outcome, Size, Tags
from nodemanager.errors import BadRequest, CloudError, ForeignAnswer, Unauthorized

STS_NAMESPACE = "https://sts.amazonaws.com/doc/2011-06-15/"
FALLBACK_REGION = "us-east-1"


READER = NodeReader(
    {
        "pending": CloudState.PENDING,
        "running": CloudState.RUNNING,
        "shutting-down": CloudState.STOPPING,
        "terminated": CloudState.TERMINATED,
        "stopping": CloudState.STOPPING,
        "stopped": CloudState.STOPPED,
    },
    state=attrgetter("state"),
    tags=lambda raw: tags_from(raw.tags),
    held=lambda raw: on_hold(raw.tags),
    created_at=lambda raw: epoch(raw.launch_time),
    size=attrgetter("size"),
    addresses=attrgetter("addresses"),
    image=attrgetter("image"),
    places=attrgetter("places"),
    why=attrgetter("why"),
)
"""For Instances (nodemanager.cloud.ec2.wire)."""


@cache
def size_table(driver_type: type[EC2NodeDriver], region: str) -> tuple[Size, ...]:
    """libcloud's own table of sizes, read without a request; price None where it has 0 (S4).

    For a region that libcloud does not know, gives another region's sizes without prices.
    """
    priced = region in driver_type.list_regions()
    table = driver_type("unset", "unset", region=region if priced else FALLBACK_REGION)
    return tuple(
        replace(size, price=(size.price or None) if priced else None)
        for size in sizes_from(table.list_sizes())
    )


@dataclass
class Ec2(Provider):
    """EC2: libcloud signs and sends requests, this class checks answers (L2)."""

    name = "ec2"
    ids_unique = True
    takes_client_tokens = True
    may_authorise = True

    pool: str
    access: Access
    keys: KeySource
    filters: Mapping[str, str]
    template: Template
    driver_type: type[EC2NodeDriver]
    page_size: int
    _imported_key: str | None = field(default=None, init=False)
    _image_seen: bool = field(default=False, init=False)
    _root_devices: dict[str, str] = field(default_factory=dict, init=False)
    """By image."""
    _told_for: Keys | None = field(default=None, init=False)
    _has_sts: bool = field(default=False, init=False)

    def new_driver(self) -> NodeDriver:
        access = self.access
        known = self.driver_type.list_regions()
        driver = self.driver_type(
            "unset",
            "unset",
            secure=access.endpoint.secure,
            host=access.endpoint.host,
            port=access.endpoint.port,
            # libcloud refuses regions it does not know; the signer reads only region_name.
            region=access.region if access.region in known else FALLBACK_REGION,
            # libcloud chooses SigV2 for some regions; EC2 takes such a call for another service's.
            signature_version="4",
            timeout=access.timeout,
        )
        driver.region_name = access.region
        driver.connection.request_path = access.endpoint.path
        return driver

    def wire(self, driver: NodeDriver) -> Wire:
        keys, told_for = self.keys.keys(), self._told_for
        if told_for is not None and not keys.is_of(told_for):
            raise Unauthorized(
                "other credentials were found than those that the account was told for (L5); "
                "with the next poll it is asked for again"
            )
        namespace = f"http://ec2.amazonaws.com/doc/{driver.connection.version}/"
        return Wire(driver.connection, keys, namespace, self.page_size)

    def account(self, driver: NodeDriver) -> str:
        """The account number from STS, the region and the endpoint.

        STS tells the account without any permission. An EC2-like API without STS is identified
        by region and endpoint alone; one whose STS has answered before is not without it.
        """
        access = self.access
        connection = self.driver_type.connectionCls(
            "unset",
            "unset",
            secure=access.sts.secure,
            host=access.sts.host,
            port=access.sts.port,
            timeout=access.timeout,
            signature_version="4",
        )
        connection.driver = driver
        connection.service_name = "sts"
        connection.request_path = access.sts.path
        keys = self.keys.keys()
        wire = Wire(connection, keys, STS_NAMESPACE)
        try:
            root = wire.call("GetCallerIdentity", {})
            account = root.findtext(f".//{{{STS_NAMESPACE}}}Account")
            if not account:
                raise ForeignAnswer("GetCallerIdentity: the answer names no account")
        except (errors.Refusal, ForeignAnswer) as error:
            no_sts = isinstance(error, ForeignAnswer) or error.code in errors.NO_SUCH_ACTION
            if access.amazon or self._has_sts or not no_sts:
                raise
            account = "unknown"
        else:
            self._has_sts = True
        finally:
            if connection.connection is not None:
                connection.connection.session.close()
        self._told_for = keys
        return f"account={account} region={access.region} endpoint={access.endpoint}"

    def listings(self, driver: NodeDriver) -> Sequence[tuple[object, bool]]:
        """One query by our pool's tag and, unless `[Cloud List]` is empty, one by its filters."""
        wire = self.wire(driver)
        ours = filter_params({f"tag:{POOL_TAG}": literal(self.pool)})
        answers: list[tuple[object, bool]] = [(wire.instances(ours), False)]
        if self.filters:
            answers.append((wire.instances(filter_params(self.filters)), True))
        return answers

    def by_record(self, driver: NodeDriver, record_uuid: str) -> object:
        wanted = filter_params({f"tag:{RECORD_TAG}": literal(record_uuid)})
        return self.wire(driver).instances(wanted)

    def by_id(self, driver: NodeDriver, node_id: str) -> Instance | None:
        return self.wire(driver).instance(node_id)

    def sizes(self, driver: NodeDriver) -> tuple[Size, ...]:
        # To mypy, a class of a library without types has no hash.
        driver_type: Any = self.driver_type
        return size_table(driver_type, self.access.region)

    def check_image(self, driver: NodeDriver) -> None:
        """Ask Amazon only: compatible clouds boot images that they don't list."""
        if self._image_seen or not self.access.amazon:
            return
        image = self.template.image_id
        wire = self.wire(driver)
        try:
            root = wire.call("DescribeImages", {"ImageId.1": image})
        except errors.Refusal as refusal:
            if refusal.code in errors.UNAUTHORIZED:
                # A policy may lack this right and still allow booting nodes.
                return
            if refusal.code in errors.NO_SUCH_IMAGE:
                raise BadRequest(self._no_image(image, str(refusal))) from refusal
            raise
        state = root.findtext(f".//{{{wire.namespace}}}imageState")
        if state != "available":
            raise BadRequest(self._no_image(image, f"its state is {state or 'not told'}"))
        self._image_seen = True

    def image(self, driver: NodeDriver) -> str | None:
        """The AMI of the file; None for what is no AMI's id, such as a parameter of SSM."""
        image = self.template.image_id
        return image if image.startswith("ami-") else None

    def _no_image(self, image: str, why: str) -> str:
        where = f"region {self.access.region}"
        return f"[Cloud Create] image_id = {image}: no node can boot from it in {where}: {why}"

    def create(self, driver: NodeDriver, order: CreateOrder) -> object:
        wire = self.wire(driver)
        own_mb = {size.instance_type: size.scratch_mb for size in self.sizes(driver)}
        template = self.template
        if template.root and template.root_device is None:
            template = replace(template, root_device=self._root_device(wire))
        params = run_params(order, template, own_mb.get(order.size.instance_type, 0))
        if self.template.ssh_key is not None:
            params["KeyName"] = self._key_pair(wire, self.template.ssh_key.encode())
        root = wire.call("RunInstances", params)
        made = wire.items(root, "instancesSet")
        if len(made) != 1:
            raise ForeignAnswer(f"one node was ordered, the answer has {len(made)}")
        return made[0]

    def _root_device(self, wire: Wire) -> str:
        """The image's name of the volume that it boots from: under another, EC2 adds a volume."""
        image = self.template.image_id
        if image not in self._root_devices:
            root = wire.call("DescribeImages", {"ImageId.1": image})
            name = root.findtext(f".//{{{wire.namespace}}}rootDeviceName")
            if not name:
                raise BadRequest(
                    f"[Cloud Create] image_id = {image}: EC2 does not say what its root device is "
                    "called: give root_device"
                )
            self._root_devices[image] = name
        return self._root_devices[image]

    def _key_pair(self, wire: Wire, material: bytes) -> str:
        """The name of that public key's key pair, which the first create imports.

        The name contains the key's hash, so a pair of that name always holds that key.
        """
        if self._imported_key is not None:
            return self._imported_key
        name = f"nodemanager-{hashlib.sha256(material).hexdigest()[:16]}"
        coded = base64.b64encode(material).decode("ascii")
        try:
            wire.call("ImportKeyPair", {"KeyName": name, "PublicKeyMaterial": coded})
        except errors.Refusal as refusal:
            if refusal.code != "InvalidKeyPair.Duplicate":
                raise
        self._imported_key = name
        return name

    def adopt(self, driver: NodeDriver, node_id: str, tags: Tags) -> None:
        params = {"ResourceId.1": node_id}
        for number, (key, value) in enumerate(tags_for(tags).items(), 1):
            params |= {f"Tag.{number}.Key": key, f"Tag.{number}.Value": value}
        wire = self.wire(driver)
        root = wire.call("CreateTags", params)
        if root.findtext(f"{{{wire.namespace}}}return") != "true":
            raise ForeignAnswer(f"the answer to tagging {node_id} does not say that it was done")

    def destroy(self, driver: NodeDriver, node_id: str) -> Outcome:
        wire = self.wire(driver)
        root = unless_missing(lambda: wire.call("TerminateInstances", {"InstanceId.1": node_id}))
        if root is None:
            return Outcome.UNKNOWN
        states = {item.id: item.terminating_state for item in wire.items(root, "instancesSet")}
        if node_id not in states:
            raise ForeignAnswer(f"the answer to ending {node_id} does not name it")
        return {
            "terminated": Outcome.GONE,
            "shutting-down": Outcome.ACCEPTED,
        }.get(states[node_id] or "", Outcome.UNKNOWN)

    def preflight(self, driver: NodeDriver, wanted: Wanted) -> Sequence[Check]:
        return Ec2Checks(wanted, partial(self.wire, driver), self.access, self.template).all()

    def understand(self, error: Exception, doing: str) -> CloudError | None:
        if isinstance(error, errors.Refusal) and error.code in errors.UNAUTHORIZED:
            self.keys.refused()
        return super().understand(error, doing)


def build_cloud(
    config: CloudConfig, *, timeout: float = TIMEOUT, page_size: int = PAGE_SIZE
) -> LibcloudCloud:
    """A CloudDriver for EC2.

    `timeout` is in seconds and applies to each HTTP request; a listing sends one request per
    thousand nodes. Raises ConfigError with every problem of the three sections.
    """
    own = load_driver_class(config.driver_class, EC2NodeDriver)
    access, filters, template = options.read(config, timeout)
    keys = key_source(access.keys, access.timeout)
    driver_type = connected(own, WholeAnswers, trust=access.trust)
    ec2 = Ec2(config.pool, access, keys, filters, template, driver_type, page_size)
    leftovers = Ec2Leftovers(config.pool, ec2.wire, ec2.by_id)
    return LibcloudCloud(config, ec2, READER, leftovers, timeout=access.timeout)
