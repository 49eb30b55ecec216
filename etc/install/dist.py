"""dist.py DIRECTORY: builds the source distribution, and from it, unpacked, the wheel."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

TREE = Path(__file__).parents[2]
LEFT_OUT = (".*", "__pycache__", "build", "dist", "*.egg-info", "html", "doctrees", "_made")
BUILD = (
    "import sys; from setuptools import build_meta; getattr(build_meta, sys.argv[1])(sys.argv[2])"
)


def built(how: str, tree: Path, into: Path) -> None:
    """Run a hook of the build backend in `tree`, in a process of its own."""
    command = [sys.executable, "-c", BUILD, how, str(into)]
    done = subprocess.run(
        command, cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{done.stdout}{how} failed")


def main() -> int:
    into = Path(sys.argv[1]).absolute()
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        # From a copy: a build leaves files beside the source, and picks up those of earlier ones.
        copy = Path(work, "copy")
        shutil.copytree(TREE, copy, ignore=shutil.ignore_patterns(*LEFT_OUT))
        built("build_sdist", copy, into)
        (sdist,) = into.glob("*.tar.gz")
        with tarfile.open(sdist) as packed:
            packed.extractall(work, filter="data")
        built("build_wheel", Path(work, sdist.name.removesuffix(".tar.gz")), into)
    for path in sorted(into.iterdir()):
        print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
