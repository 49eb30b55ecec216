"""How big the package is, and what is biggest in it: python -m tests.figures.

A report for whoever changes the house, by `make figures`; nothing fails by it.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import combinations
from pathlib import Path
from typing import Any

import grimp
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
PACKAGE = "nodemanager"
LONG_LINES, MANY_BRANCHES, SHARED_LINES, LONG_FILE = 60, 15, 6, 500
BRANCHES = (
    ast.If,
    ast.For,
    ast.While,
    ast.ExceptHandler,
    ast.IfExp,
    ast.comprehension,
    ast.match_case,
    ast.Assert,
)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _lines_of(tree: ast.Module, wanted: Callable[[ast.AST], bool]) -> set[int]:
    """The numbers of the lines that the wanted statements take."""
    found = set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and wanted(node):
            found |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return found


@dataclass(frozen=True)
class Source:
    """One file; `name` is its module's."""

    name: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def code(self) -> list[str]:
        """Its lines stripped, but for blank ones, comments and docstrings."""
        return [line for _, line in self._code]

    @cached_property
    def imported(self) -> list[bool]:
        """For each line of `code`, whether it belongs to an import."""
        lines = _lines_of(self.tree, lambda one: isinstance(one, (ast.Import, ast.ImportFrom)))
        return [number in lines for number, _ in self._code]

    @cached_property
    def _code(self) -> list[tuple[int, str]]:
        said = _lines_of(
            self.tree,
            lambda one: isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant),
        )
        lines = enumerate(map(str.strip, self.text.splitlines()), 1)
        return [
            (number, line)
            for number, line in lines
            if number not in said and line and not line.startswith("#")
        ]

    @property
    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        return (node for node in ast.walk(self.tree) if isinstance(node, FUNCTIONS))


@dataclass
class Class:
    """A class with all its bases of the package: what one must hold in one's head to change it."""

    name: str
    bases: list[str] = field(default_factory=list)
    lines: int = 0
    methods: int = 0
    fields: set[str] = field(default_factory=set)


def sources() -> list[Source]:
    found = []
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        found.append(Source(name, path.read_text(encoding="utf-8")))
    return found


def package_of(module: str) -> str:
    return ".".join(module.split(".")[:2]) if module.count(".") > 1 else PACKAGE


def branches(function: ast.AST) -> int:
    """Its own, without those of the functions in it."""
    count = 0
    for node in ast.iter_child_nodes(function):
        if isinstance(node, FUNCTIONS):
            continue
        if isinstance(node, ast.BoolOp):
            count += len(node.values) - 1
        count += isinstance(node, BRANCHES) + branches(node)
    return count


def big_functions(of: list[Source]) -> list[str]:
    found = []
    for source in of:
        for one in source.functions:
            lines = (one.end_lineno or one.lineno) - one.lineno + 1
            if lines > LONG_LINES or branches(one) > MANY_BRANCHES:
                found.append(f"{source.name}.{one.name}: {lines} lines, {branches(one)} branches")
    return found


def classes(of: list[Source]) -> list[Class]:
    """Each with its bases, the largest first. A name stands for one class of the package."""
    nodes = {
        node.name: node
        for source in of
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ClassDef)
    }

    def line_of(name: str) -> list[str]:
        named = [base.id for base in nodes[name].bases if isinstance(base, ast.Name)]
        known = [base for base in named if base in nodes]
        return list(dict.fromkeys([name, *(one for base in known for one in line_of(base))]))

    made = []
    for name in nodes:
        one = Class(name, line_of(name)[1:])
        for base in (name, *one.bases):
            node = nodes[base]
            one.lines += (node.end_lineno or node.lineno) - node.lineno + 1
            one.methods += sum(isinstance(part, FUNCTIONS) for part in node.body)
            one.fields |= {
                part.attr
                for part in ast.walk(node)
                if isinstance(part, ast.Attribute)
                and isinstance(part.ctx, ast.Store)
                and isinstance(part.value, ast.Name)
                and part.value.id == "self"
            }
        made.append(one)
    return sorted(made, key=lambda one: -one.methods)


