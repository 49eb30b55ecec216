"""What becomes of an operator's command: whom it names, and what the next plan makes of it (O1-O4).

No rule is judged in here: the plan's verdict is read, and the rule behind its reason is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from enum import StrEnum
from typing import Any

from nodemanager.core.history import History
from nodemanager.core.marks import FORCIBLE, UNVERIFIABLE, Mark
from nodemanager.core.model import Record
from nodemanager.core.pairing import Pairs
from nodemanager.core.plan import Plan
from nodemanager.core.reasons import Kind, Reason
from nodemanager.core.snapshot import Snapshot
from nodemanager.core.verdict import Verdict, keep


class Verb(StrEnum):
    """What an operator may tell the daemon."""

    HOLD = "hold"
    RELEASE = "release"
    DRAIN = "drain"
    RUN = "run"
    KILL = "kill"
    CLEAN = "clean"
    PAUSE = "pause"
    RESUME = "resume"
    BREAKER_RESET = "breaker_reset"


class Result(StrEnum):
    """What became of a command. DONE and ALREADY are successes; only DONE changed anything."""

    DONE = "done"
    ALREADY = "already"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    FAILED = "failed"
    UNDER_WAY = "under_way"


@dataclass(frozen=True, slots=True)
class Command:
    """What an operator said. `forced` are the rules that they break by name (O3).

    `unlisted` lets a hold be put on what no listing shows.
    """

    verb: Verb
    by: str
    reason: str = ""
    id: str | None = None
    forced: tuple[str, ...] = ()
    unlisted: bool = False


def lacks_reason(command: Command) -> str | None:
    """What is only done for a reason, and none was given; None where nothing is missing."""
    if command.reason:
        return None
    if command.verb in (Verb.KILL, Verb.PAUSE):
        return f"a {command.verb.value} needs a reason"
    if command.forced:
        return "a clean that breaks a rule needs a reason"
    return None


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a command: `text` is for a reader, the rest for a program.

    `reason` is the reason code of a refusal, `rule` the id of the rule behind it, with what was
    measured; `nearest` is a known id like the one that was given.
    """

    result: Result
    text: str
    record: str | None = None
    node: str | None = None
    reason: Reason | None = None
    rule: str | None = None
    measures: Mapping[str, Any] = field(default_factory=dict)
    nearest: str | None = None

    @property
    def ok(self) -> bool:
        return self.result in (Result.DONE, Result.ALREADY)


RULES: Mapping[Reason, str] = {
    Reason.OTHER_POOL: "T3",
    Reason.UNCLAIMED_POOL: "T3",
    Reason.UNREADABLE: "P3",
    Reason.PAIRED: "C4",
    Reason.NODE_LISTED: "C4",
    Reason.NODE_EXPECTED: "P4",
    Reason.WITHIN_WINDOW: "C3",
    Reason.CLAIM_WITHIN_WINDOW: "C21",
    Reason.BUSY: "C2",
    Reason.IDLE: "C2",
    Reason.NOT_SETTLED: "C5",
    Reason.NO_LISTING_ORDER: "C6",
    Reason.CHANGED_SINCE_LISTING: "C6",
    Reason.POLL_STALE: "C7",
    Reason.CLOCK_UNKNOWN: "T1",
    Reason.IN_FLIGHT: "C8",
    Reason.HELD: "C9",
    Reason.BREAKER_OPEN: "B2",
    Reason.NO_LEASE: "L6",
    Reason.READ_ONLY: "L5",
    Reason.NOT_AUTHORISED: "L2",
    Reason.CAP_REACHED: "C10",
    Reason.AMBIGUOUS: "P2",
    Reason.PINGING_UNLISTED: "P6",
    Reason.LISTING_SHORT: "P6",
    Reason.IMPOSSIBLE: "L4",
    Reason.FENCED: "C12",
    Reason.BACKLOG_HELD: "S5",
    Reason.PAUSED: "O4",
    Reason.CHANGED_SINCE_PLAN: "C11",
    Reason.NODE_ALIVE: "C11",
    Reason.UNVERIFIABLE: "C11",
    Reason.ORDER_EXPIRED: "C11",
    Reason.DENIED_TOO_EARLY: "C11",
    Reason.EVIDENCE_MISSING: "L1",
    Reason.UNTAGGED: "D11",
    Reason.FOREIGN_NODE: "T3",
    Reason.THROTTLED: "D6",
    Reason.TOO_MANY_IMPOSSIBLE: "L4",
    Reason.NO_LISTING: "L1",
    Reason.NEVER_FORCED: "O3",
    Reason.DRY_RUN: "S3",
}
"""The rule behind a reason that forbids what an operator wanted; its docs row names it, too."""

