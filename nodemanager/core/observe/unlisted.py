"""Records that should have a listed node but have none (SAFETY.md P6, D13).

They keep pinging, or they were claimed and their node has not pinged for `boot_fail_after`. The
cloud is asked for them by id and by tag. If it has a node of ours that it does not list, the
listing is short, and whatever depends on listings waits until it is whole. If it denies a pinging
node for longer than `node_stale_after`, there is no such node: somebody else has the secret. If it
has a node that never pinged or fell silent, that node is judged as if it were listed; for one that
fell silent the answer comes from the pre-write check of its record's clean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.settings import ASK_LIMIT, Settings
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.model.world import CloudNode, Record, life_key
from nodemanager.core.observe import signs
from nodemanager.core.observe.clocks import MeasuredClock
from nodemanager.core.observe.history import Asked, History
from nodemanager.core.observe.listing_history import Absence
from nodemanager.core.observe.nodes_by_record import is_anothers, may_be_of
from nodemanager.core.observe.pings import came_at
from nodemanager.core.observe.pools import not_ours
from nodemanager.core.observe.queries import may_ask
from nodemanager.core.observe.snapshot import Snapshot

UNLISTED_LISTINGS = 2
"""This many complete listings must lack the node, with a ping after the first of them (P6)."""


@dataclass(frozen=True, slots=True)
class Unlisted:
    """What the cloud answered about such records, and which to ask for next.

    `verdicts` are by record uuid; a PINGING_UNLISTED one measures in `denied_s` how long its node
    was denied without a break, by id and by tag. `ask` are node ids, `ask_tagged` record uuids.
    `unheard` are existing nodes, by record uuid, that did not ping in time or fell silent (D13).
    """

    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    ask: tuple[str, ...] = ()
    ask_tagged: tuple[str, ...] = ()
    unheard: Mapping[str, CloudNode] = field(default_factory=dict)

    @property
    def short(self) -> bool:
        """Whether the listing lacks an existing node that has our tag."""
        return any(one.reason is Reason.LISTING_SHORT for one in self.verdicts.values())

    @property
    def gone(self) -> frozenset[str]:
        """The uuids of records whose node the cloud denies."""
        denied = (one.id for one in self.verdicts.values() if one.reason is Reason.PINGING_UNLISTED)
        return frozenset(denied)

    @property
    def untagged(self) -> frozenset[str]:
        """The uuids of records whose node the cloud has, but without our tag."""
        return frozenset(key for key, one in self.verdicts.items() if one.reason is Reason.UNTAGGED)


NOTHING = Unlisted()


def look_for_unlisted(snapshot: Snapshot, settings: Settings) -> Unlisted:
    """The records of this pool that should have a listed node, and the cloud's answers on them."""
    history, now = snapshot.history, snapshot.now
    if not history.absence or history.records is None or history.clock is None:
        return NOTHING
    verdicts: dict[str, Verdict] = {}
    unheard: dict[str, CloudNode] = {}
    ask: list[str] = []
    ask_tagged: list[str] = []
    for record, absence in _missed(history.records.items, history.absence):
        if _is_explained(record, snapshot, settings):
            continue
        verdict = _verdict(record, absence.first_at, snapshot, settings)
        if verdict is not None:
            verdicts[record.uuid] = verdict
        node = _unheard(record, snapshot, settings)
        if node is not None:
            unheard[record.uuid] = node
        node_id = id_to_ask_by(record, snapshot)
        is_asked_for = _is_alive(verdict)
        is_asked_for |= _is_missing(record, absence.first_at, snapshot, settings)
        by_id = is_asked_for or _should_be_listed(record, snapshot, settings)
        by_id = by_id or _may_be_lost(record, snapshot, settings)
        if by_id and node_id is not None and may_ask(history, node_id, now, settings):
            ask.append(node_id)
        if is_asked_for and may_ask(history, record.uuid, now, settings):
            ask_tagged.append(record.uuid)
    ids, tagged = _longest_unasked(ask, history), _longest_unasked(ask_tagged, history)
    return Unlisted(verdicts, ids, tagged, unheard)


