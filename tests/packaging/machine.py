"""An installation of `make install` in directories of a test's own.

The program that is installed is a copy of this tree, without its dependencies: those are the
business of pip.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from nodemanager import __version__
from tests.packaging.conftest import TREE, environment, run

FILES = ("Makefile", "setup.py", "pyproject.toml", "constraints.txt", "README.rst", "LICENSE")
NEXT = "1.0.1"
"""A version that an installation of this one is upgraded to."""


class Machine:
    """Where one installation goes, and the tree it comes from."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tree = root / "tree"
        self.tree.mkdir(parents=True)
        for name in FILES:
            shutil.copy(TREE / name, self.tree)
        for name in ("nodemanager", "etc"):
            shutil.copytree(
                TREE / name, self.tree / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        (self.tree / "etc" / "sample.cfg").write_text("[Cloud]\nprovider = dummy\n")
        self.prefix = root / "opt"
        self.config = root / "etc" / "nodemanager"
        self.state = root / "var" / "lib" / "nodemanager"
        self.units = root / "units"
        self.command = root / "bin" / "nodemanager"

    def make(self, target: str, **env: str) -> tuple[int, str]:
        settings = {
            "SYSCONFDIR": str(self.root / "etc"),
            "LOCALSTATEDIR": str(self.root / "var"),
            "UNITDIR": str(self.units),
            "BINDIR": str(self.root / "bin"),
            "SHAREDIR": str(self.root / "share"),
            "NM_NO_USER": "1",
            "NM_NO_DEPS": "1",
            "PIP_COMPILE": "0",
            "PYTHON": sys.executable,
            **env,
        }
        done = run(
            "make", target, f"PREFIX={self.prefix}", "NAME=sample", cwd=self.tree, **settings
        )
        return done.returncode, done.stdout

    def install(self, **env: str) -> str:
        code, said = self.make("install", **env)
        assert code == 0, said
        return said

    def is_now(self, version: str) -> None:
        """Its tree is of that version."""
        package = self.tree / "nodemanager" / "__init__.py"
        package.write_text(package.read_text().replace(f'"{__version__}"', f'"{version}"'))

    def give_dependencies(self) -> None:
        """Let the installed program use the libraries of the one that runs this test."""
        (site,) = (self.prefix / "current" / "lib").glob("python3*/site-packages")
        (site / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")

    def python(self, text: str, *arguments: Path) -> str:
        """What the installed environment's Python prints when it runs `text`, as its service."""
        done = subprocess.run(
            [self.prefix / "current" / "bin" / "python", "-c", text, *arguments],
            cwd="/",
            env=environment(STATE_DIRECTORY=str(self.state / "sample"), PYTHONPATH=""),
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        return done.stdout.strip()

    def keep(self) -> None:
        """Put the program aside, for `restore`."""
        shutil.copytree(self.prefix, self.root / "kept", symlinks=True)

    def restore(self) -> None:
        """The program that was kept is there again, as after another installation."""
        shutil.rmtree(self.prefix, ignore_errors=True)
        shutil.copytree(self.root / "kept", self.prefix, symlinks=True)

    def releases(self) -> list[str]:
        return sorted(path.name for path in (self.prefix / "releases").iterdir())
