"""The parts of the daemon, each with what it needs: where to look for who has what."""

from __future__ import annotations

from dataclasses import dataclass

from nodemanager.actors.backlog_runs import BacklogRuns
from nodemanager.actors.boot_failures import BootFailures
from nodemanager.actors.context import Context
from nodemanager.actors.decisions import Decisions
from nodemanager.actors.endings import Endings
from nodemanager.actors.false_cleans import FalseCleans
from nodemanager.actors.held_backlog import HeldBacklog
from nodemanager.actors.identities import Identities
from nodemanager.actors.invariants import Invariants
from nodemanager.actors.leftover_book import LeftoverBook
from nodemanager.actors.leftover_releases import LeftoverReleases
from nodemanager.actors.observations import Observations
from nodemanager.actors.operator_commands import CommandHandler
from nodemanager.actors.operator_marks import OperatorMarks
from nodemanager.actors.plan_orders import PlanOrders
from nodemanager.actors.record_writes import RecordWrites
from nodemanager.actors.recovery import Recovery
from nodemanager.actors.runner import Runner
from nodemanager.actors.snapshots import Snapshots
from nodemanager.actors.workflow_shell import WorkflowShell
from nodemanager.core.execute.catalog import WORKFLOWS


@dataclass(frozen=True, slots=True)
class Parts:
    """Those that messages go to."""

    observations: Observations
    decisions: Decisions
    releases: LeftoverReleases
    backlog: BacklogRuns
    operators: CommandHandler
    recovery: Recovery
    endings: Endings


def parts_of(context: Context) -> Parts:
    """All parts of a daemon, and the runner that they share."""
    identities, endings = Identities(context), Endings(context)
    writes, boot_failures = RecordWrites(context), BootFailures(context)
    invariants, false_cleans = Invariants(context), FalseCleans(context)
    marks = OperatorMarks(context.scribe)
    leftovers = LeftoverBook(context.scribe, context.log, mode=context.role.mode)
    operators = CommandHandler(context, marks, leftovers, boot_failures)
    held = HeldBacklog(context, identities)
    snapshots = Snapshots(context, identities, writes, held, marks)
    backlog = BacklogRuns(context, held, identities, snapshots)
    releases = LeftoverReleases(context, leftovers, identities, snapshots, endings.settled)
    observations = Observations(
        context, identities, writes, boot_failures, invariants, false_cleans, endings
    )
    recovery = Recovery(
        context,
        identities=identities,
        writes=writes,
        boot_failures=boot_failures,
        false_cleans=false_cleans,
        leftovers=leftovers,
        invariants=invariants,
        backlog=backlog,
        marks=marks,
    )
    decisions = Decisions(
        context,
        identities=identities,
        snapshots=snapshots,
        recovery=recovery,
        writes=writes,
        releases=releases,
        backlog=backlog,
        operators=operators,
        orders=PlanOrders(context, identities, boot_failures, false_cleans),
        endings=endings,
    )
    shell = WorkflowShell(
        context,
        snapshots=snapshots,
        writes=writes,
        boot_failures=boot_failures,
        invariants=invariants,
        releases=releases,
        backlog=backlog,
        operators=operators,
        endings=endings,
    )
    context.runner = Runner(WORKFLOWS, shell, context.scribe, context.log)
    return Parts(observations, decisions, releases, backlog, operators, recovery, endings)
