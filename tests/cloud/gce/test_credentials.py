"""Access tokens for Google's API: by a service account's key, or by an instance's role."""

from __future__ import annotations

import json
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

import pytest

from nodemanager.cloud.gce.token import GoogleSignIn
from nodemanager.cloud.transport import TokenSource
from nodemanager.errors import CloudError, ConfigError, ForeignAnswer, Throttled, Unauthorized
from tests.cases import cases
from tests.cloud.faults import lost
from tests.cloud.gce import auth as gce_auth
from tests.cloud.gce.helpers import cloud, order, role_at
from tests.cloud.gce.server import GceServer, plain
from tests.live.proxy import LONGEST_DRIP_S, Fate, Proxy
from tests.waiting import until

pytestmark = pytest.mark.socket


@pytest.fixture
def role(gce: GceServer, monkeypatch: pytest.MonkeyPatch) -> GceServer:
    """The metadata server of the instance that we would run on."""
    role_at(f"127.0.0.1:{gce.port}", monkeypatch)
    return gce


@pytest.mark.parametrize("form", ["json", "json-file", "pem", "pem-file"])
def test_a_key_is_a_path_or_a_files_content_json_or_pem(
    gce: GceServer, tmp_path: Path, form: str
) -> None:
    text = gce_auth.key_file() if form.startswith("json") else gce_auth.pem()
    credentials = {"key": text}
    if form.endswith("file"):
        (tmp_path / "key").write_text(text + "\n")
        credentials = {"key": str(tmp_path / "key")}
    if form.startswith("pem"):
        credentials |= {"user_id": gce_auth.ACCOUNT, "project": "some-project"}
    ours = cloud(gce, credentials=credentials)
    assert ours.account().startswith("project=some-project number=345678901234 endpoint=")


