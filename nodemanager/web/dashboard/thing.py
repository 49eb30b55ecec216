"""The page of one record or node: its explanation, its history, and what can be ordered; and that
of a job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from nodemanager.core.model.reasons import Kind
from nodemanager.core.operate.verb_row import CommandTarget
from nodemanager.core.operate.verbs import UNDO, Verb
from nodemanager.journal.event import LoggedEvent
from nodemanager.journal.explained import Part, told
from nodemanager.journal.job import told_job
from nodemanager.lib.logline import Json, span
from nodemanager.web.dashboard.decisions import number_of, ways
from nodemanager.web.dashboard.overview import EVENT_HEAD, alerts_block, event_row
from nodemanager.web.dashboard.page import Block, Page, Table, row_id
from nodemanager.web.dashboard.ranges import moment_of
from nodemanager.web.dashboard.render import heads, part, words
from nodemanager.web.dashboard.source import ShownDecision, Source
from nodemanager.web.explain import SOURCE

DOING = {
    Kind.KEEP.value: "It is left alone",
    Kind.CLEAN.value: "It is freed",
    Kind.DEFER.value: "It is freed in a later cycle",
    Kind.SHUTDOWN.value: "It is shut down",
}
_SINCE = frozenset({"first_ping_s", "last_ping_s", "modified_s", "claimed_s"})
_RULES = heads("rule", "says", "what must hold", "measured")


def thing(
    source: Source, seen: ShownDecision, path: str, given: str, query: Mapping[str, str]
) -> Page:
    """The page at `path`, of what `given` names; the `query` may ask for a part of its history.

    Raises UnknownIdError.
    """
    part_of_it = Part(
        since=moment_of(query.get("from")),
        until=moment_of(query.get("to")),
        before=number_of(query.get("before")),
    )
    journal = source.explanations.journal
    shown = told(seen.picture, given, source=SOURCE, journal=journal, part=part_of_it)
    doing = DOING.get(shown["verdict"]["kind"], words(shown["verdict"]["kind"]))
    orders = _orders(seen, shown)
    html = part("verdict", shown, doing)
    blocks = [
        alerts_block(seen),
        Block("verdict", "Decision", html),
        Block("acts", "Orders", _standing(orders) + part("acts", list(_acts(shown, orders)))),
        Block("facts", "What is known", part("facts", list(_facts(shown, seen)))),
        Block("rules", "Each rule's answer", "", _rules(shown), wide=True),
        Block("history", "History", _ways(path, query, shown), _history(shown), wide=True),
    ]
    record = shown["record"]
    name = (record or {}).get("hostname") or shown["id"]
    nav = "Records" if shown["subject"] == "record" else "Nodes"
    return Page(f"{words(shown['subject']).capitalize()} {name}", nav, tuple(blocks))


def job(source: Source, seen: ShownDecision, given: str) -> Page:
    """The page of a job, also of one that left the queue. Raises UnknownIdError."""
    journal = source.explanations.journal
    shown = told_job(seen.picture, given, source=SOURCE, journal=journal)
    blocks = (
        alerts_block(seen),
        Block("job", "What becomes of it", part("job", shown, _epoch), wide=True),
    )
    return Page(f"Job {shown['job']}", "Jobs", blocks)


def ids_of(shown: Json) -> tuple[str | None, str | None]:
    """The ids of the node and of the record that the explanation is of."""
    node, record = shown["node"], shown["record"]
    return (None if node is None else node["id"], None if record is None else record["uuid"])


def _orders(seen: ShownDecision, shown: Json) -> dict[str, Any]:
    """The operators' orders that stand for it: the mark by its kind."""
    ids = set(ids_of(shown)) - {None}
    standing = seen.status.marks.by_kind
    return {
        kind: mark for kind, these in standing.items() for id, mark in these.items() if id in ids
    }


def _standing(orders: Mapping[str, Any]) -> str:
    rows = [
        (kind, f"by {mark.by or 'somebody'}{': ' + mark.reason if mark.reason else ''}")
        for kind, mark in orders.items()
    ]
    return part("facts", rows) if rows else ""


def _acts(shown: Json, orders: Mapping[str, Any]) -> Iterator[tuple[str, str, str, bool]]:
    """What can be ordered: verb, label, id, and whether it destroys or frees something."""
    node, record = ids_of(shown)
    subjects = {
        CommandTarget.NODE: node,
        CommandTarget.ANY: shown["id"],
        CommandTarget.RECORD: record if node is None else None,
    }
    for subject, id in subjects.items():
        verbs = [one for one in Verb if one.row.subject is subject]
        undoing = [UNDO[kind] for kind in orders if UNDO[kind] in verbs]
        for verb in undoing[:1] or [one for one in verbs if not one.row.ends]:
            if id is not None:
                yield verb.value, f"{verb.row.heading}…", id, verb.row.danger


def _facts(shown: Json, seen: ShownDecision) -> Iterator[tuple[str, Any]]:
    for kind in ("record", "node"):
        for key, value in (shown[kind] or {}).items():
            if value is None or value in ("", False, []):
                continue
            yield f"{kind} {words(key.removesuffix('_s'))}", _fact(key, value)
    if shown["rivals"]:
        yield "rivals", ", ".join(shown["rivals"])


def _fact(key: str, value: Any) -> str:
    if key.endswith("_s") and isinstance(value, (int, float)):
        # In whole minutes from two on, so that the page does not change with each decision.
        seconds = value if value < 120 else value // 60 * 60
        return f"{span(seconds)} ago" if key in _SINCE else span(seconds)
    if value is True:
        return "yes"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _rules(shown: Json) -> Table:
    order = ["blocks", "calls", "passed", "not_asked"]
    rows = {}
    for number, one in sorted(
        enumerate(shown["rules"]), key=lambda each: order.index(each[1]["status"])
    ):
        id = row_id(f"rule {one['rule']} {one['name']} {number}")
        rows[id] = part("rule_row", id, one)
    return Table("Rules, the blocking ones first", _RULES, rows, "no rule was asked")


def _ways(path: str, query: Mapping[str, str], shown: Json) -> str:
    """The form for a time range, and the ways to older and newer events."""
    html = part("time_range", path, query.get("from", ""), query.get("to", ""))
    oldest = shown["history"][0]["number"] if shown["history_left_out"] else None
    return html + ways(path, query, oldest)


def _history(shown: Json) -> Table:
    rows = {}
    for number, one in enumerate(reversed(shown["history"])):
        id = row_id(f"past {one['at']} {one['event']} {number}")
        event = LoggedEvent(
            at=_epoch(one["at"]),
            event=one["event"],
            reason=one["reason"],
            more=one["measures"],
        )
        rows[id] = event_row(id, event, one["count"])
    caption = "Events, the newest first"
    if shown["history_left_out"]:
        caption += f"; {shown['history_left_out']} are older"
    return Table(caption, EVENT_HEAD, rows, shown["history_problem"] or "none")


def _epoch(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()
