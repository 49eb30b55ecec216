"""The actors that poll: the cloud's nodes, the records, and the demand or a scheduler.

A failed poll is a fact of its own, never an empty list (SAFETY.md L1). Polls back off
exponentially up to `max_poll_time` and honour Retry-After up to `max_retry_after` (D6).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from nodemanager import errors
from nodemanager.actors import messages
from nodemanager.actors.base import RoleActor, TeamContext
from nodemanager.actors.net import netted
from nodemanager.cloud.api import CloudDriver
from nodemanager.core.execute.news import ErrandRun
from nodemanager.core.model.scheduling import SchedulerNode
from nodemanager.core.model.world import CloudNode, Job, Listed, Listing, Record
from nodemanager.core.observe import facts
from nodemanager.core.plan import errands
from nodemanager.core.safety.rate_limits import capped_retry_after
from nodemanager.schedulers.api import Scheduler

T = TypeVar("T")

ASK_FAILURES = 2
"""One failure may be due to that question; at the second one the other nodes are not asked."""
ACCOUNT_EVERY_S = 600.0
"""Seconds between checks of the credentials' account (L5); a wrong one is checked each poll."""


class PollingActor(RoleActor, ABC):
    """Polls every `poll_time` seconds, from start to start, and less often after failures."""

    source = ""

    def __init__(self, context: TeamContext, every: messages.PollEvery) -> None:
        super().__init__(context.on_death)
        self._context = context
        self._every = every
        self._failures = 0
        self._number = 0
        self._not_before = 0.0
        self._waits_since = 0.0

    @abstractmethod
    def poll(self) -> None:
        """Poll once and tell the daemon the result. Raises NodeManagerError if it failed."""

    def on_Poll(self, message: messages.Poll) -> None:
        if message.number != self._number:
            return
        started_at = self._context.clock.boottime()
        if started_at < self._not_before:
            self._poll_in(self._not_before - started_at)
            return
        try:
            self.poll()
        except errors.NodeManagerError as error:
            self._failed(error, started_at)
        else:
            self._failures = 0
            self._waits_since = started_at
            self._poll_later()

    def on_PollEvery(self, message: messages.PollEvery) -> None:
        self._every = message
        if self._number:
            self._poll_later()

    def on_PollNow(self, message: messages.PollNow) -> None:
        if self._number and not self._failures:
            self._poll_in(0.0)

    def on_BackOff(self, message: messages.BackOff) -> None:
        self._not_before = max(self._not_before, message.until)

    def _failed(self, error: errors.NodeManagerError, started_at: float) -> None:
        self._failures += 1
        now = self._waits_since = self._context.clock.boottime()
        wait_s = self._wait_s
        asked_s = error.retry_after if isinstance(error, errors.RemoteError) else None
        capped_s = capped_retry_after(asked_s, self._every.max_retry_after)
        if capped_s is not None:
            self._not_before = max(self._not_before, now + capped_s)
            wait_s = max(wait_s, capped_s)
        self._context.report(messages.PollFailed(self.source, error, wait_s, now - started_at))
        self._poll_in(wait_s)

    @property
    def _wait_s(self) -> float:
        """Seconds to the next poll, from a poll's start or from a failed poll's end."""
        if not self._failures:
            return self._every.poll_time
        longer_s = self._every.poll_time * 2.0 ** min(self._failures, 16)
        return float(min(self._every.max_poll_time, longer_s))

    def _poll_later(self) -> None:
        """Schedule the next poll. When it is due, it still waits until `_not_before`."""
        self._poll_in(max(0.0, self._waits_since + self._wait_s - self._context.clock.boottime()))

    def _poll_in(self, seconds: float) -> None:
        self._number += 1
        self._context.timer.after(seconds, self.actor_ref, messages.Poll(self._number))


def _readable(listed: Listed[T], kind: type[T]) -> Listed[T]:
    """The listing without items of a wrong type; if it had any, it is incomplete (L1).

    An adapter with such a bug must not end the daemon. Raises IncompleteListing for an answer that
    is no listing.
    """
    given: object = listed
    if not isinstance(given, Listed):
        raise errors.IncompleteListing(f"the list call answered with {type(given).__name__}")
    items = tuple(item for item in listed.items if isinstance(item, kind))
    if len(items) == len(listed.items):
        return listed
    foreign = {type(item).__name__ for item in listed.items if not isinstance(item, kind)}
    problems = tuple(f"an item is {name}, no {kind.__name__}" for name in sorted(foreign))
    return Listed(items, complete=False, problems=(*listed.problems, *problems), names=listed.names)


