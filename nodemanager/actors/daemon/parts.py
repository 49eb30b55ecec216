"""Makes the parts of the daemon, and gives each the parts that it needs."""

from __future__ import annotations

from dataclasses import dataclass

from nodemanager.actors.daemon.backlog_runs import BacklogRuns
from nodemanager.actors.daemon.boot_failures import BootFailures
from nodemanager.actors.daemon.context import Context
from nodemanager.actors.daemon.decisions import Decisions
from nodemanager.actors.daemon.endings import Endings
from nodemanager.actors.daemon.false_cleans import FalseCleans
from nodemanager.actors.daemon.held_backlog import HeldBacklog
from nodemanager.actors.daemon.identities import Identities
from nodemanager.actors.daemon.invariants import Invariants
from nodemanager.actors.daemon.leftover_book import LeftoverBook
from nodemanager.actors.daemon.leftover_releases import LeftoverReleases
from nodemanager.actors.daemon.observations import Observations
from nodemanager.actors.daemon.operators import CommandHandler, OperatorMarks
from nodemanager.actors.daemon.place_rests import PlaceRests
from nodemanager.actors.daemon.plan_orders import PlanOrders
from nodemanager.actors.daemon.record_writes import RecordWrites
from nodemanager.actors.daemon.recovery import Recovery
from nodemanager.actors.daemon.runner import Runner
from nodemanager.actors.daemon.snapshots import Snapshots
from nodemanager.actors.daemon.workflow_shell import WorkflowShell
from nodemanager.core.execute.catalog import WORKFLOWS


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts that messages go to."""

    observations: Observations
    decisions: Decisions
    releases: LeftoverReleases
    backlog: BacklogRuns
    operators: CommandHandler
    recovery: Recovery
    endings: Endings


def parts_of(context: Context) -> Parts:
    """Make all parts of a daemon, and the runner that they share."""
    identities, endings = Identities(context), Endings(context)
    writes, boot_failures = RecordWrites(context), BootFailures(context)
    place_rests = PlaceRests(context)
    invariants, false_cleans = Invariants(context), FalseCleans(context)
    marks = OperatorMarks(context.journal_writer.orders)
    leftovers = LeftoverBook(context.journal_writer, context.log, mode=context.inputs.mode)
    operators = CommandHandler(context, marks, leftovers, boot_failures)
    held = HeldBacklog(context, identities)
    snapshots = Snapshots(context, identities, writes, held, marks)
    backlog = BacklogRuns(context, held, identities, snapshots)
    releases = LeftoverReleases(context, leftovers, identities, snapshots, endings.settled)
    observations = Observations(
        context,
        identities,
        writes,
        boot_failures,
        invariants,
        false_cleans,
        leftovers,
        endings,
    )
    recovery = Recovery(
        context,
        identities=identities,
        writes=writes,
        boot_failures=boot_failures,
        place_rests=place_rests,
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
        place_rests=place_rests,
        releases=releases,
        backlog=backlog,
        operators=operators,
        orders=PlanOrders(context, identities, boot_failures, false_cleans),
        boot_failures=boot_failures,
        endings=endings,
    )
    shell = WorkflowShell(
        context,
        snapshots=snapshots,
        writes=writes,
        boot_failures=boot_failures,
        place_rests=place_rests,
        invariants=invariants,
        releases=releases,
        backlog=backlog,
        operators=operators,
        endings=endings,
    )
    context.runner = Runner(WORKFLOWS, shell, context.journal_writer, context.log)
    return Parts(observations, decisions, releases, backlog, operators, recovery, endings)
