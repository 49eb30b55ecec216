"""A monitor for set-ups: who may send a create, how often, and what comes of it (U9, U10).

And until when the cloud's own refusals keep a pool from booting (D6). A create is one too many
where the newest listing, as its manager had it when it decided last, leaves no room for it (U10).

Who holds a pool's lock is the world's to know (`Pool.holder`), not what a manager looked at. A
create that was handed to its worker under the lock may leave after it is lost: the way from one to
the other is the process's own, and may be long where that stands still (see the fault model).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from nodemanager.actors.messages import CarryOut
from nodemanager.core.execute.effects import ClaimRecord, CreateNode, RenewClaim
from nodemanager.core.model.reasons import Event
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import CloudState
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.plan.plan import Plan
from nodemanager.errors import BadRequest, PlaceFull, QuotaExceeded, RemoteError, Throttled
from tests.simulation.cleans import EXACT_S
from tests.simulation.cloud import Instance
from tests.simulation.manager import Manager
from tests.simulation.told import Told
from tests.simulation.world import Pool, World

FIRST_REPEAT_S = 2.0
LONGEST_REPEAT_S = 30.0
CLAIMS = ("store.claim", "store.create")
LONGEST_REFUSAL_S = 3600.0
Call = tuple[str, str]
"""A manager, and the record that a create or a claim is about; no record for a new one's claim."""
Token = tuple[str, str | None]
Sort = tuple[str, str]
"""A pool, and the name of a size."""


@dataclass(frozen=True)
class Create:
    """The create that a worker was handed last, and whether its manager held the lock then."""

    incarnation: str
    size: str
    was_held: bool
    place: str | None = None

    @property
    def token(self) -> tuple[str, str | None]:
        """What the cloud tells its repeats by: each place has another token."""
        return self.incarnation, self.place


@dataclass(frozen=True)
class Room:
    """What the newest listing leaves of max_nodes and the price, as of a manager's newest decision.

    Of the `listed`, one that has ended since takes no room: a create that went on may be refused,
    and is sent to another place then.
    """

    listed: tuple[Instance, ...]
    settings: Settings

    def is_for(self, size: str) -> bool:
        settings, living = self.settings, [one for one in self.listed if one.lives]
        prices = {one.name: one.price or 0.0 for one in settings.sizes}
        price = sum(prices.get(one.tags.size or one.size, 0.0) for one in living)
        left = settings.max_total_price - price if settings.max_total_price > 0 else float("inf")
        return len(living) < settings.max_nodes and prices.get(size, 0.0) <= left + 1e-9


