"""What may be had of the cloud now: quotas, resting sizes and places, and how much at once (D6)."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import chain

from nodemanager import errors
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import Size
from nodemanager.core.observe.snapshot import Limits, Rests, Snapshot
from nodemanager.core.safety.rate_limits import capped_retry_after

# In which place a node of a size is booted, and which places rest (SAFETY.md D6).

TOKEN_LENGTH = 12
"""How many characters of a client token name the place."""


def choose(
    size: Size,
    rests: Rests,
    nodes: Mapping[str, int],
    now: float,
    tried: Collection[str] = (),
) -> str | None:
    """The place for the next node of the size; None if it has none, or if none takes a node now.

    That is the first in the written order that neither rests nor was `tried`; with `spread`, the
    one of these with the fewest `nodes`.
    """
    awake = [
        place
        for place in size.places
        if place not in tried and not _until(size.name, place, rests) > now
    ]
    if size.spread:
        return min(awake, key=lambda place: nodes.get(place, 0), default=None)
    return awake[0] if awake else None


def rests_until(size: Size, rests: Rests, now: float) -> float | None:
    """When the first of the size's places takes nodes again, if all rest; else None."""
    until = min((_until(size.name, place, rests) for place in size.places), default=0.0)
    return until if until > now else None


def _until(size: str, place: str, rests: Rests) -> float:
    return rests.get(size, {}).get(place, 0.0)


def nodes_by_place(snapshot: Snapshot) -> Counter[str]:
    """How many nodes of the pool each place has, future ones included."""
    listed = (node.places for node in snapshot.history.present.values() if node.managed)
    return Counter(chain.from_iterable(listed)) + Counter(snapshot.places_to_be)


def after_full(rests: Rests, size: str, place: str, until: float) -> Rests:
    """The rests after the cloud had no room for the size in that place."""
    return {**rests, size: {**rests.get(size, {}), place: until}}


def without_ended(rests: Rests, now: float) -> Rests:
    """The rests that go on; the same object where none has ended."""
    if all(until > now for of in rests.values() for until in of.values()):
        return rests
    left = {
        size: {place: until for place, until in of.items() if until > now}
        for size, of in rests.items()
    }
    return {size: of for size, of in left.items() if of}


def client_token(incarnation: str, place: str | None) -> str:
    """The token that makes a repeated create idempotent: another one for each place (U9).

    A cloud answers the same token with the same node, or refuses it for another place.
    """
    if place is None:
        return incarnation
    return f"{incarnation}-{hashlib.sha256(place.encode()).hexdigest()[:TOKEN_LENGTH]}"


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
    if isinstance(error, errors.FamilyQuotaExceeded | errors.SpotQuotaExceeded):
        return _without(limits, _concerned(error, size, settings), now, settings)
    if isinstance(error, errors.QuotaExceeded):
        return replace(limits, quota=nodes, quota_at=now)
    if isinstance(error, errors.Throttled):
        return limits
    if not getattr(error, "definite", False):
        return replace(limits, is_unclear=True)
    rest_s, bad = settings.max_poll_time, 0
    if isinstance(error, errors.CapacityUnavailable):
        limits = replace(limits, full={**limits.full, size: now})
    if isinstance(error, errors.PlaceFull):
        full = after_full(limits.places, size, error.place, now + rest_s)
        return replace(limits, places=full)
    if isinstance(error, errors.BadRequest):
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


def _concerned(error: errors.QuotaExceeded, size: str, settings: Settings) -> set[str]:
    """The sizes that the quota allows no more of. Who shares a family, their creates find out."""
    is_of_spot = isinstance(error, errors.SpotQuotaExceeded)
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

    True until a node booted instead could be up: until then that node serves the job, whether or
    not there is room again.
    """
    at = limits.full.get(size)
    return at is not None and now - at <= settings.boot_fail_after + settings.max_poll_time


def has_room(limits: Limits, size: Size, now: float) -> bool:
    """Whether a node of the size may be had, as far as the cloud's last answers tell."""
    if limits.resting.get(size.name, 0.0) > now:
        return False
    return rests_until(size, limits.places, now) is None


def after_success(limits: Limits, size: str, nodes: int) -> Limits:
    """The limits after a create of `size` succeeded, which made as many as `nodes`.

    A quota that allowed that many stays; only a probe beyond it raises it (D6).
    """
    bad = {name: n for name, n in limits.bad.items() if name != size}
    limits = replace(limits, bad=bad, is_unclear=False)
    if limits.quota is None or nodes <= limits.quota:
        return limits
    return replace(limits, quota=nodes)


# How many creates, destroys and cleans run at once, and how long all calls wait (U13, D6).

FIRST_WAIT_S = 1.0
"""The first wait after a refusal that names no time; it doubles, up to max_poll_time."""


def may_run(limits: Limits, now: float, settings: Settings) -> int:
    """How many creates, as many destroys and as many cleans may run now; none while calls wait."""
    return 0 if limits.throttled_until > now else _at_once(limits, settings)


def after_throttled(limits: Limits, asked_s: float | None, at: float, settings: Settings) -> Limits:
    """The limits after the cloud asked for fewer calls, and for `asked_s` seconds without any.

    What is answered while calls wait was sent before the last halving: it halves nothing again.
    """
    named_s = capped_retry_after(asked_s, settings.max_retry_after)
    if at < limits.throttled_until:
        return replace(limits, throttled_until=max(limits.throttled_until, at + (named_s or 0.0)))
    doubled_s = FIRST_WAIT_S * 2.0 ** min(limits.throttled, 16)
    wait_s = min(settings.max_poll_time, doubled_s) if named_s is None else named_s
    return replace(
        limits,
        throttled_until=at + wait_s,
        throttled=limits.throttled + 1,
        at_once=max(1, _at_once(limits, settings) // 2),
    )


def after_worked(limits: Limits, settings: Settings) -> Limits:
    more = _at_once(limits, settings) + 1
    at_once = more if more < settings.max_creates else None
    if (limits.at_once, limits.throttled) == (at_once, 0):
        return limits
    return replace(limits, at_once=at_once, throttled=0)


def _at_once(limits: Limits, settings: Settings) -> int:
    return min(settings.max_creates, limits.at_once or settings.max_creates)
