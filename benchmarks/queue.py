"""What a long queue of waiting jobs costs: to poll, to decide about, to list."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace

from benchmarks import pools
from benchmarks.planner import Planner, cpu
from nodemanager.commands import listing_screen, show
from nodemanager.core.explain.explain import APPLY, DecisionView
from nodemanager.core.explain.lists import JOBS, Width
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import Size
from nodemanager.core.plan.plan import Plan
from nodemanager.schedulers.wishlist import WishlistCommand
from nodemanager.web.lists import LISTS, ListRequest

NODES, SIZES = 200, 6
"""The nodes of the pool, and its sizes."""


@dataclass(frozen=True)
class Cost:
    """CPU seconds of one step with a queue; `lines_s` are those of decoding its lines of JSON.

    Their ratio is to be no more than `goal`.
    """

    what: str
    goal: float
    seconds: float
    lines_s: float


def lines_of(count: int) -> bytes:
    """What a wishlist_command prints of so many jobs."""
    jobs = (
        {
            "id": f"job-{number}",
            "cores": 1 + number % 5,
            "ram_mb": 1000 * (1 + number % 10),
        }
        for number in range(count)
    )
    return "\n".join(map(json.dumps, jobs)).encode()


def costs(count: int, measured: int) -> list[Cost]:
    """The steps with `count` jobs, each the median of `measured`."""
    lines = lines_of(count)
    lines_s = cpu(lambda: [json.loads(line) for line in lines.splitlines()], measured)
    command = WishlistCommand((), 1.0)
    planner, pool = Planner(_settings()), pools.Pool(NODES, stale=0)
    numbers = iter(range(measured + 1))
    jobs = command.read(lines)

    def decide() -> Plan:
        return planner.round(pool.poll(next(numbers)), jobs)

    decision = decide()
    assert planner.snapshot is not None
    view = DecisionView(planner.snapshot, decision, _settings(), APPLY)
    answer = LISTS["jobs"].answer
    rows = answer(ListRequest(view))["jobs"]
    steps: tuple[tuple[str, float, Callable[[], object]], ...] = (
        ("a poll", 5.0, lambda: WishlistCommand((), 1.0).read(lines)),
        ("a poll of the same queue", 0.5, lambda: command.read(lines)),
        ("a decision", 4.0, decide),
        ("GET /api/jobs", 10.0, lambda: answer(ListRequest(view))),
        ("nodemanager jobs, in a pipe", 7.0, lambda: _print(rows)),
    )
    return [Cost(what, goal, cpu(step, measured), lines_s) for what, goal, step in steps]


def _settings() -> Settings:
    sizes = tuple(
        Size(f"size{n}", f"m{n}", cores=1 << n, ram_mb=4000 << n, scratch_mb=30_000, price=0.1 * n)
        for n in range(1, SIZES)
    )
    return replace(pools.settings_for(NODES), sizes=(pools.SIZE, *sizes), demand_polled=True)


def _print(rows: list[dict[str, object]]) -> None:
    with open(os.devnull, "w", encoding="utf-8") as nothing, contextlib.redirect_stdout(nothing):
        columns = JOBS.shown(Width.NARROW)
        out = show.console()
        show.say(out, listing_screen.table(rows, columns, whole=False, out=out))
