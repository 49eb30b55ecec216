"""What stands in for a real client or adapter in the simulation has all that the real one has.

Where one lacks a new attribute, each call that asks for it fails, and the worlds may go on as if
the store were down.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from nodemanager.cloud.api import CloudDriver
from nodemanager.records.api import RecordStore
from nodemanager.records.arvados_client import ArvadosClient
from nodemanager.schedulers.api import Scheduler
from tests.cases import cases
from tests.simulation.arvados import FencedStore
from tests.simulation.manager import Manager
from tests.simulation.scenario import Scenario, draw
from tests.simulation.slurm import Dispatching, with_dispatcher
from tests.simulation.world import World

NOT_SIMULATED: Mapping[type, Mapping[str, str]] = {
    CloudDriver: {"preflight": "only `check-cloud` calls it"},
    ArvadosClient: {"renew": "no simulated token changes"},
    Scheduler: {},
    RecordStore: {},
}
"""What the simulation does without, and why."""


def members(real: type) -> dict[str, object]:
    """The public attributes of a port or client, by name; of one that is only declared, None."""
    found: dict[str, object] = {}
    for one in reversed(real.__mro__):
        if one is not object:
            found |= dict.fromkeys(inspect.get_annotations(one))
            found |= one.__dict__
    return {name: what for name, what in found.items() if not name.startswith("_")}


def parameters(function: Callable[..., Any]) -> list[tuple[str, object, bool]]:
    """Names and kinds of what a call takes, and what may be left out."""
    return [
        (one.name, one.kind, one.default is not inspect.Parameter.empty)
        for one in inspect.signature(function).parameters.values()
        if one.name != "self"
    ]


def manager_of(scenario: Scenario) -> Manager:
    world = World("ports", scenario.shape)
    return world.start(next(iter(world.pools.values())))


def fenced() -> Scenario:
    scenario = draw(0)
    return replace(scenario, shape=replace(scenario.shape, fenced=True))


def plain() -> Scenario:
    scenario = draw(0)
    shape = replace(scenario.shape, fenced=False, dispatching=None, seated=None)
    return replace(scenario, shape=shape)


def dispatched() -> Scenario:
    scenario = plain()
    return replace(scenario, shape=with_dispatcher(scenario.shape, Dispatching(15.0, 40.0)))


def arvados_client() -> object:
    store = manager_of(fenced()).store
    assert isinstance(store, FencedStore)
    return store._client


def driver() -> object:
    manager = manager_of(plain())
    return manager.world.driver(manager)


def scheduler(scenario: Scenario) -> object:
    manager = manager_of(scenario)
    return manager.world.scheduler(manager)


def seated() -> Scenario:
    return draw(0, seated=True)


@cases(
    ("real", "simulated"),
    {
        "cloud": (CloudDriver, driver),
        "registry": (RecordStore, lambda: manager_of(plain()).store),
        "seats": (RecordStore, lambda: manager_of(seated()).store),
        "arvados": (RecordStore, lambda: manager_of(fenced()).store),
        "arvados-client": (ArvadosClient, arvados_client),
        "scheduler": (Scheduler, lambda: scheduler(dispatched())),
        "seats-scheduler": (Scheduler, lambda: scheduler(seated())),
    },
)
def test_a_simulated_one_has_all_that_the_real_one_has(
    real: type, simulated: Callable[[], object]
) -> None:
    one, without = simulated(), NOT_SIMULATED[real]
    for name, what in members(real).items():
        if name in without:
            continue
        assert hasattr(one, name), f"{type(one).__name__} has no {name}"
        if inspect.isfunction(what):
            assert parameters(getattr(one, name)) == parameters(what), name


@pytest.mark.parametrize("real", [pytest.param(one, id=one.__name__) for one in NOT_SIMULATED])
def test_what_is_not_simulated_is_there_in_the_real_one(real: type) -> None:
    assert NOT_SIMULATED[real].keys() <= members(real).keys()
