"""A page as blocks and rows; Jinja's environment for it, and what its templates may call."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any
from urllib.parse import quote, urlencode

import jinja2
from markupsafe import Markup

from nodemanager import __version__
from nodemanager.core.judge.node_view import BAD
from nodemanager.core.model.reasons import Event, Reason
from nodemanager.lib.logline import measure, span, timestamp, visible


@dataclass(frozen=True, slots=True)
class Table:
    """A table. `head` is HTML, as are the rows, by their ids in the document; `empty` is shown
    without rows."""

    caption: str
    head: str
    rows: Mapping[str, str]
    empty: str = "none"


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a page with a heading: its HTML, and below it a table. `wide` takes the full
    width."""

    id: str
    title: str
    html: str = ""
    table: Table | None = None
    wide: bool = False


@dataclass(frozen=True)
class Page:
    """A page of the dashboard. `nav` is the entry of the navigation that it belongs to.

    `html` are the title and the blocks as HTML, `packed` is the same by gzip, and `version` is
    another one for each such text.
    """

    title: str
    nav: str
    blocks: tuple[Block, ...]
    html: str = ""
    packed: bytes = b""
    version: str = ""


@lru_cache(maxsize=50_000)
def row_id(key: str) -> str:
    """An id for the row of `key`, whatever characters a cloud's id has."""
    return "r" + hashlib.blake2s(key.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()


_DOCS: dict[str, str] = {one.value: one.doc for one in (*Reason, *Event)}


def _shown(value: Any) -> Any:
    """What a template prints: texts of clouds and users with no invisible character in them."""
    if isinstance(value, Markup):
        return value
    if value is None:
        return ""
    return visible(value) if isinstance(value, str) else value


def _time(kind: str, at: float | None) -> Markup:
    if at is None:
        return Markup()
    stamp = timestamp(at)
    shown = f"{stamp[:10]} {stamp[11:19]}Z"
    frame = Markup('<time data-{}="{}" datetime="{}Z">{}</time>')
    return frame.format(kind, round(at), stamp[:19], shown)


def ago(at: float | None) -> Markup:
    """A moment that the page's script shows as the time since then; without it as UTC."""
    return _time("ago", at)


def until(at: float | None) -> Markup:
    """A moment that the page's script shows as the time until then."""
    return _time("until", at)


def clock(at: float | None) -> Markup:
    """A moment that the page's script shows in the browser's own time zone."""
    return _time("clock", at)


def words(value: Any) -> str:
    return str(value).replace("_", " ")


def doc_of(code: Any) -> str:
    """The sentence about a reason code or an event; empty for another text."""
    return _DOCS.get(str(code), "")


def path_of(kind: str, id: str) -> str:
    return f"/{kind}/{quote(id, safe='')}"


_PAGES = {
    **dict.fromkeys(("node", "nodes", "names", "host", "hostname", "id", "instance_id"), "nodes"),
    **dict.fromkeys(("record", "uuid"), "records"),
    "job": "jobs",
}
"""The kind of page that a value leads to, by its key."""
_CHOOSE = {"event": "/log", "reason": "/log", "orders": "/orders", "order": "/orders"}
"""The page that shows all with a value, by its key."""


def link_of(key: str, value: Any) -> str:
    """The page of what a value names by that key; empty for one that names nothing."""
    if key in _CHOOSE:
        return f"{_CHOOSE[key]}?{urlencode({key.removesuffix('s'): value})}"
    if key in _PAGES:
        # A lost node's name has what it did behind it.
        name = str(value).partition(":")[0] if key == "names" else str(value)
        return path_of(_PAGES[key], name)
    return ""


def act_path(verb: str, id: str | None = None) -> str:
    """The page that asks before it gives that order."""
    return f"/act/{verb}" + ("" if id is None else f"?{urlencode({'id': id})}")


def measures(measured: Any) -> str:
    return ", ".join(measure(key, one) for key, one in (measured or {}).items() if one is not None)


@cache
def environment() -> jinja2.Environment:
    """The templates; every text from a cloud or user is escaped."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("nodemanager.web.dashboard"),
        autoescape=True,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        auto_reload=False,
    )
    made.globals |= {
        "ago": ago,
        "until": until,
        "clock": clock,
        "words": words,
        "doc_of": doc_of,
        "path_of": path_of,
        "link_of": link_of,
        "act_path": act_path,
        "bad": ",".join(sorted(BAD)),
        "measures": measures,
        "span": span,
        "version": __version__,
    }
    return made


def rendered(template: str, **given: Any) -> str:
    return environment().get_template(template).render(**given)


def part(name: str, *given: Any) -> str:
    """The macro `name` of parts.html.j2, called with these values."""
    made = environment().get_template("parts.html.j2").module
    return str(getattr(made, name)(*given)).strip()


def heads(*names: str, numbers: Collection[str] = ()) -> str:
    return part("plain_heads", names, numbers)
