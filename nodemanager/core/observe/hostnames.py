"""The hostname of each life, kept from its claim for as long as its node lives (SAFETY.md D7).

A record may leave the listing while its node works on: somebody deleted it. The scheduler knows the
node by its hostname alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nodemanager.core.model.world import Record, life_key
from nodemanager.core.observe.nodes_by_record import Bearers

KEPT_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Hostname:
    """The hostname of a life; `missed_at` is since when neither its record nor its node is listed.

    That is CLOCK_BOOTTIME; None while one of them is listed.
    """

    name: str
    missed_at: float | None = None


Hostnames = Mapping[str, Hostname]
"""By the life's key."""


def hostnames_seen(
    known: Hostnames, records: Iterable[Record], bearers: Bearers, at: float
) -> Hostnames:
    """The hostnames after a complete record listing; `bearers` are of the newest cloud listing.

    A life that neither shows is kept for a day more: a listing may be short.
    """
    names = {
        life_key(one.uuid, one.incarnation): Hostname(one.hostname)
        for one in records
        if one.hostname is not None
    }
    for key, one in known.items():
        if key in names:
            continue
        if _is_borne(key, bearers):
            names[key] = Hostname(one.name)
        elif one.missed_at is None:
            names[key] = Hostname(one.name, at)
        elif at - one.missed_at <= KEPT_S:
            names[key] = one
    return known if names == known else names


def _is_borne(key: str, bearers: Bearers) -> bool:
    uuid = key.partition("/")[0]
    return any(life_key(uuid, one.tags.incarnation) == key for one in bearers.get(uuid, ()))
