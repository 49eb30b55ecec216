"""`[Cloud Create]` of a `local` file, read into settings."""

from __future__ import annotations

import math
import re
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nodemanager.errors import ConfigError

PING_SCRIPT = Path("etc/node/nodemanager-ping")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd]?)\Z")
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

ACCEPTED: Mapping[str, frozenset[str]] = {
    "Cloud Credentials": frozenset({"directory"}),
    "Cloud List": frozenset(),
    "Cloud Create": frozenset(
        {"boot_delay", "image", "work_for", "vanish_after", "ping_interval", "ping_script"}
    ),
}
"""The keys that each section takes."""


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """How the nodes behave; durations in seconds, `vanish_after` None means never.

    `image` is the id of the image that they boot from, or a name of it; None is no image.
    """

    ping_script: str
    boot_delay: float = 0.0
    work_for: float = 0.0
    vanish_after: float | None = None
    ping_interval: float = 2.0
    image: str | None = None


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
        image=create.get("image", "").strip() or None,
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
        Path(__file__).parents[3],
        Path(sysconfig.get_path("data")) / "share/nodemanager",
        Path("/etc/nodemanager"),
    )
    for root in roots:
        for place in (root / PING_SCRIPT, root / "node" / PING_SCRIPT.name):
            if place.is_file():
                return place
    return None
