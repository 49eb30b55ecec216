"""One instance of an EC2 answer, read field by field."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from xml.etree.ElementTree import Element


def tags_in(item: Element, namespace: str) -> dict[str, str]:
    """All tags of an item of an EC2 answer; raises ValueError for a tag without a key."""
    tags: dict[str, str] = {}
    for tag in item.iterfind(f"{{{namespace}}}tagSet/{{{namespace}}}item"):
        key = tag.findtext(f"{{{namespace}}}key")
        if not key:
            raise ValueError("a tag without a key")
        tags[key] = tag.findtext(f"{{{namespace}}}value") or ""
    return tags


@dataclass(frozen=True)
class Instance:
    """One `item` of an instancesSet; reading a malformed field raises ValueError (P3).

    `id` is empty where the answer has none.
    """

    item: Element
    namespace: str
    id: str

    @classmethod
    def of(cls, item: Element, namespace: str) -> Instance:
        found = item.findtext(f"{{{namespace}}}instanceId") or ""
        return cls(item, namespace, found.strip())

    def text(self, *path: str) -> str | None:
        """The text under `path`; None where the answer has none."""
        found = self.item.findtext("/".join(f"{{{self.namespace}}}{step}" for step in path))
        return found.strip() or None if found is not None else None

    @property
    def name(self) -> str:
        """The Name tag, as EC2's own console shows it, else the id."""
        try:
            return self.tags.get("Name") or self.id
        except ValueError:
            return self.id

    @property
    def state(self) -> str:
        """EC2's state name: pending, running, shutting-down, terminated, stopping or stopped."""
        state = self.text("instanceState", "name")
        if state is None:
            raise ValueError("no instanceState")
        return state

    @property
    def why(self) -> str:
        """EC2's code and message of its last change of state; empty where EC2 tells none."""
        code, message = self.text("stateReason", "code"), self.text("stateReason", "message")
        if code is None or message is None or message.startswith(code):
            return message or code or ""
        return f"{code}: {message}"

    @property
    def terminating_state(self) -> str | None:
        """The state in an answer of TerminateInstances."""
        return self.text("currentState", "name")

    @property
    def tags(self) -> dict[str, str]:
        return tags_in(self.item, self.namespace)

    @property
    def launch_time(self) -> datetime | None:
        text = self.text("launchTime")
        return None if text is None else datetime.fromisoformat(text)

    @property
    def size(self) -> str | None:
        return self.text("instanceType")

    @property
    def image(self) -> str | None:
        return self.text("imageId")

    @property
    def addresses(self) -> tuple[str, ...]:
        found = (self.text("privateIpAddress"), self.text("ipAddress"))
        return tuple(address for address in found if address)

    @property
    def places(self) -> tuple[str, ...]:
        """Its availability zone and its subnet; a terminated one has no subnet any more."""
        found = (self.text("placement", "availabilityZone"), self.text("subnetId"))
        return tuple(place for place in found if place)
