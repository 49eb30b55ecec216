"""Each cloud behind a way that goes wrong on order. A new adapter adds one entry to WORLDS."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path

import mock

from tests.cloud.azure import helpers as azure_helpers
from tests.cloud.azure import server as azure_server
from tests.cloud.ec2 import helpers as ec2_helpers
from tests.cloud.ec2 import moto_server
from tests.cloud.gce import auth as gce_auth
from tests.cloud.gce import helpers as gce_helpers
from tests.cloud.gce import server as gce_server
from tests.cloud.libvirt import driver as libvirt_driver
from tests.cloud.openstack import helpers as openstack_helpers
from tests.cloud.openstack import server as openstack_server
from tests.cloud.rpc_proxy import RpcProxy
from tests.cloud.world import RPC_FATES, World
from tests.fakes.clock import ManualClock
from tests.live.hypervisor import Libvirtd
from tests.live.proxy import Proxy


@contextmanager
def ec2_world() -> Iterator[World]:
    server = moto_server.shared()
    server.reset()
    server.page_limit = 2
    straight = ec2_helpers.cloud(server)

    def revive(reply: moto_server.Reply) -> moto_server.Reply:
        for node in straight.list_nodes().items:
            server.put(node.id, "running")
        return reply

    with closing(Proxy(server.url, lambda _: "?")) as way:
        yield World(
            open=lambda timeout: ec2_helpers.cloud(way.url, timeout=timeout),
            straight=straight,
            meeting=way.meeting,
            order=ec2_helpers.order,
            by_hand=partial(ec2_helpers.node_by_hand, server),
            vanish=server.forget,
            forget=server.forget,
            pin=lambda node: ec2_helpers.add_volume(server, node, ec2_helpers.tags_of(node)),
            ends_nothing=partial(server.fault, "TerminateInstances", times=99, after=revive),
        )
    assert server.wrong == []
    server.reset()


@contextmanager
def gce_world() -> Iterator[World]:
    server = gce_server.shared()
    server.reset()
    server.page_limit = 2
    project = server.project

    with closing(Proxy(server.url, lambda _: "?")) as way:
        keys = {"token_endpoint": way.url, "key": gce_auth.key_file()}
        yield World(
            open=lambda timeout: gce_helpers.cloud(way.url, timeout=timeout, credentials=keys),
            straight=gce_helpers.cloud(server),
            meeting=way.meeting,
            order=gce_helpers.order,
            by_hand=partial(gce_helpers.by_hand, server),
            vanish=lambda node_id: project.delete(gce_helpers.ZONE, node_id),
            pin=lambda node: gce_helpers.add_disk(server, node),
            ends_nothing=lambda: setattr(project, "takes", 1e6),
        )
    assert server.wrong == []
    server.reset()


@contextmanager
def azure_world(*, own_identity: bool = False) -> Iterator[World]:
    """The manager signs in with a secret, or is a machine of Azure that has an identity."""
    server = azure_server.shared()
    server.reset()
    server.page_limit = 2
    keys = dict.fromkeys(("key", "secret", "tenant_id")) if own_identity else {}

    with (
        closing(Proxy(server.url, lambda _: "?")) as way,
        mock.patch.dict(os.environ, AZURE_POD_IDENTITY_AUTHORITY_HOST=way.url),
    ):
        yield World(
            open=lambda timeout: azure_helpers.cloud(way.url, timeout=timeout, credentials=keys),
            straight=azure_helpers.cloud(server),
            meeting=way.meeting,
            order=azure_helpers.order,
            by_hand=partial(azure_helpers.by_hand, server),
            vanish=server.forget,
            learns=True,
            pin=lambda node: azure_helpers.attach(server, node),
            ends_nothing=lambda: setattr(server.world, "takes", 1e6),
        )
    assert server.wrong == []
    server.reset()


@contextmanager
def openstack_world() -> Iterator[World]:
    server = openstack_server.shared()
    server.reset()
    server.nova.max_limit = server.things.max_limit = 2

    with closing(Proxy(server.url, lambda _: "?")) as way:
        straight = openstack_helpers.cloud(server)
        auth_url = server.auth_url.replace(server.url, way.url)
        straight.account()
        server.catalog = {
            kind: url.replace(server.url, way.url) for kind, url in server.catalog.items()
        }
        yield World(
            open=lambda timeout: openstack_helpers.cloud(auth_url, timeout=timeout),
            straight=straight,
            meeting=way.meeting,
            order=openstack_helpers.order,
            by_hand=partial(openstack_helpers.by_hand, server),
            vanish=lambda node_id: server.nova.delete(node_id, server.project_id),
            pin=lambda node: openstack_helpers.pin(server, node),
            ends_nothing=lambda: setattr(server.nova, "delete_s", 1e6),
            elsewhere=partial(_another_project, server),
        )
    assert server.wrong == []
    server.reset()


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
                learns=True,
                elsewhere=partial(way.elsewhere, host, host[:-1] + b"~"),
            )


WORLDS: dict[str, Callable[[], AbstractContextManager[World]]] = {
    "ec2": ec2_world,
    "gce": gce_world,
    "azure": azure_world,
    "openstack": openstack_world,
    "libvirt": libvirt_world,
}
