"""Worlds with a record for each of Slurm's nodes: no slot of a living machine is freed (C12)."""

from __future__ import annotations

import pytest

from tests.records.slurm_model import Times
from tests.sampling import first
from tests.simulation.choices import SPOT, UNPRICED
from tests.simulation.faults import KINDS
from tests.simulation.run import play
from tests.simulation.scenario import NOT_SEATED, SEATED_LATER, Scenario, Storm, draw
from tests.simulation.seats import (
    RESUME_TIMEOUT_S,
    SLURMD_TIMEOUT_S,
    Controller,
    Seating,
    draw_seating,
)
from tests.simulation.world import World

pytestmark = pytest.mark.slow

FIRST, WORLDS, SHARES = 1000, 24, 8
OFTEN = 1
"""`make test` plays so many of these shares, the first; `make proof NAME=worlds` plays all."""


def played(scenario: Scenario, *, stops_after: float | None = None) -> tuple[World, Controller]:
    """That world at its end, or as it is after so many seconds."""
    worlds: list[World] = []

    def watch(world: World) -> None:
        def halt() -> None:
            world.engine.halted = True

        worlds.append(world)
        if stops_after is not None:
            world.engine.after(stops_after, halt)

    result = play(scenario, watch=watch)
    assert not result.violations, [str(one) for one in result.violations]
    (world,) = worlds
    assert world.controller is not None
    return world, world.controller


def test_some_worlds_have_slurms_nodes_as_records_and_a_dispatcher() -> None:
    drawn = [seed for seed in range(270) if draw_seating(seed) is not None]
    assert 4 <= len(drawn) < 20
    for seed in drawn:
        scenario = draw(seed)
        assert scenario.breaks is None
        assert not scenario.shape.fenced
        assert all(settings.scheduled for settings, _ in scenario.shape.pools)


def test_where_slurm_ends_idle_nodes_one_is_kept_at_most() -> None:
    """Or one of many would always be on its way out or in: 477009552 never came to rest."""
    kept = set()
    for seed in range(400):
        shape = draw(seed, seated=True).shape
        assert shape.seated is not None
        if shape.seated.suspend_time is not None:
            kept.add(shape.pools[0][0].min_nodes)
    assert kept == {0, 1}


def test_each_kind_comes_there_or_has_the_reason_why_it_can_not() -> None:
    """Those that break an assumption apart: these worlds keep all five."""
    assert NOT_SEATED.keys() | SEATED_LATER <= KINDS.keys()
    assert not NOT_SEATED.keys() & SEATED_LATER
    kept = {name for name, kind in KINDS.items() if kind.breaks is None and not kind.leased}
    drawn = {fault.kind for seed in range(600) for fault in draw(seed, seated=True).script}
    assert drawn == kept - NOT_SEATED.keys()
    assert all(NOT_SEATED.values())


def test_operators_machines_from_before_prices_and_second_pools_come_to_some_of_them() -> None:
    """Among those that are played here, too."""
    shapes = [draw(seed, seated=True).shape for seed in range(FIRST, FIRST + WORLDS)]
    drawn = [shape.seated for shape in shapes if shape.seated is not None]
    assert (
        min(
            sum(shape.operators_every > 0 for shape in shapes),
            sum(seated.before > 0 for seated in drawn),
            sum(shape.pools[0][0].max_total_price > 0 for shape in shapes),
            sum(len(shape.pools) == 2 for shape in shapes),
            sum(UNPRICED in seated.sizes for seated in drawn),
            sum(SPOT in seated.sizes for seated in drawn),
        )
        >= 1
    ), "each"


def test_a_machine_from_before_ends_with_the_power_of_its_node_and_is_no_manager_s() -> None:
    before = Seating(every=60.0, job_s=40.0, suspend_time=120.0, spare=1, before=3)
    world, controller = played(draw(3, Storm(("demand changes",), count=0, seated=before)))
    old = [one for one in world.cloud.instances.values() if one.by == "somebody"]
    assert len(old) == 3
    assert not any(one.lives for one in old)
    assert any(job.id for job in controller.done)


def test_two_pools_have_a_partition_each_and_jobs_of_their_own() -> None:
    shared = Seating(every=60.0, job_s=40.0, second_pool=True)
    _, controller = played(draw(3, Storm(("demand changes",), count=0, seated=shared)))
    assert controller.model.partitions.keys() == {"main", "other"}
    assert {controller.pool_of[job.name] for job in controller.done} == {"main", "other"}


@pytest.mark.parametrize("share", first(OFTEN, range(SHARES)))
def test_no_world_of_slurms_nodes_breaks_a_rule(share: int) -> None:
    done = 0
    for seed in range(FIRST + share, FIRST + WORLDS, SHARES):
        _, controller = played(draw(seed, seated=True))
        left = [job for job in controller.jobs.values() if controller.is_in_reach(job.name)]
        assert not left, "each job that was submitted is run"
        done += len(controller.done)
    assert done > 3 * WORLDS / SHARES


def test_machines_register_jobs_run_idle_ones_go_and_a_killed_ones_slot_comes_free() -> None:
    dying = Storm(("a node dies unseen",), count=6, seated=Seating(every=60.0, job_s=200.0))
    world, controller = played(draw(3, dying))
    assert len(controller.done) > 5
    assert controller.requeued > 0, "a job was on a machine that died"
    assert len(world.cloud.instances) > len(world.cloud.living())
    living = {one.tags.incarnation for one in world.cloud.living()}
    held = [one for one in world.registry.records() if one.holds_anything]
    assert {one.incarnation for one in held} <= living


def test_slurm_gives_up_a_slurmd_after_its_time_and_one_that_answers_again_comes_back() -> None:
    storm = Storm(("demand changes",), count=0, seated=Seating(every=60.0, job_s=200.0))
    world, controller = played(draw(3, storm), stops_after=900.0)
    name, (machine, life) = next(
        (name, of) for name, of in controller.of.items() if of[0].instance.lives and of[0].up
    )
    assert machine.life == life
    node, engine = controller.model.nodes[name], world.engine
    engine.now += 1.0
    machine.cut_off = True
    controller.look()
    assert "DOWN" not in node.flags
    engine.now += SLURMD_TIMEOUT_S + 1.0
    controller.look()
    assert {"DOWN", "NOT_RESPONDING"} <= node.flags
    started = node.start
    machine.cut_off = False
    controller.look()
    assert ("DOWN" in node.flags, node.start) == (False, started)


def test_a_node_that_no_machine_comes_for_is_given_up_after_resume_timeout() -> None:
    storm = Storm(("demand changes",), count=0, seated=Seating(every=60.0, job_s=200.0, spare=1))
    world, controller = played(draw(3, storm))
    node = next(one for one in controller.model.nodes.values() if one.flags == {"POWERED_DOWN"})
    controller.model.run(
        "slurm", ("scontrol", "update", f"NodeName={node.name}", "State=POWER_UP"), 1.0
    )
    world.engine.now += Times.power_interval
    controller.look()
    assert node.flags == {"POWERING_UP", "NOT_RESPONDING"}
    world.engine.now += RESUME_TIMEOUT_S + 1.0
    controller.look()
    assert {"DOWN", "POWERED_DOWN"} <= node.flags


def test_a_kill_ends_no_job_of_the_twin_that_works_under_the_same_name() -> None:
    """Two machines of one create, of which one is not to be seen yet; once it broke WORK."""
    played(draw(780012, seated=True))
