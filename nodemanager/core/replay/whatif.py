"""The recorded world as it would have been under other settings.

A recording shows the world under its own settings. Under others a record is freed sooner or later,
and from then on the recorded listings are wrong. They are put right here: a life freed sooner is
listed as clean, and a life freed later stays listed. The same is done for nodes destroyed sooner or
later. What else would have changed (a boot on the slot, the jobs of the node) was not recorded, and
is not made up.

Nothing here decides: `plan` judges these listings, and says what is freed and when.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.world import CloudNode, CloudState, Record, life_key
from nodemanager.core.observe.history import History, Nodes, Records

GOING = frozenset({CloudState.STOPPING, CloudState.STOPPED, CloudState.TERMINATED})


class By(StrEnum):
    """How a life of a record ended."""

    CLEAN = "clean"
    SHUTDOWN = "shutdown"
    OTHER = "other"


class Sign(StrEnum):
    """What first showed that a freed life's node lived."""

    PINGED = "pinged"
    LISTED = "listed"


@dataclass(frozen=True, slots=True)
class Life:
    """One life of a record, as listed. Stamps are epoch seconds of the store's clock."""

    record: str
    incarnation: str | None
    slot: int | None
    hostname: str | None
    node_id: str | None
    first_ping_at: float | None
    last_ping_at: float | None

    @property
    def key(self) -> str:
        """The name of the life; without a claim it is made of the slot and the first ping."""
        key = life_key(self.record, self.incarnation)
        return key if self.incarnation else f"{key}{self.slot}@{self.first_ping_at or ''}"


def life_of(record: Record) -> Life:
    return Life(
        record.uuid,
        record.incarnation,
        record.slot_number,
        record.hostname,
        record.instance_id,
        record.first_ping_at,
        record.last_ping_at,
    )


def is_life(record: Record, life: Life) -> bool:
    if record.incarnation != life.incarnation or not record.holds_anything:
        return False
    if life.incarnation is not None:
        return True
    return record.slot_number == life.slot and life.first_ping_at in (None, record.first_ping_at)


def as_cleaned(record: Record, at: float) -> Record:
    """The record as a clean would have left it, `at` epoch seconds of the store's clock."""
    return Record(
        record.uuid,
        f"{record.version}-cleaned",
        modified_at=at,
        pool=record.pool if record.claim is None else record.claim.pool,
    )


@dataclass(frozen=True, slots=True)
class LifeEnd:
    """How and when a life's slot became free; `at` is epoch seconds, of our order where known."""

    life: Life
    at: float
    by: By
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """A life that we freed, or whose node we destroyed, and that gave a sign of life afterwards.

    `alive_at` is the time of the first sign, `pinged_at` of the first ping seen, None without one.
    Times are epoch seconds; `by` is CLEAN or SHUTDOWN.
    """

    life: Life
    freed_at: float
    alive_at: float
    by: By
    reason: Reason | None
    sign: Sign
    pinged_at: float | None = None


@dataclass(frozen=True, slots=True)
class Freed:
    """A life freed here that the recording still shows; `clean` is its record here since then.

    It was freed `at` CLOCK_BOOTTIME, `store_at` by the store's clock.
    """

    life: Life
    end: LifeEnd
    at: float
    store_at: float
    clean: Record


@dataclass(frozen=True, slots=True)
class Held:
    """A life that goes on here though the recording shows it freed, until it `is_clean` here, too.

    The recorded record may have a new life by then, so this one is listed under another uuid.
    """

    life: Life
    record: Record
    is_clean: bool = False


@dataclass(frozen=True, slots=True)
class KeptNode:
    """A node that goes on here though the recording destroys it, as it was listed then.

    `last_ping_at` is its record's newest ping then: another one shows that it was not destroyed.
    """

    node: CloudNode
    last_ping_at: float | None


