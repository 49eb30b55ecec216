"""Which image nodes boot from: an image of the marketplace, or one of the operator's own."""

from __future__ import annotations

from nodemanager.cloud.azure.errors import Refusal
from nodemanager.cloud.azure.options import Access, Template
from nodemanager.cloud.azure.wire import COMPUTE, Wire
from nodemanager.errors import BadRequest, Unauthorized

GALLERIES = "2024-03-03"


def check_image(wire: Wire, access: Access, template: Template) -> None:
    """Raises BadRequest where Azure says that there is no such image. Passes where the role has no
    right to ask, and for the galleries of others, which only a create can use for sure."""
    image = template.image
    newest = image.get("version") == "latest"
    if "publisher" in image:
        path = (
            f"{wire.subscription}/providers/Microsoft.Compute/locations/{access.region}"
            f"/publishers/{image['publisher']}/artifacttypes/vmimage/offers/{image['offer']}"
            f"/skus/{image['sku']}/versions"
        )
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
        told = wire.call("GET", path, version, bare_list=newest).content
    except Refusal as refusal:
        if refusal.status == 404:
            raise BadRequest(f"{missing}: {refusal}") from None
        if refusal.meaning is not Unauthorized:
            raise
        return
    if told.get("value") == []:
        raise BadRequest(missing)
