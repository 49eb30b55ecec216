"""The daemon actor: coordinates the others, and alone decides - by asking core.

Every fact that arrives is folded into the one State; then one `Decide` takes one plan from one
snapshot and hands out its orders. What comes back from a worker is confirmed by core again before
anything is destroyed or freed. There is no `if` about freeing or destroying in here: this module
says which message is whose.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nodemanager.actors.backlog_runs import (
    ApplyBacklog,
    BacklogRuns,
    ShowBacklog,
    StopBacklog,
    TendBacklog,
)
from nodemanager.actors.base import OnDeath, RoleActor, tell
from nodemanager.actors.boot_failures import BootFailures
from nodemanager.actors.context import Context
from nodemanager.actors.crew import Crew
from nodemanager.actors.decisions import Decisions
from nodemanager.actors.endings import Endings
from nodemanager.actors.false_cleans import FalseCleans
from nodemanager.actors.held_backlog import HeldBacklog
from nodemanager.actors.identities import Identities
from nodemanager.actors.invariants import Invariants
from nodemanager.actors.leftover_book import LeftoverBook
from nodemanager.actors.leftover_releases import LeftoverReleases
from nodemanager.actors.messages import (
    ApplySettings,
    Begin,
    CarriedOut,
    CleanByHand,
    CloudListed,
    CloudPollStarted,
    Decide,
    DemandPolled,
    DrainNode,
    HoldId,
    KillNode,
    LeftoverReleased,
    LeftoversFound,
    NodesAsked,
    PausePool,
    Poll,
    PollFailed,
    RecordsListed,
    ReleaseId,
    ResetBreaker,
    ResumePool,
    RunNode,
    Stop,
    TaggedAsked,
    TendLeftovers,
    WaitOver,
)
from nodemanager.actors.observations import Observations
from nodemanager.actors.operator_commands import OperatorCommands
from nodemanager.actors.operator_marks import OperatorMarks
from nodemanager.actors.record_writes import RecordWrites
from nodemanager.actors.recovery import Recovery
from nodemanager.actors.role import Role
from nodemanager.actors.runner import Runner
from nodemanager.actors.snapshots import Snapshots
from nodemanager.actors.timer import Timer
from nodemanager.actors.workflow_shell import WorkflowShell
from nodemanager.clock import Clock
from nodemanager.core.execute.catalog import WORKFLOWS
from nodemanager.core.facts import SettingsTaken
from nodemanager.core.fold import Start
from nodemanager.core.settings import Settings
from nodemanager.log import Logger


class NodeManagerDaemonActor(RoleActor):
    """Coordinates the team; see the module's text."""

    def __init__(
        self,
        *,
        settings: Settings,
        role: Role,
        timer: Timer,
        clock: Clock,
        log: Logger,
        on_death: OnDeath,
    ) -> None:
        super().__init__(on_death)
        context = self._context = Context(
            settings=settings,
            role=role,
            timer=timer,
            clock=clock,
            log=log,
            actor=lambda: self.actor_ref,
        )
        identities = Identities(context)
        endings = Endings(context)
        writes = RecordWrites(context)
        boot_failures = BootFailures(context)
        invariants = Invariants(context)
        false_cleans = FalseCleans(context)
        marks = OperatorMarks(context.scribe)
        leftovers = LeftoverBook(context.scribe, log, mode=role.mode)
        operators = OperatorCommands(context, marks, leftovers, boot_failures)
        held = HeldBacklog(context, identities)
        snapshots = Snapshots(context, identities, writes, held, marks)
        backlog = BacklogRuns(context, held, identities, snapshots)
        releases = LeftoverReleases(context, leftovers, identities, snapshots, endings.settled)
        observations = Observations(
            context, identities, writes, boot_failures, invariants, false_cleans, endings
        )
        self._recovery = Recovery(
            context,
            identities=identities,
            writes=writes,
            boot_failures=boot_failures,
            false_cleans=false_cleans,
            leftovers=leftovers,
            backlog=backlog,
            marks=marks,
        )
        decisions = Decisions(
            context,
            identities=identities,
            snapshots=snapshots,
            recovery=self._recovery,
            writes=writes,
            boot_failures=boot_failures,
            invariants=invariants,
            false_cleans=false_cleans,
            leftovers=leftovers,
            releases=releases,
            held=held,
            backlog=backlog,
            marks=marks,
            operators=operators,
            endings=endings,
        )
        shell = WorkflowShell(
            context,
            snapshots=snapshots,
            writes=writes,
            boot_failures=boot_failures,
            invariants=invariants,
            leftovers=leftovers,
            releases=releases,
            backlog=backlog,
            marks=marks,
            operators=operators,
            endings=endings,
        )
        context.runner = Runner(WORKFLOWS, shell, context.scribe, log)
        self._routes: dict[type, Callable[[Any], None]] = {
            Begin: self._begin,
            ApplySettings: self._apply_settings,
            CloudPollStarted: observations.cloud_poll_started,
            CloudListed: observations.cloud_listed,
            RecordsListed: observations.records_listed,
            DemandPolled: observations.demand_polled,
            PollFailed: observations.poll_failed,
            NodesAsked: observations.nodes_asked,
            TaggedAsked: observations.tagged_asked,
            Decide: decisions.decide,
            CarriedOut: self._carried_out,
            WaitOver: self._wait_over,
            TendLeftovers: releases.due,
            LeftoversFound: releases.found,
            LeftoverReleased: releases.released,
            ShowBacklog: backlog.show,
            ApplyBacklog: backlog.apply,
            StopBacklog: backlog.stop,
            TendBacklog: backlog.due,
            HoldId: operators.hold,
            ReleaseId: operators.release,
            DrainNode: operators.drain,
            KillNode: operators.kill,
            RunNode: operators.run,
            CleanByHand: operators.clean,
            PausePool: operators.pause,
            ResumePool: operators.resume,
            ResetBreaker: operators.reset_breaker,
            Stop: endings.stop,
        }

    def handler_of(self, message: Any) -> Callable[[Any], Any]:
        """Whose message it is."""
        return self._routes[type(message)]

    def _begin(self, message: Begin) -> None:
        context, team = self._context, message.team
        context.team = team
        context.setups = Crew(team.setups)
        context.shutdowns = Crew(team.shutdowns)
        context.cleaner = Crew((team.cleaner,))
        self._recovery.load()
        context.scribe.begin(
            Start(
                context.settings.pool,
                context.settings,
                context.clock.boottime(),
                context.clock.wall(),
                context.state,
                context.role.run_id,
            )
        )
        for poller in (team.record_list, team.cloud_list, team.demand):
            if poller is not None:
                tell(poller, Poll())

    def _apply_settings(self, message: ApplySettings) -> None:
        context = self._context
        context.settings = context.narrator.settings = message.settings
        context.fold(SettingsTaken(message.settings, context.now))
        context.decide_soon()

    def _carried_out(self, message: CarriedOut) -> None:
        self._context.runner.carried_out(message, self._context.now)

    def _wait_over(self, message: WaitOver) -> None:
        if self._context.stopping is None:
            self._context.runner.wait_over(message, self._context.now)
