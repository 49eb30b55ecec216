"""False cleans: records freed while their node lived, and how they are restored (SAFETY.md U8).

The signs are a late ping, a ping on the freed record, or a listed node that the cloud, asked by id,
confirms. Each freed life is reported once; the breaker opens on it and remembers it. The life is
restored once the cloud shows its node alive, by the id that we knew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nodemanager.core.judge.preconditions import standing_block
from nodemanager.core.model.breaker import Breaker, Cause
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.settings import (
    ASK_AGAIN_S,
    ASK_LIMIT,
    FREED_KEPT_S,
    FREED_LIMIT,
    LATE_PING_S,
    Settings,
)
from nodemanager.core.model.verdict import Verdict, keep
from nodemanager.core.model.world import (
    CloudNode,
    CloudState,
    FreedLife,
    LatePing,
    Listing,
    Record,
    life_key,
)
from nodemanager.core.observe.history import History, Records
from nodemanager.core.observe.nodes_by_record import is_anothers
from nodemanager.core.observe.pairing import Pairs
from nodemanager.core.observe.queries import IdAnswers, TagAnswers, cloud_answered, may_ask
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.safety.breaker import opened, with_changed


@dataclass(frozen=True, slots=True)
class FalseClean:
    """A life that a clean ended, and the sign that its node lives."""

    life: FreedLife
    reason: Reason
    measures: Mapping[str, Any] = field(default_factory=dict)


# The signs. Each function also returns lives that were reported before.


def signs_in_pings(
    late: Iterable[LatePing], history: History, at: float, settings: Settings
) -> list[FalseClean]:
    """The false cleans shown by pings of this pool's freed lives, over LATE_PING_S after the clean.

    A ping that names another instance id than the one we knew is no sign. Nor is a ping of a life
    that was freed although it pinged (P6): there only the cloud is believed.
    """
    found = []
    for ping in late:
        known = history.freed.get(life_key(ping.record, ping.incarnation))
        if ping.pool != settings.pool and known is None:
            continue
        late_s = ping.at - ping.freed_at
        if not late_s > LATE_PING_S:
            continue
        life = known or FreedLife(ping.record, ping.incarnation, at - late_s)
        if life.why == Reason.PINGER_DENIED or _names_another(ping, life):
            continue
        found.append(FalseClean(life, Reason.LATE_PING, {"late_s": late_s}))
    return found


def _names_another(ping: LatePing, life: FreedLife) -> bool:
    return None not in (ping.instance_id, life.node_id) and ping.instance_id != life.node_id


def signs_in_records(history: History, listing: Records, at: float) -> list[FalseClean]:
    """The false cleans shown by freed, unclaimed records that their own instance pinged since.

    Only stores without compare-and-set show this: on Arvados a ping may race with a clean.
    """
    clock = history.clock
    if not history.freed or clock is None:
        return []
    pinged = {
        record.uuid: record
        for record in listing.items
        if record.claim is None and record.last_ping_at is not None
    }
    found = []
    for life in history.freed.values() if pinged else ():
        record = pinged.get(life.record)
        if record is None or not _may_have_pinged(life, record):
            continue
        assert record.last_ping_at is not None
        late_s = at - clock.age(record.last_ping_at, at) - life.freed_at
        if listing.started_at > life.freed_at and late_s > LATE_PING_S:
            found.append(FalseClean(life, Reason.PINGED_AFTER_CLEAN, {"late_s": late_s}))
    return found


def _may_have_pinged(life: FreedLife, record: Record) -> bool:
    """Whether the ping on the freed record may come from that life's node."""
    if life.node_id is None:
        return life.incarnation is not None
    return record.instance_id == life.node_id


