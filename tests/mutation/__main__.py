"""Makes each change of the catalog in a copy of the tree, and runs the test that must notice it.

    python -m tests.mutation              all of them
    python -m tests.mutation U5 D8        those of these rules
    python -m tests.mutation --search T   which test under T notices those that name none

Exits with 1 when a change goes unnoticed, or when a test fails without any change.
"""

from __future__ import annotations

import argparse
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from tests.mutation.catalog import TextMutant
from tests.mutation.mutants import MUTANTS

ROOT = Path(__file__).parents[2]
COPIED = ("nodemanager", "tests", "etc", "doc")
TIME_LIMIT_S = 600


class Tree:
    """A copy of this tree, in which one change is made at a time."""

    def __init__(self, place: Path) -> None:
        self.place = place
        ignored = shutil.ignore_patterns("_build", "__pycache__")
        for name in COPIED:
            shutil.copytree(ROOT / name, place / name, ignore=ignored)
        for name in ("pyproject.toml", "setup.py", "README.rst", "CHANGELOG.rst", "Makefile"):
            shutil.copy(ROOT / name, place / name)
        self._changes = 0

    def fails(self, tests: str, mutant: TextMutant | None = None) -> str | None:
        """The first test that fails with the change made, or without any; None when all pass."""
        if mutant is None:
            return self._run(tests)
        path = self.place / "nodemanager" / mutant.file
        text = path.read_text(encoding="utf-8")
        self._write(path, changed(mutant, text))
        try:
            return self._run(tests)
        finally:
            self._write(path, text)

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")
        # Two changes within a second must not share a compiled file.
        self._changes += 1
        os.utime(path, (self._changes, self._changes))

    def _run(self, tests: str) -> str | None:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            *tests.split(),
        ]
        done = subprocess.run(
            command,
            cwd=self.place,
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT_S,
            check=False,
        )
        if done.returncode == 0:
            return None
        found = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
        if done.returncode != 1 or found is None:
            raise RuntimeError(f"pytest {tests}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return found.group(1)


def changed(mutant: TextMutant, text: str) -> str:
    """`text` with the change made. ValueError when there is not exactly one place for it."""
    count = text.count(mutant.old)
    if count != 1:
        raise ValueError(f"{mutant.name}: its text is {count} times in {mutant.file}")
    return text.replace(mutant.old, mutant.new)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rules", nargs="*", help="only these rules")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--search", metavar="TESTS", help="for those that name no test")
    asked = parser.parse_args()
    chosen = [one for one in MUTANTS if not asked.rules or one.rule in asked.rules]
    chosen = [one for one in chosen if (one.test is None) == bool(asked.search)]
    console = Console()
    unnoticed = 0
    with (
        tempfile.TemporaryDirectory(prefix="mutants-") as folder,
        Progress(console=console) as progress,
        ThreadPoolExecutor(asked.jobs) as pool,
    ):
        trees: queue.Queue[Tree] = queue.Queue()
        for number in range(asked.jobs):
            trees.put(Tree(Path(folder) / str(number)))
        task = progress.add_task("changes", total=len(chosen))

        def noticed(mutant: TextMutant) -> tuple[TextMutant, str | None]:
            tree = trees.get()
            try:
                return mutant, tree.fails(asked.search or mutant.test or "", mutant)
            finally:
                trees.put(tree)

        for mutant, test in pool.map(noticed, chosen):
            progress.advance(task)
            console.print(
                f"{mutant.name}: {test or 'NOT NOTICED'}", highlight=False, soft_wrap=True
            )
            unnoticed += test is None
        wanted = sorted({one.test for one in chosen if one.test is not None})
        broken = trees.get().fails(" ".join(wanted)) if wanted else None
    if broken is not None:
        console.print(f"{broken} fails without any change")
    return 1 if unnoticed or broken is not None else 0


if __name__ == "__main__":
    sys.exit(main())
