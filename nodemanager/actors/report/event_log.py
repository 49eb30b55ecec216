"""Turns plans and facts into log lines: each once, and again when it changes or lasts long."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from nodemanager.core.execute.destroy import ShutdownOrder
from nodemanager.core.execute.prune import PruneOrder
from nodemanager.core.explain.events import event_of_node, event_of_record, record_fields
from nodemanager.core.judge.false_clean import CLEAR, LASTING, FalseClean
from nodemanager.core.model.changed import same_items
from nodemanager.core.model.orders import CleanOrder
from nodemanager.core.model.reasons import Event, Kind, Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.model.world import CloudNode, Record
from nodemanager.core.plan.errands import Errand
from nodemanager.core.plan.plan import BootOrder, Plan
from nodemanager.core.plan.rotation import Rotation
from nodemanager.core.safety.breaker import HOW_TO_CLEAR, Breaker
from nodemanager.log import DEBUG, ERROR, INFO, WARNING, Logger

TOLD_ELSEWHERE = frozenset(
    {
        Reason.PAIRED,
        Reason.HOLDS_NOTHING,
        Reason.IN_FLIGHT,
        Reason.SHUTTING_DOWN,
        Reason.NODE_ABSENT,
        Reason.NODE_EXPECTED,
        Reason.CHANGED_SINCE_LISTING,
    }
)
"""Reasons to keep that another INFO line (paired, cleaned, created ...) has already told."""

SUMMARY_EVERY_S = 60.0
"""Seconds between two INFO lines of the same summary; the others are DEBUG."""
REFUSED_EVERY_S = 1800.0
"""Seconds between two INFO lines of the same refusal of demand: the end of a night's log must have
one, too."""

JOBS_TOLD = 20
"""The most unsatisfiable jobs that one cycle logs; `status` and DEBUG lines have the rest."""

IMAGE_ERRORS = 3
NAMED = 10
"""The most records or nodes that one line names; it counts the others."""

T = TypeVar("T", bound=Hashable)


class Lasting:
    """Tells when to log a condition that lasts: when it begins, and then every `every_s`."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._told_at: dict[Hashable, float] = {}

    def due(self, lasting: Collection[T], now: float) -> set[T]:
        """Those of `lasting` to log now; it has all that hold now, and the others have ended."""
        never = float("-inf")
        due = {one for one in lasting if now - self._told_at.get(one, never) >= self._every_s}
        self._told_at = {one: now if one in due else self._told_at[one] for one in lasting}
        return due


