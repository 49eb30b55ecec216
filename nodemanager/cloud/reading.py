"""Reads libcloud's nodes and sizes: fields that can't be read, items without an id, bad answers;
and the tables of sizes that clouds have here."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any, TypeVar

from nodemanager.core.model.world import CloudNode, CloudState, Size, Tags
from nodemanager.errors import IncompleteListing
from nodemanager.lib import foreign

T = TypeVar("T")

_END_OF_TIME = 253_402_300_800.0
"""The year 10,000: what has a later time can't be shown."""

MOST_KNOWN = 100_000

NO_NODES: Mapping[str, CloudNode] = MappingProxyType({})


class Unidentifiable(Exception):
    """A listing's item without an id, which can't be distinguished from other nodes."""


def epoch(moment: object) -> float | None:
    """Epoch seconds of a datetime (UTC where it names no zone) or a number; None for None."""
    if moment is None:
        return None
    if isinstance(moment, datetime):
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    # Raises TypeError for anything that is not a number.
    seconds = float(moment)  # type: ignore[arg-type]
    if not 0 <= seconds < _END_OF_TIME:
        raise ValueError(f"{seconds} is no time")
    return seconds


@dataclass(frozen=True, slots=True)
class NodeReader:
    """How the fields of a cloud's nodes are read; the defaults read libcloud's own fields.

    A function may raise anything for a field that can't be read. `states` maps the cloud's own
    names of states (T4); a name that is missing there means `unknown`.
    """

    states: Mapping[str, CloudState]
    tags: Callable[[Any], Tags]
    """Our tags on the node."""
    state: Callable[[Any], str] = lambda raw: str(raw.state)
    """The state's name; a cloud gives its own where libcloud's NodeState is too coarse (T4)."""
    held: Callable[[Any], bool] = lambda raw: False
    """Whether an operator's hold is set, where a cloud keeps it as a tag."""
    created_at: Callable[[Any], float | None] = lambda raw: epoch(raw.created_at)
    """The launch time in epoch seconds; None where the cloud gave none."""
    size: Callable[[Any], str | None] = lambda raw: None if raw.size is None else str(raw.size.id)
    """The cloud's own id of the node's size."""
    addresses: Callable[[Any], tuple[str, ...]] = lambda raw: tuple(
        map(str, (*raw.private_ips, *raw.public_ips))
    )
    places: Callable[[Any], tuple[str, ...]] = lambda raw: ()
    """The cloud's names for where the node is."""
    image: Callable[[Any], str | None] = lambda raw: None
    """The immutable id of the image that the node was booted from; None where it is not told."""
    why: Callable[[Any], str] = lambda raw: ""
    """The cloud's own reason for the node's state; empty where it tells none."""
    launch_time_needed: bool = True
    """Whether a node without a launch time is malformed, as in every cloud that keeps one."""

    def read(
        self,
        raw: Any,
        pool: str,
        *,
        matches_cloud_list: bool = False,
        known: Mapping[str, CloudNode] = NO_NODES,
    ) -> CloudNode:
        """The CloudNode for a libcloud node; raises Unidentifiable when it has no id.

        A field that can't be read is left out and named in `problems` (P3). If one of `known`, by
        their ids, has these very values, it is returned itself.
        """
        if raw is None:
            raise Unidentifiable("None in place of a node")
        node_id = getattr(raw, "id", None)
        if not isinstance(node_id, str) or not node_id:
            raise Unidentifiable("a node without an id")
        before = known.get(node_id)
        if before is not None and self._is_still(before, raw, pool, matches_cloud_list):
            return before
        return self._read(raw, node_id, pool, matches_cloud_list)

    def _is_still(self, before: CloudNode, raw: Any, pool: str, matches: bool) -> bool:
        """Whether reading `raw` gives `before`, which had no problem.

        Most nodes of a listing are as they were a minute ago; to see that costs half of reading
        each field with an account of what is wrong with it.
        """
        if before.problems:
            return False
        try:
            raw_state, tags = self.state(raw), self.tags(raw)
            return (
                before.raw_state == raw_state
                and before.created_at == self.created_at(raw)
                and (before.tags is tags or before.tags == tags)
                and before.managed is (matches or tags.pool == pool)
                and before.name == raw.name
                and before.size == self.size(raw)
                and before.held == self.held(raw)
                and before.addresses == self.addresses(raw)
                and before.places == self.places(raw)
                and before.image == self.image(raw)
                and before.why == self.why(raw)
            )
        except Exception:
            return False

    def _read(self, raw: Any, node_id: str, pool: str, matches: bool) -> CloudNode:
        problems: list[str] = []

        def of(
            field: str, reader: Callable[[Any], T], otherwise: T, fits: Callable[[Any], bool]
        ) -> T:
            try:
                found = reader(raw)
                if fits(found):
                    return found
                problem = f"it is {type(found).__name__}"
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
            problems.append(f"{field} can't be read ({problem})")
            return otherwise

        raw_state = of("state", self.state, "", _is_text)
        created_at = of("launch time", self.created_at, None, _is_time)
        missing = created_at is None and self.launch_time_needed
        if missing and not any(line.startswith("launch time") for line in problems):
            problems.append("launch time is missing")
        tags = of("tags", self.tags, Tags(), _are_tags)
        name = getattr(raw, "name", None)
        return CloudNode(
            id=node_id,
            name=name if isinstance(name, str) and foreign.is_text(name) else "",
            state=self.states.get(raw_state, CloudState.UNKNOWN),
            size=of("size", self.size, None, _is_text_or_none),
            created_at=created_at,
            tags=tags,
            managed=matches or tags.pool == pool,
            held=of("hold", self.held, False, _is_flag),
            raw_state=raw_state,
            addresses=of("addresses", self.addresses, (), _are_texts),
            places=of("places", self.places, (), _are_texts),
            image=of("image", self.image, None, _is_text_or_none),
            why=of("reason", self.why, "", _is_text),
            problems=tuple(problems),
        )


