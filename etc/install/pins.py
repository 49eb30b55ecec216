"""pins.py EXTRA...: the pinned packages that this tree with those extras needs.

Prints a requirements file, each package with its version and hashes, for
`pip install --require-hashes`; pip takes no hash from a constraints file for what it finds itself.
The extra `build` stands for what builds the tree. `pins.py --split FILE` writes both files of pins
from what uv resolved. Needs only the standard library.
"""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

TREE = Path(__file__).parents[2]
PINNED = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==")
VIA = "    # via "
BUILD = "build"
FOR_TESTS = {"test", "doc", "audit"}
"""The extras that no installation has."""
FILES = {"constraints.txt": "an installation", "constraints-test.txt": "the tests alone"}
HEAD = """\
# The versions that were tested together, with the hashes of their files: what {whom} may need.
# Written by `make constraints`; etc/install/pins.py takes the part out of it that is needed.
"""


@dataclass
class Pin:
    """The lines of one package, one block for each of its versions, and what it is there for."""

    blocks: list[str] = field(default_factory=list)
    wanted_by: set[str] = field(default_factory=set)


def normal(name: str) -> str:
    """A package's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read(text: str) -> dict[str, Pin]:
    """The pins of such a file, by normal name."""
    pins: dict[str, Pin] = {}
    pin = None
    for line in text.splitlines(keepends=True):
        found = PINNED.match(line)
        if found:
            pin = pins.setdefault(normal(found["name"]), Pin())
            pin.blocks.append("")
        if pin is None or line.startswith(("#", "\n")):
            continue
        if line.startswith(VIA):
            pin.wanted_by |= set(line[len(VIA) :].strip().split(", "))
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


def split(pins: dict[str, Pin], wanted: dict[str, list[str]]) -> dict[str, str]:
    """The text of each file of pins, each package below the extras that bring it."""
    brought: dict[str, list[str]] = {name: [] for name in pins}
    for extra in sorted(wanted.keys() - FOR_TESTS):
        for name in closure(pins, wanted[extra]):
            brought[name].append(extra)
    texts = dict.fromkeys(FILES, "")
    groups: dict[str, list[str]] = {}
    for name, extras in brought.items():
        group = "every installation" if "" in extras else ", ".join(extras)
        groups.setdefault(group, []).append(name)
    for group in sorted(groups, key=lambda one: (one != "every installation", one)):
        file = "constraints.txt" if group else "constraints-test.txt"
        texts[file] += f"\n# {group}:\n" if group else "\n"
        for name in groups[group]:
            texts[file] += (
                "".join(pins[name].blocks) + VIA + ", ".join(sorted(pins[name].wanted_by)) + "\n"
            )
    return {file: HEAD.format(whom=whom) + texts[file] for file, whom in FILES.items()}


def main() -> int:
    wanted = declared((TREE / "setup.py").read_text(encoding="utf-8"))
    if sys.argv[1:2] == ["--split"]:
        resolved = read(Path(sys.argv[2]).read_text(encoding="utf-8"))
        for file, text in split(resolved, wanted).items():
            (TREE / file).write_text(text, encoding="utf-8")
        return 0
    extras = set(sys.argv[1:])
    if unknown := sorted(extras - wanted.keys()):
        print(f"setup.py has no extra {', '.join(unknown)}", file=sys.stderr)
        return 2
    roots = [name for extra in extras - {BUILD} | {""} for name in wanted[extra]]
    if extras == {BUILD}:
        roots = wanted[BUILD]
    files = list(FILES) if extras & FOR_TESTS else ["constraints.txt"]
    pins = read("".join((TREE / file).read_text(encoding="utf-8") for file in files))
    try:
        names = closure(pins, roots)
    except LookupError as error:
        print(f"{' and '.join(files)} lack {error}: make constraints", file=sys.stderr)
        return 1
    print("".join(block for name in names for block in pins[name].blocks), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
