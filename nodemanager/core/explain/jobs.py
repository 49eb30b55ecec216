"""What each waiting job gets: its nodes, those to come for it, or why there is none.

It asks the demand's own rules again, as `why` does for sizes, and decides nothing itself.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from nodemanager.core.explain.explain import DecisionView
from nodemanager.core.explain.why import Blocker, DemandAgain
from nodemanager.core.model.features import shown, shown_gres
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.model.world import Job
from nodemanager.core.plan.summary import place_of
from nodemanager.core.plan.wishes import Share


class JobState(StrEnum):
    """What a waiting job waits for."""

    SERVED = "served"
    """Its nodes are up: its scheduler may start it."""
    BOOTING = "booting"
    """All its nodes are there or ordered, and some are not up yet."""
    WAITING = "waiting"
    """Some node of it can't be booted now; `reason` says why."""
    IMPOSSIBLE = "impossible"
    """No boot can serve it (U12)."""


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """One job of the queue. `asks` is what each of its `count` nodes must have, in words.

    `nodes` are the hostnames of those that it has, `coming` how many are ordered and have no name
    yet. `size` is what the rest is of. A reason that may end by itself does so `in_s` from now.
    """

    job: str
    state: JobState
    count: int
    asks: str
    size: str | None = None
    nodes: tuple[str, ...] = ()
    coming: int = 0
    reason: Reason | None = None
    in_s: float | None = None
    measures: Mapping[str, object] = field(default_factory=dict)


def jobs(decision: DecisionView) -> tuple[WaitingJob, ...]:
    """The waiting jobs in the order of the queue; empty where no decision could be taken."""
    made = decision.made
    if made.aborted is not None or made.wants is None or made.slots is None:
        return ()
    asking = DemandAgain(decision, made.slots)
    refused = {one.size: one.grows for one in asking.sizes()}
    granted = Counter(boot.size.name for boot in made.boots)
    up = {
        view.record.hostname
        for view in made.views
        if view.record is not None and place_of(view) not in ("booting", None)
    }
    queue, rows = decision.snapshot.demand or (), []
    weighed = _weighed(queue, asking.weighed.shares, made.wants.unsatisfiable)
    for job, verdict, share in weighed:
        if verdict is not None:
            measures = dict(verdict.measures or {})
            size = measures.pop("size", None)
            row = WaitingJob(
                job.id,
                JobState.IMPOSSIBLE,
                job.count,
                asks(job),
                size=None if size is None else str(size),
                reason=verdict.reason,
                measures=measures,
            )
        elif share is not None:
            row = _row(share, refused, granted, up)
        else:
            continue
        rows.append(row)
    return tuple(rows)


def _weighed(
    queue: Sequence[Job], shares: Iterable[Share], impossible: Iterable[Verdict]
) -> Iterator[tuple[Job, Verdict | None, Share | None]]:
    """Each job with what was found of it. Jobs of one id, such as the parts of one, have each its
    own: the share that names it, or else the id's next verdict."""
    shares_of, verdicts_of = (
        defaultdict[str, list[Share]](list),
        defaultdict[str, list[Verdict]](list),
    )
    for share in shares:
        shares_of[share.job.id].append(share)
    for verdict in impossible:
        verdicts_of[verdict.id].append(verdict)
    times = Counter(job.id for job in queue)
    for job in queue:
        its, verdicts = shares_of[job.id], verdicts_of[job.id]
        own = next((one for one in its if times[job.id] == 1 or one.job == job), None)
        if own is not None:
            its.remove(own)
        # A job that boots serve in part has both.
        tied = own is None or (verdicts and verdicts[0].reason is Reason.JOB_TIED)
        yield job, verdicts.pop(0) if verdicts and tied else None, own


def _row(
    share: Share,
    refused: Mapping[str, Sequence[Blocker]],
    granted: Counter[str],
    up: set[str | None],
) -> WaitingJob:
    """The row of a job that boots can serve; takes what it lacks from the `granted` boots."""
    job, size = share.job, None if share.size is None else share.size.name
    ordered = 0 if size is None else min(share.lacks, granted[size])
    if size is not None:
        granted[size] -= ordered
    nodes = tuple(host for host in share.hosts if host is not None)
    coming = len(share.hosts) - len(nodes) + ordered
    blocker = next(iter(refused.get(size or "", ())), None) if share.lacks > ordered else None
    if share.lacks > ordered:
        state = JobState.WAITING
    else:
        state = JobState.SERVED if not coming and up.issuperset(nodes) else JobState.BOOTING
    return WaitingJob(
        job.id,
        state,
        job.count,
        asks(job),
        size=size,
        nodes=nodes,
        coming=coming,
        reason=None if blocker is None else blocker.reason,
        in_s=None if blocker is None else blocker.in_s,
        measures={} if blocker is None else blocker.measures,
    )


def asks(job: Job) -> str:
    """What one node of the job must have, in words: `4 cores, 8000 MB, gpu:2`."""
    return ", ".join(_asked(job))


def _asked(job: Job) -> Iterator[str]:
    yield f"{job.cores} core{'' if job.cores == 1 else 's'}"
    if job.ram_mb:
        yield f"{job.ram_mb} MB"
    if job.scratch_mb:
        yield f"scratch {job.scratch_mb} MB"
    if job.gres:
        yield shown_gres(job.gres)
    if job.features:
        yield shown(job.features)
    if job.instance_type is not None:
        yield f"size {job.instance_type}"
    if job.host is not None:
        yield f"node {job.host}"
    if job.preemptible:
        yield "may be preempted"