def suspects(history: History, settings: Settings, pairs: Pairs | None = None) -> dict[str, str]:
    """The keys of freed lives, by the ids of their nodes listed after the clean.

    Left out are nodes in `pairs`, and nodes that we destroyed and that are still stopping.
    """
    cloud, freed = history.cloud, history.freed
    if not freed or cloud is None:
        return {}
    by_node: dict[str, str] | None = None
    found: dict[str, str] = {}
    for node in history.present.values():
        if pairs is not None and node.id in pairs.record_of:
            continue
        uuid = node.tags.record
        if uuid is not None:
            key = life_key(uuid, node.tags.incarnation)
        elif settings.ids_unique:
            if by_node is None:
                by_node = {life.node_id: one for one, life in freed.items() if life.node_id}
            key = by_node.get(node.id, "")
        else:
            continue
        life = freed.get(key)
        if life is not None and cloud.started_at > life.freed_at and is_alive(node, life):
            found[node.id] = key
    return found


def is_alive(node: CloudNode, life: FreedLife) -> bool:
    """Whether the node is that life's and not terminated; the one we destroyed may be stopping.

    A node that has another record's tag is that record's, whatever id a ping named (P1a).
    """
    if is_anothers(node, life):
        return False
    if life.why == Reason.AFTER_SHUTDOWN and node.id == life.node_id:
        return node.state not in (CloudState.STOPPING, CloudState.TERMINATED)
    return not node.is_absent


def signs_in_answers(
    history: History, answers: IdAnswers, at: float, settings: Settings
) -> list[FalseClean]:
    """The false cleans of suspects that the cloud, asked by id, shows alive."""
    found = []
    suspected = suspects(history, settings)
    for node_id in sorted(answers.keys() & suspected.keys()):
        node, life = answers[node_id], history.freed[suspected[node_id]]
        if node is not None and is_alive(node, life):
            measures = {"state": node.state.value, "late_s": at - life.freed_at}
            life = replace(life, node_id=node_id)
            found.append(FalseClean(life, Reason.ALIVE_AFTER_CLEAN, measures))
    return found


def lives_freed(history: History, lives: Iterable[FreedLife], at: float) -> History:
    """Fold in lives that our cleans ended; those over FREED_KEPT_S ago are forgotten (U8)."""
    freed = {key: life for key, life in history.freed.items() if at - life.freed_at <= FREED_KEPT_S}
    freed |= {life.key: life for life in lives}
    if len(freed) > FREED_LIMIT:
        newest = sorted(freed.values(), key=lambda life: (life.freed_at, life.key))[-FREED_LIMIT:]
        freed = {life.key: life for life in newest}
    return replace(history, freed=freed)


def not_given_back(
    cleans: Iterable[tuple[FreedLife, float]], given_back: Mapping[str, float]
) -> tuple[FreedLife, ...]:
    """The lives that cleans ended, without those whose record was given back since.

    `cleans` come newest first, each with when it ended. `given_back` has, by the life's key, the
    end of the clean that was undone, or when it was undone if the journal could not tell. Times
    are epoch seconds. Our clock may be set back between a clean and what followed: where
    `given_back` names the clean that was undone, the order tells, and not the time.
    """
    cleans = tuple(cleans)
    named = {life.key for life, ended_at in cleans if given_back.get(life.key) == ended_at}
    undone, standing = set(), []
    for life, ended_at in cleans:
        back_at = given_back.get(life.key, float("-inf"))
        if back_at == ended_at or (life.key not in named and back_at > ended_at):
            undone.add(life.key)
        if life.key not in undone:
            standing.append(life)
    return tuple(standing)


# The consequences: each life is reported once, the breaker opens, and the life is restored.


def reported(
    breaker: Breaker, signs: Iterable[FalseClean], at: float
) -> tuple[Breaker, tuple[FalseClean, ...]]:
    """The breaker, open for the false cleans not reported before, and these false cleans."""
    new: dict[str, FalseClean] = {}
    for sign in signs:
        if sign.life.key not in breaker.reported:
            new.setdefault(sign.life.key, sign)
    if not new:
        return breaker, ()
    part = breaker.part(Cause.FALSE_CLEAN)
    standing = frozenset() if part is None else part.ids - part.back - part.confirmed
    ids = standing | new.keys()
    lives = {key: replace(sign.life, reported_at=at) for key, sign in new.items()}
    breaker = replace(breaker, reported={**breaker.reported, **lives})
    breaker = opened(breaker, Cause.FALSE_CLEAN, ids, at, {"count": len(ids)})
    return breaker, tuple(replace(sign, life=lives[key]) for key, sign in new.items())


