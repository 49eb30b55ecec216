"""Reads an ISO 9660 image as Linux does, by the standard (ECMA-119) and not by our writer."""

from __future__ import annotations

SECTOR = 2048


def label_of(image: bytes) -> str:
    descriptor = image[16 * SECTOR : 17 * SECTOR]
    assert descriptor[:6] == b"\x01CD001"
    return descriptor[40:72].decode("ascii").rstrip()


def files_of(image: bytes) -> dict[str, bytes]:
    """The files of the root directory, by the names that Linux shows."""
    root = image[16 * SECTOR + 156 :]
    place, size = _extent(root)
    listing, files = image[place : place + size], {}
    while listing and listing[0]:
        entry, listing = listing[: listing[0]], listing[listing[0] :]
        name = entry[33 : 33 + entry[32]]
        if entry[25] & 2 == 0:
            place, size = _extent(entry)
            shown = name.decode("ascii").lower().removesuffix(";1").removesuffix(".")
            files[shown] = image[place : place + size]
    return files


def _extent(entry: bytes) -> tuple[int, int]:
    place, size = (entry[at : at + 8] for at in (2, 10))
    for number in (place, size):
        assert number[:4] == number[:3:-1], "both byte orders are the same number"
    return int.from_bytes(place[:4], "little") * SECTOR, int.from_bytes(size[:4], "little")
