"""The adapter for Amazon EC2 and compatible APIs, over apache-libcloud's driver."""

from __future__ import annotations

import base64
import hashlib
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from libcloud.compute.base import NodeDriver
from libcloud.compute.drivers.ec2 import EC2NodeDriver

from nodemanager.cloud import ec2_leftovers, ec2_options
from nodemanager.cloud.api import CreateOrder
from nodemanager.cloud.ec2_credentials import Keys, key_source
from nodemanager.cloud.ec2_errors import (
    NO_SUCH_ACTION,
    NO_SUCH_IMAGE,
    NO_SUCH_INSTANCE,
    UNAUTHORIZED,
    Refusal,
    typed,
)
from nodemanager.cloud.ec2_instance import Instance, on_hold
from nodemanager.cloud.ec2_order import filter_params, literal, run_params
from nodemanager.cloud.ec2_wire import WholeAnswers, Wire
from nodemanager.cloud.libcloud_base import TIMEOUT, LibcloudCloud, epoch
from nodemanager.cloud.tags import POOL_TAG, RECORD_TAG, tags_for, tags_from
from nodemanager.cloud.translate import without_secrets
from nodemanager.core.model import CloudNode, CloudState, Leftover, Outcome, Size, Tags
from nodemanager.errors import BadRequest, CloudError, ConfigError, ForeignAnswer, Unauthorized

STS_VERSION = "2011-06-15"
STS_NAMESPACE = f"https://sts.amazonaws.com/doc/{STS_VERSION}/"
PAGE_SIZE = 1000
"""The most that DescribeInstances takes as MaxResults."""

FALLBACK_REGION = "us-east-1"

_LONGEST = 400


