"""One instance of Google Compute Engine, read field by field."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any

from nodemanager.cloud.reading import NodeReader, epoch
from nodemanager.cloud.tags import (
    LONGEST_LABEL,
    label_value,
    on_hold,
    read_label,
    tags_for,
    tags_from,
)
from nodemanager.core.model.world import CloudState, Tags
from nodemanager.errors import BadRequest

# Our tags as labels of Google Compute Engine, and the names of its instances.

NAME_LABEL = "nodemanager-name"
"""The node's name as ordered; the instance's own name has the incarnation behind it."""

OF_INCARNATION = 8
"""How many characters of the incarnation an instance's name has."""


def labels_for(tags: Tags, name: str | None = None) -> dict[str, str]:
    """Our tags as labels, without those that are None; raises BadRequest for one too long."""
    given = tags_for(tags) | ({} if name is None else {NAME_LABEL: name})
    try:
        return {key: label_value(value) for key, value in given.items()}
    except ValueError as error:
        raise BadRequest(str(error)) from error


def tags_in(labels: Mapping[str, str]) -> Tags:
    return tags_from({key: read_label(value) for key, value in labels.items()})


def instance_name(name: str, incarnation: str) -> str:
    """The instance's name: the node's, as Google takes names, and the incarnation's beginning.

    A name is unique in its zone, whatever pool the node is in, and so is that of its boot disk.
    """
    end = re.sub(r"[^a-z0-9]", "", incarnation.lower())[:OF_INCARNATION]
    begin = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if not begin[:1].isalpha():
        begin = f"n-{begin}".rstrip("-")
    room = LONGEST_LABEL - len(end) - 1
    return f"{begin[:room].rstrip('-')}-{end}" if end else begin[:LONGEST_LABEL].rstrip("-")


STARTING = frozenset({"PENDING", "PROVISIONING", "STAGING"})
"""What an instance is while its insert goes on."""
READER = NodeReader(
    {
        **dict.fromkeys(STARTING, CloudState.PENDING),
        "RUNNING": CloudState.RUNNING,
        "PENDING_STOP": CloudState.STOPPING,
        "STOPPING": CloudState.STOPPING,
        "SUSPENDING": CloudState.STOPPING,
        "DEPROVISIONING": CloudState.STOPPING,
        # An instance that was preempted or stopped is there still, and costs its disks. One that
        # was deleted is not listed any more.
        "TERMINATED": CloudState.STOPPED,
        "STOPPED": CloudState.STOPPED,
        "SUSPENDED": CloudState.STOPPED,
        # Google restarts it elsewhere.
        "REPAIRING": CloudState.UNKNOWN,
    },
    state=attrgetter("state"),
    tags=lambda raw: tags_in(raw.labels),
    held=lambda raw: on_hold(raw.labels),
    created_at=lambda raw: epoch(raw.created),
    size=attrgetter("size"),
    addresses=lambda raw: tuple(raw.addresses()),
    why=attrgetter("why"),
    places=lambda raw: (raw.zone,),
)
"""For Instances."""
_DISK = re.compile(r"(?:.*/)?((?:zones|regions)/[a-z0-9-]+/disks/[a-z0-9-]+)")


def disk_path(link: object) -> str | None:
    """The path in its project of the disk that a link leads to, `zones/ZONE/disks/NAME`; None for
    a link to anything else."""
    found = _DISK.fullmatch(str(link))
    return None if found is None else found[1]


GOING = frozenset({"STOPPING", "DEPROVISIONING"})
"""What an instance that is being deleted is, and one that is being stopped."""


@dataclass(frozen=True)
class Instance:
    """One instance of an answer; reading a malformed field raises ValueError (P3).

    `id` is Google's number for it, which is never used again; empty where the answer has none.
    """

    item: Mapping[str, Any]
    id: str

    @classmethod
    def of(cls, item: object) -> Instance:
        found = item if isinstance(item, Mapping) else {}
        number = found.get("id")
        # Google's JSON has 64-bit numbers as text.
        known = str(number) if isinstance(number, str | int) and str(number).isdigit() else ""
        return cls(found, known)

    def text(self, name: str) -> str:
        """A field that must be text; raises ValueError where it is not."""
        found = self.item.get(name)
        if not isinstance(found, str) or not found:
            raise ValueError(f"{name} is {'missing' if found is None else 'no text'}")
        return found

    @property
    def labels(self) -> dict[str, str]:
        found = self.item.get("labels", {})
        if not isinstance(found, dict) or not all(isinstance(v, str) for v in found.values()):
            raise ValueError("labels are no texts by key")
        return found

    @property
    def own_name(self) -> str:
        return self.text("name")

    @property
    def name(self) -> str:
        """The node's name as we ordered it, else the instance's own."""
        try:
            ordered = self.labels.get(NAME_LABEL)
            return read_label(ordered) if ordered else self.own_name
        except ValueError:
            return self.id

    @property
    def state(self) -> str:
        return self.text("status")

    @property
    def why(self) -> str:
        """Google's explanation of its status; empty where Google gives none."""
        return str(self.item.get("statusMessage") or "")

    @property
    def zone(self) -> str:
        return self.text("zone").rpartition("/")[2]

    @property
    def size(self) -> str | None:
        return self.text("machineType").rpartition("/")[2]

    @property
    def boot_disk(self) -> str | None:
        """The path of the disk that it boots from, as `disk_path` gives it; None where it has none.

        That disk tells the image; an instance itself does not.
        """
        disks = (one for one in self.item.get("disks", []) if one.get("boot") is True)
        return next((disk_path(one.get("source")) for one in disks), None)

    @property
    def created(self) -> datetime | None:
        stamp = self.item.get("creationTimestamp")
        return None if stamp is None else datetime.fromisoformat(self.text("creationTimestamp"))

    @property
    def network_tags(self) -> frozenset[str]:
        tags = self.item.get("tags", {})
        items = tags.get("items", []) if isinstance(tags, dict) else None
        if not isinstance(items, list):
            raise ValueError("network tags are no list")
        return frozenset(str(item) for item in items)

    def addresses(self) -> Iterator[str]:
        """Its addresses, the private ones first."""
        interfaces = self.item.get("networkInterfaces", [])
        yield from (str(one["networkIP"]) for one in interfaces if one.get("networkIP"))
        for one in interfaces:
            for access in one.get("accessConfigs", []):
                if access.get("natIP"):
                    yield str(access["natIP"])
