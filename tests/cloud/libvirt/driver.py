"""libvirt's built-in test driver, as the tests use it: all it lacks is the upload of a volume."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nodemanager.cloud.libcloud_base import LibcloudCloud
from nodemanager.cloud.libvirt.adapter import build_cloud
from nodemanager.cloud.libvirt.driver import Hypervisor
from nodemanager.lib.clock import Clock
from tests.cloud.cloud_config import cloud_config

URI = "test:///default"
POOL, NETWORK = "default-pool", "default"
IMAGE = "image.qcow2"
SEEDS = "LIBVIRT_SEEDS"
"""The environment variable with the directory that uploads go to."""
DRIVER = f"{__name__}.Uploading"
CHANGED_AT: dict[str, int] = {}
"""When each volume that was changed by hand was changed, by name, in epoch seconds."""

IMAGE_XML = f"""<volume><name>{IMAGE}</name><capacity unit='MiB'>100</capacity>
    <allocation>0</allocation><target><format type='qcow2'/></target></volume>"""
BY_HAND = """<domain type='test'><name>by-hand-{name}</name>
    <memory unit='MiB'>64</memory><vcpu>1</vcpu><metadata>{metadata}</metadata>
    <os><type>hvm</type></os></domain>"""


class Uploading(Hypervisor):
    """What is uploaded becomes a file in $LIBVIRT_SEEDS, or is lost. A volume tells when it was
    changed, as a real file's does."""

    def ex_upload(self, volume: Any, content: bytes) -> None:
        assert volume.info()[1] >= len(content)
        if SEEDS in os.environ:
            (Path(os.environ[SEEDS]) / str(volume.name())).write_bytes(content)

    def ex_volume_xml(self, volume: Any) -> str:
        changed = CHANGED_AT.get(volume.name(), 1_767_139_200)
        times = f"<timestamps><mtime>{changed}.123456789</mtime></timestamps>"
        return super().ex_volume_xml(volume).replace("</target>", f"{times}</target>")


def cloud(
    clock: Clock,
    *,
    pool: str = "mine",
    uri: str = URI,
    timeout: float = 60.0,
    driver_class: str | None = DRIVER,
    **create: str,
) -> LibcloudCloud:
    return build_cloud(
        cloud_config(
            pool=pool,
            credentials={"uri": uri},
            create={"storage_pool": POOL, "image": IMAGE, **create},
            clock=clock,
            driver_class=driver_class,
        ),
        timeout=timeout,
    )


@contextmanager
def hypervisor(uri: str = URI) -> Iterator[Any]:
    """Another's connection to the hypervisor, with an image; nothing outlives it."""
    import libvirt

    libvirt.registerErrorHandler(lambda context, error: None, None)
    connection = libvirt.open(uri)
    pool = connection.storagePoolLookupByName(POOL)
    pool.createXML(IMAGE_XML)
    for one in (pool, connection.networkLookupByName(NETWORK)):
        one.setAutostart(1)
    try:
        yield connection
    finally:
        # Its state goes with the process' last connection, and a thread may still have one.
        for domain in connection.listAllDomains():
            if domain.name() != "test":
                if domain.isActive():
                    domain.destroy()
                else:
                    domain.undefine()
        for domain in connection.listAllDomains():
            if domain.name() != "test":
                domain.undefine()
        for volume in pool.listAllVolumes():
            volume.delete()
        CHANGED_AT.clear()


def vanish(connection: Any, node_id: str) -> None:
    """End a domain and leave no trace of it but its volumes."""
    domain = connection.lookupByUUIDString(node_id)
    domain.destroy()
    domain.undefine()


def volumes(connection: Any) -> list[str]:
    """The volumes beside the image."""
    found = connection.storagePoolLookupByName(POOL).listAllVolumes()
    return sorted(volume.name() for volume in found if volume.name() != IMAGE)


def by_hand(connection: Any, metadata: str = "") -> str:
    """A domain that somebody else made, running; its id."""
    return str(
        connection.createXML(
            BY_HAND.format(name=secrets.token_hex(4), metadata=metadata)
        ).UUIDString()
    )


def newer_image() -> None:
    """Another content of the image's file."""
    CHANGED_AT[IMAGE] = 1_767_225_600
