"""One libvirt domain, and what we keep in its metadata.

libvirt has neither tags nor a launch time, so both are in an element of ours in the domain's
`<metadata>`, which is part of the XML that creates it (U5)::

    <nodemanager:node xmlns:nodemanager="urn:nodemanager:node:1" name="compute3" size="large"
                      created="1767225600.0" image="/images/node.qcow2@1767139200.5">
      <nodemanager:tag name="nodemanager-pool">mine</nodemanager:tag>
    </nodemanager:node>
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from nodemanager.cloud.reading import NodeReader, epoch
from nodemanager.cloud.tags import tags_from
from nodemanager.core.model.world import CloudState

URI = "urn:nodemanager:node:1"
PREFIX = "nodemanager"
_NODE, _TAG = f"{{{URI}}}node", f"{{{URI}}}tag"

STATE_NAMES = (
    "no state",
    "running",
    "blocked",
    "paused",
    "shutdown",
    "shutoff",
    "crashed",
    "pmsuspended",
)
"""By libvirt's virDomainState."""
PAUSED_FOR = {
    2: "migration",
    3: "save",
    4: "dump",
    7: "snapshot",
    8: "shutdown",
    9: "snapshot",
    11: "start",
    12: "migration",
}
"""By libvirt's virDomainPausedReason: a pause that ends by itself."""

STATES: Mapping[str, CloudState] = {
    "no state": CloudState.UNKNOWN,
    "running": CloudState.RUNNING,
    "blocked": CloudState.RUNNING,
    "paused": CloudState.STOPPED,
    "paused for migration": CloudState.RUNNING,
    "paused for save": CloudState.RUNNING,
    "paused for dump": CloudState.RUNNING,
    "paused for snapshot": CloudState.RUNNING,
    "paused for shutdown": CloudState.STOPPING,
    "paused for start": CloudState.PENDING,
    "shutdown": CloudState.STOPPING,
    "shutoff": CloudState.STOPPED,
    "crashed": CloudState.STOPPED,
    "pmsuspended": CloudState.STOPPED,
}
"""No domain is terminated: one that has ended for good is not listed (T4)."""
STARTING = "paused for start"


def state_name(state: int, reason: int) -> str:
    name = STATE_NAMES[state] if 0 <= state < len(STATE_NAMES) else f"state {state}"
    meanwhile = PAUSED_FOR.get(reason) if name == "paused" else None
    return name if meanwhile is None else f"paused for {meanwhile}"


@dataclass(frozen=True)
class Domain:
    """A domain as a listing shows it; reading a damaged field raises ValueError (P3)."""

    id: str
    own_name: str
    state: str
    xml: str
    addresses: tuple[str, ...] = ()

    @cached_property
    def root(self) -> Element:
        try:
            return ElementTree.fromstring(self.xml)  # noqa: S314  # libvirt's own XML
        except ElementTree.ParseError as error:
            raise ValueError(f"its XML: {error}") from error

    @property
    def ours(self) -> Element | None:
        """Our element in its metadata; None for a domain that is not ours."""
        found = self.root.findall(f"metadata/{_NODE}")
        if len(found) > 1:
            raise ValueError(f"{len(found)} elements of ours in its metadata")
        return found[0] if found else None

    def attribute(self, name: str) -> str | None:
        return None if self.ours is None else self.ours.get(name)

    @property
    def name(self) -> str:
        """The name that it was ordered by, else libvirt's own."""
        try:
            return self.attribute("name") or self.own_name
        except ValueError:
            return self.own_name

    @property
    def tags(self) -> dict[str, str]:
        tags: dict[str, str] = {}
        for tag in () if self.ours is None else self.ours:
            name, value = tag.get("name"), (tag.text or "").strip()
            if tag.tag != _TAG or not name or not value:
                raise ValueError("an element in its metadata that is no tag")
            if name in tags:
                raise ValueError(f"the tag {name} twice")
            tags[name] = value
        return tags

    @property
    def created_at(self) -> float | None:
        text = self.attribute("created")
        return None if text is None else epoch(float(text))

    @property
    def disks(self) -> frozenset[str]:
        """The paths of its disks, and the names of the volumes among them."""
        sources = self.root.iterfind("devices/disk/source")
        values = (source.get(key) for source in sources for key in ("file", "dev", "volume"))
        return frozenset(value for value in values if value)


READER = NodeReader(
    STATES,
    state=lambda raw: str(raw.state),
    tags=lambda raw: tags_from(raw.tags),
    created_at=lambda raw: raw.created_at,
    size=lambda raw: raw.attribute("size"),
    image=lambda raw: raw.attribute("image"),
    addresses=lambda raw: raw.addresses,
    launch_time_needed=False,
)
"""For Domains. Only those that we created have a launch time."""


def metadata(
    tags: Mapping[str, str], attributes: Mapping[str, str], *, bare: bool = False
) -> Element:
    """Our element of a domain's metadata; `bare` is without its name space, for setMetadata."""
    ElementTree.register_namespace(PREFIX, URI)
    node = Element("node" if bare else _NODE, dict(attributes))
    for name, value in tags.items():
        SubElement(node, "tag" if bare else _TAG, {"name": name}).text = value
    return node
