"""Which image nodes boot from: a name, a family or a path, in the own project or a public one; and
which one each instance was booted from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from nodemanager.cloud.gce.errors import Refusal
from nodemanager.cloud.gce.instance import Instance, disk_path
from nodemanager.cloud.gce.options import IMAGE_PATH
from nodemanager.cloud.gce.wire import Wire
from nodemanager.errors import ForeignAnswer, Unauthorized

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
