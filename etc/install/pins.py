"""pins.py EXTRA...: the part of constraints.txt that this tree with those extras needs.

Prints a requirements file, each package with its version and hashes, for
`pip install --require-hashes`; pip takes no hash from a constraints file for what it finds itself.
The extra `build` stands for what builds the tree. Needs only the standard library.
"""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

TREE = Path(__file__).parents[2]
PINNED = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==")
BUILD = "build"


@dataclass
class Pin:
    """The lines of one package, one block for each of its versions, and what it is there for."""

    blocks: list[str] = field(default_factory=list)
    wanted_by: set[str] = field(default_factory=set)


def normal(name: str) -> str:
    """A package's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read(text: str) -> dict[str, Pin]:
    """The pins of constraints.txt, by normal name."""
    pins: dict[str, Pin] = {}
    pin = None
    for line in text.splitlines(keepends=True):
        found = PINNED.match(line)
        if found:
            pin = pins.setdefault(normal(found["name"]), Pin())
            pin.blocks.append("")
        if pin is None:
            continue
        if line.startswith("    # via "):
            pin.wanted_by |= {normal(one) for one in line[10:].strip().split(", ")}
        else:
            pin.blocks[-1] += line
    return pins


def declared(setup: str) -> dict[str, list[str]]:
    """The names that setup.py requires, by extra; those of every installation under ''."""
    calls = [node for node in ast.walk(ast.parse(setup)) if isinstance(node, ast.Call)]
    (call,) = (c for c in calls if isinstance(c.func, ast.Name) and c.func.id == "setup")
    given = {word.arg: word.value for word in call.keywords}
    wanted = {"": given["install_requires"]}
    extras = given["extras_require"]
    assert isinstance(extras, ast.Dict)
    for key, value in zip(extras.keys, extras.values, strict=True):
        assert isinstance(key, ast.Constant)
        wanted[key.value] = value
    return {
        extra: [normal(re.split(r"[\[<>=~! ]", one)[0]) for one in ast.literal_eval(lines)]
        for extra, lines in wanted.items()
    } | {BUILD: ["setuptools"]}


def closure(pins: dict[str, Pin], names: list[str]) -> list[str]:
    """Those packages and all that they need, in order. Raises LookupError for one without a pin."""
    missing = [name for name in names if name not in pins]
    if missing:
        raise LookupError(", ".join(missing))
    found, ahead = set(names), list(names)
    while ahead:
        parent = ahead.pop()
        children = {name for name, pin in pins.items() if parent in pin.wanted_by} - found
        found |= children
        ahead += children
    return sorted(found)


def main() -> int:
    wanted = declared((TREE / "setup.py").read_text(encoding="utf-8"))
    unknown = [extra for extra in sys.argv[1:] if extra not in wanted]
    if unknown:
        print(f"setup.py has no extra {', '.join(unknown)}", file=sys.stderr)
        return 2
    roots = [name for extra in ("", *sys.argv[1:]) for name in wanted[extra]]
    if sys.argv[1:] == [BUILD]:
        roots = wanted[BUILD]
    pins = read((TREE / "constraints.txt").read_text(encoding="utf-8"))
    try:
        names = closure(pins, roots)
    except LookupError as error:
        print(f"constraints.txt lacks {error}: make constraints", file=sys.stderr)
        return 1
    print("".join(block for name in names for block in pins[name].blocks), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
