"""Takes in what the pollers bring: logs it, folds it into the State, and watches it (L1-L5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nodemanager.actors import messages
from nodemanager.actors.base import tell
from nodemanager.actors.daemon.context import Context
from nodemanager.actors.daemon.endings import Endings
from nodemanager.actors.daemon.identities import Identities
from nodemanager.actors.daemon.invariants import FalseCleans, Invariants
from nodemanager.core.execute.news import ErrandRun, StoreListed
from nodemanager.core.model.world import CloudNode, CloudState, Listing, Record
from nodemanager.core.observe import facts
from nodemanager.core.observe.clocks import Clocks, MeasuredClock, contradicted
from nodemanager.core.observe.history import History, store_clock_read
from nodemanager.errors import Throttled


@dataclass(eq=False)
class Observations:
    """Takes in polls and answers, and asks for a decision after each poll."""

    _context: Context
    _identities: Identities
    _invariants: Invariants
    _false_cleans: FalseCleans
    _endings: Endings

    def cloud_listed(self, message: messages.CloudListed) -> None:
        """Take in a cloud listing, complete or not."""
        context, listing = self._context, message.listing
        if message.unverified is not None:
            self._identities.unverified(message.unverified)
        if message.account is not None:
            self._identities.saw_account(message.account)
            if context.state.identity.account_in_question:
                # So that the next poll notices when it is put right.
                tell(context.team.cloud_list, messages.AskAccount())
        fact = facts.CloudSeen(listing, message.account)
        context.journal_writer.note(fact)
        took_s = listing.ended_at - listing.started_at
        context.event_log.listed("cloud", _there(listing.items), took_s, listing.complete)
        problems = context.event_log.items_with_problems(listing.items)
        context.event_log.malformed("cloud", listing.problems + problems)
        context.take(fact)
        context.event_log.image_found(message.image_error)
        if message.image != context.history.image:
            context.fold(facts.ImageFound(message.image, context.now))
        context.decide_soon()

    def cloud_offered(self, message: messages.CloudOffered) -> None:
        """Say whether the credentials of a changed file are to be used (L5)."""
        is_ours = self._identities.offered_account(message.account, message.error)
        if is_ours is not None:
            tell(self._context.team.cloud_list, messages.CloudJudged(message.cloud, is_ours))

    def records_listed(self, message: messages.RecordsListed) -> None:
        """Take in a record listing, complete or not, and the late pings that the store has."""
        context, listing = self._context, message.listing
        self._identities.saw_store(message.store_id, message.store_time.beats)
        self._false_cleans.late_pings(message.late)
        fact = facts.RecordsSeen(
            listing, message.store_id, message.store_time, message.slots, message.answered_at
        )
        context.journal_writer.note(fact)
        took_s = listing.ended_at - listing.started_at
        answered = message.answered_at is not None
        context.event_log.listed(
            "records", len(listing.items), took_s, listing.complete, pings_answered=answered
        )
        problems = context.event_log.items_with_problems(listing.items)
        context.event_log.malformed("records", listing.problems + problems)
        before = context.history
        clock = store_clock_read(before, message.store_time).clock
        # Before the listing changes the breaker: a later run must know of a jump.
        context.journal_writer.save_clocks(Clocks(clock, context.wall_clock))
        context.take(fact)
        self._tell_of_doubt(before, clock, listing)
        self._invariants.watch_freed(listing)
        context.learn(StoreListed(listing))
        context.decide_soon()

    def _tell_of_doubt(
        self, before: History, read: MeasuredClock | None, listing: Listing[Record]
    ) -> None:
        """Log it if the poll made the clock doubted: by what was `read`, or by the listing (T1)."""
        after = self._context.history.clock
        known = float("-inf") if before.clock is None else before.clock.known_since
        if after is None or after.known_since <= known:
            return
        shown: list[str] = []
        if read is not None and read.known_since < after.known_since:
            shown = contradicted(listing)
        self._context.event_log.clock_doubted(shown)

    def demand_seen(self, fact: facts.DemandSeen) -> None:
        context = self._context
        context.fold(fact)
        took_s = fact.ended_at - fact.started_at
        context.event_log.listed("demand", len(fact.jobs), took_s, True)
        context.decide_soon()

    def scheduler_seen(self, fact: facts.SchedulerSeen) -> None:
        """Take in a scheduler's queue, and a listing of its nodes, complete or not."""
        context, listing = self._context, fact.listing
        asked_s = listing.started_at - fact.asked_at
        context.event_log.listed("demand", len(fact.jobs), asked_s, True)
        took_s = listing.ended_at - listing.started_at
        context.event_log.listed("scheduler", len(listing.items), took_s, listing.complete)
        context.event_log.malformed("scheduler", listing.problems)
        context.fold(fact)
        context.decide_soon()

    def errand_run(self, message: ErrandRun) -> None:
        self._context.learn(message)
        if not message.is_moot:
            self._context.event_log.errand(message.errand, message.error, message.plan_id)

    def poll_failed(self, message: messages.PollFailed) -> None:
        """Note a failed poll: it is no evidence (L1)."""
        context, error = self._context, message.error
        context.event_log.list_failed(message.source, error, message.retry_s, message.took_s)
        kind, text = type(error).__name__, str(error)
        context.fold(
            facts.PollMissed(
                message.source, kind, text, message.retry_s, message.took_s, context.now
            )
        )
        if isinstance(error, Throttled):
            context.throttled(error)
        self._endings.cannot_act()
        context.decide_soon()

    def tags_answered(self, fact: facts.TagsAnswered) -> None:
        """Take in the cloud's answers by tag, which count from now on."""
        self._context.fold(replace(fact, at=self._context.now))


def _there(items: Sequence[CloudNode | Record]) -> int:
    """The number of items in a listing, without terminated nodes."""
    terminated = CloudState.TERMINATED
    return len(items) - sum(
        [isinstance(one, CloudNode) and one.state is terminated for one in items]
    )
