"""A page as blocks and rows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache


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
