"""The facts and measurements that the nodes of one snapshot are judged by."""

from __future__ import annotations

from collections.abc import Mapping

from nodemanager.core.judge.checks import Measured
from nodemanager.core.judge.node_view import Silence, Subject
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.verdict import NOTHING_BEFORE, Verdict
from nodemanager.core.model.world import CloudNode, Record, WorkerState
from nodemanager.core.observe.boots import unjoined_for, waits_to_join
from nodemanager.core.observe.pairing import Pairs
from nodemanager.core.observe.scheduled import is_not_up, joined_state, pinged_by, word_on
from nodemanager.core.observe.signs import (
    claimed_at_of,
    launched_for,
    quiet_for,
    silent_for,
    window_of,
)
from nodemanager.core.observe.snapshot import Snapshot


class NodeFacts:
    """What all nodes of one snapshot share, and the measurements of each; built once per plan."""

    def __init__(
        self,
        snapshot: Snapshot,
        settings: Settings,
        pairs: Pairs,
        before: Mapping[str, Verdict] = NOTHING_BEFORE,
    ) -> None:
        self.before = before
        self.snapshot = snapshot
        self.settings = settings
        self.pairs = pairs
        self.now = snapshot.now
        self.history = snapshot.history
        self.clock = snapshot.history.clock
        cloud = snapshot.history.cloud
        self.listed_at = cloud.started_at if cloud is not None else 0.0
        self._by_node: dict[str, list[Record]] | None = None
        self._scheduled: frozenset[str] | None = None
        """The names of the scheduler's newest listing, once asked for."""

    def subject(self, node: CloudNode) -> Subject:
        """The node with its paired record, if any, and its fresh state."""
        record = self.pairs.record_of.get(node.id)
        if record is None:
            return Subject(node, None, WorkerState.UNKNOWN, self.before.get(node.id))
        return Subject(node, record, self.state_of(record), self.before.get(node.id))

    def state_of(self, record: Record) -> WorkerState:
        """What the record's node does, by its own fresh word and a scheduler's (T6)."""
        return joined_state(record, self.snapshot, self.settings)

    def unknown_why(self, subject: Subject) -> Reason:
        """Why it is not known what a node does whose pings are fresh (T6, D17).

        A node that the scheduler has not called up yet may take work soon, until its grace is over
        and an answer of since its first ping has not called it up.
        """
        if not self.settings.scheduled:
            return Reason.WORKER_UNKNOWN
        word = word_on(subject.own, self.history, self.now, self.settings)
        if word is not None and word.is_set_aside:
            return Reason.SET_ASIDE
        if waits_to_join(subject.own, self.history):
            age_s = self.age_of(subject)
            is_young = age_s is not None and age_s <= self.settings.boot_fail_after
            may_join = is_young or not self._was_told_of(subject.own)
            return Reason.BOOTING if may_join else Reason.UNJOINED
        if word is None:
            return Reason.UNSCHEDULED if self._is_unlisted(subject) else Reason.WORKER_UNKNOWN
        return Reason.DOWN_IN_SCHEDULER if is_not_up(word.node) else Reason.WORKER_UNKNOWN

    def age_of(self, subject: Subject) -> float | None:
        """Seconds since the node's launch, as `launched_for` counts them; None if not known."""
        created_at = subject.node.created_at
        if created_at is None:
            return None
        return launched_for(created_at, self.snapshot, claimed_at_of(subject.record))

    def _was_told_of(self, record: Record) -> bool:
        """Whether the scheduler answered since the first ping of the record's node."""
        listing = self.history.scheduler
        return listing is not None and pinged_by(record, self.history, listing.started_at)

    def _is_unlisted(self, subject: Subject) -> bool:
        """Whether a fresh answer of the scheduler lists no node with its hostname."""
        listing = self.history.scheduler
        if listing is None or self.now - listing.started_at > self.settings.poll_stale_after:
            return False
        if self._scheduled is None:
            self._scheduled = frozenset(node.name for node in listing.items)
        return subject.own.hostname not in self._scheduled

    def unjoined(self, subject: Subject) -> Measured:
        """How long the scheduler has said that the node is not up, and the limit (D17).

        None of it if the scheduler has called it up, or if nobody watched it from its boot on.
        """
        unjoined_s = unjoined_for(subject.own, self.history, self.now, self.settings)
        if unjoined_s is None:
            return {}
        limit_s = self.settings.boot_fail_after
        return {"unjoined_s": unjoined_s, "limit_s": limit_s}

    def stopped(self, node: CloudNode) -> dict[str, float] | None:
        """How long the node has been listed as stopped, and `settle`; None if not, or untagged."""
        since = self.history.stopped.get(node.id)
        if since is None or node.tags.pool is None:
            return None
        cloud = self.history.cloud
        stopped_s = (cloud.started_at if cloud else since) - since
        return {"stopped_s": stopped_s, "settle_s": self.settings.settle}

    def silence_of(self, subject: Subject) -> Silence:
        """The silence of a paired node, with its thresholds."""
        settings, clock = self.settings, self.clock
        record, launch = subject.own, self.history.launches.get(subject.node.id)
        return Silence(
            silent_s=silent_for(record, self.history),
            window_s=settings.node_stale_after,
            quiet_s=None if clock is None else quiet_for(record, clock, self.snapshot),
            quiet_window_s=window_of(record, settings),
            age_s=self.age_of(subject),
            grace_s=settings.boot_fail_after,
            seen_s=0.0 if launch is None else self.now - launch.since,
        )

    def counted_silence(self, subject: Subject) -> float | None:
        """For how many seconds the node has been silent; None before half its window (D9).

        Half a window of silence is no reason to destroy a node, but it counts, whatever the node
        said before it: so a mass failure shows before the first destroy. The stamp of
        its last ping tells of a silence that began before this run did.
        """
        silence = self.silence_of(subject)
        if silence.silent_s <= silence.window_s / 2:
            return None
        return max(silence.silent_s, silence.quiet_s or 0.0)

    def alone_for(self, node: CloudNode) -> Measured:
        """How long, and in how many listings, the node has had no record, and the limit (D7)."""
        seen = self.history.unpaired.get(node.id)
        return {
            "unpaired_s": 0.0 if seen is None else self.now - seen.since,
            "limit_s": self.settings.boot_fail_after,
            "record_listings": 0 if seen is None else seen.record_listings,
        }

    def may_be_of(self, node: CloudNode) -> tuple[Record, ...]:
        """The records that name the node's id, and the one that its tag names."""
        if self._by_node is None:
            self._by_node = {}
            for record in self.history.records.items if self.history.records else ():
                self._by_node.setdefault(record.instance_id or record.uuid, []).append(record)
        named = self._by_node.get(node.tags.record or "", ())
        return (*self._by_node.get(node.id, ()), *named)
