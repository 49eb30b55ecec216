"""Which image nodes boot from: an image of the marketplace, or one of the operator's own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from nodemanager.cloud.azure.access import Access
from nodemanager.cloud.azure.errors import Refusal
from nodemanager.cloud.azure.node import LATEST, exact_image
from nodemanager.cloud.azure.options import Template
from nodemanager.cloud.azure.wire import COMPUTE, Wire
from nodemanager.errors import BadRequest, Unauthorized

GALLERIES = "2024-03-03"


def check_image(wire: Wire, access: Access, template: Template) -> None:
    """Raises BadRequest where Azure says that there is no such image. Passes where the role has no
    right to ask, and for the galleries of others, which only a create can use for sure."""
    image = template.image
    newest = image.get("version") == LATEST
    if "publisher" in image:
        path = _versions(wire, access, image)
        # The newest version has no entry of its own.
        path += "" if newest else f"/{image['version']}"
        version = COMPUTE
    elif "id" in image:
        path = image["id"]
        version = GALLERIES if "/galleries/" in path.lower() else COMPUTE
    else:
        return
    missing = f"[Cloud Create] image = {':'.join(image.values())}: Azure has no such image"
    try:
        answer = wire.call("GET", path, version, bare_list=newest).content
    except Refusal as refusal:
        if refusal.status == 404:
            raise BadRequest(f"{missing}: {refusal}") from None
        if refusal.meaning is not Unauthorized:
            raise
        return
    if answer.get("value") == []:
        raise BadRequest(missing)


def image_id(wire: Wire, access: Access, template: Template) -> str | None:
    """What a machine created now boots from, as `exact_image` writes it; None where it can't be
    found out, as of the newest version in a gallery of others.

    Asks only for what means the newest version, once.
    """
    image = template.image
    known = exact_image(image)
    if known is not None:
        return known
    if "publisher" in image:
        answer = wire.call("GET", _versions(wire, access, image), COMPUTE, bare_list=True).content
        found = [str(one.get("name")) for one in answer.get("value") or []]
    elif "id" in image:
        gallery = re.sub("(?i)(/versions/latest)?/?$", "", image["id"])
        found = list(_usable(wire.listed(f"{gallery}/versions", GALLERIES), access.region))
    else:
        return None
    newest = max((one for one in found if _numbers(one)), key=_numbers, default=None)
    return None if newest is None else exact_image(image, newest)


def _versions(wire: Wire, access: Access, image: Mapping[str, str]) -> str:
    return (
        f"{wire.subscription}/providers/Microsoft.Compute/locations/{access.region}"
        f"/publishers/{image['publisher']}/artifacttypes/vmimage/offers/{image['offer']}"
        f"/skus/{image['sku']}/versions"
    )


def _usable(versions: list[Any], region: str) -> Iterator[str]:
    """The names of a gallery image's versions that may be the newest one in that region."""
    for one in versions:
        about = one.get("properties") or {}
        profile = about.get("publishingProfile") or {}
        here = [
            target
            for target in profile.get("targetRegions") or []
            if str(target.get("name")).replace(" ", "").lower() == region.lower()
        ]
        hidden = [profile, *here]
        is_hidden = any(target.get("excludeFromLatest") is True for target in hidden)
        if here and not is_hidden and about.get("provisioningState") == "Succeeded":
            yield str(one.get("name"))


def _numbers(version: str) -> tuple[int, ...]:
    """A version's numbers, by which Azure finds the newest; () for what is no version."""
    return tuple(map(int, version.split("."))) if re.fullmatch(r"\d+(\.\d+)*", version) else ()
