"""Logs what the plans say of records and nodes: each verdict once, and again when it changes."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any, TypeVar

from nodemanager.core.explain.events import event_of_node, event_of_record, record_fields
from nodemanager.core.explain.explain import STANDBY
from nodemanager.core.model.changed import same_items
from nodemanager.core.model.reasons import OURS, Event, Kind, Reason
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.model.world import CloudNotice
from nodemanager.core.observe.pairing import NO_PAIRS
from nodemanager.core.plan.plan import Plan
from nodemanager.core.plan.rotation import Rotation
from nodemanager.lib.log import DEBUG, INFO, WARNING, Logger
from nodemanager.lib.logline import timestamp

SUMMARY_EVERY_S = 60.0
"""Seconds between two INFO lines of the same summary; the others are DEBUG."""

NAMED = 10
"""The most records or nodes that one line names; it counts the others."""

T = TypeVar("T", bound=Hashable)


class Lasting:
    """Tells when to log a condition that lasts: when it begins, and then every `every_s`."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._logged_at: dict[Hashable, float] = {}

    def due(self, lasting: Collection[T], now: float) -> set[T]:
        """Those of `lasting` to log now; it has all that hold now, and the others have ended."""
        never = float("-inf")
        due = {one for one in lasting if now - self._logged_at.get(one, never) >= self._every_s}
        self._logged_at = {one: now if one in due else self._logged_at[one] for one in lasting}
        return due


def tell_verdict(
    log: Logger, event: Event, level: int, verdict: Verdict, fields: dict[str, Any], plan: Plan
) -> None:
    """Log a verdict of the plan, with its reason and its measures; `fields` say of what it is."""
    merged = {**fields, **(verdict.measures or {})}
    log.event(event, level=level, reason=verdict.reason, **merged, plan=plan.plan_id)


def first_of(ids: Sequence[str], key: str) -> dict[str, Any]:
    """The first of `ids` under `key`, and under `more` how many others there are."""
    return {key: tuple(ids[:NAMED]) or None, "more": max(0, len(ids) - NAMED) or None}


EVERY_S = 86_400.0
"""Seconds between two lines of the same notice, also when it ended and began again."""


class NoticeLog:
    """Remembers when each notice was told last, and of how many it was."""

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._logged: dict[Reason, tuple[float, int]] = {}

    def plan(self, plan: Plan, now: float) -> None:
        for notice in plan.notices:
            logged_at, logged_count = self._logged.get(notice.reason, (float("-inf"), 0))
            if now - logged_at < EVERY_S and notice.count < 2 * logged_count:
                continue
            self._logged[notice.reason] = now, notice.count
            self._log.event(
                notice.event,
                level=WARNING,
                reason=notice.reason,
                count=notice.count,
                limit=notice.limit,
                **first_of([str(slot) for slot in notice.slots], "stuck"),
                clear=notice.clear,
                plan=plan.plan_id,
            )


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
            self._log.event(Event.CONFIG_WARNING, level=WARNING, message=apart.text)
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
        for name in sorted(ended | {name for name, state in news.items() if state in due}):
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
        logged = 0
        for verdict in jobs:
            is_due = (verdict.id, verdict.reason) in due
            logged += is_due
            level = WARNING if is_due and logged <= JOBS_TOLD else DEBUG
            tell_verdict(
                self._log, Event.JOB_UNSATISFIABLE, level, verdict, {"job": verdict.id}, plan
            )


def _detail(reason: Reason, plan: Plan) -> str | None:
    """What an operator must know of that refusal beside its reason."""
    apart = None if plan.wants is None else plan.wants.apart
    return apart.text if apart is not None and reason is Reason.NOT_IN_SCHEDULER else None


TOLD_ELSEWHERE = OURS | {
    *(Reason.PAIRED, Reason.HOLDS_NOTHING, Reason.NODE_ABSENT, Reason.NODE_EXPECTED)
}
"""Reasons to keep that another INFO line (paired, cleaned, created ...) has already told."""