_CLEAR: Mapping[Reason, str] = {
    Reason.HELD: "`nodemanager orders` says by whom, and `nodemanager release` ends it.",
    Reason.PAUSED: "`nodemanager resume` ends that.",
    Reason.BREAKER_OPEN: "`nodemanager breaker reset` closes it, once you have looked.",
    Reason.AMBIGUOUS: "Look at both, and take the tags off the one that is not ours.",
    Reason.CHANGED_SINCE_LISTING: "Try again after the next poll.",
    Reason.NO_LISTING_ORDER: "Try again after the next poll.",
    Reason.CAP_REACHED: "Try again after the next poll.",
}
"""What to do about a refusal, where its doc does not say."""

_WAITING = frozenset(
    {Reason.SHUTDOWN_CAP, Reason.IN_FLIGHT, Reason.SHUTTING_DOWN, Reason.CHANGED_SINCE_LISTING}
)
"""A kill that has its turn a little later."""

_REFUSE_DRAIN = frozenset(
    {
        Reason.UNTAGGED,
        Reason.FOREIGN_NODE,
        Reason.HELD,
        Reason.UNREADABLE,
        Reason.AMBIGUOUS,
        Reason.IMPOSSIBLE,
        Reason.NODE_EXPECTED,
    }
)
"""What forbids to shut the node down for as long as it is so; anything else is waited for."""


# Whom a command names.


@dataclass(frozen=True, slots=True)
class Known:
    """All that an operator may name, as the newest listings and the daemon's books have it.

    `others` are ids that may be held and are neither: leftovers, nodes expected or marked.
    """

    history: History
    pairs: Pairs
    others: frozenset[str] = frozenset()

    @property
    def is_complete(self) -> bool:
        """Whether an id that is not there is unknown, and not just not listed yet."""
        return self.history.cloud is not None and self.history.records is not None

    @property
    def records(self) -> tuple[Record, ...]:
        return self.history.records.items if self.history.records is not None else ()

    def names(self) -> Iterator[str]:
        yield from self.others
        for node in self.history.cloud.items if self.history.cloud is not None else ():
            yield node.id
            yield node.name
        for record in self.records:
            yield record.uuid
            yield from (one for one in (record.hostname, record.instance_id) if one)


@dataclass(frozen=True, slots=True)
class Named:
    """A node, a record, or both where they are each other's. `id` is what is marked."""

    id: str
    node: str | None = None
    record: str | None = None


def find(given: str, known: Known) -> Named | Reply:
    """Whom `given` names: an id, or a hostname where one has it; else what to answer."""
    nodes = {node.id: node for node in known.history.cloud.items} if known.history.cloud else {}
    records = {record.uuid: record for record in known.records}
    if given in records:
        node = known.pairs.node_of.get(given)
        node_id = node.id if node is not None else records[given].instance_id
        return Named(given, node_id, given)
    by_id = [record.uuid for record in known.records if record.instance_id == given]
    freed = _freed(given, known)
    if freed is not None and given not in known.history.present and not by_id:
        return freed
    if given in nodes or by_id:
        record = known.pairs.record_of.get(given)
        uuid = record.uuid if record is not None else (by_id[0] if len(by_id) == 1 else None)
        return Named(given, given, uuid)
    if given in known.others:
        return Named(given, given)
    held = [record.uuid for record in known.records if record.hostname == given]
    named = [node.id for node in nodes.values() if node.name == given and not node.is_absent]
    paired = {known.pairs.record_of[id].uuid for id in named if id in known.pairs.record_of}
    found = [*held, *(id for id in named if id not in known.pairs.record_of), *(paired - {*held})]
    if len(found) == 1:
        return find(found[0], known)
    if found:
        text = f"{given} is the hostname of {', '.join(sorted(found))}: say which, by its id"
        return Reply(Result.REFUSED, text, reason=Reason.AMBIGUOUS_NAME)
    return unknown(given, known.names())


