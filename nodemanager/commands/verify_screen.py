"""What `nodemanager verify` shows: its progress, and the snapshot that it ends on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from nodemanager.commands import show
from nodemanager.core.model.reasons import Reason
from nodemanager.lib.logline import Json, span

MOST = 20
"""The most offenders that are shown; --json has them all."""
WIDTH = 10
ALWAYS = ("up", "settling", "stuck")
STYLES = {"settled": "green", "settling": "yellow", "stuck": "bold red"}


@contextmanager
def progress() -> Iterator[Callable[[Json, float], None]]:
    """Tells each attempt on the standard error: in place on a terminal; in a pipe a line each
    that says something else than the one before."""
    out = show.console(stderr=True)
    if out.is_terminal and not out.is_dumb_terminal:
        with out.status("asking the daemon") as spinner:
            yield lambda shown, waited_s: spinner.update(
                show.cell(f"{span(waited_s)}: {_line(shown)}")
            )
        return
    told = ""

    def tell(shown: Json, waited_s: float) -> None:
        nonlocal told
        before, told = told, _line(shown)
        if told != before:
            show.say(out, show.cell(f"{span(waited_s)}: {told}"))

    yield tell


def print_snapshot(shown: Json, attempts: int, waited_s: float) -> None:
    """Print the snapshot: its numbers, and who is not at rest and why."""
    out = show.console()
    tries = f"{attempts} attempt{'' if attempts == 1 else 's'}"
    after = f"after {span(waited_s)}, {tries}"
    outlook = show.cell(f"{shown['outlook']:<{WIDTH}}", STYLES[shown["outlook"]])
    show.say(out, outlook + show.cell(_of(shown, after)))
    lines = {"nodes": _nodes(shown)}
    if shown["boots"]:
        lines["boots"] = _counts(shown["boots"])
    if shown["slots"]:
        lines["slots"] = _slots(shown["slots"])
    for name, told in lines.items():
        show.say(out, show.cell(f"{name:<{WIDTH}}{told}"))
    found = shown["open"]
    if not found:
        return
    table = show.table(
        "outlook", "what", "id", "host", "slot", "reason", "", terminal=out.is_terminal
    )
    for one in found[:MOST]:
        count = f"{one['count']} {one['what']}s" if one["count"] > 1 else one["what"]
        cells = (count, one["id"], one["host"], one["slot"], one["reason"], _why(one))
        table.add_row(
            show.cell(one["outlook"], STYLES.get(one["outlook"], "")),
            *(show.cell("-" if cell is None else cell) for cell in cells),
        )
    show.say(out, table)
    if len(found) > MOST:
        show.say(out, show.cell(f"and {len(found) - MOST} more (--json has them all)"))


def _of(shown: Json, after: str) -> str:
    if not shown["plan"]:
        return f"the daemon has not decided anything yet, {after}"
    plan = f"plan {shown['plan']}, {span(shown['age_s'])} old"
    return f"pool {shown['pool']}  {shown['mode']}  {plan}, {after}"


def _line(shown: Json) -> str:
    """One attempt: what it counted, and the first thing that is not at rest."""
    first, *others = shown["open"]
    more = f" and {len(others)} more" if others else ""
    return f"{_nodes(shown)}; {first['id'] or 'pool'} {first['reason']}{more}"


def _nodes(shown: Json) -> str:
    nodes = shown["nodes"]
    if not nodes:
        return "not known"
    seen = {name: count for name, count in nodes.items() if count or name in ALWAYS}
    seen.pop("listed", None)
    coming = seen.pop("coming", 0)
    return _counts(seen) + (f", {coming} to come" if coming else "")


def _slots(slots: Json) -> str:
    total = "" if slots["total"] is None else f" of {slots['total']}"
    return f"{slots['held']} held{total}, {slots['leaked']} leaked"


def _counts(counts: Json) -> str:
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items())


def _why(item: Json) -> str:
    """The sentence of the reason code, and what was measured."""
    measures = ", ".join(f"{key}={value}" for key, value in item["measures"].items())
    known = {reason.value: reason.doc for reason in Reason}
    says = known.get(item["reason"], "")
    return f"{says} [{measures}]" if measures else says
