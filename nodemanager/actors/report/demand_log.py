"""Logs what the plans say of demand: refused boots, jobs that no size can run, full slots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nodemanager.actors.report.lines import Lasting, tell_verdict
from nodemanager.core.model.reasons import Event, Reason
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.plan.plan import Plan
from nodemanager.core.plan.rotation import Rotation
from nodemanager.lib.log import DEBUG, INFO, WARNING, Logger

REFUSED_EVERY_S = 1800.0
"""Seconds between two INFO lines of the same refusal of demand: the end of a night's log must have
one, too."""

PASSING = frozenset({None, Reason.NO_IDLE_NODE, Reason.REFILL_AWAITED})
"""Why no outdated node is replaced now, where the next jobs and nodes may change that."""

JOBS_TOLD = 20
"""The most unsatisfiable jobs that one cycle logs; `status` and DEBUG lines have the rest."""


class DemandLog:
    """Remembers when each refusal was told last."""

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._refused = Lasting(REFUSED_EVERY_S)
        self._unsatisfiable = Lasting(REFUSED_EVERY_S)
        self._slots_full = Lasting(REFUSED_EVERY_S)
        self._apart = Lasting(REFUSED_EVERY_S)
        self._rotations = Lasting(REFUSED_EVERY_S)
        self._rotating: frozenset[str] = frozenset()
        """The sizes that had outdated nodes."""

    def plan(self, plan: Plan, now: float) -> None:
        """Log what is refused, unsatisfiable or full, when it begins and as long as it lasts."""
        if plan.wants is None or plan.slots is None:
            return
        refused = plan.wants.refused
        due = self._refused.due(refused.keys(), now)
        for (size, reason), count in refused.items():
            self._log.event(
                Event.NODE_BOOT_REFUSED,
                level=INFO if (size, reason) in due else DEBUG,
                reason=reason,
                size=size,
                count=count,
                detail=_detail(reason, plan),
                plan=plan.plan_id,
            )
        if self._apart.due([apart] if (apart := plan.wants.apart) is not None else [], now):
            assert apart is not None
            self._log.event(Event.CONFIG_WARNING, level=WARNING, message=apart.told)
        self._tell_unsatisfiable(plan.wants.unsatisfiable, plan, now)
        self._tell_rotations(plan.wants.rotations.sizes, plan, now)
        slots = plan.slots
        full = slots.free is not None and slots.free <= 0
        wanting = any(reason is Reason.NO_FREE_SLOT for _, reason in refused)
        if self._slots_full.due([Event.SLOTS_FULL] if full and wanting else [], now):
            held_by = ",".join(f"{why}:{count}" for why, count in sorted(slots.held_by.items()))
            self._log.event(
                Event.SLOTS_FULL,
                slots=slots.total,
                free=slots.free,
                held_by=held_by,
                free_in_s=slots.earliest_free_s,
                plan=plan.plan_id,
            )

    def _tell_rotations(self, sizes: Mapping[str, Rotation], plan: Plan, now: float) -> None:
        """Log how far the replacement of each size's outdated nodes is, when that changes.

        Which node is next, and which of the PASSING reasons keeps it, may change with every plan.
        """
        news = {
            name: (name, one.outdated, None if one.waits in PASSING else one.waits)
            for name, one in sizes.items()
        }
        due = self._rotations.due(news.values(), now)
        ended = self._rotating - sizes.keys()
        self._rotating = frozenset(sizes)
        for name in sorted(ended | {name for name, told in news.items() if told in due}):
            one = sizes.get(name)
            stalled = one is not None and one.waits is Reason.ROTATION_STALLED
            self._log.event(
                Event.ROTATION,
                level=WARNING if stalled else INFO,
                size=name,
                outdated=0 if one is None else one.outdated,
                reason=None if one is None else one.waits,
                node=None if one is None else one.node or one.at or None,
                plan=plan.plan_id,
            )

    def _tell_unsatisfiable(self, jobs: Sequence[Verdict], plan: Plan, now: float) -> None:
        """Log each unsatisfiable job, but only the first JOBS_TOLD as warnings (U12)."""
        due = self._unsatisfiable.due([(verdict.id, verdict.reason) for verdict in jobs], now)
        told = 0
        for verdict in jobs:
            is_due = (verdict.id, verdict.reason) in due
            told += is_due
            level = WARNING if is_due and told <= JOBS_TOLD else DEBUG
            tell_verdict(
                self._log, Event.JOB_UNSATISFIABLE, level, verdict, {"job": verdict.id}, plan
            )


def _detail(reason: Reason, plan: Plan) -> str | None:
    """What an operator must know of that refusal beside its reason."""
    apart = None if plan.wants is None else plan.wants.apart
    return apart.told if apart is not None and reason is Reason.NOT_IN_SCHEDULER else None
