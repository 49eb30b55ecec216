"""`make audit`: the licences of what an installation brings, and what is known of its flaws."""

from __future__ import annotations

import json
import re
import runpy
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import distributions
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.live.harness import free_port
from tests.packaging.conftest import TREE

audit = SimpleNamespace(**runpy.run_path(str(TREE / "etc" / "install" / "audit.py")))
PINNED = set(
    re.findall(
        r"^([a-z0-9-]+)==", (TREE / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE
    )
)
BAD = {"id": "GHSA-1", "summary": "it breaks", "aliases": ["CVE-1"], "affected": []}


def test_every_package_of_an_installation_has_a_licence_on_the_list():
    ours = audit.table(
        one
        for one in distributions()
        if re.sub(r"[-_.]+", "-", one.metadata["Name"]).lower() in PINNED
    )

    assert len(ours) > 60
    assert {name: told for name, told in ours.items() if audit.strange(told)} == {}


@pytest.mark.parametrize("told", ["GPL-3.0-only", "MIT AND AGPL-3.0-only", "not told"])
def test_a_licence_that_is_not_on_the_list_is_named(told: str):
    assert audit.strange(told) == {told.removeprefix("MIT AND ")}


def test_a_package_that_the_advisories_do_not_know_is_not_without_vulnerabilities():
    """Behind a mirror of the index without advisories pip-audit itself says that there are none."""
    told = {"dependencies": [{"name": "rich", "skip_reason": "not found on PyPI"}]}

    assert audit.vulnerable(told) == ([], ["rich"])


class Advisories(BaseHTTPRequestHandler):
    """OSV's query of one package: of jinja2 something is known."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        known = [BAD] if asked["package"]["name"] == "jinja2" else []
        body = json.dumps({"vulns": known} if known else {}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing is said."""


@pytest.fixture
def osv() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Advisories) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1/query"
        server.shutdown()


def pins(path: Path, name: str) -> Path:
    # A version that no index has ever had: PyPI's own advisories know nothing of it.
    path.write_text(f"{name}==0.0.0.dev99 --hash=sha256:{'0' * 64}\n")
    return path


@pytest.mark.slow
@pytest.mark.socket
@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("jinja2", 1, "jinja2 0.0.0.dev99: CVE-1, GHSA-1; mended in no version"),
        ("rich", 0, "No vulnerability of these packages is known to osv"),
    ],
)
def test_what_advisories_know_is_told(
    name: str,
    code: int,
    said: str,
    osv: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys,
):
    monkeypatch.setenv("NODEMANAGER_OSV", osv)

    assert audit.asked(pins(tmp_path / "pins.txt", name)) == code
    assert said in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.socket
def test_where_no_advisories_can_be_asked_nothing_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
):
    monkeypatch.setenv("NODEMANAGER_OSV", f"http://127.0.0.1:{free_port()}/v1/query")

    assert audit.asked(pins(tmp_path / "pins.txt", "rich")) == audit.UNKNOWN == 3
    said = capsys.readouterr().out
    assert "UNKNOWN whether" in said
    assert "No vulnerability" not in said
