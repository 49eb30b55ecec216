"""The monitors of the simulation themselves: what each excuses, and no more."""

from __future__ import annotations

from dataclasses import replace
from operator import itemgetter
from types import SimpleNamespace
from typing import Any

from nodemanager.actors.messages import CarriedOut, CarryOut, Ordered
from nodemanager.core.execute.effects import AskNode, DestroyNode, FreeRecord
from nodemanager.core.execute.workflow import Action, Key
from nodemanager.core.model.breaker import Breaker, Cause
from nodemanager.core.model.reasons import Event
from nodemanager.core.model.world import CloudNode, CloudState, Job, Tags
from nodemanager.core.operate.replies import Command
from nodemanager.core.operate.verbs import Verb
from nodemanager.core.safety.breaker import opened
from nodemanager.errors import PlaceFull, StoreError
from tests.cases import cases
from tests.core.build import node, record
from tests.simulation.boot_loops import Failure, rests
from tests.simulation.choices import LARGE, SMALL, SPOT
from tests.simulation.cleans import CleanRules
from tests.simulation.closings import Closings
from tests.simulation.latch import Latch
from tests.simulation.liveness import Calm
from tests.simulation.machine import Word
from tests.simulation.nodes import NodeRules
from tests.simulation.queue_order import waiting
from tests.simulation.scenario import Storm, draw
from tests.simulation.seat_rules import OFF_AT_ONCE, SeatRules
from tests.simulation.seats import Seating, SeatJob
from tests.simulation.sends import Sends
from tests.simulation.standing import StandingOrders
from tests.simulation.told import Answer, Ears, Told
from tests.simulation.truth import Truth
from tests.simulation.work import Work
from tests.simulation.world import World

SHOWN = node("r1")
STOPPED = node("r1", state=CloudState.STOPPED)
ENDED = node("r1", state=CloudState.TERMINATED)


@cases(
    ("answers", "gone"),
    {
        "denied-twice": ([(100.0, None), (131.0, None)], True),
        "denied-once": ([(100.0, None)], False),
        "too-close": ([(100.0, None), (120.0, None)], False),
        "the-first-too-early": ([(10.0, None), (100.0, None)], False),
        "shown-between-them": ([(100.0, None), (115.0, SHOWN), (131.0, None)], False),
        "terminated": ([(1.0, ENDED)], True),
        "stopped": ([(100.0, STOPPED)], False),
        "never-asked": ([], False),
    },
)
def test_a_node_is_gone_once_two_denials_say_so_b3(
    answers: list[tuple[float, CloudNode | None]], gone: bool
) -> None:
    ears = Ears()
    ears.by_id["i-r1"] = [
        Answer(at, () if one is None else (one,), given=True) for at, one in answers
    ]
    assert ears.is_gone("i-r1", 60.0) is gone
    assert ears.is_gone("i-r1", 60.0, since=200.0) is False


def test_a_stopped_node_is_gone_where_that_counts_and_what_nobody_was_told_does_not() -> None:
    ears = Ears()
    ears.by_id["i-r1"] = [Answer(1.0, (STOPPED,), given=True)]
    assert ears.is_gone("i-r1", 60.0, stopped=True)
    ears.by_id["i-r1"] = [Answer(at, ()) for at in (100.0, 200.0)]
    assert not ears.is_gone("i-r1", 60.0)


def test_a_node_is_excused_for_its_twins_word_and_not_for_its_own() -> None:
    """However lately it had a twin: whose ping the record shows is what its manager knew."""
    world = World("0", draw(0).shape)
    pool = next(iter(world.pools.values()))
    record = world.registry.record(world.registry.insert({}, "server", "new")["uuid"])
    assert record is not None
    tags = Tags(pool.name, record.uuid, "life")
    nodes = []
    for _ in range(2):
        one = world.cloud.start(tags=tags, size="s.1", name="n", by="main-1")
        world._boot(one, f"{record.uuid}?{record.ping_secret}")
        nodes.append(one)
    one, twin = nodes
    assert one.machine is not None
    assert twin.machine is not None
    one.machine.words[1.0] = Word(1.0, 1.0, "idle")
    twin.machine.words[2.0] = Word(2.0, 2.0, "idle")
    told = Told(world)
    work = Work(world, told, NodeRules(world, told, CleanRules(world, told, Truth(world, told))))
    assert work._is_twins_word(one, 2.0)
    assert not work._is_twins_word(one, 1.0)


