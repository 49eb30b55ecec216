"""What the tests do in the running cloud by another hand than the adapter's."""

from __future__ import annotations

import atexit
import base64
import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from nodemanager.cloud.api import CloudDriver
from nodemanager.core.model.world import CloudNode, LeftoverKind
from tests.cloud.openstack import helpers as openstack_helpers
from tests.live.farm import NotServed
from tests.live.harness import frozen
from tests.openstack import CLOUD_FILE, people
from tests.waiting import until

SLOW_S = 60.0
"""What takes a second where nothing else runs."""


class Hand:
    """The SDK: as the project's `member`, and as the administrator (`admin`)."""

    def __init__(self) -> None:
        # The SDK takes long to import: not where tests are only collected.
        from openstack import exceptions

        self._errors = exceptions
        self.cloud = people.read(Path(os.environ[CLOUD_FILE]))
        self.member = self.cloud.connection()
        self.admin = self.cloud.admin()

    @property
    def credentials(self) -> dict[str, str]:
        return {
            "application_credential_id": self.cloud.credential,
            "application_credential_secret": self.cloud.credential_secret,
        }

    def adapter(self, **settings: Any) -> CloudDriver:
        """See openstack_helpers.cloud."""
        create = {"image": self.cloud.image, **settings.pop("create", {})}
        given = {"credentials": self.credentials, **settings}
        return openstack_helpers.cloud(self.cloud.auth_url, create=create, **given)

    def by_hand(self, **fields: Any) -> str:
        """A server without a tag of ours that runs; its id."""
        made = self.start_by_hand(**fields)
        self.wait(made, "ACTIVE")
        return made

    def start_by_hand(self, **fields: Any) -> str:
        asked = {
            "name": "by-hand",
            "image_id": self.cloud.image,
            "flavor_id": self.member.compute.find_flavor("m1.small").id,
            "networks": "auto",
            "metadata": {"owner": "alice"},
            **fields,
        }
        return str(self.member.compute.create_server(**asked).id)

    def shown(self, server_id: str) -> tuple[str, str | None]:
        """Nova's status and task of a server; gone: ("gone", None)."""
        try:
            server = self.member.compute.get_server(server_id)
        except self._errors.NotFoundException:
            return "gone", None
        return server.status, server.task_state

    def wait(self, server_id: str, status: str) -> None:
        until(
            f"{server_id} {status}",
            lambda: self.shown(server_id)[0] == status,
            SLOW_S,
            told=lambda: str(self.shown(server_id)),
        )

    def stop(self, server_id: str) -> None:
        self.wait(server_id, "ACTIVE")
        self.member.compute.stop_server(server_id)
        self.wait(server_id, "SHUTOFF")

    def compute_frozen(self) -> Any:
        """Nova's compute service does nothing meanwhile, so boots and deletions take their time."""
        return frozen(self.cloud.compute_group)

    @contextmanager
    def cell_down(self) -> Iterator[None]:
        """The database of the cell with all servers is not reachable meanwhile.

        Its host, which reports there, passes for down until it has done so again.
        """
        name = sa.make_url(self.cloud.nova_database).database
        engine = sa.create_engine(
            self.cloud.postgres.replace("postgresql:", "postgresql+psycopg:"),
            isolation_level="AUTOCOMMIT",
        )
        end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name"
        try:
            with engine.connect() as postgres:
                postgres.execute(sa.text(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false"))
                try:
                    postgres.execute(sa.text(end), {"name": name})
                    yield
                finally:
                    postgres.execute(sa.text(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true"))
        finally:
            engine.dispose()
        until("a host that is up", self._host_is_up, SLOW_S)

    def _host_is_up(self) -> bool:
        return [one.state for one in self.admin.compute.services(binary="nova-compute")] == ["up"]

    @contextmanager
    def no_host(self) -> Iterator[None]:
        """No host takes a server meanwhile."""
        (host,) = self.admin.compute.services(binary="nova-compute")
        self.admin.compute.disable_service(host)
        try:
            yield
        finally:
            self.admin.compute.enable_service(host)

    @contextmanager
    def quota(self, **limits: int) -> Iterator[None]:
        self.admin.compute.update_quota_set(self.cloud.project_id, **limits)
        try:
            yield
        finally:
            self.admin.compute.revert_quota_set(self.cloud.project_id)

    @contextmanager
    def user_disabled(self) -> Iterator[None]:
        """The project's member is disabled meanwhile; every token of before stays revoked."""
        user = self.member.current_user_id
        self.admin.identity.update_user(user, is_enabled=False)
        try:
            yield
        finally:
            self.admin.identity.update_user(user, is_enabled=True)
            self.member.close()
            self.member = self.cloud.connection()

    def bind(self, port_id: str, server_id: str) -> None:
        """Neutron's port, as nova marks it; empty: as nova gives it back."""
        owner = "compute:nova" if server_id else ""
        self.admin.network.update_port(port_id, device_id=server_id, device_owner=owner)

    def ports_of(self, server_id: str) -> list[str]:
        return [port.id for port in self.member.network.ports(device_id=server_id)]

    def pin(self, node: CloudNode) -> set[tuple[LeftoverKind, str]]:
        """What outlives a node: a second port, a volume and an address, beside nova's own port."""
        self.wait(node.id, "ACTIVE")
        tags, network = openstack_helpers.our_tags(node), self.member.network
        marks = openstack_helpers.neutron_tags(tags)
        port = network.create_port(network_id=self.cloud.network, name="a second one")
        network.set_tags(port, marks)
        volume = self.member.block_storage.create_volume(size=1, metadata=tags)
        self.member.compute.create_server_interface(node.id, port_id=port.id)
        address = network.create_ip(floating_network_id=self.cloud.outside, port_id=port.id)
        network.set_tags(address, marks)
        self.member.block_storage.wait_for_status(volume, "available", interval=0.2, wait=SLOW_S)
        self.member.compute.create_volume_attachment(node.id, volume_id=volume.id)
        self.member.block_storage.wait_for_status(volume, "in-use", interval=0.2, wait=SLOW_S)
        until("bound", lambda: port.id in self.ports_of(node.id), SLOW_S)
        return {
            *((LeftoverKind.INTERFACE, one) for one in self.ports_of(node.id)),
            (LeftoverKind.VOLUME, volume.id),
            (LeftoverKind.ADDRESS, address.id),
        }

    def clear(self) -> None:
        """The project is empty afterwards."""
        compute, network, storage = self.admin.compute, self.admin.network, self.admin.block_storage
        for server in compute.servers():
            compute.delete_server(server)
        until("no server", lambda: not list(compute.servers()), SLOW_S)
        project = self.cloud.project_id
        for address in network.ips(project_id=project):
            network.delete_ip(address)
        for port in network.ports(project_id=project):
            if not str(port.device_owner).startswith("network:"):
                network.delete_port(port)
        for volume in storage.volumes():
            storage.delete_volume(volume)
        until("no volume", lambda: not list(storage.volumes()), SLOW_S)

    # As the farm knows its machines.

    def running(self) -> list[str]:
        try:
            return [one.id for one in self.admin.compute.servers(status="ACTIVE")]
        except (self._errors.SDKException, OSError) as error:
            raise NotServed from error

    def user_data(self, node_id: str) -> bytes:
        """What nova would give the machine."""
        try:
            return base64.b64decode(self.admin.compute.get_server(node_id).user_data)
        except (self._errors.SDKException, OSError) as error:
            raise NotServed from error

    def close(self) -> None:
        self.member.close()
        self.admin.close()


@functools.cache
def shared() -> Hand:
    """One for all tests of this process: to log in takes seconds."""
    hand = Hand()
    atexit.register(hand.close)
    return hand
