"""Plays seeds against every mutant: python -m tests.simulation.mutation.

Writes which seed catches each into mutants.json; the test plays that one first.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.run import Result, run
from tests.simulation.scenario import Storm
from tests.simulation.switch import thrown

SEEDS = 120
"""The fixed set: `make proof NAME=worlds` plays seeds 0 to 119, `make test` an eighth."""
SOUGHT = 270
"""In so many seeds one is looked for that notices a mutant."""
KNOWN = Path(__file__).with_name("mutants.json")


@dataclass(frozen=True)
class Catch:
    """The run that noticed a mutant: its seed, the monitor, and the faults that it takes."""

    seed: int
    monitor: str
    what: str
    faults: tuple[str, ...] = ()
    steps: int = field(default=0, compare=False)
    """How many steps of simulation it takes to show it."""


def play(mutant: Mutant, seed: int, without: Iterable[int] = ()) -> tuple[Catch | None, Result]:
    """That seed against that mutant; it ends with the first finding that counts."""
    noticed_by = mutant.noticed_by
    with thrown(mutant.switches):
        result = run(
            seed,
            storm=mutant.storm,
            without=frozenset(without),
            enough=lambda rule: rule in noticed_by,
        )
    found = next((one for one in result.violations if one.rule in noticed_by), None)
    caught = None if found is None else Catch(seed, found.rule, found.what, steps=result.steps)
    return caught, result


def catch(
    mutant: Mutant, first: int | None = None, seeds: int = SOUGHT, *, trusting: bool = False
) -> Catch | None:
    """The first seed that notices it; `first` and its own before all others.

    The product breaks nothing in the fixed set, where a mutant has no storm of its own: if
    `trusting`, these seeds are not played without the mutant.
    """
    own = (seed for seed in (first, mutant.seed) if seed is not None)
    for seed in dict.fromkeys((*own, *range(seeds))):
        caught, _ = play(mutant, seed)
        if caught is None:
            continue
        is_fixed = mutant.storm is None and seed < SEEDS
        if is_fixed and trusting:
            return caught
        broken, steps = _product(seed, mutant.storm)
        # What the product breaks as it is shows no mutant.
        if mutant.noticed_by.isdisjoint(broken):
            return caught if is_fixed else replace(caught, steps=caught.steps + steps)
    return None


@cache
def _product(seed: int, storm: Storm | None) -> tuple[frozenset[str], int]:
    """The rules that the product breaks in that run, and its steps; many mutants share one."""
    result = run(seed, storm=storm)
    return frozenset(one.rule for one in result.violations), result.steps


def explain(mutant: Mutant, caught: Catch) -> Catch:
    """With the kinds of fault that the run cannot do without; none for fair weather."""
    _, result = play(mutant, caught.seed)
    needed = list(result.faults)
    without: set[int] = set()
    for fault in result.faults:
        again, _ = play(mutant, caught.seed, without | {fault.number})
        if again is not None:
            without.add(fault.number)
            needed.remove(fault)
    final, _ = play(mutant, caught.seed, without)
    assert final is not None
    kinds = tuple(sorted({fault.kind for fault in needed}))
    return replace(final, faults=kinds, steps=caught.steps)


def known() -> dict[str, Catch]:
    """What the last regeneration found, by the mutant's name."""
    if not KNOWN.exists():
        return {}
    told = json.loads(KNOWN.read_text(encoding="utf-8"))
    return {
        name: Catch(**{**one, "faults": tuple(one["faults"])})
        for name, one in told.items()
        if one is not None
    }


def _work(job: tuple[int, Catch | None]) -> tuple[int, Catch | None]:
    index, before = job
    mutant = MUTANTS[index]
    caught = catch(mutant, None if before is None else before.seed)
    if caught is None or before is None or caught != replace(before, faults=()):
        return index, None if caught is None else explain(mutant, caught)
    # The world runs as it did, so that it needs the faults that it needed.
    return index, replace(before, steps=caught.steps)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rules", nargs="*", help="only these rules")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--afresh", action="store_true", help="seek all anew, the open ones too")
    asked = parser.parse_args()
    before = known()
    found: dict[str, Catch | None] = {**before} if asked.rules else {}
    # One that is open takes minutes, and says itself why no seed notices it.
    jobs = [
        (index, None if asked.afresh else before.get(mutant.name))
        for index, mutant in enumerate(MUTANTS)
        if not asked.rules or mutant.rule in asked.rules
        if mutant.open is None or asked.afresh
    ]
    console = Console()
    with Progress(console=console) as progress:
        task = progress.add_task("mutants", total=len(jobs))
        context = multiprocessing.get_context("spawn")
        with context.Pool(asked.jobs) as pool:
            for index, caught in pool.imap_unordered(_work, jobs):
                mutant = MUTANTS[index]
                found[mutant.name] = caught
                progress.advance(task)
                told = "NOT CAUGHT" if caught is None else f"seed {caught.seed}, {caught.monitor}"
                console.print(f"{mutant.name}: {told}", highlight=False)
    kept = {mutant.name: found.get(mutant.name) for mutant in MUTANTS}
    text = {name: None if one is None else asdict(one) for name, one in kept.items()}
    KNOWN.write_text(json.dumps(text, indent=1) + "\n", encoding="utf-8")
    missed = [one.name for one in MUTANTS if one.open is None and kept[one.name] is None]
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
