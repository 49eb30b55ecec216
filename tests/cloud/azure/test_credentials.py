"""Access tokens for Azure: a service principal's secret, certificate or federated token, or the
identity of the machine."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from nodemanager.cloud.azure.sign_in import Certificate
from nodemanager.errors import CloudError, ConfigError, Throttled, Unauthorized
from tests.cloud.azure import auth as azure_auth
from tests.cloud.azure.auth import CLIENT, FEDERATED, SECRET, TENANT, certificate
from tests.cloud.azure.helpers import cloud, order
from tests.cloud.azure.server import AzureServer, plain, refusal
from tests.cloud.faults import lost, truncated

pytestmark = pytest.mark.socket

NO_SECRET: dict[str, Any] = {"secret": None}


@pytest.fixture(autouse=True)
def no_identity_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AZURE_FEDERATED_TOKEN_FILE", "AZURE_CLIENT_ID", "AZURE_TENANT_ID"):
        monkeypatch.delenv(name, raising=False)
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


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        pytest.param({"before": plain(503, "later", "7")}, CloudError, id="503"),
        pytest.param({"before": plain(429, "{}", "7")}, Throttled, id="429"),
        pytest.param({"before": plain(404, "<html>")}, CloudError, id="a-proxy"),
        pytest.param(
            {"before": plain(400, '{"error": "temporarily_unavailable"}', "7")},
            CloudError,
            id="AADSTS90033",
        ),
        pytest.param(
            {"before": plain(401, '{"error": "invalid_client"}')}, Unauthorized, id="refused"
        ),
        pytest.param({"before": plain(200, "[]")}, CloudError, id="a-list"),
        pytest.param({"before": plain(200, "{}")}, CloudError, id="no-token"),
        pytest.param({"after": truncated}, CloudError, id="half"),
        pytest.param({"after": lost}, CloudError, id="cut"),
    ],
)
def test_only_entra_ids_own_no_is_a_refusal_of_the_credentials(
    azure: AzureServer, how: dict[str, Any], expected: type[CloudError]
) -> None:
    azure.fault("token", **how)
    ours = cloud(azure)
    with pytest.raises(CloudError) as caught:
        ours.list_nodes()
    assert type(caught.value) is expected
    assert ours.list_nodes().items == ()


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


def test_those_who_wait_for_a_token_learn_together_that_there_is_none(azure: AzureServer) -> None:
    barrier = threading.Barrier(2)

    def slow() -> Any:
        barrier.wait(10)
        return plain(503, "")()

    azure.fault("token", before=slow)
    ours = cloud(azure)
    with ThreadPoolExecutor(2) as threads:
        calls = [threads.submit(ours.list_nodes) for _ in range(2)]
        barrier.wait(10)
        errors = [call.exception(10) for call in calls]
    assert all(isinstance(error, CloudError) for error in errors) or errors.count(None) == 1


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
    shown.append(repr(Certificate.of(certificate())))
    token = next(iter(azure.tokens.valid))
    for text in shown:
        assert SECRET not in text
        assert token not in text
        assert "PRIVATE" not in text


def test_a_throttled_call_says_how_long_to_wait(azure: AzureServer) -> None:
    azure.fault("subscriptions.get", before=refusal("TooManyRequests", 429, retry_after="11"))
    with pytest.raises(Throttled) as caught:
        cloud(azure).account()
    assert caught.value.retry_after == 11


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("-----BEGIN PRIVATE KEY-----\nhush\n-----END PRIVATE KEY-----", id="broken"),
        pytest.param(certificate().partition("-----BEGIN CERT")[0], id="no-certificate"),
        pytest.param("-----BEGIN" + certificate().rpartition("-----BEGIN")[2], id="no-key"),
        pytest.param("/nowhere/x.pem", id="no-file"),
    ],
)
def test_a_certificate_that_cant_sign_is_told_without_its_key(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        cloud("http://127.0.0.1:1", credentials={**NO_SECRET, "certificate": text})
    (problem,) = caught.value.problems
    assert problem.startswith("[Cloud Credentials] certificate: ")
    assert "hush" not in problem
