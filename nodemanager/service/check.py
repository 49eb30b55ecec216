"""Says whether a configuration would do, and what its warnings are."""

from __future__ import annotations

import shutil
from pathlib import Path

from nodemanager import adapters
from nodemanager.clock import SystemClock
from nodemanager.config import Config, ini, load
from nodemanager.config.values import Dispatcher, StoreProvider
from nodemanager.core.plan.names import apart
from nodemanager.errors import SchedulerError
from nodemanager.from_config import (
    advice_on_draining,
    advice_on_power_saving,
    advice_on_prices,
    advice_on_scheduler,
    sizes_of,
    user_data_of,
)


def check(path: Path) -> tuple[Config, list[str]]:
    """The configuration as the daemon would use it, and its warnings.

    Builds the adapters, so that it finds their errors, too, but sends no request to any server but
    to a Slurm whose programs are here: that one is asked for the names of its nodes.
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
        *advice_on_power_saving(config),
        *advice_on_scheduler(config),
        *_advice_on_names(config),
    ]
    return config, [*map(str, config.warnings), *advice]


def _advice_on_names(config: Config) -> list[str]:
    """A warning where Slurm has no nodes of the slots' names, as far as it can be asked."""
    is_slurm = config.daemon.dispatcher is Dispatcher.SLURM and shutil.which("sinfo") is not None
    if not is_slurm or config.records.provider is not StoreProvider.REGISTRY:
        return []
    scheduler = adapters.scheduler_of(config)
    assert scheduler is not None
    try:
        names = scheduler.nodes().names
    except SchedulerError:
        # It may be down, or not there yet.
        return []
    registry = config.registry
    found = None if names is None else apart(registry.hostname, registry.slots, names)
    place = f"{config.path}: [Registry] hostname = {registry.hostname}"
    return [] if found is None else [f"{place}: {found.told}"]