@dataclass
class World:
    """What differs from the recording, and the listings with that put right.

    `freed` is by record uuid, `held` by the uuid that each has here, `kept` by node id, `ends` by
    the life's key; `destroyed` has the ids of nodes gone here.
    """

    freed: dict[str, Freed] = field(default_factory=dict)
    held: dict[str, Held] = field(default_factory=dict)
    destroyed: set[str] = field(default_factory=set)
    kept: dict[str, KeptNode] = field(default_factory=dict)
    ends: dict[str, LifeEnd] = field(default_factory=dict)
    hits: list[Hit] = field(default_factory=list)
    spared: int = 0
    has_diverged: bool = False
    _named: int = 0
    _listed: dict[str, int] = field(default_factory=dict)
    """By record uuid, the index in `hits` of a life whose node was listed, and not heard yet."""

    # What is done here.

    def free(self, record: Record, end: LifeEnd, *, at: float, store_at: float) -> None:
        """Free the life of a record as listed here; times as in Freed."""
        self.has_diverged = True
        self.ends[end.life.key] = end
        if record.uuid in self.held:
            clean = as_cleaned(record, store_at)
            self.held[record.uuid] = replace(self.held[record.uuid], record=clean, is_clean=True)
            return
        self.freed[record.uuid] = Freed(end.life, end, at, store_at, as_cleaned(record, store_at))

    def hold(self, record: Record) -> Record:
        """Keep a life that the recording is about to show freed; returns its record as listed here.

        Its slot gets another number, too: in the recording another record may get the old one.
        """
        self.has_diverged = True
        self._named += 1
        alias = f"{record.uuid}+{self._named}"
        slot = None if record.slot_number is None else -self._named
        shown = replace(record, uuid=alias, slot_number=slot)
        self.held[alias] = Held(life_of(record), shown)
        for node_id, kept in self.kept.items():
            if kept.node.tags.record == record.uuid:
                tags = replace(kept.node.tags, record=alias)
                self.kept[node_id] = replace(kept, node=replace(kept.node, tags=tags))
        return shown

    def keep(self, node: CloudNode, record: Record | None) -> None:
        """Keep a node that the recording destroys now."""
        self.has_diverged = True
        self.kept[node.id] = KeptNode(node, None if record is None else record.last_ping_at)

    def destroy(self, node_id: str) -> None:
        self.has_diverged = True
        self.kept.pop(node_id, None)
        self.destroyed.add(node_id)

    def heard(self, life: Life, at: float) -> bool:
        """Enter a ping of a held life, `at` the store's clock; False where the life is not held."""
        for alias, held in self.held.items():
            if held.life.key == life.key and not held.is_clean:
                record = held.record
                version = f"{record.version}-pinged"
                pinged = replace(record, last_ping_at=at, modified_at=at, version=version)
                self.held[alias] = replace(held, record=pinged)
                return True
        return False

    def hit(self, end: LifeEnd, alive_at: float, sign: Sign) -> None:
        """Count a hit, and take its slot as never freed: the daemon gives such a life back (U8)."""
        pinged_at = alive_at if sign is Sign.PINGED else None
        if pinged_at is None:
            self._listed[end.life.record] = len(self.hits)
        self.hits.append(Hit(end.life, end.at, alive_at, end.by, end.reason, sign, pinged_at))
        self.ends.pop(end.life.key, None)

    # The listings.

    def records(self, listing: Records) -> Records:
        """The record listing as it would have been; enters the signs of life that it shows."""
        if self.kept:
            self._forget_kept(listing)
        if self._listed:
            self._hear(listing)
        if not self.freed and not self.held:
            return listing
        items: list[Record] = []
        for record in listing.items:
            freed = self.freed.get(record.uuid)
            items.append(record if freed is None else self._shown(freed, record))
        if listing.complete and self.freed:
            # A record that was deleted is not there in either world.
            for uuid in self.freed.keys() - {record.uuid for record in items}:
                del self.freed[uuid]
        items += [one.record for one in self.held.values()]
        return replace(listing, items=tuple(items))

    def _shown(self, freed: Freed, record: Record) -> Record:
        """The recorded record as it would have been: clean, unless its life ended or pinged."""
        life = freed.life
        if not is_life(record, life):
            # By now the recording has freed it, too.
            del self.freed[record.uuid]
            return record
        pinged = record.last_ping_at
        if pinged is None or pinged == life.last_ping_at:
            return freed.clean
        del self.freed[record.uuid]
        self.destroyed.discard(life.node_id or "")
        if pinged <= freed.store_at:
            # The pre-write check reads the record again: it would have seen this ping (C11).
            self.spared += 1
            self.ends.pop(life.key, None)
        else:
            self.hit(freed.end, pinged, Sign.PINGED)
        return record

    def _hear(self, listing: Records) -> None:
        """Note the first pings of the hits whose node was listed."""
        for record in listing.items:
            at = self._listed.get(record.uuid)
            if at is None:
                continue
            hit = self.hits[at]
            if not is_life(record, hit.life):
                del self._listed[record.uuid]
            elif record.last_ping_at not in (None, hit.life.last_ping_at):
                self.hits[at] = replace(hit, pinged_at=record.last_ping_at)
                del self._listed[record.uuid]

    def _forget_kept(self, listing: Records) -> None:
        """Keep no nodes that pinged since: the recording did not destroy them after all."""
        pings = {one.instance_id: one.last_ping_at for one in listing.items if one.instance_id}
        for node_id, kept in list(self.kept.items()):
            if pings.get(node_id, kept.last_ping_at) != kept.last_ping_at:
                del self.kept[node_id]

    def nodes(self, listing: Nodes, wall: float) -> Nodes:
        """The node listing as it would have been; `wall` is the time of the hits that it shows."""
        if self.freed:
            self._look_for_freed(listing, wall)
        if not self.destroyed and not self.kept and not self.held:
            return listing
        names = {
            (one.life.record, one.life.incarnation): alias
            for alias, one in self.held.items()
            if not one.is_clean and one.life.incarnation is not None
        }
        items: list[CloudNode] = []
        listed = set()
        for node in listing.items:
            listed.add(node.id)
            if node.id in self.destroyed:
                continue
            if node.id in self.kept and node.state in GOING:
                node = self.kept[node.id].node
            alias = names.get((node.tags.record or "", node.tags.incarnation or ""))
            if alias is not None:
                node = replace(node, tags=replace(node.tags, record=alias))
            items.append(node)
        if listing.complete:
            self.destroyed &= listed
            items += [kept.node for one, kept in self.kept.items() if one not in listed]
        return replace(listing, items=tuple(items))

    def _look_for_freed(self, listing: Nodes, wall: float) -> None:
        """Note hits: a node that is listed after its record was freed here lives (U8)."""
        by_id = {
            one.life.node_id: uuid
            for uuid, one in self.freed.items()
            if one.end.by is By.CLEAN and one.life.node_id is not None
        }
        for node in listing.items:
            if node.is_absent:
                continue
            uuid = by_id.get(node.id)
            freed = self.freed.get(uuid or node.tags.record or "")
            if freed is None or freed.end.by is not By.CLEAN or listing.started_at <= freed.at:
                continue
            tags = node.tags
            its_own = tags.record == freed.life.record and (
                freed.life.incarnation is not None and tags.incarnation == freed.life.incarnation
            )
            if uuid is None and not its_own:
                continue
            self.hit(freed.end, wall, Sign.LISTED)
            del self.freed[freed.life.record]


def renamed(history: History, uuid: str, shown: Record) -> History:
    """The history with the record also as `shown`, and all counts of it under both uuids."""
    alias = shown.uuid
    changes: dict[str, object] = {}
    for name in ("records", "base", "pinned"):
        listing: Records | None = getattr(history, name)
        if listing is None:
            continue
        same = [
            replace(one, uuid=alias, slot_number=shown.slot_number)
            for one in listing.items
            if one.uuid == uuid
        ]
        changes[name] = replace(listing, items=(*listing.items, *same))
    for name in ("base_index", "absence", "heard", "future", "partially_listed"):
        known: Mapping[str, object] = getattr(history, name)
        if uuid in known:
            changes[name] = {**known, alias: known[uuid]}
    # The names in `eligible` end in the version (B1).
    own = {key: at for key, at in history.eligible.items() if key.startswith(f"{uuid}@")}
    if own:
        more = {f"{alias}{key.removeprefix(uuid)}": at for key, at in own.items()}
        changes["eligible"] = {**history.eligible, **more}
    return replace(history, **changes)  # type: ignore[arg-type]  # each is of its field's type