@cases(
    ("effect", "holder", "open_", "broken"),
    {
        "in-order": (DestroyNode("i-1", 9.0), True, False, []),
        "without-the-lease": (DestroyNode("i-1", 9.0), False, False, ["L6"]),
        "an-open-breaker": (DestroyNode("i-1", 9.0), True, True, ["B2"]),
        "a-question": (AskNode("i-1"), False, True, []),
    },
)
def test_what_is_sent_is_sent_under_the_lease_and_a_closed_breaker_l6_b2(
    effect: Any, holder: bool, open_: bool, broken: list[str]
) -> None:
    world = World("0", draw(0).shape)
    pool = next(iter(world.pools.values()))
    sends = Sends(world)
    manager = world.start(pool)
    pool.holder = manager.name if holder else "another"
    sends._open[manager.name] = {"false_clean"} if open_ else set()  # type: ignore[arg-type]
    for told in world.handed:
        told(manager, CarryOut(Key(Action.SHUTDOWN, "i-1"), 1, effect))
    assert [one.rule for one in world.violations] == broken


@cases(
    ("what", "broken"),
    {
        "for-no-reason": ("nothing", ["B3"]),
        "by-its-operator": ("a reset", []),
        "with-the-journal": ("a loss", []),
        "by-another-pools-operator": ("another pool's reset", ["B3"]),
        "by-one-whose-manager-was-killed-before-it-answered": ("unanswered", []),
    },
)
def test_a_breaker_that_only_an_operator_closes_is_closed_by_nothing_else_b3(
    what: str, broken: list[str]
) -> None:
    world = World("0", draw(0).shape)
    pool = next(iter(world.pools.values()))
    told = Told(world)
    closings: Any = Closings(world, told, Truth(world, told))
    manager: Any = world.start(pool)
    settings: Any = pool.settings
    open_ = opened(Breaker(), Cause.INVARIANT, frozenset({"C4"}), 1.0, {})
    for breaker in (open_, open_):
        closings._planned(manager, _plan(breaker), None, settings)
    if what == "a loss":
        pool.journal.lose()
    if what == "unanswered":
        reset = Ordered(Command(Verb.BREAKER_RESET, "ann"), lambda reply: None)
        closings._given(manager.name, reset)
    if "reset" in what:
        its = manager if what == "a reset" else SimpleNamespace(pool=SimpleNamespace(name="x"))
        closings._logged(its, Event.OPERATOR_BREAKER_RESET, {"result": "done"})
    after: Any = world.start(pool)
    closings._planned(after, _plan(Breaker()), None, settings)
    assert [one.rule for one in world.violations] == broken


POLL_S = draw(0).shape.pools[0][0].max_poll_time


@cases(
    ("is_fenced", "succeeds", "closed_at", "broken"),
    {
        "one-succeeds-that-was-answered-before": (False, (5.3, 7.0), 8.0, []),
        "one-had-succeeded-before-it-opened": (False, (4.5, 4.6), 8.0, ["B3"]),
        "none-succeeds": (False, None, POLL_S + 7.0, ["B3"]),
        "a-store-without-heartbeats-is-tried": (True, None, POLL_S + 5.2, []),
        "and-that-too-soon": (True, None, POLL_S - 1.0, ["B3"]),
    },
)
def test_failed_writes_stand_from_when_they_opened_the_breaker_b3(
    is_fenced: bool, succeeds: tuple[float, float] | None, closed_at: float, broken: list[str]
) -> None:
    """The fifth is told at 5.1, one more failed before the plan that shows it, at 6."""
    world = World("0", replace(draw(0).shape, fenced=is_fenced))
    pool = next(iter(world.pools.values()))
    told = Told(world)
    closings: Any = Closings(world, told, Truth(world, told))
    manager: Any = world.start(pool)
    effect = FreeRecord(record("r1", at=1.0), "stale_slot")
    begun, steps = world.engine.now, []

    def write(answered: float, given: float, error: StoreError | None) -> None:
        done = CarriedOut(Key(Action.CLEAN, "r1"), 1, effect, error=error)
        hooks = world.weather.answered if error is None else world.weather.failed
        steps.append(
            (answered, lambda: [one(manager.name, "store.clean", "r1", error) for one in hooks])
        )
        steps.append((given, lambda: [one(manager.name, done) for one in world.given]))

    def plan(at: float, breaker: Breaker) -> None:
        steps.append((at, lambda: closings._planned(manager, _plan(breaker), None, pool.settings)))

    for at in (1.0, 2.0, 3.0, 4.0, 5.0, 5.4):
        write(at, at + 0.1, StoreError("503"))
    if succeeds is not None:
        write(*succeeds, None)
    plan(4.8, Breaker())
    plan(6.0, opened(Breaker(), Cause.WRITES_FAIL, frozenset(), 5.1, {}))
    plan(closed_at, Breaker())
    for at, step in sorted(steps, key=itemgetter(0)):
        world.engine.now = begun + at
        step()
    assert [one.rule for one in world.violations] == broken


