"""Access tokens for Azure: a service principal's secret, certificate or federated token, or the
identity of the machine."""

from __future__ import annotations

import logging
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from msal.managed_identity import _supported_arc_platforms_and_their_prefixes

from nodemanager.errors import CloudError, ConfigError, ForeignAnswer, Throttled, Unauthorized
from tests.cases import cases
from tests.cloud.azure import auth as azure_auth
from tests.cloud.azure.auth import ARC, CLIENT, FEDERATED, SECRET, TENANT, certificate
from tests.cloud.azure.helpers import cloud, order
from tests.cloud.azure.server import AzureServer, plain
from tests.cloud.faults import lost, truncated

pytestmark = pytest.mark.socket

NO_SECRET: dict[str, Any] = {"secret": None}


@pytest.fixture(autouse=True)
def no_identity_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(("AZURE_", "IDENTITY_", "IMDS_", "MSI_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", "http://127.0.0.1:1")


def test_one_token_serves_all_calls_and_threads(azure: AzureServer) -> None:
    ours = cloud(azure)
    ours.create(order())
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: ours.list_nodes(), range(8)))
    assert azure.tokens.given == 1
    (asked,) = azure.tokens.asked
    assert asked["scope"] == "https://management.azure.com/.default"
    assert asked["client_secret"] == SECRET


@pytest.mark.parametrize("form", ["text", "path"])
def test_a_certificate_signs_what_entra_id_checks(
    azure: AzureServer, tmp_path: Path, form: str
) -> None:
    pem = certificate()
    if form == "path":
        (tmp_path / "client.pem").write_text(pem)
        pem = str(tmp_path / "client.pem")
    ours = cloud(azure, credentials={**NO_SECRET, "certificate": pem})
    assert ours.account()
    assert "client_secret" not in azure.tokens.asked[0]


def test_another_certificate_is_refused(azure: AzureServer) -> None:
    other = azure_auth.certificate.__wrapped__()
    ours = cloud(azure, credentials={**NO_SECRET, "certificate": other})
    with pytest.raises(Unauthorized, match="AADSTS700027"):
        ours.account()


