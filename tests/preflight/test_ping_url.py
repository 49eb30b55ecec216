"""What `check-cloud` says about the URL that nodes ping, as far as this machine can tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nodemanager.app import adapters
from nodemanager.cloud.checks import CheckStatus, Found
from nodemanager.config import load
from nodemanager.httpserver.server import HttpServer
from nodemanager.preflight import ping_url
from nodemanager.registry.app import build_app, registry_server
from tests.cloud.pings import ping_server
from tests.live.harness import free_port
from tests.registry.conftest import TOKEN, make_store

pytestmark = pytest.mark.socket

Told = Callable[..., dict[str, Found]]
FAR = "[Cloud]\nprovider = ec2\n[Cloud Create]\nimage_id = ami-1\nping_host = {url}\n"


@pytest.fixture
def told(tmp_path: Path) -> Told:
    """The answers for a file whose nodes ping that URL."""

    def asked(url: str, text: str = FAR, more: str = "") -> dict[str, Found]:
        path = tmp_path / "pool.cfg"
        path.write_text(text.replace("{url}", url) + more)
        config = load(path, environ={"STATE_DIRECTORY": "/tmp/s"}, accepts=adapters.accepted_keys)
        return {check.name: check.ask() for check in ping_url.checks(config)}

    return asked


@pytest.fixture(scope="module")
def secure(
    certificate: tuple[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HttpServer]:
    store = make_store(tmp_path_factory.mktemp("registry") / "registry.db")
    server = registry_server(build_app(store, TOKEN), "127.0.0.1", 0, *certificate)
    server.start()
    yield server
    server.stop()
    store.close()


def test_loopback_is_wrong_for_nodes_elsewhere_and_right_for_nodes_here(told: Told) -> None:
    far = told("https://127.0.0.1:9")["ping address"]
    near = told("", "[Cloud]\nprovider = local\n[Registry]\nlisten = 127.0.0.1:9\n")
    assert far.mark is CheckStatus.FAILED
    assert "no node of ec2 can reach it" in far.text
    assert near["ping address"].mark is CheckStatus.FINE


def test_a_private_address_is_told_as_one(told: Told) -> None:
    found = told("https://10.255.255.254:9")["ping address"]
    assert found.mark is CheckStatus.FINE
    assert "private address" in found.text


def test_nobody_there_is_a_warning_where_the_daemon_itself_would_serve(told: Told) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    ours = told(url)["ping answer"]
    theirs = told(url, more="[Registry]\nlisten =\n")["ping answer"]
    assert ours.mark is CheckStatus.WARNING
    assert theirs.mark is CheckStatus.FAILED
    assert ours.text == theirs.text == "no connection: [Errno 111] Connection refused"


def test_a_certificate_is_verified(
    told: Told, secure: HttpServer, certificate: tuple[str, str]
) -> None:
    doubted = told(secure.url)["ping answer"]
    trusted = told(secure.url, more=f"[Daemon]\ncerts_file = {certificate[0]}\n")["ping answer"]
    assert doubted.mark is CheckStatus.FAILED
    assert "certificate is not trusted: self-signed certificate" in doubted.text
    assert trusted == Found("its certificate is trusted, and it answers as a record API does")


def test_another_server_s_answer_is_none(told: Told) -> None:
    with ping_server() as other:
        base = other.url().partition("/arvados")[0]
        found = told(base)["ping answer"]
    assert found.mark is CheckStatus.FAILED
    assert "no answer of a record API" in found.text


def test_a_port_that_the_daemon_chooses_can_t_be_asked(told: Told) -> None:
    found = told("", "[Cloud]\nprovider = local\n[Registry]\nlisten = 127.0.0.1:0\n")
    assert {one.mark for one in found.values()} == {CheckStatus.NOT_ASKED}