def _missed(
    records: Iterable[Record], absences: Mapping[str, Absence]
) -> Iterator[tuple[Record, Absence]]:
    """The records whose node more than one listing lacked, at any time."""
    for record in records:
        absence = absences.get(record.uuid)
        if absence is None or absence.incarnation != record.incarnation:
            continue
        if absence.listings >= UNLISTED_LISTINGS or absence.unlisted_since != absence.first_at:
            yield record, absence


def id_of(record: Record, snapshot: Snapshot) -> str | None:
    """The id of the record's node: from its claim or a ping, else from the create's answer."""
    expected = snapshot.expected.get(record.uuid)
    if record.instance_id is not None or expected is None:
        return record.instance_id
    return expected.node_id if expected.incarnation == record.incarnation else None


def id_to_ask_by(record: Record, snapshot: Snapshot) -> str | None:
    """The id of the record's node, or else of the one that was listed before it was absent.

    The second is good for asking what became of it. It proves no pairing: nothing but a listing
    named it.
    """
    node_id = id_of(record, snapshot)
    if node_id is not None:
        return node_id
    absence = _absence_of(record, snapshot)
    return None if absence is None else absence.node_id


def _absence_of(record: Record, snapshot: Snapshot) -> Absence | None:
    absence = snapshot.history.absence.get(record.uuid)
    is_of_it = absence is not None and absence.incarnation == record.incarnation
    return absence if is_of_it else None


def overdue_s(record: Record, snapshot: Snapshot, settings: Settings) -> float:
    """Seconds by which its silence exceeds boot_fail_after, or the window once it pinged (D8)."""
    boots = signs.waits_for_first_ping(record)
    limit_s = settings.boot_fail_after if boots else settings.node_stale_after
    return signs.silent_for(record, snapshot.history) - limit_s


def _unheard(record: Record, snapshot: Snapshot, settings: Settings) -> CloudNode | None:
    """The claim's node, if the cloud showed exactly one when its ping was overdue (D13)."""
    found: dict[str, CloudNode] = {}
    if record.claim is None:
        return None
    fresh_s = min(overdue_s(record, snapshot, settings), settings.poll_stale_after)
    tags = record.uuid, record.incarnation
    for node in _answered(_keys(record, snapshot), snapshot, fresh_s):
        before = found.get(node.id)
        if node.is_absent or (before is not None and before.held):
            # Either answer may be the older one: a hold in one of them counts (C9).
            continue
        if (node.tags.record, node.tags.incarnation) == tags:
            found[node.id] = node
    # Two candidates are ambiguous (P2).
    return found.popitem()[1] if len(found) == 1 else None


def _answered(
    keys: Iterable[str | None], snapshot: Snapshot, fresh_s: float
) -> Iterator[CloudNode]:
    """The nodes in the last answers for `keys`: less than `fresh_s` old and not listed since."""
    for key in keys:
        answer = snapshot.history.asked.get(key or "")
        if answer is not None and not answer.is_past and snapshot.now - answer.said_at < fresh_s:
            yield from answer.nodes


def is_answered_held(
    node_id: str, uuid: str | None, snapshot: Snapshot, settings: Settings
) -> bool:
    """Whether a fresh answer by id or tag showed the node, not listed since, on hold (C9)."""
    nodes = _answered((node_id, uuid), snapshot, settings.poll_stale_after)
    return any(node.held for node in nodes if node.id == node_id)


def _longest_unasked(keys: list[str], history: History) -> tuple[str, ...]:
    """The ASK_LIMIT keys that were asked least recently."""

    if not keys:
        return ()

    def turn(key: str) -> tuple[float, str]:
        before = history.asked.get(key)
        return (float("-inf") if before is None else before.at), key

    return tuple(sorted(keys, key=turn)[:ASK_LIMIT])