@pytest.mark.parametrize("how", ["option", "environment"])
def test_a_federated_token_is_read_anew_for_each_token(
    azure: AzureServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Kubernetes replaces the file each hour, and its webhook sets the variables."""
    path = tmp_path / "token"
    path.write_text(f"{FEDERATED}\n")
    if how == "option":
        ours = cloud(azure, credentials={**NO_SECRET, "federated_token_path": str(path)})
    else:
        monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", str(path))
        monkeypatch.setenv("AZURE_CLIENT_ID", CLIENT)
        monkeypatch.setenv("AZURE_TENANT_ID", TENANT)
        ours = cloud(azure, credentials={**NO_SECRET, "key": None, "tenant_id": None})
    assert ours.account()
    azure.tokens.revoke()
    azure.tokens.federated = "another.federated.token"
    path.write_text("another.federated.token")
    with pytest.raises(Unauthorized):
        ours.account()
    assert ours.account()
    path.unlink()
    azure.tokens.revoke()
    with pytest.raises(Unauthorized):
        ours.account()
    with pytest.raises(Unauthorized, match="can't be read"):
        ours.account()


@pytest.mark.parametrize("client_id", [None, CLIENT])
def test_without_a_secret_the_machines_own_identity_is_used(
    azure: AzureServer, monkeypatch: pytest.MonkeyPatch, client_id: str | None
) -> None:
    monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", azure.url)
    azure.tokens.identities = {client_id or ""}
    ours = cloud(azure, credentials={**NO_SECRET, "key": client_id, "tenant_id": None})
    assert ours.account()
    azure.tokens.identities = set()
    azure.tokens.revoke()
    with pytest.raises(Unauthorized):
        ours.account()
    with pytest.raises(Unauthorized, match="has this machine an identity"):
        ours.account()


def test_without_a_metadata_server_the_missing_secret_is_told(azure: AzureServer) -> None:
    with pytest.raises(Unauthorized, match="no secret in"):
        cloud(azure, credentials=NO_SECRET).account()


def test_a_token_that_is_refused_is_replaced_with_the_next_call(azure: AzureServer) -> None:
    ours = cloud(azure)
    ours.account()
    azure.tokens.revoke()
    with pytest.raises(Unauthorized):
        ours.account()
    assert ours.account()
    assert azure.tokens.given == 2


@cases(
    ("how", "expected"),
    {
        "503": ({"before": plain(503, "later", "7")}, CloudError),
        "429": ({"before": plain(429, "{}", "7")}, Throttled),
        "500": ({"before": plain(500, '{"error": "x"}')}, CloudError),
        "a-proxy": ({"before": plain(404, "<html>")}, ForeignAnswer),
        "AADSTS90033": (
            {"before": plain(400, '{"error": "temporarily_unavailable"}', "7")},
            CloudError,
        ),
        "refused": ({"before": plain(401, '{"error": "invalid_client"}')}, Unauthorized),
        "a-list": ({"before": plain(200, "[]")}, ForeignAnswer),
        "no-token": ({"before": plain(200, "{}")}, ForeignAnswer),
        "half": ({"after": truncated}, ForeignAnswer),
        "cut": ({"after": lost}, CloudError),
    },
)
@pytest.mark.parametrize("proof", ["secret", "federated_token_path"])
def test_only_entra_ids_own_no_is_a_refusal_of_the_credentials(
    azure: AzureServer, tmp_path: Path, how: dict[str, Any], expected: type[CloudError], proof: str
) -> None:
    """azure-identity itself asks up to eleven times; a secret's sign-in asks where to ask first."""
    azure.fault("token", **how)
    (tmp_path / "token").write_text(FEDERATED)
    federated = {**NO_SECRET, proof: str(tmp_path / "token")}
    ours = cloud(azure, credentials={} if proof == "secret" else federated)
    with pytest.raises(CloudError) as caught:
        ours.list_nodes()
    assert type(caught.value) is expected
    assert azure.tokens.requests == 1
    assert ours.list_nodes().items == ()


@pytest.mark.parametrize("by", ["secret", "federated", "machine", "arc"])
def test_a_sign_in_that_hangs_takes_one_time_out(
    azure: AzureServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    over = threading.Event()

    def hang() -> Any:
        over.wait(30)
        return plain(503, "")()

    azure.fault("token", times=9, before=hang)
    (tmp_path / "token").write_text(FEDERATED)
    credentials: dict[str, Any] = {} if by == "secret" else dict(NO_SECRET)
    if by == "federated":
        credentials["federated_token_path"] = str(tmp_path / "token")
    monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", azure.url)
    if by == "arc":
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"{azure.url}{ARC}")
        monkeypatch.setenv("IMDS_ENDPOINT", azure.url)
    ours = cloud(azure, timeout=0.5, credentials=credentials)
    began = time.monotonic()
    with pytest.raises(CloudError, match="Timeout"):
        ours.list_nodes()
    took = time.monotonic() - began
    over.set()
    assert 0.4 < took < 1.5
    assert azure.tokens.requests == 1


@cases(
    "fault",
    {
        "renewed": {"before": plain(404, "")},
        "renewed-since-2024": {"before": plain(410, "gone")},
        "500": {"before": plain(500, "{}")},
        "429": {"before": plain(429, "{}")},
        "cut": {"after": lost},
    },
)
def test_a_metadata_server_that_fails_is_asked_once_and_no_word_about_the_identity(
    azure: AzureServer, monkeypatch: pytest.MonkeyPatch, fault: dict[str, Any]
) -> None:
    """azure-identity itself asks six times, for up to 75 s."""
    monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", azure.url)
    azure.fault("token", **fault)
    ours = cloud(azure, credentials={**NO_SECRET, "key": None})
    with pytest.raises(CloudError) as caught:
        ours.list_nodes()
    assert not isinstance(caught.value, Unauthorized)
    assert azure.tokens.requests == 1
    assert ours.list_nodes().items == ()


@pytest.mark.parametrize("how", ["AZURE_CLIENT_SECRET", "AZURE_CLIENT_CERTIFICATE_PATH"])
def test_the_environment_has_what_the_section_does_not(
    azure: AzureServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    (tmp_path / "client.pem").write_text(certificate())
    value = SECRET if how == "AZURE_CLIENT_SECRET" else str(tmp_path / "client.pem")
    monkeypatch.setenv(how, value)
    monkeypatch.setenv("AZURE_CLIENT_ID", CLIENT)
    monkeypatch.setenv("AZURE_TENANT_ID", TENANT)
    nothing = {**NO_SECRET, "key": None, "tenant_id": None}
    assert cloud(azure, credentials=nothing).account()
    monkeypatch.setenv("AZURE_CLIENT_ID", "another")
    assert cloud(azure, credentials={**NO_SECRET, "key": CLIENT}).account()


def test_a_machine_of_azure_arc_shows_a_key_that_it_alone_can_read(
    azure: AzureServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IDENTITY_ENDPOINT", f"{azure.url}{ARC}")
    monkeypatch.setenv("IMDS_ENDPOINT", azure.url)
    key = tmp_path / "arc.key"
    key.write_text("an-arc-key")
    azure.tokens.arc_key = key
    # The agent's own directory is root's.
    monkeypatch.setitem(_supported_arc_platforms_and_their_prefixes, "linux", str(tmp_path))
    assert cloud(azure, credentials={**NO_SECRET, "key": None, "tenant_id": None}).account()
    azure.tokens.revoke()
    key.write_text("another")
    ours = cloud(azure, credentials={**NO_SECRET, "key": None, "tenant_id": None})
    azure.tokens.arc_answer = "an-arc-key"
    with pytest.raises(Unauthorized, match="HTTP 401"):
        ours.account()


@pytest.mark.parametrize(
    ("credentials", "code"),
    [
        ({"secret": "wrong"}, "AADSTS7000215"),
        ({"tenant_id": "00000000-0000-0000-0000-000000000000"}, "AADSTS90002"),
        ({"key": "another"}, "AADSTS700016"),
    ],
)
def test_wrong_credentials_are_told_in_entra_ids_words(
    azure: AzureServer, credentials: dict[str, str], code: str
) -> None:
    with pytest.raises(Unauthorized, match=code):
        cloud(azure, credentials=credentials).account()


def test_no_secret_is_in_an_error_a_repr_or_the_log(
    azure: AzureServer, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    said = '{"error": "invalid_client", "error_description": "the secret %s"}'
    azure.fault("token", before=plain(401, said % SECRET))
    ours = cloud(azure)
    with pytest.raises(Unauthorized) as caught:
        ours.account()
    assert ours.account()
    inside: Any = ours
    shown = [str(caught.value), caplog.text, repr(inside._provider), repr(inside._provider.access)]
    by_certificate: Any = cloud(azure, credentials={**NO_SECRET, "certificate": certificate()})
    shown.append(repr(by_certificate._provider))
    token = next(iter(azure.tokens.valid))
    for text in shown:
        assert SECRET not in text
        assert token not in text
        assert "PRIVATE" not in text


@cases(
    "text",
    {
        "broken": "-----BEGIN PRIVATE KEY-----\nhush\n-----END PRIVATE KEY-----",
        "no-certificate": certificate().partition("-----BEGIN CERT")[0],
        "no-key": "-----BEGIN" + certificate().rpartition("-----BEGIN")[2],
        "no-file": "/nowhere/x.pem",
    },
)
def test_a_certificate_that_cant_sign_is_told_without_its_key(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        cloud("http://127.0.0.1:1", credentials={**NO_SECRET, "certificate": text})
    (problem,) = caught.value.problems
    assert problem.startswith("[Cloud Credentials] certificate: ")
    assert "hush" not in problem
