"""Hypothesis strategies for whole small worlds, and how such a world is run to its plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
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


@st.composite
def records(draw: st.DrawFn, uuid: str) -> Record:
    quiet = draw(st.sampled_from(QUIET))
    at = BEGAN - quiet
    pinged = draw(st.booleans())
    claimed = draw(st.sampled_from([0, 1, 1, 1, 2]))
    holds = draw(st.sampled_from([True, True, True, False]))
    claim = (
        Claim(
            draw(st.sampled_from([POOL, POOL, POOL, "other"])),
            "manager-1",
            1,
            at - draw(st.sampled_from([0.0, 500.0])),
            f"node-{uuid}",
            incarnation_of(uuid, claimed),
        )
        if claimed and holds
        else None
    )
    return Record(
        uuid=uuid,
        version=draw(st.sampled_from(["v1", "v2"])),
        slot_number=draw(st.sampled_from([0, int(uuid[1]) + 1, None])) if holds else None,
        hostname=draw(st.sampled_from(["compute", None])) if holds else None,
        ip_address="10.0.0.1" if holds and pinged else None,
        first_ping_at=at - 500.0 if holds and pinged else None,
        last_ping_at=at if holds and pinged else None,
        # Seldom the stamps contradict each other: then no age is believed (T1).
        modified_at=draw(st.sampled_from([*[at] * 12, at - 400.0, None])),
        worker_state=draw(st.sampled_from([None, *WorkerState])),
        instance_id=draw(st.sampled_from([f"i-{uuid}", None, "x0"])) if holds else None,
        pool=draw(st.sampled_from(POOLS)),
        claim=claim,
        held=draw(st.sampled_from([False] * 7 + [True])),
        problems=draw(st.sampled_from([()] * 7 + [("slot_number: ?",)])),
    )


@st.composite
def nodes(draw: st.DrawFn) -> CloudNode:
    uuid = draw(st.sampled_from([*UUIDS, None]))
    own = draw(st.booleans())
    id = f"i-{uuid}" if own and uuid is not None else draw(st.sampled_from(IDS))
    life = draw(st.sampled_from([0, 1, 1, 1, 2]))
    incarnation = incarnation_of(uuid, life) if uuid is not None and life else None
    pool = draw(st.sampled_from(POOLS))
    return CloudNode(
        id=id,
        name=id,
        state=draw(st.sampled_from([CloudState.RUNNING] * 3 + list(CloudState))),
        size=draw(st.sampled_from(["t.small", "t.large", "t.gone", None])),
        created_at=draw(st.sampled_from([BEGAN - 10_000.0, BEGAN - 100.0, None])),
        tags=Tags(pool, uuid, incarnation),
        managed=draw(st.sampled_from([True, True, True, False])),
        held=draw(st.sampled_from([False] * 7 + [True])),
        problems=draw(st.sampled_from([()] * 7 + [("size: ?",)])),
    )


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    listed = tuple(draw(records(uuid)) for uuid in UUIDS if draw(st.booleans()))
    if listed and draw(st.sampled_from([False] * 9 + [True])):
        listed = (*listed, draw(records(listed[0].uuid)))
    cloud = tuple(draw(st.lists(nodes(), max_size=4)))
    settings: dict[str, Any] = {
        "ids_unique": draw(st.booleans()),
        "compare_and_set": draw(st.booleans()),
        "adopt_unclaimed": draw(st.sampled_from([None, None, True, False])),
        "claim_expiry": draw(st.sampled_from([True, True, False])),
        "may_authorise": draw(st.sampled_from([True] * 9 + [False])),
        "max_cleans_per_cycle": draw(st.sampled_from([25, 25, 1])),
        "max_nodes": draw(st.sampled_from([0, 2, 6])),
        "min_nodes": 0,
        "max_total_price": draw(st.sampled_from([0.0, 0.5])),
        "consecutive_idle_count": draw(st.sampled_from([1, 2])),
    }
    few = st.lists(st.sampled_from(UUIDS), max_size=1)
    flags: dict[str, Any] = {
        "lease": draw(st.sampled_from([True] * 9 + [False])),
        "read_only": draw(st.sampled_from([None] * 9 + ["another store"])),
        "holds": frozenset(draw(st.lists(st.sampled_from([*UUIDS, *IDS]), max_size=1))),
        "record_flights": tuple(
            (uuid, draw(st.sampled_from(["setup", "shutdown", "clean"]))) for uuid in draw(few)
        ),
        "node_flights": tuple(draw(st.lists(st.sampled_from(IDS), max_size=1))),
        "expected": tuple(
            (uuid, draw(st.sampled_from([10.0, 1799.0, 1900.0]))) for uuid in draw(few)
        ),
        "demand": tuple(
            Job(f"j{n}", cores=draw(st.sampled_from([1, 8, 99])), count=draw(st.integers(1, 3)))
            for n in range(draw(st.integers(0, 2)))
        ),
        "slots": draw(st.sampled_from([None, 3, 64])),
    }
    later = None
    if draw(st.sampled_from([False, False, True])):
        later = tuple(one for one in listed if draw(st.sampled_from([True, True, False])))
    glimpse = draw(st.sampled_from([False, False, True]))
    return Spec(
        records=listed,
        nodes=cloud,
        rounds=draw(st.sampled_from([1, 2, 3, 3, 3])),
        apart=draw(st.sampled_from([10.0, 70.0, 70.0, 70.0, 700.0])),
        glimpse=tuple(draw(st.lists(nodes(), max_size=2))) if glimpse else None,
        later=later,
        later_complete=draw(st.booleans()),
        wait=draw(st.sampled_from([0.0, 0.0, 0.0, 500.0, 700.0])),
        settings=tuple(settings.items()),
        flags=tuple(flags.items()),
        open_breaker=draw(st.sampled_from([False] * 9 + [True])),
    )
