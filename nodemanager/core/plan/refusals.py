"""What a create teaches: a quota, a size or a place that rests, and what a success ends (D6)."""

from __future__ import annotations

from dataclasses import replace

from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import Size
from nodemanager.core.observe.snapshot import Limits
from nodemanager.core.plan import places
from nodemanager.errors import (
    BadRequest,
    CapacityUnavailable,
    FamilyQuotaExceeded,
    PlaceFull,
    QuotaExceeded,
    SpotQuotaExceeded,
    Throttled,
)

LONGEST_REFUSAL_S = 3600.0
"""The longest rest of a size after bad requests, unless max_poll_time is longer (D6)."""


def after_refusal(
    limits: Limits, error: Exception, size: str, nodes: int, now: float, settings: Settings
) -> Limits:
    """The limits after the cloud refused a create of `size` while there were `nodes` (D6).

    A quota is noted, and tried again later; one of a family rests the size for boot_fail_after, one
    of spot nodes all sizes that are. After any other definite refusal the size rests for
    max_poll_time, or only in its place where just that is full; each bad request in a row (for
    example for a wrong image) doubles that, up to LONGEST_REFUSAL_S. Throttling changes nothing;
    the claim of an unclear create stays and counts (U6).
    """
    if isinstance(error, FamilyQuotaExceeded | SpotQuotaExceeded):
        return _without(limits, _concerned(error, size, settings), now, settings)
    if isinstance(error, QuotaExceeded):
        return replace(limits, quota=nodes, quota_at=now)
    if isinstance(error, Throttled):
        return limits
    if not getattr(error, "definite", False):
        return replace(limits, is_unclear=True)
    rest_s, bad = settings.max_poll_time, 0
    if isinstance(error, CapacityUnavailable):
        limits = replace(limits, full={**limits.full, size: now})
    if isinstance(error, PlaceFull):
        full = places.after_full(limits.places, size, error.place, now + rest_s)
        return replace(limits, places=full)
    if isinstance(error, BadRequest):
        if limits.resting.get(size, 0.0) > now:
            # Another create of the same plan was refused: the size rests already.
            return limits
        bad = limits.bad.get(size, 0) + 1
        rest_s = max(rest_s, min(LONGEST_REFUSAL_S, rest_s * 2.0 ** (bad - 1)))
    return replace(
        limits,
        resting={**limits.resting, size: now + rest_s},
        bad={**limits.bad, size: bad},
    )


def _concerned(error: QuotaExceeded, size: str, settings: Settings) -> set[str]:
    """The sizes of which the quota allows no more. Who shares a family, their creates find out."""
    is_of_spot = isinstance(error, SpotQuotaExceeded)
    return {size} | {one.name for one in settings.sizes if is_of_spot and one.preemptible}


def _without(limits: Limits, sizes: set[str], now: float, settings: Settings) -> Limits:
    """The limits once no node of these sizes may be had for as long as a quota is not probed."""
    resting = dict.fromkeys(sizes, now + settings.boot_fail_after)
    return replace(
        limits,
        resting={**limits.resting, **resting},
        full={**limits.full, **dict.fromkeys(sizes, now)},
    )


def lacked_room(limits: Limits, size: str, now: float, settings: Settings) -> bool:
    """Whether the cloud lately had no room for the size.

    It is so for as long as a node that was booted in its stead may take to come up: until then that
    node serves the job, whether or not there is room again.
    """
    at = limits.full.get(size)
    return at is not None and now - at <= settings.boot_fail_after + settings.max_poll_time


def has_room(limits: Limits, size: Size, now: float) -> bool:
    """Whether a node of the size may be had, as far as the cloud's last answers tell."""
    if limits.resting.get(size.name, 0.0) > now:
        return False
    return places.rests_until(size, limits.places, now) is None


def after_success(limits: Limits, size: str, nodes: int) -> Limits:
    """The limits after a create of `size` succeeded, which made as many as `nodes`.

    A quota that allowed that many stays; only a probe beyond it raises it (D6).
    """
    bad = {name: n for name, n in limits.bad.items() if name != size}
    limits = replace(limits, bad=bad, is_unclear=False)
    if limits.quota is None or nodes <= limits.quota:
        return limits
    return replace(limits, quota=nodes)
