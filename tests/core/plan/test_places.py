"""Where nodes are booted: the written order, spread, and the places that rest (D6)."""

from __future__ import annotations

from dataclasses import replace

from nodemanager.core.execute.news import CreateRefused, NodeExpected
from nodemanager.core.execute.state import State, learned
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import CloudState, Job, Size
from nodemanager.core.observe.snapshot import Limits, Rests
from nodemanager.core.plan import availability
from nodemanager.core.plan.availability import after_refusal
from nodemanager.errors import CapacityUnavailable, PlaceFull
from tests.cases import cases
from tests.core.build import LARGE, POOL, SMALL, World, world

HERE = replace(SMALL, places=("a", "b", "c"))
SPREAD = replace(HERE, spread=True)


def full(place: str) -> PlaceFull:
    return PlaceFull("no room", place=place)


def pool(**limits: Rests) -> World:
    made = world(max_nodes=9, sizes=(HERE, LARGE))
    made.flags["limits"] = Limits(**limits)  # type: ignore[arg-type]  # only `places`
    made.flags["demand"] = (Job("j", count=2),)
    made.round()
    return made


def booted_in(made: World) -> list[str | None]:
    return [boot.place for boot in made.last.boots]


@cases(
    ("size", "rests", "nodes", "tried", "expected"),
    {
        "no-places": (SMALL, {}, {"a": 1}, (), None),
        "first": (HERE, {}, {"a": 9}, (), "a"),
        "the-first-rests": (HERE, {"a": 10.1}, {}, (), "b"),
        "its-rest-is-over": (HERE, {"a": 10.0}, {}, (), "a"),
        "rests-and-tried": (HERE, {"a": 11.0}, {}, ("b",), "c"),
        "all-rest": (HERE, {"a": 11.0, "b": 11.0, "c": 11.0}, {}, (), None),
        "all-tried": (HERE, {}, {}, ("a", "b", "c"), None),
        "fewest": (SPREAD, {}, {"a": 2, "b": 1, "c": 1}, (), "b"),
        "fewest-awake": (SPREAD, {"b": 11.0}, {"a": 2, "b": 0, "c": 2}, (), "a"),
        "spread-none": (SPREAD, {"a": 11.0, "b": 11.0, "c": 11.0}, {}, (), None),
    },
)
def test_the_next_node_is_booted_in_the_first_or_emptiest_place_that_does_not_rest(
    size: Size,
    rests: dict[str, float],
    nodes: dict[str, int],
    tried: tuple[str, ...],
    expected: str | None,
) -> None:
    assert availability.choose(size, {size.name: rests}, nodes, 10.0, tried) == expected


def test_a_place_rests_for_one_size_alone() -> None:
    rests = availability.after_full({}, HERE.name, "a", 20.0)
    other = replace(LARGE, places=("a", "b"))
    assert availability.choose(HERE, rests, {}, 10.0) == "b"
    assert availability.choose(other, rests, {}, 10.0) == "a"


def test_a_size_rests_until_the_first_of_its_places_wakes() -> None:
    rests = {"small": {"a": 30.0, "b": 20.0, "c": 40.0, "gone": 11.0}}
    assert availability.rests_until(HERE, rests, 10.0) == 20.0
    assert availability.rests_until(HERE, rests, 20.0) is None
    assert availability.rests_until(HERE, {"small": {"a": 30.0, "b": 20.0}}, 10.0) is None
    assert availability.rests_until(SMALL, rests, 10.0) is None


def test_rests_that_have_ended_are_forgotten() -> None:
    rests = {"small": {"a": 30.0, "b": 20.0}, "large": {"a": 20.0}}
    assert availability.without_ended(rests, 19.0) is rests
    assert availability.without_ended(rests, 20.0) == {"small": {"a": 30.0}}
    assert availability.without_ended(rests, 30.0) == {}


def test_a_client_token_is_the_same_for_one_place_and_another_for_each_u9() -> None:
    life = "0" * 32
    assert availability.client_token(life, None) == life
    tokens = {availability.client_token(life, place) for place in (None, "a", "b")}
    assert len(tokens) == 3
    assert availability.client_token(life, "a") in tokens
    assert max(map(len, tokens)) <= 64


def test_only_a_full_place_rests_a_place_and_anything_else_the_size() -> None:
    settings = Settings(pool=POOL, max_poll_time=300.0)

    def after(error: Exception) -> Limits:
        return after_refusal(Limits(), error, "small", 7, 1000.0, settings)

    rests = {"small": {"a": 1300.0}}
    assert after(full("a")) == Limits(places=rests, full={"small": 1000.0})
    assert after(CapacityUnavailable("none")).places == {}
    state = learned(State(), CreateRefused(("small",), full("b")), 5.0, 0, settings)
    assert state.limits.places == {"small": {"b": 305.0}}


def test_boots_go_to_the_first_place_and_to_the_next_while_that_rests() -> None:
    assert booted_in(pool()) == ["a", "a"]
    assert booted_in(pool(places={"small": {"a": 9e9}})) == ["b", "b"]
    assert booted_in(pool(places={"large": {"a": 9e9}})) == ["a", "a"]


def test_while_every_place_rests_the_size_is_refused() -> None:
    made = pool(places={"small": dict.fromkeys("abc", 9e9)})
    assert booted_in(made) == []
    assert made.wants.refused == {("small", Reason.PLACES_REST): 2}


def test_min_nodes_takes_another_size_while_every_place_of_the_cheapest_rests() -> None:
    made = world(max_nodes=9, min_nodes=1, sizes=(HERE, LARGE))
    made.flags["limits"] = Limits(places={"small": dict.fromkeys("abc", 9e9)})
    made.round()
    assert made.booted == ["large"]


def test_spread_counts_listed_nodes_those_to_be_and_those_of_the_same_plan() -> None:
    made = world(max_nodes=9, sizes=(SPREAD, LARGE))
    made.flags["demand"] = (Job("j", count=5),)
    made.add_node("r1", places=("a", "subnet-1"))
    made.add_node("r2", places=("c",), state=CloudState.TERMINATED)
    made.add_node("r3", places=("c",), managed=False)
    made.flags["places_to_be"] = {"b": 1}
    made.round()
    assert booted_in(made) == ["c", "a", "b", "c"]


def test_a_created_node_counts_in_its_place_until_it_is_listed() -> None:
    settings = Settings(pool=POOL)
    created = NodeExpected("r", "life", "small", "i-1", place="a")
    state = learned(State(), created, 5.0, 1, settings)
    assert state.expected["r"].place == "a"
