"""The replay of one recording under many sets of settings, on several processors.

Each process reads the journal by itself: passing a snapshot between processes costs more than
decoding it. All scenarios of a process share the decoded entries.
"""

from __future__ import annotations

import gc
import math
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any

from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.plan.plan import Plan
from nodemanager.core.replay.worth import ReplayOutcome
from nodemanager.errors import JournalError
from nodemanager.journal.reading import Decided, Outline, read
from nodemanager.journal.replay import within
from nodemanager.journal.scenarios import Scenario, ScenarioState, drive
from nodemanager.journal.verdicts import digest, verdicts_of
from nodemanager.lib.clock import SystemClock
from nodemanager.lib.memory import collecting

Changes = Mapping[str, Any]
"""Other settings, by field of Settings."""
Tick = Callable[[int], None]
"""Called with the number of decisions made since the last call."""

ALONE = 4_000_000
"""Below this product of bytes to read and scenarios, another process is not worth its start."""
MOST = 12_000_000
"""What `thinned` decides of this product at most: a minute of work of two processors."""
DIFFERING_KEPT = 50
LOOK_EVERY_S = 0.2


@dataclass(frozen=True, slots=True)
class Difference:
    """A verdict that differs from the recorded one; None on the side that has no verdict.

    Where kind and reason are the same on both sides, the measures differ.
    """

    plan_id: str
    wall: float
    subject: str
    id: str
    recorded: tuple[Kind, Reason] | None
    now: tuple[Kind, Reason] | None


@dataclass(frozen=True)
class Replayed:
    """The outcomes of a recording under the recorded settings and each other set of settings.

    `walls` are the decisions' times in epoch seconds. `differing` counts the decisions that did
    not come out as recorded; `differences` are the first of their verdicts. Of the decisions that
    order nothing only `every` so manyth was made again.
    """

    walls: tuple[float, ...]
    recorded: ReplayOutcome
    others: tuple[ReplayOutcome, ...]
    differing: int
    differences: tuple[Difference, ...]
    every: int = 1


@dataclass(frozen=True)
class _Task:
    """The numbered scenarios of one process; the scenario `plain` is compared with the journal."""

    path: Path
    since: float
    until: float
    scenarios: tuple[tuple[int, Changes, bool], ...]
    plain: int | None
    every: int


@dataclass(frozen=True)
class _Done:
    outcomes: dict[int, ReplayOutcome]
    walls: tuple[float, ...]
    differing: int
    differences: tuple[Difference, ...]


def replay(
    path: Path,
    outline: Outline,
    others: Sequence[Changes] = (),
    *,
    since: float = 0.0,
    until: float = float("inf"),
    jobs: int | None = None,
    tick: Tick = lambda _: None,
    thinned: bool = False,
) -> Replayed:
    """Decide the recording again, under the recorded settings and under each of `others`.

    `jobs` is the number of processes, by default the number of processors. `thinned`: of a long
    recording not the whole, so that it does not take too long. Raises JournalError as `read` does.
    """
    scenarios: list[tuple[int, Changes, bool]] = [(0, {}, True)]
    if not outline.acts:
        # A dry run never did what it ordered: another scenario counts its orders as done.
        scenarios.append((1, {}, False))
    first = len(scenarios)
    scenarios += [(first + at, changes, outline.acts) for at, changes in enumerate(others)]
    jobs = jobs or len(os.sched_getaffinity(0))
    if outline.size * len(scenarios) < ALONE:
        jobs = 1
    every = math.ceil(outline.size * len(scenarios) / MOST) if thinned else 1
    tasks = [
        _Task(path, since, until, tuple(share), 0 if share[0][0] == 0 else None, every)
        for share in _shares(scenarios, jobs)
    ]
    done = [_work_here(tasks[0], tick)] if len(tasks) == 1 else _work_together(tasks, tick)
    outcomes: dict[int, ReplayOutcome] = {}
    for one in done:
        outcomes |= one.outcomes
    return Replayed(
        walls=done[0].walls,
        recorded=outcomes[first - 1],
        others=tuple(outcomes[first + at] for at in range(len(others))),
        differing=done[0].differing,
        differences=done[0].differences,
        every=every,
    )


