"""What an installation promises: bounded dependencies, one version, the layers of the house."""

from __future__ import annotations

import ast
import re
import shutil
import sys
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml

import nodemanager
from nodemanager.lib.extras import MODULES
from tests.packaging.conftest import TREE, run

FORERUNNER = "2.0.4"
"""The version of Arvados Node Manager that the manual names."""
REQUIREMENT = re.compile(r"^(?P<name>[A-Za-z0-9_.-]+)(?:\[[a-z0-9,]+\])?(?P<bounds>[^;]*)$")


def declared(name: str) -> Any:
    """What setup.py passes to setup() under that name."""
    tree = ast.parse((TREE / "setup.py").read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    (call,) = (c for c in calls if isinstance(c.func, ast.Name) and c.func.id == "setup")
    (value,) = (word.value for word in call.keywords if word.arg == name)
    return ast.literal_eval(value)


def bounds_of(lines: Iterable[str]) -> dict[str, str]:
    found = {}
    for line in lines:
        match = REQUIREMENT.match(line)
        assert match is not None, line
        found[match["name"].lower()] = match["bounds"]
    return found


def test_every_dependency_has_a_lower_and_an_upper_bound():
    everything = [*declared("install_requires"), *chain(*declared("extras_require").values())]

    assert [
        f"{name}{bounds}"
        for name, bounds in bounds_of(everything).items()
        if not re.fullmatch(r">=[\d.]+,<[\d.]+", bounds)
    ] == []


def test_the_version_is_stated_in_one_place():
    """The manual's screens show it; what was recorded names the version that recorded it."""
    recorded = TREE / "doc" / "incident"
    pages = [path for path in (TREE / "doc").rglob("*.rst") if recorded not in path.parents]
    files = [*pages, *(path for path in TREE.iterdir() if path.suffix in (".rst", ".py", ".toml"))]
    stated = {
        found
        for path in files
        for found in re.findall(
            r"\bversion(?:=| = | )\"?(\d+\.\d+\.\d+\w*)", path.read_text(encoding="utf-8")
        )
    }

    assert stated - {FORERUNNER} == {nodemanager.__version__}
    assert (TREE / "CHANGELOG.rst").read_text().splitlines()[3].split()[
        0
    ] == nodemanager.__version__


def test_every_package_that_the_program_imports_is_a_dependency_of_its_own():
    # A dependency's dependency goes when that one no longer needs it.
    provided_by = {
        "alembic": "alembic",
        "arvados": "arvados-python-client",
        "azure": "azure-identity",
        "botocore": "botocore",
        "click": "click",
        "falcon": "falcon",
        "google": "google-auth",
        "googleapiclient": "google-api-python-client",
        "httplib2": "httplib2",
        "httptools": "httptools",
        "jinja2": "Jinja2",
        "keystoneauth1": "keystoneauth1",
        "libcloud": "apache-libcloud",
        "libvirt": "libvirt-python",
        "markupsafe": "MarkupSafe",
        "orjson": "orjson",
        "prometheus_client": "prometheus-client",
        "psycopg": "psycopg",
        "pykka": "pykka",
        "requests": "requests",
        "rich": "rich",
        "sqlalchemy": "SQLAlchemy",
        "urllib3": "urllib3",
        "uvicorn": "uvicorn",
        "uvloop": "uvloop",
        "yaml": "PyYAML",
    }
    imported = set()
    for path in (TREE / "nodemanager").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        imported |= set(re.findall(r"^\s*(?:from|import) ([a-zA-Z_0-9]+)", text, re.MULTILINE))
    foreign = imported - sys.stdlib_module_names - {"nodemanager"}
    extras = declared("extras_require")
    brought = chain(*(extras[name] for name in MODULES))
    ours = bounds_of([*declared("install_requires"), *brought])

    assert foreign - provided_by.keys() == set()
    assert {name for name in foreign if provided_by[name].lower() not in ours} == set()


def test_imports_point_down():
    done = run(Path(sys.executable).parent / "lint-imports", "--no-cache")

    assert done.returncode == 0, done.stdout


def test_an_import_that_points_up_is_found(tmp_path: Path):
    shutil.copytree(TREE / "nodemanager", tmp_path / "nodemanager")
    shutil.copy(TREE / "pyproject.toml", tmp_path)
    for layer in ("cli", "wiring", "log"):
        (tmp_path / "nodemanager" / f"{layer}.py").touch()
    (tmp_path / "nodemanager" / "core" / "wrong.py").write_text("import nodemanager.cloud.api\n")

    done = run(Path(sys.executable).parent / "lint-imports", "--no-cache", cwd=tmp_path)

    assert done.returncode == 1
    assert "nodemanager.core.wrong -> nodemanager.cloud.api" in done.stdout


def test_the_citation_has_the_licence_of_the_package_and_no_version_of_its_own():
    cited = yaml.safe_load((TREE / "CITATION.cff").read_text(encoding="utf-8"))

    assert cited["license"] == declared("license_expression")
    assert {"cff-version", "message", "title", "authors"} <= cited.keys()
    assert "version" not in cited


@pytest.mark.parametrize(
    "name",
    ["setup.py", "README.rst", "LICENSE", "CHANGELOG.rst", "SECURITY.rst", "CONTRIBUTING.rst"],
)
def test_the_tree_has_what_a_package_needs(name: str):
    assert (TREE / name).read_text(encoding="utf-8").strip()
