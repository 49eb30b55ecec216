"""How `explain` tells what forbids every free and destroy at a moment (SAFETY.md C7, C10, B2)."""

from __future__ import annotations

from collections.abc import Mapping

from nodemanager.core.breaker import HOW_TO_CLEAR
from nodemanager.core.findings import Answer, Asking, Finding, found
from nodemanager.core.settings import Settings
from nodemanager.core.snapshot import Snapshot
from nodemanager.core.standing import STANDING, poll_ages


def _ages(settings: Settings, snapshot: Snapshot) -> Mapping[str, object]:
    ages = {f"{source}_s": age for source, age in poll_ages(snapshot, settings).items()}
    return {**ages, "limit_s": settings.poll_stale_after}


def _breaker(settings: Settings, snapshot: Snapshot) -> str:
    causes = [part.cause for part in snapshot.breaker.parts if part.cause is not None]
    how = "; ".join(f"{cause.value}: {HOW_TO_CLEAR[cause]}" for cause in causes)
    return f"not while the breaker is open ({how})"


def _paused(settings: Settings, snapshot: Snapshot) -> Mapping[str, object]:
    mark = snapshot.paused
    return {"paused": "no"} if mark is None else mark.measures(snapshot.wall)


def _breaker_since(settings: Settings, snapshot: Snapshot) -> Mapping[str, object]:
    if not snapshot.breaker.is_open:
        return {"breaker": "closed"}
    return {"breaker": "open", "open_s": snapshot.now - snapshot.breaker.opened_at}


ASKINGS: Mapping[str, Asking[Settings, Snapshot]] = {
    "leased": Asking(
        "this manager holds the pool's lease",
        lambda settings, snapshot: "not by a manager without the pool's lease",
        lambda settings, snapshot: {"lease": "ours" if snapshot.lease else "not ours"},
    ),
    "writable": Asking(
        "account and store are the known ones, and the journal can be written",
        lambda settings, snapshot: f"not while it is read-only: {snapshot.read_only}",
        lambda settings, snapshot: {"read_only": snapshot.read_only or "no"},
    ),
    "running": Asking(
        "no operator has the pool paused",
        lambda settings, snapshot: "not while the pool is paused: `nodemanager resume` ends that",
        _paused,
    ),
    "breaker": Asking("the breaker is closed", _breaker, _breaker_since),
    "polls": Asking(
        "every poll is fresher than poll_stale_after", lambda settings, snapshot: 0.0, _ages
    ),
    "authorised": Asking(
        "cloud and store can prove their listings complete",
        lambda settings, snapshot: "not with this adapter: its listings may be incomplete",
    ),
}


def ask_standing(snapshot: Snapshot, settings: Settings) -> list[Finding]:
    """Every reason to free and destroy nothing at all."""
    findings = []
    for check in STANDING:
        block = check.ask(snapshot, settings)
        answer = None if block is None else Answer(*block)
        findings.append(
            found(check.rule, check.name, ASKINGS[check.name], settings, snapshot, answer)
        )
    return findings