def circles() -> list[list[str]]:
    """Import circles: each once, as the modules that import one another."""
    graph = grimp.build_graph(PACKAGE)
    needs = {name: set(graph.find_modules_directly_imported_by(name)) for name in graph.modules}
    found = []
    while True:
        try:
            TopologicalSorter(needs).prepare()
        except CycleError as error:
            circle = [str(name) for name in error.args[1]]
            found.append(sorted(set(circle)))
            needs[circle[1]].discard(circle[0])
        else:
            return found


def undocumented(of: list[Source]) -> int:
    """Public definitions without a docstring."""
    count = 0
    for source in of:
        for node in ast.walk(source.tree):
            if isinstance(node, (*FUNCTIONS, ast.ClassDef)) and not node.name.startswith("_"):
                count += ast.get_docstring(node) is None
    return count


def shared(of: list[Source]) -> int:
    """Pairs of places that share six or more lines of code, each run of lines once."""
    places: dict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
    for number, source in enumerate(of):
        code = source.code
        for at in range(len(code) - SHARED_LINES + 1):
            if not any(source.imported[at : at + SHARED_LINES]):
                places[tuple(code[at : at + SHARED_LINES])].append((number, at))
    pairs = {pair for same in places.values() for pair in combinations(same, 2)}
    # What goes on where another pair began is that pair.
    return sum(
        ((one[0], one[1] - 1), (other[0], other[1] - 1)) not in pairs for one, other in pairs
    )


def figures() -> dict[str, Any]:
    """All of them, for a machine."""
    all_of_it = sources()
    packages: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for source in all_of_it:
        packages[package_of(source.name)][0] += source.text.count("\n")
        packages[package_of(source.name)][1] += len(source.code)
    largest = classes(all_of_it)[0]
    return {
        "lines": {name: lines for name, (lines, _) in sorted(packages.items())},
        "sloc": {name: sloc for name, (_, sloc) in sorted(packages.items())},
        "largest_class": {
            "name": largest.name,
            "bases": len(largest.bases),
            "methods": largest.methods,
            "fields": len(largest.fields),
            "lines": largest.lines,
        },
        "circles": circles(),
        "big_functions": big_functions(all_of_it),
        "long_files": {
            source.name: source.text.count("\n")
            for source in all_of_it
            if source.text.count("\n") > LONG_FILE
        },
        "undocumented": undocumented(all_of_it),
        "shared": shared(all_of_it),
    }


def show(seen: dict[str, Any], console: Console) -> None:
    table = Table(title="The package in figures")
    for heading in ("", "lines", "of code"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, lines in seen["lines"].items():
        table.add_row(name, f"{lines:,}", f"{seen['sloc'][name]:,}")
    totals = [sum(seen[kind].values()) for kind in ("lines", "sloc")]
    table.add_section()
    table.add_row("all", *(f"{total:,}" for total in totals))
    console.print(table)
    largest = seen["largest_class"]
    long_files = ", ".join(f"{name} {lines}" for name, lines in seen["long_files"].items())
    for line in (
        f"largest class: {largest['name']} with {largest['bases']} bases: {largest['methods']} "
        f"methods, {largest['fields']} fields, {largest['lines']:,} lines",
        f"import circles: {len(seen['circles'])}"
        + "".join(f"\n  {', '.join(circle)}" for circle in seen["circles"]),
        f"functions over {LONG_LINES} lines or {MANY_BRANCHES} branches: "
        f"{len(seen['big_functions'])} (--all names them)",
        f"files over {LONG_FILE} lines: {long_files or 'none'}",
        f"public definitions without docstring: {seen['undocumented']}",
        f"pairs of places that share {SHARED_LINES} or more lines: {seen['shared']}",
    ):
        console.print(line, highlight=False)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.figures", description=__doc__)
    parser.add_argument("--json", action="store_true", help="for a machine")
    parser.add_argument("--all", action="store_true", help="name the big functions, too")
    asked = parser.parse_args()
    seen = figures()
    if asked.json:
        print(json.dumps(seen, indent=1))
        return 0
    show(seen, Console())
    if asked.all:
        print("\n".join(seen["big_functions"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
