"""Pings race cleans over two registry processes (SAFETY.md A4, C12).

`make proof NAME=race` runs more.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from nodemanager.core.model.world import Record
from nodemanager.records import rows
from tests.contract import race
from tests.contract.duel import EVERY_STEP, Pair, behind_a_fence
from tests.contract.race import KINDS, Arena, Kind, Tally
from tests.contract.stores import running_postgres

SOME = {"sqlite": 150, "postgresql": 150, "arvados": 50}
"""So many are quick enough for every run; a fenced clean takes ten requests and more."""
ENOUGH = 2000
"""Within so many races a store without its safeguard has broken the rule."""
FENCED = KINDS[-1]


@pytest.fixture(scope="module")
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


@pytest.fixture(scope="module")
def ring(kind: Kind, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    server = running_postgres() if kind.name == "postgresql" else None
    with kind.arena(tmp_path_factory.mktemp("races"), server) as opened:
        yield opened


def over(*kinds: Kind) -> pytest.MarkDecorator:
    """Races over those; all tests of one kind share its two processes."""
    postgresql = pytest.mark.server("postgresql")
    cases = [
        pytest.param(kind, id=kind.name, marks=[postgresql] if kind.name == "postgresql" else [])
        for kind in kinds
    ]
    return pytest.mark.parametrize("kind", cases, indirect=True, scope="module")


@over(*KINDS)
def test_no_race_ends_with_a_ping_acknowledged_and_its_record_freed(ring: Arena, kind: Kind):
    races = int(os.environ.get("RACES") or SOME[kind.name])

    tally = race.run(ring, kind, races)

    assert tally.broken == []
    assert tally.races == races
    assert min(tally.won["ping"], tally.won["clean"]) > races / 20, "one side had no chance"


@over(KINDS[0])
def test_both_sides_win_often_where_one_of_them_is_slow(ring: Arena, kind: Kind):
    def slow(pair: Pair) -> bool:
        # A busy machine's clean takes longer than all the least steps together.
        time.sleep(0.1)
        return kind.clean(pair)

    races = 120
    tally = race.run(ring, replace(kind, clean=slow), races)

    assert tally.broken == []
    assert min(tally.won["ping"], tally.won["clean"]) > races / 6


def freed_wrongly(tally: Tally) -> bool:
    return any("acknowledged" in wrong for wrong in tally.broken)


@over(KINDS[0])
def test_the_races_notice_a_store_that_compares_nothing(
    ring: Arena, kind: Kind, monkeypatch: pytest.MonkeyPatch
):
    def whatever_version(connection: object, record: Record) -> rows.Row:
        return rows.get(connection, record.uuid)

    monkeypatch.setattr(rows, "get_at", whatever_version)

    assert freed_wrongly(race.run(ring, kind, ENOUGH, enough=freed_wrongly))


@over(FENCED)
@pytest.mark.parametrize("step", sorted(EVERY_STEP))
def test_the_races_notice_a_fence_without_one_of_its_steps(ring: Arena, kind: Kind, step: str):
    lacks = replace(kind, clean=behind_a_fence(EVERY_STEP - {step}))

    assert freed_wrongly(race.run(ring, lacks, ENOUGH, enough=freed_wrongly))
