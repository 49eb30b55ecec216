"""Makes the parts of the daemon, and gives each the parts that it needs."""

from __future__ import annotations

from dataclasses import dataclass

from nodemanager.actors.daemon.backlog_runs import BacklogRuns
from nodemanager.actors.daemon.context import Context
from nodemanager.actors.daemon.decisions import Decisions
from nodemanager.actors.daemon.endings import Endings
from nodemanager.actors.daemon.false_cleans import FalseCleans
from nodemanager.actors.daemon.identities import Identities
from nodemanager.actors.daemon.invariants import Invariants
from nodemanager.actors.daemon.leftover_book import LeftoverBook
from nodemanager.actors.daemon.leftover_releases import LeftoverReleases
from nodemanager.actors.daemon.observations import Observations
from nodemanager.actors.daemon.operators import CommandHandler, OperatorMarks
from nodemanager.actors.daemon.plan_orders import PlanOrders
from nodemanager.actors.daemon.recovery import Recovery
from nodemanager.actors.daemon.runner import Runner
from nodemanager.actors.daemon.workflow_shell import WorkflowShell
from nodemanager.core.execute.catalog import WORKFLOWS


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts that messages go to."""

    observations: Observations
    false_cleans: FalseCleans
    decisions: Decisions
    releases: LeftoverReleases
    backlog: BacklogRuns
    operators: CommandHandler
    recovery: Recovery
    endings: Endings


def parts_of(context: Context) -> Parts:
    """Make all parts of a daemon, and the runner that they share."""
    identities, endings = Identities(context), Endings(context)
    invariants, false_cleans = Invariants(context), FalseCleans(context)
    marks = OperatorMarks(context)
    leftovers = LeftoverBook(context)
    operators = CommandHandler(context, marks)
    backlog = BacklogRuns(context, identities)
    releases = LeftoverReleases(context, leftovers, endings.settled)
    observations = Observations(context, identities, invariants, false_cleans, endings)
    recovery = Recovery(context, false_cleans, invariants, backlog)
    orders = PlanOrders(context, false_cleans)
    decisions = Decisions(context, recovery, releases, backlog, operators, orders, endings)
    shell = WorkflowShell(context, invariants, releases, backlog, operators, endings)
    context.runner = Runner(WORKFLOWS, shell, context.journal_writer, context.log)
    return Parts(
        observations, false_cleans, decisions, releases, backlog, operators, recovery, endings
    )
