"""Questions to the cloud about single nodes that the listing contradicts: when, and the answers.

A cycle asks at most `ASK_LIMIT`; the same node is asked for less and less often (P6, U8).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from nodemanager.core.model.settings import ASK_AGAIN_S, Settings
from nodemanager.core.model.world import CloudNode
from nodemanager.core.observe.history import Asked, History

IdAnswers = Mapping[str, CloudNode | None]
"""By node id; None for "no such node"."""
TagAnswers = Mapping[str, tuple[CloudNode, ...]]
"""By record uuid: the nodes that have its tag."""


def cloud_answered(
    history: History,
    answers: Mapping[str, tuple[CloudNode, ...]],
    at: float,
    settings: Settings,
    malformed: Iterable[str] = (),
    *,
    asked_at: float | None = None,
) -> History:
    """Fold in the cloud's answers by id or tag; answers that were not renewed for long are dropped.

    They arrived at `at`; the first question was sent at `asked_at`. CLOCK_BOOTTIME seconds.
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
    """The start of the unbroken denials, and their longest gap, after one more denial (P6)."""
    if before is None or before.denied_since is None:
        return at, 0.0
    gap_s = at - before.said_at
    if gap_s > settings.poll_stale_after:
        return at, 0.0
    return before.denied_since, max(before.gap_s, gap_s)


def node_shown(history: History, node_id: str) -> CloudNode | None:
    """The node as the newest listing shows it, else as the newest answer that has it does."""
    listed = history.present.get(node_id)
    if listed is not None:
        return listed
    answers = sorted(history.asked.values(), key=lambda answer: answer.said_at, reverse=True)
    found = (node for answer in answers for node in answer.nodes if node.id == node_id)
    return next((node for node in found if not node.is_absent), None)


def may_ask(history: History, key: str, at: float, settings: Settings) -> bool:
    """Whether the cloud may be asked for `key` at `at`; the wait doubles with each answer."""
    before = history.asked.get(key)
    if before is None:
        return True
    # At the latest while the denials still count as unbroken (P6).
    longest_s = min(settings.max_poll_time, settings.poll_stale_after / 2)
    wait_s = min(longest_s, ASK_AGAIN_S * 2.0 ** min(before.times - 1, 16))
    return at - before.at >= wait_s


def is_called_gone(answer: Asked, created_at: float, settings: Settings) -> bool:
    """Whether the cloud, asked by id, calls a node gone: terminated, or denied twice (D3).

    No denial counts while the node may not be visible yet (A1).
    """
    denied_since = answer.denied_since
    if denied_since is None:
        return False
    if answer.nodes or settings.visible_after == 0:
        return True
    visible_at = created_at + settings.visible_after
    if denied_since <= visible_at:
        # At the latest by then came the first denial that counts.
        denied_since = visible_at + answer.gap_s
    return answer.at - denied_since >= ASK_AGAIN_S