def _freed(given: str, known: Known) -> Named | None:
    """A record that we freed and nobody has used since, by the node or the hostname that it had."""
    free = {record.uuid for record in known.records if not record.holds_anything}
    taken = {record.hostname for record in known.records}
    for life in known.history.freed.values():
        named = life.node_id == given or (life.hostname == given and given not in taken)
        if named and life.record in free:
            return Named(life.record, life.node_id, life.record)
    return None


def unknown(given: str, names: Iterable[str]) -> Reply:
    """No such id; with the known one that is most like it."""
    like = get_close_matches(given, dict.fromkeys(names), n=1, cutoff=0.6)
    nearest = like[0] if like else None
    hint = f"; did you mean {nearest}?" if nearest is not None else ""
    text = f"no node, record or leftover is known as {given}{hint}"
    return Reply(Result.UNKNOWN, text, reason=Reason.UNKNOWN_ID, nearest=nearest)


def forcing(forced: Iterable[str]) -> Reply | None:
    """The refusal of a `--force` that nothing may break, or None (O3)."""
    for rule in forced:
        if rule not in FORCIBLE:
            text = (
                f"{rule} may never be broken by hand; these may: {', '.join(FORCIBLE)}. The last "
                "look at the cloud (C11), the conditional write (C12), breaker, lease and holds "
                "always stand"
            )
            return Reply(Result.REFUSED, text, reason=Reason.NEVER_FORCED, rule="O3")
    return None


# What the plan made of it.


def refused(verb: Verb, verdict: Verdict, named: Named) -> Reply:
    """The refusal that a verdict comes to: its reason, its rule, and what was measured."""
    reason, rule = verdict.reason, RULES.get(verdict.reason)
    measures = dict(verdict.measures or {})
    behind = f" ({rule})" if rule is not None else ""
    text = f"{named.id}: {reason.value}{behind}: {reason.doc}"
    if measures:
        text += f" [{', '.join(f'{key}={_shown(value)}' for key, value in measures.items())}]"
    if reason in _CLEAR:
        text += f" {_CLEAR[reason]}"
    force = UNVERIFIABLE if reason is Reason.UNVERIFIABLE else rule
    if verb is Verb.CLEAN and force in FORCIBLE:
        text += f" `--force {force}` says that this is no sign of life"
    return Reply(
        Result.REFUSED,
        text,
        record=named.record,
        node=named.node,
        reason=reason,
        rule=rule,
        measures=measures,
    )


def _shown(value: Any) -> str:
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def not_planned(made: Plan, id: str) -> Verdict | None:
    """Why no verdict was taken at all; None where one was."""
    if made.aborted is None:
        return None
    reason, measures = made.aborted
    return keep(id, reason, **measures)


def of_drain(named: Named, made: Plan, snapshot: Snapshot) -> Reply:
    """What the plan makes of a node that is marked to be drained; DONE when the mark stands."""
    verdict = _of_node(named, made, snapshot)
    if verdict.reason is Reason.NODE_ABSENT:
        return _gone(named)
    if made.aborted is not None or verdict.reason in _REFUSE_DRAIN:
        return refused(Verb.DRAIN, verdict, named)
    return _done(named, f"{_node(named)} is draining: it is shut down as soon as it is idle")


