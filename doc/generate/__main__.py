"""Writes what the manual includes and nobody writes by hand: python -m doc.generate.

Each file of doc/_made is the text that the named function returns.
"""

from __future__ import annotations

from pathlib import Path
from pkgutil import resolve_name

from doc.generate import cloud_options

MADE_IN = Path(__file__).resolve().parents[1] / "_made"
TEXTS = {
    "events.inc": "doc.generate.events:tables",
    "metrics.inc": "doc.generate.metrics:table",
    "options.inc": "doc.generate.options:entries",
    "verify.inc": "doc.generate.outlooks:table",
    "ends.inc": "tests.actors.ends:table",
    "sixth.inc": "tests.cloud.sixth.figures:page",
    "contract.inc": "tests.contract.table:page",
    "workflows.inc": "tests.core.execute.explored.drawn:page",
    "bounds.inc": "tests.simulation.table:bounds",
    "proof.inc": "tests.simulation.table:page",
}


def main() -> None:
    """Write every file; one whose text is as it was keeps its time, so Sphinx reads it once."""
    MADE_IN.mkdir(exist_ok=True)
    texts = {name: resolve_name(function)() for name, function in TEXTS.items()}
    texts |= {f"options-{one}.inc": cloud_options.page(one) for one in cloud_options.CLOUDS}
    for name, text in texts.items():
        file = MADE_IN / name
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
