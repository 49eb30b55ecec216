"""Turns plans and facts into log lines: each once, and again when it changes or lasts long."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from nodemanager.actors.report import plan_log
from nodemanager.core.explain.events import event_of_node, event_of_record
from nodemanager.core.judge.false_clean import CLEAR, FalseClean
from nodemanager.core.model.breaker import HOW_TO_CLEAR, Breaker
from nodemanager.core.model.reasons import Event, Kind, Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.streaks import Loops, Streak
from nodemanager.core.model.world import CloudNode, Record
from nodemanager.core.observe.clocks import ALWAYS, MeasuredClock
from nodemanager.core.observe.snapshot import Rests
from nodemanager.core.operate.verbs import STANDING
from nodemanager.core.plan.destroy import ShutdownOrder
from nodemanager.core.plan.due import PruneOrder
from nodemanager.core.plan.errands import Errand
from nodemanager.core.plan.orders import BootOrder
from nodemanager.core.plan.plan import Plan
from nodemanager.core.safety.orders import CleanOrder
from nodemanager.lib.log import DEBUG, ERROR, INFO, WARNING, Logger
from nodemanager.lib.logline import timestamp

JUST_NOW_S = 60.0
IMAGE_ERRORS = 3
"""After this many failed questions in a row, the log says that the image of new nodes is
unknown."""


class EventLog:
    """Writes log lines, and remembers the last one of each record and node."""

    def __init__(self, log: Logger, settings: Settings, mode: str) -> None:
        self._log = log
        self.settings = settings
        self._mode = mode
        self._malformed: dict[str, tuple[str, ...]] = {}
        self._failing: dict[str, int] = {}
        self._image_errors = 0
        """How many listings in a row came without the image of new nodes."""
        self.verdicts = plan_log.VerdictLog(log, mode)
        self._demand = plan_log.DemandLog(log)
        self._notices = plan_log.NoticeLog(log)
        self._summaries = plan_log.Lasting(plan_log.SUMMARY_EVERY_S)
        self._aborted: Reason | None = None
        self._summary: dict[str, Any] = {}
        self._dry: set[tuple[str, Reason]] = set()
        self._jumped_at = ALWAYS

    # Boots and places.

    def nodes_ended(self, made: Plan) -> None:
        """Log each node that ended before its boot came to something."""
        for one in made.ended:
            if not one.in_setup:
                continue
            record, node = one.record, one.node
            self._log.event(
                Event.NODE_ENDED,
                level=WARNING,
                node=one.node_id,
                record=record.uuid,
                slot=record.slot_number,
                host=record.hostname,
                size=one.size,
                detail=(None if node is None else node.why) or None,
                plan=made.plan_id,
            )

    def boots(self, before: Loops, after: Loops, now: float, *, is_reset: bool) -> bool:
        """Log which rests of booting have begun and ended (B5); whether any has ended."""
        if after is before:
            return False
        for name, streak in after.sizes.items():
            if streak.rests > before.sizes.get(name, Streak()).rests:
                self._boots_rest(streak, now, name)
        if after.pool.rests > before.pool.rests:
            self._boots_rest(after.pool, now, None)
        ended = (before.sizes[name] for name in before.sizes.keys() - after.sizes.keys())
        has_ended = any(streak.rests for streak in ended)
        if not (has_ended or (before.probing and not after.probing)):
            return False
        why = "an operator's reset" if is_reset else "a node came up"
        self._log.event(Event.BOOTS_RESUMED, detail=why, spent=before.pool.spent)
        return True

    def _boots_rest(self, streak: Streak, now: float, size: str | None) -> None:
        self._log.event(
            Event.BOOTS_REST,
            level=WARNING,
            reason=Reason.BOOT_LOOP,
            size=size,
            count=streak.failed,
            retry_s=max(0.0, streak.until - now),
            spent=streak.spent,
            clear="see why these nodes never come up (image, user data, network to the registry "
            "and the scheduler), then `nodemanager breaker reset`; a node that does ends it, too",
        )

    def backlog_found(self, count: int) -> None:
        """Log that the first plan with cleans held some back (S5)."""
        self._log.event(
            Event.BACKLOG_FOUND,
            level=WARNING,
            count=count,
            limit=self.settings.max_cleans_per_cycle,
            clear="nodemanager backlog plan shows them, nodemanager backlog apply frees those "
            "you leave in it; or set [Cleaning] backlog = clean and reload",
        )

    def place_rests(self, size: str, place: str, until: float) -> None:
        """Log that a place has no room for a size until then, epoch seconds (D6)."""
        self._log.event(
            Event.PLACE_RESTING,
            reason=Reason.PLACE_RESTS,
            size=size,
            place=place,
            until=timestamp(until),
        )

    def places_resumed(self, before: Rests, after: Rests) -> None:
        """Log which places rest no more."""
        for size, places in before.items():
            for place in [one for one in places if one not in after.get(size, {})]:
                self._log.event(Event.PLACE_RESUMED, size=size, place=place)

    # Polls.

    def listed(self, source: str, items: int, took_s: float, complete: bool, **more: Any) -> None:
        """Log an answer: the first one, and the first after failures, at INFO."""
        failed = self._failing.pop(source, None)
        event = Event.LIST_OK if complete else Event.LIST_PARTIAL
        level = DEBUG if complete and failed == 0 else INFO if complete else WARNING
        self._log.event(event, level=level, source=source, items=items, took_s=took_s, **more)
        self._failing[source] = 0

    def image_found(self, error: str | None) -> None:
        """Log once that the image of new nodes can't be found out, so that none is replaced by it.

        A single failure may be the cloud's; the next listing asks again.
        """
        self._image_errors = 0 if error is None else self._image_errors + 1
        if self._image_errors == IMAGE_ERRORS:
            self._log.event(Event.ROTATION, level=WARNING, error=error)

    def errand(self, errand: Errand, error: Exception | None, plan_id: str) -> None:
        """Log what a scheduler was told, or that it was not."""
        level = INFO if error is None else WARNING
        fields = {**errand.log_fields, "error": error, "plan": plan_id}
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
        doubted = plan_log.first_of(uuids, "doubted")
        self._log.event(Event.CLOCK_DOUBTED, level=WARNING, source="records", **doubted)

    def _tell_jump(self, wall: MeasuredClock | None, now: float) -> None:
        """Log a jump of our wall clock that this plan was the first to see (T1)."""
        if wall is not None and wall.known_since > max(self._jumped_at, now - JUST_NOW_S):
            self._jumped_at = wall.known_since
            self._log.event(Event.CLOCK_DOUBTED, level=WARNING, source="machine")

    # Decisions.

    def plan(self, plan: Plan, now: float) -> None:
        self._tell_jump(plan.history.wall, now)
        if plan.aborted is not None:
            reason, measures, _ = plan.aborted
            level = WARNING if reason is not self._aborted and plan.impossible else DEBUG
            self._log.event(
                Event.CYCLE_ABORTED, level=level, reason=reason, plan=plan.plan_id, **measures
            )
            self._aborted = reason
            return
        self._aborted = None
        self.verdicts.plan(plan, now)
        self._demand.plan(plan, now)
        self._notices.plan(plan, now)
        self._tell_summary(plan, now)

    def _tell_summary(self, plan: Plan, now: float) -> None:
        counts, kept = plan.counts, Kind.KEEP
        summary: dict[str, Any] = {
            "nodes": counts.get("nodes", 0),
            "paired": counts.get("nodes_paired", 0),
            "busy": counts.get("nodes_busy", 0),
            "idle": counts.get("nodes_idle", 0),
            "booting": counts.get("nodes_booting", 0),
            "absent": counts.get("nodes_unlisted", 0) or None,
            "down": counts.get("nodes_down", 0),
            "unpaired": counts.get("nodes_unpaired", 0),
            "shutting_down": counts.get("nodes_shutdown", 0),
            "records": counts.get("records", 0),
            "kept": sum([verdict.kind is kept for verdict in plan.records]),
            "slots": plan.slots.total if plan.slots else None,
            "free": plan.slots.free if plan.slots else None,
            "boots": len(plan.boots),
            "shutdowns": len(plan.shutdowns),
            "cleans": len(plan.cleans),
            "deferred": plan.deferred,
            "breaker": plan.breaker.cause.value if plan.breaker.cause else "closed",
            "draining": counts.get("nodes_draining", 0) or None,
            **{
                one.word: mark.by or "an operator"
                for kind, one in STANDING.items()
                if (mark := plan.pool_marks.get(kind)) is not None
            },
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
        elif before.cause is not None:
            self._log.event(Event.BREAKER_CLOSED, cause=before.cause.value)

    def collapsed(self, breaker: Breaker) -> None:
        """Log that a listing lacked too much and opened the breaker (L3)."""
        self._log.event(
            Event.LIST_SUSPECT,
            level=WARNING,
            reason=Reason.COLLAPSED,
            source=str(breaker.cause).partition("_")[0],
            **breaker.detail,
        )

    def false_cleans(self, found: Iterable[FalseClean]) -> None:
        """Log each false clean, also as a broken rule; it opens the breaker next (U8)."""
        found = tuple(found)
        for one in found:
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
        for one in found:
            self._log.event(
                Event.INVARIANT_BROKEN,
                level=ERROR,
                rule="U8",
                reason=one.reason,
                record=one.life.record,
                node=one.life.node_id,
                incarnation=one.life.incarnation,
            )

    def items_with_problems(self, nodes: Iterable[CloudNode | Record]) -> tuple[str, ...]:
        found = []
        for item in nodes:
            if item.problems:
                name = item.uuid if isinstance(item, Record) else item.id
                found.append(f"{name}: {'; '.join(item.problems)}")
        return tuple(found)
