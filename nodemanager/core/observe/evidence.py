"""The evidence of a clean: raw facts that its plan and its pre-write check saw.

They go into the journal with the intent, before the write (SAFETY.md C0-C12). They contain no
verdict: core.safety.proof judges them again on its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from nodemanager.core.model.settings import IMPOSSIBLE_FRACTION, Settings
from nodemanager.core.model.world import CloudNode, Guarantee, Record, WorkerState
from nodemanager.core.observe.clocks import MeasuredClock
from nodemanager.core.observe.history import Asked, History, partially_listed_as
from nodemanager.core.observe.listing_history import Absence
from nodemanager.core.observe.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Signs:
    """A record's version, incarnation and signs of life when it was read (C2, C3)."""

    version: str
    incarnation: str | None = None
    instance_id: str | None = None
    worker_state: WorkerState | None = None
    modified_at: float | None = None
    first_ping_at: float | None = None
    last_ping_at: float | None = None
    claimed_at: float | None = None


@dataclass(frozen=True, slots=True)
class AgeBasis:
    """What the age of a record's signs is computed from; times are CLOCK_BOOTTIME seconds (T1).

    `future_at` is when we first saw the record's version, if its stamp was ahead of the store's
    clock. `silent_s` is the time without a newer ping while the store answered pings (D8).
    """

    at: float
    clock: MeasuredClock | None = None
    future_at: float | None = None
    silent_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows and limits, in seconds or counts, that a plan was made with (S6)."""

    node_stale_after: float
    poll_stale_after: float
    boot_fail_after: float
    visible_after: float
    claim_expiry: bool
    settle: float
    absent_listings: int
    cap: int


@dataclass(frozen=True, slots=True)
class Grounds:
    """What the plan judged the record by (C0, C4-C6, C8-C10). Times are CLOCK_BOOTTIME seconds.

    `listed` and `partially_listed_nodes` are the nodes, not terminated, with the record's uuid as a
    tag or its instance id: in the newest complete listing, and in incomplete ones since. `place` is
    how many cleans of the cycle come before this one. `asked_by_tag` and `asked_by_id` are the
    cloud's last answers about the record's node (P6). `windows` are those of the plan.
    """

    signs: Signs
    reading: AgeBasis
    windows: Windows
    adopt: bool | None = None
    base_started_at: float | None = None
    base_ended_at: float | None = None
    base_version: str | None = None
    cloud_started_at: float | None = None
    partially_listed: str | None = None
    vetoed: bool = False
    listed: tuple[CloudNode, ...] = ()
    partially_listed_nodes: tuple[CloudNode, ...] = ()
    absence: Absence | None = None
    flights: tuple[str, ...] = ()
    holds: tuple[str, ...] = ()
    place: int = 0
    asked_by_tag: Asked | None = None
    asked_by_id: Asked | None = None


@dataclass(frozen=True, slots=True)
class Terms(Windows):
    """The windows and limits in force at the pre-write check, and how the store writes."""

    pool: str
    adopt: bool | None
    guarantee: Guarantee
    fence_wait: float


@dataclass(frozen=True, slots=True)
class Look:
    """What the pre-write check saw right before the write (C2, C7-C11).

    `tagged` and `by_id` are the cloud's answers by tag and by instance id; the first question was
    sent at `asked_at`, None where that is not known. `listed` are the nodes with the record's
    uuid as a tag, or its instance id, in the newest complete cloud listing or in incomplete ones
    since. `polls` are the start times of the newest polls. Times are CLOCK_BOOTTIME seconds.
    """

    reading: AgeBasis
    terms: Terms
    signs: Signs
    tagged: tuple[CloudNode, ...] | None
    by_id: CloudNode | None = None
    asked_id: bool = False
    malformed: bool = False
    listed: tuple[CloudNode, ...] = ()
    polls: Mapping[str, float | None] = field(default_factory=dict)
    breaker: str | None = None
    generation: int = 0
    lease: bool = True
    read_only: str | None = None
    flights: tuple[str, ...] = ()
    holds: tuple[str, ...] = ()
    asked_at: float | None = None


def signs_of(record: Record) -> Signs:
    """The signs on `record` as read."""
    return Signs(
        version=record.version,
        incarnation=record.incarnation,
        instance_id=record.instance_id,
        worker_state=record.worker_state,
        modified_at=record.modified_at,
        first_ping_at=record.first_ping_at,
        last_ping_at=record.last_ping_at,
        claimed_at=record.claim.at if record.claim is not None else None,
    )


def reading_of(record: Record, snapshot: Snapshot) -> AgeBasis:
    """What the age of the signs on `record` is computed from in `snapshot`."""
    history = snapshot.history
    future, heard = history.future.get(record.uuid), history.heard.get(record.uuid)
    seen = future is not None and future.version == record.version
    watched = heard is not None and heard.last_ping_at == record.last_ping_at
    return AgeBasis(
        at=snapshot.now,
        clock=history.clock,
        future_at=future.seen_at if future is not None and seen else None,
        silent_s=history.answered_s - heard.answered_s if heard is not None and watched else 0.0,
    )


def grounds_of(record: Record, snapshot: Snapshot, settings: Settings, place: int) -> Grounds:
    """The evidence in `snapshot` for the plan's clean of `record`, the cycle's `place`th from 0."""
    history, uuid, node_id = snapshot.history, record.uuid, record.instance_id
    base, cloud = history.base, history.cloud
    flights = (snapshot.record_flights.get(uuid), snapshot.node_flights.get(node_id or ""))
    return Grounds(
        signs=signs_of(record),
        reading=reading_of(record, snapshot),
        adopt=settings.adopt_unclaimed,
        base_started_at=None if base is None else base.started_at,
        base_ended_at=None if base is None else base.ended_at,
        base_version=history.base_index.get(uuid),
        cloud_started_at=None if cloud is None else cloud.started_at,
        partially_listed=history.partially_listed.get(uuid),
        vetoed=uuid in history.vetoed,
        listed=_listed(history, uuid, node_id),
        partially_listed_nodes=partially_listed_as(history, uuid, node_id),
        absence=history.absence.get(uuid),
        flights=tuple(flight.kind for flight in flights if flight is not None),
        holds=_held(snapshot, uuid, node_id),
        place=place,
        asked_by_tag=history.asked.get(uuid),
        asked_by_id=history.asked.get(node_id or ""),
        windows=_windows(settings),
    )


def _windows(settings: Settings) -> Windows:
    return Windows(
        node_stale_after=settings.node_stale_after,
        poll_stale_after=settings.poll_stale_after,
        boot_fail_after=settings.boot_fail_after,
        visible_after=settings.visible_after,
        claim_expiry=settings.claim_expiry,
        settle=settings.settle,
        absent_listings=settings.absent_listings,
        cap=settings.max_cleans_per_cycle,
    )


@dataclass(frozen=True, slots=True)
class CleanEvidence:
    """What the cleaner found just before the write: the record and the cloud's answers (C11).

    `record` is None where there is none. `tagged` are the nodes that have its tag, None where the
    cloud did not answer. `by_id` is the node with the instance id; `asked_id` says whether the
    cloud was asked for it, `malformed` that the cloud calls it no node's id: it then counts as no
    id (P1a). The cloud may have answered as early as `asked_at`, CLOCK_BOOTTIME; None stands for
    the time of the check.
    """

    record: Record | None
    tagged: tuple[CloudNode, ...] | None
    by_id: CloudNode | None = None
    asked_id: bool = False
    error: str | None = None
    malformed: bool = False
    asked_at: float | None = None


def look_at(
    record: Record,
    found: CleanEvidence,
    snapshot: Snapshot,
    settings: Settings,
    *,
    node_id: str | None,
    guarantee: Guarantee,
    fence_wait: float,
) -> Look:
    """The pre-write check's evidence; `snapshot` excludes this clean, `node_id` is the order's."""
    history = snapshot.history
    polls = {
        "cloud": history.cloud.started_at if history.cloud is not None else None,
        "records": history.records.started_at if history.records is not None else None,
    }
    if settings.demand_polled:
        polls["demand"] = snapshot.demand_at
    if settings.scheduled:
        polls["scheduler"] = None if history.scheduler is None else history.scheduler.started_at
    flight = snapshot.record_flights.get(record.uuid)
    return Look(
        reading=reading_of(record, snapshot),
        terms=Terms(
            pool=settings.pool,
            adopt=settings.adopt_unclaimed,
            guarantee=guarantee,
            fence_wait=fence_wait,
            **asdict(_windows(settings)),
        ),
        signs=signs_of(record),
        tagged=found.tagged,
        by_id=found.by_id,
        asked_id=found.asked_id,
        malformed=found.malformed,
        listed=(
            *_listed(history, record.uuid, node_id),
            *partially_listed_as(history, record.uuid, node_id),
        ),
        polls=polls,
        breaker=snapshot.breaker.cause.value if snapshot.breaker.cause is not None else None,
        generation=snapshot.breaker.generation,
        lease=snapshot.lease,
        read_only=snapshot.read_only,
        flights=() if flight is None else (flight.kind,),
        holds=_held(snapshot, record.uuid, node_id),
        asked_at=found.asked_at,
    )


def _listed(history: History, uuid: str, node_id: str | None) -> tuple[CloudNode, ...]:
    found = {node.id: node for node in history.nodes_by_record.get(uuid, ())}
    if node_id is not None and node_id in history.present:
        found[node_id] = history.present[node_id]
    return tuple(found.values())


def _held(snapshot: Snapshot, uuid: str, node_id: str | None) -> tuple[str, ...]:
    return tuple(one for one in (uuid, node_id) if one is not None and one in snapshot.holds)


# Items that contradict themselves: each is kept, too many abort the cycle (SAFETY.md L4).

TO_CLEAR = (
    "take the slot off the record whose node is gone, in the record store: "
    """`arv node update --uuid UUID --node '{"slot_number": null, "hostname": null}'`"""
)
"""What ends it that two records hold one slot; the registry lets no two."""


@dataclass(frozen=True, slots=True)
class Impossible:
    """The `ids` of impossible items, out of `listed` items in both listings.

    `sharing` are the records that hold a slot together, by the uuid of each of them.
    """

    ids: frozenset[str]
    listed: int
    sharing: Mapping[str, tuple[str, ...]]

    @property
    def too_many(self) -> bool:
        return len(self.ids) > IMPOSSIBLE_FRACTION * self.listed


def find_impossible(history: History) -> Impossible:
    """The ids listed twice in one listing, and the records that share a slot."""
    assert history.cloud is not None
    assert history.records is not None
    nodes, records = history.cloud.items, history.records.items
    sharing: dict[str, tuple[str, ...]] = {}
    slots = [record.slot_number for record in records if record.slot_number is not None]
    if len(set(slots)) != len(slots):
        holders: dict[int, set[str]] = {}
        for record in records:
            if record.slot_number is not None:
                holders.setdefault(record.slot_number, set()).add(record.uuid)
        together = [tuple(sorted(uuids)) for uuids in holders.values() if len(uuids) > 1]
        sharing = {uuid: uuids for uuids in together for uuid in uuids}
    return Impossible(history.twice | sharing.keys(), len(nodes) + len(records), sharing)


def of_one_slot(rivals: Collection[str]) -> dict[str, Any]:
    """What a verdict shows of records that hold one slot together; nothing where there are none."""
    return {"rivals": tuple(sorted(rivals)), "clear": TO_CLEAR} if rivals else {}
