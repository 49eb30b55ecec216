"""The session that the vendors' libraries sign in with: what it asks, and whom it trusts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import libcloud.security
import pytest

from nodemanager.cloud.sign_in import SignInSession
from nodemanager.errors import CloudError, ForeignAnswer, Unauthorized
from tests.cloud.faults import Reply
from tests.cloud.json_http import Scripted

pytestmark = pytest.mark.socket


@pytest.fixture
def server() -> Iterator[Scripted]:
    with closing(Scripted(lambda *_: Reply(200, b"{}"))) as one:
        yield one


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    """The proxy that the environment names, for every host."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with closing(Scripted(lambda *_: Reply(200, b"{}"))) as one:
        monkeypatch.setenv("http_proxy", one.url)
        yield one


def test_a_sign_in_goes_through_the_proxy_and_a_metadata_server_is_asked_straight(
    server: Scripted, proxy: Scripted
) -> None:
    with SignInSession(5.0) as session:
        session.request("GET", "http://keystone.example.org/v3")
    assert [target for target, _ in proxy.asked] == ["http://keystone.example.org/v3"]
    with SignInSession(5.0, "nobody there") as session:
        session.request("GET", f"{server.url}/token")
    assert (len(proxy.asked), len(server.asked)) == (1, 1)


def test_no_password_of_the_home_folder_is_sent(
    server: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login somebody password hush\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    with SignInSession(5.0) as session:
        session.request("GET", server.url)
    ((_, headers),) = server.asked
    assert "authorization" not in headers


def test_no_redirect_is_followed(server: Scripted) -> None:
    server.reply = lambda *_: Reply(307, b"{}", {"Location": f"{server.url}/elsewhere"})
    with SignInSession(5.0) as session, pytest.raises(ForeignAnswer):
        session.request("POST", f"{server.url}/token", data="a-secret")
    assert [target for target, _ in server.asked] == ["/token"]


def test_a_library_cant_ask_for_another_time_out_or_for_no_check_of_the_certificate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = {}

    def send(self: object, request: object, **settings: object) -> object:
        given.update(settings)
        raise ConnectionAbortedError

    monkeypatch.setattr("requests.Session.send", send)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nowhere/else.pem")
    monkeypatch.setattr(libcloud.security, "CA_CERTS_PATH", "/nowhere/own.pem")
    with SignInSession(5.0) as session, pytest.raises(ConnectionAbortedError):
        session.request("GET", "https://example.org", timeout=900, verify=False)
    assert (given["timeout"], given["verify"]) == (5.0, "/nowhere/own.pem")


@pytest.mark.parametrize("without", [None, "no metadata server"])
def test_only_a_metadata_server_that_is_not_there_is_word_about_the_machine(
    without: str | None,
) -> None:
    kind = CloudError if without is None else Unauthorized
    with SignInSession(5.0, without) as session, pytest.raises(CloudError) as caught:
        session.request("GET", "http://127.0.0.1:9/token")
    assert type(caught.value) is kind


def test_an_error_that_wraps_ours_is_ours(server: Scripted) -> None:
    ours = CloudError("later", retry_after=7.0)
    outer = ValueError("unavailable")
    outer.__cause__ = RuntimeError()
    outer.__cause__.__cause__ = ours
    with SignInSession(5.0) as session:
        assert session.failed(outer, "sign in") is ours


def test_a_refusal_is_told_in_the_servers_words_without_a_secret(server: Scripted) -> None:
    said = {"error": "invalid_client", "error_description": "the secret hush is not known"}
    server.reply = lambda *_: Reply(401, json.dumps(said).encode())
    with SignInSession(5.0) as session:
        session.request("GET", server.url)
        told = session.failed(ValueError("hush"), "sign in", ("hush",))
    assert isinstance(told, Unauthorized)
    assert str(told) == (
        "sign in: HTTP 401, invalid_client the secret [secret] is not known (ValueError)"
    )
