"""What a create teaches: a quota, a size or a place that rests, and what a success ends (D6)."""

from __future__ import annotations

from dataclasses import replace

from nodemanager.core.model.settings import Settings
from nodemanager.core.plan import places
from nodemanager.core.plan.snapshot import Limits
from nodemanager.errors import BadRequest, PlaceFull, QuotaExceeded, Throttled

LONGEST_REFUSAL_S = 3600.0
"""The longest rest of a size after bad requests, unless max_poll_time is longer (D6)."""


def after_refusal(
    limits: Limits, error: Exception, size: str, nodes: int, now: float, settings: Settings
) -> Limits:
    """The limits after the cloud refused a create of `size` while there were `nodes` (D6).

    A quota is noted, and tried again later. After any other definite refusal the size rests for
    max_poll_time, or only in its place where just that is full; each bad request in a row (for
    example for a wrong image) doubles that, up to LONGEST_REFUSAL_S. Throttling and an error that
    is not definite change nothing: the claim of an unclear create stays and counts (U6).
    """
    if isinstance(error, QuotaExceeded):
        return replace(limits, quota=nodes, quota_at=now)
    if isinstance(error, Throttled) or not getattr(error, "definite", False):
        return limits
    rest_s, bad = settings.max_poll_time, 0
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


def after_success(limits: Limits, size: str, nodes: int) -> Limits:
    """The limits after a create of `size` succeeded, which made as many as `nodes`.

    A quota that allowed that many stays; only a probe beyond it raises it (D6).
    """
    limits = replace(limits, bad={name: n for name, n in limits.bad.items() if name != size})
    if limits.quota is None or nodes <= limits.quota:
        return limits
    return replace(limits, quota=nodes)
