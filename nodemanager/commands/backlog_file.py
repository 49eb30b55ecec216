"""A backlog plan as a file that people read, edit and comment.

    # comments, and items that are commented out
    pool = main
    clean zzzzz-7ekkf-000000000000007 version=3 reason=stale_slot slot=7 ...

`key = value` lines say where the plan was made; each other line is one item. Of an item only the
verb, the id, the version and the record are read back: the rest is evidence for the reviewer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nodemanager.core.model.reasons import Reason
from nodemanager.core.operate.backlog import ItemAction
from nodemanager.errors import NodeManagerError
from nodemanager.lib.logline import logfmt, visible

FORM = "1"
BOUND_TO = ("pool", "store", "account")
"""What a plan is valid for: a daemon refuses it where any of these differs (L5)."""

DOCS = {reason.value: reason.doc for reason in Reason}

_HEADER = re.compile(r"([a-z_]+) = (.*)")
_ID = re.compile(r"[!-<>-~]+")
_FIELD = re.compile(r'\s+(?:([A-Za-z_]+)=("(?:[^"\\]|\\.)*"|[^\s"]*)|(#.*))')
_ESCAPE = re.compile(r"\\(.)")
_SAYS = {
    ItemAction.CLEAN: "records to free, the longest quiet first",
    ItemAction.ADOPT: "nodes to adopt",
}


class PlanFileError(NodeManagerError):
    """A plan that can't be read. `problems` holds every problem, each as FILE:LINE."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True)
class PlanFile:
    """A plan as read from its file. `items` are {deed, id, version}, in the file's order; an
    adoption has {record}, too, where its line names one."""

    bound_to: Mapping[str, str]
    items: tuple[Mapping[str, str], ...]


_TOLD = (
    *("record", "name", "state", "created_at", "then"),
    *("slot", "host", "node", "last_sign_at", "asked", "claimed_by"),
)

_ADOPTING = """
# Nodes that somebody made by hand. Remove the # from a line to adopt its node: it gets our tags,
# and from then on this pool may drain it and shut it down. `then` says what happens to it next.
# Only nodes that you choose here are ever tagged (D11).""".splitlines()

# Write.


def render(plan: Mapping[str, Any]) -> str:
    return "\n".join((*_head(plan), *_body(plan["items"]), ""))


def write(path: Path, plan: Mapping[str, Any]) -> None:
    """Write the file of a plan. Raises PlanFileError."""
    try:
        path.write_text(render(plan), encoding="utf-8")
    except OSError as error:
        raise PlanFileError(f"{path}: can't be written: {error.strerror}") from error


def _head(plan: Mapping[str, Any]) -> Iterator[str]:
    yield "# A backlog plan of nodemanager. Nothing has been done yet."
    yield "#"
    yield "# Every line below that is not a comment will be carried out. Delete a line, or put a #"
    yield "# before it, to leave it out; comments are yours. Then:"
    yield "#"
    yield "#     nodemanager backlog apply THIS_FILE"
    yield "#"
    yield "# Each item names the version that was judged. An item that changed since is left alone."
    yield "# The others are judged again by the same rules, and the cloud is asked, before a write."
    yield ""
    yield f"form = {FORM}"
    for key in (*BOUND_TO, "made_at", "plan", "mode"):
        yield f"{key} = {visible(str(plan[key]))}"
    yield f"settings = {logfmt(plan['settings'])}"


def _body(items: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for deed in ItemAction:
        chosen = [one for one in items if one["deed"] == deed.value and one["chosen"]]
        others = [one for one in items if one["deed"] == deed.value and not one["chosen"]]
        if chosen:
            yield ""
            yield f"# {len(chosen)} {_SAYS[deed]}."
            yield from (_line(one) for one in chosen)
        if deed is ItemAction.ADOPT and others:
            yield from _ADOPTING
        for reason in sorted({str(one["reason"]) for one in others}):
            those = [one for one in others if one["reason"] == reason]
            yield ""
            why = f", {reason}: {DOCS[reason]}" if deed is ItemAction.CLEAN else "."
            yield f"# {len(those)} left out{why}"
            yield from (f"#{_line(one)}" for one in those)


def _line(item: Mapping[str, Any]) -> str:
    if _ID.fullmatch(item["id"]) is None:
        # It would read back as something else, so it must not be an item.
        return f"# left out, since its id has special characters: {item['deed']} {item['id']!a}"
    fields = {"version": item["version"], "reason": item["reason"]}
    fields |= {key: item.get(key) for key in _TOLD} | dict(item["measures"])
    return f"{item['deed']} {item['id']} {logfmt(fields)}"


# Read.


def read(path: Path) -> PlanFile:
    """The plan in that file, as edited. Raises PlanFileError with every problem."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PlanFileError(f"{path}: can't be read: {error}") from error
    header: dict[str, str] = {}
    items: dict[tuple[str, str], Mapping[str, str]] = {}
    problems: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        found = _HEADER.fullmatch(line)
        if found is not None:
            header[found[1]] = found[2].strip()
            continue
        try:
            item = _item(line)
        except ValueError as error:
            problems.append(f"{path}:{number}: {error}")
            continue
        if items.setdefault((item["deed"], item["id"]), item) is not item:
            problems.append(f"{path}:{number}: {item['id']} is in the plan twice")
    problems += [
        f"{path}: the line `{key} = ...` is missing; keep the head of the plan as it was written"
        for key in BOUND_TO
        if key not in header
    ]
    if header.get("form", FORM) != FORM:
        problems.append(f"{path}: form = {header['form']}, but this program reads form {FORM}")
    if problems:
        raise PlanFileError(*problems)
    return PlanFile({key: header[key] for key in BOUND_TO}, tuple(items.values()))


def _item(line: str) -> Mapping[str, str]:
    word, _, rest = line.partition(" ")
    if word not in [deed.value for deed in ItemAction]:
        known = ", ".join(deed.value for deed in ItemAction)
        raise ValueError(f"{word!r} is neither an action of a plan ({known}) nor a comment")
    id, space, rest = rest.strip().partition(" ")
    fields: dict[str, str] = {}
    at, rest = 0, space + rest
    while at < len(rest.rstrip()):
        field = _FIELD.match(rest, at)
        if field is None:
            raise ValueError(f"{rest[at:].strip()!r} is neither key=value nor a # comment")
        at = field.end()
        if field[1] is not None:
            fields[field[1]] = _plain(field[2])
    if not id or "=" in id or not fields.get("version"):
        raise ValueError(f"a line must be `{word} ID version=VERSION ...`")
    item = {"deed": word, "id": id, "version": fields["version"]}
    return {**item, "record": fields["record"]} if fields.get("record") else item


def _plain(value: str) -> str:
    return _ESCAPE.sub(r"\1", value[1:-1]) if value.startswith('"') else value