class CloudNodeListActor(PollingActor):
    """Lists the cloud's nodes, and asks for single nodes by id or tag for the daemon."""

    source = "cloud"

    def __init__(self, context: TeamContext, every: messages.PollEvery) -> None:
        super().__init__(context, every)
        self._account_at: float | None = None
        self._verified = False
        self._unreported: str | None = None
        """The account of the credentials, as long as no listing has told the daemon of it."""
        self._next: CloudDriver | None = None
        """The cloud with a changed file's credentials, until its account was compared (L5)."""

    def poll(self) -> None:
        self._offer()
        account, unverified = self._look_at_account()
        self._unreported = account or self._unreported
        self._context.report(facts.CloudPollBegun(self._context.clock.boottime()))
        started_at = self._context.clock.boottime()
        try:
            listed = _readable(self._context.cloud.list_nodes(), CloudNode)
        except errors.Unauthorized:
            # The next keys may be another account's.
            self._account_at = self._unreported = None
            raise
        ended_at = self._context.clock.boottime()
        listing = Listing(listed.items, started_at, ended_at, listed.complete, listed.problems)
        image, error = self._image()
        self._context.report(
            messages.CloudListed(listing, self._unreported, unverified, image, error)
        )
        self._unreported = None

    def _offer(self) -> None:
        """Tell the daemon which account the next credentials lead to, as long as any wait."""
        if self._next is None:
            return
        try:
            account = self._next.account()
        except errors.CloudError as error:
            self._context.report(messages.CloudOffered(self._next, None, error))
        else:
            self._context.report(messages.CloudOffered(self._next, account))

    def on_TakeCloud(self, message: messages.TakeCloud) -> None:
        self._next = netted(message.cloud, errors.CloudError, self.source, self._context.may_send)
        self._poll_at_once()

    def on_CloudJudged(self, message: messages.CloudJudged) -> None:
        if message.cloud is not self._next:
            return
        self._next = None
        if message.is_ours:
            self._context.cloud = message.cloud
            self._account_at = self._unreported = None
            self._poll_at_once()

    def _poll_at_once(self) -> None:
        if self._number:
            self._poll_in(0.0)

    def _image(self) -> tuple[str | None, str | None]:
        """The image that nodes would be booted from now, None where the cloud does not say it; and
        why it can't be found out."""
        try:
            return self._context.cloud.image(), None
        except errors.CloudError as error:
            # Nothing is replaced while it is not known; a listing does not fail for it.
            return None, str(error)

    def _look_at_account(self) -> tuple[str | None, errors.CloudError | None]:
        """The account if a check is due, and the error if the check failed (L5).

        An error does not stop the poll once the account was known in this process, because the
        adapter lists only with the credentials of that account. Raises CloudError before that, and
        for a refusal or another service's answer.
        """
        now = self._context.clock.boottime()
        if self._account_at is not None and now - self._account_at <= ACCOUNT_EVERY_S:
            return None, None
        try:
            account = self._context.cloud.account()
        except errors.CloudError as error:
            if not self._verified or error.definite or isinstance(error, errors.ForeignAnswer):
                raise
            return None, error
        self._account_at, self._verified = now, True
        return account, None

    def on_AskNodes(self, message: messages.AskNodes) -> None:
        answers: dict[str, CloudNode | None] = {}
        asked_at = self._context.clock.boottime()
        throttled = asked_at < self._not_before
        malformed: list[str] = []
        failed = 0
        for node_id in () if throttled else message.node_ids:
            try:
                answers[node_id] = self._context.cloud.ask(node_id)
            except errors.MalformedId:
                malformed.append(node_id)
            except errors.RemoteError as error:
                # No answer is no evidence; it is asked for again with the next plan.
                failed += 1
                if failed == ASK_FAILURES or isinstance(error, errors.Throttled):
                    break
        self._context.report(
            facts.NodesAnswered(
                answers, self._context.clock.boottime(), frozenset(malformed), asked_at
            )
        )

    def on_AskAccount(self, message: messages.AskAccount) -> None:
        self._account_at = None

    def on_AskTagged(self, message: messages.AskTagged) -> None:
        asked_at = self._context.clock.boottime()
        answers: dict[str, tuple[CloudNode, ...]] = {}
        for uuid in message.records:
            try:
                answers[uuid] = self._context.cloud.find_by_record(uuid)
            except errors.RemoteError:
                break
        self._context.report(facts.TagsAnswered(answers, self._context.clock.boottime(), asked_at))