def after_records(breaker: Breaker, history: History, listing: Records) -> tuple[Breaker, History]:
    """The breaker and history without the lives that a complete listing shows restored (B3)."""
    if not breaker.reported or not listing.complete:
        return breaker, history
    records = {record.uuid: record for record in listing.items}
    back = frozenset(
        key
        for key, life in breaker.reported.items()
        if listing.started_at > (life.reported_at or 0.0)
        and _is_back(records.get(life.record), life)
        and not _is_from_before(records[life.record], life, history, listing.started_at)
    )
    if not back:
        return breaker, history
    still_reported = {key: life for key, life in breaker.reported.items() if key not in back}
    breaker = replace(breaker, reported=still_reported)
    freed = {key: life for key, life in history.freed.items() if key not in back}
    part = breaker.part(Cause.FALSE_CLEAN)
    if part is not None:
        breaker = with_changed(breaker, replace(part, back=part.back | (part.ids & back)))
    return breaker, replace(history, freed=freed)


def _is_back(record: Record | None, life: FreedLife) -> bool:
    if record is None:
        return False
    if life.incarnation is not None:
        return record.incarnation == life.incarnation
    same_slot = record.slot_number == life.slot and record.hostname == life.hostname
    return record.claim is None and record.holds_slot and same_slot


def _is_from_before(record: Record, life: FreedLife, history: History, at: float) -> bool:
    """Whether the record may be as it was before its clean: a replica of the store lags behind.

    Of a store that says when a record was changed this waits for its clock.
    """
    if record.modified_at is None:
        return False
    if history.clock is None:
        return True
    return history.clock.since(record.modified_at, at) < life.freed_at


def after_answers(breaker: Breaker, answers: IdAnswers, at: float, settings: Settings) -> Breaker:
    """The breaker after answers by id, asked at `at`: a life whose node is gone counts no more."""
    said: dict[str, bool | None] = {}
    for life in open_lives(breaker):
        if life.node_id is not None and life.node_id in answers:
            node = answers[life.node_id]
            if node is not None and is_anothers(node, life):
                node = None
            said[life.key] = None if node is None else not node.is_absent
    return _confirmed(breaker, said, at, settings)


def after_tag_answers(
    breaker: Breaker, answers: TagAnswers, at: float, settings: Settings
) -> Breaker:
    """The breaker after answers by tag, likewise, for lives without a known node id (B3)."""
    said: dict[str, bool | None] = {}
    for life in _known_by_tag(breaker):
        if life.record in answers:
            own = _own(answers[life.record], life)
            said[life.key] = any(not node.is_absent for node in own) if own else None
    return _confirmed(breaker, said, at, settings)


def _known_by_tag(breaker: Breaker) -> tuple[FreedLife, ...]:
    """The open lives for which the cloud can be asked only by tag."""
    lives = open_lives(breaker)
    return tuple(one for one in lives if one.node_id is None and one.incarnation is not None)


def _own(nodes: Iterable[CloudNode], life: FreedLife) -> tuple[CloudNode, ...]:
    """The nodes of that life, out of `nodes` with its record's tag."""
    return tuple(node for node in nodes if node.tags.incarnation in (None, life.incarnation))


def _confirmed(
    breaker: Breaker, said: Mapping[str, bool | None], at: float, settings: Settings
) -> Breaker:
    """The breaker after the cloud said of lives: alive (True), ended, or None: no such node.

    That there is no such node was said at `at`; before the sign of life it confirms nothing.
    """
    part = breaker.part(Cause.FALSE_CLEAN)
    if part is None or not said:
        return breaker
    denied, confirmed = dict(part.denied), set(part.confirmed)
    for key, alive in sorted(said.items()):
        if alive is not None:
            denied.pop(key, None)
            if not alive:
                confirmed.add(key)
        elif at < (breaker.reported[key].reported_at or 0.0):
            continue
        elif settings.visible_after == 0 or (
            at - part.opened_at > settings.visible_after
            and at - denied.setdefault(key, at) >= ASK_AGAIN_S
        ):
            confirmed.add(key)
    return with_changed(breaker, replace(part, denied=denied, confirmed=frozenset(confirmed)))


