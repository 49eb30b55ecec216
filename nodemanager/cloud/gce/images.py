"""Which image nodes boot from: a name, a family or a path, in the own project or a public one."""

from __future__ import annotations

from collections.abc import Iterator

from nodemanager.cloud.gce.errors import Refusal
from nodemanager.cloud.gce.options import IMAGE_PATH
from nodemanager.cloud.gce.wire import Wire
from nodemanager.errors import Unauthorized

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
