"""The screen for a daemon's status.json, for a terminal and for a pipe."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nodemanager.commands.show import cell
from nodemanager.core.operate.verbs import STANDING
from nodemanager.lib.logline import Json, span, visible
from nodemanager.lib.logscreen import style_of

GOOD, ODD, BAD, FAINT = "green", "yellow", "bold red", "dim"

NODE_STATES = (
    *("busy", "idle", "booting", "unlisted", "unknown", "unpaired", "down", "fail", "shutdown"),
)
_WORDS = {"fail": "bad", "shutdown": "shutting down"}
JOBS_SHOWN = 5
"""The most unsatisfiable jobs that are named."""
_TROUBLE = frozenset({"down", "fail", "unlisted", "unpaired"})
HELD_FOR = {
    "listed_node": "with a node",
    "claim": "claimed, no ping yet",
    "claim_without_slot": "being set up",
    "other_pool": "other pools'",
    "seat_untold": "unknown to the scheduler",
    "seat_elsewhere": "of other partitions",
    "seat_reserved": "reserved",
    "seat_drained": "drained by somebody else",
    "seat_down": "down in the scheduler",
    "seat_changing": "powering down",
    "seat_up": "up without a claim",
}
MOST_IDS, MOST_MARKS, LATEST = 5, 10, 6
WIDEST = 24
AT_NEXT_POLL = frozenset({"changed_since_listing", "no_listing_order", "in_flight", "cap_reached"})


def screen(status: Json) -> RenderableType:
    """The whole screen: a label and its lines for each subject."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for label, lines in _subjects(status):
        for number, line in enumerate(lines):
            grid.add_row(Text(label if number == 0 else "", style="bold"), line)
    return Group(_head(status), grid)


def _subjects(status: Json) -> Iterator[tuple[str, Sequence[RenderableType]]]:
    yield "slots", _slots(status["slots"])
    yield "nodes", _nodes(status)
    if status.get("spares"):
        yield "spares", _spares(status["spares"])
    rotation = status.get("rotation", {})
    if rotation.get("sizes"):
        yield "rotation", _rotation(rotation)
    yield "boots", _boots(status)
    yield "records", [_counts(status["records"]) or _none()]
    yield "polls", _polls(status)
    yield "breaker", _breaker(status["breaker"])
    yield "lease", [_lease(status["lease"], status["mode"])]
    yield "waiting", _waiting(status)
    if status.get("notices"):
        yield "for you", _notices(status["notices"])
    yield "holds", _holds(status)
    leftovers = {state: count for state, count in status["leftovers"].items() if count}
    yield "leftovers", [_counts(leftovers, bad=("failed",)) or _none()]
    if status.get("lately"):
        yield "lately", _lately(status["lately"])


def _head(status: Json) -> RenderableType:
    mode = str(status["mode"])
    head = Text.assemble(
        (f"pool {status['pool']}", "bold"),
        "  ",
        (mode, GOOD if mode == "apply" else ODD),
    )
    if mode == "dry-run":
        head.append(" (nothing is written)", style=FAINT)
    elif mode == "standby":
        head.append(" (another manager acts)", style=FAINT)
    elif mode == "read-only":
        head.append(": ").append(cell(status.get("read_only") or "look at its log", ODD))
    for one in STANDING.values():
        mark = status.get(one.part, {})
        if mark.get(one.flag):
            style = BAD if one.level == "bad" else ODD
            said = one.word.replace("_", " ").upper()
            head.append(f"  {said} for {span(mark[f'{one.flag}_s'])}", style=style)
            if "by" in mark:
                why = f": {mark['reason']}" if mark["reason"] else ""
                head.append(" by ").append(cell(f"{mark['by']}{why}", ODD))
    plan = status["plan"]
    head.append(f"  plan {plan['id']}, {span(status['cycle_age_s'])} ago", style=FAINT)
    if plan["aborted"] is not None:
        head.append(f"  no decision: {plan['aborted']}", style=BAD)
    head.append(f"  version {status['Version']}", style=FAINT)
    return head


def _slots(slots: Json) -> Sequence[RenderableType]:
    leaked = slots["leaked"]
    first = Text(f"{slots['used']} used")
    if slots["total"] is not None:
        first.append(f" of {slots['total']}, ")
        free = f"{slots['free']} free"
        if slots["free"] == 0 and slots["free_in_s"] is not None:
            free += f" (the next in {span(slots['free_in_s'])})"
        first.append(free, style=GOOD if slots["free"] else BAD)
    first.append(", ")
    first.append(f"{leaked['count']} leaked", style=BAD if leaked["count"] else FAINT)
    lines: list[RenderableType] = [first]
    held = {HELD_FOR[why]: slots["held_by"].get(why) for why in HELD_FOR}
    if any(held.values()):
        lines.append(_counts({why: count for why, count in held.items() if count}))
    if leaked["causes"]:
        lines += _leaks(leaked["causes"])
    return lines


