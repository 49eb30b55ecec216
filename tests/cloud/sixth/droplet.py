"""One droplet, read field by field, and our tags on it.

DigitalOcean's tags are words without a value: letters, digits, colons, dashes and underscores, and
capitals that are not told apart. It sets them one by one, except in the call that creates a
droplet. So a single word has all of our tags, and an adoption is done once that word is set. Two
more words are only for searching: one for the pool, one for the record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any

from nodemanager.cloud.reading import NodeReader, epoch
from nodemanager.cloud.tags import HOLD_TAG, POOL_TAG, RECORD_TAG, label_value, read_label
from nodemanager.core.model.world import CloudState, Tags
from nodemanager.errors import BadRequest

WHOLE = "nodemanager"
LONGEST = 255


def word_for(name: str, value: str) -> str:
    """The word by which droplets with that tag are searched for."""
    return f"{name}:{label_value(value)}"


def words_for(tags: Tags) -> list[str]:
    """The words for our tags; the one that counts is the last. Raises BadRequest where it is too
    long."""
    parts = (tags.pool, tags.record, tags.incarnation, tags.size)
    try:
        whole = ":".join([WHOLE, *("" if one is None else label_value(one) for one in parts)])
    except ValueError as error:
        raise BadRequest(str(error)) from error
    if len(whole) > LONGEST:
        raise BadRequest(f"the tag {whole} is longer than DigitalOcean's {LONGEST} characters")
    found = [(POOL_TAG, tags.pool), (RECORD_TAG, tags.record)]
    return [*(word_for(name, value) for name, value in found if value is not None), whole]


def tags_in(words: list[str]) -> Tags:
    """Our tags among a droplet's words. Raises ValueError where two words say what they are."""
    whole = [word for word in words if word.startswith(f"{WHOLE}:")]
    if not whole:
        return Tags()
    (only,) = whole
    _, *parts = only.split(":")
    pool, record, incarnation, size = (read_label(part) if part else None for part in parts)
    return Tags(pool, record, incarnation, size)


@dataclass(frozen=True)
class Droplet:
    """One item of `droplets`; reading a missing or malformed field raises (P3).

    `id` is empty where the answer has none.
    """

    raw: Mapping[str, Any]
    id: str

    @classmethod
    def of(cls, item: object) -> Droplet:
        found = item if isinstance(item, Mapping) else {}
        number = found.get("id")
        return cls(found, str(number) if isinstance(number, int) else "")

    @property
    def name(self) -> str:
        return str(self.raw.get("name", ""))

    @property
    def words(self) -> list[str]:
        found = self.raw["tags"]
        if not isinstance(found, list):
            raise TypeError("tags are no list")
        return [str(word) for word in found]

    @property
    def state(self) -> str:
        return str(self.raw["status"])

    @property
    def created(self) -> datetime | None:
        stamp = self.raw.get("created_at")
        return None if stamp is None else datetime.fromisoformat(stamp)

    @property
    def size(self) -> str:
        return str(self.raw["size_slug"])

    @property
    def addresses(self) -> tuple[str, ...]:
        """Its addresses, the private ones first."""
        networks = [one for version in ("v4", "v6") for one in self.raw["networks"][version]]
        networks.sort(key=lambda one: one["type"] != "private")
        return tuple(str(one["ip_address"]) for one in networks)


READER = NodeReader(
    {
        "new": CloudState.PENDING,
        "active": CloudState.RUNNING,
        "off": CloudState.STOPPED,
        # `archive` is missing here on purpose: nothing says that such a droplet is gone.
    },
    state=attrgetter("state"),
    tags=lambda raw: tags_in(raw.words),
    held=lambda raw: HOLD_TAG in raw.words,
    created_at=lambda raw: epoch(raw.created),
    size=attrgetter("size"),
    addresses=attrgetter("addresses"),
)
"""For Droplets."""
