"""The simulated cloud: what is true of its nodes, and the driver that asks it.

What is true is `nodes`; what a question is answered with may lag behind, within A1: a node younger
than `visible_after` may be denied, an older one never is, unless a fault breaks A1.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, Literal

from nodemanager.cloud.api import CreateOrder
from nodemanager.cloud.libcloud_base import with_managed
from nodemanager.core.model.world import (
    CloudNode,
    CloudState,
    Leftover,
    LeftoverKind,
    Listed,
    Outcome,
    Size,
    Tags,
)
from nodemanager.errors import (
    BadRequest,
    CapacityUnavailable,
    CloudError,
    LeftAlone,
    PlaceFull,
    QuotaExceeded,
    Unauthorized,
)
from tests.simulation.engine import EPOCH, Engine
from tests.simulation.weather import Line

if TYPE_CHECKING:
    from tests.simulation.machine import Machine


@dataclass(eq=False)
class Instance:
    """One node as it truly is. `created_at`, `ended_at` and `shown_at` are true boottime."""

    id: str
    name: str
    size: str
    tags: Tags
    created_at: float
    shown_at: float
    lingers: float
    launches: list[float]
    """Each time that it began to run: a stop and a start add one."""
    state: CloudState = CloudState.PENDING
    ended_at: float | None = None
    held: bool = False
    sealed: bool = False
    """It takes no tags but those of its create."""
    matches: bool = True
    """`[Cloud List]` shows it (T5)."""
    by: str = ""
    machine: Machine | None = None
    twin: bool = False
    places: tuple[str, ...] = ()
    image: str | None = None
    view: CloudNode | None = None
    create: Literal["goes on", "failed", ""] = ""
    refused: CloudError | None = None
    """What its create ended with, once that is told."""

    @property
    def lives(self) -> bool:
        return self.ended_at is None

    @property
    def launched_at(self) -> float:
        """When it last began to run."""
        return self.launches[-1]

    def launched_by(self, then: float) -> float:
        """When it had last begun to run by then; its first launch, if it had not yet."""
        return next((at for at in reversed(self.launches) if at <= then), self.launches[0])


@dataclass(frozen=True)
class CloudTraits:
    """How this cloud behaves in fair weather. `foreign_pool` nodes are listed where `broad`."""

    visible_after: float = 60.0
    ids_unique: bool = False
    client_tokens: bool = True
    broad: bool = False
    clock_error: float = 0.0
    shutdown_s: float = 30.0
    pins: bool = False
    """Nodes pin volumes and the like, which may outlive them (D4)."""
    images: bool = False
    """It tells from which image each node was booted."""
    two_listings: bool = False
    """By tag, and then by `[Cloud List]`: of two moments (T5)."""
    goes_on: bool = False
    """With a create, for seconds to minutes after its answer; the create may fail in the end."""
    leaves: bool = False
    """Of such a create that failed it keeps what is there, until it is asked for its end."""


@dataclass(eq=False)
class Pinned:
    """One thing that a node pins; `gone_at` is when it ended, or will have."""

    leftover: Leftover
    node: Instance
    held: bool = False
    gone_at: float | None = None

    def is_gone(self, now: float) -> bool:
        return self.gone_at is not None and now >= self.gone_at


Denial = Callable[[Instance], bool]
Alteration = Callable[[tuple[CloudNode, ...]], Listed[CloudNode]]


@dataclass
class Books:
    """What the monitors are told, as it happens."""

    created: list[Callable[[Instance, str], None]] = field(default_factory=list)
    twinned: list[Callable[[Instance], None]] = field(default_factory=list)
    destroyed: list[Callable[[Instance, str], None]] = field(default_factory=list)
    ended: list[Callable[[Instance], None]] = field(default_factory=list)
    asked: list[Callable[..., None]] = field(default_factory=list)
    listed: list[Callable[..., None]] = field(default_factory=list)
    adopted: list[Callable[[Instance, str], None]] = field(default_factory=list)
    released: list[Callable[[Instance, str, str], None]] = field(default_factory=list)
    """Told the node, what of it is to be released, and by whom, also where that is refused."""


class SimCloud:
    """One account, shared by all pools."""

    def __init__(self, engine: Engine, traits: CloudTraits, boot: Callable[[Any, Any], None]):
        self.engine = engine
        self.traits = traits
        self.instances: dict[str, Instance] = {}
        self.by_record: dict[str, list[Instance]] = {}
        self.tokens: dict[str, Instance] = {}
        self.account = "sim/account-1"
        self.denials: list[Denial] = []
        self.alterations: list[Callable[[Random], Alteration]] = []
        self.wrong_account = False
        self.lazy_destroys = False
        self.full: set[str] = set()
        """The places without room."""
        self.twins = False
        self.image = "image-0"
        self.image_changed_at = engine.now
        self.stale_image: str | None = None
        """What new nodes get in place of the image that they are asked for with."""
        self.hidden: set[str] = set()
        self.unknown: set[str] = set()
        """Nodes whose state the cloud does not tell."""
        self.pinned: dict[str, Pinned] = {}
        self._pins = engine.random("pins")
        self.late_by = 0.0
        self._taken: dict[str, deque[tuple[float, tuple[CloudNode, ...]]]] = {}
        self.obeys_a2 = True
        self.is_too_late: Callable[[Tags], bool] = lambda tags: False
        self.books = Books()
        self._boot = boot
        self._random = engine.random("cloud")
        self._slow = engine.random("slow creates")
        self._made = 0

    # What is so.

    def start(
        self, *, tags: Tags, size: str, name: str, by: str, place: str | None = None
    ) -> Instance:
        """A new node is there, from now on."""
        now = self.engine.now
        random = self._random
        self._made += 1
        lag = random.random() * self.traits.visible_after if random.random() < 0.3 else 0.0
        made = Instance(
            id=f"i-{self._made:04d}",
            name=name,
            size=size,
            tags=tags,
            created_at=now,
            shown_at=now + lag,
            lingers=random.choice((0.0, 0.0, 120.0, 3600.0)),
            launches=[now],
            sealed=self._pins.random() < 0.15,
            by=by,
            places=() if place is None else (place,),
            image=(self.stale_image or self.image) if self.traits.images else None,
        )
        self.instances[made.id] = made
        if tags.record is not None:
            self.by_record.setdefault(tags.record, []).append(made)
        self.engine.after(5 + random.random() * 40, lambda: self.set_state(made, running_from))
        return made

    def change_image(self) -> None:
        """Nodes are to be booted from another image from now on."""
        self.image = f"image-{int(self.image.rpartition('-')[2]) + 1}"
        self.image_changed_at = self.engine.now

    def go_on(self, node: Instance, user_data: str) -> None:
        """Its create has only begun."""
        node.create = "goes on"
        # Nothing of it may last for long once all is well.
        longest = 5.0 if self.engine.calm else self._slow.choice((5.0, 60.0, 200.0))
        self.engine.after(self._slow.random() * longest, lambda: self._end_create(node, user_data))

    def _end_create(self, node: Instance, user_data: str) -> None:
        is_full = not self.full.isdisjoint(node.places)
        error: CloudError | None = None
        if not self.engine.calm and (is_full or self._slow.random() < 0.3):
            error = self._why_not(node, is_full)
        if error is None or not node.lives:
            node.create = ""
            if node.lives:
                self.set_state(node, CloudState.RUNNING)
                self._boot(node, user_data)
            return
        node.create, node.refused = "failed", error
        if self.traits.leaves:
            self.set_state(node, CloudState.STOPPED)
        else:
            self.drop(node)

    def _why_not(self, node: Instance, is_full: bool) -> CloudError:
        how = 0 if is_full else self._slow.choice((0, 0, 1, 2))
        if how == 1:
            return QuotaExceeded("the quota is used up")
        if how == 2:
            return CloudError("the operation failed")
        full = CapacityUnavailable("no room")
        return PlaceFull("no room", place=node.places[0]) if node.places else full

    def drop(self, node: Instance) -> None:
        """What its failed create left is gone, and was never a node."""
        node.lingers = 0.0
        self.end(node)

    def pin(self, node: Instance) -> None:
        """What its create makes besides the node."""
        if not self.traits.pins:
            return
        for kind in self._pins.sample(list(LeftoverKind), self._pins.randrange(1, 3)):
            leftover = Leftover(kind, f"{kind.value}-{len(self.pinned)}", node.id)
            held = self._pins.random() < 0.05
            self.pinned[leftover.id] = Pinned(leftover, node, held)

    def start_twin(self, of: Instance, user_data: str) -> None:
        """The create was sent twice by something on its way, and there was nothing to tell by."""
        twin = self.start(tags=of.tags, size=of.size, name=of.name, by=of.by)
        twin.twin = True
        for told in self.books.twinned:
            told(twin)
        self._boot(twin, user_data)

    def set_state(
        self, instance: Instance, state: CloudState | Callable[[Instance], CloudState]
    ) -> None:
        if not instance.lives:
            return
        instance.state = state(instance) if callable(state) else state
        instance.view = None

    def start_again(self, instance: Instance) -> None:
        """A stopped node runs again."""
        instance.launches.append(self.engine.now)
        self.set_state(instance, CloudState.RUNNING)

    def end(self, instance: Instance) -> None:
        """The node is terminated, whoever did it."""
        if not instance.lives:
            return
        instance.ended_at = self.engine.now
        instance.state = CloudState.TERMINATED
        instance.view = None
        if instance.machine is not None:
            instance.machine.power_off()
        for one in self.pinned.values():
            if one.node is instance and self._pins.random() < 0.4:
                one.gone_at = self.engine.now
        for told in self.books.ended:
            told(instance)

    def age(self, instance: Instance) -> None:
        """Its time is over, unless the storm is: a calm world stands still."""
        if not self.engine.calm:
            self.end(instance)

    def retag(self, instance: Instance, tags: Tags) -> None:
        if instance.tags.record is not None:
            self.by_record[instance.tags.record].remove(instance)
        instance.tags, instance.view = tags, None
        if tags.record is not None:
            self.by_record.setdefault(tags.record, []).append(instance)

    def living(self) -> list[Instance]:
        return [one for one in self.instances.values() if one.lives]

    # What is shown.

    def shown(self, instance: Instance) -> CloudNode | None:
        """The node as the cloud answers for it; None once forgotten, or not known yet."""
        now = self.engine.now
        if instance.ended_at is not None and now > instance.ended_at + instance.lingers:
            return None
        if now < instance.shown_at:
            return None
        if instance.view is None:
            state = instance.state
            if instance.lives and instance.id in self.unknown:
                state = CloudState.UNKNOWN
            instance.view = CloudNode(
                id=instance.id,
                name=instance.name,
                state=state,
                size=instance.size,
                created_at=EPOCH + instance.launched_at + self.traits.clock_error,
                tags=instance.tags,
                held=instance.held,
                raw_state=state.value,
                places=instance.places,
                image=instance.image,
                why="" if instance.lives else f"{instance.id} was taken back",
            )
        return instance.view

    def listing(self, pool: str, by: str = "both") -> tuple[CloudNode, ...]:
        """What a list call for that pool is answered with: what is so, or was a while ago.

        `by` is what the call asks for: `tag`, `list` for `[Cloud List]`, or `both` at once.
        """
        taken = self._taken.setdefault(f"{pool} {by}", deque(maxlen=60))
        taken.append((self.engine.now, self.picture(pool, by)))
        if not self.late_by:
            return taken[-1][1]
        until = self.engine.now - self.late_by
        return next((nodes for at, nodes in reversed(taken) if at <= until), taken[0][1])

    def picture(self, pool: str, by: str) -> tuple[CloudNode, ...]:
        """What is so now, but for what the cloud's filter hides."""
        nodes = []
        for instance in self.instances.values():
            if instance.id in self.hidden:
                continue
            ours = instance.tags.pool == pool and by != "list"
            listed = (self.traits.broad or instance.tags.pool == pool) and by != "tag"
            if not ours and not (listed and instance.matches):
                continue
            node = self.shown(instance)
            if node is not None:
                nodes.append(node)
        return tuple(nodes)