def of_kill(named: Named, made: Plan, snapshot: Snapshot) -> Reply:
    """What the plan makes of a node that is marked to be killed; DONE when the mark stands."""
    verdict = _of_node(named, made, snapshot)
    if verdict.reason is Reason.NODE_ABSENT:
        return _gone(named)
    if verdict.kind is Kind.SHUTDOWN:
        return _done(named, f"{_node(named)} is being shut down, busy or not")
    if verdict.reason in _WAITING:
        why = verdict.reason.value.replace("_", " ")
        return _done(named, f"{_node(named)} is shut down as soon as it may be ({why})")
    return refused(Verb.KILL, verdict, named)


def of_clean(named: Named, made: Plan) -> Reply | None:
    """What the plan makes of a record to be freed by hand; None when its clean is ordered."""
    uuid = named.record or named.id
    verdict = not_planned(made, uuid) or next((one for one in made.records if one.id == uuid), None)
    if verdict is None:
        return refused(Verb.CLEAN, keep(uuid, Reason.CHANGED_SINCE_LISTING), named)
    if verdict.kind is Kind.CLEAN:
        return None
    if verdict.reason is Reason.HOLDS_NOTHING or _just_freed(uuid, made.history):
        return replace(_done(named, f"{uuid} is clean already"), result=Result.ALREADY)
    if verdict.reason is Reason.IN_FLIGHT and (verdict.measures or {}).get("action") == "clean":
        return replace(_done(named, f"{uuid} is being cleaned"), result=Result.ALREADY)
    return refused(Verb.CLEAN, verdict, named)


def _just_freed(uuid: str, history: History) -> bool:
    """Whether we freed it since the newest record listing began, which shows it as it was."""
    shown = history.records.started_at if history.records is not None else float("-inf")
    return any(one.record == uuid and one.freed_at >= shown for one in history.freed.values())


def _of_node(named: Named, made: Plan, snapshot: Snapshot) -> Verdict:
    """The plan's verdict on a node; one that no listing has is absent, or still expected."""
    node_id = _node(named)
    views = (view.verdict for view in made.views if view.node.id == node_id)
    found = not_planned(made, node_id) or next(views, None)
    if found is not None:
        return found
    expected = any(one.node_id == node_id for one in snapshot.expected.values())
    return keep(node_id, Reason.NODE_EXPECTED if expected else Reason.NODE_ABSENT)


def _gone(named: Named) -> Reply:
    return replace(_done(named, f"{_node(named)} is gone already"), result=Result.ALREADY)


def _node(named: Named) -> str:
    return named.node or named.id


def without(named: Named, reason: Reason) -> Reply:
    """The refusal of a command about a node or record where the named one has none."""
    text = f"{named.id}: {reason.doc}"
    return Reply(Result.REFUSED, text, record=named.record, node=named.node, reason=reason)


def not_listed_yet(given: str) -> Reply:
    """The refusal of a command before there is a listing of everything."""
    text = f"{given}: {Reason.NO_LISTING.doc} Try again in a moment"
    return Reply(Result.REFUSED, text, reason=Reason.NO_LISTING, rule=RULES[Reason.NO_LISTING])


def failed(named: Named, text: str) -> Reply:
    return replace(_done(named, text), result=Result.FAILED)


def _done(named: Named, text: str) -> Reply:
    return Reply(Result.DONE, text, record=named.record, node=named.node)


# What stands.


def ended(marks: Iterable[str], history: History, gone: Iterable[str]) -> frozenset[str]:
    """The marked nodes that are no more: terminated, or gone by our own doing."""
    listed = history.cloud.items if history.cloud is not None else ()
    over = {node.id for node in listed if node.is_absent} | {*gone}
    return frozenset(over & {*marks})


def since(mark: Mark, stamp: str) -> str:
    """How a mark is told of: by whom, since when (`stamp`), and why."""
    why = f": {mark.reason}" if mark.reason else ""
    return f"by {mark.by or 'somebody'} since {stamp}{why}"
