"""What the adapters of these tests are built from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from nodemanager.cloud.declared import CloudConfig
from nodemanager.lib.clock import SystemClock


def cloud_config(**given: Any) -> CloudConfig:
    """A configuration with those fields, and without anything else."""
    fields: dict[str, Any] = {
        "pool": "mine",
        "credentials": {},
        "listing": {},
        "create": {},
        "driver_class": None,
        # Nobody can make a file in there.
        "directory": Path(os.devnull),
        "clock": SystemClock(),
    }
    return CloudConfig(**fields | given)
