"""Records that keep pinging while no listing shows their node (SAFETY.md P6).

The cloud is asked for them by id, or by tag where no id is known. A node of ours that it has, and
does not list, means that the listing is short: what rests on listings waits until it is whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nodemanager.core.asking import may_ask
from nodemanager.core.history import Asked
from nodemanager.core.model import CloudNode, Record
from nodemanager.core.pools import not_ours
from nodemanager.core.reasons import Kind, Reason
from nodemanager.core.settings import ASK_LIMIT, Settings
from nodemanager.core.snapshot import Snapshot
from nodemanager.core.verdict import Verdict

UNLISTED_LISTINGS = 2
"""So many complete listings must lack the node, and a ping come after the first of them (P6)."""


@dataclass(frozen=True, slots=True)
class Unlisted:
    """What is known of them: a verdict for each answer, by record uuid, and whom to ask for next.

    `short` says that the listing lacks a node that is there and bears our tag.
    """

    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    ask: tuple[str, ...] = ()
    ask_tagged: tuple[str, ...] = ()

    @property
    def short(self) -> bool:
        return any(one.reason is Reason.LISTING_SHORT for one in self.verdicts.values())

    @property
    def gone(self) -> frozenset[str]:
        """Records whose node the cloud denies."""
        denied = (one.id for one in self.verdicts.values() if one.reason is Reason.PINGING_UNLISTED)
        return frozenset(denied)


NOTHING = Unlisted()


def look_for_unlisted(snapshot: Snapshot, settings: Settings) -> Unlisted:
    """Who pings without being listed, and what the cloud says of them."""
    history, now = snapshot.history, snapshot.now
    if not history.absence or history.records is None or history.clock is None:
        return NOTHING
    verdicts: dict[str, Verdict] = {}
    ask: list[str] = []
    ask_tagged: list[str] = []
    for record in history.records.items:
        absence = history.absence.get(record.uuid)
        if absence is None or absence.incarnation != record.incarnation:
            continue
        if absence.listings < UNLISTED_LISTINGS or _is_explained(record, snapshot, settings):
            continue
        key = record.instance_id or record.uuid
        answer = history.asked.get(key)
        verdict = None if answer is None else _verdict(record, answer, now, settings)
        if answer is not None and answer.at <= absence.first_at:
            # A denial from before it was missed is none; one that was there is there until denied.
            verdict = verdict if _is_alive(verdict) and not answer.is_past else None
        if verdict is not None:
            verdicts[record.uuid] = verdict
        if not (_is_alive(verdict) or _keeps_pinging(record, absence.first_at, snapshot, settings)):
            continue
        if may_ask(history, key, now, settings):
            (ask if record.instance_id is not None else ask_tagged).append(key)
    ask.sort()
    ask_tagged.sort()
    return Unlisted(verdicts, tuple(ask[:ASK_LIMIT]), tuple(ask_tagged[:ASK_LIMIT]))


def _is_alive(verdict: Verdict | None) -> bool:
    return verdict is not None and verdict.reason is not Reason.PINGING_UNLISTED


def _is_explained(record: Record, snapshot: Snapshot, settings: Settings) -> bool:
    """Not ours to ask about, or gone, or going, by our own doing."""
    if not_ours(record, settings.pool, settings.adopt_unclaimed) is not None:
        return True
    uuid, node_id = record.uuid, record.instance_id
    if uuid in snapshot.record_flights or uuid in snapshot.touched:
        return True
    return node_id is not None and (node_id in snapshot.gone or node_id in snapshot.node_flights)


def _keeps_pinging(record: Record, since: float, snapshot: Snapshot, settings: Settings) -> bool:
    """Pinged lately, and after the first listing that lacks its node began; not just booted."""
    clock, now = snapshot.history.clock, snapshot.now
    first, last = record.first_ping_at, record.last_ping_at
    if clock is None or first is None or last is None:
        return False
    heard_s = clock.age(last, now) + 2 * clock.error_s
    if clock.age(first, now) <= settings.visible_after:
        return False
    return heard_s < now - since and heard_s <= settings.poll_stale_after


def _verdict(record: Record, answer: Asked, now: float, settings: Settings) -> Verdict:
    alive = [node for node in answer.nodes if _is_of(node, record)]
    measures: dict[str, object] = {"age_s": now - answer.at, "attempt": answer.times}
    if not alive:
        return Verdict(Kind.KEEP, Reason.PINGING_UNLISTED, record.uuid, measures)
    node = alive[0]
    measures |= {"node": node.id, "state": node.state.value}
    ours = node.tags.record == record.uuid and node.tags.pool == settings.pool
    reason = Reason.LISTING_SHORT if ours else Reason.UNTAGGED
    return Verdict(Kind.KEEP, reason, record.uuid, measures)


def _is_of(node: CloudNode, record: Record) -> bool:
    if node.is_absent:
        return False
    if node.id == record.instance_id:
        return True
    return node.tags.record == record.uuid and node.tags.incarnation in (None, record.incarnation)
