"""What the settings of a simulated pool are drawn from, at the start and by a reload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import Size

SMALL = Size("small", "s.1", cores=1, ram_mb=1000, price=0.1)
LARGE = Size("large", "s.4", cores=4, ram_mb=8000, price=0.5)
SPOT = Size("small.spot", "s.1", cores=1, ram_mb=1000, price=0.05, preemptible=True)
"""Of the same instance type as the small one (U11)."""
UNPRICED = Size("odd", "s.2", cores=2, ram_mb=2000, price=None)

ZONES = ("zone-a", "zone-b", "zone-c")
"""Of a world in which zones have no room."""

POLL_TIMES = (20.0, 30.0, 45.0)
RELOADED: Mapping[str, tuple[Any, ...]] = {
    "node_stale_after": (240.0, 300.0, 420.0),
    "poll_stale_after": (100.0, 150.0),
    "boot_fail_after": (180.0, 240.0),
    "settle": (45.0, 60.0, 90.0),
    "absent_listings": (1, 2, 2, 3),
    "max_cleans_per_cycle": (1, 2, 25),
    "max_shutdowns_per_cycle": (1, 5),
    "hold_backlog": (False, True),
    "action_timeout": (200.0, 400.0),
    "claim_expiry": (False, True),
    "min_nodes": (0, 1, 2, 4),
    "max_nodes": (1, 2, 3, 5, 6, 8),
    "max_poll_time": (60.0, 90.0),
    "max_total_price": (0.0, 0.25, 0.6, 1.1),
    "consecutive_idle_count": (1, 2, 3),
    "shutdown_windows": ((), (300.0, 120.0)),
    "prune_after": (None, 200.0, 400.0),
    "collapse_fraction": (0.2, 0.3, 0.5),
}
"""Every window and limit that a reload applies."""


def reloaded(settings: Settings, random: Random, *, seated: bool) -> Settings:
    """With a few of them changed: never to what the file would be refused for.

    `seated`: the records are Slurm's nodes, and none is pruned.
    """
    names = random.sample(sorted(RELOADED), random.randrange(1, 5))
    values: dict[str, Any] = {name: random.choice(RELOADED[name]) for name in names}
    changed = replace(settings, **values)
    if seated:
        changed = replace(changed, prune_after=None)
    return replace(changed, min_nodes=min(changed.min_nodes, changed.max_nodes))
