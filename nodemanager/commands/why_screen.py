"""The screens of `nodemanager why` and of a job."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from rich.console import Group, RenderableType
from rich.text import Text

from nodemanager.commands import show
from nodemanager.commands.listing_screen import STYLES
from nodemanager.commands.times import local
from nodemanager.lib.logline import Json, measure, span

LABEL = 8
"""The width of what stands before the lines of a size."""


def screen(shown: Json) -> RenderableType:
    if shown["aborted"] is not None:
        why = shown["aborted"]
        return Text.assemble("no decision: ", (why["reason"], "bold red"), f". {why['says']}")
    if not shown["sizes"]:
        return Text("no size has a node, and none is wanted")
    lines: list[Text] = []
    for one in shown["sizes"]:
        lines += [Text()] if lines else []
        lines += _size(one)
    return Group(*lines)


def _size(one: Json) -> Iterator[Text]:
    counts = [f"{count} {state}" for state, count in one["nodes"].items()]
    counts += [f"{one['coming']} coming"] if one["coming"] else []
    head = Text().append(show.cell(one["size"], "bold"))
    head.append(f"  {', '.join(counts) or 'no node'}; the queue wants {one['wished']}")
    for cause in one["grows"]:
        head.append(f"; {cause['count']} not booted: ").append(cause["reason"], "bold red")
    yield head
    yield from _lines("grows", _growing(one))
    yield from _lines("shrinks", _shrinking(one))
    for rest in one.get("resting", ()):
        place = show.cell(rest["place"])
        yield _line("rests", Text.assemble("in ", place, f" for {span(rest['for_s'])}"))


def _lines(label: str, said: Iterator[Text]) -> Iterator[Text]:
    for number, text in enumerate(said):
        yield _line(label if number == 0 else "", text)


def _line(label: str, text: Text) -> Text:
    return Text.assemble((f"  {label:<{LABEL}}", "dim"), text)


def _growing(one: Json) -> Iterator[Text]:
    if one["booting"]:
        yield Text(f"by {one['booting']} now", style="green")
    for cause in one["grows"]:
        yield _cause("not by", cause, "bold red")
    if one["grows"] or one["booting"]:
        return
    then = one["one_more"]
    line = Text("no: nothing more is wanted")
    if then is not None:
        line.append("; one more would be refused: ")
        line.append(show.cell(then["reason"], "yellow")).append(_more(then))
    yield line


def _shrinking(one: Json) -> Iterator[Text]:
    if one["going"]:
        yield Text(f"by {one['going']} now", style="yellow")
    for cause in one["shrinks"]:
        yield _cause("not by", cause, "")
    if not one["going"] and not one["shrinks"]:
        yield Text("no: it has no node", style="dim")


def _cause(said: str, cause: Json, style: str) -> Text:
    line = Text(f"{said} {cause['count']}: ")
    line.append(show.cell(cause["reason"], style or "bold")).append(_more(cause))
    return line.append(f"  {cause['says']}", style="dim")


def _more(cause: Json) -> Text:
    """The measures of a cause, and when it may end."""
    parts = [measure(key, value) for key, value in cause["measures"].items() if value is not None]
    if cause["in_s"] is not None:
        parts.append(f"may end in {span(cause['in_s'])}")
    return show.cell(f" ({', '.join(parts)})") if parts else Text()


def job_screen(one: Json, now: float) -> RenderableType:
    """A job (journal.job): what becomes of it in the first line, then what it asks for and has."""
    left = one["left_at"]
    has = ", ".join([*one["nodes"], *([f"{one['coming']} coming"] if one["coming"] else [])])
    head = Text().append(show.cell(one["job"], "bold"))
    if left is None:
        head.append(f"  {one['state']}", STYLES[one["state"]])
    else:
        head.append(f"  left the queue {_since(left, now)}")
        head.append(show.cell(f" with {has}" if has else " without a node", "bold"))
    if one["reason"] is not None:
        head.append(": ").append(show.cell(one["reason"], "bold")).append(_more(one))
        head.append(f"  {one['says']}", style="dim")
    each = "" if one["count"] == 1 else " each"
    lines = [head, _line("asks", Text(f"{_number(one['count'], 'node')}, {one['asks']}{each}"))]
    if one["asked_at"] is not None:
        lines.append(_line("asked", Text(_since(one["asked_at"], now))))
    lacks = one["count"] - len(one["nodes"]) - one["coming"]
    if one["state"] != "impossible":
        lines.append(_line("has" if left is None else "had", show.cell(has or "no node yet")))
        if lacks > 0:
            text = f"{_number(lacks, 'node')} of size {one['size']}"
            lines.append(_line("lacks" if left is None else "lacked", Text(text)))
    for node in one["came"]:
        if node["at"] is not None:
            lines.append(_line("came", show.cell(f"{node['host']} {_since(node['at'], now)}")))
    return Group(*lines)


def _since(stamp: str, now: float) -> str:
    at = datetime.fromisoformat(stamp).timestamp()
    return f"{local(at)} ({span(max(0.0, now - at))} ago)"


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