class EventLog:
    """Writes log lines, and remembers the last one of each record and node."""

    def __init__(self, log: Logger, settings: Settings, mode: str) -> None:
        self._log = log
        self.settings = settings
        self._mode = mode
        self._records: dict[str, Reason] = {}
        self._nodes: dict[str, Reason] = {}
        self._told_records: Sequence[Verdict] = ()
        self._told_nodes: Sequence[Verdict] = ()
        self._pairs: dict[str, str] = {}
        self._gone: set[str] = set()
        self._ambiguous: frozenset[str] = frozenset()
        self._not_restored: dict[str, Reason] = {}
        self._unlisted: dict[str, Reason] = {}
        self._short: frozenset[str] = frozenset()
        self._short_told_at = 0.0
        self._malformed: dict[str, tuple[str, ...]] = {}
        self._failing: dict[str, int] = {}
        self._refused = Lasting(REFUSED_EVERY_S)
        self._unsatisfiable = Lasting(REFUSED_EVERY_S)
        self._slots_full = Lasting(REFUSED_EVERY_S)
        self._rotations: dict[str, tuple[object, ...]] = {}
        self._image_errors = 0
        """How many listings in a row came without the image of new nodes."""
        """What was told last of the replacement of each size's outdated nodes."""
        self._summaries = Lasting(SUMMARY_EVERY_S)
        self._aborted: Reason | None = None
        self._summary: dict[str, Any] = {}
        self._dry: set[tuple[str, Reason]] = set()

    # Polls.

    def listed(self, source: str, items: int, took_s: float, complete: bool, **more: Any) -> None:
        """Log an answer: the first one, and the first after failures, at INFO."""
        failed = self._failing.pop(source, None)
        event = Event.LIST_OK if complete else Event.LIST_PARTIAL
        level = DEBUG if complete and failed == 0 else INFO if complete else WARNING
        self._log.event(event, level=level, source=source, items=items, took_s=took_s, **more)
        self._failing[source] = 0

    def errand(self, errand: Errand, error: Exception | None, plan_id: str) -> None:
        """Log what a scheduler was told, or that it was not."""
        level = INFO if error is None else WARNING
        fields = {**errand.told, "error": error, "plan": plan_id}
        self._log.event(Event.SCHEDULER_TOLD, level=level, **fields)

    def list_failed(self, source: str, error: Exception, retry_s: float, took_s: float) -> None:
        attempt = self._failing.get(source, 0) + 1
        self._failing[source] = attempt
        self._log.event(
            Event.LIST_FAILED,
            level=WARNING,
            source=source,
            attempt=attempt,
            retry_s=retry_s,
            took_s=took_s,
            error=error,
        )

    def malformed(self, source: str, problems: tuple[str, ...]) -> None:
        """Log each malformed item, once while it stays."""
        before = self._malformed.get(source, ())
        for problem in problems:
            if problem not in before:
                self._log.event(Event.LIST_ITEM, level=WARNING, source=source, problem=problem)
        self._malformed[source] = problems

    def clock_doubted(self, uuids: Sequence[str]) -> None:
        """Log that no stamp from before this poll tells an age any more; `uuids` showed it."""
        doubted = _first_of(uuids, "doubted")
        self._log.event(Event.CLOCK_DOUBTED, level=WARNING, source="records", **doubted)

    # Decisions.

    def plan(self, plan: Plan, records: Mapping[str, Record], now: float) -> None:
        if plan.aborted is not None:
            reason, measures = plan.aborted
            level = WARNING if reason is not self._aborted and plan.impossible else DEBUG
            self._log.event(
                Event.CYCLE_ABORTED, level=level, reason=reason, plan=plan.plan_id, **measures
            )
            self._aborted = reason
            return
        self._aborted = None
        self._tell_pairs(plan)
        self._tell_unlisted(plan, now)
        self._tell_records(plan, records)
        for verdict in plan.not_restored:
            self.not_restored(verdict)
        self._tell_nodes(plan)
        self._tell_demand(plan, now)
        self._tell_summary(plan, now)

    def _tell_pairs(self, plan: Plan) -> None:
        self._gone &= plan.history.present.keys()
        pairs = {
            node_id: record.uuid
            for node_id, record in plan.pairs.record_of.items()
            if node_id not in self._gone
        }
        if pairs != self._pairs:
            present = plan.history.present
            for node_id, uuid in pairs.items():
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

    def _tell_unlisted(self, plan: Plan, now: float) -> None:
        """Log each record's answer once, and a short listing as more nodes show it (P6)."""
        verdicts = plan.unlisted.verdicts
        reasons = {uuid: verdict.reason for uuid, verdict in verdicts.items()}
        before, self._unlisted = self._unlisted, reasons
        short = [one for one in verdicts.values() if one.reason is Reason.LISTING_SHORT]
        for uuid, verdict in verdicts.items():
            if before.get(uuid) is not verdict.reason and verdict not in short:
                fields = {"record": uuid, **(verdict.measures or {})}
                self._verdict(Event.RECORD_PINGING_UNLISTED, WARNING, verdict, fields, plan)
        new = [one for one in short if one.id not in self._short]
        # The answers come one by one, and a filter may be wrong for many nodes.
        if new and (not self._short or now - self._short_told_at >= SUMMARY_EVERY_S):
            nodes = _first_of([one.measures["node"] for one in short if one.measures], "unlisted")
            fields = {"record": new[0].id, **(new[0].measures or {}), **nodes, "source": "cloud"}
            self._verdict(Event.LIST_SUSPECT, WARNING, new[0], fields, plan)
            self._short |= {one.id for one in short}
            self._short_told_at = now
        if not short:
            self._short = frozenset()

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
            clear=LASTING.get(reason),
        )

    def restored(self, uuid: str) -> None:
        self._not_restored.pop(uuid, None)

    def _tell_records(self, plan: Plan, records: Mapping[str, Record]) -> None:
        debug = self._log.enabled(DEBUG)
        if not debug and same_items(plan.records, self._told_records):
            return
        self._told_records = plan.records
        before, after = self._records, {}
        for verdict in plan.records:
            uuid, reason = verdict.id, verdict.reason
            after[uuid] = reason
            changed = before.get(uuid) is not reason
            if not (changed or debug) or verdict.kind in (Kind.CLEAN, Kind.PRUNE):
                continue
            event = event_of_record(verdict.kind)
            level = INFO if changed and reason not in TOLD_ELSEWHERE else DEBUG
            self._verdict(event, level, verdict, record_fields(records.get(uuid), uuid), plan)
        for uuid in sorted(before.keys() - after.keys()):
            self._log.event(Event.RECORD_UNLISTED, level=DEBUG, record=uuid, plan=plan.plan_id)
        self._records = after

    def _tell_nodes(self, plan: Plan) -> None:
        debug = self._log.enabled(DEBUG)
        verdicts = [view.verdict for view in plan.views]
        if not debug and same_items(verdicts, self._told_nodes):
            return
        self._told_nodes = verdicts
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
            self._verdict(event, level, verdict, fields, plan)
        for node in sorted(before.keys() - after.keys()):
            self._log.event(Event.NODE_UNLISTED, level=DEBUG, node=node, plan=plan.plan_id)
        self._nodes = after

    def _verdict(
        self, event: Event, level: int, verdict: Verdict, fields: dict[str, Any], plan: Plan
    ) -> None:
        merged = {**fields, **(verdict.measures or {})}
        self._log.event(event, level=level, reason=verdict.reason, **merged, plan=plan.plan_id)

    def _tell_demand(self, plan: Plan, now: float) -> None:
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
                plan=plan.plan_id,
            )
        self._tell_unsatisfiable(plan.wants.unsatisfiable, plan, now)
        self._tell_rotations(plan.wants.rotations.sizes, plan)
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

    def image_found(self, error: str | None) -> None:
        """Log once that the image of new nodes can't be found out, so that none is replaced by it.

        A single failure may be the cloud's; the next listing asks again.
        """
        self._image_errors = 0 if error is None else self._image_errors + 1
        if self._image_errors == IMAGE_ERRORS:
            self._log.event(Event.ROTATION, level=WARNING, error=error)

    def _tell_rotations(self, sizes: Mapping[str, Rotation], plan: Plan) -> None:
        """Log how far the replacement of each size's outdated nodes is, when that changes."""
        for size in sorted(sizes.keys() | self._rotations.keys()):
            one = sizes.get(size)
            left = 0 if one is None else one.outdated
            node = None if one is None else one.node or one.at or None
            waits = None if one is None else one.waits
            told = (left, waits, node)
            if self._rotations.get(size) == told:
                continue
            self._rotations[size] = told
            if one is None:
                del self._rotations[size]
            stalled = waits is Reason.ROTATION_STALLED
            self._log.event(
                Event.ROTATION,
                level=WARNING if stalled else INFO,
                size=size,
                outdated=left,
                reason=waits,
                node=node,
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
            self._verdict(Event.JOB_UNSATISFIABLE, level, verdict, {"job": verdict.id}, plan)

    def _tell_summary(self, plan: Plan, now: float) -> None:
        counts = plan.counts
        summary: dict[str, Any] = {
            "nodes": counts.get("nodes", 0),
            "paired": counts.get("nodes_paired", 0),
            "busy": counts.get("nodes_busy", 0),
            "idle": counts.get("nodes_idle", 0),
            "booting": counts.get("nodes_booting", 0),
            "down": counts.get("nodes_down", 0),
            "unpaired": counts.get("nodes_unpaired", 0),
            "shutting_down": counts.get("nodes_shutdown", 0),
            "records": counts.get("records", 0),
            "kept": sum([verdict.kind is Kind.KEEP for verdict in plan.records]),
            "slots": plan.slots.total if plan.slots else None,
            "free": plan.slots.free if plan.slots else None,
            "boots": len(plan.boots),
            "shutdowns": len(plan.shutdowns),
            "cleans": len(plan.cleans),
            "deferred": plan.deferred,
            "breaker": plan.breaker.cause.value if plan.breaker.cause else "closed",
            "draining": counts.get("nodes_draining", 0) or None,
            "paused": None if plan.paused is None else plan.paused.by or "an operator",
        }
        news = self._summaries.due([tuple(summary.items())], now)
        self._summary = summary
        self._log.event(
            Event.CYCLE_DONE, level=INFO if news else DEBUG, plan=plan.plan_id, **summary
        )

    def summary_again(self) -> None:
        """Log the last cycle's counts again, when a run ends."""
        self._log.event(Event.CYCLE_DONE, **self._summary)

    def clean_ordered(self, order: CleanOrder) -> None:
        self._ordered(
            event_of_record(Kind.CLEAN),
            order.uuid,
            order,
            record=order.uuid,
            slot=order.slot,
            host=order.hostname,
            **order.measures,
        )

    def prune_ordered(self, order: PruneOrder) -> None:
        self._ordered(Event.RECORD_PRUNE, order.uuid, order, record=order.uuid, **order.measures)

    def setup_started(self, boot: BootOrder, incarnation: str | None) -> None:
        """`incarnation` is that of its claim; None in a dry run, which claims nothing."""
        self._ordered(
            Event.NODE_SETUP_STARTED,
            f"boot {boot.size.name}",
            boot,
            size=boot.size.name,
            price=boot.size.price,
            place=boot.place,
            record=boot.record.uuid if boot.record else None,
            incarnation=incarnation,
        )

    def shutdown_ordered(self, order: ShutdownOrder) -> None:
        self._ordered(
            event_of_node(Kind.SHUTDOWN, order.reason),
            order.node_id,
            order,
            node=order.node_id,
            record=order.record,
            slot=order.slot,
            host=order.hostname,
            **order.measures,
        )

    def _ordered(
        self,
        event: Event,
        id: str,
        order: CleanOrder | PruneOrder | BootOrder | ShutdownOrder,
        /,
        **fields: Any,
    ) -> None:
        """Log an order; a dry run gives the same one every cycle and logs it once."""
        if self._mode != "apply":
            if (id, order.reason) in self._dry:
                return
            self._dry.add((id, order.reason))
        self._log.event(event, reason=order.reason, **fields, plan=order.plan_id, mode=self._mode)

    def breaker_changed(self, before: Breaker, after: Breaker) -> None:
        if before.generation == after.generation:
            return
        if after.cause is not None:
            self._log.event(
                Event.BREAKER_OPENED,
                level=WARNING,
                cause=after.cause.value,
                clear=HOW_TO_CLEAR[after.cause],
                **after.detail,
            )
        else:
            cause = before.cause.value if before.cause else None
            self._log.event(Event.BREAKER_CLOSED, cause=cause)

    def collapsed(self, breaker: Breaker) -> None:
        """Log that a listing lacked too much and opened the breaker (L3)."""
        self._log.event(
            Event.LIST_SUSPECT,
            level=WARNING,
            reason=Reason.COLLAPSED,
            source=str(breaker.cause).partition("_")[0],
            **breaker.detail,
        )

    def false_cleans(self, told: Iterable[FalseClean]) -> None:
        """Log each false clean, also as a broken rule; it opens the breaker next (U8)."""
        told = tuple(told)
        for one in told:
            life = one.life
            self._log.event(
                Event.RECORD_FALSE_CLEAN,
                level=ERROR,
                reason=one.reason,
                record=life.record,
                slot=life.slot,
                host=life.hostname,
                incarnation=life.incarnation,
                node=life.node_id,
                cause=life.why,
                **one.measures,
                clear=CLEAR,
            )
        for one in told:
            self._log.event(
                Event.INVARIANT_BROKEN,
                level=ERROR,
                rule="U8",
                reason=one.reason,
                record=one.life.record,
                node=one.life.node_id,
                incarnation=one.life.incarnation,
            )

    def forget_node(self, node_id: str) -> None:
        """Log a node that we destroyed neither as paired again nor, once unlisted, as unpaired."""
        self._pairs.pop(node_id, None)
        self._gone.add(node_id)

    def items_with_problems(self, nodes: Iterable[CloudNode | Record]) -> tuple[str, ...]:
        found = []
        for item in nodes:
            if item.problems:
                name = item.uuid if isinstance(item, Record) else item.id
                found.append(f"{name}: {'; '.join(item.problems)}")
        return tuple(found)


def _first_of(ids: Sequence[str], key: str) -> dict[str, Any]:
    """The first of `ids` under `key`, and under `more` how many others there are."""
    return {key: tuple(ids[:NAMED]) or None, "more": max(0, len(ids) - NAMED) or None}
