"""The output of `nodemanager explain` for an explanation (journal.explained.as_json)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from nodemanager.commands import show
from nodemanager.commands.times import local
from nodemanager.commands.why_screen import job_screen
from nodemanager.core.explain.events import did
from nodemanager.core.model.reasons import Event
from nodemanager.lib.logline import Json, measure, span

THRESHOLDS = frozenset(
    {
        "window_s",
        "limit_s",
        "settle_s",
        "stale_s",
        "needed_listings",
        "needed_polls",
        "limit",
        "ours",
        "judged",
    }
)
"""The measures that are thresholds for others."""
NAMES = {
    "absent_listings": "listings",
    "record_listings": "listings",
    "needed_listings": "listings",
    "idle_polls": "polls",
    "needed_polls": "polls",
    "agreed_polls": "polls",
}
"""Measures that are called as their thresholds in the column beside."""
AT_ONCE_S = 1.0
SAYS = {"blocks": "blocks", "passed": "passed", "calls": "calls for it", "not_asked": "not asked"}
STYLES = {"blocks": "bold red", "passed": "green", "calls": "yellow", "not_asked": "dim"}
KINDS = {
    "keep": ("is left alone", "green"),
    "clean": ("is freed", "yellow"),
    "defer": ("is freed in a later cycle", "yellow"),
    "shutdown": ("is shut down", "yellow"),
}


ENDS_OF_LOSS = frozenset({Event.NODE_LOST, Event.NODE_CREATED, Event.RECORD_CLEANED})
LATELY = 5
"""How many events of its history are shown without --all."""


def screen(
    shown: Json, *, terminal: bool, now: float, whole: bool = False
) -> Iterator[RenderableType]:
    """The parts of the answer, from top to bottom; `now` is epoch seconds.

    It begins with the answer in a sentence, then what blocks; `whole` adds every rule that was
    asked and the whole history.
    """
    if shown["subject"] == "job":
        yield job_screen(shown, now)
        return
    yield _headline(shown, now)
    yield _earliest(shown, now)
    blocks = [one for one in shown["rules"] if one["status"] == "blocks"]
    yield _blocking(shown)
    if blocks and not whole:
        yield _rules(blocks, terminal=terminal)
    yield _facts(shown, terminal=terminal, now=now)
    if whole:
        yield Text()
        yield _rules(shown["rules"], terminal=terminal)
    yield from _history(shown, terminal=terminal, most=None if whole else LATELY)
    if not whole:
        rest = f"{len(shown['rules']) - len(blocks)} other rules do not block"
        older = max(0, len(shown["history"]) - LATELY) + shown["history_left_out"]
        rest += f", and {older} older events are left out" if older else ""
        yield Text(f"{rest}; --all shows them", style="dim")


def _headline(shown: Json, now: float) -> Text:
    verdict = shown["verdict"]
    doing, style = KINDS.get(verdict["kind"], (verdict["kind"], ""))
    line = Text().append(show.cell(_name(shown), "bold"))
    line.append(f" {doing}: ", style)
    line.append(verdict["reason"], f"bold {style}")
    line.append(f". {verdict['says']}")
    measures = ", ".join(filter(None, _beside(verdict["measures"])))
    line.append(show.cell(f" Measured: {measures}." if measures else ""))
    lost = next((one for one in shown["history"][::-1] if one["event"] in ENDS_OF_LOSS), None)
    if lost is not None and lost["event"] == Event.NODE_LOST and shown["node"] is None:
        line.append(f" Its node was lost at {_moment(lost['at'], now)}, ", "bold")
        line.append(show.cell(did(lost["measures"].get("was") or "unknown")))
    return line


def _name(shown: Json) -> str:
    record = shown["record"]
    if shown["subject"] == "record" and record is not None and record["hostname"]:
        return f"{record['hostname']} ({shown['id']})"
    return f"{shown['subject']} {shown['id']}"


def _facts(shown: Json, *, terminal: bool, now: float) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", no_wrap=not terminal)
    if shown["record"] is not None:
        table.add_row("record", show.cell(_record(shown["record"])))
    elif shown["subject"] == "node":
        table.add_row("record", "none")
    if shown["node"] is not None:
        table.add_row("node", show.cell(_node(shown["node"])))
    else:
        table.add_row("node", "none is listed")
    if shown["rivals"]:
        table.add_row("rivals", show.cell(", ".join(shown["rivals"])))
    since = span(now - shown["wall"])
    source = "the running daemon" if shown["source"] == "daemon" else shown["source"]
    mode = "" if shown["mode"] == "apply" else f", {shown['mode']}"
    when = f"{local(shown['wall'])} ({since} ago), plan {shown['plan']}, pool {shown['pool']}{mode}"
    table.add_row("decided", show.cell(when))
    table.add_row("from", show.cell(source))
    return table


def _record(record: Json) -> str:
    words = [record["uuid"], record["state"]]
    words.append("no slot" if record["slot"] is None else f"slot {record['slot']}")
    if record["address"]:
        words.append(record["address"])
    if record["claimed_s"] is not None:
        words.append(f"claimed {span(record['claimed_s'])} ago for {record['claimed_for']}")
    if record["last_ping_s"] is not None:
        words.append(f"pinged {span(record['last_ping_s'])} ago")
        words.append(f"worker state: {record['word']}")
    elif record["claimed_s"] is not None:
        words.append("never pinged")
    if record["instance_id"]:
        words.append(f"by {record['instance_id']}")
    words += [word for word in ("held", "fenced") if record[word]]
    return ", ".join(words)


def _node(node: Json) -> str:
    words = [node["id"]]
    if node["name"] not in ("", node["id"]):
        words.append(node["name"])
    words.append(node["state"])
    if node["size"]:
        words.append(node["size"])
    if node["age_s"] is not None:
        words.append(f"launched {span(node['age_s'])} ago")
    words.append("paired" if node["paired"] else "not paired")
    words += ["held"] if node["held"] else []
    return ", ".join(words)


def _rules(rules: Iterable[Json], *, terminal: bool) -> Table:
    table = show.table("rule", "says", "what must hold", "measured", "threshold", terminal=terminal)
    for one in rules:
        style = "dim" if one["status"] == "not_asked" else ""
        measured, threshold = _beside(one["measures"])
        if one["status"] == "not_asked":
            measured = f"({one['why']})" + (f" {measured}" if measured else "")
        elif one["status"] == "passed" and one["why"]:
            measured = f"({one['why']}) {measured}".rstrip()
        elif one["reason"] is not None and not measured:
            measured = one["reason"]
        table.add_row(
            show.cell(one["rule"], style),
            show.cell(SAYS[one["status"]], STYLES[one["status"]]),
            show.cell(one["asks"], style),
            show.cell(measured, style),
            show.cell(threshold, style),
        )
    return table


def _beside(measures: Json) -> tuple[str, str]:
    worded = {key: measure(NAMES.get(key, key), value) for key, value in measures.items()}
    values = [one for key, one in worded.items() if one and key not in THRESHOLDS]
    limits = [one for key, one in worded.items() if one and key in THRESHOLDS]
    return ", ".join(values), ", ".join(limits)


def _blocking(shown: Json) -> Text:
    """The rules that block, with the deciding one first."""
    line = Text().append("blocking: ", "bold")
    blocks = [one for one in shown["rules"] if one["status"] == "blocks"]
    if not blocks:
        return line.append("nothing", "green")
    for place, one in enumerate(blocks):
        line.append(", " if place else "")
        line.append(one["rule"], "bold red").append(f" {one['reason']}")
    return line


def _earliest(shown: Json, now: float) -> Text:
    """The earliest time at which it could be freed or shut down, or what it waits for."""
    when, subject = shown["earliest"], shown["subject"]
    deed = "freed" if subject == "record" else "shut down"
    line = Text().append("earliest: ", "bold")
    if when["in_s"] is not None and when["in_s"] < AT_ONCE_S:
        words = "once polls succeed" if shown["blocks"] else "as decided"
        return line.append("at once", "bold green").append(f", {words}")
    if when["at"] is not None:
        line.append(_moment(when["at"], now), "bold green")
        return line.append(f" it could be {deed}, if only time passes")
    line.append(f"unknown, since it can be {deed} only after something else changes:")
    for why in when["why"]:
        line.append("\n  - ").append(show.cell(why))
    if when["not_before"] is not None:
        line.append(f"\n  and not before {_moment(when['not_before'], now)}")
    return line


def _moment(stamp: str, now: float) -> str:
    at = datetime.fromisoformat(stamp).timestamp()
    return (
        f"{local(at)} (in {span(at - now)})" if at > now else f"{local(at)} ({span(now - at)} ago)"
    )


def _history(shown: Json, *, terminal: bool, most: int | None) -> Iterator[RenderableType]:
    """The newest `most` events of its history, or all."""
    if shown["history_problem"]:
        yield Text()
        yield show.cell(f"no history: {shown['history_problem']}", "dim")
    if not shown["history"]:
        return
    yield Text()
    table = show.table("when", "what", "why", "measured", "threshold", terminal=terminal)
    for one in shown["history"] if most is None else shown["history"][-most:]:
        measured, threshold = _beside(one["measures"])
        at = datetime.fromisoformat(one["at"]).timestamp()
        table.add_row(
            show.cell(local(at) if terminal else one["at"], "dim"),
            show.cell(one["event"] + (f" ({one['count']})" if one["count"] > 1 else "")),
            show.cell(one["reason"] or "", "bold"),
            show.cell(measured),
            show.cell(threshold),
        )
    yield table
