"""A NoCloud seed: the small ISO 9660 image from which cloud-init reads a node's user data.

The domain's own XML (SMBIOS strings, fw_cfg) would need no image, but every local user of the
hypervisor may read it over libvirt's read-only socket, and the user data holds the ping secret.
ISO 9660 wants half of its numbers in both byte orders (ECMA-119, section 7).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping

SECTOR = 2048
LABEL = "cidata"
_PATH_TABLES = (18, 19)
_ROOT = 20
_FIRST_FILE = 21


def seed_image(instance_id: str, hostname: str, user_data: str) -> bytes:
    """The image, labelled `cidata`, with the files `user-data` and `meta-data`."""
    meta_data = json.dumps({"instance-id": instance_id, "local-hostname": hostname})
    return iso_image({"meta-data": meta_data.encode(), "user-data": user_data.encode()})


def iso_image(files: Mapping[str, bytes]) -> bytes:
    """An ISO 9660 image of these files, whose names Linux shows in small letters."""
    entries, contents, sector = [], b"", _FIRST_FILE
    for name, content in sorted(files.items()):
        entries.append(_entry(f"{name.upper()}.;1".encode("ascii"), sector, len(content)))
        contents += _padded(content)
        sector = _FIRST_FILE + len(contents) // SECTOR
    root = _entry(b"\0", _ROOT, SECTOR, directory=True)
    # A directory begins with itself and its parent.
    listing = root + _entry(b"\1", _ROOT, SECTOR, directory=True) + b"".join(entries)
    assert len(listing) <= SECTOR
    little, big = (struct.pack(f"{order}BBIH2s", 1, 0, _ROOT, 1, b"\0\0") for order in "<>")
    return b"".join(
        (
            bytes(16 * SECTOR),
            _padded(_descriptor(root, sector, len(little))),
            _padded(b"\xffCD001\x01"),
            _padded(little),
            _padded(big),
            _padded(listing),
            contents,
        )
    )


def _descriptor(root: bytes, sectors: int, table: int) -> bytes:
    """The primary volume descriptor (8.4)."""
    head = b"\x01CD001\x01\0" + _text("", 32) + _text(LABEL, 32) + bytes(8) + _both(sectors, "I")
    sizes = _both(1, "H") + _both(1, "H") + _both(SECTOR, "H") + _both(table, "I")
    little, big = _PATH_TABLES
    tables = struct.pack("<II", little, 0) + struct.pack(">II", big, 0)
    names = _text("", 4 * 128 + 3 * 37)
    # Four dates, none given; then the version of the directories' structure.
    return head + bytes(32) + sizes + tables + root + names + (b"0" * 16 + b"\0") * 4 + b"\x01\0"


def _entry(name: bytes, sector: int, size: int, *, directory: bool = False) -> bytes:
    """A directory record (9.1), of even length."""
    fields = b"\0" + _both(sector, "I") + _both(size, "I") + bytes(7)
    fields += bytes((2 if directory else 0, 0, 0)) + _both(1, "H") + bytes((len(name),)) + name
    fields += bytes((len(fields) + 1) % 2)
    return bytes((len(fields) + 1,)) + fields


def _both(number: int, kind: str) -> bytes:
    return struct.pack(f"<{kind}", number) + struct.pack(f">{kind}", number)


def _text(text: str, length: int) -> bytes:
    return text.encode("ascii").ljust(length)


def _padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % SECTOR)
