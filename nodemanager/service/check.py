"""Says whether a configuration would do, and what its warnings are."""

from __future__ import annotations

from pathlib import Path

from nodemanager import adapters
from nodemanager.clock import SystemClock
from nodemanager.config import Config, ini, load
from nodemanager.from_config import (
    advice_on_draining,
    advice_on_prices,
    advice_on_scheduler,
    sizes_of,
    user_data_of,
)


def check(path: Path) -> tuple[Config, list[str]]:
    """The configuration as the daemon would use it, and its warnings.

    Builds the adapters, so that it finds their errors, too, but sends no request to any server.
    """
    sections = ini.read(path).sections
    needs_cloud = "Cloud" in sections or "Registry" not in sections
    config = load(path, accepts=adapters.accepted_keys, require_cloud=needs_cloud)
    if not needs_cloud:
        return config, list(config.warnings)
    cloud = adapters.build_cloud(config, SystemClock())
    try:
        sizes = sizes_of(config, cloud)
        user_data_of(config)
    finally:
        cloud.close()
    advice = [
        *advice_on_prices(config, sizes),
        *advice_on_draining(config),
        *advice_on_scheduler(config),
    ]
    return config, [*map(str, config.warnings), *advice]
