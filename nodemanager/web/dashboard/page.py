"""A page as blocks and rows, and what changed from one version of it to the next."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from nodemanager.logline import Json


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
    """A page of the dashboard. `nav` is the entry of the navigation that it belongs to."""

    title: str
    nav: str
    blocks: tuple[Block, ...]
    version: str = field(default="", compare=False)


@lru_cache(maxsize=50_000)
def row_id(key: str) -> str:
    """An id for the row of `key`, whatever characters a cloud's id has."""
    return "r" + hashlib.blake2s(key.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()


def changes(old: Page, new: Page) -> Json | None:
    """What a browser with `old` must do to show `new`; None if nothing changed.

    `html` has new contents by id. `rows` has for each table `gone` ids and the `put` ones as
    [id, HTML, id of the row before or null]; `order` has all ids where others moved. Where the
    blocks themselves are others, `whole` says that the page must be loaded again.
    """
    if [one.id for one in old.blocks] != [one.id for one in new.blocks]:
        return {"whole": True}
    html: dict[str, str] = {}
    rows: dict[str, Json] = {}
    for before, after in zip(old.blocks, new.blocks, strict=True):
        if before is after:
            continue
        if before.html != after.html:
            html[f"{after.id}-html"] = after.html
        if before.table is None or after.table is None:
            if before.table is not after.table:
                return {"whole": True}
            continue
        if before.table.head != after.table.head:
            html[f"{after.id}-head"] = after.table.head
        moved = _rows(before.table.rows, after.table.rows)
        if moved is not None:
            rows[f"{after.id}-rows"] = moved
    if old.title != new.title:
        return {"whole": True}
    return {"html": html, "rows": rows} if html or rows else None


def _rows(old: Mapping[str, str], new: Mapping[str, str]) -> Json | None:
    gone = [id for id in old if id not in new]
    put: list[tuple[str, str, str | None]] = []
    before: str | None = None
    for id, html in new.items():
        known = old.get(id)
        # Most rows are the same object: the renderer keeps them.
        if known is not html and known != html:
            put.append((id, html, before))
        before = id
    stayed = [id for id in new if id in old]
    moved = stayed != [id for id in old if id in new]
    if not gone and not put and not moved:
        return None
    told: Json = {"gone": gone, "put": put}
    if moved:
        told["order"] = list(new)
    return told