def test_one_token_serves_all_calls_and_threads_and_is_kept_in_no_file(
    gce: GceServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libcloud writes it to a file of the home folder, and believes what it finds there."""
    monkeypatch.setenv("HOME", str(tmp_path))
    ours = cloud(gce)
    ours.create(order())
    ours.list_nodes()
    assert gce.tokens.given == 1
    assert list(tmp_path.iterdir()) == []


def test_a_token_is_renewed_before_it_ends(gce: GceServer, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("nodemanager.cloud.transport.time.monotonic", lambda: now[0])

    def ask() -> tuple[str, float]:
        told = gce.tokens._new()
        return told["access_token"], told["expires_in"]

    source = TokenSource(ask)
    first = source.access_token
    now[0] += 3299
    assert source.access_token == first
    now[0] += 2
    assert source.access_token != first
    # A metadata server gives what it has until shortly before its end.
    gce.tokens.life_s = 60
    source.refused()
    short = source.access_token
    now[0] += 9
    assert source.access_token == short
    now[0] += 2
    assert source.access_token != short


def test_threads_do_not_wait_for_one_time_out_each() -> None:
    asked, entered, go_on = [], threading.Event(), threading.Event()

    def hang() -> NoReturn:
        asked.append(1)
        entered.set()
        assert go_on.wait(30)
        raise TimeoutError

    class Counted:
        """The source's lock, and how many have come to it."""

        def __init__(self) -> None:
            self.lock, self.came = threading.Lock(), 0

        def __enter__(self) -> None:
            self.came += 1
            self.lock.acquire()

        def __exit__(self, *_: object) -> None:
            self.lock.release()

    source = TokenSource(hang)
    counted = source._lock = Counted()  # type: ignore[assignment]

    def wanted() -> str:
        with pytest.raises((TimeoutError, CloudError)):
            source.access_token  # noqa: B018
        return "failed"

    with ThreadPoolExecutor(4) as threads:
        first = threads.submit(wanted)
        assert entered.wait(30)
        others = [threads.submit(wanted) for _ in range(3)]
        until("all of them wait", lambda: counted.came == 4)
        go_on.set()
        assert [future.result(30) for future in (first, *others)] == ["failed"] * 4
    assert len(asked) == 1
    with pytest.raises(TimeoutError):
        source.access_token  # noqa: B018
    assert len(asked) == 2


def test_a_token_that_is_refused_is_asked_for_again(gce: GceServer) -> None:
    ours = cloud(gce)
    ours.account()
    gce.tokens.revoke()
    with pytest.raises(Unauthorized):
        ours.list_nodes()
    assert ours.list_nodes().items == ()
    assert gce.tokens.given == 2


def test_the_role_of_the_instance_needs_no_key(role: GceServer) -> None:
    ours = cloud(role, credentials={"project": "some-project", "key": ""})
    assert ours.list_nodes().items == ()
    assert ours.account().startswith("project=some-project")
    assert role.tokens.given == 1


def test_auth_type_gce_goes_before_a_key(role: GceServer) -> None:
    ours = cloud(role, credentials={"key": gce_auth.key_file(), "auth_type": "GCE"})
    role.tokens.role = False
    with pytest.raises(Unauthorized, match="a service account"):
        ours.list_nodes()


def test_nobody_answers_where_the_metadata_server_should_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    role_at("127.0.0.1:9", monkeypatch)
    with pytest.raises(Unauthorized, match="no key in"):
        GoogleSignIn(None, 1.0)()


@pytest.fixture
def files(
    gce: GceServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, dict[str, Any]]:
    """Google's JSON files of credentials, by their kinds; those that name no server lead here."""
    monkeypatch.setattr(
        "google.oauth2.credentials._GOOGLE_OAUTH2_TOKEN_ENDPOINT", f"{gce.url}/token"
    )
    monkeypatch.setattr(
        "google.auth.impersonated_credentials.iam._IAM_ENDPOINT",
        f"{gce.url}/v1/projects/-/serviceAccounts/{{}}:generateAccessToken",
    )
    subject = tmp_path / "subject"
    subject.write_text(gce_auth.SUBJECT)
    return {
        "user": gce_auth.user_file(),
        "workload": gce_auth.workload_file(gce.url, str(subject)),
        "workload-impersonates": gce_auth.workload_file(gce.url, str(subject), impersonates=True),
        "impersonation": gce_auth.impersonation_file(),
    }


@cases(
    ("kind", "asked"),
    {
        "application-default": ("user", ["/token"]),
        "workload-identity": ("workload", ["/v1/token"]),
        "workload-identity-of-an-account": (
            "workload-impersonates",
            ["/v1/token", gce_auth.IMPERSONATION],
        ),
        "impersonation": ("impersonation", ["/token", gce_auth.IMPERSONATION]),
    },
)
@pytest.mark.parametrize("named", ["option", "environment"])
def test_each_of_googles_files_signs_in(
    gce: GceServer,
    files: dict[str, dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    asked: list[str],
    named: str,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    path = tmp_path / "credentials.json"
    path.write_text(json.dumps(files[kind]))
    credentials = {"project": "some-project", "key": str(path)}
    if named == "environment":
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
        credentials["key"] = ""
    ours = cloud(gce, credentials=credentials)
    ours.create(order())
    assert len(ours.list_nodes().items) == 1
    assert gce.tokens.asked == asked
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("kind", ["user", "workload"])
def test_a_files_credentials_that_google_refuses_are_unauthorized(
    gce: GceServer, files: dict[str, dict[str, Any]], tmp_path: Path, kind: str
) -> None:
    files["user"]["refresh_token"] = "a-secret-of-yesterday"
    (tmp_path / "subject").write_text("a-secret-of-yesterday")
    credentials = {"project": "some-project", "key": json.dumps(files[kind])}
    with pytest.raises(Unauthorized, match=r"HTTP 400.*invalid_grant") as caught:
        cloud(gce, credentials=credentials).list_nodes()
    assert "yesterday" not in str(caught.value)


def test_a_subject_token_that_cant_be_read_is_unauthorized(
    gce: GceServer, files: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    (tmp_path / "subject").unlink()
    credentials = {"project": "some-project", "key": json.dumps(files["workload"])}
    with pytest.raises(Unauthorized, match="subject"):
        cloud(gce, credentials=credentials).list_nodes()
    assert gce.tokens.asked == []


def test_an_instance_without_a_role_says_so(role: GceServer) -> None:
    role.tokens.role = False
    with pytest.raises(Unauthorized, match="HTTP 404"):
        cloud(role, credentials={"project": "some-project", "key": ""}).list_nodes()


FAILURES: tuple[tuple[dict[str, Any], type[CloudError], float | None], ...] = (
    ({"before": plain(500, '{"error": "internal_failure"}', "7")}, CloudError, 7.0),
    ({"before": plain(503, "<html>", "7")}, CloudError, 7.0),
    ({"before": plain(429, '{"error": "slow"}', "7")}, Throttled, 7.0),
    ({"before": plain(400, '{"error": "server_error"}')}, CloudError, None),
    ({"before": plain(200, "<html>")}, ForeignAnswer, None),
    ({"before": plain(200, "{}")}, ForeignAnswer, None),
    ({"after": lost}, CloudError, None),
)
"""Of a sign-in: what is wrong, and what it is told as, with the wait that is asked for."""


@pytest.mark.parametrize("by", ["key", "role", "user", "workload", "workload-impersonates"])
def test_a_sign_in_that_fails_is_asked_once_and_is_no_refusal(
    role: GceServer, files: dict[str, dict[str, Any]], by: str
) -> None:
    """google-auth itself waits and asks again, three to five times."""
    key = "" if by == "role" else gce_auth.key_file() if by == "key" else json.dumps(files[by])
    for fault, kind, wait in FAILURES:
        role.tokens.asked.clear()
        role.fault("token", **fault)
        ours = cloud(role, credentials={"project": "some-project", "key": key})
        with pytest.raises(CloudError) as caught:
            ours.list_nodes()
        assert (type(caught.value), caught.value.retry_after) == (kind, wait), fault
        assert len(role.tokens.asked) == 1
        assert ours.list_nodes().items == ()


@pytest.mark.parametrize("by", ["key", "role", "user", "workload"])
def test_a_sign_in_that_hangs_takes_one_time_out(
    role: GceServer, files: dict[str, dict[str, Any]], by: str
) -> None:
    key = "" if by == "role" else gce_auth.key_file() if by == "key" else json.dumps(files[by])
    over = threading.Event()

    def hang() -> Any:
        over.wait(30)
        return plain(503, "")()

    role.fault("token", times=9, before=hang)
    ours = cloud(role, timeout=0.5, credentials={"project": "some-project", "key": key})
    began = time.monotonic()
    with pytest.raises(CloudError, match="Timeout"):
        ours.list_nodes()
    took = time.monotonic() - began
    over.set()
    assert 0.4 < took < 1.5
    assert len(role.tokens.asked) == 1


def test_a_key_that_google_does_not_know_is_refused(gce: GceServer) -> None:
    told = json.loads(gce_auth.key_file())
    ours = cloud(gce, credentials={"key": json.dumps({**told, "client_email": "no@example.org"})})
    with pytest.raises(Unauthorized, match="Invalid JWT"):
        ours.list_nodes()
    assert gce.calls == []


@pytest.mark.parametrize("by", ["role", "service-account"])
def test_a_token_that_comes_a_byte_now_and_then_is_not_waited_for(
    gce: GceServer, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    key = {"key": gce_auth.key_file()} if by == "service-account" else {}
    credentials = {"project": "some-project", **key}
    with closing(Proxy(gce.url, str)) as way:
        role_at(way.url.removeprefix("http://"), monkeypatch)
        ours = cloud(gce, timeout=0.5, credentials={"token_endpoint": way.url, **credentials})
        began = time.monotonic()
        with way.meeting(lambda _: Fate.DRIPPED), pytest.raises(CloudError):
            ours.account()
        assert time.monotonic() - began < LONGEST_DRIP_S / 2


def test_no_key_is_in_a_message_a_repr_or_the_log(
    gce: GceServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    ours = cloud(gce)
    ours.account()
    gce.fault("token", before=plain(400, json.dumps({"error": "invalid_grant"})))
    gce.tokens.revoke()
    said = []
    for _ in range(2):
        with pytest.raises(CloudError) as caught:
            ours.list_nodes()
        error: BaseException | None = caught.value
        while error is not None:
            said.append(f"{error} {error!r}")
            error = error.__cause__
    shown = caplog.text + " ".join(said) + repr(vars(ours)) + repr(vars(ours._provider))
    lines = [line for line in gce_auth.pem().splitlines() if len(line) > 30]
    assert lines
    for line in lines:
        assert line not in shown
    for token in gce.tokens.valid:
        assert token not in shown


@cases(
    "key",
    {
        "pem": "-----BEGIN PRIVATE KEY-----\nverysecret\n-----END PRIVATE KEY-----",
        "json": '{"private_key": "verysecret", "client_email": "a@b"}',
        "half-json": '{"private_key": "verysecret',
        "not-an-account": '{"type": "authorized_user", "secret": "verysecret"}',
        "path": "/no/such/verysecret",
    },
)
def test_a_key_that_cant_sign_is_a_problem_that_shows_nothing_of_it(
    gce: GceServer, key: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        cloud(gce, credentials={"key": key, "project": "p", "user_id": "a@b"})
    (problem,) = caught.value.problems
    assert problem.startswith("[Cloud Credentials] key: ")
    assert "verysecret" not in problem