def _is_text(value: object) -> bool:
    return isinstance(value, str) and foreign.is_text(value)


def _is_text_or_none(value: object) -> bool:
    return value is None or _is_text(value)


def _are_texts(value: object) -> bool:
    return isinstance(value, tuple) and all(map(_is_text, value))


def _are_tags(value: object) -> bool:
    if not isinstance(value, Tags):
        return False
    # One that is no UTF-8 is compared like any other.
    texts = (value.pool, value.record, value.incarnation, value.size)
    return all(one is None or isinstance(one, str) for one in texts)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_time(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and 0 <= value < _END_OF_TIME)


def chosen(found: Iterable[T], passes: Callable[[T], bool], unread: bool) -> list[T]:
    """Those that pass; what can't be read counts as `unread` says."""

    def counts(one: T) -> bool:
        try:
            return passes(one)
        except (AttributeError, KeyError, TypeError, ValueError):
            return unread

    return [one for one in found if counts(one)]


def remember(known: dict[str, str], found: Iterable[Any], where: Callable[[Any], str]) -> None:
    """Note by each one's id where it is asked for; one that can't be read is not noted."""
    if len(known) > MOST_KNOWN:
        known.clear()
    for one in found:
        with suppress(AttributeError, ValueError):
            if one.id:
                known[one.id] = where(one)


def checked_list(answer: object, doing: str) -> list[Any]:
    """`answer` if it is a list; raises IncompleteListing for anything else, such as None (L1)."""
    if not isinstance(answer, list):
        raise IncompleteListing(f"{doing}: the answer is a {type(answer).__name__}, not a list")
    return answer


@cache
def size_table(package: str) -> tuple[Size, ...]:
    """The sizes of the package's sizes.csv, read without a request: a start must not depend on one.
    Another size is used where its [Size] gives cores, ram and price. No price is known (S4)."""
    text = resources.files(package).joinpath("sizes.csv").read_text(encoding="utf-8")
    rows = csv.reader(line for line in text.splitlines() if not line.startswith("#"))
    _, *known = rows
    return tuple(
        Size(name, name, int(cores), int(ram_mb), int(scratch_mb))
        for name, cores, ram_mb, scratch_mb in known
    )


CORES = ("cpu", "vcpu", "vcpus", "vcpu_count", "cpus", "cores")
"""What libcloud's drivers call the cores of a size; it has no field of its own for them."""


def sizes_from(answer: object) -> tuple[Size, ...]:
    """The Sizes for a list of libcloud's, without those that can't be read."""
    sizes = (_size(raw) for raw in checked_list(answer, "list sizes"))
    return tuple(size for size in sizes if size is not None)


def _size(raw: Any) -> Size | None:
    """The Size for a libcloud size; None for one that can't be read, since no node can boot
    with it."""
    try:
        extra = raw.extra if isinstance(raw.extra, dict) else {}
        price = None if raw.price is None else float(raw.price)
        return Size(
            name=str(raw.id),
            instance_type=str(raw.id),
            cores=max(1, int(next((extra[word] for word in CORES if extra.get(word)), 1))),
            ram_mb=int(raw.ram or 0),
            # libcloud gives GB. A thousand MB per GB never promises more than the disk has.
            scratch_mb=int(raw.disk or 0) * 1000,
            price=price if price is None or math.isfinite(price) else None,
        )
    except (AttributeError, TypeError, ValueError):
        return None
