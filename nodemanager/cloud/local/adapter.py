"""The `local` cloud: its nodes are processes on this machine that run the shipped ping script."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from libcloud.compute.base import NodeDriver, NodeSize

from nodemanager.cloud.api import CreateOrder
from nodemanager.cloud.declared import CloudConfig
from nodemanager.cloud.libcloud_base import LibcloudCloud, load_driver_class
from nodemanager.cloud.local.driver import LocalNodeDriver
from nodemanager.cloud.local.options import NodeSettings, node_settings
from nodemanager.cloud.provider import Provider
from nodemanager.cloud.reading import NodeReader
from nodemanager.cloud.tags import tags_for, tags_from
from nodemanager.core.model.world import CloudState, Outcome, Tags
from nodemanager.lib.clock import Clock

CALL_S = 1.0
"""Seconds that a call takes at the most: it starts or ends a process of this machine."""

READER = NodeReader(
    {
        "pending": CloudState.PENDING,
        "running": CloudState.RUNNING,
        "stopping": CloudState.STOPPING,
        "terminated": CloudState.TERMINATED,
        "unknown": CloudState.UNKNOWN,
    },
    state=lambda raw: str(raw.extra["state"]),
    size=lambda raw: raw.extra["size"],
    tags=lambda raw: tags_from(raw.extra["tags"]),
    image=lambda raw: raw.extra["image"],
)


@dataclass(frozen=True, slots=True)
class Local(Provider):
    """Processes on this machine, all of whose state is in a directory."""

    driver_type: type[LocalNodeDriver]
    directory: Path
    settings: NodeSettings
    clock: Clock

    name = "local"
    visible_after = 0.0
    ids_unique = True
    takes_client_tokens = True
    may_authorise = True

    def new_driver(self) -> NodeDriver:
        return self.driver_type(self.directory, self.settings, self.clock)

    def account(self, driver: NodeDriver) -> str:
        return f"local:{self.directory}"

    def by_id(self, driver: NodeDriver, node_id: str) -> object | None:
        found: object | None = driver.ex_get_node(node_id)
        return found

    def image(self, driver: NodeDriver) -> str | None:
        found: str | None = driver.ex_image()
        return found

    def create(self, driver: NodeDriver, order: CreateOrder) -> object:
        # Any size works here, one of a `[Size]` section that this cloud does not list, too.
        kind, size = order.size.instance_type, order.size
        return driver.create_node(
            name=order.name,
            size=NodeSize(kind, size.name, size.ram_mb, 0, None, size.price, driver),
            image=None,
            ex_tags=tags_for(order.tags),
            ex_userdata=order.user_data,
            ex_client_token=order.client_token,
        )

    def adopt(self, driver: NodeDriver, node_id: str, tags: Tags) -> None:
        driver.ex_set_tags(node_id, tags_for(tags))

    def destroy(self, driver: NodeDriver, node_id: str) -> Outcome:
        node = driver.ex_get_node(node_id)
        if node is None:
            return Outcome.UNKNOWN
        if node.extra["state"] == "terminated" or driver.destroy_node(node):
            return Outcome.GONE
        return Outcome.ACCEPTED


def build_cloud(config: CloudConfig) -> LibcloudCloud:
    """A CloudDriver whose nodes outlive the daemon, take simulated work, and can vanish.

    The directory holds all state; [Cloud Credentials] may name one that several managers share. The
    nodes ping from loopback addresses, so the record store must
    listen on loopback. Raises ConfigError with every wrong value.
    """
    driver_type = load_driver_class(config.driver_class, LocalNodeDriver)
    directory = Path(config.credentials.get("directory") or config.directory).absolute()
    provider = Local(driver_type, directory, node_settings(config.create), config.clock)
    return LibcloudCloud(config, provider, READER, timeout=CALL_S)
