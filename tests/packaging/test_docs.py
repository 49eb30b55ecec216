"""The manual builds without a warning, every page of it reachable."""

import sys
from pathlib import Path

from tests.packaging.conftest import TREE, run


def test_the_manual_builds_without_a_warning(tmp_path: Path):
    done = run(
        *(sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"),
        *("-d", tmp_path / "doctrees", TREE / "doc", tmp_path / "html"),
    )

    assert (done.returncode, done.stdout) == (0, "")
    assert (tmp_path / "html" / "index.html").is_file()


def test_a_page_that_nobody_links_would_be_found(tmp_path: Path):
    (tmp_path / "conf.py").write_text((TREE / "doc" / "conf.py").read_text())
    (tmp_path / "index.rst").write_text("Manual\n======\n")
    (tmp_path / "lost.rst").write_text("Lost\n====\n")

    done = run(
        *(sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", tmp_path, tmp_path / "html")
    )

    assert done.returncode != 0
    assert "lost.rst" in done.stdout
