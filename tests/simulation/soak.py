"""Plays many seeds on all cores: python -m tests.simulation.soak --seeds 20000.

Ends with 1 and a shrunk script for the first seeds that fail.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.simulation.run import run
from tests.simulation.shrink import shrink, told

BATCH = 10
GC_AFTER = 50_000
TOLD_EVERY = 500
"""Where no progress bar is seen, a line tells of the progress after so many worlds."""
SHRUNK = 3
"""So many failing seeds are shrunk; the others are only named."""
CRASHED = "nothing: it crashed, as told above"


@dataclass
class Tally:
    """What some seeds came to. `failed` has the first rule that each broke."""

    runs: int = 0
    plans: int = 0
    hours: float = 0.0
    labels: Counter[str] = field(default_factory=Counter)
    failed: dict[int, str] = field(default_factory=dict)

    def add(self, other: Tally) -> None:
        self.runs += other.runs
        self.plans += other.plans
        self.hours += other.hours
        self.labels += other.labels
        self.failed |= other.failed


def play_all(seeds: Iterable[int], *, leased: bool = False) -> Tally:
    # What is there between two batches stays, and what ten worlds leave behind is some 50 MB: gc
    # looks at it once, before the next batch.
    gc.collect()
    gc.freeze()
    gc.disable()
    tally = Tally()
    for seed in seeds:
        try:
            result = run(seed, leased=leased)
        except Exception:
            # One that can't be played to its end has failed, and the others go on.
            tally.runs += 1
            tally.failed[seed] = CRASHED
            traceback.print_exc()
            continue
        tally.runs += 1
        tally.plans += result.plans
        tally.hours += result.seconds / 3600
        tally.labels[result.label] += 1
        if result.failed:
            tally.failed[seed] = result.violations[0].rule
    return tally


def _batches(first: int, count: int) -> Iterator[range]:
    for start in range(first, first + count, BATCH):
        yield range(start, min(start + BATCH, first + count))


def soak(first: int, count: int, jobs: int, console: Console, *, leased: bool) -> Tally:
    """All those seeds, shared among so many processes."""
    tally = Tally()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("failed {task.fields[failed]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("seeds", total=count, failed=0)
        context = multiprocessing.get_context("spawn")
        with context.Pool(jobs) as pool:
            play = partial(play_all, leased=leased)
            for part in pool.imap_unordered(play, _batches(first, count)):
                tally.add(part)
                progress.update(task, advance=part.runs, failed=len(tally.failed))
                told = (tally.runs - part.runs) // TOLD_EVERY < tally.runs // TOLD_EVERY
                if told and not console.is_terminal:
                    console.print(f"{tally.runs} of {count} played, {len(tally.failed)} failed")
                for seed, rule in sorted(part.failed.items()):
                    console.print(f"seed {seed} broke {rule}")
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many (1000)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (0)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--leased", action="store_true", help="their worlds of several managers")
    asked = parser.parse_args()
    console = Console()
    began = time.monotonic()
    tally = soak(asked.first, asked.seeds, asked.jobs, console, leased=asked.leased)
    took = time.monotonic() - began
    console.print(
        f"{tally.runs} runs, {tally.hours:.0f} hours simulated, {tally.plans} plans, "
        f"in {took:.0f} s ({tally.plans / took:.0f} plans a second); {len(tally.failed)} failed"
    )
    for label, count in tally.labels.most_common():
        console.print(f"  {count:6} {label}")
    broke = [one for one in sorted(tally.failed.items()) if one[1] != CRASHED]
    for seed, rule in broke[: 0 if asked.leased else SHRUNK]:
        console.print(f"\nmaking seed {seed} short ({rule}) ...")
        console.print(told(*shrink(seed, rule)), highlight=False)
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
