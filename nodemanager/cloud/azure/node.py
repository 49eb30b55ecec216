"""One virtual machine of Azure, read field by field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any

from nodemanager.cloud.reading import NodeReader, epoch
from nodemanager.cloud.tags import on_hold, tags_for, tags_from
from nodemanager.core.model.world import CloudState, Tags

NAME_TAG = "nodemanager-name"
"""The node's name as ordered; the machine's own name has the incarnation behind it."""
CREATING, DELETING, FAILED = "Creating", "Deleting", "Failed"
LATEST = "latest"
"""In the place of a version: the newest one at the time of the boot."""
OWN_REFERENCES = ("id", "communityGalleryImageId", "sharedGalleryImageId")
"""The fields of an image reference that hold a resource id."""

READER = NodeReader(
    {
        "Creating": CloudState.PENDING,
        "PowerState/starting": CloudState.PENDING,
        "PowerState/running": CloudState.RUNNING,
        "PowerState/stopping": CloudState.STOPPING,
        "PowerState/deallocating": CloudState.STOPPING,
        DELETING: CloudState.STOPPING,
        # Both are there still. A stopped machine costs as a running one does, and a deallocated
        # one its disks. A Spot machine that was taken away is deleted, as its create ordered.
        "PowerState/stopped": CloudState.STOPPED,
        "PowerState/deallocated": CloudState.STOPPED,
        # A create that failed leaves its machine in the listing; D1 ends it.
        FAILED: CloudState.STOPPED,
    },
    state=attrgetter("state"),
    tags=lambda raw: tags_in(raw.tags),
    held=lambda raw: on_hold(raw.tags),
    created_at=lambda raw: epoch(raw.created),
    size=attrgetter("size"),
    image=attrgetter("image"),
    places=attrgetter("zones"),
    # They are in the interfaces, and nothing is decided by them.
    addresses=lambda raw: (),
)
"""For VirtualMachines."""


def tags_in(tags: Mapping[str, str]) -> Tags:
    """Our tags among all tags of a resource. Azure's tag names have no case, and may change it."""
    return tags_from({name.lower(): value for name, value in tags.items()})


def azure_tags(tags: Tags, name: str | None = None) -> dict[str, str]:
    return tags_for(tags) | ({} if name is None else {NAME_TAG: name})


@dataclass(frozen=True)
class VirtualMachine:
    """One machine of an answer; reading a malformed field raises ValueError (P3).

    `id` is Azure's vmId, which no other machine ever has; empty where the answer has none. `power`
    is the code of its power state, such as `PowerState/running`, where that is known.
    """

    item: Mapping[str, Any]
    id: str
    power: str | None = None

    @classmethod
    def of(cls, item: object, power: str | None = None) -> VirtualMachine:
        found = item if isinstance(item, Mapping) else {}
        about = found.get("properties")
        number = about.get("vmId") if isinstance(about, Mapping) else None
        known = number.lower() if isinstance(number, str) else ""
        return cls(found, known, power or power_in(about))

    @property
    def path(self) -> str:
        """Its resource id, in lower case; empty where the answer has none."""
        return str(self.item.get("id") or "").lower()

    @property
    def own_name(self) -> str:
        return _text(self.item, "name")

    @property
    def name(self) -> str:
        """The node's name as we ordered it, else the machine's own."""
        try:
            ordered = {name.lower(): value for name, value in self.tags.items()}.get(NAME_TAG)
            return ordered or self.own_name
        except ValueError:
            return self.id

    @property
    def tags(self) -> dict[str, str]:
        return texts_in(self.item.get("tags"))

    @property
    def about(self) -> Mapping[str, Any]:
        found = self.item.get("properties")
        if not isinstance(found, Mapping):
            raise ValueError("properties are missing")
        return found

    @property
    def provisioning(self) -> str:
        return _text(self.about, "provisioningState")

    @property
    def state(self) -> str:
        """The provisioning state where that decides, else the power state.

        A machine whose newest operation failed may run all the same, and then works.
        """
        stage = self.provisioning
        runs = self.power in ("PowerState/running", "PowerState/starting")
        if stage == DELETING or (stage == FAILED and not runs) or self.power is None:
            return stage
        return self.power

    @property
    def size(self) -> str | None:
        return _text(self.about.get("hardwareProfile") or {}, "vmSize")

    @property
    def image(self) -> str | None:
        """The exact version of the image that it was booted from; None where Azure tells none."""
        profile = self.about.get("storageProfile") or {}
        reference = profile.get("imageReference") or {}
        return exact_image(reference, reference.get("exactVersion"))

    @property
    def created(self) -> datetime | None:
        stamp = self.about.get("timeCreated")
        return None if stamp is None else datetime.fromisoformat(_text(self.about, "timeCreated"))

    @property
    def zones(self) -> tuple[str, ...]:
        """The availability zone that it was ordered in, if any."""
        found = self.item.get("zones")
        return tuple(map(str, found)) if isinstance(found, list) else ()

    def interfaces(self) -> Iterator[tuple[str, bool]]:
        """The resource id of each interface, and whether Azure deletes it with the machine."""
        profile = self.about.get("networkProfile") or {}
        for one in profile.get("networkInterfaces") or []:
            option = (one.get("properties") or {}).get("deleteOption")
            yield str(one.get("id")), option == "Delete"

    def disks(self) -> Iterator[tuple[str, bool]]:
        """The resource id of each managed disk, and whether Azure deletes it with the machine."""
        profile = self.about.get("storageProfile") or {}
        for one in (profile.get("osDisk") or {}, *(profile.get("dataDisks") or [])):
            found = (one.get("managedDisk") or {}).get("id")
            if found:
                yield str(found), one.get("deleteOption") == "Delete"


def exact_image(reference: Mapping[str, str], version: str | None = None) -> str | None:
    """What an image reference means, in lower case; None where its version is not known.

    `version` is the one that is meant by a reference to the newest. An image that is no gallery's
    and no publisher's has no versions, and its resource id is all that Azure tells of it.
    """
    if "publisher" in reference:
        parts = [reference[one] for one in ("publisher", "offer", "sku")]
        exact = version or reference.get("version", LATEST)
        return None if exact == LATEST else ":".join([*parts, exact]).lower()
    found = next((reference[one] for one in OWN_REFERENCES if reference.get(one)), None)
    if found is None:
        return None
    path, said, exact = found.lower().rstrip("/").partition("/versions/")
    if not said and "galleries/" not in path:
        return path
    exact = exact if exact not in ("", LATEST) else (version or "")
    return f"{path}/versions/{exact}" if exact not in ("", LATEST) else None


def power_in(about: object) -> str | None:
    """The power state in the instance view of a machine's properties."""
    view = about.get("instanceView") if isinstance(about, Mapping) else None
    statuses = view.get("statuses") if isinstance(view, Mapping) else None
    codes = [str(one.get("code")) for one in statuses or [] if isinstance(one, Mapping)]
    return next((code for code in codes if code.startswith("PowerState/")), None)


def texts_in(found: object) -> dict[str, str]:
    """Tags, {} for none; raises ValueError where they are no texts by name."""
    if found is None:
        return {}
    if not isinstance(found, dict) or not all(isinstance(v, str) for v in found.values()):
        raise ValueError("tags are no texts by name")
    return found


def _text(item: Mapping[str, Any], name: str) -> str:
    """A field that must be text; raises ValueError where it is not."""
    found = item.get(name)
    if not isinstance(found, str) or not found:
        raise ValueError(f"{name} is {'missing' if found is None else 'no text'}")
    return found
