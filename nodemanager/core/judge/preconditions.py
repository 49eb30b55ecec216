"""The frame of a judge's checks, and what forbids every clean or shutdown for now."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from nodemanager.core.model.breaker import HOW_TO_CLEAR
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.verdict import Objection, Verdict
from nodemanager.core.model.world import CloudNode, Record
from nodemanager.core.observe.history import History
from nodemanager.core.observe.snapshot import Limits, Snapshot

# The checks that a judge applies to a record or a node: the rows of an ordered table.

Ask = TypeVar("Ask", bound=Callable[..., Any], covariant=True)
New = TypeVar("New", bound=Callable[..., Any])
Said = TypeVar("Said", Verdict, Objection)

Measured = Mapping[str, Any]
"""Measured values, each with its threshold."""
WaitHint = float | str
"""Seconds to wait while all polls answer; or, in words, what must happen instead."""
Waits = Callable[[Any, Any, Measured], WaitHint]


class RuleCheck(NamedTuple, Generic[Ask]):
    """One rule; `ask` returns a verdict, or None if the rule does not object to the subject.

    `rule` is the id in SAFETY.md, `asks` what must hold. `wait` says what ends an objection:
    seconds, a text that is formatted with the measures, or a function of judge, subject and
    measures. `measure` gives the measures whatever the answer is. If `moot` is true of a judge, the
    check can't object to anything in its snapshot, and the judge skips it to save time. `unasked`
    tells why the rule can't be asked, or None. If a `decisive` check objects, no other is asked. A
    check with a `course` applies only to nodes on that course. A check `of_pairs` never objects to
    a paired record, so that the judge skips it there.
    """

    rule: str
    ask: Ask
    asks: str
    wait: WaitHint | Waits = 0.0
    measure: Callable[[Any, Any], Measured] = lambda judge, subject: {}
    moot: Callable[[Any], bool] | None = None
    unasked: Callable[[Any, Any], str | None] = lambda judge, subject: None
    decisive: bool = False
    course: str | None = None
    of_pairs: bool = False

    @property
    def name(self) -> str:
        """The name by which `explain` knows the check."""
        return self.ask.__name__.lstrip("_")

    def bears(self, said: Said) -> Said:
        """What the check said, with its rule; a check may name another rule itself."""
        return said if said.rule is not None else type(said)(*said[:-1], self.rule)


def rule_check(rule: str, asks: str, *row: Any, **more: Any) -> Callable[[New], RuleCheck[New]]:
    """Makes the check of a rule of the function that asks it; `row` is the rest of RuleCheck."""
    return lambda ask: RuleCheck(rule, ask, asks, *row, **more)


def asked_by(judge: object, checks: Iterable[RuleCheck[Ask]]) -> tuple[RuleCheck[Ask], ...]:
    """The checks that are not moot for this judge, in order."""
    return tuple([one for one in checks if one.moot is None or not one.moot(judge)])


def until(measure: str, limit: str) -> Waits:
    """A `wait` of as many seconds as the measure has left to its limit."""

    def left(judge: object, subject: object, measures: Measured) -> WaitHint:
        return float(measures[limit] - measures[measure])

    return left


def wait_of(check: RuleCheck[Ask], judge: object, subject: object, measures: Measured) -> WaitHint:
    """What would end the check's objection, given its measures."""
    if callable(check.wait):
        return check.wait(judge, subject, measures)
    return check.wait.format(**measures) if isinstance(check.wait, str) else check.wait


def until_released(holds: Collection[str], *kept: Record | CloudNode | str | None) -> str:
    """What ends a hold on any of `kept`: its release, or taking off a mark of its own (C9).

    A mark is in a record's properties or in a node's tags; an id alone has none.
    """
    ends: dict[str, None] = {}
    for one in kept:
        id = one.uuid if isinstance(one, Record) else one.id if isinstance(one, CloudNode) else one
        if id in holds:
            ends[f"`nodemanager release {id}`"] = None
        if isinstance(one, Record | CloudNode) and one.held:
            ends[f"take the hold mark off {id}"] = None
    return f"not while it is on hold; to end that, {' and '.join(ends)}"


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


