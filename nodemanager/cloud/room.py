"""Whether a limit of a cloud, such as a quota, has room for the nodes that a pool may have."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from nodemanager.cloud.checks import CheckStatus, Found, Wanted
from nodemanager.core.model.world import Size


@dataclass(frozen=True, slots=True)
class Limit:
    """How much of something there may be, and how much is used; both in `unit`.

    `most` is None where there is no limit. `used` has in it what the pool's own nodes use.
    """

    most: float | None
    used: float
    unit: str = ""

    def __str__(self) -> str:
        used = f"{self.used:g}" if self.most is None else f"{self.used:g} of {self.most:g}"
        return " ".join(filter(None, (used, self.unit, "used")))


def room(limit: Limit, wanted: Wanted, need: Callable[[Size], float], to_do: str) -> Found:
    """Whether the pool may get to `max_nodes` of each of its sizes; a node takes `need` of it.

    A size of which not even one node fits, in a pool without nodes, is a failure, any other one a
    warning: the pool may have other sizes, and the rest of its nodes.
    """
    have = len(wanted.nodes)
    missing = max(wanted.max_nodes - have, 0)
    if limit.most is None:
        return Found(f"{limit}, and no limit")
    fits = {
        one.name: max(math.floor((limit.most - limit.used) / need(one)), 0)
        for one in wanted.sizes
        if need(one) > 0
    }
    if not fits:
        return Found(str(limit))
    shown = ", ".join(f"{number} more {name}" for name, number in fits.items())
    text = f"{limit}: room for {shown}; the pool has {have} of max_nodes = {wanted.max_nodes}"
    least = min(fits.values())
    if least >= missing:
        return Found(text)
    return Found(text, CheckStatus.WARNING if have or least else CheckStatus.FAILED, to_do)
