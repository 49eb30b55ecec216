"""The preconditions of every free and destroy (SAFETY.md B2, C7, C10, L2, L5, L6, O4)."""

from __future__ import annotations

from collections.abc import Callable, Collection

from nodemanager.core.judge.checks import Measured, RuleCheck
from nodemanager.core.model.breaker import HOW_TO_CLEAR
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.verdict import Objection
from nodemanager.core.observe.history import History
from nodemanager.core.observe.snapshot import Limits, Snapshot

Precondition = Callable[[Snapshot, Settings], Objection | None]
NEVER = float("-inf")


def poll_ages(snapshot: Snapshot, settings: Settings) -> dict[str, float]:
    """The age of each configured poll's newest answer: seconds since its start, or infinite."""
    now = snapshot.now
    return {source: now - started_at for source, started_at in _poll_times(snapshot, settings)}


def _poll_times(snapshot: Snapshot, settings: Settings) -> list[tuple[str, float]]:
    """The start of each configured poll's newest answer, CLOCK_BOOTTIME, or NEVER."""
    cloud, records = snapshot.history.cloud, snapshot.history.records
    polls = [
        ("cloud", NEVER if cloud is None else cloud.started_at),
        ("records", NEVER if records is None else records.started_at),
    ]
    if settings.demand_polled:
        polls.append(("demand", NEVER if snapshot.demand_at is None else snapshot.demand_at))
    if settings.scheduled:
        scheduler = snapshot.history.scheduler
        polls.append(("scheduler", NEVER if scheduler is None else scheduler.started_at))
    return polls


def listed_for_long(begun: Collection[float], history: History, settings: Settings) -> bool:
    """Whether a run that applies only one plan (`--once`) may apply this one.

    `begun` are the start times of the run's cloud listings, CLOCK_BOOTTIME. They must satisfy C5
    and C6, so that this one plan can do what a later one could.
    """
    cloud, records = history.cloud, history.records
    if history.base is None or cloud is None or records is None or not begun:
        return False
    newest = min(cloud.started_at, records.started_at)
    return newest - min(begun) >= settings.settle and len(begun) >= settings.absent_listings


def stale_poll(snapshot: Snapshot, settings: Settings) -> tuple[str, float] | None:
    """The first configured poll that is older than poll_stale_after, with its age (C7), or None."""
    for source, started_at in _poll_times(snapshot, settings):
        age = snapshot.now - started_at
        if age > settings.poll_stale_after:
            return source, age
    return None


def _leased(snapshot: Snapshot, settings: Settings) -> Objection | None:
    if not snapshot.lease:
        return Objection(Reason.NO_LEASE)
    return None


def _writable(snapshot: Snapshot, settings: Settings) -> Objection | None:
    if snapshot.read_only is not None:
        return Objection(Reason.READ_ONLY, {"detail": snapshot.read_only})
    return None


def _running(snapshot: Snapshot, settings: Settings) -> Objection | None:
    if snapshot.paused is not None:
        return Objection(Reason.PAUSED, snapshot.paused.measures(snapshot.wall))
    return None


def _breaker(snapshot: Snapshot, settings: Settings) -> Objection | None:
    if snapshot.breaker.cause is not None:
        return Objection(Reason.BREAKER_OPEN, {"cause": snapshot.breaker.cause.value})
    return None


def _polls(snapshot: Snapshot, settings: Settings) -> Objection | None:
    stale = stale_poll(snapshot, settings)
    if stale is not None:
        source, age_s = stale
        measures = {"source": source, "age_s": age_s, "limit_s": settings.poll_stale_after}
        return Objection(Reason.POLL_STALE, measures)
    return None


def _authorised(snapshot: Snapshot, settings: Settings) -> Objection | None:
    if not settings.may_authorise:
        return Objection(Reason.NOT_AUTHORISED)
    return None


def _pause(snapshot: Snapshot, settings: Settings) -> Measured:
    mark = snapshot.paused
    return {"paused": "no"} if mark is None else mark.measures(snapshot.wall)


def _breaker_state(snapshot: Snapshot, settings: Settings) -> Measured:
    if not snapshot.breaker.is_open:
        return {"breaker": "closed"}
    return {"breaker": "open", "open_s": snapshot.now - snapshot.breaker.opened_at}


def _breaker_cleared(snapshot: Snapshot, settings: Settings, measures: Measured) -> str:
    causes = [part.cause for part in snapshot.breaker.parts if part.cause is not None]
    how = "; ".join(f"{cause.value}: {HOW_TO_CLEAR[cause]}" for cause in causes)
    return f"not while the breaker is open ({how})"


def _ages(snapshot: Snapshot, settings: Settings) -> Measured:
    ages = {f"{source}_s": age for source, age in poll_ages(snapshot, settings).items()}
    return {**ages, "limit_s": settings.poll_stale_after}


STANDING: tuple[RuleCheck[Precondition], ...] = (
    RuleCheck(
        "L6",
        _leased,
        "this manager holds the pool's lease",
        "not by a manager without the pool's lease",
        lambda snapshot, settings: {"lease": "ours" if snapshot.lease else "not ours"},
    ),
    RuleCheck(
        "L5",
        _writable,
        "account and store are the known ones, and the journal can be written",
        "not while it is read-only: {read_only}",
        lambda snapshot, settings: {"read_only": snapshot.read_only or "no"},
    ),
    RuleCheck(
        "O4",
        _running,
        "no operator has the pool paused",
        "not while the pool is paused: `nodemanager resume` ends that",
        _pause,
    ),
    RuleCheck("B2", _breaker, "the breaker is closed", _breaker_cleared, _breaker_state),
    RuleCheck("C7", _polls, "every poll is fresher than poll_stale_after", 0.0, _ages),
    RuleCheck(
        "L2",
        _authorised,
        "cloud and store can prove their listings complete",
        "not with this adapter: its listings may be incomplete",
    ),
)
"""The preconditions in order; the first that returns a block decides."""


def standing_block(
    snapshot: Snapshot, settings: Settings, *, polls: bool = True, breaker: bool = True
) -> Objection | None:
    """What forbids every free and destroy now; None if nothing does.

    Without `polls` their age is ignored, without `breaker` an open breaker is.
    """
    for check in STANDING:
        name, ask = check.name, check.ask
        if (name == "polls" and not polls) or (name == "breaker" and not breaker):
            continue
        block = ask(snapshot, settings)
        if block is not None:
            return check.bears(block)
    return None


def plan_block(
    aborted: Objection | None, limits: Limits, now: float, *, stopping: bool, read_only: str
) -> Objection | None:
    """Why none of a plan's orders is carried out; None if they are.

    `aborted` is why no plan could be made, `read_only` says what can't be written ("" for nothing).
    """
    if stopping:
        return Objection(Reason.STOPPING)
    if aborted is not None:
        return aborted
    if read_only:
        return Objection(Reason.READ_ONLY, {"detail": read_only})
    return Objection(Reason.THROTTLED) if limits.throttled_until > now else None
