"""Questions to the cloud about single nodes that a listing is at odds with: when, and the answers.

Asked at a sensible pace: at most `ASK_LIMIT` in a cycle, one node ever more rarely (P6, U8).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from nodemanager.core.model.settings import ASK_AGAIN_S, Settings
from nodemanager.core.model.world import CloudNode
from nodemanager.core.observe.history import Asked, History

Answers = Mapping[str, CloudNode | None]
"""By node id; None for "no such node"."""
TagAnswers = Mapping[str, tuple[CloudNode, ...]]
"""By record uuid, the nodes that bear its tag."""


def cloud_answered(
    history: History,
    answers: Mapping[str, tuple[CloudNode, ...]],
    at: float,
    settings: Settings,
    malformed: Iterable[str] = (),
    *,
    asked_at: float | None = None,
) -> History:
    """Fold in what the cloud answered by id or tag; what was not asked for long is forgotten.

    The answers came `at` that time, to questions sent no earlier than `asked_at`.
    """
    kept = 2 * max(settings.max_poll_time, settings.poll_stale_after)
    asked = {key: one for key, one in history.asked.items() if at - one.at <= kept}
    for key, nodes in answers.items():
        before = asked.get(key)
        since, gap_s = _denials(before, at, settings) if _denies(nodes) else (None, 0.0)
        asked[key] = Asked(
            at, _times(before), nodes, denied_since=since, gap_s=gap_s, asked_at=asked_at
        )
    for key in malformed:
        times = _times(asked.get(key))
        asked[key] = Asked(at, times, (), malformed=True, asked_at=asked_at)
    return replace(history, asked=asked)


def _times(before: Asked | None) -> int:
    return 1 if before is None else before.times + 1


def _denies(nodes: tuple[CloudNode, ...]) -> bool:
    return all(node.is_absent for node in nodes)


def _denials(before: Asked | None, at: float, settings: Settings) -> tuple[float, float]:
    """Since when denials are unbroken, with one more now, and their widest gap (P6)."""
    if before is None or before.denied_since is None:
        return at, 0.0
    gap_s = at - before.said_at
    if gap_s > settings.poll_stale_after:
        return at, 0.0
    return before.denied_since, max(before.gap_s, gap_s)


def may_ask(history: History, key: str, at: float, settings: Settings) -> bool:
    """Whether it is time to ask the cloud for it (again): twice as long after each answer."""
    before = history.asked.get(key)
    if before is None:
        return True
    # Often enough for its denials to count as unbroken (P6).
    longest_s = min(settings.max_poll_time, settings.poll_stale_after / 2)
    wait_s = min(longest_s, ASK_AGAIN_S * 2.0 ** min(before.times - 1, 16))
    return at - before.at >= wait_s