class RecordListActor(PollingActor):
    """Lists the records, and probes the nodes' own ping URL once in each poll (D8).

    Without `writes` (a dry run) it reads the store's clock without a write (S3).
    """

    source = "records"

    def __init__(self, context: TeamContext, every: messages.PollEvery, *, writes: bool) -> None:
        super().__init__(context, every)
        self._writes = writes

    def poll(self) -> None:
        store, clock = self._context.store, self._context.clock
        store_id = store.store_id()
        # Before the listing: a life that was restored in between is not late by it.
        late = store.late_pings()
        started_at = clock.boottime()
        listed = _readable(store.list_records(), Record)
        ended_at = clock.boottime()
        # After the listing: a step of the store's clock in between is seen with the stamps it made.
        store_time = store.store_time(writes=self._writes)
        answered = store.probe()
        listing = Listing(listed.items, started_at, ended_at, listed.complete, listed.problems)
        self._context.report(
            messages.RecordsListed(
                listing=listing,
                store_id=store_id,
                store_time=store_time,
                slots=store.slots(),
                answered_at=clock.boottime() if answered else None,
                late=late,
            )
        )


class DemandActor(PollingActor):
    """Polls the wishlist. There is no such actor where `min_nodes` is the only demand."""

    source = "demand"

    def __init__(
        self,
        context: TeamContext,
        every: messages.PollEvery,
        wishlist: Callable[[], tuple[Job, ...]],
    ) -> None:
        super().__init__(context, every)
        self._wishlist = wishlist

    def on_TakeWishlist(self, message: messages.TakeWishlist) -> None:
        self._wishlist = message.wishlist

    def poll(self) -> None:
        started_at = self._context.clock.boottime()
        jobs = self._wishlist()
        self._context.report(facts.DemandSeen(jobs, started_at, self._context.clock.boottime()))


class SchedulerActor(PollingActor):
    """Polls a scheduler for its queue and its nodes, in the place of the wishlist; runs errands.

    The nodes are asked for last: a job that starts in between shows on its node, not nowhere (D12).
    The errands are run here, between two polls, and not by the workers: where the scheduler hangs,
    no shutdown waits behind them.
    """

    source = "scheduler"

    def __init__(
        self, context: TeamContext, every: messages.PollEvery, scheduler: Scheduler
    ) -> None:
        super().__init__(context, every)
        self._scheduler = scheduler

    def poll(self) -> None:
        clock = self._context.clock
        asked_at = clock.boottime()
        jobs = self._scheduler.queue()
        started_at = clock.boottime()
        listed = _readable(self._scheduler.nodes(), SchedulerNode)
        ended_at = clock.boottime()
        listing = Listing(
            listed.items, started_at, ended_at, listed.complete, listed.problems, listed.names
        )
        self._context.report(facts.SchedulerSeen(listing, jobs, asked_at))

    def on_RunErrands(self, message: messages.RunErrands) -> None:
        """Run them in turn. After one without a clear answer, the others wait for a later plan."""
        failed: errors.RemoteError | None = None
        for errand in message.errands:
            error, is_moot = failed, False
            if self._context.clock.boottime() > message.not_after:
                error = failed = failed or errors.SchedulerError(
                    "its order expired before it was sent"
                )
            if error is None:
                try:
                    is_moot = not self._run(errand)
                except errors.RemoteError as refusal:
                    error = refusal
                    failed = None if refusal.definite else refusal
            self._context.report(ErrandRun(errand, message.plan_id, error, is_moot))

    def _run(self, errand: errands.Errand) -> bool:
        """Tell the scheduler; False where there is no need to any more. Raises SchedulerError."""
        match errand:
            case errands.TellJob(job=job, text=text):
                self._scheduler.comment(job, text)
            case errands.CancelJob(job=job):
                self._scheduler.cancel(job)
            case errands.DescribeNode():
                self._scheduler.describe(errand.node, errand.weight, errand.features, errand.drop)
            case errands.ReturnNode(node=name):
                self._scheduler.resume(name)
            case errands.MarkGone(node=name):
                # By now the next node of that name may be up.
                listed = self._scheduler.nodes()
                if not any(one.name == name and errands.is_left(one) for one in listed.items):
                    return False
                self._scheduler.mark_down(name, "its node is gone")
            case errands.SwitchOn(node=name):
                self._scheduler.power_up(name)
            case errands.SwitchOff(node=name):
                listed = self._scheduler.nodes()
                if not any(
                    one.name == name and errands.is_still_off(errand, one) for one in listed.items
                ):
                    return False
                self._scheduler.mark_down(name, "its node is gone")
        return True
