"""One decision after another: core's plan of a snapshot, told, shown, and carried out."""

from __future__ import annotations

import itertools
import secrets
from dataclasses import replace

from nodemanager.actors.backlog_runs import BacklogRuns
from nodemanager.actors.base import tell
from nodemanager.actors.boot_failures import BootFailures
from nodemanager.actors.context import Context
from nodemanager.actors.endings import Endings
from nodemanager.actors.false_cleans import FalseCleans
from nodemanager.actors.held_backlog import HeldBacklog
from nodemanager.actors.identities import Identities
from nodemanager.actors.invariants import Invariants
from nodemanager.actors.leftover_book import LeftoverBook
from nodemanager.actors.leftover_releases import LeftoverReleases
from nodemanager.actors.messages import AskNodes, AskTagged, Decide
from nodemanager.actors.operator_commands import OperatorCommands
from nodemanager.actors.operator_marks import OperatorMarks
from nodemanager.actors.record_writes import RecordWrites
from nodemanager.actors.recovery import Recovery
from nodemanager.actors.snapshots import Snapshots
from nodemanager.core.execute.books import still_expected, still_unheard
from nodemanager.core.execute.setup import order_setup
from nodemanager.core.execute.workflow import Action
from nodemanager.core.fold import Decision, decide
from nodemanager.core.history import Nodes
from nodemanager.core.leftovers import counts
from nodemanager.core.model import Claim
from nodemanager.core.picture import Picture
from nodemanager.core.plan import BootOrder, Plan
from nodemanager.core.snapshot import Snapshot