def running_from(instance: Instance) -> CloudState:
    boots = instance.state is CloudState.PENDING and not instance.create
    return CloudState.RUNNING if boots else instance.state


class SimDriver:
    """The cloud's driver in one manager of `pool`, by the port's contract."""

    provider = "simulated"
    may_authorise = True

    def __init__(self, cloud: SimCloud, line: Line, pool: str, manager: str) -> None:
        self._cloud = cloud
        self._line = line
        self._pool = pool
        self._manager = manager
        self._random = cloud.engine.random(f"driver/{manager}")
        self.visible_after = cloud.traits.visible_after
        self.takes_client_tokens = cloud.traits.client_tokens
        self.sizes_from_file = False
        self.makes_any_size = False
        self.timeout = 60.0
        self.ids_unique = cloud.traits.ids_unique

    def account(self) -> str:
        cloud = self._cloud
        return self._line.call(
            "account", lambda: "sim/other" if cloud.wrong_account else cloud.account
        )

    def list_nodes(self) -> Listed[CloudNode]:
        """In two pages now and then: a listing is not of one moment."""
        cloud, pool = self._cloud, self._pool
        started_at = cloud.engine.now
        if cloud.wrong_account:
            listed = self._line.call("list", lambda: Listed(()))
        elif cloud.traits.two_listings:
            found = {
                node.id: node
                for by in ("tag", "list")
                for node in self._line.call("list", lambda by=by: cloud.listing(pool, by))
            }
            listed = self._altered(Listed(tuple(found.values())))
        else:
            items = self._line.call("list", lambda: cloud.listing(pool))
            if self._random.random() < 0.15:
                half = len(items) // 2
                rest = self._line.call("list", lambda: cloud.listing(pool))
                seen = {node.id for node in items[:half]}
                items = items[:half] + tuple(one for one in rest if one.id not in seen)
            listed = self._altered(Listed(items))
        for told in cloud.books.listed:
            told(self._manager, started_at, cloud.engine.now, listed)
        return listed

    def _altered(self, listed: Listed[CloudNode]) -> Listed[CloudNode]:
        for make in self._cloud.alterations:
            listed = make(self._random)(listed.items) if listed.complete else listed
        return listed

    def list_sizes(self) -> tuple[Size, ...]:
        return ()

    def find_by_record(self, record_uuid: str) -> tuple[CloudNode, ...]:
        def answer() -> tuple[CloudNode, ...]:
            cloud = self._cloud
            if cloud.wrong_account:
                found: tuple[CloudNode, ...] = ()
            else:
                answers = (self._shown(one) for one in cloud.by_record.get(record_uuid, ()))
                found = tuple(node for node in answers if node is not None)
            for told in cloud.books.asked:
                told(self._manager, found, record=record_uuid, node_id=None)
            return found

        return self._line.call("find", answer, record_uuid)

    def ask(self, node_id: str) -> CloudNode | None:
        def answer() -> CloudNode | None:
            cloud = self._cloud
            one = cloud.instances.get(node_id)
            node = None if one is None or cloud.wrong_account else self._shown(one)
            found = () if node is None else (node,)
            for told in cloud.books.asked:
                told(self._manager, found, record=None, node_id=node_id)
            return node

        return self._line.call("ask", answer, node_id)

    def _shown(self, instance: Instance) -> CloudNode | None:
        """The answer to a question about that node alone, with no `[Cloud List]` behind it."""
        if any(denial(instance) for denial in self._cloud.denials):
            return None
        node = self._cloud.shown(instance)
        return None if node is None else with_managed(node, node.tags.pool == self._pool)

    def check_image(self) -> None:
        return

    def image(self) -> str | None:
        cloud = self._cloud
        if not cloud.traits.images:
            return None
        return self._line.call("image", lambda: cloud.image)

    def create(self, order: CreateOrder) -> CloudNode:
        def answer() -> CloudNode:
            cloud = self._cloud
            known = cloud.tokens.get(order.client_token) if cloud.traits.client_tokens else None
            if known is None and cloud.obeys_a2 and cloud.is_too_late(order.tags):
                # "... or never" (A2).
                raise CloudError("the request is too old")
            if known is None and order.place in cloud.full and not cloud.traits.goes_on:
                raise PlaceFull("no room", place=str(order.place))
            if known is None:
                known = cloud.start(
                    tags=order.tags,
                    size=order.size.instance_type,
                    name=order.name,
                    by=self._manager,
                    place=order.place,
                )
                cloud.tokens[order.client_token] = known
                for told in cloud.books.created:
                    told(known, self._manager)
                cloud.pin(known)
                if cloud.traits.goes_on:
                    cloud.go_on(known, order.user_data)
                else:
                    cloud._boot(known, order.user_data)
                if cloud.twins and not cloud.traits.client_tokens:
                    cloud.start_twin(known, order.user_data)
            return CloudNode(
                id=known.id,
                name=known.name,
                state=known.state,
                size=known.size,
                created_at=EPOCH + known.created_at + cloud.traits.clock_error,
                tags=known.tags,
                pending=known.id if known.create else "",
            )

        return self._line.call("create", answer, order.tags.record or "")

    def finish(self, pending: str, place: str | None) -> str | CloudError | None:
        def answer() -> str | CloudError | None:
            cloud, one = self._cloud, self._cloud.instances[pending]
            if cloud.wrong_account:
                raise Unauthorized("these are another account's credentials")
            if one.create == "failed" and one.lives and not one.held:
                cloud.drop(one)
                return pending
            return pending if one.create == "goes on" else one.refused

        return self._line.call("finish", answer, pending)

    def destroy(self, node_id: str) -> Outcome:
        def answer() -> Outcome:
            cloud = self._cloud
            one = cloud.instances.get(node_id)
            if one is None or cloud.shown(one) is None or cloud.wrong_account:
                return Outcome.UNKNOWN
            if not one.lives:
                return Outcome.GONE
            for told in cloud.books.destroyed:
                told(one, self._manager)
            if not cloud.lazy_destroys:
                cloud.set_state(one, CloudState.STOPPING)
                took = self._random.random() * cloud.traits.shutdown_s
                cloud.engine.after(took, lambda: cloud.end(one))
            return Outcome.ACCEPTED

        return self._line.call("destroy", answer, node_id)

    def adopt(self, node_id: str, tags: Tags) -> None:
        def answer() -> None:
            cloud = self._cloud
            one = cloud.instances.get(node_id)
            sealed = one is not None and one.sealed
            if one is None or sealed or not one.lives or one.tags.pool not in (None, tags.pool):
                raise BadRequest("no such node, or it takes no tags")
            cloud.retag(one, tags)
            for told in cloud.books.adopted:
                told(one, self._manager)

        self._line.call("adopt", answer, node_id)

    def pins(self, node_id: str) -> tuple[Leftover, ...]:
        cloud = self._cloud
        if not cloud.traits.pins:
            return ()

        def answer() -> tuple[Leftover, ...]:
            one = cloud.instances.get(node_id)
            if one is None or not one.lives:
                return ()
            return tuple(
                pinned.leftover
                for pinned in cloud.pinned.values()
                if pinned.node is one and not pinned.held and not pinned.is_gone(cloud.engine.now)
            )

        return self._line.call("pins", answer, node_id)

    def find_leftovers(self) -> tuple[Leftover, ...]:
        cloud = self._cloud
        if not cloud.traits.pins:
            return ()

        def answer() -> tuple[Leftover, ...]:
            return tuple(
                one.leftover
                for one in cloud.pinned.values()
                if one.node.tags.pool == self._pool
                and not one.node.lives
                and not one.is_gone(cloud.engine.now)
            )

        return self._line.call("leftovers", answer)

    def release(self, leftover: Leftover) -> Outcome:
        def answer() -> Outcome:
            cloud = self._cloud
            one = cloud.pinned.get(leftover.id)
            if one is None or one.is_gone(cloud.engine.now):
                return Outcome.GONE
            for told in cloud.books.released:
                told(one.node, leftover.id, self._manager)
            if one.held or (one.node.lives and one.node.state is not CloudState.STOPPING):
                raise LeftAlone("it is held, or its node lives")
            if one.node.lives or one.gone_at is not None:
                return Outcome.ACCEPTED
            one.gone_at = cloud.engine.now + self._random.choice((0.0, 0.0, 20.0, 90.0))
            return Outcome.GONE if one.is_gone(cloud.engine.now) else Outcome.ACCEPTED

        return self._line.call("release", answer, leftover.id)

    def close(self) -> None:
        return