def _leaks(causes: Sequence[Json]) -> list[Text]:
    digits = max(len(str(one["count"])) for one in causes)
    rows = []
    for one in causes:
        oldest, free = one["oldest_s"], one["free_in_s"]
        rows.append(
            (
                Text(str(one["count"]).rjust(digits), style=BAD if one["leaked"] else ODD),
                cell(one["cause"]),
                Text("" if oldest is None else f"quiet {span(oldest)}"),
                Text(_unwindowed(one["cause"]) if free is None else _soonest(free), style=FAINT),
            )
        )
    return _aligned(rows)


def _unwindowed(cause: str) -> str:
    """What slots wait for that no passing of time frees."""
    return "judged anew at the next poll" if cause in AT_NEXT_POLL else "no window frees it"


def _soonest(free_in_s: float) -> str:
    return f"first free in {span(free_in_s)}" if free_in_s > 0 else "being freed"


def _nodes(status: Json) -> Sequence[RenderableType]:
    # A daemon from before an upgrade may not count all of them.
    counts = {one: status.get(f"nodes_{one}", 0) for one in NODE_STATES}
    present = {_WORDS.get(one, one): count for one, count in counts.items() if count}
    trouble = [_WORDS.get(one, one) for one in _TROUBLE]
    line = _counts(present, bad=trouble) or _none()
    line.append(f"; {status['nodes_wish']} wished for", style=FAINT)
    line.append(f", at most {status['config_max_nodes']}", style=FAINT)
    if status["node_quota"] != status["config_max_nodes"]:
        line.append(f", the cloud allows {status['node_quota']}", style=ODD)
    if status["price"]:
        line.append(f", {status['price']:g} per hour", style=FAINT)
    return [line]


def _spares(spares: Json) -> Sequence[Text]:
    """`2 of 3  small`, and how many are given up while something runs short."""
    lines = []
    for size, one in spares.items():
        ready = min(one["ready"], one["wanted"])
        line = Text(f"{ready} of {one['wanted']}", style=GOOD if ready else ODD)
        line.append("  ").append(cell(size))
        if one["kept"] < one["wanted"]:
            given_up = one["wanted"] - one["kept"]
            line.append(f"  {given_up} given up: something runs short", style=ODD)
        lines.append(line)
    return lines


def _rotation(rotation: Json) -> Sequence[Text]:
    """The outdated nodes of each size, and which is replaced now, or why none is."""
    lines = []
    for one in rotation["sizes"]:
        line = Text(f"{one['outdated']} of {one['nodes']} to replace", style=ODD)
        line.append("  ").append(cell(one["size"])).append("  ")
        line.append(", ".join(f"{count} {cause}" for cause, count in one["causes"].items()))
        if one.get("node"):
            line.append("  now ").append(cell(one["node"]))
        if one["waits"] is not None:
            style = BAD if one["waits"] == "rotation_stalled" else FAINT
            line.append(f"  waits: {one['waits']}", style=style)
            if one.get("at"):
                line.append(" by ").append(cell(one["at"]))
        lines.append(line)
    return lines


def _boots(status: Json) -> Sequence[RenderableType]:
    refused, jobs = status["boots_refused"], status["jobs_unsatisfiable"]
    lines: list[RenderableType] = [
        Text.assemble(
            (f"{one['count']} refused", ODD), "  ", cell(one["size"]), f"  {one['reason']}"
        )
        for one in refused
    ]
    lines += [
        Text.assemble(
            (f"rests for {span(one['for_s'])}", ODD),
            *("  ", cell(one["size"]), "  in ", cell(one["place"])),
        )
        for one in status.get("places_resting", ())
    ]
    named = jobs.get("jobs", ())[:JOBS_SHOWN]
    lines += [
        Text.assemble(("can't be had", BAD), "  job ", cell(one["id"]), f"  {one['reason']}")
        for one in named
    ]
    if jobs["count"] > len(named):
        more = "jobs" if not named else "more"
        lines.append(Text(f"{jobs['count'] - len(named)} {more} can't be had", style=BAD))
    return lines or [Text("none refused", style=FAINT)]


def _polls(status: Json) -> Sequence[RenderableType]:
    limit = status["poll_stale_after_s"]
    rows = []
    for source, poll in status["polls"].items():
        age, failures = poll["age_s"], poll["failures_in_a_row"]
        style = BAD if poll["stale"] else GOOD
        rows.append(
            (
                cell(source),
                Text("no answer yet" if age is None else f"{span(age)} old", style=style),
                Text("" if limit is None else f"stale after {span(limit)}", style=FAINT),
                Text(f"{poll['items']} items"),
                Text(_in_a_row(failures), style=BAD),
            )
        )
    lines: list[RenderableType] = []
    for line, poll in zip(_aligned(rows), status["polls"].values(), strict=True):
        lines.append(line)
        # A daemon from before an upgrade does not say why.
        if poll.get("error"):
            lines.append(cell(poll["error"], ODD))
    return lines or [Text("none yet", style=FAINT)]


def _in_a_row(failures: int) -> str:
    if failures < 2:
        return "failed" if failures else ""
    return f"{failures} failures in a row"


