"""Plays one seed and prints what happened: python -m tests.simulation SEED [--shrink]."""

from __future__ import annotations

import argparse
import sys

from tests.simulation.run import run
from tests.simulation.shrink import shrink, told


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--without", type=int, action="append", default=[], metavar="NUMBER")
    parser.add_argument("--shrink", action="store_true", help="first make the script short")
    parser.add_argument("--leased", action="store_true", help="its world of several managers")
    asked = parser.parse_args()
    without = frozenset(asked.without)
    result = run(asked.seed, without=without, verbose=True, leased=asked.leased)
    left_out = frozenset(asked.without)
    if asked.shrink and result.failed and not asked.leased:
        result, left_out = shrink(asked.seed, result.violations[0].rule)
    for line in result.trace:
        print(line)
    print(result.scenario.shape)
    print(told(result, left_out))
    return 1 if result.failed else 0


if __name__ == "__main__":
    sys.exit(main())