def _is_alive(verdict: Verdict | None) -> bool:
    return verdict is not None and verdict.reason is not Reason.PINGING_UNLISTED


def _is_explained(record: Record, snapshot: Snapshot, settings: Settings) -> bool:
    """Whether the record is not ours, or its node's absence may be our own doing."""
    if not_ours(record, settings.pool, settings.adopt_unclaimed) is not None:
        return True
    uuid, node_id = record.uuid, record.instance_id
    if uuid in snapshot.record_flights or uuid in snapshot.touched:
        return True
    return node_id is not None and (node_id in snapshot.gone or node_id in snapshot.node_flights)


def _is_missing(record: Record, since: float, snapshot: Snapshot, settings: Settings) -> bool:
    """Whether its node should be listed: the first ping is overdue, or it keeps pinging."""
    if signs.waits_for_first_ping(record):
        return overdue_s(record, snapshot, settings) > 0
    return _keeps_pinging(record, since, snapshot, settings)


def _should_be_listed(record: Record, snapshot: Snapshot, settings: Settings) -> bool:
    """Whether its node has been there for longer than `visible_after`, and did not ping yet.

    It may have ended in its set-up: then another one is booted soon (`ended_lives`).
    """
    since = there_since(record, snapshot)
    if since is None or not signs.waits_for_first_ping(record):
        return False
    if life_key(record.uuid, record.incarnation) in snapshot.history.ended_lives:
        return False
    return snapshot.now - since > settings.visible_after


def _may_be_lost(record: Record, snapshot: Snapshot, settings: Settings) -> bool:
    """Whether its node pinged within its window, and is not known to have ended since."""
    if life_key(record.uuid, record.incarnation) in snapshot.history.ended_lives:
        return False
    if snapshot.now <= _visible_from(record, snapshot, settings):
        return False
    return _is_within_window(record, snapshot, settings)


def _is_within_window(record: Record, snapshot: Snapshot, settings: Settings) -> bool:
    """Whether its node pinged within `node_stale_after`."""
    clock, last = snapshot.history.clock, record.last_ping_at
    if clock is None or last is None:
        return False
    return clock.age(last, snapshot.now) <= settings.node_stale_after


def created_by(record: Record, snapshot: Snapshot, settings: Settings) -> float | None:
    """A CLOCK_BOOTTIME by which the record's node was created; None where nothing tells."""
    since = there_since(record, snapshot)
    pinged_by = _visible_from(record, snapshot, settings) - settings.visible_after
    return None if since is None else min(since, pinged_by)


def there_since(record: Record, snapshot: Snapshot) -> float | None:
    """A CLOCK_BOOTTIME by which the record's node was created; None where nothing tells.

    Its create was answered; or its record names it, or a listing has shown it.
    """
    expected = snapshot.expected.get(record.uuid)
    if expected is not None and expected.incarnation == record.incarnation:
        return None if expected.node_id is None else expected.since
    missed = _absence_of(record, snapshot)
    if missed is None or (record.instance_id is None and missed.node_id is None):
        return None
    return missed.unlisted_since


def _keeps_pinging(record: Record, since: float, snapshot: Snapshot, settings: Settings) -> bool:
    """Whether it pinged within its window and after the listing at `since`; not just booted."""
    if snapshot.now <= _visible_from(record, snapshot, settings):
        return False
    is_fresh = _pinged_ago(record, snapshot) <= settings.node_stale_after
    return is_fresh and _pinged_since(record, since, snapshot)


def _pinged_since(record: Record, since: float, snapshot: Snapshot) -> bool:
    """Whether its last ping surely came after that time, CLOCK_BOOTTIME."""
    return _pinged_ago(record, snapshot) < snapshot.now - since


def _pinged_ago(record: Record, snapshot: Snapshot) -> float:
    """Seconds since its last ping, never too few; infinite where nothing tells."""
    clock, last = snapshot.history.clock, record.last_ping_at
    if clock is None or last is None:
        return float("inf")
    return heard_ago(record, last, clock, snapshot.history, snapshot.now) + 2 * clock.error_s