class Decisions:
    """Takes each decision by core, and begins what it calls for."""

    def __init__(
        self,
        context: Context,
        *,
        identities: Identities,
        snapshots: Snapshots,
        recovery: Recovery,
        writes: RecordWrites,
        boot_failures: BootFailures,
        invariants: Invariants,
        false_cleans: FalseCleans,
        leftovers: LeftoverBook,
        releases: LeftoverReleases,
        held: HeldBacklog,
        backlog: BacklogRuns,
        marks: OperatorMarks,
        operators: OperatorCommands,
        endings: Endings,
    ) -> None:
        self._context = context
        self._identities = identities
        self._snapshots = snapshots
        self._recovery = recovery
        self._writes = writes
        self._boot_failures = boot_failures
        self._invariants = invariants
        self._false_cleans = false_cleans
        self._leftovers = leftovers
        self._releases = releases
        self._held = held
        self._backlog = backlog
        self._marks = marks
        self._operators = operators
        self._endings = endings
        self._plan_numbers = itertools.count(1)
        self._asked_after: Nodes | None = None
        self._tags_asked_after: Nodes | None = None

    def decide(self, message: Decide) -> None:
        """Take one decision on what is known now."""
        self._context.decides()
        self._mend()
        now = self._context.now
        self._forget(now)
        if self._context.scribe.problem is None:
            self._context.runner.heal(now)
        self._context.runner.expire(now, self._context.settings.action_timeout)
        self._recovery.go_on()
        made = self._decided(now)
        self._ask(made)
        if self._may_act(made, now):
            self._carry_out(made, now)
        self._releases.tend()
        self._endings.settled()

    def _mend(self) -> None:
        """What could not be read or written before is tried again."""
        self._recovery.mend()
        self._held.save()
        self._invariants.prove_owed()

    def _forget(self, now: float) -> None:
        """What both newest listings show by now."""
        context = self._context
        context.in_flight.forget_landed(context.history)
        context.in_flight.forget_touched(context.history)
        context.books = replace(
            context.books, sizes=still_unheard(context.books.sizes, context.history)
        )
        self._writes.forget_late(now)

    def _decided(self, now: float) -> Plan:
        """The plan of this moment, entered into the books, told and shown."""
        context = self._context
        plan_id = f"{context.role.run_id}-{next(self._plan_numbers)}"
        snapshot = self._snapshots.taken(plan_id)
        new_records = context.state.new_records
        made = decide(snapshot, context.settings, new_records=new_records)
        context.after_decision(made)
        if made.aborted is None:
            expected = still_expected(
                context.books.expected, made.history, made.pairs, now, context.settings
            )
            context.books = replace(context.books, expected=expected)
        self._held.keep(made)
        acts = self._operators.waits and self._may_act(made, now)
        self._operators.after_plan(made, snapshot, acts=acts)
        records = context.history.records
        by_uuid = {record.uuid: record for record in records.items} if records else {}
        context.narrator.plan(made, by_uuid, now)
        took_s = context.now - now
        context.scribe.decided(Decision(snapshot, made, new_records, took_s))
        self._backlog.after_plan(made, snapshot)
        self._show(made, snapshot, took_s)
        return made

    def _show(self, made: Plan, snapshot: Snapshot, took_s: float) -> None:
        context = self._context
        context.role.show(
            Picture(
                snapshot,
                made,
                context.settings,
                mode=context.role.mode,
                took_s=took_s,
                marks=self._marks.all,
                leftovers=counts(self._leftovers.ledger),
                account=self._identities.account or "",
                store=self._identities.store or "",
            )
        )

    def _ask(self, made: Plan) -> None:
        """Ask the cloud what the plan wants to know, once for each of its listings."""
        context = self._context
        cloud, goes_on = context.history.cloud, context.stopping is None
        if made.ask and self._asked_after is not cloud and goes_on:
            self._asked_after = cloud
            tell(context.team.cloud_list, AskNodes(made.ask))
        if made.ask_tagged and self._tags_asked_after is not cloud:
            self._tags_asked_after = cloud
            if goes_on:
                tell(context.team.cloud_list, AskTagged(made.ask_tagged))

    def _may_act(self, made: Plan, now: float) -> bool:
        context = self._context
        if context.stopping is not None or made.aborted is not None:
            return False
        if context.scribe.problem is not None or self._identities.state_failed:
            self._endings.cannot_act()
            return False
        if context.limits.throttled_until > now:
            return False
        return self._endings.may_apply(made)

    def _carry_out(self, made: Plan, now: float) -> None:
        narrator, runner = self._context.narrator, self._context.runner
        for clean in made.cleans:
            narrator.clean_ordered(clean)
        for prune in made.prunes:
            narrator.prune_ordered(prune)
        for shutdown in made.shutdowns:
            narrator.shutdown_ordered(shutdown)
        self._endings.applied()
        if not self._context.applies:
            for boot in made.boots:
                narrator.setup_started(boot, None)
            return
        for clean in made.cleans:
            runner.begin(Action.CLEAN, clean, clean.plan_id, now)
        for lift in made.lifts:
            runner.begin(Action.CLEAN, lift, lift.plan_id, now)
        for prune in made.prunes:
            runner.begin(Action.PRUNE, prune, prune.plan_id, now)
        for shutdown in made.shutdowns:
            runner.begin(Action.SHUTDOWN, shutdown, shutdown.plan_id, now)
        for drain in made.drains:
            runner.begin(Action.DRAIN, drain, drain.plan_id, now)
        for life in made.restores:
            self._false_cleans.begin_restore(life, made.plan_id, now)
        for bind in made.binds:
            runner.begin(Action.BIND, bind, bind.plan_id, now)
        for boot in made.boots:
            self._begin_setup(boot, now)
        if made.boots:
            self._boot_failures.probe_sent()

    def _begin_setup(self, boot: BootOrder, now: float) -> None:
        store = self._identities.store
        assert store is not None, "a plan with boots has seen a record poll"
        order = order_setup(boot, self._claim_for(boot), store, now)
        self._context.narrator.setup_started(boot, order.claim.incarnation)
        self._context.runner.begin(Action.SETUP, order, boot.plan_id, now)

    def _claim_for(self, boot: BootOrder) -> Claim:
        incarnation = secrets.token_hex(16)
        settings, role = self._context.settings, self._context.role
        return Claim(
            pool=settings.pool,
            manager=role.manager,
            token=role.token,
            at=0.0,
            node_name=f"compute-{incarnation[:12]}",
            incarnation=incarnation,
            size=boot.size.name,
            price=boot.size.price,
            window=settings.claim_window,
        )
