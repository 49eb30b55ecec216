"""The options of a `local` file's own sections, and the settings that they are read into."""

from __future__ import annotations

import math
import re
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from nodemanager.cloud import declared
from nodemanager.cloud.declared import CREATE, CREDENTIALS, LIST, CloudOption, SectionReader, option
from nodemanager.errors import ConfigError

PING_SCRIPT = Path("etc/node/nodemanager-ping")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd]?)\Z")
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_duration(text: str) -> float:
    """Seconds of `90`, `1.5`, `30s`, `30m`, `2h` or `1d`."""
    match = _DURATION.match(text.strip())
    if match is None:
        raise ValueError("a duration is seconds, or like 30m, 2h, 1d")
    value = float(match[1]) * _UNITS[match[2]]
    if not math.isfinite(value):
        raise ValueError("a duration is finite")
    return value


def _interval(text: str) -> float:
    value = parse_duration(text)
    if value < 0.1:
        raise ValueError("at least 0.1 seconds")
    return value


def _or_off(text: str) -> float | None:
    return None if text == "off" else parse_duration(text)


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """`[Cloud Create]`: how the nodes behave; durations in seconds."""

    boot_delay: float = option(parse_duration, "3", default=0.0)
    """How long a node takes to boot."""
    work_for: float = option(parse_duration, "20", default=0.0)
    """How long a node is busy at a time; then it is idle for half as long."""
    vanish_after: float | None = option(_or_off, "20")
    """This long after the first boot, one busy node vanishes, without a trace in the cloud; only
    once."""
    ping_interval: float = option(_interval, "2", default=2.0)
    """How often a node pings."""
    image: str | None = option(str, "worker")
    """The id of the image that nodes boot from, or the name of a file in images of the cloud's
    directory that has the id. Nodes of another image are replaced."""
    ping_script: str = option(str, default="")
    """The script that nodes run, by default the shipped one."""


SECTIONS: Mapping[str, Mapping[str, CloudOption]] = {
    CREDENTIALS: {"directory": CloudOption(str, text="Where the cloud keeps its nodes.")},
    LIST: {},
    CREATE: declared.options_of(NodeSettings),
}


def node_settings(create: Mapping[str, str]) -> NodeSettings:
    """The settings of `[Cloud Create]`; raises ConfigError with every wrong value."""
    problems: list[str] = []
    found = NodeSettings(**SectionReader(CREATE, create, problems, SECTIONS[CREATE]).read())
    settings = replace(found, ping_script=found.ping_script or str(shipped_ping_script() or ""))
    if not Path(settings.ping_script).is_file():
        problems.append(
            f"[Cloud Create] ping_script = {settings.ping_script}: no such file; "
            f"{PING_SCRIPT} of the distribution is meant"
        )
    if problems:
        raise ConfigError(problems)
    return settings


def shipped_ping_script() -> Path | None:
    """The ping script beside the source, or where the installation puts it."""
    roots = (
        Path(__file__).parents[3],
        Path(sysconfig.get_path("data")) / "share/nodemanager",
        Path("/etc/nodemanager"),
    )
    for root in roots:
        for place in (root / PING_SCRIPT, root / "node" / PING_SCRIPT.name):
            if place.is_file():
                return place
    return None
