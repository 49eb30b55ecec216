"""Reads libcloud's nodes and sizes: fields that can't be read, items without an id, bad answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, TypeVar

from nodemanager.core.model.world import CloudNode, CloudState, Size, Tags
from nodemanager.errors import IncompleteListing

T = TypeVar("T")

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
    if not math.isfinite(seconds):
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
            )
        except Exception:
            return False

    def _read(self, raw: Any, node_id: str, pool: str, matches: bool) -> CloudNode:
        problems: list[str] = []

        def of(field: str, reader: Callable[[Any], T], otherwise: T) -> T:
            try:
                return reader(raw)
            except Exception as error:
                problems.append(f"{field} can't be read ({type(error).__name__}: {error})")
                return otherwise

        raw_state = of("state", self.state, "")
        created_at = of("launch time", self.created_at, None)
        missing = created_at is None and self.launch_time_needed
        if missing and not any(line.startswith("launch time") for line in problems):
            problems.append("launch time is missing")
        tags = of("tags", self.tags, Tags())
        name = getattr(raw, "name", None)
        return CloudNode(
            id=node_id,
            name=name if isinstance(name, str) else "",
            state=self.states.get(raw_state, CloudState.UNKNOWN),
            size=of("size", self.size, None),
            created_at=created_at,
            tags=tags,
            managed=matches or tags.pool == pool,
            held=of("hold", self.held, False),
            raw_state=raw_state,
            addresses=of("addresses", self.addresses, ()),
            places=of("places", self.places, ()),
            image=of("image", self.image, None),
            problems=tuple(problems),
        )


def checked_list(answer: object, doing: str) -> list[Any]:
    """`answer` if it is a list; raises IncompleteListing for anything else, such as None (L1)."""
    if not isinstance(answer, list):
        raise IncompleteListing(f"{doing}: the answer is a {type(answer).__name__}, not a list")
    return answer


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
