"""The nodes that have ended for certain, even if a late listing shows them (A1, C20, D3)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from nodemanager.core.model.changed import changed
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import CloudNode, Record, life_key
from nodemanager.core.observe.history import History
from nodemanager.core.observe.nodes_by_record import bears
from nodemanager.core.observe.queries import is_called_gone
from nodemanager.core.observe.scheduled import fresh_answer
from nodemanager.core.observe.signs import waits_for_first_ping
from nodemanager.core.observe.snapshot import Flight, Snapshot
from nodemanager.core.observe.unlisted import created_by, id_to_ask_by

# Whether a boot has come to something: the one answer for B5, D17 and nodes that end in set-up.


def is_booting(uuid: str, incarnation: str | None, history: History) -> bool:
    """Whether this life's boot has come to nothing yet, and we have watched that.

    Of a life that nobody watched from its boot on, a ping says that it came to something.
    """
    known = history.hostnames.get(life_key(uuid, incarnation))
    if known is not None and known.waits:
        return True
    heard = history.heard.get(uuid)
    is_of_it = heard is not None and heard.incarnation == incarnation
    return is_of_it and heard is not None and heard.last_ping_at is None


def waits_to_join(record: Record, history: History) -> bool:
    """Whether the scheduler has yet to call the record's node up for the first time (D17)."""
    known = history.hostnames.get(life_key(record.uuid, record.incarnation))
    return known is not None and known.waits


def unjoined_for(record: Record, snapshot: Snapshot, settings: Settings) -> float | None:
    """Seconds from the first to the newest answer of those in a row that said that it is not up.

    None if the newest said otherwise, or is not fresh. It may have come up since.
    """
    listing = fresh_answer(snapshot, settings)
    since = snapshot.history.unjoined.get(life_key(record.uuid, record.incarnation))
    return None if since is None or listing is None else listing.started_at - since


NO_FLIGHT = Flight("", 0.0)
BESIDE = frozenset({NO_FLIGHT.kind, "adopt", "bind", "drain"})
"""The actions that leave the record's life as it is: none, or one of these."""


@dataclass(frozen=True, slots=True)
class EndedNode:
    """A node that ended, and that we did not destroy.

    `node` is what the cloud still shows of it, None where that is nothing. `in_setup`: its boot had
    not come to something.
    """

    record: Record
    node_id: str
    node: CloudNode | None
    in_setup: bool

    @property
    def life(self) -> str:
        return life_key(self.record.uuid, self.record.incarnation)

    @property
    def size(self) -> str | None:
        return None if self.record.claim is None else self.record.claim.size


def seen_ended(
    snapshot: Snapshot, settings: Settings
) -> tuple[History, tuple[EndedNode, ...], frozenset[str]]:
    """The history that knows those lives, and those that it did not know before.

    Last come the lives, of those, that were up and that we ended, by key.

    A listing shows such a node as terminated, or the cloud calls it gone, asked by its id (D3).
    What has ended never comes back, so a life stays in it for as long as its record holds it, and
    while no listing shows its record.
    """
    history = snapshot.history
    if history.cloud is None or history.records is None:
        return history, (), frozenset()
    absent = history.ended
    if not (absent or history.asked or history.ended_lives):
        return history, (), frozenset()
    known = _still_held(history.ended_lives, history.records.items)
    news: list[EndedNode] = []
    ours: set[str] = set()
    for record in history.records.items:
        boots = waits_for_first_ping(record) or waits_to_join(record, history)
        was_up = record.slot_number is not None and record.uuid in history.absence
        if record.pool != settings.pool or not (boots or was_up):
            continue
        key = life_key(record.uuid, record.incarnation)
        if key in known:
            continue
        node_id = id_to_ask_by(record, snapshot) or _by_tags(record, absent)
        if node_id is None or node_id in history.present or _lives_on(record, history):
            continue
        node = absent.get(node_id) or _called_gone(record, node_id, snapshot, settings)
        action = snapshot.record_flights.get(record.uuid, NO_FLIGHT).kind
        is_shut_down = action.startswith("shutdown")
        if node is None or not (is_shut_down or action in BESIDE):
            # It is judged once that set-up or clean is over.
            continue
        known.add(key)
        if not is_shut_down and not _is_our_doing(node_id, key, snapshot):
            shown = node if isinstance(node, CloudNode) else None
            news.append(EndedNode(record, node_id, shown, in_setup=boots))
        elif not boots:
            ours.add(key)
    if known == history.ended_lives:
        return history, (), frozenset()
    return changed(history, ended_lives=frozenset(known)), tuple(news), frozenset(ours)


def _still_held(lives: Collection[str], records: Iterable[Record]) -> set[str]:
    """Those of these lives whose record holds them, or is not listed."""
    if not lives:
        return set()
    held = {
        record.uuid: life_key(record.uuid, record.incarnation) if record.holds_anything else None
        for record in records
    }
    return {life for life in lives if held.get(life.partition("/")[0], life) == life}


def _lives_on(record: Record, history: History) -> bool:
    """Whether a node of this very life is listed: the twin of one that has ended (A1)."""
    return any(bears(node, record) for node in history.nodes_by_record.get(record.uuid, ()))


def _by_tags(record: Record, absent: Mapping[str, CloudNode]) -> str | None:
    """The id of the ended node of this very life of the record, if there is exactly one."""
    tags = record.uuid, record.incarnation
    found = [id for id, one in absent.items() if (one.tags.record, one.tags.incarnation) == tags]
    return found[0] if len(found) == 1 else None


def _is_our_doing(node_id: str, life: str, snapshot: Snapshot) -> bool:
    """Whether we destroy the node, or did so: a late listing may show its record long after."""
    freed = snapshot.history.freed.get(life)
    if freed is not None and (freed.why, freed.node_id) == (Reason.AFTER_SHUTDOWN, node_id):
        return True
    sent = snapshot.history.known_nodes.destroyed
    ours = (snapshot.node_flights, snapshot.gone, snapshot.late_destroys, sent)
    return any(node_id in those for those in ours)


def _called_gone(
    record: Record, node_id: str, snapshot: Snapshot, settings: Settings
) -> CloudNode | bool | None:
    """What the cloud, asked by id, shows of a node that has ended; True where that is nothing."""
    answer, since = snapshot.history.asked.get(node_id), created_by(record, snapshot, settings)
    if answer is None or answer.malformed or answer.is_past or since is None:
        return None
    if not is_called_gone(answer, since, settings):
        return None
    return answer.nodes[0] if answer.nodes else True


def was_ended(node: CloudNode, snapshot: Snapshot) -> bool:
    """Whether we destroyed the node, the cloud then called it gone, and no answer contradicts that.

    Its record is free since. A listing may show what was so minutes ago, and a node that has ended
    never comes back; but the cloud is asked by id, and a node that lives is reported (U8).
    """
    history, uuid = snapshot.history, node.tags.record
    if uuid is None or not history.freed:
        return False
    life = history.freed.get(life_key(uuid, node.tags.incarnation))
    if life is None or life.why != Reason.AFTER_SHUTDOWN or life.node_id != node.id:
        return False
    answer = history.asked.get(node.id)
    since = () if answer is None or answer.said_at <= life.freed_at else answer.nodes
    return all(one.is_absent for one in since) and life.key not in snapshot.breaker.reported
