"""Which image a machine was booted from, and which one new ones get (D15)."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from nodemanager.cloud.azure.node import exact_image
from nodemanager.errors import Unauthorized
from tests.cloud.azure.helpers import IMAGE, cloud, newer_image, order
from tests.cloud.azure.server import AzureServer, changed, refusal
from tests.cloud.azure.world import GALLERY_IMAGE, OWN_IMAGE

pytestmark = pytest.mark.socket
NEWEST = "canonical:ubuntu-24_04-lts:server:24.04.202609010"
PINNED = f"{GALLERY_IMAGE}/versions/1.9.0"


@pytest.mark.parametrize(
    ("image", "expected", "requests"),
    [
        (IMAGE, NEWEST, 1),
        (NEWEST.replace("c", "C", 1), NEWEST, 0),
        (OWN_IMAGE, OWN_IMAGE.lower(), 0),
        (PINNED, PINNED.lower(), 0),
        (GALLERY_IMAGE, f"{GALLERY_IMAGE}/versions/1.10.0".lower(), 1),
        (f"{GALLERY_IMAGE}/versions/latest", f"{GALLERY_IMAGE}/versions/1.10.0".lower(), 1),
        (
            "/SharedGalleries/g/Images/x/Versions/1.0.0",
            "/sharedgalleries/g/images/x/versions/1.0.0",
            0,
        ),
        ("/CommunityGalleries/g/Images/x/Versions/latest", None, 0),
    ],
)
def test_the_newest_version_is_found_by_one_request_and_a_given_one_by_none(
    azure: AzureServer, image: str, expected: str | None, requests: int
) -> None:
    assert cloud(azure, create={"image": image}).image() == expected
    assert len(azure.calls) == requests


@pytest.mark.parametrize("image", [IMAGE, OWN_IMAGE, PINNED, GALLERY_IMAGE])
def test_a_machine_tells_the_image_that_it_was_booted_from(azure: AzureServer, image: str) -> None:
    ours = cloud(azure, create={"image": image})
    ours.create(order())
    (node,) = ours.list_nodes().items
    assert node.image is not None
    assert node.image == ours.image()


@pytest.mark.parametrize(
    ("reference", "version", "expected"),
    [
        ({}, None, None),
        ({"publisher": "P", "offer": "o", "sku": "s", "version": "latest"}, None, None),
        ({"communityGalleryImageId": "/CommunityGalleries/g/Images/x"}, None, None),
        (
            {"communityGalleryImageId": "/CommunityGalleries/g/Images/x/Versions/latest"},
            "1.2.3",
            "/communitygalleries/g/images/x/versions/1.2.3",
        ),
        ({"id": GALLERY_IMAGE}, None, None),
        (
            {"id": GALLERY_IMAGE, "communityGalleryImageId": None},
            "2.0.0",
            f"{GALLERY_IMAGE}/versions/2.0.0".lower(),
        ),
    ],
)
def test_a_reference_whose_version_is_not_told_is_no_known_image(
    reference: Mapping[str, str], version: str | None, expected: str | None
) -> None:
    assert exact_image(reference, version) == expected


def test_versions_that_azure_would_not_boot_as_the_newest_are_passed_over(
    azure: AzureServer,
) -> None:
    ours = cloud(azure, create={"image": GALLERY_IMAGE})
    azure.world.gallery["1.11.0"] = True
    assert str(ours.image()).endswith("/1.10.0")
    newest = {"provisioningState": "Creating", "publishingProfile": {"targetRegions": []}}
    azure.fault(
        "galleries.versions", after=changed(lambda told: told["value"][1].update(properties=newest))
    )
    assert str(ours.image()).endswith("/1.9.0")


def test_versions_are_compared_as_numbers(azure: AzureServer) -> None:
    ours = cloud(azure)
    azure.world.market.add(f"{IMAGE.rpartition(':')[0]}:9.10.0")
    assert ours.image() == NEWEST
    newer_image(azure)
    assert ours.image() != NEWEST


def test_without_the_right_to_ask_no_image_is_told(azure: AzureServer) -> None:
    azure.fault("images.market", before=refusal("AuthorizationFailed", 403))
    with pytest.raises(Unauthorized):
        cloud(azure).image()
