"""The adapter for Google Compute Engine, over apache-libcloud's driver."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from typing import Any

from libcloud.compute.base import NodeDriver
from libcloud.compute.drivers.gce import GCENodeDriver

from nodemanager.cloud.api import CreateOrder
from nodemanager.cloud.checks import Check, Wanted
from nodemanager.cloud.declared import CloudConfig, Endpoint
from nodemanager.cloud.gce import options
from nodemanager.cloud.gce.checks import GceChecks, Rights
from nodemanager.cloud.gce.errors import EXISTS, NOT_READY, Refusal
from nodemanager.cloud.gce.instance import (
    GOING,
    READER,
    STARTING,
    Instance,
    disk_path,
    labels_for,
    tags_in,
)
from nodemanager.cloud.gce.leftovers import GceLeftovers
from nodemanager.cloud.gce.options import IMAGE_PATH, Access, ListFilter, Template
from nodemanager.cloud.gce.order import insert_body, request_id, template_path
from nodemanager.cloud.gce.token import GoogleSignIn
from nodemanager.cloud.gce.wire import PAGE_SIZE, GceAnswers, Wire, is_done, operation_path
from nodemanager.cloud.libcloud_base import TIMEOUT, LibcloudCloud, connected, load_driver_class
from nodemanager.cloud.provider import GoesOn, Provider
from nodemanager.cloud.reading import checked_list, chosen, remember, size_table
from nodemanager.cloud.tags import POOL_TAG, RECORD_TAG, label_value
from nodemanager.cloud.transport import TokenSource
from nodemanager.core.model.world import Outcome, Size, Tags
from nodemanager.errors import (
    BadRequest,
    CloudError,
    ConfigError,
    ForeignAnswer,
    MalformedId,
    Unauthorized,
)

# Which image nodes boot from: a name, a family or a path, in the own project or a public one; and

PUBLIC = {
    "centos": "centos-cloud",
    "cos": "cos-cloud",
    "debian": "debian-cloud",
    "fedora-coreos": "fedora-coreos-cloud",
    "opensuse": "opensuse-cloud",
    "rhel": "rhel-cloud",
    "rocky-linux": "rocky-linux-cloud",
    "sles": "suse-cloud",
    "ubuntu": "ubuntu-os-cloud",
}
"""The projects of public images, by how the images' names begin."""


def candidates(image: str, project: str, image_project: str | None) -> Iterator[tuple[str, str]]:
    """Project and name (`family/NAME` for a family) of what `[Cloud Create] image` may mean, the
    likeliest first."""
    if (path := IMAGE_PATH.fullmatch(image)) is not None:
        yield path[1], path[2]
        return
    public = [where for begin, where in PUBLIC.items() if image.startswith(begin)]
    for where in (image_project,) if image_project else (project, *public):
        yield where, image
        yield where, f"family/{image}"


def find_image(
    wire: Wire, image: str, image_project: str | None
) -> tuple[str | None, Refusal | None]:
    """The path of the image that nodes boot from; None where Google knows no such image.

    Beside it the refusal of a question that we have no right to ask: then the image may exist. A
    family's path stays, so that each boot gets its newest image.
    """
    refused: Refusal | None = None
    for project, name in candidates(image, wire.project, image_project):
        try:
            wire.call("image", f"global/images/{name}", project=project)
        except Refusal as refusal:
            if refusal.status == 403 and refusal.meaning is Unauthorized:
                refused = refusal
            elif not refusal.is_not_found:
                raise
            continue
        return f"projects/{project}/global/images/{name}", None
    return None, refused


def image_id(wire: Wire, path: str) -> str:
    """Google's number of the image that a boot from that path uses now; no other image has it.

    `path` is one of `find_image`; for a family's it is the newest image's number.
    """
    project, _, name = path.removeprefix("projects/").partition("/")
    found = wire.call("image", name, project=project)
    if (number := _number(found, "id")) is None:
        raise ForeignAnswer(f"asked for {path}, answered with an image without an id")
    return number