def steps(outline: Outline, others: int) -> int:
    """The number of decisions that `replay` makes."""
    return outline.decisions * (others + (1 if outline.acts else 2))


def _shares(
    scenarios: list[tuple[int, Changes, bool]], jobs: int
) -> list[list[tuple[int, Changes, bool]]]:
    """The scenarios distributed over `jobs` processes."""
    shares: list[list[tuple[int, Changes, bool]]] = [[] for _ in range(min(jobs, len(scenarios)))]
    for at, scenario in enumerate(scenarios):
        shares[at % len(shares)].append(scenario)
    return shares


def _work_here(task: _Task, tick: Tick) -> _Done:
    with collecting(SystemClock()):
        return _work(task, tick)


def _work(task: _Task, tick: Tick) -> _Done:
    scenarios = {number: Scenario(changes, acts=acts) for number, changes, acts in task.scenarios}
    plain = None if task.plain is None else list(scenarios).index(task.plain)
    course = ScenarioState()
    differing = 0
    differences: list[Difference] = []
    recorded = read(task.path, since=task.since, until=task.until)
    entries = within(recorded, task.since, task.until)
    for entry, plans in drive(entries, tuple(scenarios.values()), course, task.every):
        if plain is not None and digest(verdicts_of(plans[plain])) != entry.digest:
            differing += 1
            room = DIFFERING_KEPT - len(differences)
            differences += _differences(entry, plans[plain], course)[:room]
        tick(task.every * len(scenarios))
    outcomes = {number: scenario.outcome for number, scenario in scenarios.items()}
    return _Done(outcomes, tuple(course.walls), differing, tuple(differences))


def _differences(entry: Decided, made: Plan, course: ScenarioState) -> list[Difference]:
    now = {
        (subject, verdict.id): (verdict.kind, verdict.reason)
        for subject, verdict in verdicts_of(made)
    }
    keys = dict.fromkeys([*course.standing, *now])
    plan_id, wall, standing = entry.snapshot.plan_id, entry.snapshot.wall, course.standing
    found = [
        Difference(plan_id, wall, *key, standing.get(key), now.get(key))
        for key in keys
        if standing.get(key) != now.get(key)
    ]
    # Otherwise only measures differ, and the journal does not have those of every verdict.
    return found or [Difference(plan_id, wall, "plan", "", None, None)]


# Processes.


def _work_together(tasks: list[_Task], tick: Tick) -> list[_Done]:
    # No fork: the caller may have threads.
    context = multiprocessing.get_context("spawn")
    counter: Synchronized[int] = context.Value("q", 0)
    ticked = 0
    with ProcessPoolExecutor(
        len(tasks), mp_context=context, initializer=_begin, initargs=(counter,)
    ) as pool:
        futures: list[Future[_Done]] = [pool.submit(_work_apart, task) for task in tasks]
        try:
            while True:
                waited = wait(futures, timeout=LOOK_EVERY_S, return_when=FIRST_EXCEPTION)
                now = counter.value
                tick(now - ticked)
                ticked = now
                # Its own error, before our end of the others makes theirs.
                for one in waited.done:
                    one.result()
                if not waited.not_done:
                    return [future.result() for future in futures]
        except BrokenProcessPool as error:
            raise JournalError(
                "a process of the replay was killed from outside; --jobs 1 needs less memory"
            ) from error
        except BaseException:
            _end(pool)
            raise


def _end(pool: ProcessPoolExecutor) -> None:
    """End the processes, since nobody waits for their results any more."""
    processes = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.terminate()


_counter: Synchronized[int] | None = None


def _begin(counter: Synchronized[int]) -> None:
    global _counter
    _counter = counter
    # Ctrl-C reaches every process of a terminal; the main process ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A replay forms no reference cycles, and a collection would walk many objects.
    gc.disable()


def _work_apart(task: _Task) -> _Done:
    pending, counted_at = 0, time.monotonic()

    def count(taken: int) -> None:
        nonlocal pending, counted_at
        pending += taken
        now = time.monotonic()
        if now - counted_at > LOOK_EVERY_S and _counter is not None:
            with _counter.get_lock():
                _counter.value += pending
            pending, counted_at = 0, now

    return _work(task, count)
