"""What is shown for each rule, for doc/proof.rst and doc/fault-model.rst."""

from __future__ import annotations

import ast
import re
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from tests.mutation.mutants import MUTANTS as TEXT_MUTANTS
from tests.simulation.bounds import TABLE
from tests.simulation.faults import KINDS
from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.mutation import SEEDS, Catch, known
from tests.simulation.scenario import draw

ROOT = Path(__file__).parents[2]
HEAD = """\
Of {count} mutants {caught} are noticed{missed}.
"""
RULES = """\

Rules
-----

*Tests* are the files under ``tests/`` that cite the rule; *Mutants* says how many ways of switching
it off are noticed, of how many; a rule without any is shown by its tests alone. *Faults* are the
kinds that the noticing runs can't do without: where there are none, fair weather is enough, with
nodes that come and go. *Seeds* says how many of those that ``make proof NAME=worlds``
plays have a monitor of the rule; the simulation has no monitor of a rule without any, and
shows nothing of it.

Not every monitor is in every world. Of the {seeds} seeds, in

* {seated} Slurm's own nodes are the records: of all monitors, those of cleans, slots, breakers that
  close, operators' orders and what is sent are there, and some of their own;
* {imaged} the cloud tells its nodes' images: the monitors of rotation see something only there;
* {dispatched} a dispatcher gives out the work: its own monitors are there, and that of work by a
  node's own word is not;
* {unproven} the adapters may not authorise cleans (L2): there the calm ends at once, and nothing is
  owed in it.
"""
SWITCHED = """\

Switched off
------------

What was exchanged is in ``tests/simulation/mutants.py``; the monitors are beside it.
"""
CHANGED = """\

Changed lines
-------------

What the simulation can't see, or a unit test sees sooner: {count} changes of single lines, over
core, actors, records, cloud and journal. ``python -m tests.mutation`` makes each in a copy of the
tree and runs the test that is named here, which must fail; it must pass without the change. They
are in
``tests/mutation/mutants.py``.
"""
PINGED = frozenset(
    {
        *("aftermath", "boot_loops", "causes", "creates", "nodes", "progress", "queue_order"),
        *("setups", "work"),
    }
)
"""The monitors of worlds whose nodes ping (tests/simulation/run.py)."""
ROTATED = frozenset({"rotations"})
"""Those that see something only where a cloud tells images."""
DISPATCHED = frozenset({"dispatches"})
"""Those of worlds with a dispatcher."""
SEATED = frozenset({"seat_rules"})
"""Those of worlds whose records are Slurm's nodes."""
NO_MONITORS = frozenset({"mutants", "mutation", "table"})
"""They name every rule, and watch none."""
NO_TESTS = frozenset({"test_mutants", "test_rules_doc"})
"""They name every rule, and show none."""
KINDS_TEXT = """\

Faults
------

{count} kinds; a seed draws from two to twenty of them, with their times. One that breaks an
assumption is drawn in such runs alone.
"""


def rules() -> tuple[str, ...]:
    """The ids in doc/rules.rst, in its order."""
    text = (ROOT / "doc" / "rules.rst").read_text(encoding="utf-8")
    return tuple(re.findall(r"^   \* - ([A-Z]\d+[a-z]?)$", text, re.MULTILINE))


def cited(text: str) -> frozenset[str]:
    """The rules that a test's source names: as C5 or P1a, within C0-C10, or in a name as
    test_..._c5 or test_..._p1a."""
    found = set(re.findall(r"\b[A-Z]\d{1,2}[a-z]?\b", text))
    for letter, first, last in re.findall(r"\b([A-Z])(\d+)-\1?(\d+)\b", text):
        found |= {f"{letter}{number}" for number in range(int(first), int(last) + 1)}
    for name in re.findall(r"^\s*def (test_\w+)", text, re.MULTILINE):
        found |= {
            part.capitalize()
            for part in name.split("_")
            if re.fullmatch(r"[a-z]\d{1,2}[a-z]?", part)
        }
    return frozenset(found)


@cache
def _citations() -> dict[str, frozenset[str]]:
    """By test file, the rules it cites; the simulation's own are no tests."""
    root = ROOT / "tests"
    return {
        path.relative_to(root).as_posix().removesuffix(".py"): cited(path.read_text("utf-8"))
        for path in sorted(root.rglob("test_*.py"))
        if path.stem not in NO_TESTS
    }


def tests_of(rule: str) -> tuple[str, ...]:
    return tuple(name for name, rules in _citations().items() if rule in rules)


@dataclass(frozen=True)
class Worlds:
    """How many of the fixed seeds have what decides which monitors there are."""

    seated: int
    imaged: int
    dispatched: int
    unproven: int