@rule_check(
    "L6",
    "this manager holds the pool's lease",
    "not by a manager without the pool's lease",
    lambda snapshot, settings: {"lease": "ours" if snapshot.lease else "not ours"},
)
def _leased(snapshot: Snapshot, settings: Settings) -> Objection | None:
    if not snapshot.lease:
        return Objection(Reason.NO_LEASE)
    return None


@rule_check(
    "L5",
    "account and store are the known ones, and the journal can be written",
    "not while it is read-only: {read_only}",
    lambda snapshot, settings: {"read_only": snapshot.read_only or "no"},
)
def _writable(snapshot: Snapshot, settings: Settings) -> Objection | None:
    if snapshot.read_only is not None:
        return Objection(Reason.READ_ONLY, {"detail": snapshot.read_only})
    return None


def _pause(snapshot: Snapshot, settings: Settings) -> Measured:
    mark = snapshot.paused
    return {"paused": "no"} if mark is None else mark.measures(snapshot.wall)


@rule_check(
    "O4",
    "no operator has the pool paused",
    "not while the pool is paused: `nodemanager resume` ends that",
    _pause,
)
def _running(snapshot: Snapshot, settings: Settings) -> Objection | None:
    if snapshot.paused is not None:
        return Objection(Reason.PAUSED, snapshot.paused.measures(snapshot.wall))
    return None


def _breaker_state(snapshot: Snapshot, settings: Settings) -> Measured:
    if not snapshot.breaker.is_open:
        return {"breaker": "closed"}
    return {"breaker": "open", "open_s": snapshot.now - snapshot.breaker.opened_at}


def _breaker_cleared(snapshot: Snapshot, settings: Settings, measures: Measured) -> str:
    causes = [part.cause for part in snapshot.breaker.parts if part.cause is not None]
    how = "; ".join(f"{cause.value}: {HOW_TO_CLEAR[cause]}" for cause in causes)
    return f"not while the breaker is open ({how})"


@rule_check("B2", "the breaker is closed", _breaker_cleared, _breaker_state)
def _breaker(snapshot: Snapshot, settings: Settings) -> Objection | None:
    if snapshot.breaker.cause is not None:
        return Objection(Reason.BREAKER_OPEN, {"cause": snapshot.breaker.cause.value})
    return None


def _ages(snapshot: Snapshot, settings: Settings) -> Measured:
    ages = {f"{source}_s": age for source, age in poll_ages(snapshot, settings).items()}
    return {**ages, "limit_s": settings.poll_stale_after}


@rule_check("C7", "every poll is fresher than poll_stale_after", measure=_ages)
def _polls(snapshot: Snapshot, settings: Settings) -> Objection | None:
    stale = stale_poll(snapshot, settings)
    if stale is not None:
        source, age_s = stale
        measures = {"source": source, "age_s": age_s, "limit_s": settings.poll_stale_after}
        return Objection(Reason.POLL_STALE, measures)
    return None


@rule_check(
    "L2",
    "cloud and store can prove their listings complete",
    "not with this adapter: its listings may be incomplete",
)
def _authorised(snapshot: Snapshot, settings: Settings) -> Objection | None:
    if not settings.may_authorise:
        return Objection(Reason.NOT_AUTHORISED)
    return None


STANDING: tuple[RuleCheck[Precondition], ...] = (
    _leased,
    _writable,
    _running,
    _breaker,
    _polls,
    _authorised,
)
"""The preconditions in order; the first that returns a block decides."""


def standing_block(
    snapshot: Snapshot,
    settings: Settings,
    *,
    polls: bool = True,
    breaker: bool = True,
    authorised: bool = True,
) -> Objection | None:
    """What forbids every free and destroy now; None if nothing does.

    Without `polls` their age is ignored, without `breaker` an open breaker, and without
    `authorised` that listings may be incomplete.
    """
    waived = {"polls": not polls, "breaker": not breaker, "authorised": not authorised}
    for check in STANDING:
        block = None if waived.get(check.name) else check.ask(snapshot, settings)
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