class BootImages:
    """The image of each listed instance, which Google tells with the boot disk alone.

    One listing of the pool's disks answers for all instances, and none is sent while each is known:
    an instance keeps the image that it was booted from.
    """

    def __init__(self, ours: str) -> None:
        """`ours` is the filter for what has our pool's label, as the create sets it on the disk."""
        self._ours = ours
        self._disks: Mapping[str, str] = {}
        """The path of each listed instance's boot disk, by the instance's id."""
        self._known: Mapping[tuple[str, str], str] = {}
        """Images by the instance's id and that path."""

    def listed(self, instances: Iterable[Instance]) -> None:
        """Take note of what a listing shows, and forget what it does not show any more."""
        disks: dict[str, str] = {}
        for one in instances:
            # One that can't be read has no image that we know.
            with suppress(AttributeError, TypeError):
                if one.id and (path := one.boot_disk) is not None:
                    disks[one.id] = path
        self._disks = disks
        self._known = {key: one for key, one in self._known.items() if key in disks.items()}

    def find(self, wire: Wire) -> None:
        """Ask for the disks if an instance of the newest listing has an unknown image."""
        unknown = self._disks.items() - self._known.keys()
        if not unknown:
            return
        images: dict[str, str] = {}
        for disk in wire.aggregated("disk", "disks", self._ours):
            found = disk if isinstance(disk, Mapping) else {}
            path, image = disk_path(found.get("selfLink")), _number(found, "sourceImageId")
            if path is not None and image is not None:
                images[path] = image
        news = {key: images[key[1]] for key in unknown if key[1] in images}
        self._known = {**self._known, **news}

    def of(self, one: Instance) -> str | None:
        """The number of its image; None where it is not known (yet)."""
        path = one.boot_disk
        return None if path is None else self._known.get((one.id, path))


def _number(item: Mapping[str, object], name: str) -> str | None:
    found = item.get(name)
    return found if isinstance(found, str) and found.isdigit() else None


_ID = re.compile(r"[1-9][0-9]{0,19}")


