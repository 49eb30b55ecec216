"""What a configuration says about its cloud, for the adapter that is built from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nodemanager.lib.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudConfig:
    """What every `build_cloud` is given; each adapter takes what it needs.

    `credentials`, `listing` and `create` are `[Cloud Credentials]`, `[Cloud List]` and
    `[Cloud Create]`, with every value as the file has it. `driver_class` is `module.Class`.
    `directory` is for the state of a cloud that is on this machine; nobody has made it yet.
    """

    pool: str
    credentials: Mapping[str, str] = field(repr=False)
    listing: Mapping[str, str] = field(repr=False)
    create: Mapping[str, str] = field(repr=False)
    driver_class: str | None
    directory: Path
    clock: Clock
    places: Mapping[str, str] = field(default_factory=dict)
    """The zones and subnets that sizes are booted in, each with the option that names it."""
