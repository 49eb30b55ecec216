"""What happened, told from a journal: decisions, intents and outcomes, operators, the breaker.

`Story.news` tells what was written since it was last asked, oldest first; asked once, the whole
story. It only reads, beside a running daemon or on a copy.
"""

from __future__ import annotations

import heapq
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from nodemanager.core.breaker import Breaker
from nodemanager.core.naming import UnknownIdError
from nodemanager.core.reasons import Event, Kind, Reason
from nodemanager.core.telling import event_of_node, event_of_record
from nodemanager.journal.codec import codec_of
from nodemanager.journal.deltas import decode_changes
from nodemanager.journal.happening import Happening
from nodemanager.journal.names import Names
from nodemanager.journal.opened import opened, told_as_damage, unpacked
from nodemanager.journal.recording import START
from nodemanager.journal.tables import Tables

_BREAKER = codec_of(Breaker)
_EVENTS = {event.value: event for event in Event}
_REASONS = {reason.value: reason for reason in Reason}
_NEWS = (
    b'"new":',
    b'"from":',
    b'"slot_number":',
    b'"hostname":',
    b'"instance_id":',
    b'"claim":',
    b'"tags":',
    b'"breaker":',
    b'"BreakerSet"',
    b'"SettingsTaken"',
    b'"CommandGiven"',
    b'"aborted":',
)
"""A decision's body that has none of these tells nothing that is told here."""