@dataclass
class Gce(Provider):
    """GCE: libcloud's connection sends the requests, this class checks answers (L2)."""

    name = "gce"
    ids_unique = True
    takes_client_tokens = True
    may_authorise = True

    pool: str
    access: Access
    listed: ListFilter
    template: Template
    driver_type: type[GCENodeDriver]
    page_size: int
    _zones: dict[str, str] = field(default_factory=dict, init=False, repr=False)
    """The zone of each instance seen, by id: an id alone leads to no instance."""
    _image: str | None = field(default=None, init=False)
    boot_images: BootImages = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.boot_images = BootImages(self._ours)

    def new_driver(self) -> NodeDriver:
        return self.driver_type(
            "unset", "unset", project=self.access.project, timeout=self.access.timeout
        )

    def wire(self, driver: NodeDriver) -> Wire:
        return Wire(driver.connection, self.access.project, self.page_size)

    def account(self, driver: NodeDriver) -> str:
        """The project with its number, and the endpoint. Every request names the project, so other
        credentials never lead to another one."""
        project = self.wire(driver).call("project", "")
        number = project.get("id")
        if self.access.project not in (project.get("name"), number) or not number:
            raise ForeignAnswer(
                f"asked for project {self.access.project}, told {project.get('name')}"
            )
        endpoint = self.access.endpoint
        return f"project={self.access.project} number={number} endpoint={endpoint}"

    def listings(self, driver: NodeDriver) -> Sequence[tuple[object, bool]]:
        """By our pool's label; where `[Cloud List]` says more, of all instances, chosen here.

        Google's filters on network tags are not relied on.
        """
        everyone = bool(self.listed)
        found = self._seen(self.wire(driver).instances(None if everyone else self._ours))
        ours = chosen(found, self._is_ours, unread=True)
        self.boot_images.listed(ours)
        answers: list[tuple[object, bool]] = [(ours, False)]
        if everyone:
            answers.append((chosen(found, self._matches, unread=False), True))
        return answers

    def by_record(self, driver: NodeDriver, record_uuid: str) -> object:
        wanted = f'labels.{RECORD_TAG}="{label_value(record_uuid)}"'
        return self._seen(self.wire(driver).instances(wanted))

    def by_id(self, driver: NodeDriver, node_id: str) -> Instance | None:
        """The instance of that id, in any zone and state: asked for in its zone where that is
        known, else searched for among all instances."""
        if not _ID.fullmatch(node_id):
            raise MalformedId(f"{node_id[:80]!r} is no instance's id, which is a number")
        wire = self.wire(driver)
        zone = self._zones.get(node_id)
        if zone is not None:
            return wire.instance(zone, node_id)
        found = [one for one in self._seen(wire.instances()) if one.id == node_id]
        return found[0] if found else None

    def sizes(self, driver: NodeDriver) -> tuple[Size, ...]:
        return size_table("nodemanager.cloud.gce")

    def check_image(self, driver: NodeDriver) -> None:
        if self._image is None:
            self._found_image(self.wire(driver))

    def _found_image(self, wire: Wire) -> str:
        if self._image is None:
            image = self.template.image
            found, refused = find_image(wire, image, self.template.image_project)
            if found is None and refused is None:
                raise BadRequest(
                    f"[Cloud Create] image = {image}: Google knows no image or family of that "
                    f"name in project {self.template.image_project or self.access.project}"
                )
            if found is None:
                # A role may lack the right to ask and still allow booting from it.
                return image if "/" in image else f"global/images/{image}"
            self._image = found
        return self._image

    def image(self, driver: NodeDriver) -> str | None:
        """Looks up the listed instances' images, too: the next listing tells them."""
        wire = self.wire(driver)
        self.boot_images.find(wire)
        path = self._found_image(wire)
        return image_id(wire, path) if path.startswith("projects/") else None

    def create(self, driver: NodeDriver, order: CreateOrder) -> object:
        wire, zone = self.wire(driver), order.place or self.access.zone
        body = insert_body(order, self.template, zone, self._found_image(wire), self._scope)
        path = f"zones/{zone}/instances"
        params = {"requestId": request_id(order.client_token)}
        base = template_path(self.template)
        if base is not None:
            params["sourceInstanceTemplate"] = base
        try:
            begun = wire.call("operation", path, method="POST", params=params, body=body)
            if not begun.get("targetId"):
                # Once the insert has begun, no error may say that nothing was made.
                with suppress(Refusal, CloudError, OSError):
                    begun = wire.call("operation", operation_path(zone, begun))
            done = is_done(begun)
        except Refusal as refusal:
            if refusal.code in EXISTS:
                # The name has the incarnation in it: an earlier try of this order made it.
                return self._made_before(wire, f"{path}/{body['name']}", order.tags, refusal)
            raise
        node_id = str(begun.get("targetId") or "")
        self._zones[node_id] = zone
        known = {
            "id": node_id,
            "status": "PROVISIONING",
            "creationTimestamp": begun.get("insertTime"),
            "zone": zone,
        }
        made = Instance.of({**body, **known})
        return made if done else GoesOn(made, operation_path(zone, begun))

    def finish(self, driver: NodeDriver, pending: str) -> str | Refusal | None:
        """By the path of the operation, or of an instance whose operation nobody knows. Google
        leaves nothing of an instance whose insert failed."""
        wire, parts = self.wire(driver), pending.split("/")
        if parts[2] == "instances":
            made = wire.instance(parts[1], parts[3])
            if made is None:
                return Refusal("", f"Google has not made it: there is no {pending} any more", 500)
            return pending if made.state in STARTING else None
        operation = wire.call("operation", pending)
        try:
            return None if is_done(operation) else pending
        except Refusal as refusal:
            return refusal

    def _made_before(self, wire: Wire, path: str, tags: Tags, refusal: Refusal) -> object:
        made = Instance.of(wire.call("instance", path))
        if tags_in(made.labels) != tags:
            raise refusal
        self._seen([made])
        goes_on = made.state in STARTING
        return GoesOn(made, f"zones/{made.zone}/instances/{made.id}") if goes_on else made

    def _scope(self, name: str) -> str:
        """The URL of a scope, by libcloud's short name for it."""
        short = self.driver_type.AUTH_URL + self.driver_type.SA_SCOPES_MAP.get(name, name)
        return name if name.startswith("http") else short

    def adopt(self, driver: NodeDriver, node_id: str, tags: Tags) -> None:
        """Google replaces all labels at once, so the node's other ones are sent along. It refuses
        that where they were changed since they were read. Where nobody hears how that ended, the
        labels themselves tell it."""
        node = self.by_id(driver, node_id)
        if node is None:
            raise BadRequest(f"there is no instance {node_id} in project {self.access.project}")
        wire, labels = self.wire(driver), {**node.labels, **labels_for(tags)}
        if labels == node.labels:
            return
        body = {"labels": labels, "labelFingerprint": node.text("labelFingerprint")}
        path = f"zones/{node.zone}/instances/{node_id}/setLabels"
        begun = wire.call("operation", path, method="POST", body=body)
        if is_done(wire.waited(begun, node.zone)):
            return
        now = self.by_id(driver, node_id)
        if now is None or now.labels != labels:
            raise CloudError(f"the labels of {node_id} are not set yet")

    def destroy(self, driver: NodeDriver, node_id: str) -> Outcome:
        node = self.by_id(driver, node_id)
        if node is None:
            return Outcome.UNKNOWN
        try:
            path = f"zones/{node.zone}/instances/{node_id}"
            self.wire(driver).call("operation", path, method="DELETE")
        except Refusal as refusal:
            if refusal.is_not_found:
                return Outcome.UNKNOWN
            # Google's word while an earlier delete or stop of it is under way.
            if refusal.code != NOT_READY or node.text("status") not in GOING:
                raise
        return Outcome.ACCEPTED

    def preflight(self, driver: NodeDriver, wanted: Wanted) -> Sequence[Check]:
        def connect(endpoint: Endpoint, tokens: TokenSource[str]) -> Any:
            own = self.driver_type.connectionCls
            other = type(own.__name__, (own,), {"endpoint": endpoint, "tokens": tokens})
            connection = other(timeout=self.access.timeout)
            connection.driver = driver
            return connection

        wire, find = partial(self.wire, driver), partial(self.by_id, driver)
        return GceChecks(wanted, wire, find, Rights(self.access, connect), self.template).all()

    @property
    def _ours(self) -> str:
        return f'labels.{POOL_TAG}="{label_value(self.pool)}"'

    def _seen(self, found: list[Instance]) -> list[Instance]:
        """The same instances, whose zones are known from now on."""
        remember(self._zones, checked_list(found, "list instances"), attrgetter("zone"))
        return found

    def _is_ours(self, one: Instance) -> bool:
        """What is no instance may be ours, too: the reader tells it."""
        return not one.id or tags_in(one.labels).pool == self.pool

    def _matches(self, one: Instance) -> bool:
        """Whether `[Cloud List]` chooses it: its zone, and each of its tags."""
        here = self.listed.zone is None or one.zone == self.listed.zone
        return here and one.network_tags.issuperset(self.listed.tags)


def build_cloud(
    config: CloudConfig, *, timeout: float = TIMEOUT, page_size: int = PAGE_SIZE
) -> LibcloudCloud:
    """A CloudDriver for Google Compute Engine.

    `timeout` is in seconds and applies to each HTTP request; a listing sends one request for five
    hundred instances. Raises ConfigError with every problem of the three sections.
    """
    own = load_driver_class(config.driver_class, GCENodeDriver)
    access, listed, template = options.read(config, timeout)
    try:
        label_value(config.pool)
    except ValueError as error:
        raise ConfigError([f"[Daemon] pool = {config.pool}: {error}"]) from error
    tokens = TokenSource(GoogleSignIn(access.info, access.timeout))
    driver_type = connected(own, GceAnswers, endpoint=access.endpoint, tokens=tokens)
    gce = Gce(config.pool, access, listed, template, driver_type, page_size)
    reader = replace(READER, image=gce.boot_images.of)
    leftovers = GceLeftovers(config.pool, gce.wire, gce.by_id)
    return LibcloudCloud(config, gce, reader, leftovers, timeout=access.timeout)
