"""Hypothesis strategies for whole small worlds, and how such a world is run to its plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from hypothesis import strategies as st

from nodemanager.core.model.breaker import Cause
from nodemanager.core.model.world import Claim, CloudNode, CloudState, Record, Tags, WorkerState
from nodemanager.core.safety import breaker as breakers
from tests.core.build import EPOCH, POOL, START, Expected, Flight, Job, World, incarnation_of, world

UUIDS = ["r0", "r1", "r2", "r3", "r4"]
IDS = [*(f"i-{uuid}" for uuid in UUIDS), "x0", "x1"]
POOLS = [POOL, POOL, POOL, POOL, "other", None]
QUIET = [-100.0, 0.0, 100.0, 2000.0, 2300.0, 7100.0, 7500.0, 20_000.0, 1e6]
BEGAN = EPOCH + START


@dataclass(frozen=True)
class Spec:
    """All that makes up one world: what is listed at which poll, and what stands besides.

    `rounds` complete polls of everything, then `glimpse` of an incomplete cloud listing, then
    `later` as one more record listing, complete or not.
    """

    records: tuple[Record, ...] = ()
    nodes: tuple[CloudNode, ...] = ()
    rounds: int = 3
    apart: float = 70.0
    glimpse: tuple[CloudNode, ...] | None = None
    later: tuple[Record, ...] | None = None
    later_complete: bool = True
    wait: float = 0.0
    settings: tuple[tuple[str, Any], ...] = ()
    flags: tuple[tuple[str, Any], ...] = ()
    open_breaker: bool = False
    order: Callable[[list[Any]], list[Any]] = field(default=list, compare=False)


def run(spec: Spec) -> World:
    """The world after the spec's polls, with a plan."""
    made = world(**dict(spec.settings))
    made.records = spec.order(list(spec.records))
    made.nodes = spec.order(list(spec.nodes))
    made.round(spec.rounds, every=spec.apart)
    if spec.glimpse is not None:
        made.poll_cloud(spec.order(list(spec.glimpse)), complete=False)
    if spec.later is not None:
        made.poll_records(spec.order(list(spec.later)), complete=spec.later_complete)
    made.advance(spec.wait)
    if spec.open_breaker:
        made.breaker = breakers.opened(
            made.breaker, Cause.MASS_SILENCE, frozenset({"i-r0", "i-r1"}), made.now, {}
        )
    flags = dict(spec.flags)
    flights = {uuid: Flight(kind, made.now) for uuid, kind in flags.pop("record_flights", ())}
    node_flights = {one: Flight("shutdown:bad", made.now) for one in flags.pop("node_flights", ())}
    expected = {
        uuid: Expected("i-new", "small", made.now - age) for uuid, age in flags.pop("expected", ())
    }
    made.plan(record_flights=flights, node_flights=node_flights, expected=expected, **flags)
    return made


@lru_cache(maxsize=None, typed=True)
def among(*values: Any) -> st.SearchStrategy[Any]:
    """One of them; made only once, for Hypothesis checks each strategy that it has not seen yet."""
    return st.sampled_from(values)


YES_OR_NO = st.booleans()


@st.composite
def records(draw: st.DrawFn, uuid: str) -> Record:
    quiet = draw(among(*QUIET))
    at = BEGAN - quiet
    pinged = draw(YES_OR_NO)
    claimed = draw(among(0, 1, 1, 1, 2))
    holds = draw(among(True, True, True, False))
    claim = (
        Claim(
            draw(among(POOL, POOL, POOL, "other")),
            "manager-1",
            1,
            at - draw(among(0.0, 500.0)),
            f"node-{uuid}",
            incarnation_of(uuid, claimed),
        )
        if claimed and holds
        else None
    )
    return Record(
        uuid=uuid,
        version=draw(among("v1", "v2")),
        slot_number=draw(among(0, int(uuid[1]) + 1, None)) if holds else None,
        hostname=draw(among("compute", None)) if holds else None,
        ip_address="10.0.0.1" if holds and pinged else None,
        first_ping_at=at - 500.0 if holds and pinged else None,
        last_ping_at=at if holds and pinged else None,
        # Seldom the stamps contradict each other: then no age is believed (T1).
        modified_at=draw(among(*[at] * 12, at - 400.0, None)),
        worker_state=draw(among(None, *WorkerState)),
        instance_id=draw(among(f"i-{uuid}", None, "x0")) if holds else None,
        pool=draw(among(*POOLS)),
        claim=claim,
        held=draw(among(*[False] * 7, True)),
        problems=draw(among(*[()] * 7, ("slot_number: ?",))),
    )


