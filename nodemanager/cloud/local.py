"""The `local` cloud: its nodes are processes on this machine that run the shipped ping script.

`python -m nodemanager.cloud.local sweep DIR` ends every node of a state directory.
"""

from __future__ import annotations

import math
import os
import re
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from libcloud.compute.base import NodeDriver, NodeSize

from nodemanager.clock import Clock
from nodemanager.cloud.api import CreateOrder
from nodemanager.cloud.libcloud_base import LibcloudCloud, load_driver_class
from nodemanager.cloud.local_driver import LocalNodeDriver, NodeSettings
from nodemanager.cloud.local_state import NODES, StateDir
from nodemanager.cloud.provider import NoLeftovers, Provider
from nodemanager.cloud.reading import NodeReader
from nodemanager.cloud.tags import tags_for, tags_from
from nodemanager.core.model.world import CloudState, Outcome, Tags
from nodemanager.errors import ConfigError

PING_SCRIPT = Path("etc/node/nodemanager-ping")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd]?)\Z")
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


ACCEPTED: Mapping[str, frozenset[str]] = {
    "Cloud Credentials": frozenset(),
    "Cloud List": frozenset(),
    "Cloud Create": frozenset(
        {"boot_delay", "work_for", "vanish_after", "ping_interval", "ping_script"}
    ),
}
"""The keys that each section takes."""

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

    def create(self, driver: NodeDriver, order: CreateOrder) -> object:
        sizes = {size.id: size for size in driver.list_sizes()}
        return driver.create_node(
            name=order.name,
            size=sizes.get(order.size.instance_type) or _own_size(driver, order),
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


def LocalCloud(
    *,
    pool: str,
    directory: Path,
    create: Mapping[str, str],
    clock: Clock,
    driver_class: str | None = None,
) -> LibcloudCloud:
    """A CloudDriver whose nodes outlive the daemon, take simulated work, and can vanish.

    `directory` holds all state; `create` is `[Cloud Create]`. The nodes ping from loopback
    addresses, so the record store must listen on loopback.
    """
    driver_type = load_driver_class(driver_class, LocalNodeDriver)
    provider = Local(driver_type, Path(directory).absolute(), node_settings(create), clock)
    return LibcloudCloud(pool=pool, provider=provider, reader=READER, leftovers=NoLeftovers())


def _own_size(driver: NodeDriver, order: CreateOrder) -> Any:
    """The size for a `[Size]` section that this cloud does not list: any size works here."""
    size = order.size
    return NodeSize(
        size.instance_type, size.name, size.ram_mb, 0, None, size.price, driver, {"cpu": size.cores}
    )


def node_settings(create: Mapping[str, str]) -> NodeSettings:
    """The settings of `[Cloud Create]`; raises ConfigError with every wrong value."""
    problems: list[str] = []

    def seconds(key: str, default: float, least: float = 0.0) -> float:
        text = create.get(key)
        if text is None:
            return default
        try:
            value = parse_duration(text)
        except ValueError as error:
            problems.append(f"[Cloud Create] {key} = {text}: {error}")
            return default
        if value < least:
            problems.append(f"[Cloud Create] {key} = {text}: at least {least:g} seconds")
        return value

    wanted = create.get("vanish_after", "off").strip()
    settings = NodeSettings(
        ping_script=create.get("ping_script") or str(shipped_ping_script() or ""),
        boot_delay=seconds("boot_delay", 0.0),
        work_for=seconds("work_for", 0.0),
        ping_interval=seconds("ping_interval", 2.0, least=0.1),
        vanish_after=None if wanted in ("", "off") else seconds("vanish_after", 0.0),
    )
    if not Path(settings.ping_script).is_file():
        problems.append(
            f"[Cloud Create] ping_script = {settings.ping_script}: no such file; "
            f"{PING_SCRIPT} of the distribution is meant"
        )
    if problems:
        raise ConfigError(problems)
    return settings


def parse_duration(text: str) -> float:
    """Seconds of `90`, `1.5`, `30s`, `30m`, `2h` or `1d`."""
    match = _DURATION.match(text.strip())
    if match is None:
        raise ValueError("a duration is seconds, or like 30m, 2h, 1d")
    value = float(match[1]) * _UNITS[match[2]]
    if not math.isfinite(value):
        raise ValueError("a duration is finite")
    return value


def shipped_ping_script() -> Path | None:
    """The ping script beside the source, or where the installation puts it."""
    roots = (
        Path(__file__).parents[2],
        Path(sysconfig.get_path("data")) / "share/nodemanager",
        Path("/etc/nodemanager"),
    )
    for root in roots:
        for place in (root / PING_SCRIPT, root / "node" / PING_SCRIPT.name):
            if place.is_file():
                return place
    return None


def sweep(directory: Path) -> int:
    """End every node process of a state directory and print which; gives the exit code.

    The code is 1 when a process did not end. Ends a process only when its pid and start time are
    the node's, so never a stranger's.
    """
    if not (directory / NODES).is_dir():
        _say(f"no local cloud in {directory}")
        return 0
    state = StateDir(directory)
    ended = left = 0
    for entry in (*state.all(), *state.attempts()):
        process = entry.process()
        if process is None or not process.alive:
            continue
        try:
            name = str(entry.meta().get("name"))
        except (OSError, ValueError):
            name = "?"
        if process.end():
            ended += 1
            _say(f"ended node {entry.id} ({name}), pid {process.pid}")
        else:
            left += 1
            _say(f"node {entry.id} ({name}), pid {process.pid}, does not end", sys.stderr)
    if not ended and not left:
        _say(f"no node was running in {directory}")
    return 1 if left else 0


def _say(text: str, to: TextIO | None = None) -> None:
    """Print a line. A closed pipe is no error: the remaining nodes must still be ended."""
    stream = to or sys.stdout
    try:
        print(text, file=stream, flush=True)
    except BrokenPipeError:
        # Otherwise Python would write again at its exit, and fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def main(arguments: list[str]) -> int:
    if len(arguments) != 2 or arguments[0] != "sweep":
        print("usage: python -m nodemanager.cloud.local sweep DIRECTORY", file=sys.stderr)
        return 2
    return sweep(Path(arguments[1]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
