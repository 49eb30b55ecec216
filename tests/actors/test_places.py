"""Several places of a size: one without room rests there, and the next boots at once (D6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from nodemanager.app.from_config import settings_of
from nodemanager.config import load
from nodemanager.core.model.settings import Settings
from nodemanager.errors import CloudError
from nodemanager.journal.kept import PLACE_RESTS, Kept
from tests.actors.conftest import MakeRig
from tests.actors.rig import Rig, restart, until
from tests.fakes import TickingClock, lose
from tests.fakes.journal import MemoryJournal

pytestmark = pytest.mark.slow

HOUR = 3600.0


def placed(make_rig: MakeRig, *full: str, **options: object) -> Rig:
    """A rig whose sizes have two places; those `full` have no room."""
    rig = make_rig(**{"min_nodes": 1, "max_nodes": 3, "max_poll_time": 300, **options})
    rig.places = ("zone-a", "zone-b")
    rig.cloud.full = set(full)
    return rig


def where(rig: Rig) -> list[tuple[str, ...]]:
    return [node.places for node in rig.nodes]


def rests(rig: Rig) -> Mapping[str, Mapping[str, float]]:
    return rig.journal.kept(PLACE_RESTS)


def test_a_node_is_booted_in_the_next_place_at_once_and_the_full_one_rests(
    make_rig: MakeRig,
) -> None:
    rig = placed(make_rig, "zone-a")
    rig.start()
    assert where(rig) == [("zone-b",)]
    assert rig.cloud.calls["create"] == 2
    (begun,) = rig.lines("node.setup_started")
    assert begun["place"] == "zone-a"
    (failed,) = rig.lines("node.setup_failed")
    assert (failed["place"], failed["definite"]) == ("zone-a", True)
    (created,) = rig.lines("node.created")
    assert created["place"] == "zone-b"
    (told,) = rig.lines("place.rests")
    assert (told["reason"], told["size"], told["place"]) == ("place_rests", "small", "zone-a")
    assert told["until"].endswith("Z")
    # One claim for both creates: the record was never given back between them.
    assert len(rig.lines("record.claimed")) == 1
    assert not rig.lines("record.cleaned")


def test_a_resting_place_is_not_asked_until_its_rest_is_over(make_rig: MakeRig) -> None:
    rig = placed(make_rig, "zone-a")
    rig.start()
    rig.apply(rig_settings(rig, min_nodes=2))
    rig.turn(60)
    assert where(rig) == [("zone-b",), ("zone-b",)]
    assert rig.cloud.calls["create"] == 3
    rig.cloud.full.clear()
    resumed = rig.turn_until("place.resumed", within=400)
    assert (resumed["size"], resumed["place"]) == ("small", "zone-a")
    rig.apply(rig_settings(rig, min_nodes=3))
    rig.turn(60)
    assert where(rig)[-1] == ("zone-a",)
    assert len(rig.lines("place.rests")) == len(rig.lines("place.resumed")) == 1
    assert rests(rig) == {}


def rig_settings(rig: Rig, **changes: Any) -> Settings:
    """The rig's settings with other limits."""
    made = settings_of(load(rig.directory / "rig.cfg", environ={}), rig.cloud, rig.store)
    sizes = tuple(replace(size, places=rig.places) for size in made.sizes)
    return replace(made, sizes=sizes, **changes)


def test_while_every_place_rests_the_boot_is_refused_and_then_tried_again(
    make_rig: MakeRig,
) -> None:
    rig = placed(make_rig, "zone-a", "zone-b", min_nodes=0)
    rig.sizes = rig.cloud.sizes[:1]
    rig.start()
    rig.apply(rig_settings(rig, min_nodes=1))
    rig.turn(120)
    assert rig.cloud.calls["create"] == 2
    assert rig.reasons("node.boot_refused") == ["places_rest"]
    assert [line["place"] for line in rig.lines("place.rests")] == ["zone-a", "zone-b"]
    rig.cloud.full = {"zone-a"}
    rig.turn(400)
    assert where(rig) == [("zone-b",)]


def test_a_rest_goes_on_after_a_restart_and_ends_in_its_time(make_rig: MakeRig) -> None:
    rig = placed(make_rig, "zone-a")
    rig.start()
    rig.turn(60)
    restart(rig)
    assert not rig.lines("place.rests")
    rig.apply(rig_settings(rig, min_nodes=2))
    rig.turn(60)
    assert where(rig) == [("zone-b",), ("zone-b",)]
    assert rig.cloud.calls["create"] == 1
    rig.turn_until("place.resumed", within=300)


@pytest.mark.parametrize("step", [-20 * HOUR, 20 * HOUR])
def test_no_rest_outlasts_a_new_one_however_our_wall_clock_stepped_over_a_restart(
    make_rig: MakeRig, step: float
) -> None:
    rig = placed(make_rig, "zone-a")
    rig.start()
    rig.kill()
    rig.clock.step_wall(step)
    rig.start()
    until(rig, "place.resumed", within=400)


def test_a_lost_answer_is_repeated_in_its_own_place_and_makes_one_node(
    make_rig: MakeRig,
) -> None:
    """U6, U9: only a definite refusal moves on."""
    rig = placed(make_rig)
    rig.cloud.on("create", lose(CloudError("timeout")))
    rig.start()
    rig.cloud.full = {"zone-a"}
    rig.turn(120)
    assert where(rig) == [("zone-a",)]
    assert len(rig.lines("node.created")) == 1
    assert not rig.lines("place.rests")


class Watching(MemoryJournal):
    """A journal that knows what was kept in it."""

    def __init__(self, clock: TickingClock) -> None:
        super().__init__(clock)
        self.keeps: list[str] = []

    def keep(self, what: Kept[Any], value: Any) -> None:
        self.keeps.append(what.name)
        super().keep(what, value)


def test_a_pool_without_places_writes_no_rests_even_into_a_new_journal(
    make_rig: MakeRig,
) -> None:
    rig = make_rig(min_nodes=1, max_nodes=3)
    assert isinstance(rig.clock, TickingClock)
    journal = rig.journal = Watching(rig.clock)
    rig.start()
    journal.fail("the disk is full")
    rig.turn(120)
    journal.heal()
    rig.turn(120)
    assert journal.keeps
    assert PLACE_RESTS.name not in journal.keeps