@st.composite
def nodes(draw: st.DrawFn) -> CloudNode:
    uuid = draw(among(*UUIDS, None))
    own = draw(YES_OR_NO)
    id = f"i-{uuid}" if own and uuid is not None else draw(among(*IDS))
    life = draw(among(0, 1, 1, 1, 2))
    incarnation = incarnation_of(uuid, life) if uuid is not None and life else None
    pool = draw(among(*POOLS))
    return CloudNode(
        id=id,
        name=id,
        state=draw(among(*[CloudState.RUNNING] * 3, *CloudState)),
        size=draw(among("t.small", "t.large", "t.gone", None)),
        created_at=draw(among(BEGAN - 10_000.0, BEGAN - 100.0, None)),
        tags=Tags(pool, uuid, incarnation),
        managed=draw(among(True, True, True, False)),
        held=draw(among(*[False] * 7, True)),
        problems=draw(among(*[()] * 7, ("size: ?",))),
    )


RECORDS = {uuid: records(uuid) for uuid in UUIDS}
UP_TO_FOUR, UP_TO_TWO = st.lists(nodes(), max_size=4), st.lists(nodes(), max_size=2)
A_UUID, AN_ID = st.lists(among(*UUIDS), max_size=1), st.lists(among(*IDS), max_size=1)
A_NAME = st.lists(among(*UUIDS, *IDS), max_size=1)


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    listed = tuple(draw(RECORDS[uuid]) for uuid in UUIDS if draw(YES_OR_NO))
    if listed and draw(among(*[False] * 9, True)):
        listed = (*listed, draw(RECORDS[listed[0].uuid]))
    cloud = tuple(draw(UP_TO_FOUR))
    settings: dict[str, Any] = {
        "ids_unique": draw(YES_OR_NO),
        "compare_and_set": draw(YES_OR_NO),
        "adopt_unclaimed": draw(among(None, None, True, False)),
        "claim_expiry": draw(among(True, True, False)),
        "may_authorise": draw(among(*[True] * 9, False)),
        "max_cleans_per_cycle": draw(among(25, 25, 1)),
        "max_nodes": draw(among(0, 2, 6)),
        "min_nodes": 0,
        "max_total_price": draw(among(0.0, 0.5)),
        "consecutive_idle_count": draw(among(1, 2)),
    }
    flags: dict[str, Any] = {
        "lease": draw(among(*[True] * 9, False)),
        "read_only": draw(among(*[None] * 9, "another store")),
        "holds": frozenset(draw(A_NAME)),
        "record_flights": tuple(
            (uuid, draw(among("setup", "shutdown", "clean"))) for uuid in draw(A_UUID)
        ),
        "node_flights": tuple(draw(AN_ID)),
        "expected": tuple((uuid, draw(among(10.0, 1799.0, 1900.0))) for uuid in draw(A_UUID)),
        "demand": tuple(
            Job(f"j{n}", cores=draw(among(1, 8, 99)), count=draw(st.integers(1, 3)))
            for n in range(draw(st.integers(0, 2)))
        ),
        "slots": draw(among(None, 3, 64)),
    }
    later = None
    if draw(among(False, False, True)):
        later = tuple(one for one in listed if draw(among(True, True, False)))
    glimpse = draw(among(False, False, True))
    return Spec(
        records=listed,
        nodes=cloud,
        rounds=draw(among(1, 2, 3, 3, 3)),
        apart=draw(among(10.0, 70.0, 70.0, 70.0, 700.0)),
        glimpse=tuple(draw(UP_TO_TWO)) if glimpse else None,
        later=later,
        later_complete=draw(YES_OR_NO),
        wait=draw(among(0.0, 0.0, 0.0, 500.0, 700.0)),
        settings=tuple(settings.items()),
        flags=tuple(flags.items()),
        open_breaker=draw(among(*[False] * 9, True)),
    )