class Ec2Cloud(LibcloudCloud):
    """A CloudDriver for EC2: libcloud signs and sends requests, this class checks answers (L2).

    `timeout` is in seconds and applies to each HTTP request; a listing sends one request per
    thousand nodes. Raises ConfigError with every problem of the three sections.
    """

    provider = "ec2"
    visible_after = 300.0
    ids_unique = True
    takes_client_tokens = True
    may_authorise = True
    raw_states: ClassVar[Mapping[str, CloudState]] = {
        "pending": CloudState.PENDING,
        "running": CloudState.RUNNING,
        "shutting-down": CloudState.STOPPING,
        "terminated": CloudState.TERMINATED,
        "stopping": CloudState.STOPPING,
        "stopped": CloudState.STOPPED,
    }
    ACCEPTED: ClassVar[Mapping[str, frozenset[str]]] = ec2_options.ACCEPTED

    def __init__(
        self,
        *,
        pool: str,
        credentials: Mapping[str, str],
        listing: Mapping[str, str],
        create: Mapping[str, str],
        timeout: float = TIMEOUT,
        driver_class: str | None = None,
        page_size: int = PAGE_SIZE,
    ) -> None:
        super().__init__(
            pool=pool, default_class=EC2NodeDriver, driver_class=driver_class, timeout=timeout
        )
        if not issubclass(self.driver_type, EC2NodeDriver):
            raise ConfigError(
                [f"[Cloud] driver_class = {driver_class}: it is no libcloud EC2NodeDriver"]
            )
        self._access, self._filters, self._template = ec2_options.read(
            credentials, listing, create, timeout, self._known_host
        )
        self.timeout = self._access.timeout
        self._keys = key_source(self._access.keys, self.timeout)
        self._page_size = page_size
        self._connection_type = type(
            "Ec2Connection",
            (WholeAnswers, self.driver_type.connectionCls),
            {"trust": self._access.trust},
        )
        self.driver_type = type(
            self.driver_type.__name__,
            (self.driver_type,),
            {"connectionCls": self._connection_type},
        )
        self._lock = threading.Lock()
        self._sizes: tuple[Size, ...] | None = None
        self._imported_key: str | None = None
        self._image_seen = False
        self._told_for: Keys | None = None

    # The connection.

    def _known_host(self, region: str) -> str | None:
        """The region's host from libcloud's table, which does not have every region."""
        from libcloud.compute.constants.ec2_region_details_partial import REGION_DETAILS

        details = REGION_DETAILS.get(region)
        return None if details is None else str(details["endpoint"])

    def _new_driver(self) -> NodeDriver:
        access = self._access
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

    def _wire(self, driver: NodeDriver) -> Wire:
        version = str(driver.connection.version)
        keys, told_for = self._keys.keys(), self._told_for
        if told_for is not None and not keys.is_of(told_for):
            raise Unauthorized(
                "other credentials were found than those that the account was told for (L5); "
                "with the next poll it is asked for again"
            )
        return Wire(
            driver.connection,
            keys,
            namespace=f"http://ec2.amazonaws.com/doc/{version}/",
            version=version,
        )

    def _account(self, driver: NodeDriver) -> str:
        """The account number from STS, the region and the endpoint.

        STS tells the account without any permission. An EC2-like API without STS is identified
        by region and endpoint alone.
        """
        access = self._access
        connection = self._connection_type(
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
        keys = self._keys.keys()
        wire = Wire(connection, keys, namespace=STS_NAMESPACE, version=STS_VERSION)
        try:
            root = wire.call("GetCallerIdentity", {})
            account = root.findtext(f".//{{{STS_NAMESPACE}}}Account")
            if not account:
                raise ForeignAnswer("GetCallerIdentity: the answer names no account")
        except (Refusal, ForeignAnswer) as error:
            no_sts = isinstance(error, ForeignAnswer) or error.code in NO_SUCH_ACTION
            if access.amazon or not no_sts:
                raise
            account = "unknown"
        finally:
            if connection.connection is not None:
                connection.connection.session.close()
        self._told_for = keys
        return f"account={account} region={access.region} endpoint={access.endpoint}"

    # Queries.

    def _listings(self, driver: NodeDriver) -> Sequence[tuple[object, bool]]:
        """One query by our pool's tag and, unless `[Cloud List]` is empty, one by its filters."""
        wire = self._wire(driver)
        ours = filter_params({f"tag:{POOL_TAG}": literal(self.pool)})
        answers: list[tuple[object, bool]] = [(wire.instances(ours, self._page_size), False)]
        if self._filters:
            listed = wire.instances(filter_params(self._filters), self._page_size)
            answers.append((listed, True))
        return answers

    def _by_record(self, driver: NodeDriver, record_uuid: str) -> object:
        wanted = filter_params({f"tag:{RECORD_TAG}": literal(record_uuid)})
        return self._wire(driver).instances(wanted, self._page_size)

    def _by_id(self, driver: NodeDriver, node_id: str) -> object | None:
        try:
            found = self._wire(driver).instances({"InstanceId.1": node_id}, None)
        except Refusal as refusal:
            if refusal.code == NO_SUCH_INSTANCE:
                return None
            raise
        if [instance.id for instance in found] != [node_id]:
            raise ForeignAnswer(f"asked for {node_id}, answered with {len(found)} other nodes")
        return found[0]

    def list_sizes(self) -> tuple[Size, ...]:
        """libcloud's own table of sizes, read without a request; price None where it has 0 (S4).

        For a region that libcloud does not know, gives another region's sizes without prices.
        """
        with self._lock:
            if self._sizes is None:
                self._sizes = self._call("list sizes", self._table_of_sizes)
            return self._sizes

    def _table_of_sizes(self) -> tuple[Size, ...]:
        driver = self._new_driver()
        priced = self._access.region in self.driver_type.list_regions()
        if not priced:
            driver.region_name = FALLBACK_REGION
        sizes = (self._size(raw) for raw in driver.list_sizes())
        return tuple(
            replace(size, price=(size.price or None) if priced else None)
            for size in sizes
            if size is not None
        )

    # Actions.

    def create(self, order: CreateOrder) -> CloudNode:
        node = super().create(order)
        if node.tags != order.tags:
            problem = "tags in the answer are not those that were ordered"
            node = replace(node, problems=(*node.problems, problem))
        return node

    def _check_image(self, driver: NodeDriver) -> None:
        """Ask Amazon only: compatible clouds boot images that they don't list."""
        if self._image_seen or not self._access.amazon:
            return
        image = self._template.image_id
        wire = self._wire(driver)
        try:
            root = wire.call("DescribeImages", {"ImageId.1": image})
        except Refusal as refusal:
            if refusal.code in UNAUTHORIZED:
                # A policy may lack this right and still allow booting nodes.
                return
            if refusal.code in NO_SUCH_IMAGE:
                raise BadRequest(self._no_image(image, str(refusal))) from refusal
            raise
        state = root.findtext(f".//{{{wire.namespace}}}imageState")
        if state != "available":
            raise BadRequest(self._no_image(image, f"its state is {state or 'not told'}"))
        self._image_seen = True

    def _no_image(self, image: str, why: str) -> str:
        where = f"region {self._access.region}"
        return f"[Cloud Create] image_id = {image}: no node can boot from it in {where}: {why}"

    def _create(self, driver: NodeDriver, order: CreateOrder) -> object:
        wire = self._wire(driver)
        params = run_params(order, self._template, self._own_scratch_mb(order.size))
        if self._template.ssh_key is not None:
            params["KeyName"] = self._key_pair(wire, self._template.ssh_key)
        try:
            root = wire.call("RunInstances", params)
        except Refusal as refusal:
            refusal.message = without_secrets(refusal.message, (order.user_data,))
            raise
        made = wire.items(root, "instancesSet")
        if len(made) != 1:
            raise ForeignAnswer(f"one node was ordered, the answer has {len(made)}")
        return made[0]

    def _own_scratch_mb(self, size: Size) -> int:
        if not size.scratch_mb:
            return 0
        own = {known.instance_type: known.scratch_mb for known in self.list_sizes()}
        return own.get(size.instance_type, 0)

    def _key_pair(self, wire: Wire, material: bytes) -> str:
        """The name of that public key's key pair, which the first create imports.

        The name contains the key's hash, so a pair of that name always holds that key.
        """
        with self._lock:
            if self._imported_key is not None:
                return self._imported_key
        name = f"nodemanager-{hashlib.sha256(material).hexdigest()[:16]}"
        coded = base64.b64encode(material).decode("ascii")
        try:
            wire.call("ImportKeyPair", {"KeyName": name, "PublicKeyMaterial": coded})
        except Refusal as refusal:
            if refusal.code != "InvalidKeyPair.Duplicate":
                raise
        with self._lock:
            self._imported_key = name
        return name

    def _adopt(self, driver: NodeDriver, node_id: str, tags: Tags) -> None:
        params = {"ResourceId.1": node_id}
        for number, (key, value) in enumerate(tags_for(tags).items(), 1):
            params |= {f"Tag.{number}.Key": key, f"Tag.{number}.Value": value}
        wire = self._wire(driver)
        root = wire.call("CreateTags", params)
        if root.findtext(f"{{{wire.namespace}}}return") != "true":
            raise ForeignAnswer(f"the answer to tagging {node_id} does not say that it was done")

    def _destroy(self, driver: NodeDriver, node_id: str) -> Outcome:
        wire = self._wire(driver)
        try:
            root = wire.call("TerminateInstances", {"InstanceId.1": node_id})
        except Refusal as refusal:
            if refusal.code == NO_SUCH_INSTANCE:
                return Outcome.UNKNOWN
            raise
        told = {item.id: item.terminating_state for item in wire.items(root, "instancesSet")}
        if node_id not in told:
            raise ForeignAnswer(f"the answer to ending {node_id} does not name it")
        return {
            "terminated": Outcome.GONE,
            "shutting-down": Outcome.ACCEPTED,
        }.get(told[node_id] or "", Outcome.UNKNOWN)

    # Leftovers (D4).

    def _pins(self, driver: NodeDriver, node_id: str) -> tuple[Leftover, ...]:
        return ec2_leftovers.pins(self._wire(driver), self.pool, node_id, self._page_size)

    def _find_leftovers(self, driver: NodeDriver) -> tuple[Leftover, ...]:
        return ec2_leftovers.find(self._wire(driver), self.pool, self._page_size)

    def _release(self, driver: NodeDriver, leftover: Leftover) -> Outcome:
        return ec2_leftovers.release(self._wire(driver), self.pool, leftover, self._page_size)

    # Reading an instance.

    def _understand(self, error: Exception, doing: str) -> CloudError | None:
        if not isinstance(error, Refusal):
            return None
        if error.code in UNAUTHORIZED:
            self._keys.refused()
        return typed(error, f"{doing}: {without_secrets(str(error))[:_LONGEST]}")

    def _raw_state_of(self, raw: Instance) -> str:
        return raw.state

    def _tags_of(self, raw: Instance) -> Tags:
        return tags_from(raw.tags)

    def _held(self, raw: Instance) -> bool:
        return on_hold(raw.tags)

    def _created_at(self, raw: Instance) -> float | None:
        return epoch(raw.launch_time)

    def _size_of(self, raw: Instance) -> str | None:
        return raw.size

    def _addresses_of(self, raw: Instance) -> tuple[str, ...]:
        return raw.addresses

    def _cores_of(self, size: Any) -> int:
        return int(size.extra.get("vcpu") or size.extra.get("cpu") or 1)