@cases(
    ("what", "at", "broken"),
    {
        "for-no-reason": ("nothing", 0.0, ["U14"]),
        "an-order-was-on-its-way-before": ("sent", -1.0, []),
        "its-size-was-refused": ("refused", 1.0, []),
        "that-was-just-before-it-waited": ("refused", -1.0, []),
        "its-size-was-refused-in-the-end": ("refused in the end", 1.0, []),
        "that-was-long-before-it-waited": ("refused", -600.0, ["U14"]),
        "another-size-was-refused": ("another refused", 1.0, ["U14"]),
        "its-machine-ended": ("ended", 1.0, []),
        "one-that-slurm-had-switched-off-ended": ("ended", -1.0, ["U14"]),
        "one-that-slurm-never-heard-ended": ("never heard", -1.0, []),
    },
)
def test_what_waits_is_queued_again_only_where_no_machine_comes_u14(
    what: str, at: float, broken: list[str]
) -> None:
    """`at` is when that was, or its machine was made: seconds after Slurm powers the node up."""
    seated = Seating(every=60.0, job_s=40.0, sizes=(SMALL, LARGE))
    world = World("0", draw(0, Storm(("demand changes",), count=0, seated=seated)).shape)
    assert world.controller is not None
    controller, engine, told = world.controller, world.engine, Told(world)
    calm, truth = Calm(world), Truth(world, told)
    latch, orders = Latch(world, truth, calm), StandingOrders(world, told)
    rules = SeatRules(world, controller, orders, calm, latch)
    first, second, *_ = controller.model.nodes.values()
    since = engine.now + 10.0
    engine.now = since + at
    uuid = controller.registry.uuids[(second if what == "another refused" else first).name]
    if what in ("refused", "another refused"):
        for hook in world.weather.failed:
            hook("main-1", "cloud.create", uuid, PlaceFull("no room", place="zone-a"))
    tags = Tags("main", uuid, "life")
    one = world.cloud.start(tags=tags, size=first.size, name=first.name, by="main-1")
    world._boot(one, first.name)
    if what == "refused in the end":
        for answered in world.weather.answered:
            answered("main-1", "cloud.finish", one.id, PlaceFull("no room", place="zone-a"))
    assert one.machine is not None
    one.machine.heard_at = None if what == "never heard" else engine.now
    engine.now = since
    number = controller.model.submit(first.name)
    controller.jobs[number] = SeatJob(number, first.name, 60.0, since)
    controller.model.settle()
    engine.now = since + 20.0
    if what in ("ended", "never heard"):
        world.cloud.end(one)
    world.weather.sent_at = since + at if what == "sent" else engine.now
    rules._ordered("main-1", first, ("scontrol", "update", OFF_AT_ONCE))
    assert [one.rule for one in world.violations] == broken


def _failures(*times: tuple[float, float]) -> list[Failure]:
    return [Failure("small", since, by) for since, by in times]


@cases(
    ("must", "found"),
    {
        "four": ([(1, 9), (2, 9), (3, 9), (4, 9)], []),
        "the-fifth": ([(1, 9), (2, 9), (3, 9), (4, 9), (5, 10)], [(10, 105)]),
        "amid-a-rest": ([(1, 9), (2, 9), (3, 9), (4, 9), (5, 10), (50, 60)], [(10, 105)]),
        "after-a-rest": (
            [(1, 9), (2, 9), (3, 9), (4, 9), (5, 10), (200, 220)],
            [(10, 105), (220, 400)],
        ),
    },
)
def test_a_rest_is_as_short_as_what_its_manager_knew_allows_b5(
    must: list[tuple[float, float]], found: list[tuple[float, float]]
) -> None:
    failures = _failures(*must)
    assert rests(failures, failures, 5, 100.0, 100.0) == found


def test_failures_that_may_be_counted_begin_a_rest_sooner_and_end_it_sooner_b5() -> None:
    surely = _failures((11, 20), (12, 20), (13, 20), (14, 20), (15, 20))
    maybe = [Failure("small", 1.0), *surely]
    assert rests(surely, maybe, 5, 100.0, 100.0) == [(20, 114)]


@cases(
    ("jobs", "expected"),
    {
        "in-its-order": ("small small large", [("small", 2), ("large", 2)]),
        "the-cheapest-that-fits": ("cheap large", [("small.spot", 1), ("large", 2)]),
        "what-can-be-had": ("vast small many", [("small", 1)]),
        "whoever-waits-again-waits-behind": (
            "small large small",
            [("small", 1), ("large", 2), ("small", 1)],
        ),
    },
)
def test_who_waits_for_which_size_is_told_in_the_order_of_the_queue_u12(
    jobs: str, expected: list[tuple[str, int]]
) -> None:
    known = {
        "small": Job("j"),
        "large": Job("large", cores=2, count=2),
        "cheap": Job("cheap", preemptible=True),
        "vast": Job("vast", cores=64),
        "many": Job("many", count=9),
    }
    settings = replace(draw(0).shape.pools[0][0], sizes=(SMALL, LARGE, SPOT), max_nodes=8)
    settings = replace(settings, max_total_price=0.0)
    queue = tuple(known[name] for name in jobs.split())
    assert [(one.size.name, one.count) for one in waiting(queue, settings)] == expected


def _plan(breaker: Breaker) -> Any:
    return SimpleNamespace(breaker=breaker)
