"""A cloud in memory."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

from nodemanager.cloud.api import CreateOrder
from nodemanager.core.model import world
from nodemanager.errors import BadRequest, CloudError, LeftAlone, PlaceFull
from nodemanager.lib.clock import Clock
from tests.fakes.script import Scripted

SMALL = world.Size("small", "small", cores=1, ram_mb=2000, scratch_mb=1000, price=0.1)
LARGE = world.Size("large", "large", cores=8, ram_mb=16000, scratch_mb=9000, price=0.8)


@dataclass
class Machine:
    """One machine of the cloud, as it really is. `listed` is False where lists leave it out."""

    node: world.CloudNode
    user_data: str = ""
    listed: bool = True
    ends_at: float | None = None


class FakeCloud(Scripted):
    """Holds the cloud port's text in memory; `destroy_takes` None is a destroy that never ends.

    A terminated machine stays listed as terminated; one that `vanish` took is "no such node".
    """

    provider = "fake"

    def __init__(self, clock: Clock, *, pool: str = "pool", visible_after: float = 300.0) -> None:
        super().__init__()
        self.clock = clock
        self.pool = pool
        self.visible_after = visible_after
        self.ids_unique = True
        self.takes_client_tokens = True
        self.sizes_from_file = False
        self.makes_any_size = False
        self.timeout = 60.0
        self.may_authorise = True
        self.account_name = "fake:account-1"
        self.machines: dict[str, Machine] = {}
        self.destroy_takes: float | None = 0.0
        self.sizes = (SMALL, LARGE)
        self.full: set[str] = set()
        self.image_id: str | None = None
        """What nodes are to be booted from; `gives_image` is what they get in its place."""
        self.gives_image: str | None = None
        """The places that have no room for any size."""
        self.asked: list[str] = []
        self.things: dict[str, world.Leftover] = {}
        self.takes = 0.0
        """How many seconds a create goes on after its answer."""
        self.refused_in_the_end: dict[str | None, CloudError] = {}
        """By place, what creates that went on end with."""
        self._going_on: dict[str, tuple[float, str | None]] = {}
        self._refused: dict[str, CloudError] = {}
        self._by_token: dict[str, world.CloudNode] = {}
        self._numbers = itertools.count(1)

    # The port.

    def account(self) -> str:
        return self._run("account", lambda: self.account_name)

    def list_nodes(self) -> world.Listed[world.CloudNode]:
        self._settle()
        return self._run(
            "list_nodes",
            lambda: world.Listed(
                tuple(self._listed(machine) for machine in self.machines.values() if machine.listed)
            ),
        )

    def list_sizes(self) -> tuple[world.Size, ...]:
        return self._run("list_sizes", lambda: self.sizes)

    def find_by_record(self, record_uuid: str) -> tuple[world.CloudNode, ...]:
        self._settle()
        return self._run(
            "find_by_record",
            lambda: tuple(
                self._now(machine)
                for machine in self.machines.values()
                if machine.node.tags.record == record_uuid
            ),
        )

    def ask(self, node_id: str) -> world.CloudNode | None:
        self.asked.append(node_id)
        machine = self.machines.get(node_id)
        return self._run("ask", lambda: None if machine is None else self._now(machine))

    def check_image(self) -> None:
        self._run("check_image", lambda: None)

    def image(self) -> str | None:
        return self.image_id

    def create(self, order: CreateOrder) -> world.CloudNode:
        return self._run("create", lambda: self._create(order), write=order.tags.record or "")

    def finish(self, pending: str, place: str | None) -> str | CloudError | None:
        return self._run("finish", lambda: self._finish(pending))

    def adopt(self, node_id: str, tags: world.Tags) -> None:
        return self._run("adopt", lambda: self._adopt(node_id, tags), write=f"adopt {node_id}")

    def destroy(self, node_id: str) -> world.Outcome:
        return self._run("destroy", lambda: self._destroy(node_id), write=node_id)

    def pins(self, node_id: str) -> tuple[world.Leftover, ...]:
        return self._run(
            "pins",
            lambda: tuple(
                sorted(
                    (one for one in self.things.values() if one.node_id == node_id and one.tagged),
                    key=lambda one: (one.order, one.id),
                )
            ),
        )

    def find_leftovers(self) -> tuple[world.Leftover, ...]:
        return self._run(
            "find_leftovers",
            lambda: tuple(
                one for one in self.things.values() if one.tagged and not self._is_there(one)
            ),
        )

    def release(self, leftover: world.Leftover) -> world.Outcome:
        return self._run("release", lambda: self._release(leftover))

    def close(self) -> None:
        return

    # What happens in it.

    def pin(
        self, node_id: str, kind: world.LeftoverKind, id: str, *, tagged: bool = True
    ) -> world.Leftover:
        """A thing that outlives that node; without our tags it is an operator's own."""
        self.things[id] = world.Leftover(kind, id, node_id, tagged)
        return self.things[id]

    def _is_there(self, thing: world.Leftover) -> bool:
        machine = self.machines.get(thing.node_id)
        return machine is not None and not self._now(machine).is_absent

    def _release(self, leftover: world.Leftover) -> world.Outcome:
        """An order is taken first, and the next question tells that it is gone, as on EC2."""
        thing = self.things.get(leftover.id)
        if thing is None:
            return world.Outcome.GONE
        if not thing.tagged:
            raise LeftAlone(f"{thing.kind} {thing.id} does not bear our tags")
        if self._is_there(thing):
            raise LeftAlone(f"{thing.kind} {thing.id} belongs to a node that lives")
        self.writes.append(f"release {thing.id}")
        del self.things[thing.id]
        return world.Outcome.ACCEPTED

    def add(
        self,
        *,
        tags: world.Tags = world.NO_TAGS,
        age: float = 0.0,
        state: world.CloudState = world.CloudState.RUNNING,
        user_data: str = "",
        name: str | None = None,
        size: str = "small",
        managed: bool = True,
        places: tuple[str, ...] = (),
        image: str | None = None,
    ) -> world.CloudNode:
        """A machine that has been there for `age` seconds."""
        node_id = f"i-{next(self._numbers):04d}"
        node = world.CloudNode(
            id=node_id,
            name=name or f"name-of-{node_id}",
            state=state,
            size=size,
            created_at=self.clock.wall() - age,
            tags=tags,
            managed=managed,
            raw_state=state.value,
            places=places,
            image=image,
        )
        self.machines[node_id] = Machine(node, user_data)
        return node

    def change(self, node_id: str, **fields: object) -> None:
        machine = self.machines[node_id]
        machine.node = replace(machine.node, **fields)  # type: ignore[arg-type]  # names of fields

    def vanish(self, node_id: str) -> Machine:
        """The machine ends behind everybody's back and is unknown at once."""
        return self.machines.pop(node_id)

    def living(self) -> list[Machine]:
        """What really runs, listed or not."""
        return [machine for machine in self.machines.values() if not self._now(machine).is_absent]

    def _create(self, order: CreateOrder) -> world.CloudNode:
        """A client token that is known answers with what was made for it, as on EC2."""
        known = self._by_token.get(order.client_token)
        if known is None and order.place in self.full:
            raise PlaceFull(f"no room in {order.place}", place=order.place)
        if known is None:
            known = self._by_token[order.client_token] = self._make(order)
            if self.takes:
                self._going_on[known.id] = self.clock.boottime() + self.takes, order.place
                self.change(known.id, state=world.CloudState.PENDING)
        if known.id in self._going_on or known.id in self._refused:
            known = replace(known, state=world.CloudState.PENDING, pending=known.id)
        return known

    def _finish(self, node_id: str) -> str | CloudError | None:
        self._settle()
        return node_id if node_id in self._going_on else self._refused.get(node_id)

    def _settle(self) -> None:
        """The creates that have gone on for long enough end."""
        now = self.clock.boottime()
        for node_id, (due, place) in list(self._going_on.items()):
            if due > now:
                continue
            del self._going_on[node_id]
            if place in self.refused_in_the_end:
                self._refused[node_id] = self.refused_in_the_end[place]
                self.vanish(node_id)
            else:
                self.change(node_id, state=world.CloudState.RUNNING)

    def _make(self, order: CreateOrder) -> world.CloudNode:
        return self.add(
            tags=order.tags,
            user_data=order.user_data,
            name=order.name,
            size=order.size.instance_type,
            places=() if order.place is None else (order.place,),
            image=self.gives_image or self.image_id,
        )

    def _adopt(self, node_id: str, tags: world.Tags) -> None:
        if node_id not in self.machines:
            raise BadRequest(f"there is no node {node_id}")
        self.change(node_id, tags=tags, managed=True)

    def _destroy(self, node_id: str) -> world.Outcome:
        machine = self.machines.get(node_id)
        if machine is None:
            return world.Outcome.UNKNOWN
        if self.destroy_takes is not None:
            machine.ends_at = self.clock.wall() + self.destroy_takes
        return world.Outcome.GONE if self._now(machine).is_absent else world.Outcome.ACCEPTED

    def _listed(self, machine: Machine) -> world.CloudNode:
        """Another pool's node is there to see, and none of ours."""
        node = self._now(machine)
        return node if node.tags.pool in (None, self.pool) else replace(node, managed=False)

    def _now(self, machine: Machine) -> world.CloudNode:
        if machine.ends_at is not None and machine.ends_at <= self.clock.wall():
            machine.node = replace(machine.node, state=world.CloudState.TERMINATED)
        elif machine.ends_at is not None:
            machine.node = replace(machine.node, state=world.CloudState.STOPPING)
        return machine.node
