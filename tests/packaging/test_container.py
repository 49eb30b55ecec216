"""The Dockerfile: what hadolint says of it, and what it promises. Docker itself is not needed."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from nodemanager.lib.extras import MODULES
from tests.packaging.conftest import TREE, run

TEXT = (TREE / "Dockerfile").read_text(encoding="utf-8")
LINES = re.sub(r"\\\n", " ", TEXT).splitlines()


def instructions(name: str) -> list[str]:
    return [line.split(None, 1)[1] for line in LINES if line.split(None, 1)[:1] == [name]]


def last_stage() -> list[str]:
    begin = max(at for at, line in enumerate(LINES) if line.startswith("FROM "))
    return LINES[begin:]


def test_hadolint_has_nothing_to_say_about_it():
    done = run(Path(sys.executable).parent / "hadolint", "--no-color", TREE / "Dockerfile")

    assert (done.returncode, done.stdout) == (0, "")


def test_hadolint_would_have_said_something(tmp_path: Path):
    (tmp_path / "Dockerfile").write_text("FROM debian\nRUN cd /tmp && sudo true\n")

    done = run(Path(sys.executable).parent / "hadolint", tmp_path / "Dockerfile")

    assert done.returncode == 1
    assert "DL3004" in done.stdout


def test_what_builds_it_stays_out_of_what_runs():
    assert len(instructions("FROM")) == 2
    assert not any("pip" in line for line in last_stage())


def test_it_runs_as_a_numbered_user_who_is_not_root():
    (user,) = instructions("USER")

    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)


def test_its_health_is_asked_at_healthz():
    (check,) = instructions("HEALTHCHECK")
    command = json.loads(check[check.index("CMD ") + 4 :])
    compile(command[2], "HEALTHCHECK", "exec")

    assert command[0] == "python"
    assert "NODEMANAGER_HEALTH" in command[2]
    assert "NODEMANAGER_HEALTH=http://127.0.0.1:8999/healthz" in TEXT


def test_every_package_comes_by_its_hash_or_from_this_tree():
    installs = [part for part in re.split(r"&&|\n", "\n".join(LINES)) if " install " in part]
    for part in (one for one in installs if "pip" in one):
        assert "--require-hashes" in part or "--no-index" in part


def test_it_holds_no_secret_and_the_build_sees_only_the_source():
    assert not re.search(r"(?i)(token|password|secret)\w*\s*=", TEXT)
    ignored = (TREE / ".dockerignore").read_text(encoding="utf-8").splitlines()
    shown = {line[1:] for line in ignored if line.startswith("!")}

    assert "*" in ignored
    assert shown == {
        *("setup.py", "pyproject.toml", "constraints.txt", "MANIFEST.in", "README.rst"),
        *("CHANGELOG.rst", "LICENSE", "nodemanager", "etc"),
    }


def test_its_extras_exist():
    (extras,) = re.findall(r'ARG EXTRAS="([^"]*)"', TEXT)

    assert set(extras.split()) <= MODULES.keys()
