"""Slurm's nodes as records, shared by two managers: one guard left out, each with its test."""

from __future__ import annotations

from tests.mutation.catalog import TextMutant

SEATS = (
    TextMutant(
        "T3",
        "a node of another pool's partition is resumed and switched off",
        "core/plan/errands.py",
        "        if node is None or node.elsewhere:\n",
        "        if node is None:\n",
        "tests/core/plan/test_errands.py::test_a_name_of_other_partitions_is_another_managers_matter_t3",
    ),
    TextMutant(
        "T3",
        "a seat that nobody had yet waits for a pool's name for ever",
        "core/observe/pools.py",
        "    if settings.seats:\n        adopts = True\n",
        "",
        "tests/core/plan/test_seats.py::test_of_two_pools_each_boots_the_seats_of_its_partitions_that_nobody_had_yet_t3",
    ),
)