@cache
def worlds() -> Worlds:
    shapes = [draw(seed).shape for seed in range(SEEDS)]
    pinging = [one for one in shapes if one.seated is None]
    return Worlds(
        seated=len(shapes) - len(pinging),
        imaged=sum(one.traits.images for one in pinging),
        dispatched=sum(one.dispatching is not None for one in pinging),
        unproven=sum(not one.proven for one in shapes),
    )


@cache
def monitored() -> dict[str, int]:
    """The rules of which the simulation has a monitor, those that its code can report broken, and
    how many of the fixed seeds have it."""
    named: dict[str, set[str]] = defaultdict(set)
    for path in Path(__file__).parent.glob("*.py"):
        if path.stem not in NO_MONITORS:
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    named[node.value].add(path.stem)
    return {rule: _seeds_with(named[rule]) for rule in rules() if rule in named}


def _seeds_with(files: set[str]) -> int:
    """How many seeds have one of these monitors."""
    of, pinging = worlds(), SEEDS - worlds().seated
    count = 0
    if files - PINGED - ROTATED - DISPATCHED - SEATED:
        return SEEDS
    if files & PINGED:
        count = pinging
    elif files & ROTATED or files & DISPATCHED:
        count = of.imaged * bool(files & ROTATED) + of.dispatched * bool(files & DISPATCHED)
    return count + (of.seated if files & SEATED else 0)


def _rows(columns: Iterable[Iterable[str]], widths: str) -> Iterator[str]:
    yield "\n.. list-table::\n   :header-rows: 1"
    yield f"   :widths: {widths}\n"
    for row in columns:
        for index, cell in enumerate(row):
            yield f"   {'*' if index == 0 else ' '} - {cell}"


def _conditions(rule: str, catches: dict[str, Catch]) -> str:
    mutants = [one for one in MUTANTS if one.rule == rule]
    if not mutants:
        return ""
    caught = sum(one.name in catches for one in mutants)
    return f"{caught} of {len(mutants)}"


def _faults(rule: str, catches: dict[str, Catch]) -> str:
    mine = [catches[one.name] for one in MUTANTS if one.rule == rule and one.name in catches]
    return "; ".join(sorted({kind for one in mine for kind in one.faults}))


def _switched(mutant: Mutant, caught: Catch | None) -> tuple[str, ...]:
    beside = f" (with {', '.join(mutant.with_)})" if mutant.with_ else ""
    if caught is None:
        return mutant.rule, mutant.what + beside, f"nobody: {mutant.open}"
    storm = "" if mutant.storm is None else ", in a storm of its kinds"
    return mutant.rule, mutant.what + beside, f"{caught.monitor}, seed {caught.seed}{storm}"


def bounds() -> str:
    """The table of fault-model.rst: what must come in the calm, and by when."""
    text = ".. list-table::\n   :header-rows: 1\n   :widths: 15 40 45\n\n"
    for name, *cells in (("Bound", "What comes", "Within"), *TABLE):
        mark = "   * - "
        for cell in (f"``{name}``" if cells[0] != "What comes" else name, *cells):
            text += textwrap.fill(cell, 100, initial_indent=mark, subsequent_indent=" " * 7)
            text += "\n"
            mark = "     - "
    return text


def page() -> str:
    catches = known()
    names = [one.name for one in MUTANTS if one.name not in catches]
    count = f"{len(names)} are" if len(names) > 1 else "one is"
    missed = f"; {count} not, and it is said why" if names else ""
    head = HEAD.format(count=len(MUTANTS), caught=len(MUTANTS) - len(names), missed=missed)
    seeds = {rule: str(count) for rule, count in monitored().items()}
    of_rules = [("Rule", "Tests", "Mutants", "Faults", "Seeds")]
    of_rules += [
        (
            rule,
            ", ".join(tests_of(rule)) or "none",
            _conditions(rule, catches),
            _faults(rule, catches),
            seeds.get(rule, ""),
        )
        for rule in rules()
    ]
    of_mutants = [("Rule", "How", "Noticed by")]
    of_mutants += [_switched(one, catches.get(one.name)) for one in MUTANTS]
    of_changes = [("Rule", "What breaks", "Noticed by")]
    of_changes += [(one.rule, one.what, one.test or str(one.why_not)) for one in TEXT_MUTANTS]
    of_kinds = [("Kind", "Breaks")]
    of_kinds += [(kind.name, kind.breaks or "") for kind in KINDS.values()]
    lines = [
        head + RULES.format(seeds=SEEDS, **asdict(worlds())),
        *_rows(of_rules, "7 43 10 30 10"),
        SWITCHED,
        *_rows(of_mutants, "8 52 40"),
        CHANGED.format(count=len(TEXT_MUTANTS)),
        *_rows(of_changes, "8 52 40"),
        KINDS_TEXT.format(count=len(KINDS)),
        *_rows(of_kinds, "80 20"),
    ]
    return re.sub(r" +$", "", "\n".join(lines), flags=re.MULTILINE) + "\n"