def _breaker(breaker: Json) -> Sequence[RenderableType]:
    if not breaker["open"]:
        return [Text("closed", style=GOOD)]
    lines: list[RenderableType] = []
    for part in (breaker, *breaker["others"]):
        lines.append(
            Text.assemble(
                (f"OPEN for {span(part['open_s'])}", BAD),
                "  ",
                cell(part.get("cause", part["reason"])),
            )
        )
        if "clear" in part:
            lines.append(cell(part["clear"], FAINT))
    lines.append(Text("nothing is freed or destroyed meanwhile", style=FAINT))
    return lines


def _lease(lease: Json, mode: str) -> Text:
    if mode == "dry-run":
        return Text("none: a dry run takes none", style=FAINT)
    words = {"active": ("held", GOOD), "standby": ("standing by: held", ODD)}
    text, style = words.get(lease["role"], ("not held: only looking", ODD))
    held, is_over = Text(text, style=style), lease["role"] == "none"
    if lease.get("holder") and not is_over:
        held.append(" by ").append(cell(lease["holder"]))
    if lease["until"] is not None:
        held.append(f" {'since' if is_over else 'until'} {lease['until']}", style=FAINT)
    if lease.get("error"):
        held.append(": ").append(cell(lease["error"], BAD))
    return held


def _waiting(status: Json) -> Sequence[RenderableType]:
    """In-flight actions, and the work that a cap or the backlog defers."""
    reasons = status["plan"]["reasons"]
    lines: list[RenderableType] = []
    if status["under_way"]:
        line = Text("under way: ")
        lines.append(line.append(_counts(status["under_way"])))
    if status["plan"]["deferred"]:
        lines.append(Text(f"{status['plan']['deferred']} cleans deferred to the next cycle"))
    if reasons.get("shutdown_cap"):
        lines.append(Text(f"{reasons['shutdown_cap']} shutdowns deferred to the next cycle"))
    return lines or [Text("nothing", style=FAINT)]


def _notices(notices: Sequence[Json]) -> Sequence[RenderableType]:
    """What only a person can end, and how."""
    lines: list[RenderableType] = []
    for one in notices:
        what = "slots" if one["event"] == "slots.stuck" else "records"
        line = Text.assemble((f"{one['count']} {what}", ODD), f"  {one['reason']}")
        slots = one.get("slots", [])
        if slots:
            more = " ..." if len(slots) > MOST_IDS else ""
            line.append(f"  {' '.join(map(str, slots[:MOST_IDS]))}{more}")
        lines += [line, cell(one["clear"], FAINT)]
    return lines


def _holds(status: Json) -> Sequence[RenderableType]:
    """Operators' holds and standing orders; who gave them and why, for readers who may see it."""
    marks = status.get("marks", ())
    if marks:
        return [_mark(one) for one in marks[:MOST_MARKS]] + [Text("...")] * (
            len(marks) > MOST_MARKS
        )
    return [_counts({kind: count for kind, count in status["orders"].items() if count}) or _none()]


def _lately(groups: Sequence[Json]) -> Sequence[RenderableType]:
    """What happened in the last hour, in groups, the worst first (`nodemanager events`)."""
    now = time.time()
    rows = [
        (
            cell(f"{span(max(0.0, now - one['last_at']))} ago", FAINT),
            Text(f"{one['count']} x" if one["count"] > 1 else ""),
            cell(one["event"], style_of(one["event"], one["level"])),
            cell(one["reason"] or ""),
            cell(" ".join(one["names"]), FAINT),
        )
        for one in groups[:LATEST]
    ]
    return _aligned(rows)


def _mark(mark: Json) -> Text:
    line = Text.assemble((f"{mark['kind']:<5}", ODD), "  ", cell(mark["id"]), "  ")
    line.append(cell(f"by {mark['by']} since {mark['since']}", FAINT))
    if mark["reason"]:
        line.append(": ").append(cell(mark["reason"]))
    return line


def _aligned(rows: Sequence[Sequence[Text]]) -> list[Text]:
    """A line for each row, with aligned cells.

    A very long cell shifts only the rest of its own line, so that no other line has to wrap.
    """
    widths = [
        max((len(one) for one in column if len(one) <= WIDEST), default=0)
        for column in zip(*rows, strict=True)
    ]
    lines = []
    for row in rows:
        line = Text()
        for one, width in zip(row, widths, strict=True):
            line.append(one).append(" " * (max(0, width - len(one)) + 2))
        line.rstrip()
        lines.append(line)
    return lines


def _none() -> Text:
    return Text("none", style=FAINT)


def _counts(counts: Mapping[str, int], bad: Sequence[str] = ()) -> Text:
    """`3 busy, 1 idle`; empty for none."""
    line = Text()
    for number, (word, count) in enumerate(counts.items()):
        line.append(", " if number else "")
        shown = visible(word.replace("_", " "))
        line.append(f"{count} {shown}", style=BAD if word in bad else "")
    return line
