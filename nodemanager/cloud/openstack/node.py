"""One server of a nova answer, read field by field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from nodemanager.core.model.world import CloudState

DELETING = "deleting"
UNDECIDED = frozenset({"BUILD", "UNKNOWN"})
"""What a server is while nova still looks for a host, or for another one; or can't tell."""

STATES: Mapping[str, CloudState] = {
    "BUILD": CloudState.PENDING,
    "ACTIVE": CloudState.RUNNING,
    "HARD_REBOOT": CloudState.RUNNING,
    "MIGRATING": CloudState.RUNNING,
    "PASSWORD": CloudState.RUNNING,
    "REBOOT": CloudState.RUNNING,
    "REBUILD": CloudState.RUNNING,
    "RESCUE": CloudState.RUNNING,
    "RESIZE": CloudState.RUNNING,
    "REVERT_RESIZE": CloudState.RUNNING,
    "VERIFY_RESIZE": CloudState.RUNNING,
    "ERROR": CloudState.STOPPED,
    "PAUSED": CloudState.STOPPED,
    "SHELVED": CloudState.STOPPED,
    "SHELVED_OFFLOADED": CloudState.STOPPED,
    "SHUTOFF": CloudState.STOPPED,
    "SUSPENDED": CloudState.STOPPED,
    DELETING: CloudState.STOPPING,
    "SOFT_DELETED": CloudState.STOPPING,
    "DELETED": CloudState.TERMINATED,
}
"""Nova's names (T4). A server in ERROR does no work and may still be one; D1 ends it. A server that
is SOFT_DELETED can be restored until nova reclaims it. UNKNOWN is missing here on purpose."""


@dataclass(frozen=True)
class Server:
    """One item of `servers`; reading a missing or malformed field raises (P3).

    `id` is None where the answer has none.
    """

    id: str | None
    raw: Mapping[str, Any]

    @classmethod
    def of(cls, raw: object) -> Server | None:
        """None for what is no server at all."""
        if not isinstance(raw, dict):
            return None
        found = raw.get("id")
        return cls(found if isinstance(found, str) else None, raw)

    @property
    def name(self) -> str:
        found = self.raw.get("name")
        return found if isinstance(found, str) else ""

    @property
    def state(self) -> str:
        """Nova's status; `deleting` while a server is being deleted, whatever its status."""
        task = self.raw.get("OS-EXT-STS:task_state")
        return DELETING if task in (DELETING, "soft-deleting") else str(self.raw["status"])

    @property
    def fault(self) -> str:
        """Why it is in ERROR; empty where nova does not tell."""
        found = self.raw.get("fault")
        return str(found.get("message", "")) if isinstance(found, dict) else ""

    @property
    def places(self) -> tuple[str, ...]:
        """Its availability zone; nova tells none for a server without a host."""
        zone = self.raw.get("OS-EXT-AZ:availability_zone")
        return (zone,) if isinstance(zone, str) and zone else ()

    @property
    def metadata(self) -> dict[str, str]:
        found = self.raw["metadata"]
        if not isinstance(found, dict):
            raise TypeError("metadata is no mapping")
        return {str(name): str(value) for name, value in found.items()}

    @property
    def created(self) -> datetime | None:
        text = self.raw.get("created")
        return None if text is None else datetime.fromisoformat(text)

    @property
    def size(self) -> str | None:
        """The flavor's name, which is unique; before microversion 2.47 nova tells only its id."""
        flavor = self.raw["flavor"]
        return str(flavor.get("original_name") or flavor["id"])

    @property
    def image(self) -> str | None:
        """The id of its image; a server that boots from a volume has none."""
        image = self.raw.get("image") or {}
        return image.get("id")

    @property
    def addresses(self) -> tuple[str, ...]:
        networks = self.raw["addresses"].values()
        return tuple(str(one["addr"]) for network in networks for one in network)

    @property
    def volumes(self) -> list[str]:
        return [str(one["id"]) for one in self.raw["os-extended-volumes:volumes_attached"]]

    @property
    def is_partial(self) -> bool:
        """Whether nova could not read it, since its cell is down ("Handling Down Cells")."""
        return "metadata" not in self.raw
