"""The nodes' side: every machine that runs pings its record, as its user data says."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

from nodemanager.core.model.world import Claim, CloudState, Guarantee, Record, Tags, WorkerState
from nodemanager.errors import StoreError
from tests.fakes.cloud import FakeCloud, Machine
from tests.fakes.store import FakeStore

PING_EVERY_S = 30.0


class Fleet:
    """Pings for all running machines but the `silent` ones; `states` is what each reports.

    `refused` are the pings that the store did not take, by node id. With `drain_hooks` they drain
    as they are told, and say so at once; `drained` is by which order, by node id. `notices` are
    what each reads of its cloud's taking it (D18).
    """

    def __init__(self, cloud: FakeCloud, store: FakeStore) -> None:
        self.cloud = cloud
        self.store = store
        self.state: WorkerState | None = WorkerState.BUSY
        self.states: dict[str, WorkerState | None] = {}
        self.silent: set[str] = set()
        self.mute = False
        self.refused: dict[str, str] = {}
        self.drain_hooks = False
        self.drained: dict[str, str] = {}
        self.notices: dict[str, dict[str, str]] = {}

    def beat(self) -> None:
        """One round of pings."""
        if self.mute:
            return
        for machine in self.cloud.living():
            is_up = machine.node.state is not CloudState.PENDING
            if is_up and machine.node.id not in self.silent and machine.user_data:
                self.ping(machine)

    def ping(self, machine: Machine) -> None:
        url = urlsplit(machine.user_data)
        node_id = machine.node.id
        try:
            order = self.store.ping(
                url.path.strip("/"),
                parse_qs(url.query)["ping_secret"][0],
                instance_id=node_id,
                worker_state=self.states.get(node_id, self.state),
                drain_hook=self.drain_hooks,
                drained=self.drained.get(node_id),
                notice=self.notices.get(node_id, {}),
            )
            if self.drain_hooks and order != self.drained.get(node_id):
                self.drained.pop(node_id, None)
                if order is not None:
                    self.drained[node_id] = order
                self.ping(machine)
        except StoreError as error:
            self.refused[node_id] = str(error)

    def add_node(self, *, age: float, pinged_ago: float | None = 0.0) -> tuple[Machine, Record]:
        """A node and its record that have been a pair for long, as after a restart."""
        store, cloud = self.store, self.cloud
        slot = store.free_slot()
        record = store.add(slot_number=slot, hostname=f"compute{slot}")
        claim = Claim(
            pool=store.pool,
            manager="before",
            token=0,
            at=store.now() - age,
            node_name=f"compute-of-{record.uuid[-5:]}",
            incarnation=f"incarnation-of-{record.uuid[-5:]}",
        )
        quiet = age if pinged_ago is None else pinged_ago
        node = cloud.add(
            tags=Tags(store.pool, record.uuid, claim.incarnation),
            age=age,
            user_data=store.ping_url(record),
            name=claim.node_name,
        )
        # A store that compares was told its node long ago (P1a).
        told = node.id if store.guarantee is Guarantee.CAS and pinged_ago is not None else None
        fields: dict[str, object] = {
            "claim": replace(claim, node_id=told),
            "modified_at": store.now() - quiet,
        }
        if pinged_ago is not None:
            fields |= {
                "first_ping_at": store.now() - age + 1,
                "last_ping_at": store.now() - pinged_ago,
                "ip_address": "10.0.0.1",
                "instance_id": node.id,
                "worker_state": self.state,
            }
        store.put(record.uuid, **fields)
        return cloud.machines[node.id], store.rows[record.uuid]
