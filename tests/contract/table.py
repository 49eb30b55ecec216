"""What is asked of each cloud, for doc/contract.rst.

A row is a test: the first paragraph of its docstring, as `operations: what they must do`. A cell
is "yes" where the suite runs the test on that cloud, else the reason in tests/contract/lacks.py.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType

from tests.cloud import test_misbehaving
from tests.contract import test_cloud_contract
from tests.contract.clouds import CLOUDS
from tests.contract.lacks import Ability, Need, why_not

CONTRACT = """\

The contract
------------

The cloud works as it should, and other hands than ours change it
(``tests/contract/test_cloud_contract.py``).
"""
MISBEHAVING = """\

When the cloud misbehaves
-------------------------

A proxy stands between the adapter and the cloud. Each request of an operation meets each fault in
turn, on the real socket (``tests/cloud/test_misbehaving.py``).
"""
NOT_TRIED = "not tried yet"


@dataclass(frozen=True)
class Row:
    """What a test demands, and on which clouds it runs."""

    operations: str
    demand: str
    need: Need | None
    runs_on: frozenset[str]


def rows(module: ModuleType) -> Iterator[Row]:
    """The rows of a test file, in its order; none for a test of what a cloud does instead."""
    for name, test in vars(module).items():
        if not name.startswith("test_"):
            continue
        marks = {mark.name: mark for mark in reversed(getattr(test, "pytestmark", ()))}
        if "lacks" in marks:
            continue
        needs: tuple[Need | None, ...] = marks["needs"].args if "needs" in marks else (None,)
        operations, demand = _told(test)
        for need in needs:
            said = demand.format(need=need) if len(needs) > 1 else demand
            yield Row(operations, said, need, _runs_on(module, test, need if needs[1:] else None))


def _told(test: Callable[..., None]) -> tuple[str, str]:
    first = (inspect.getdoc(test) or "").partition("\n\n")[0]
    operations, colon, demand = " ".join(first.split()).partition(": ")
    if not colon or not demand.endswith("."):
        raise ValueError(f"{test.__name__}: its docstring is not `operations: what they must do.`")
    return operations, demand


def _runs_on(module: ModuleType, test: Callable[..., None], need: Need | None) -> frozenset[str]:
    """The clouds that the test, or its case for that need, has a parameter for."""
    for mark in getattr(test, "pytestmark", ()):
        if mark.name == "parametrize" and mark.args[0] in ("cloud", ("cloud", "need")):
            cases = [one.values for one in mark.args[1]]
            return frozenset(case[0] for case in cases if need in (None, *case[1:]))
    return frozenset(module.clouds.all)


def cell(row: Row, cloud: str) -> str:
    """`yes`, or why not."""
    if cloud in row.runs_on:
        return "yes"
    return why_not(cloud, row.need) or why_not(cloud, Ability.SERVER) or NOT_TRIED


def _table(module: ModuleType) -> Iterator[str]:
    reasons: dict[str, int] = {}
    width = 40 // len(CLOUDS)
    yield ".. list-table::\n   :header-rows: 1"
    yield f"   :widths: 16 44 {' '.join([str(width)] * len(CLOUDS))}\n"
    yield from _row(["Operation", "What it must do", *CLOUDS])
    for row in rows(module):
        cells = [cell(row, cloud) for cloud in CLOUDS]
        shown = [
            one if one == "yes" else f"no ({reasons.setdefault(one, len(reasons) + 1)})"
            for one in cells
        ]
        operations = ", ".join(f"``{one}``" for one in row.operations.split(", "))
        yield from _row([operations, row.demand, *shown])
    yield ""
    for reason, number in reasons.items():
        yield f"({number}) {reason}"
    yield ""


def _row(cells: list[str]) -> Iterator[str]:
    for index, one in enumerate(cells):
        yield f"   {'*' if index == 0 else ' '} - {one}"


def page() -> str:
    """What stands in for each cloud, and the tables, as reStructuredText."""
    stand_ins = [
        f"``{cloud}``\n   {' '.join((inspect.getdoc(fixture) or '').split())}"
        for cloud, fixture in CLOUDS.items()
    ]
    lines = [
        "\n".join(stand_ins),
        CONTRACT,
        *_table(test_cloud_contract),
        MISBEHAVING,
        *_table(test_misbehaving),
    ]
    return re.sub(r" +$", "", "\n".join(lines), flags=re.MULTILINE).rstrip("\n") + "\n"
