"""What a cloud took that had no adapter, for doc/developing.rst."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from nodemanager.cloud.provider import Provider
from nodemanager.cloud.reading import NodeReader
from tests.cloud import test_misbehaving
from tests.cloud.sixth.adapter import DigitalOcean
from tests.cloud.sixth.droplet import READER
from tests.contract import test_cloud_contract
from tests.contract.clouds import EXAMPLE
from tests.contract.table import cell, rows
from tests.figures import Source

HERE = Path(__file__).parent
ADAPTER = ("options", "errors", "droplet", "wire", "checks", "adapter")
TESTS = ("server", "helpers", "contract", "test_digitalocean")
CLOUDS = HERE.parents[2] / "nodemanager" / "cloud"
WITH_LEFTOVERS = ("azure", "ec2", "gce", "openstack")
PARTS = (
    *("adapter", "wire", "order", "access", "options", "errors"),
    *("instance", "node", "labels", "leftovers"),
)
"""The files of a shipped cloud that a new one needs, too: how it is reached, what is sent and read,
and what nodes leave behind. Sign-in, images and checks are more."""


def source(name: str) -> Source:
    return Source(name, (HERE / f"{name}.py").read_text(encoding="utf-8"))


def lines_of(names: tuple[str, ...]) -> int:
    """The lines of code, without blank ones, comments and docstrings."""
    return sum(len(source(name).code) for name in names)


def written() -> tuple[list[str], list[str]]:
    """The hooks of `Provider` that the example has, and those that it leaves at their defaults."""
    hooks = [name for name in vars(Provider) if not name.startswith("_")]
    own = vars(DigitalOcean)
    return [one for one in hooks if one in own], [one for one in hooks if one not in own]


def read_by_us() -> list[str]:
    """The fields of `NodeReader` that the example gives."""
    return [one.name for one in fields(NodeReader) if getattr(READER, one.name) is not one.default]


def answers() -> Counter[str]:
    """How many rows of doc/contract.rst the example has by what their cell would say."""
    modules = (test_cloud_contract, test_misbehaving)
    return Counter(cell(row, EXAMPLE) for module in modules for row in rows(module))


def shipped() -> tuple[str, int]:
    """The smallest cloud that is shipped with leftovers, and the lines of code of its PARTS."""
    found = {
        cloud: sum(
            len(Source(part, path.read_text(encoding="utf-8")).code)
            for part in PARTS
            if (path := CLOUDS / cloud / f"{part}.py").exists()
        )
        for cloud in WITH_LEFTOVERS
    }
    return min(found.items(), key=lambda pair: pair[1])


def page() -> str:
    """The whole file as reStructuredText."""
    return "\n".join([*_files(), *_hooks(), *_contract()])


def _files() -> Iterator[str]:
    yield ".. list-table::\n   :header-rows: 1\n   :widths: 30 15 55\n"
    yield "   * - File\n     - Lines of code\n     - What it has"
    for name in (*ADAPTER, *TESTS):
        told = inspect.cleandoc(source(name).tree.body[0].value.value)  # type: ignore[attr-defined]
        first = " ".join(told.partition("\n\n")[0].split())
        yield f"   * - ``{name}.py``\n     - {len(source(name).code)}\n     - {first}"
    yield f"   * - *the adapter*\n     - {lines_of(ADAPTER)}\n     -"
    yield f"   * - *its tests*\n     - {lines_of(TESTS)}\n     -\n"


def _hooks() -> Iterator[str]:
    cloud, lines = shipped()
    yield f"The smallest cloud that is shipped with leftovers is ``{cloud}``: adapter, wire, order,"
    yield f"options, errors, a node's fields and leftovers are {lines} lines of code.\n"
    own, default = written()
    yield f"Of the {len(own) + len(default)} hooks of ``Provider`` it has {len(own)}: {_code(own)}."
    yield f"It leaves {len(default)} at their defaults: {_code(default)}.\n"
    yield f"To its ``NodeReader`` it gives {_code(read_by_us())}.\n"


def _contract() -> Iterator[str]:
    found = answers()
    met = found.pop("yes")
    every = met + found.total()
    yield f"Of the {every} demands in :doc:`contract`, the suites hold it to {met}, and it meets"
    yield f"them. The other {found.total()} ask for what it does not have:\n"
    for reason, many in sorted(found.items()):
        yield f"* {reason} ({many})"
    yield ""


def _code(names: list[str]) -> str:
    return ", ".join(f"``{name}``" for name in names)
