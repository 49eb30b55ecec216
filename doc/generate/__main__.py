"""Writes what the manual includes and nobody writes by hand: python -m doc.generate.

Each file of doc/_made is the text that the named function returns.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from pkgutil import resolve_name

from doc.generate import cloud_options

ROOT = Path(__file__).resolve().parents[2]
MADE_IN = ROOT / "doc" / "_made"
TEXTS = {
    "events.inc": "doc.generate.events:tables",
    "metrics.inc": "doc.generate.metrics:table",
    "options.inc": "doc.generate.options:entries",
    "verify.inc": "doc.generate.outlooks:table",
    "ends.inc": "tests.actors.ends:table",
    "contract.inc": "tests.contract.table:page",
    "bounds.inc": "tests.simulation.table:bounds",
    "proof.inc": "tests.simulation.table:page",
}
EXPLORED = {"workflows.inc": "tests.core.execute.explored.drawn:page"}
"""Half a minute of exploring: made anew only when something that it explores is newer."""
EXPLORES = ("nodemanager/core", "tests/core/execute/explored")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m doc.generate")
    parser.add_argument(
        "--brief", type=Path, metavar="DIR", help="into DIR, where the drawings lack arrows"
    )
    brief: Path | None = parser.parse_args().brief
    made_in = brief or MADE_IN
    made_in.mkdir(exist_ok=True)
    for name, function in TEXTS.items():
        write(made_in / name, resolve_name(function)())
    for cloud in cloud_options.CLOUDS:
        write(made_in / f"options-{cloud}.inc", cloud_options.page(cloud))
    for name, function in EXPLORED.items():
        file = made_in / name
        if not is_current(file):
            write(file, resolve_name(function)(is_brief=brief is not None))
            file.touch()


def write(file: Path, text: str) -> None:
    """Write it, but for a text that is there already: Sphinx reads again what is newer."""
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")


def is_current(file: Path) -> bool:
    sources = (one for folder in EXPLORES for one in (ROOT / folder).rglob("*.py"))
    newest = max(one.stat().st_mtime for one in sources)
    return file.exists() and file.stat().st_mtime > newest


if __name__ == "__main__":
    main()