def after_silence(
    breaker: Breaker, history: History, late: Iterable[LatePing], at: float, settings: Settings
) -> Breaker:
    """The breaker without lives that can't be asked for, once silent past node_stale_after (B3)."""
    part = breaker.part(Cause.FALSE_CLEAN)
    lives = [life for life in open_lives(breaker) if _nothing_to_ask_by(life, history)]
    if part is None or not lives or history.clock is None:
        return breaker
    clock, heard = history.clock, {life_key(one.record, one.incarnation): one for one in late}
    silent = set(part.confirmed)
    for life in lives:
        silent_s = at - (life.reported_at or 0.0)
        if life.key in heard:
            silent_s = min(silent_s, clock.age(heard[life.key].at, at))
        if silent_s > settings.node_stale_after:
            silent.add(life.key)
    return with_changed(breaker, replace(part, confirmed=frozenset(silent)))


def _nothing_to_ask_by(life: FreedLife, history: History) -> bool:
    """Whether that life bore no tag and named no valid instance id (P1a)."""
    if life.incarnation is not None:
        return False
    answer = history.asked.get(life.node_id or "")
    return life.node_id is None or (answer is not None and answer.malformed)


@dataclass(frozen=True)
class Folded:
    """The breaker and history after a fact, and the false cleans to report."""

    breaker: Breaker
    history: History
    reported: tuple[FalseClean, ...] = ()


def pings_seen(
    breaker: Breaker, history: History, late: Iterable[LatePing], at: float, settings: Settings
) -> Folded:
    """Fold in the late pings that the store remembers; most were reported before."""
    late = tuple(late)
    breaker = after_silence(breaker, history, late, at, settings)
    breaker, new = reported(breaker, signs_in_pings(late, history, at, settings), at)
    return Folded(breaker, history, new)


def records_seen(breaker: Breaker, history: History, listing: Records) -> Folded:
    """Fold in a record listing: lives restored, and freed records pinged after their clean."""
    breaker, history = after_records(breaker, history, listing)
    at = listing.ended_at
    breaker, new = reported(breaker, signs_in_records(history, listing, at), at)
    return Folded(breaker, history, new)


def answers_seen(
    breaker: Breaker,
    history: History,
    answers: IdAnswers,
    at: float,
    settings: Settings,
    malformed: frozenset[str] = frozenset(),
    *,
    asked_at: float | None = None,
) -> Folded:
    """Fold in the cloud's answers by id: nodes still alive, and nodes confirmed gone."""
    breaker = after_answers(breaker, answers, at if asked_at is None else asked_at, settings)
    breaker, new = reported(breaker, signs_in_answers(history, answers, at, settings), at)
    nodes = {key: () if node is None else (node,) for key, node in answers.items()}
    history = cloud_answered(history, nodes, at, settings, malformed, asked_at=asked_at)
    return Folded(breaker, history, new)


def tags_seen(
    breaker: Breaker,
    history: History,
    answers: TagAnswers,
    at: float,
    settings: Settings,
    *,
    asked_at: float | None = None,
) -> Folded:
    """Fold in the cloud's answers by tag."""
    breaker = after_tag_answers(breaker, answers, at if asked_at is None else asked_at, settings)
    return Folded(breaker, cloud_answered(history, answers, at, settings, asked_at=asked_at))


def open_lives(breaker: Breaker) -> tuple[FreedLife, ...]:
    """The lives that hold the breaker open: neither restored nor confirmed gone."""
    part = breaker.part(Cause.FALSE_CLEAN)
    if part is None:
        return ()
    standing = sorted(part.ids - part.back - part.confirmed)
    return tuple(breaker.reported[key] for key in standing if key in breaker.reported)


