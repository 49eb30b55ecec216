"""How many creates, destroys and cleans run at once, and how long all calls wait (U13, D6).

Additive increase, multiplicative decrease: the cloud's "fewer calls" halves the number, and each
create or destroy that succeeds raises it by one again.
"""

from __future__ import annotations

from dataclasses import replace

from nodemanager.core.model.settings import Settings
from nodemanager.core.observe.snapshot import Limits
from nodemanager.core.safety.rate_limits import heeded

FIRST_WAIT_S = 1.0
"""The first wait after a refusal that names no time; it doubles, up to max_poll_time."""


def may_run(limits: Limits, now: float, settings: Settings) -> int:
    """How many creates, as many destroys and as many cleans may run now; none while calls wait."""
    return 0 if limits.throttled_until > now else _at_once(limits, settings)


def after_throttled(limits: Limits, asked_s: float | None, at: float, settings: Settings) -> Limits:
    """The limits after the cloud asked for fewer calls, and for `asked_s` seconds without any.

    What is answered while calls wait was sent before the last halving: it halves nothing again.
    """
    named_s = heeded(asked_s, settings.max_retry_after)
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
    """The limits after a create or a destroy succeeded."""
    more = _at_once(limits, settings) + 1
    at_once = more if more < settings.max_creates else None
    if (limits.at_once, limits.throttled) == (at_once, 0):
        return limits
    return replace(limits, at_once=at_once, throttled=0)


def _at_once(limits: Limits, settings: Settings) -> int:
    return min(settings.max_creates, limits.at_once or settings.max_creates)