def _visible_from(record: Record, snapshot: Snapshot, settings: Settings) -> float:
    """When the cloud must show the record's node: visible_after past its first ping (A1).

    The first ping may be missing, because somebody removed it, or ahead of a clock that was set
    back. Or each ping is the first again, because another node takes the record's address. So the
    first one that this run saw counts too: the node is at least as old.
    """
    clock, first, now = snapshot.history.clock, record.first_ping_at, snapshot.now
    if clock is None or signs.waits_for_first_ping(record):
        return float("inf")
    since = now if first is None else clock.since(first, now)
    heard = snapshot.history.heard.get(record.uuid)
    if heard is not None and heard.incarnation == record.incarnation:
        since = min(since, now if heard.pinged_since is None else heard.pinged_since)
    return since + settings.visible_after


def _alive(answer: Asked, record: Record, node_id: str | None) -> list[CloudNode]:
    """The nodes of the answer that are there and may be the record's own."""
    there = (node for node in answer.nodes if not node.is_absent)
    return [node for node in there if may_be_of(node, record, (node_id,))]


def _verdict(
    record: Record, absent_since: float, snapshot: Snapshot, settings: Settings
) -> Verdict | None:
    """The verdict on the cloud's answers by id and by tag; None without one since the absence.

    No denial counts in the first `visible_after` of the node's life: a node that came late may have
    been asked for, and denied, before it was there (A1, C11).
    """
    now, node_id = snapshot.now, id_of(record, snapshot)
    if signs.waits_for_first_ping(record) and overdue_s(record, snapshot, settings) <= 0:
        return None
    pinged = record.last_ping_at is not None
    is_silent = pinged and not _pinged_since(record, absent_since, snapshot)
    if is_silent and _is_within_window(record, snapshot, settings):
        # It fell silent with its node, which is asked for to tell whether it is lost. Its slot is
        # not due, and before each clean the cloud is asked for that record's own node (C11).
        return None
    visible_from = _visible_from(record, snapshot, settings)
    asked = [snapshot.history.asked.get(key) for key in _keys(record, snapshot)]
    answers = [one for one in asked if one is not None and not one.malformed]
    denied: Asked | None = None
    for answer in answers:
        alive = _alive(answer, record, node_id)
        late = answer.said_at <= absent_since
        # A denial from before the absence does not count; a node found counts until it is denied.
        if alive and not (late and answer.is_past):
            return _found(record, alive[0], answer, snapshot, settings)
        if not alive and not late and (denied is None or answer.at > denied.at):
            denied = answer
    if denied is None or denied.said_at <= visible_from or is_silent:
        return None
    denied_s = denied_for(record, asked, max(absent_since, visible_from), now, settings)
    return _pings_unlisted(record, denied, denied_s, now, settings)


def _pings_unlisted(
    record: Record, denied: Asked, denied_s: float | None, now: float, settings: Settings
) -> Verdict:
    measures: dict[str, object] = {"age_s": now - denied.at, "attempt": denied.times}
    if denied_s is not None:
        measures |= {"denied_s": denied_s, "limit_s": settings.node_stale_after}
    return Verdict(Kind.KEEP, Reason.PINGING_UNLISTED, record.uuid, measures)


def _keys(record: Record, snapshot: Snapshot) -> tuple[str, ...]:
    node_id = id_of(record, snapshot)
    return (record.uuid,) if node_id is None else (node_id, record.uuid)


def denied_for(
    record: Record,
    asked: Iterable[Asked | None],
    absent_since: float,
    now: float,
    settings: Settings,
) -> float | None:
    """How many seconds the cloud has denied the record's node without a break, by id and tag (P6).

    None if it was not denied by all there is to ask by, if an answer is old, or if the record has
    neither claim nor instance id: a node from before our time has no tag.
    """
    if record.claim is None and record.instance_id is None:
        return None
    since = absent_since
    for answer in asked:
        if answer is not None and record.claim is not None and _is_no_id_of(record, answer):
            continue
        if answer is None or answer.denied_since is None:
            return None
        if now - answer.said_at > settings.poll_stale_after:
            return None
        since = max(since, answer.denied_since)
    return now - since