class VerdictLog:
    """Remembers what was told last of each record, node and pair.

    Who stands by can't know which nodes the manager with the lease ended: it tells of none as lost.
    """

    def __init__(self, log: Logger, mode: str) -> None:
        self._log = log
        self._tells_lost = mode != STANDBY
        self._records: dict[str, Reason] = {}
        self._nodes: dict[str, Reason] = {}
        self._logged_records: Sequence[Verdict] = ()
        self._logged_nodes: Sequence[Verdict] = ()
        self._logged_pairs = NO_PAIRS
        self._pairs: dict[str, str] = {}
        self._missing: dict[str, tuple[str, Reason | None]] = {}
        """By record: the node of it that no listing shows any more, and why it was kept."""
        self._lost: set[str] = set()
        self._gone: set[str] = set()
        self._ambiguous: frozenset[str] = frozenset()
        self._not_restored: dict[str, Reason] = {}
        self._unlisted: dict[str, Reason] = {}
        self._short: frozenset[str] = frozenset()
        self._short_logged_at = 0.0
        self._cloud_notices: dict[str, CloudNotice] = {}

    def plan(self, plan: Plan, now: float) -> None:
        """Log what is new in the plan's pairs, and in its verdicts on records and nodes."""
        self._tell_pairs(plan)
        self._tell_lost(plan)
        self._tell_unlisted(plan, now)
        self._tell_cloud_notices(plan)
        self._tell_records(plan)
        for verdict in plan.not_restored:
            self.not_restored(verdict)
        self._tell_nodes(plan)

    def _tell_pairs(self, plan: Plan) -> None:
        self._gone &= plan.history.present.keys()
        if plan.pairs is self._logged_pairs:
            return
        self._logged_pairs = plan.pairs
        pairs = {
            node_id: record.uuid
            for node_id, record in plan.pairs.record_of.items()
            if node_id not in self._gone
        }
        if pairs != self._pairs:
            present = plan.history.present
            for node_id, uuid in pairs.items():
                self._missing.pop(uuid, None)
                if self._pairs.get(node_id) != uuid:
                    record = plan.pairs.record_of[node_id]
                    fields = record_fields(record, uuid)
                    name = present[node_id].name if node_id in present else None
                    self._log.event(
                        Event.NODE_PAIRED, node=node_id, name=name, **fields, plan=plan.plan_id
                    )
            for node_id, uuid in self._pairs.items():
                if node_id not in pairs:
                    listed = node_id in present
                    self._log.event(
                        Event.NODE_UNPAIRED,
                        level=WARNING if listed else INFO,
                        node=node_id,
                        reason=None if listed else Reason.NODE_ABSENT,
                        record=uuid,
                        plan=plan.plan_id,
                    )
                    if not listed:
                        self._missing[uuid] = node_id, self._nodes.get(node_id)
            self._pairs = pairs
        ambiguous = frozenset(plan.pairs.ambiguous)
        for one in sorted(ambiguous - self._ambiguous):
            is_node = one in plan.history.present
            key = "node" if is_node else "record"
            self._log.event(
                Event.PAIR_AMBIGUOUS,
                level=WARNING,
                **{key: one},
                candidates=",".join(plan.pairs.ambiguous[one]),
                plan=plan.plan_id,
            )
        self._ambiguous = ambiguous

    def _tell_lost(self, plan: Plan) -> None:
        """Log each node that was up and has ended, with what it did and what its record is for."""
        absent = plan.history.absence
        self._missing = {uuid: one for uuid, one in self._missing.items() if uuid in absent}
        # A late list may show its record as it was before, and then again.
        lost = [one for one in plan.ended if not (one.in_setup or one.node_id in self._lost)]
        self._lost.update(one.node_id for one in lost)
        if not lost or not self._tells_lost:
            return
        verdicts = {verdict.id: verdict for verdict in plan.records}
        for one in lost:
            verdict = verdicts[one.record.uuid]
            # A verdict may name a node, too: the one that its record is kept for.
            fields = {
                **(verdict.measures or {}),
                **record_fields(one.record, one.record.uuid),
                "node": one.node_id,
                "was": self._missing.get(one.record.uuid, (None, None))[1],
                "slot_kept": verdict.reason if verdict.kind is Kind.KEEP else None,
            }
            self._log.event(
                Event.NODE_LOST,
                level=WARNING,
                reason=Reason.NODE_ABSENT,
                **fields,
                plan=plan.plan_id,
            )

    def _tell_unlisted(self, plan: Plan, now: float) -> None:
        """Log each record's answer once, and a short listing as more nodes show it (P6)."""
        verdicts = plan.unlisted.verdicts
        reasons = {uuid: verdict.reason for uuid, verdict in verdicts.items()}
        before, self._unlisted = self._unlisted, reasons
        short = [one for one in verdicts.values() if one.reason is Reason.LISTING_SHORT]
        for uuid, verdict in verdicts.items():
            if before.get(uuid) is not verdict.reason and verdict not in short:
                fields = {"record": uuid, **(verdict.measures or {})}
                tell_verdict(
                    self._log, Event.RECORD_PINGING_UNLISTED, WARNING, verdict, fields, plan
                )
        new = [one for one in short if one.id not in self._short]
        # The answers come one by one, and a filter may be wrong for many nodes.
        if new and (not self._short or now - self._short_logged_at >= SUMMARY_EVERY_S):
            nodes = first_of([one.measures["node"] for one in short if one.measures], "unlisted")
            fields = {"record": new[0].id, **(new[0].measures or {}), **nodes, "source": "cloud"}
            tell_verdict(self._log, Event.LIST_SUSPECT, WARNING, new[0], fields, plan)
            self._short |= {one.id for one in short}
            self._short_logged_at = now
        if not short:
            self._short = frozenset()

    def _tell_cloud_notices(self, plan: Plan) -> None:
        """Log once which nodes their cloud will take, and which it will not any more (D18)."""
        before, record_of = self._cloud_notices, plan.pairs.record_of
        after = {id: one.notice for id, one in record_of.items() if one.notice is not None}
        for node_id, notice in after.items():
            if before.get(node_id) != notice:
                self._tell_cloud_notice(plan, node_id, "given", notice)
        for node_id in (before.keys() - after.keys()) & record_of.keys():
            self._tell_cloud_notice(plan, node_id, "withdrawn", before[node_id])
        self._cloud_notices = after

    def _tell_cloud_notice(
        self, plan: Plan, node_id: str, action: str, notice: CloudNotice
    ) -> None:
        record = plan.pairs.record_of[node_id]
        self._log.event(
            Event.NODE_NOTICE,
            node=node_id,
            **record_fields(record, record.uuid),
            action=action,
            cause=notice.why.value,
            until=None if notice.at is None else timestamp(notice.at),
            plan=plan.plan_id,
        )

    def not_restored(self, verdict: Verdict) -> None:
        """Log why a record freed by mistake stays free, once for each reason (U8)."""
        reason = verdict.reason
        if self._not_restored.get(verdict.id) is reason:
            return
        self._not_restored[verdict.id] = reason
        self._log.event(
            Event.RECORD_NOT_RESTORED,
            level=WARNING,
            reason=reason,
            record=verdict.id,
            **(verdict.measures or {}),
            clear=reason.row.restores or None,
        )

    def restored(self, uuid: str) -> None:
        self._not_restored.pop(uuid, None)

    def _tell_records(self, plan: Plan) -> None:
        debug = self._log.enabled(DEBUG)
        if not debug and same_items(plan.records, self._logged_records):
            return
        self._logged_records = plan.records
        listing = plan.history.records
        records = {} if listing is None else {one.uuid: one for one in listing.items}
        before, after = self._records, {}
        for verdict in plan.records:
            uuid, reason = verdict.id, verdict.reason
            after[uuid] = reason
            changed = before.get(uuid) is not reason
            if not (changed or debug) or verdict.kind in (Kind.CLEAN, Kind.PRUNE):
                continue
            event = event_of_record(verdict.kind)
            level = INFO if changed and reason not in TOLD_ELSEWHERE else DEBUG
            tell_verdict(
                self._log, event, level, verdict, record_fields(records.get(uuid), uuid), plan
            )
        for uuid in sorted(before.keys() - after.keys()):
            self._log.event(Event.RECORD_UNLISTED, level=DEBUG, record=uuid, plan=plan.plan_id)
        self._records = after

    def _tell_nodes(self, plan: Plan) -> None:
        debug = self._log.enabled(DEBUG)
        verdicts = [view.verdict for view in plan.views]
        if not debug and same_items(verdicts, self._logged_nodes):
            return
        self._logged_nodes = verdicts
        before, after = self._nodes, {}
        for view, verdict in zip(plan.views, verdicts, strict=True):
            reason = verdict.reason
            after[verdict.id] = reason
            changed = before.get(verdict.id) is not reason
            if not (changed or debug) or verdict.kind is Kind.SHUTDOWN:
                continue
            event = event_of_node(verdict.kind, reason)
            level = INFO if changed and reason not in TOLD_ELSEWHERE else DEBUG
            fields: dict[str, Any] = {"node": verdict.id}
            if view.record is not None:
                fields["host"] = view.record.hostname
            tell_verdict(self._log, event, level, verdict, fields, plan)
        for node in sorted(before.keys() - after.keys()):
            self._log.event(Event.NODE_UNLISTED, level=DEBUG, node=node, plan=plan.plan_id)
        self._nodes = after

    def forget_node(self, node_id: str) -> None:
        """Log a node that we destroyed neither as paired again nor, once unlisted, as unpaired."""
        self._pairs.pop(node_id, None)
        self._missing = {uuid: one for uuid, one in self._missing.items() if one[0] != node_id}
        self._gone.add(node_id)
