"""The page of one record or node: its explanation, its history, and what can be ordered; and that
of a job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from nodemanager.core.explain.lists import DECISIONS, TableRow
from nodemanager.core.model.reasons import Kind
from nodemanager.core.operate.verbs import CommandTarget, Verb
from nodemanager.journal.event import LEVEL
from nodemanager.journal.explained import Part, explanation
from nodemanager.journal.job import explain_job
from nodemanager.lib.logline import Json, name_of, span
from nodemanager.web.dashboard.lists import ways
from nodemanager.web.dashboard.overview import alerts_block
from nodemanager.web.dashboard.render import Block, Page, Table, heads, link_of, part, row_id, words
from nodemanager.web.dashboard.source import ShownDecision, Source
from nodemanager.web.dashboard.tables import table
from nodemanager.web.explain import SOURCE, moment_of
from nodemanager.web.lists import TIMES, ListRequest, number_of, orders

DOING = {
    Kind.KEEP.value: "It is left alone",
    Kind.CLEAN.value: "It is freed",
    Kind.DEFER.value: "It is freed in a later cycle",
    Kind.SHUTDOWN.value: "It is shut down",
}
_SINCE = frozenset({"first_ping_s", "last_ping_s", "modified_s", "claimed_s"})


def thing(
    source: Source, seen: ShownDecision, path: str, given: str, query: Mapping[str, str]
) -> Page:
    """The page at `path`, of what `given` names; the `query` may ask for a part of its history.

    Raises UnknownIdError.
    """
    part_of_it = Part(
        since=moment_of(query.get("since")),
        until=moment_of(query.get("until")),
        before=number_of(query.get("before")),
    )
    journal = source.board.journal
    shown = explanation(seen.decision, given, source=SOURCE, journal=journal, part=part_of_it)
    doing = DOING.get(shown["verdict"]["kind"], words(shown["verdict"]["kind"]))
    stand = _orders(seen, shown)
    html = part("verdict", shown, doing)
    history = _history(shown, seen.decision.snapshot.wall)
    blocks = [
        alerts_block(seen),
        Block("verdict", "Decision", html),
        Block("acts", "Orders", _standing(stand) + part("acts", list(_acts(shown, stand)))),
        Block("facts", "What is known", part("facts", list(_facts(shown)))),
        Block("rules", "Each rule's answer", "", _rules(shown), wide=True),
        Block("history", "History", _ways(path, query, shown), history, wide=True),
    ]
    record = shown["record"]
    name = (record or {}).get("hostname") or shown["id"]
    nav = "Records" if shown["subject"] == "record" else "Nodes"
    return Page(f"{words(shown['subject']).capitalize()} {name}", nav, tuple(blocks))


def job(source: Source, seen: ShownDecision, given: str) -> Page:
    """The page of a job, also of one that left the queue. Raises UnknownIdError."""
    journal = source.board.journal
    shown = explain_job(seen.decision, given, source=SOURCE, journal=journal)
    blocks = (
        alerts_block(seen),
        Block("job", "What becomes of it", part("job", shown, _epoch), wide=True),
    )
    return Page(f"Job {shown['job']}", "Jobs", blocks)


def ids_of(shown: Json) -> tuple[str | None, str | None]:
    """The ids of the node and of the record that the explanation is of."""
    node, record = shown["node"], shown["record"]
    return (None if node is None else node["id"], None if record is None else record["uuid"])


def _orders(seen: ShownDecision, shown: Json) -> list[TableRow]:
    rows: list[TableRow] = orders(ListRequest(seen.decision))["orders"]
    return [one for one in rows if one["id"] is not None and one["id"] in ids_of(shown)]


def _standing(stand: Sequence[TableRow]) -> str:
    rows = [
        (one["order"], f"by {one['by']}{': ' + one['why'] if one['why'] else ''}", href(one))
        for one in stand
    ]
    return part("facts", rows) if rows else ""


def href(order: TableRow) -> str:
    return f"/orders?{urlencode({'order': order['order'], 'q': order['id']})}"


def _acts(shown: Json, stand: Sequence[TableRow]) -> Iterator[tuple[str, str, str, bool]]:
    """What can be ordered: verb, label, id, and whether it destroys or frees something."""
    node, record = ids_of(shown)
    subjects = {
        CommandTarget.NODE: node,
        CommandTarget.ANY: shown["id"],
        CommandTarget.RECORD: record if node is None else None,
    }
    for subject, id in subjects.items():
        verbs = [one for one in Verb if one.row.subject is subject]
        undoing = [verb for verb in verbs if verb.typed in {one["undo"] for one in stand}]
        for verb in undoing[:1] or [one for one in verbs if not one.row.ends]:
            if id is not None:
                yield verb.value, f"{verb.row.heading}…", id, verb.row.danger


def _facts(shown: Json) -> Iterator[tuple[str, str, str]]:
    """What is known of the record and the node: its name, the value, and the page of that."""
    for kind in ("record", "node"):
        for key, value in (shown[kind] or {}).items():
            if value is None or value in ("", False, []):
                continue
            page = link_of(key, value) if value != shown["id"] else ""
            yield f"{kind} {name_of(key)}", _fact(key, value), page
    for rival in shown["rivals"]:
        yield "rival", rival, link_of("record", rival)


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
    head = heads("rule", "says", "what must hold", "measured")
    return Table("Rules, the blocking ones first", head, rows, "no rule was asked")


def _ways(path: str, query: Mapping[str, str], shown: Json) -> str:
    """The form for a time range, and the ways to older and newer events."""
    html = part("time_range", path, {key: query.get(key, "") for key in TIMES})
    oldest = shown["history"][0]["number"] if shown["history_left_out"] else None
    return html + ways(path, query, oldest)


def _history(shown: Json, wall: float) -> Table:
    host = (shown["record"] or {}).get("hostname")
    rows = []
    for one in reversed(shown["history"]):
        measured = {key: value for key, value in one["measures"].items() if key != LEVEL}
        times = {"times": one["count"]} if one["count"] > 1 else {}
        of_row = {"at": _epoch(one["at"]), "host": host, "measures": {**times, **measured}}
        rows.append({**one, **of_row, "level": one["measures"].get(LEVEL, "info")})
    made = table(DECISIONS, rows, wall, shown["history_problem"] or "none")
    caption = "Events, the newest first"
    if shown["history_left_out"]:
        caption += f"; {shown['history_left_out']} are older"
    return replace(made, caption=caption)


def _epoch(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()
