"""Makes the script of a failing seed short: faults are taken out while it still fails."""

from __future__ import annotations

from tests.simulation.run import Result, run


def shrink(seed: int, rule: str) -> tuple[Result, frozenset[int]]:
    """The run with as few faults as still break `rule`, and the numbers of those left out."""
    best = run(seed)
    left_out: frozenset[int] = frozenset()
    tried = True
    while tried:
        tried = False
        for fault in best.faults:
            without = left_out | {fault.number}
            result = run(seed, without=without)
            if rule in {one.rule for one in result.violations}:
                best, left_out, tried = result, without, True
                break
    return run(seed, without=left_out, verbose=True), left_out


def told(result: Result, left_out: frozenset[int]) -> str:
    """The shrunk script as text, with the command that plays it again."""
    scenario = result.scenario
    without = "".join(f" --without {number}" for number in sorted(left_out))
    lines = [
        f"seed {scenario.seed}, {scenario.label}; this run {result.label}",
        *(f"  {fault}" for fault in result.faults),
        *(f"  => {one.rule} at {one.at - 100_000:.0f} s: {one.what}" for one in result.violations),
        f"  again: python -m tests.simulation {scenario.seed}{without}",
    ]
    return "\n".join(lines)
