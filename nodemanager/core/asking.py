"""Questions to the cloud about single nodes that a listing is at odds with: when, and the answers.

Asked at a sensible pace: at most `ASK_LIMIT` in a cycle, one node ever more rarely (P6, U8).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from nodemanager.core.history import Asked, History
from nodemanager.core.model import CloudNode
from nodemanager.core.settings import ASK_AGAIN_S, Settings

Answers = Mapping[str, CloudNode | None]
"""By node id; None for "no such node"."""
TagAnswers = Mapping[str, tuple[CloudNode, ...]]
"""By record uuid, the nodes that bear its tag."""


def cloud_answered(
    history: History, answers: Mapping[str, tuple[CloudNode, ...]], at: float, settings: Settings
) -> History:
    """Fold in what the cloud answered by id or tag; what was not asked for long is forgotten."""
    kept = 2 * max(settings.max_poll_time, settings.poll_stale_after)
    asked = {key: one for key, one in history.asked.items() if at - one.at <= kept}
    for key, nodes in answers.items():
        before = asked.get(key)
        asked[key] = Asked(at, 1 if before is None else before.times + 1, nodes)
    return replace(history, asked=asked)


def may_ask(history: History, key: str, at: float, settings: Settings) -> bool:
    """Whether it is time to ask the cloud for it (again): twice as long after each answer."""
    before = history.asked.get(key)
    if before is None:
        return True
    wait_s = min(settings.max_poll_time, ASK_AGAIN_S * 2.0 ** min(before.times - 1, 16))
    return at - before.at >= wait_s