class SetUpRules:
    """Watches what set-up workers are handed, what they send, and what the cloud makes of it."""

    def __init__(self, world: World, told: Told) -> None:
        self.world, self.told = world, told
        self._room: dict[str, Room] = {}
        self._creates: dict[Call, Create] = {}
        self._claims: dict[Call, bool] = {}
        self._sent_of: Counter[tuple[str, Token]] = Counter()
        """By manager and token, the creates that left."""
        self._failed_at: dict[tuple[str, Token], float] = {}
        self._in_doubt: dict[str, set[str | None]] = {}
        """By incarnation, the places in which a create has made a node, or may have."""
        self._made: dict[str | None, Instance] = {}
        self.refused_until: dict[str, float] = {}
        """By pool, when what the cloud refused may be asked for again (D6)."""
        self._resting: dict[Sort, float] = {}
        self._bad: Counter[Sort] = Counter()
        """Requests in a row that the cloud called bad."""
        world.plans.append(self._planned)
        world.handed.append(self._handed)
        world.weather.sent.append(self._sent)
        world.weather.failed.append(self._failed)
        world.weather.answered.append(self._ended)
        self._given_up: set[object] = set()
        """The records of set-ups that took too long."""
        world.events.append(self._logged)
        world.cloud.books.created.append(self._created)

    def _planned(
        self, manager: Manager, plan: Plan, snapshot: Snapshot, settings: Settings
    ) -> None:
        ears, living = self.told.ears[manager.name], self.world.cloud.instances
        newest = ears.newest("cloud")
        if plan.aborted is not None or newest is None:
            return
        self._told_of_end(manager, plan, snapshot)
        # A former run's journal tells the next one whom it destroyed.
        family = self.told.family(manager.pool.name)
        destroyed = {node_id for one in family for node_id in one.destroys}
        listed = tuple(
            living[node.id]
            for node in newest.items.values()
            if node.tags.pool == settings.pool and node.state is not CloudState.TERMINATED
            if node.id in living and node.id not in destroyed
        )
        self._room[manager.name] = Room(listed, settings)

    def _told_of_end(self, manager: Manager, plan: Plan, snapshot: Snapshot) -> None:
        """A claim whose only node the newest listing shows as terminated stands for none to come.

        Nothing is in flight for it, and the newest record listing shows it unpinged.
        """
        ears, world = self.told.ears[manager.name], self.world
        cloud, records = ears.newest("cloud"), ears.newest("records")
        if cloud is None or records is None or world.broken:
            return
        for node in cloud.items.values():
            uuid, life = node.tags.record, node.tags.incarnation
            record = records.items.get(uuid or "")
            if node.state is not CloudState.TERMINATED or uuid not in plan.pending:
                continue
            if record is None or record.incarnation != life or record.last_ping_at is not None:
                continue
            own = [one for one in world.cloud.by_record.get(uuid, ()) if one.tags == node.tags]
            if len(own) == 1 and uuid not in snapshot.record_flights:
                self._wrong("U9", manager, f"counts {uuid} as booting: {node.id} has ended")

    def _handed(self, manager: Manager, message: object) -> None:
        if not isinstance(message, CarryOut):
            return
        match message.effect:
            case CreateNode(record=record, claim=claim, size=size, place=place):
                create = Create(claim.incarnation, size.name, manager.lease, place)
                self._creates[manager.name, record.uuid] = create
                room = self._room.get(manager.name)
                repeats = self._sent_of[manager.name, create.token] > 0
                if room is not None and not (room.is_for(size.name) or repeats):
                    self._wrong("U10", manager, f"creates for {record.uuid}, one too many")
            case ClaimRecord(record=None):
                self._claims[manager.name, ""] = manager.lease
            case ClaimRecord(record=record) | RenewClaim(record=record) if record is not None:
                self._claims[manager.name, record.uuid] = manager.lease

    def _sent(self, name: str, method: str, about: str) -> None:
        manager = self.world.managers[name]
        if method == "cloud.create":
            create = self._creates[name, about]
            self._created_by(manager, create)
            if not (create.was_held or manager.lease):
                self._wrong("U10", manager, f"sends the create of {about} without the lease")
        elif method in CLAIMS:
            was_held = self._claims.pop((name, about), True)
            if not (was_held or manager.lease):
                self._wrong("U10", manager, f"claims {about or 'a record'} without the lease")

    def _created_by(self, manager: Manager, create: Create) -> None:
        """How often it was sent, how soon after the last one failed, and where others may be."""
        incarnation, key = create.incarnation, (manager.name, create.token)
        doubted = self._in_doubt.setdefault(incarnation, set())
        if doubted - {create.place}:
            others = ", ".join(sorted(map(str, doubted)))
            self._wrong("U6", manager, f"creates {incarnation} in {create.place}, too: {others}")
        doubted.add(create.place)
        failed = self._sent_of[key]
        self._sent_of[key] += 1
        if failed and not self.world.shape.traits.client_tokens:
            self._wrong("U9", manager, f"repeats the create of {incarnation}, which has no token")
        if key in self._failed_at:
            after = self.world.engine.now - self._failed_at[key]
            least = min(LONGEST_REPEAT_S, FIRST_REPEAT_S * 2.0 ** min(failed - 1, 16))
            if after < least - EXACT_S:
                self._wrong(
                    "U9", manager, f"repeats {incarnation} {after:.1f} s after failure {failed}"
                )

    def _failed(self, name: str, method: str, about: str, error: RemoteError) -> None:
        if method == "cloud.create":
            create = self._creates[name, about]
            key = name, create.token
            self._failed_at[key] = self.world.engine.now
            if error.definite and self._sent_of[key] == 1:
                self._in_doubt[create.incarnation].discard(create.place)
            if isinstance(error, Throttled) and self._sent_of[key] == 1:
                # It never was: the next one is the first (U13).
                del self._failed_at[key], self._sent_of[key]
            self._refused(self.world.managers[name].pool, create.size, error)

    def _logged(self, manager: Manager, event: Event, fields: dict[str, object]) -> None:
        """A create that goes on, or was refused in the end, is not told as created (D6)."""
        if event is Event.FLIGHT_EXPIRED and fields["action"] == "setup":
            self._given_up.add(fields["record"])
        if event is not Event.NODE_CREATED or fields["record"] in self._given_up:
            return
        node = self.world.cloud.instances[str(fields["node"])]
        if node.create:
            self._wrong("D6", manager, f"calls {node.id} created: its create {node.create}")

    def _ended(self, name: str, method: str, about: str, answer: object) -> None:
        """A create that was answered, and went on, is refused in the end: nothing comes of it."""
        if method != "cloud.finish" or not isinstance(answer, RemoteError):
            return
        node = self.world.cloud.instances[about]
        life, place = node.tags.incarnation or "", next(iter(node.places), None)
        if answer.definite:
            self._in_doubt[life].discard(place)
            self._made.pop(life, None)
        self._refused(self.world.managers[name].pool, node.tags.size or "", answer)

    def _refused(self, pool: Pool, size: str, error: RemoteError) -> None:
        """D6: a quota is probed again, and a size that is refused rests."""
        now, settings, sort = self.world.engine.now, pool.settings, (pool.name, size)
        if isinstance(error, Throttled) or not error.definite:
            return
        rest_s = settings.max_poll_time
        if isinstance(error, QuotaExceeded):
            rest_s = settings.boot_fail_after
        elif isinstance(error, BadRequest):
            self._bad[sort] += self._resting.get(sort, 0.0) <= now
            rest_s = max(rest_s, min(LONGEST_REFUSAL_S, rest_s * 2.0 ** (self._bad[sort] - 1)))
        if not isinstance(error, QuotaExceeded | PlaceFull):
            self._resting[sort] = now + rest_s
        self.refused_until[pool.name] = max(self.refused_until.get(pool.name, 0.0), now + rest_s)

    def _created(self, made: Instance, by: str) -> None:
        """One node for each set-up, which gives the same token each time."""
        self._bad.pop((made.tags.pool or "", made.tags.size or ""), None)
        before = self._made.setdefault(made.tags.incarnation, made)
        if before is not made and self.world.shape.traits.client_tokens:
            manager = self.world.managers[by]
            self._wrong("U9", manager, f"made {made.id} for the set-up that made {before.id}")

    def _wrong(self, rule: str, manager: Manager, why: str) -> None:
        self.world.violate(rule, f"{manager.name}: {why}")