def to_ask(
    snapshot: Snapshot, settings: Settings, pairs: Pairs, limit: int = ASK_LIMIT
) -> tuple[str, ...]:
    """The node ids to ask for, at most `limit`: unreported suspects, and the open lives' nodes."""
    history, breaker = snapshot.history, snapshot.breaker
    found = suspects(history, settings, pairs)
    asking = {node_id for node_id, key in found.items() if key not in breaker.reported}
    asking |= {life.node_id for life in open_lives(breaker) if life.node_id is not None}
    due = (one for one in sorted(asking) if may_ask(history, one, snapshot.now, settings))
    return tuple(due)[:limit]


def to_ask_tagged(snapshot: Snapshot, settings: Settings) -> tuple[str, ...]:
    """The records to ask the cloud for by tag: those of open lives without a known node id."""
    records = {life.record for life in _known_by_tag(snapshot.breaker)}
    history, now = snapshot.history, snapshot.now
    return tuple(one for one in sorted(records) if may_ask(history, one, now, settings))


def judge_restore(life: FreedLife, snapshot: Snapshot, settings: Settings) -> Verdict:
    """The verdict on giving the record back to its node now: RESTORE, or KEEP and why not."""
    uuid, records = life.record, snapshot.history.records
    newest = max(snapshot.touched.get(uuid, life.freed_at), life.freed_at)
    if records is None or records.started_at <= newest:
        return keep(uuid, Reason.CHANGED_SINCE_LISTING)
    if uuid in snapshot.record_flights:
        return keep(uuid, Reason.IN_FLIGHT)
    late = snapshot.late.get(uuid)
    if late is not None and snapshot.now - late.at <= settings.node_stale_after:
        # A clean that takes effect late would free it again, and that is not reported again.
        age_s, limit_s = snapshot.now - late.at, settings.node_stale_after
        return keep(uuid, Reason.IN_FLIGHT, age_s=age_s, limit_s=limit_s)
    block = standing_block(snapshot, settings, polls=False, breaker=False, authorised=False)
    if block is not None:
        return block.to(uuid)
    return _no_room(life, records, snapshot) or _judge_sighting(life, snapshot.history)


def _no_room(life: FreedLife, records: Listing[Record], snapshot: Snapshot) -> Verdict | None:
    """Why the record as listed can't take its life back, or None."""
    uuid = life.record
    record = next((one for one in records.items if one.uuid == uuid), None)
    if record is None:
        return keep(uuid, Reason.RECORD_DELETED)
    if record.held or uuid in snapshot.holds or life.node_id in snapshot.holds:
        return keep(uuid, Reason.HELD)
    if record.problems:
        return keep(uuid, Reason.UNREADABLE)
    if record.holds_anything:
        return keep(uuid, Reason.RECORD_REUSED)
    for other in records.items:
        if life.slot is not None and other.slot_number == life.slot:
            return keep(uuid, Reason.SLOT_TAKEN, held_by=other.uuid)
    return None


def _judge_sighting(life: FreedLife, history: History) -> Verdict:
    """RESTORE once the cloud has shown that life's own node alive, else KEEP."""
    if _has_been_seen(life, history):
        return Verdict(Kind.RESTORE, Reason.FALSE_CLEAN, life.record, {"slot": life.slot})
    blind = _nothing_to_ask_by(life, history)
    reason = Reason.UNVERIFIABLE if blind else Reason.EVIDENCE_MISSING
    return keep(life.record, reason, node=life.node_id)


def _has_been_seen(life: FreedLife, history: History) -> bool:
    """Whether the cloud has shown that node since the report, by the id we knew or else by tag.

    A ping alone proves no node: it may have been delayed, or somebody else has the secret.
    """
    answer = history.asked.get(life.record if life.node_id is None else life.node_id)
    if answer is None or answer.at < (life.reported_at or 0.0):
        return False
    nodes = answer.nodes
    if life.node_id is None:
        nodes = _own(nodes, life) if life.incarnation is not None else ()
    return any(is_alive(node, life) for node in nodes)


CLEAR = "its record is given back if possible; see the operator's guide, false cleans"
