"""The adapter for DigitalOcean, over apache-libcloud's connection.

It is the worked example of doc/developing.rst, "Add a cloud", and it is not shipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from libcloud.compute.base import NodeDriver
from libcloud.compute.drivers.digitalocean import DigitalOcean_v2_NodeDriver

from nodemanager.cloud.api import CreateOrder
from nodemanager.cloud.checks import Check, Wanted
from nodemanager.cloud.cloud_config import CloudConfig
from nodemanager.cloud.libcloud_base import TIMEOUT, LibcloudCloud, connected, load_driver_class
from nodemanager.cloud.provider import Provider
from nodemanager.cloud.tags import POOL_TAG, RECORD_TAG
from nodemanager.core.model.world import Outcome, Size, Tags
from nodemanager.errors import BadRequest, ForeignAnswer
from tests.cloud.sixth import checks, options
from tests.cloud.sixth.droplet import READER, Droplet, word_for, words_for
from tests.cloud.sixth.errors import Refusal
from tests.cloud.sixth.options import Access, Template
from tests.cloud.sixth.wire import PAGE_SIZE, DropletAnswers, Wire, droplet_path

LONGEST_USER_DATA = 65_536
"""Bytes (DigitalOcean's limit)."""


@dataclass
class DigitalOcean(Provider):
    """DigitalOcean: libcloud's connection sends the requests, this class checks answers (L2)."""

    name = "digitalocean"
    may_authorise = True
    sizes_from_file = True

    pool: str
    access: Access
    wanted: str | None
    template: Template
    driver_type: type[DigitalOcean_v2_NodeDriver]
    page_size: int
    _image_seen: bool = field(default=False, init=False)

    def new_driver(self) -> NodeDriver:
        # libcloud's own `__new__` of this class fails for every setting by name.
        driver: NodeDriver = object.__new__(self.driver_type)
        driver.__init__("unset", ex_per_page=self.page_size, timeout=self.access.timeout)
        return driver

    def wire(self, driver: NodeDriver) -> Wire:
        return Wire(driver.connection)

    def account(self, driver: NodeDriver) -> str:
        told = self.wire(driver).one("/v2/account", "account")
        team = told.get("team")
        known = (team if isinstance(team, dict) else told).get("uuid")
        if not isinstance(known, str) or not known:
            raise ForeignAnswer("the answer names no account")
        return f"account={known} endpoint={self.access.endpoint}"

    def listings(self, driver: NodeDriver) -> Sequence[tuple[object, bool]]:
        wire = self.wire(driver)
        answers: list[tuple[object, bool]] = [(wire.droplets(word_for(POOL_TAG, self.pool)), False)]
        if self.wanted is not None:
            answers.append((wire.droplets(self.wanted), True))
        return answers

    def by_record(self, driver: NodeDriver, record_uuid: str) -> object:
        return self.wire(driver).droplets(word_for(RECORD_TAG, record_uuid))

    def by_id(self, driver: NodeDriver, node_id: str) -> object | None:
        return self.wire(driver).droplet(node_id)

    def sizes(self, driver: NodeDriver) -> tuple[Size, ...]:
        found = [one for page in self.wire(driver).pages("sizes") for one in page]
        try:
            return tuple(_size(one) for one in found)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ForeignAnswer(f"a size can't be read ({error!r})") from error

    def check_image(self, driver: NodeDriver) -> None:
        if self._image_seen:
            return
        image = self.template.image
        try:
            self.wire(driver).one(f"/v2/images/{image}", "image")
        except Refusal as refusal:
            if refusal.is_not_found:
                raise BadRequest(f"[Cloud Create] image = {image}: {refusal}") from refusal
            if refusal.status != 403:
                raise
            # A token may lack this right and still allow booting nodes.
        self._image_seen = True

    def create(self, driver: NodeDriver, order: CreateOrder) -> object:
        answer = self.wire(driver).call("POST", "/v2/droplets", body=self._body(order))
        made = Droplet.of(answer.get("droplet"))
        if not made.id:
            raise ForeignAnswer("the answer to a create names no droplet")
        return made

    def _body(self, order: CreateOrder) -> dict[str, Any]:
        if len(order.user_data.encode("utf-8")) > LONGEST_USER_DATA:
            raise BadRequest(f"the user data is longer than {LONGEST_USER_DATA} bytes")
        if order.size.preemptible:
            raise BadRequest(f"[Size {order.size.name}] preemptible: there are no such droplets")
        template = self.template
        body: dict[str, Any] = {
            "name": order.name,
            "region": template.region,
            "size": order.size.instance_type,
            "image": template.image,
            "ssh_keys": list(template.ssh_keys),
            "user_data": order.user_data,
            "tags": [*words_for(order.tags), *([self.wanted] if self.wanted else [])],
        }
        return body if template.vpc is None else {**body, "vpc_uuid": template.vpc}

    def adopt(self, driver: NodeDriver, node_id: str, tags: Tags) -> None:
        """A word is made before it is set; the last one is the one that counts."""
        wire = self.wire(driver)
        if wire.droplet(node_id) is None:
            raise BadRequest(f"there is no droplet {node_id}")
        resources = [{"resource_id": node_id, "resource_type": "droplet"}]
        for word in words_for(tags):
            try:
                wire.call("POST", "/v2/tags", body={"name": word})
            except Refusal as refusal:
                # It is there already; if not, the next call is refused.
                if refusal.status not in (409, 422):
                    raise
            wire.done("POST", f"/v2/tags/{word}/resources", {"resources": resources})

    def destroy(self, driver: NodeDriver, node_id: str) -> Outcome:
        """DigitalOcean never says that a droplet is gone: it does not know it any more (D3)."""
        try:
            self.wire(driver).done("DELETE", droplet_path(node_id))
        except Refusal as refusal:
            if refusal.is_not_found:
                return Outcome.UNKNOWN
            raise
        return Outcome.ACCEPTED

    def preflight(self, driver: NodeDriver, wanted: Wanted) -> Sequence[Check]:
        return checks.checks(partial(self.wire, driver), self.template, wanted)


def build_cloud(
    config: CloudConfig, *, timeout: float = TIMEOUT, page_size: int = PAGE_SIZE
) -> LibcloudCloud:
    """A CloudDriver for DigitalOcean.

    `timeout` is in seconds and applies to each HTTP request. Raises ConfigError with every problem
    of the three sections.
    """
    own = load_driver_class(config.driver_class, DigitalOcean_v2_NodeDriver)
    access, wanted, template = options.read(config, timeout)
    driver_type = connected(own, DropletAnswers, endpoint=access.endpoint, token=access.token)
    ours = DigitalOcean(config.pool, access, wanted, template, driver_type, page_size)
    return LibcloudCloud(config, ours, READER, timeout=access.timeout)


def _size(one: dict[str, Any]) -> Size:
    # A thousand MB per GB never promises more than the disk has.
    return Size(
        name=str(one["slug"]),
        instance_type=str(one["slug"]),
        cores=int(one["vcpus"]),
        ram_mb=int(one["memory"]),
        scratch_mb=int(one["disk"]) * 1000,
        price=float(one["price_hourly"]),
    )
