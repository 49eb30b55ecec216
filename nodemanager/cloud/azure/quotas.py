"""Azure's quotas of a subscription in a region, against the nodes that a pool may have.

The cores of all machines count, those of each family of sizes, and the machines. Cores of Spot
machines count apart, and in no family (Azure's "Spot vCPU quota").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from nodemanager.cloud.azure.wire import COMPUTE, Wire
from nodemanager.cloud.checks import CheckStatus, Found, Wanted
from nodemanager.cloud.room import Limit, room
from nodemanager.core.model.world import Size

CORES, SPOT_CORES, MACHINES = "cores", "lowPriorityCores", "virtualMachines"
MORE = "ask Azure for more (portal, Quotas), or lower max_nodes"


class Quotas:
    """The quotas that a pool's nodes use; asked for once, when the first is looked at."""

    def __init__(
        self,
        wire: Callable[[], Wire],
        region: str,
        wanted: Wanted,
        is_spot: Callable[[Size], bool],
    ) -> None:
        self._wire = wire
        self._region = region
        self._wanted = wanted
        self._is_spot = is_spot

    @property
    def names(self) -> list[str]:
        """Azure's names of those that do not depend on the family of a size."""
        spots = {self._is_spot(one) for one in self._wanted.sizes}
        found = {False: CORES, True: SPOT_CORES}
        return [MACHINES, *(found[spot] for spot in sorted(spots))]

    @property
    def types(self) -> list[str]:
        """The types of machines whose cores count in a family."""
        sizes = (one for one in self._wanted.sizes if not self._is_spot(one))
        return sorted({size.instance_type for size in sizes})

    def ask(self, name: str, cores: Mapping[str, int], families: Mapping[str, str]) -> Found:
        """Whether the quota of that name has room for the pool's `max_nodes`.

        `cores` and `families` are those of types of machines, as far as they are known.
        """
        limit = self._limits.get(name)
        if limit is None:
            return Found(
                "Azure does not tell this quota", CheckStatus.NOT_ASKED, "look in the portal"
            )

        def need(size: Size) -> float:
            return 1 if name == MACHINES else cores.get(size.instance_type, size.cores)

        def counts(size: Size) -> bool:
            if name in (CORES, SPOT_CORES):
                return self._is_spot(size) is (name == SPOT_CORES)
            family = families.get(size.instance_type)
            return name == MACHINES or (family == name and not self._is_spot(size))

        sizes = tuple(filter(counts, self._wanted.sizes))
        return room(limit, replace(self._wanted, sizes=sizes), need, MORE)

    @cached_property
    def _limits(self) -> dict[str, Limit]:
        wire = self._wire()
        path = f"{wire.subscription}/providers/Microsoft.Compute/locations/{self._region}/usages"
        return {_name(one): _limit(one) for one in wire.listed(path, COMPUTE)}


def _name(usage: Mapping[str, Any]) -> str:
    return str((usage.get("name") or {}).get("value"))


def _limit(usage: Mapping[str, Any]) -> Limit:
    unit = "" if _name(usage) == MACHINES else "cores"
    return Limit(float(usage.get("limit", 0)), float(usage.get("currentValue", 0)), unit)
