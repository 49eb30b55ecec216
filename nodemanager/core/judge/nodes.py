"""The judge of nodes: which to shut down, and why the others stay (SAFETY.md D1, D7-D11)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from nodemanager.core.judge.node_view import (
    DYING,
    OUTSIDE,
    NodeView,
    Silence,
    Subject,
    opens_in,
    window_open,
)
from nodemanager.core.judge.preconditions import (
    Measured,
    RuleCheck,
    WaitHint,
    asked_by,
    rule_check,
    until,
    until_released,
)
from nodemanager.core.model.annotations import Mark, of_node
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.settings import CREATE_MARGIN_S, CREATE_WITHIN_S, Settings
from nodemanager.core.model.verdict import NOTHING_BEFORE, Verdict, keep
from nodemanager.core.model.world import CloudNode, CloudState, Record, WorkerState
from nodemanager.core.observe import scheduled
from nodemanager.core.observe.ended import unjoined_for, waits_to_join, was_ended
from nodemanager.core.observe.nodes_by_record import only_it_pings
from nodemanager.core.observe.pairing import Pairs
from nodemanager.core.observe.signs import age_of, quiet_for, silent_for, window_of
from nodemanager.core.observe.snapshot import Snapshot

# The facts and measurements that the nodes of one snapshot are judged by.


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
        record = self.pairs.record_of.get(node.id)
        if record is None:
            return Subject(node, None, WorkerState.UNKNOWN, self.before.get(node.id))
        state = scheduled.joined_state(record, self.snapshot, self.settings)
        return Subject(node, record, state, self.before.get(node.id))

    def unknown_why(self, subject: Subject) -> Reason:
        """Why it is not known what a node does whose pings are fresh (T6, D17).

        A node that the scheduler has not called up yet may take work soon, until its grace is over
        and an answer of since its first ping has not called it up.
        """
        if not self.settings.scheduled:
            return Reason.WORKER_UNKNOWN
        word = scheduled.report_on(subject.own, self.snapshot, self.settings)
        if word is not None and word.is_set_aside:
            return Reason.SET_ASIDE
        if waits_to_join(subject.own, self.history):
            age_s = self.age_of(subject)
            is_young = age_s is not None and age_s <= self.settings.boot_fail_after
            may_join = is_young or not self._was_told_of(subject.own)
            return Reason.BOOTING if may_join else Reason.UNJOINED
        if word is None:
            return Reason.UNSCHEDULED if self._is_unlisted(subject) else Reason.WORKER_UNKNOWN
        return Reason.DOWN_IN_SCHEDULER if scheduled.is_not_up(word.node) else Reason.WORKER_UNKNOWN

    def age_of(self, subject: Subject) -> float | None:
        """Seconds since the node's launch; None if not known."""
        return age_of(subject.node, subject.record, self.snapshot)

    def _was_told_of(self, record: Record) -> bool:
        """Whether the scheduler answered since the first ping of the record's node."""
        listing = self.history.scheduler
        return listing is not None and scheduled.pinged_by(record, self.history, listing.started_at)

    def _is_unlisted(self, subject: Subject) -> bool:
        """Whether a fresh answer of the scheduler lists no node with its hostname."""
        listing = scheduled.fresh_answer(self.snapshot, self.settings)
        if listing is None:
            return False
        if self._scheduled is None:
            self._scheduled = frozenset(node.name for node in listing.items)
        return subject.own.hostname not in self._scheduled

    def unjoined(self, subject: Subject) -> Measured:
        """How long the scheduler has said that the node is not up, and the limit (D17).

        None of it if the scheduler has called it up, or if nobody watched it from its boot on.
        """
        unjoined_s = unjoined_for(subject.own, self.snapshot, self.settings)
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
        record, settings = subject.own, self.settings
        launch = self.history.launches.get(subject.node.id)
        return Silence(
            silent_s=silent_for(record, self.history),
            window_s=settings.node_stale_after,
            quiet_s=quiet_for(record, self.snapshot),
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
        silent_s = silent_for(subject.own, self.history)
        if silent_s <= self.settings.node_stale_after / 2:
            return None
        return max(silent_s, self.silence_of(subject).quiet_s or 0.0)

    def down_for(self, subject: Subject) -> float:
        """For how many seconds the node has said that it is down, also while it booted (D9)."""
        heard = self.history.heard.get(subject.own.uuid)
        if heard is None or heard.down_since is None:
            return 0.0
        return self.now - heard.down_since

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
            for record in self.history.listed_records:
                self._by_node.setdefault(record.instance_id or record.uuid, []).append(record)
        named = self._by_node.get(node.tags.record or "", ())
        return (*self._by_node.get(node.id, ()), *named)


# The checks of any node: may it be touched? (SAFETY.md T3, T4, P3, C8, C9, D3, D11, O2)


Ask = Callable[[NodeFacts, Subject], NodeView | None]

NO_AGE = "not without a launch time from the cloud to count from"
GONE = "it is gone already"


TERMINATED = CloudState.TERMINATED
"""Looked up once, because every node is compared with it."""


@rule_check(
    "T4",
    "the cloud does not call it terminated",
    GONE,
    lambda facts, subject: {"state": subject.node.state.value},
    decisive=True,
)
def _present(facts: NodeFacts, subject: Subject) -> NodeView | None:
    if subject.node.state is TERMINATED:
        return subject.outside(Reason.NODE_ABSENT)
    return None


@rule_check(
    "T3",
    "it is of this pool, or matches [Cloud List]",
    "not by this manager: it is not of its pool",
    lambda facts, subject: {
        "pool": subject.node.tags.pool or "none",
        "ours": facts.settings.pool,
    },
    decisive=True,
)
def _ours(facts: NodeFacts, subject: Subject) -> NodeView | None:
    node = subject.node
    pool = node.tags.pool
    if (pool is not None and pool != facts.settings.pool) or not node.managed:
        return subject.outside(Reason.FOREIGN_NODE, pool=pool)
    return None


@rule_check(
    "C8",
    "no shutdown of it is under way",
    "its shutdown is under way",
    moot=lambda facts: not facts.snapshot.node_flights,
)
def _not_in_flight(facts: NodeFacts, subject: Subject) -> NodeView | None:
    node = subject.node
    if node.id in facts.snapshot.node_flights:
        verdict = Verdict(Kind.KEEP, Reason.SHUTTING_DOWN, node.id)
        return NodeView(node, verdict, WorkerState.DOWN, counts=False)
    return None


@rule_check(
    "D3",
    "the cloud, asked by id, still has it",
    GONE,
    moot=lambda facts: not (facts.snapshot.gone or facts.history.freed),
)
def _not_gone(facts: NodeFacts, subject: Subject) -> NodeView | None:
    snapshot, node = facts.snapshot, subject.node
    if snapshot.gone.get(node.id, -1.0) >= facts.listed_at or was_ended(node, snapshot):
        return subject.outside(Reason.NODE_ABSENT)
    return None


@rule_check(
    "C8", "listed since our last action for it", moot=lambda facts: not facts.snapshot.touched
)
def _untouched(facts: NodeFacts, subject: Subject) -> NodeView | None:
    if facts.snapshot.touched.get(subject.node.id, -1.0) >= facts.listed_at:
        return subject.kept(Reason.CHANGED_SINCE_LISTING)
    return None


@rule_check(
    "C9",
    "no operator holds it, nor its record",
    lambda facts, subject, measures: until_released(
        facts.snapshot.holds, subject.record or subject.node.tags.record, subject.node
    ),
)
def _free_of_holds(facts: NodeFacts, subject: Subject) -> NodeView | None:
    node, record = subject.node, subject.record
    holds = facts.snapshot.holds
    held = node.held or (record is not None and record.held)
    uuid = node.tags.record if record is None else record.uuid
    if held or (holds and (node.id in holds or uuid in holds)):
        return subject.kept(Reason.HELD)
    return None


@rule_check("P3", "all of it, and of its record, can be read", "not while part of it can't be read")
def _readable(facts: NodeFacts, subject: Subject) -> NodeView | None:
    node, record = subject.node, subject.record
    if node.problems or (record is not None and record.problems):
        problems = (*node.problems, *(record.problems if record is not None else ()))
        return subject.kept(Reason.UNREADABLE, detail="; ".join(problems))
    return None


def marked(
    marks: Callable[[NodeFacts], Mapping[str, Mark]],
) -> Callable[[NodeFacts, Subject], Measured]:
    """A `measure` of an operator's mark on the node: by whom, why, and how old."""

    def measured(facts: NodeFacts, subject: Subject) -> Measured:
        mark = of_node(marks(facts), subject.node)
        return {} if mark is None else mark.measures(facts.snapshot.wall)

    return measured


@rule_check(
    "O2",
    "an operator kills it, busy or not",
    "not before an operator kills it",
    marked(lambda facts: facts.snapshot.kills),
    moot=lambda facts: not facts.snapshot.kills,
    course="killed",
)
def _not_killed(facts: NodeFacts, subject: Subject) -> NodeView | None:
    """A kill ends the node, busy or not; an untagged one never (O2, D11)."""
    kill = of_node(facts.snapshot.kills, subject.node)
    if kill is None or subject.node.tags.pool is None:
        return None
    measures = kill.measures(facts.snapshot.wall)
    return ordered_away(subject, Verdict(Kind.SHUTDOWN, Reason.KILLED, subject.node.id, measures))


@rule_check(
    "O5",
    "no operator cordons it",
    "not before `nodemanager uncordon`",
    marked(lambda facts: facts.snapshot.drains),
    moot=lambda facts: not facts.snapshot.drains,
)
def _not_cordoned(facts: NodeFacts, subject: Subject) -> NodeView | None:
    """A cordoned node is kept, whatever its state (O5)."""
    mark = of_node(facts.snapshot.drains, subject.node)
    if mark is None or not mark.kept or subject.node.tags.pool is None:
        return None
    measures = mark.measures(facts.snapshot.wall)
    return ordered_away(subject, keep(subject.node.id, Reason.CORDONED, **measures))


def ordered_away(subject: Subject, ordered: Verdict | None) -> NodeView | None:
    """The view of a node that is ordered away, or out of use, which no longer counts; None without
    an order."""
    if ordered is None:
        return None
    view = subject.view(ordered)
    view.counts = False
    return view


@rule_check(
    "D11",
    "it has our pool's tag",
    "not before an operator adopts it: it has no tag of ours",
    lambda facts, subject: {"pool": subject.node.tags.pool or "none"},
)
def _tagged(facts: NodeFacts, subject: Subject) -> NodeView | None:
    if subject.node.tags.pool is None:
        view = subject.kept(Reason.UNTAGGED)
        # Unpaired, it costs money but serves nobody, as no record says what it does.
        view.counts = subject.record is not None
        return view
    return None


AT_ALL: tuple[RuleCheck[Ask], ...] = (
    _present,
    _ours,
    _not_in_flight,
    _not_gone,
    _untouched,
)
"""The checks of every node; the first that returns a verdict decides."""

ORDERS = frozenset({_free_of_holds.rule, _not_killed.rule, _not_cordoned.rule})
"""The rules by which a node has a verdict because an operator ordered something for it."""


# The checks of a node without a record (SAFETY.md D7, P2, P4); only one with our tag goes.


@rule_check(
    "P2",
    "no two records claim it",
    lambda facts, subject, measures: (
        f"not while more than one candidate is listed: {', '.join(measures['rivals'])}"
    ),
    moot=lambda facts: not facts.pairs.ambiguous,
)
def _unambiguous(facts: NodeFacts, subject: Subject) -> NodeView | None:
    node = subject.node
    if node.id in facts.pairs.ambiguous:
        view = subject.kept(Reason.AMBIGUOUS, rivals=facts.pairs.ambiguous[node.id])
        view.counts = node.tags.pool is not None
        return view
    return None


@rule_check(
    "D7",
    "no record that only it can be pinging is pinged",
    lambda facts, subject, measures: facts.settings.node_stale_after - measures["silent_s"],
    course="unpaired",
)
def _unheard(facts: NodeFacts, subject: Subject) -> NodeView | None:
    """An unpaired node is kept while a record that only it can be pinging is pinged (D7).

    A record that lost its claim or a node that lost a tag no longer pairs, but the node works on.
    """
    node, settings = subject.node, facts.settings
    for record in facts.may_be_of(node):
        if record.last_ping_at is None or not only_it_pings(node, record):
            continue
        # As in D8, time in which no ping could arrive does not count as silence.
        silent_s = silent_for(record, facts.history)
        if silent_s > settings.node_stale_after:
            continue
        busy = scheduled.joined_state(record, facts.snapshot, settings) is WorkerState.BUSY
        reason = Reason.BUSY if busy else Reason.WORKER_UNKNOWN
        return subject.kept(reason, record=record.uuid, silent_s=silent_s)
    return None


@rule_check(
    "D7",
    "the scheduler neither says that it works nor gives it work",
    "not before the scheduler has drained it, and it does no work",
    moot=lambda facts: not facts.settings.scheduled,
    course="unpaired",
)
def _not_in_work(facts: NodeFacts, subject: Subject) -> NodeView | None:
    """An unpaired node is kept while the scheduler has it at work, or gives it work (D7).

    Its hostname is that of a record that may be its own, or the one that its life had. If none is
    known, it may be that of any record without a node.
    """
    for record in facts.may_be_of(subject.node):
        if record.uuid in facts.pairs.node_of:
            continue
        word = scheduled.report_on(record, facts.snapshot, facts.settings)
        if word is not None and word.node.state is WorkerState.BUSY:
            return subject.kept(Reason.BUSY, record=record.uuid)
    for name in scheduled.names_of(subject.node, facts.history, facts.pairs.node_of):
        reported = scheduled.node_named(name, facts.snapshot, facts.settings)
        if reported is not None and scheduled.may_get_work(reported):
            is_busy = reported.state is WorkerState.BUSY
            return subject.kept(Reason.BUSY if is_busy else Reason.UP_IN_SCHEDULER, host=name)
    return None


@rule_check(
    "P4",
    "we did not just create it",
    "not before a record listing shows its claim",
    moot=lambda facts: not facts.snapshot.expected,
    course="unpaired",
)
def _unexpected(facts: NodeFacts, subject: Subject) -> NodeView | None:
    """A node of ours listed before a record poll shows its claim is booting, not unpaired (P4)."""
    node = subject.node
    expected = facts.snapshot.expected.get(node.tags.record or "")
    if expected is not None and expected.node_id == node.id:
        return subject.kept(Reason.BOOTING, age_s=facts.snapshot.now - expected.since)
    return None


@rule_check(
    "D7",
    "without its record for boot_fail_after, in two record listings",
    until("unpaired_s", "limit_s"),
    lambda facts, subject: {**facts.alone_for(subject.node), "needed_listings": 2},
    course="unpaired",
)
def _unpaired(facts: NodeFacts, subject: Subject) -> NodeView | None:
    node, settings = subject.node, facts.settings
    measures = facts.alone_for(node)
    since_s, listings = measures["unpaired_s"], measures["record_listings"]
    # It counts for D9 at half the time, so that a wave shows before its first victim.
    counts = since_s > settings.boot_fail_after / 2 and listings > 0
    if since_s <= settings.boot_fail_after or listings < 2:
        view = subject.view(Verdict(Kind.KEEP, Reason.UNPAIRED_WITHIN_WINDOW, node.id, measures))
        view.bad_s = since_s if counts else None
        # A node that we booted names its record. One that names none serves nobody unless it pairs.
        view.counts = node.tags.record is not None
        return view
    view = subject.down(Kind.SHUTDOWN, Reason.UNPAIRED, measures, bad_s=since_s)
    if settings.scheduled:
        view.hostnames = scheduled.names_of(node, facts.history, facts.pairs.node_of)
    return view


ALONE: tuple[RuleCheck[Ask], ...] = (
    _unambiguous,
    _tagged,
    _free_of_holds,
    _readable,
    _not_killed,
    _not_cordoned,
    _unheard,
    _not_in_work,
    _unexpected,
    _unpaired,
)
"""The checks of an unpaired node; the first that returns a verdict decides."""


# The checks of a paired node: is it booting, busy, idle or down? (SAFETY.md D1, D8, O1)


SILENT = "silent, or of unknown state"
NOT_UP = frozenset({Reason.UNJOINED, Reason.UNSCHEDULED})
"""The reasons to keep a node that its scheduler does not know as up: it satisfies nothing (D17)."""
BUSY, IDLE, AT_WORK = WorkerState.BUSY, WorkerState.IDLE, Reason.BUSY
"""Looked up once, because most nodes are busy."""


def _once_idle(
    subject: Subject, measures: Measured, goes: Reason, waits: Reason
) -> NodeView | None:
    """The shutdown of an idle node, the keeping of a busy one; None for any other state."""
    measures = {**measures, "state": subject.state.value}
    verdicts = {
        WorkerState.IDLE: Verdict(Kind.SHUTDOWN, goes, subject.node.id, measures),
        WorkerState.BUSY: Verdict(Kind.KEEP, waits, subject.node.id, measures),
    }
    return ordered_away(subject, verdicts.get(subject.state))


@rule_check(
    "O1",
    "an operator drains it, and it says that it is idle",
    "not while it says that it is busy",
    marked(lambda facts: facts.snapshot.drains),
    moot=lambda facts: not facts.snapshot.drains,
    course="draining",
)
def _not_drained(facts: NodeFacts, subject: Subject) -> NodeView | None:
    """A drained node goes once idle: demand, windows and idle counts do not matter (O1)."""
    drain = of_node(facts.snapshot.drains, subject.node)
    if drain is None or drain.kept or subject.node.tags.pool is None:
        return None
    measures = drain.measures(facts.snapshot.wall)
    return _once_idle(subject, measures, Reason.DRAINED, Reason.DRAINING)


def _notice(facts: NodeFacts, subject: Subject) -> Measured:
    """Why the cloud will take the node, and how soon; nothing without its notice."""
    notice = subject.own.notice
    if notice is None:
        return {}
    left = {} if notice.at is None else {"left_s": max(0.0, notice.at - facts.snapshot.wall)}
    return {"cause": notice.why.value, **left}


@rule_check(
    "D18",
    "its cloud will take it, and it says that it is idle",
    "not while it says that it is busy",
    _notice,
    course="leaving",
)
def _not_noticed(facts: NodeFacts, subject: Subject) -> NodeView | None:
    """A node that its cloud will take goes once idle, as a drained one does.

    Its job has the time that is left: nobody but the cloud ends it (D18).
    """
    measures = _notice(facts, subject)
    if not measures or subject.node.tags.pool is None:
        return None
    return _once_idle(subject, measures, Reason.NOTICED, Reason.LEAVING)


def _parked_for(facts: NodeFacts, subject: Subject) -> Measured:
    mark = facts.snapshot.parked
    return {} if mark is None else mark.measures(facts.snapshot.wall)


@rule_check(
    "O7",
    "the pool is parked, and it says that it is idle",
    "not while it says that it is busy",
    _parked_for,
    moot=lambda facts: facts.snapshot.parked is None,
    course="parking",
)
def _not_parked(facts: NodeFacts, subject: Subject) -> NodeView | None:
    """Each node of a parked pool goes once idle, as a drained one does (O7)."""
    measures = _parked_for(facts, subject)
    if not measures or subject.node.tags.pool is None:
        return None
    return _once_idle(subject, measures, Reason.PARKED, Reason.PARKING)


def _stopped_for(facts: NodeFacts, subject: Subject) -> Measured:
    return facts.stopped(subject.node) or {"state": subject.node.state.value}


@rule_check(
    "D1",
    "stopped in the cloud for settle",
    until("stopped_s", "settle_s"),
    _stopped_for,
    moot=lambda facts: not facts.history.stopped,
    course="stopped",
)
def _up(facts: NodeFacts, subject: Subject) -> NodeView | None:
    """A node that was stopped, suspended or in error for `settle` is down (D1).

    It counts for D9 as soon as it is seen so: a mass failure shows before the first destroy.
    """
    measures: Measured | None = facts.stopped(subject.node)
    if measures is None:
        return None
    stopped_s, settle_s = measures["stopped_s"], measures["settle_s"]
    if subject.node.why:
        measures = {**measures, "detail": subject.node.why}
    if stopped_s < settle_s:
        return subject.down(Kind.KEEP, Reason.NOT_SETTLED, measures, bad_s=stopped_s)
    return subject.down(Kind.SHUTDOWN, Reason.NODE_STOPPED, measures, bad_s=stopped_s)


def _booting_for(facts: NodeFacts, subject: Subject) -> Measured:
    """How long the node has been booting, since its claim or its late launch, and the limit (D8).

    A late create must not leave its node less time to boot. No launch is believed to be later than
    creates may take effect, whatever the cloud's clock says (A2). A launch within a minute of the
    claim is not late (U5).
    """
    limit_s, age_s = facts.settings.boot_fail_after, facts.age_of(subject)
    silent_s = silent_for(subject.own, facts.history)
    if age_s is not None:
        late_s = min(silent_s - age_s, limit_s + CREATE_MARGIN_S)
        if late_s > CREATE_WITHIN_S:
            silent_s -= late_s
    return {"silent_s": silent_s, "limit_s": limit_s}


def _until_booted(facts: NodeFacts, subject: Subject, measures: Measured) -> WaitHint:
    if facts.clock is None:
        return "not before the store's clock was read"
    return until("silent_s", "limit_s")(facts, subject, measures)


@rule_check("D8", "never pinged for boot_fail_after", _until_booted, _booting_for, course="booting")
def _heard_of(facts: NodeFacts, subject: Subject) -> NodeView | None:
    """A node that never pinged is booting, and after `boot_fail_after` a failed boot (D8)."""
    record = subject.own
    if record.last_ping_at is not None or record.first_ping_at is not None:
        return None
    if subject.state is BUSY:
        # The scheduler says so: it works, whatever keeps it from pinging.
        return None
    measures = _booting_for(facts, subject)
    silent_s, limit_s = measures["silent_s"], measures["limit_s"]
    if silent_s <= limit_s or facts.clock is None:
        verdict = Verdict(Kind.KEEP, Reason.BOOTING, subject.node.id, measures)
        return NodeView(subject.node, verdict, WorkerState.UNKNOWN, record=record)
    # One that was heard, whatever has forgotten it since, counts as one that fell silent (D9).
    bad_s = silent_s if _was_heard(facts, record) else None
    return subject.down(Kind.SHUTDOWN, Reason.BOOT_FAILED, measures, bad_s=bad_s)


def _was_heard(facts: NodeFacts, record: Record) -> bool:
    """Whether an earlier listing showed a sign of this life of the record."""
    heard = facts.history.heard.get(record.uuid)
    if heard is None or heard.incarnation != record.incarnation:
        return False
    return heard.before_at > float("-inf")


def _said_of_power(facts: NodeFacts, subject: Subject) -> Measured:
    word = scheduled.suspended_word(subject.own, facts.snapshot, facts.settings)
    return {} if word is None else {"state": word.node.said}


@rule_check(
    "D12",
    "its scheduler has switched it off",
    "not before its scheduler switches it off",
    _said_of_power,
    moot=lambda facts: not facts.settings.scheduled,
    course="suspended",
)
def _not_suspended(facts: NodeFacts, subject: Subject) -> NodeView | None:
    """A node that its scheduler has switched off gets no more work, whoever would keep it (D12).

    The scheduler starts its next work only on a new machine, and may want that soon.
    """
    if subject.state is BUSY:
        return None
    word = scheduled.suspended_word(subject.own, facts.snapshot, facts.settings)
    if word is None:
        return None
    measures = {"state": word.node.said}
    return ordered_away(
        subject, Verdict(Kind.SHUTDOWN, Reason.SUSPENDED, subject.node.id, measures)
    )


@rule_check(
    "D1",
    "it does not say that it is busy",
    "not while it says that it is busy",
    lambda facts, subject: {"state": subject.state.value},
    course="busy",
)
def _not_at_work(facts: NodeFacts, subject: Subject) -> NodeView | None:
    return subject.kept(AT_WORK) if subject.state is BUSY else None


def _idle_for(facts: NodeFacts, subject: Subject) -> Measured:
    needed = facts.settings.consecutive_idle_count
    idle = scheduled.idle_count(subject.own, facts.snapshot, facts.settings)
    return {"idle_polls": idle, "needed_polls": needed}


def _until_idle(facts: NodeFacts, subject: Subject, measures: Measured) -> WaitHint:
    left = measures["needed_polls"] - measures["idle_polls"]
    says = "say" if left > 1 else "says"
    of = "the scheduler's answers" if facts.settings.scheduled else "its pings"
    return f"not before {left} more of {of} {says} that it is idle"


@rule_check("D1", "idle in consecutive_idle_count pings", _until_idle, _idle_for, course="idle")
def _idle_for_long(facts: NodeFacts, subject: Subject) -> NodeView | None:
    if subject.state is not IDLE:
        return None
    measures = _idle_for(facts, subject)
    if measures["idle_polls"] < measures["needed_polls"]:
        return subject.kept(Reason.NOT_IDLE_LONG, **measures)
    return None


@rule_check("P3", "the cloud says when it was launched", NO_AGE, course="idle")
def _idle_of_known_age(facts: NodeFacts, subject: Subject) -> NodeView | None:
    if subject.state is IDLE and subject.node.created_at is None:
        return subject.kept(Reason.NO_LAUNCH_TIME)
    return None


def _window(facts: NodeFacts, subject: Subject) -> Measured:
    age_s, windows = facts.age_of(subject), facts.settings.shutdown_windows
    return {} if age_s is None else {"age_s": age_s, "opens_in_s": opens_in(age_s, windows)}


@rule_check(
    "D1",
    "its shutdown window is open",
    lambda facts, subject, measures: measures.get("opens_in_s", 0.0),
    _window,
    course="idle",
)
def _idle_in_its_window(facts: NodeFacts, subject: Subject) -> NodeView | None:
    age_s = facts.age_of(subject)
    if subject.state is not IDLE or age_s is None:
        return None
    if not window_open(age_s, facts.settings.shutdown_windows):
        return subject.kept(Reason.WINDOW_CLOSED, age_s=age_s)
    return None


@rule_check("D1", "demand does not want it", "not while demand wants it", course="idle")
def _not_needed(facts: NodeFacts, subject: Subject) -> NodeView | None:
    """An idle node counts as needed until the plan compares it with the demand (D1)."""
    if subject.state is not IDLE:
        return None
    view = subject.kept(Reason.NEEDED)
    view.surplus_if_idle = True
    return view


def _until_unjoined(facts: NodeFacts, subject: Subject, measures: Measured) -> WaitHint:
    if not measures:
        return "not unless its scheduler says that it never was up"
    return until("unjoined_s", "limit_s")(facts, subject, measures)


@rule_check(
    "D17",
    "never up in its scheduler for boot_fail_after",
    _until_unjoined,
    lambda facts, subject: facts.unjoined(subject),
    moot=lambda facts: not facts.history.unjoined,
    course="unjoined",
)
def _joins(facts: NodeFacts, subject: Subject) -> NodeView | None:
    """A node that pings, and that its scheduler never called up in its grace, has failed (D17).

    It was heard, so it counts for D9: a scheduler that reaches no node must not end them all. One
    that is silent, too, goes for its silence (D8).
    """
    measures = facts.unjoined(subject)
    if not measures or measures["unjoined_s"] <= measures["limit_s"]:
        return None
    if facts.counted_silence(subject) is not None:
        return None
    bad_s = measures["unjoined_s"]
    return subject.down(Kind.SHUTDOWN, Reason.NOT_JOINED, measures, bad_s=bad_s)


@rule_check(
    "T1", "the store's clock is known", "not before the store's clock was read", course=SILENT
)
def _on_a_known_clock(facts: NodeFacts, subject: Subject) -> NodeView | None:
    return subject.kept(Reason.CLOCK_UNKNOWN) if facts.clock is None else None


def _silent_for(facts: NodeFacts, subject: Subject) -> Measured:
    return facts.silence_of(subject).measures


def _until_down(facts: NodeFacts, subject: Subject, measures: Measured) -> WaitHint:
    if measures["age_s"] is None:
        return NO_AGE
    return until("age_s", "limit_s")(facts, subject, measures)


@rule_check(
    "D1",
    "its fresh ping says fail, or says down past boot_fail_after from launch",
    _until_down,
    _silent_for,
    course="down",
)
def _not_down(facts: NodeFacts, subject: Subject) -> NodeView | None:
    if subject.state is not WorkerState.DOWN:
        return None
    silence = facts.silence_of(subject)
    # A node that reports `fail` will not recover by waiting.
    past_grace = silence.is_past_grace or subject.own.failed
    measures = {
        "state": subject.state.value,
        "age_s": silence.age_s,
        "limit_s": silence.grace_s,
    }
    down_s = facts.down_for(subject)
    if past_grace:
        return subject.down(Kind.SHUTDOWN, Reason.NODE_DOWN, measures, bad_s=down_s)
    view = subject.view(Verdict(Kind.KEEP, Reason.BOOTING, subject.node.id, measures))
    if silence.seen_s > silence.grace_s:
        # It is in its grace again, by a jump of a clock, and turned down all the same (D9).
        view.bad_s = down_s
    return view


def _until_silent(facts: NodeFacts, subject: Subject, measures: Measured) -> WaitHint:
    silence = facts.silence_of(subject)
    if silence.quiet_s is None:
        return "not while the store gives no modified_at for its record"
    if silence.age_s is None:
        return NO_AGE
    return max(
        silence.window_s - silence.silent_s,
        silence.quiet_window_s - silence.quiet_s,
        silence.grace_s - silence.age_s,
    )


@rule_check(
    "D8",
    "silent, its record stale, and past boot_fail_after",
    _until_silent,
    _silent_for,
    course=SILENT,
)
def _not_silent(facts: NodeFacts, subject: Subject) -> NodeView | None:
    silence = facts.silence_of(subject)
    is_stale, silent_s, limit_s = silence.is_stale, silence.silent_s, silence.window_s
    measures: dict[str, Any] = {"silent_s": silent_s, "window_s": limit_s}
    bad_s = facts.counted_silence(subject)
    if is_stale and silent_s > limit_s and silence.is_past_grace:
        measures["idle_s"] = silence.quiet_s
        return subject.down(Kind.SHUTDOWN, Reason.NODE_DOWN, measures, bad_s=bad_s)
    if is_stale and silent_s > limit_s and silence.age_s is None:
        reason = Reason.NO_LAUNCH_TIME
    else:
        waits = is_stale or bad_s is not None
        reason = Reason.SILENT_WITHIN_WINDOW if waits else facts.unknown_why(subject)
    if reason is Reason.UNJOINED:
        measures |= facts.unjoined(subject)
    verdict = Verdict(Kind.KEEP, reason, subject.node.id, measures)
    view = NodeView(subject.node, verdict, WorkerState.UNKNOWN, record=subject.own)
    view.bad_s = bad_s
    view.counts = reason not in NOT_UP
    return view


PAIRED: tuple[RuleCheck[Ask], ...] = (
    _free_of_holds,
    _readable,
    _not_killed,
    _not_cordoned,
    _up,
    _tagged,
    _heard_of,
    _not_drained,
    _not_noticed,
    _not_parked,
    _not_suspended,
    _not_at_work,
    _idle_for_long,
    _idle_of_known_age,
    _idle_in_its_window,
    _not_needed,
    _joins,
    _on_a_known_clock,
    _not_down,
    _not_silent,
)
"""The checks of a paired node; the first that returns a verdict decides."""


UNKNOWN = WorkerState.UNKNOWN
RUNNING = CloudState.RUNNING
CHANGED = Reason.CHANGED_SINCE_LISTING
"""Looked up once, because every node is compared with them."""
EDGE_S = 1.0
"""How far from the end of its window a ping must be to count as fresh without being measured."""


def is_leaving(node: CloudNode, record: Record | None, snapshot: Snapshot) -> bool:
    """Whether a node takes no more work, even if demand wants it (O1, O5, D18).

    An operator drains or cordons it, or its cloud will take it.
    """
    if snapshot.drains and of_node(snapshot.drains, node) is not None:
        return True
    return record is not None and record.notice is not None and node.tags.pool is not None


class NodeJudge:
    """Judges the nodes of one snapshot; built once per plan.

    It asks the checks of AT_ALL, then those of PAIRED or ALONE.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        settings: Settings,
        pairs: Pairs,
        before: Mapping[str, Verdict] = NOTHING_BEFORE,
    ) -> None:
        # Of a parked pool no verdict from before is believed without asking all checks.
        known = before if snapshot.parked is None else NOTHING_BEFORE
        self._facts = NodeFacts(snapshot, settings, pairs, known)
        self._at_all = asked_by(self._facts, AT_ALL)
        self._paired = asked_by(self._facts, PAIRED)
        self._alone = asked_by(self._facts, ALONE)
        history, clock = snapshot.history, snapshot.history.clock
        self._concerned = frozenset().union(
            *(snapshot.node_flights, snapshot.gone, snapshot.touched, snapshot.holds),
            *(snapshot.kills, snapshot.drains),
            [life.node_id for life in history.freed.values()],
        )
        """The ids of all nodes, and of some records, that something besides the polls concerns."""
        fresh_s = settings.node_stale_after - EDGE_S
        self._pinged_at = (1.0, 0.0)
        """Between these stamps a ping is fresh for certain, and none is without a clock."""
        if clock is not None:
            self._pinged_at = clock.now(snapshot.now - fresh_s), clock.now(snapshot.now)
        self._seen_at = snapshot.now - fresh_s

    def view(self, node: CloudNode) -> NodeView:
        """The view of the node, with its verdict before demand, caps and breakers apply."""
        facts, node_id = self._facts, node.id
        record, before = facts.pairs.record_of.get(node_id), facts.before.get(node_id)
        if record is None or before is None or not self._works_on(node, record, before):
            return self._judged(node)
        return NodeView(node, before, BUSY, True, False, None, record)

    def _works_on(self, node: CloudNode, record: Record, before: Verdict) -> bool:
        """Whether a node that was kept as busy says so still, and nothing else concerns it.

        So it is with most nodes. All checks, which take four times as long, would say the same.
        """
        if before.reason is not AT_WORK or before.measures is not None:
            return False
        if record.worker_state is not BUSY or node.state is not RUNNING or not node.managed:
            return False
        if node.held or record.held or node.problems or record.problems or record.notice:
            return False
        facts = self._facts
        heard, stamp = facts.history.heard.get(record.uuid), record.last_ping_at
        if heard is None or stamp is None or node.tags.pool != facts.settings.pool:
            return False
        oldest, newest = self._pinged_at
        if not oldest < stamp <= newest or heard.seen_at < self._seen_at:
            return False
        if facts.history.answered_s - heard.answered_s > facts.settings.node_stale_after / 2:
            return False
        concerned = self._concerned
        return not concerned or not (node.id in concerned or record.uuid in concerned)

    def _judged(self, node: CloudNode) -> NodeView:
        subject = self._facts.subject(node)
        seen = self._checked(node, subject)
        snapshot = self._facts.snapshot
        parks = snapshot.parked is not None and seen.verdict.reason not in OUTSIDE
        if parks or is_leaving(node, subject.record, snapshot):
            seen.leaves = True
            seen.counts = seen.surplus_if_idle = False
        return seen

    def _checked(self, node: CloudNode, subject: Subject) -> NodeView:
        facts = self._facts
        for check in self._at_all:
            outside = check.ask(facts, subject)
            if outside is not None:
                outside.verdict = check.bears(outside.verdict)
                if outside.verdict.reason is CHANGED:
                    outside.beneath = self._but_for_orders(subject).verdict.reason
                return outside
        seen = self._first(self._alone if subject.record is None else self._paired, subject)
        if seen.verdict.rule in ORDERS:
            # Whatever an operator orders for a node, its silence still counts for D9, and a booting
            # one is still on its way to its job.
            beneath = self._but_for_orders(subject)
            seen.bad_s, seen.beneath = beneath.bad_s, beneath.verdict.reason
        if seen.bad_s is None and subject.state is not UNKNOWN:
            seen.bad_s = facts.counted_silence(subject)
        if node.state in DYING:
            seen.counts = seen.surplus_if_idle = False
        return seen

    def _first(self, checks: Iterable[RuleCheck[Ask]], subject: Subject) -> NodeView:
        """The first view that a check returns; the last check of each table always returns one."""
        for check in checks:
            seen = check.ask(self._facts, subject)
            if seen is not None:
                seen.verdict = check.bears(seen.verdict)
                return seen
        raise AssertionError("the last of a table has a word on everything")

    def _but_for_orders(self, subject: Subject) -> NodeView:
        table: tuple[RuleCheck[Ask], ...] = ALONE if subject.record is None else PAIRED
        others = [one for one in table if one.rule not in ORDERS]
        return self._first(asked_by(self._facts, others), subject)
