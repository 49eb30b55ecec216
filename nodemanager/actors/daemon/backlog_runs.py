"""Shows operators the backlog, and lets what they chose go (SAFETY.md S5).

A record that is let go is judged, checked and freed like any other. The run outlives the process:
it is in the journal before anything is let go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from nodemanager.actors.daemon.context import Context
from nodemanager.actors.daemon.identities import Identities
from nodemanager.core.execute.adopt import order_adoption
from nodemanager.core.execute.workflow import Action, End, Key
from nodemanager.core.explain.events import CLEANED, record_fields
from nodemanager.core.model.reasons import Event, Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.operate import backlog_run
from nodemanager.core.operate.backlog import PASSING, IndexedPlan, Item, ItemAction, picture_of
from nodemanager.core.operate.backlog_run import OPEN, ItemStep, Order, Run, Where
from nodemanager.core.plan.plan import Plan
from nodemanager.journal.codec import codec_of, decoded
from nodemanager.journal.kept import BACKLOG_RUN
from nodemanager.lib.log import WARNING


@dataclass(frozen=True)
class BacklogView:
    """What the newest decision leaves to an operator, and for which store and account.

    `seen` is None while no decision could be taken.
    """

    seen: IndexedPlan | None
    settings: Settings
    store: str | None
    account: str | None
    mode: str
    run: Run | None


@dataclass(frozen=True, slots=True)
class ShowBacklog:
    """Show an operator what is held back, and the progress of a run."""

    answered: Callable[[BacklogView], None]


@dataclass(frozen=True, slots=True)
class ApplyBacklog:
    """Apply a plan that an operator reviewed. Answered with the run, or why there is none."""

    order: Order
    answered: Callable[[Run | str], None]


@dataclass(frozen=True, slots=True)
class StopBacklog:
    """Let nothing more go. Answered with the run (None: there was none) or a problem."""

    by: str
    answered: Callable[[Run | str | None], None]


@dataclass(eq=False)
class BacklogRuns:
    """Keeps the newest decision and the run, and logs what becomes of each item."""

    _context: Context
    _identities: Identities
    _newest: tuple[Plan, Snapshot] | None = None
    _picture: IndexedPlan | None = None

    @property
    def seen(self) -> IndexedPlan | None:
        """The newest decision that could be taken, indexed by ids once somebody asks."""
        if self._picture is None and self._newest is not None:
            self._picture = picture_of(*self._newest)
        return self._picture

    @property
    def run(self) -> Run | None:
        """The run that lets records and nodes go; None if there never was one."""
        return self._context.state.backlog.run

    def _set(self, run: Run | None) -> None:
        self._context.learn(replace(self._context.state.backlog, run=run))

    def save(self) -> None:
        """Write what is held back: the next run must know it before anything is freed."""
        context, backlog = self._context, self._context.state.backlog
        if backlog.is_saved or not context.applies:
            return
        keeper = context.inputs.backlog
        if self._identities.keeps_state("backlog", lambda: keeper.save(backlog.records))[0]:
            context.learn(replace(backlog, is_saved=True))

    def load(self) -> None:
        """Resume a run that a former process left."""
        kept = self._context.journal_writer.kept(BACKLOG_RUN)
        if kept is None or self.run is not None:
            return
        try:
            run: Run = decoded(Run, kept)
        except ValueError as error:
            self._context.log.event(Event.BACKLOG_DONE, level=WARNING, outcome="lost", error=error)
            return
        self._set(run)
        if run.is_open:
            self._tell_order("continued", run)

    def show(self, message: ShowBacklog) -> None:
        """Answer with what is held back and the run."""
        message.answered(
            BacklogView(
                self.seen,
                self._context.settings,
                self._context.state.identity.store,
                self._context.state.identity.account,
                self._context.inputs.mode,
                self.run,
            )
        )

    def apply(self, message: ApplyBacklog) -> None:
        """Begin a run of the items that an operator has left in the plan."""
        message.answered(self._apply(message.order))

    def _apply(self, order: Order) -> Run | str:
        run, seen = self.run, self.seen
        problem = backlog_run.refusal(
            order,
            pool=self._context.settings.pool,
            store=self._context.state.identity.store,
            account=self._context.state.identity.account,
            dry_run=self._context.inputs.mode != "apply",
        )
        problem = problem or self._context.journal_writer.problem
        if problem is not None:
            return problem
        if seen is None or self._context.stopping is not None:
            return "the daemon has taken no decision yet; try again in a minute"
        if run is not None and run.is_open:
            if run.has(order.items):
                return run
            return "another plan is being applied; wait for it, or end it: nodemanager backlog stop"
        run_id = f"{self._context.inputs.run_id}-{seen.snapshot.plan_id}"
        made = backlog_run.begun(order, run_id, seen, self._context.settings)
        self._tell_order("apply", made)
        self._take(None, made)
        if self._context.journal_writer.problem is not None:
            # It could not be written, so it is refused: it must not begin by itself later.
            self._set(run)
            self._context.journal_writer.keep(
                BACKLOG_RUN, None if run is None else codec_of(Run).encode(run)
            )
            return self._context.journal_writer.problem or ""
        return made

    def stop(self, message: StopBacklog) -> None:
        """End the run: let nothing more go."""
        run = self.run
        if run is not None and run.is_open:
            self._context.log.event(
                Event.OPERATOR_BACKLOG, action="stop", by=message.by, count=len(run.items)
            )
            self._take(run, backlog_run.stopped(run, self._context.clock.wall()))
        message.answered(self._context.journal_writer.problem or self.run)

    def after_plan(self, made: Plan, snapshot: Snapshot) -> None:
        """Go on with the run after a decision."""
        if made.aborted is not None:
            return
        self._newest, self._picture = (made, snapshot), None
        run = self.run
        if run is None or not run.is_open:
            return
        seen = self.seen
        if seen is None:
            return
        self._take(run, backlog_run.after_plan(run, seen, self._context.settings))

    def _take(self, before: Run | None, run: Run) -> None:
        """Enter the run's new state, and begin the adoptions that are due."""
        self._enter(before, run)
        self._adopt_due(run)

    def _enter(self, before: Run | None, run: Run) -> None:
        """Write a run that began, let something go or ended; log what is news, and go on."""
        self._set(run)
        known = {} if before is None else before.steps
        news = {
            key: step
            for key, step in run.steps.items()
            if key not in known or known[key].where is not step.where
        }
        lets_go = any(step.where is Where.LET_GO for step in news.values())
        if before is None or lets_go or not run.is_open:
            # How an item ended is seen again after a restart, and thousands are a lot to write.
            self._context.journal_writer.keep(BACKLOG_RUN, codec_of(Run).encode(run))
        for item in run.items:
            step = news.get(item.key)
            if step is not None and step.where is Where.SKIPPED:
                self._tell_left(item, step, run)
        if not run.is_open:
            self._tell_done(run)
            return
        if lets_go:
            self._context.decide_soon()

    def _adopt_due(self, run: Run) -> None:
        """Begin the adoption of nodes that were let go, as many at once as may be freed (D11)."""
        context, seen, now = self._context, self.seen, self._context.now
        blocked = run.waits_for is not None or context.journal_writer.problem is not None
        if seen is None or blocked or context.stopping is not None:
            return
        if context.limits.throttled_until > now:
            return
        room = context.settings.max_cleans_per_cycle
        for item in backlog_run.due_adoptions(run)[:room]:
            if Key(Action.ADOPT, item.key) not in context.flights.running:
                snapshot = context.snapshot(seen.snapshot.plan_id)
                order = order_adoption(item, seen, snapshot, context.settings)
                context.runner.begin(Action.ADOPT, order, order.plan_id, now)

    def _tell_order(self, action: str, run: Run) -> None:
        self._context.log.event(
            Event.OPERATOR_BACKLOG, action=action, by=run.by, count=len(run.items)
        )

    def _tell_left(self, item: Item, step: ItemStep, run: Run) -> None:
        seen = self.seen
        fields: dict[str, Any] = dict(step.measures)
        if item.deed is ItemAction.ADOPT:
            fields["node"] = item.id
        else:
            record = seen.records.get(item.id) if seen is not None else None
            fields |= record_fields(record, item.id)
        self._context.log.event(
            Event.BACKLOG_SKIPPED, **{**fields, "reason": step.reason, "action": item.deed.value}
        )

    def _tell_done(self, run: Run) -> None:
        counts = run.counts
        self._context.log.event(
            Event.BACKLOG_DONE,
            by=run.by,
            count=len(run.items),
            cleaned=run.done(ItemAction.CLEAN),
            adopted=run.done(ItemAction.ADOPT),
            skipped=counts["skipped"],
            already=counts["already"],
            stopped=counts["stopped"],
        )

    # How items that were let go end.

    def ended(self, end: End) -> None:
        """Note a clean that ended, if it is that of an item."""
        if end.key.action is not Action.CLEAN or end.ended is None:
            return
        run, why = self.run, end.ended.why
        if run is None or not run.is_open:
            return
        key = Item(ItemAction.CLEAN, end.key.id, "").key
        if why is None and end.ended.name == CLEANED:
            self.step_ended(key, ItemStep(Where.DONE, end.order.reason))
        elif why is not None and why.reason not in PASSING | {Reason.HOLDS_NOTHING}:
            self.step_ended(key, ItemStep(Where.SKIPPED, why.reason, why.measures or {}))

    def step_ended(self, key: str, step: ItemStep) -> None:
        run = self.run
        if run is not None and key in run.steps and run.steps[key].where in OPEN:
            self._take(run, backlog_run.after_outcome(run, key, step, self._context.clock.wall()))
