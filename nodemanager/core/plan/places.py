"""In which place a node of a size is booted, and which places rest (SAFETY.md D6).

A place is a zone or a subnet, by the cloud's own name. A size without places is booted wherever the
adapter boots nodes, and nothing here concerns it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping
from itertools import chain

from nodemanager.core.model.world import Size
from nodemanager.core.observe.snapshot import Rests, Snapshot

TOKEN_LENGTH = 12
"""How many characters of a client token name the place."""


def choose(
    size: Size,
    rests: Rests,
    nodes: Mapping[str, int],
    now: float,
    tried: Collection[str] = (),
) -> str | None:
    """The place for the next node of the size; None if it has none, or if none takes a node now.

    That is the first in the written order that neither rests nor was `tried`; with `spread`, the
    one of these with the fewest `nodes`.
    """
    awake = [
        place
        for place in size.places
        if place not in tried and not _until(size.name, place, rests) > now
    ]
    if size.spread:
        return min(awake, key=lambda place: nodes.get(place, 0), default=None)
    return awake[0] if awake else None


def rests_until(size: Size, rests: Rests, now: float) -> float | None:
    """When the first of the size's places takes nodes again, if all rest; else None."""
    until = min((_until(size.name, place, rests) for place in size.places), default=0.0)
    return until if until > now else None


def _until(size: str, place: str, rests: Rests) -> float:
    return rests.get(size, {}).get(place, 0.0)


def nodes_by_place(snapshot: Snapshot) -> Counter[str]:
    """How many nodes of the pool each place has, future ones included."""
    listed = (node.places for node in snapshot.history.present.values() if node.managed)
    return Counter(chain.from_iterable(listed)) + Counter(snapshot.places_to_be)


def after_full(rests: Rests, size: str, place: str, until: float) -> Rests:
    """The rests after the cloud had no room for the size in that place."""
    return {**rests, size: {**rests.get(size, {}), place: until}}


def without_ended(rests: Rests, now: float) -> Rests:
    """The rests that go on; the same object where none has ended."""
    if all(until > now for of in rests.values() for until in of.values()):
        return rests
    left = {
        size: {place: until for place, until in of.items() if until > now}
        for size, of in rests.items()
    }
    return {size: of for size, of in left.items() if of}


def client_token(incarnation: str, place: str | None) -> str:
    """The token that makes a repeated create idempotent: another one for each place (U9).

    A cloud answers the same token with the same node, or refuses it for another place.
    """
    if place is None:
        return incarnation
    return f"{incarnation}-{hashlib.sha256(place.encode()).hexdigest()[:TOKEN_LENGTH]}"