def _is_no_id_of(record: Record, answer: Asked) -> bool:
    """Whether the id asked for is no node's id, or the id of another record's node."""
    return answer.malformed or any(is_anothers(node, record) for node in answer.nodes)


def _found(
    record: Record, node: CloudNode, answer: Asked, snapshot: Snapshot, settings: Settings
) -> Verdict:
    ours = node.tags.record == record.uuid and node.tags.pool == settings.pool
    reason = Reason.LISTING_SHORT if ours else Reason.UNTAGGED
    age_s = snapshot.now - answer.at
    measures = {"age_s": age_s, "attempt": answer.times, "node": node.id, "state": node.state.value}
    return Verdict(Kind.KEEP, reason, record.uuid, measures)


def is_denied_for_good(verdict: Verdict | None, settings: Settings) -> bool:
    """Whether its node was denied for longer than the window, so that pings prove nothing (P6)."""
    if verdict is None or verdict.reason is not Reason.PINGING_UNLISTED:
        return False
    denied_s = (verdict.measures or {}).get("denied_s", 0.0)
    return bool(denied_s > settings.node_stale_after)


def is_missed(record: Record, snapshot: Snapshot, settings: Settings) -> bool:
    """Whether its node is absent from enough listings, for `settle`, without a ping since.

    The first `visible_after` of a node's life does not count: no listing need show it yet.
    """
    history, now = snapshot.history, snapshot.now
    absence, clock, stamp = history.absence.get(record.uuid), history.clock, record.last_ping_at
    if history.records is None or absence is None or absence.incarnation != record.incarnation:
        return False
    if absence.listings < settings.absent_listings:
        return False
    since = absence.first_at
    if stamp is not None:
        if clock is None:
            return False
        heard_s = heard_ago(record, stamp, clock, history, now)
        # A gap starts the absence again, but the node lived on after a listing that lacked it.
        if heard_s < now - absence.unlisted_since:
            return False
        first = stamp if record.first_ping_at is None else record.first_ping_at
        born_at = now - max(heard_s, clock.age(first, now))
        since = max(since, born_at + settings.visible_after)
    settled_at = since + settings.settle
    return absence.last_at >= settled_at and history.records.started_at >= settled_at


def is_spent(record: Record, snapshot: Snapshot, settings: Settings) -> bool:
    """Whether no node will come of the unpinged claim any more (A1, A2).

    Its create has taken effect by now or never will, its node's absence is settled (C5), and the
    cloud, asked after that time by all there is to ask by, has no node of it. Without an answer
    nothing is decided (D13).
    """
    history, now = snapshot.history, snapshot.now
    if signs.trusted_clock(snapshot, settings) is None:
        return False
    quiet_s = signs.quiet_for(record, snapshot)
    known_after_s = min(signs.window_of(record, settings), settings.create_known_after)
    past_s = 0.0 if quiet_s is None else quiet_s - known_after_s
    if not settings.may_authorise or not is_missed(record, snapshot, settings):
        return False
    known_as = (id_of(record, snapshot),)
    for key in _keys(record, snapshot):
        answer = history.asked.get(key)
        if answer is None or answer.is_past or now - answer.said_at >= past_s:
            return False
        if any(not one.is_absent and may_be_of(one, record, known_as) for one in answer.nodes):
            return False
    return True


def heard_ago(
    record: Record, stamp: float, clock: MeasuredClock, history: History, at: float
) -> float:
    """Seconds from the newest ping that we saw of this incarnation to `at`, never too many.

    `stamp` is the ping that the record shows, in a late listing perhaps an older one.
    """
    heard = history.heard.get(record.uuid)
    if heard is None or heard.incarnation != record.incarnation:
        return clock.age(stamp, at)
    return at - came_at(heard, clock)
