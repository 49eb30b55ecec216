"""Each cloud behind a way that goes wrong on order. A new adapter adds one entry to WORLDS."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import mock

from nodemanager.cloud.api import CloudDriver
from tests.cloud.azure import helpers as azure_helpers
from tests.cloud.azure.site import AzureSite
from tests.cloud.ec2 import helpers as ec2_helpers
from tests.cloud.ec2 import moto_server
from tests.cloud.ec2.site import Ec2Site
from tests.cloud.gce import auth as gce_auth
from tests.cloud.gce import helpers as gce_helpers
from tests.cloud.gce.site import GceSite
from tests.cloud.libvirt import driver as libvirt_driver
from tests.cloud.openstack import helpers as openstack_helpers
from tests.cloud.openstack import server as openstack_server
from tests.cloud.openstack.site import OpenStackSite
from tests.cloud.rpc_proxy import RpcProxy
from tests.cloud.site import CloudSite
from tests.cloud.world import RPC_FATES, World
from tests.fakes.clock import ManualClock
from tests.live.hypervisor import Libvirtd
from tests.live.proxy import Proxy


def _behind_a_way(
    site: CloudSite, open_at: Callable[[str, float], CloudDriver], **more: Any
) -> Iterator[World]:
    """`open_at` gives an adapter that asks at that URL, with so many seconds for a call."""
    with closing(site), closing(Proxy(site.server.url, lambda _: "?")) as way:
        yield World(
            open=partial(open_at, way.url),
            straight=site.driver,
            meeting=way.meeting,
            order=site.order,
            by_hand=site.by_hand,
            **{"pin": lambda node: site.pin(node, site.tags(node)), **more},
        )


@contextmanager
def ec2_world() -> Iterator[World]:
    site = Ec2Site()
    server = site.server

    def revive(reply: moto_server.Reply) -> moto_server.Reply:
        for node in site.driver.list_nodes().items:
            server.put(node.id, "running")
        return reply

    yield from _behind_a_way(
        site,
        lambda url, timeout: ec2_helpers.cloud(url, timeout=timeout),
        vanish=server.forget,
        forget=server.forget,
        pin=lambda node: site.add_volume(node, site.tags(node)),
        ends_nothing=partial(server.fault, site.destroy, times=99, after=revive),
    )


@contextmanager
def gce_world() -> Iterator[World]:
    site = GceSite()
    site.server.page_limit = 2

    def open_at(url: str, timeout: float) -> CloudDriver:
        keys = {"token_endpoint": url, "key": gce_auth.key_file()}
        return gce_helpers.cloud(url, timeout=timeout, credentials=keys)

    yield from _behind_a_way(
        site,
        open_at,
        vanish=lambda node_id: site.project.delete(gce_helpers.ZONE, node_id),
        ends_nothing=lambda: setattr(site.project, "takes", 1e6),
    )


@contextmanager
def azure_world(*, own_identity: bool = False) -> Iterator[World]:
    """The manager signs in with a secret, or is a machine of Azure that has an identity."""
    site = AzureSite()
    keys = dict.fromkeys(("key", "secret", "tenant_id")) if own_identity else {}

    def open_at(url: str, timeout: float) -> CloudDriver:
        os.environ["AZURE_POD_IDENTITY_AUTHORITY_HOST"] = url
        return azure_helpers.cloud(url, timeout=timeout, credentials=keys)

    with mock.patch.dict(os.environ):
        yield from _behind_a_way(
            site,
            open_at,
            vanish=site.server.forget,
            learns=True,
            ends_nothing=lambda: setattr(site.world, "takes", 1e6),
        )


@contextmanager
def openstack_world() -> Iterator[World]:
    site = OpenStackSite()
    server = site.server
    site.driver.account()
    straight = dict(server.catalog)

    def open_at(url: str, timeout: float) -> CloudDriver:
        # Who signs in there is led there for the rest, too; the straight one has its token.
        server.catalog = {
            kind: address.replace(server.url, url) for kind, address in straight.items()
        }
        auth_url = server.auth_url.replace(server.url, url)
        return openstack_helpers.cloud(auth_url, timeout=timeout)

    yield from _behind_a_way(
        site,
        open_at,
        vanish=lambda node_id: server.nova.delete(node_id, server.project_id),
        ends_nothing=lambda: setattr(server.nova, "delete_s", 1e6),
        elsewhere=partial(_another_project, server),
        pin=lambda node: openstack_helpers.pin(server, node),
    )


@contextmanager
def _another_project(server: openstack_server.OpenStackServer) -> Iterator[None]:
    server.project_id = 32 * "b"
    server.revoke_tokens()
    yield
    server.project_id = openstack_server.PROJECT_ID
    server.revoke_tokens()


@contextmanager
def libvirt_world() -> Iterator[World]:
    clock, host = ManualClock(), socket.gethostname().encode()
    with tempfile.TemporaryDirectory(prefix="nm-rpc-") as home, closing(Libvirtd()) as daemon:
        path = Path(home) / "sock"
        uri = f"test+unix:///default?socket={path}"
        with (
            closing(RpcProxy(path, daemon.socket)) as way,
            libvirt_driver.hypervisor(daemon.uri) as other_hand,
            closing(libvirt_driver.cloud(clock, pool=ec2_helpers.POOL, uri=daemon.uri)) as straight,
        ):
            yield World(
                open=lambda timeout: libvirt_driver.cloud(
                    clock, pool=ec2_helpers.POOL, uri=uri, timeout=timeout
                ),
                straight=straight,
                meeting=way.meeting,
                order=ec2_helpers.order,
                by_hand=partial(libvirt_driver.by_hand, other_hand),
                vanish=partial(libvirt_driver.vanish, other_hand),
                fates=RPC_FATES,
                reconnects=True,
                elsewhere=partial(way.elsewhere, host, host[:-1] + b"~"),
            )


WORLDS: dict[str, Callable[[], AbstractContextManager[World]]] = {
    "ec2": ec2_world,
    "gce": gce_world,
    "azure": azure_world,
    "openstack": openstack_world,
    "libvirt": libvirt_world,
}
