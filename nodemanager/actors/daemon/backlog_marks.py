"""Shows operators the backlog, and lets what they chose go (SAFETY.md S5).

A record that is let go is judged, checked and freed like any other. The marks outlive the process:
they are in the journal before anything is let go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from nodemanager.actors.daemon.context import Context
from nodemanager.actors.daemon.identities import Identities
from nodemanager.core.execute.adopt import order_adoption
from nodemanager.core.execute.workflow import Action, End, Key
from nodemanager.core.explain.events import record_fields
from nodemanager.core.judge.preconditions import standing_block
from nodemanager.core.model.reasons import Event, Reason
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.operate import backlog
from nodemanager.core.plan.plan import Plan
from nodemanager.journal.codec import codec_of, decoded
from nodemanager.journal.kept import BACKLOG_MARKS
from nodemanager.lib.log import WARNING


@dataclass(eq=False)
class BacklogMarks:
    """Keeps the newest decision and the marks, and logs which items are left alone."""

    _context: Context
    _identities: Identities
    _newest: tuple[Plan, Snapshot] | None = None
    _indexed: backlog.IndexedPlan | None = None

    @property
    def seen(self) -> backlog.IndexedPlan | None:
        """The newest decision that could be taken, indexed by ids once somebody asks."""
        if self._indexed is None and self._newest is not None:
            self._indexed = backlog.indexed_plan(*self._newest)
        return self._indexed

    @property
    def marks(self) -> backlog.ItemMarks:
        """The items that are let go."""
        return self._context.state.backlog.marks

    def _set(self, marks: backlog.ItemMarks) -> None:
        self._context.learn(replace(self._context.state.backlog, marks=marks))

    def _keep(self) -> str | None:
        """Write the marks down; gives what is wrong with the journal."""
        writer = self._context.journal_writer
        writer.keep(BACKLOG_MARKS, codec_of(backlog.ItemMarks).encode(self.marks))
        return writer.problem

    def save(self) -> None:
        """Write what is held back: the next run must know it before anything is freed."""
        context, known = self._context, self._context.state.backlog
        if known.is_saved or not context.applies:
            return
        keeper = context.inputs.backlog
        if self._identities.keeps_state("backlog", lambda: keeper.save(known.records))[0]:
            context.learn(replace(known, is_saved=True))

    def load(self) -> None:
        kept = self._context.journal_writer.kept(BACKLOG_MARKS)
        if not kept or self.marks:
            return
        try:
            self._set(decoded(backlog.ItemMarks, kept))
        except ValueError as error:
            self._context.log.event(Event.BACKLOG_DONE, level=WARNING, outcome="lost", error=error)
            return
        self._tell_order("continued", next(iter(self.marks.values())).by, len(self.marks))

    def show(self, message: backlog.ShowBacklog) -> None:
        """Answer with what is held back and what is let go."""
        identity = self._context.state.identity
        message.answered(
            backlog.BacklogView(
                self.seen,
                self._context.settings,
                identity.store,
                identity.account,
                self._context.inputs.mode,
                self.marks,
            )
        )

    def apply(self, message: backlog.ApplyBacklog) -> None:
        """Mark the items that an operator has left in the plan."""
        message.answered(self._apply(message.order))

    def _apply(self, order: backlog.Order) -> backlog.Statuses | str:
        context, seen, before = self._context, self.seen, self.marks
        problem = backlog.refusal(
            order,
            pool=context.settings.pool,
            store=context.state.identity.store,
            account=context.state.identity.account,
            dry_run=context.inputs.mode != "apply",
        )
        problem = problem or context.journal_writer.problem
        if problem is not None:
            return problem
        if seen is None or context.stopping is not None:
            return "the daemon has taken no decision yet; try again in a minute"
        found = backlog.statuses(order.items, seen, context.settings)
        self._tell_order("apply", order.by, len(found))
        self._set({**before, **backlog.marks_of(order, found)})
        problem = self._keep()
        if problem is not None:
            # It could not be written, so it is refused: it must not begin by itself later.
            self._set(before)
            self._keep()
            return problem
        for item, one in found:
            self._tell_left(item, one)
        context.decide_soon()
        self._adopt_due(seen)
        return found

    def stop(self, message: backlog.StopBacklog) -> None:
        count = len(self.marks)
        if count:
            self._tell_order("stop", message.by, count)
            self._set({})
            self._keep()
        message.answered(self._context.journal_writer.problem or count)

    def after_plan(self, made: Plan, snapshot: Snapshot) -> None:
        """Take the marks off whose items are over at a decision; adopt what is due."""
        if made.aborted is not None:
            return
        self._newest, self._indexed = (made, snapshot), None
        if not self.marks:
            return
        seen = self.seen
        if seen is not None:
            self._take_off(dict(self._standing(seen)))
            self._adopt_due(seen)

    def _standing(self, seen: backlog.IndexedPlan) -> backlog.Statuses:
        return backlog.statuses(
            (one.item for one in self.marks.values()), seen, self._context.settings
        )

    def _take_off(self, found: Mapping[backlog.Item, backlog.ItemStatus]) -> None:
        """Take off the marks of the items that are over, and log those that are left alone."""
        over = {item.key: item for item, one in found.items() if one.state in backlog.OVER}
        over = {key: item for key, item in over.items() if key in self.marks}
        if not over:
            return
        self._set({key: one for key, one in self.marks.items() if key not in over})
        for item in over.values():
            self._tell_left(item, found[item])
        if not self.marks:
            # That an item is over is seen again after a restart, and thousands are a lot to write.
            self._keep()
            self._context.log.event(Event.BACKLOG_DONE)

    def _adopt_due(self, seen: backlog.IndexedPlan) -> None:
        """Begin the adoption of nodes that were let go, as many at once as may be freed (D11)."""
        context, now = self._context, self._context.now
        blocked = standing_block(seen.snapshot, context.settings) is not None
        if blocked or context.journal_writer.problem is not None or context.stopping is not None:
            return
        if context.limits.throttled_until > now:
            return
        room = context.settings.max_cleans_per_cycle
        for item in backlog.due_adoptions(self._standing(seen))[:room]:
            if Key(Action.ADOPT, item.key) not in context.flights.running:
                snapshot = context.snapshot(seen.snapshot.plan_id)
                order = order_adoption(item, seen, snapshot, context.settings)
                context.runner.begin(Action.ADOPT, order, now)

    def _tell_order(self, action: str, by: str, count: int) -> None:
        self._context.log.event(Event.OPERATOR_BACKLOG, action=action, by=by, count=count)

    def _tell_left(self, item: backlog.Item, one: backlog.ItemStatus) -> None:
        if one.state is not backlog.ItemState.CHANGED:
            return
        seen = self.seen
        fields: dict[str, Any] = dict(one.measures)
        if item.action is backlog.ItemAction.ADOPT:
            fields["node"] = item.id
        else:
            record = seen.records.get(item.id) if seen is not None else None
            fields |= record_fields(record, item.id)
        self._context.log.event(
            Event.BACKLOG_SKIPPED, **{**fields, "reason": one.reason, "action": item.action.value}
        )

    # How items that were let go end.

    def ended(self, end: End) -> None:
        """Note a clean that was refused right before its write, if it is that of an item."""
        if end.key.action is not Action.CLEAN or end.ended is None or end.ended.why is None:
            return
        why = end.ended.why
        if why.reason not in backlog.PASSING | {Reason.HOLDS_NOTHING}:
            key = backlog.Item(backlog.ItemAction.CLEAN, end.key.id, "").key
            self.item_ended(
                key, backlog.ItemStatus(backlog.ItemState.CHANGED, why.reason, why.measures or {})
            )

    def item_ended(self, key: str, status: backlog.ItemStatus) -> None:
        if key in self.marks:
            self._take_off({self.marks[key].item: status})