class Story:
    """Reads the journal at `path`. What happened before `since` (epoch seconds) is not told."""

    def __init__(self, path: Path, since: float = 0.0) -> None:
        self.path = path
        self.names = Names()
        self._since = since
        self._seq: int | None = None
        self._run: str | None = None
        self._standing: dict[tuple[str, str], tuple[Kind, Reason]] = {}
        self._listed_anew = True
        self._first_of_segment = True
        self._aborted: str | None = None
        self._breaker = Breaker()
        self._tables = Tables(since)

    def news(self) -> Iterator[Happening]:
        """What was written since the last call. Raises JournalError as `reading.read` does."""
        with opened(self.path) as connection, told_as_damage(self.path):
            if self._seq is None:
                self._seq = self._first(connection) - 1
            elif self._seq > _newest(connection):
                # Another file is in its place.
                self._seq, self._tables = 0, Tables(self._since)
            others = list(self._tables.news(connection))
            heapq.heapify(others)
            while rows := _next_rows(connection, self._seq):
                for seq, kind, boottime, wall, body, verdicts in rows:
                    self._seq = seq
                    yield from self._until(wall, others)
                    if kind == START:
                        yield from self._told(self._start(unpacked(body), wall))
                    else:
                        yield from self._told(self._cycle(body, verdicts, boottime, wall))
            yield from self._until(float("inf"), others)

    def _until(self, at: float, others: list[Happening]) -> Iterator[Happening]:
        while others and others[0].at < at:
            yield from self._told([heapq.heappop(others)])

    def _told(self, happenings: Iterable[Happening]) -> Iterator[Happening]:
        """With all that is known by then of whom it is about."""
        for one in happenings:
            if one.is_set_up:
                self.names.begins(one.incarnation, one.record, one.node)
            if one.at >= self._since:
                yield self._named(one)

    def _named(self, one: Happening) -> Happening:
        """A listing that has its slot may come later than what it tells of itself."""
        names = self.names
        life = names.life(one.record, one.node, one.incarnation)
        slot = life.slot if one.slot is None else one.slot
        host = life.host if one.host is None else one.host
        if not life.is_over:
            life.has(slot, host)
        aliases = {*one.aliases, *names.aliases(life, one.record, one.node)}
        return replace(one, slot=slot, host=host, aliases=frozenset(aliases))

    def _first(self, connection: sqlite3.Connection) -> int:
        """The segment to read from, to know how things stood then: each tells all verdicts once."""
        found = connection.execute(
            "SELECT max(segment) FROM entries WHERE verdicts IS NOT NULL AND wall < ?",
            (self._since,),
        ).fetchone()[0]
        return int(found or 0)

    def _start(self, data: Any, wall: float) -> Iterator[Happening]:
        self.names.start(data)
        self._listed_anew = self._first_of_segment = True
        before, self._run = self._run, data["run_id"]
        if before is None:
            self._breaker = _BREAKER.decode(data["breaker"])
        if before != self._run and (before is not None or not data["history"]):
            yield Happening(wall, Event.DAEMON_STARTED, more={"pool": data["pool"]})

    def _cycle(
        self, body: bytes, verdicts: bytes | None, boottime: float, wall: float
    ) -> Iterator[Happening]:
        if verdicts is None and not self._listed_anew and not _has_news(body):
            return
        data = unpacked(body)
        snapshot = data["snapshot"]
        plan = snapshot["plan_id"]
        for name, fact in data["facts"]:
            yield from self._fact(name, fact, wall - boottime)
        if "breaker" in snapshot or self._first_of_segment:
            yield from self._breaker_is(_BREAKER.decode(snapshot.get("breaker", {})), wall)
        self._first_of_segment = False
        if "aborted" in data:
            reason, measures = data["aborted"]
            if reason != self._aborted:
                more, why = codec_of(Any).decode(measures), _REASONS.get(reason)
                yield Happening(wall, Event.CYCLE_ABORTED, why, plan=plan, more=more)
            self._listed_anew, self._aborted = True, reason
            return
        self._aborted = None
        changes = [] if verdicts is None else unpacked(verdicts)
        yield from self._verdicts(changes, plan, wall)

    def _verdicts(self, packed: list[Any], plan: str, wall: float) -> Iterator[Happening]:
        """Those that are not what they were; a segment's first decision tells all of them anew."""
        changes = decode_changes(packed)
        gone = [(one.subject, one.id) for one in changes if one.kind is None]
        if self._listed_anew:
            gone.extend(self._standing.keys() - {(one.subject, one.id) for one in changes})
        self._listed_anew = False
        for subject, id, kind, reason, measures in changes:
            key = subject, id
            if kind is None or reason is None or self._standing.get(key) == (kind, reason):
                continue
            self._standing[key] = kind, reason
            is_record = subject == "record"
            event = event_of_record(kind) if is_record else event_of_node(kind, reason)
            more = dict(measures or {})
            node = more.pop("node", None) if is_record else id
            record = id if is_record else None
            yield Happening(wall, event, reason, record=record, node=node, plan=plan, more=more)
        for subject, id in sorted(gone):
            if self._standing.pop((subject, id), None) is not None:
                is_record = subject == "record"
                event = Event.RECORD_UNLISTED if is_record else Event.NODE_UNLISTED
                yield Happening(
                    wall,
                    event,
                    record=id if is_record else None,
                    node=None if is_record else id,
                    plan=plan,
                )

    def _fact(self, name: str, data: Any, wall_less_boottime: float) -> Iterator[Happening]:
        self.names.seen(name, data)
        match name:
            case "SettingsTaken":
                yield Happening(data["at"] + wall_less_boottime, Event.DAEMON_RELOADED)
            case "BreakerSet":
                at = data["at"] + wall_less_boottime
                yield from self._breaker_is(_BREAKER.decode(data["breaker"]), at)
            case "CommandGiven":
                told = self._command(data, data["at"] + wall_less_boottime)
                if told is not None:
                    yield told

    def _breaker_is(self, breaker: Breaker, at: float) -> Iterator[Happening]:
        before, self._breaker = self._breaker, breaker
        if before.generation == breaker.generation and before.cause == breaker.cause:
            return
        if breaker.cause is not None:
            more = {"cause": breaker.cause.value, **breaker.detail}
            yield Happening(at, Event.BREAKER_OPENED, more=more)
        elif before.cause is not None:
            yield Happening(at, Event.BREAKER_CLOSED, more={"cause": before.cause.value})

    def _command(self, data: Any, at: float) -> Happening | None:
        """An operator's command, refused ones too; None for one that this program knows not of."""
        event = _EVENTS.get(f"operator.{data['command']}")
        if event is None:
            return None
        id, forced = data.get("id"), data.get("forced", ())
        record, node = self._whom(data)
        more = {
            "id": id,
            "by": data["by"],
            "cause": data.get("reason") or None,
            "result": data["result"],
            "rule": data.get("rule"),
            "forced": ",".join(forced) or None,
        }
        return Happening(
            at,
            event,
            _REASONS.get(data.get("refusal") or ""),
            record=record,
            node=node,
            more={key: value for key, value in more.items() if value is not None},
            # What named nobody is found by the word alone that was typed.
            aliases=frozenset() if id is None or record or node else frozenset({id}),
        )

    def _whom(self, data: Any) -> tuple[str | None, str | None]:
        """Record and node that a command was about: older daemons wrote down its words alone."""
        if data.get("id") is None or "record" in data or "node" in data:
            return data.get("record"), data.get("node")
        try:
            named = self.names.find(data["id"])
        except UnknownIdError:
            return None, None
        return named.record, named.node


def _newest(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT max(seq) FROM entries").fetchone()[0] or 0)


def _next_rows(connection: sqlite3.Connection, seq: int) -> list[Any]:
    """A stretch at a time: a transaction left open would keep the log from shrinking."""
    return connection.execute(
        "SELECT seq, kind, boottime, wall, body, verdicts FROM entries WHERE seq > ?"
        " ORDER BY seq LIMIT 240",
        (seq,),
    ).fetchall()


def _has_news(body: bytes) -> bool:
    text = zlib.decompress(body)
    return any(word in text for word in _NEWS)
