"""Where the EC2 adapter's keys come from: its file, or Amazon's standard chain."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nodemanager.errors import CloudError, Unauthorized
from tests.cases import cases
from tests.cloud.ec2.helpers import cloud, order
from tests.cloud.ec2.moto_server import MotoServer, refusal
from tests.cloud.faults import Reply
from tests.cloud.json_http import Scripted


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "PROFILE"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no-credentials"))


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], object]:
    """Puts a key into the file that Amazon's chain reads."""
    shared_file = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(shared_file))
    text = "[default]\naws_access_key_id = {}\naws_secret_access_key = s\n"
    return lambda key: shared_file.write_text(text.format(key))


@pytest.fixture
def metadata() -> Iterator[Callable[[timedelta], str]]:
    """A credential service whose every answer has another key; gives its URL."""
    numbers = itertools.count(1)
    lifetime = timedelta(hours=1)

    def answer(verb: str, target: str) -> Reply:
        if verb == "PUT":
            return Reply(200, b"a-token")
        if target.endswith("/security-credentials/"):
            return Reply(200, b"the-role")
        keys = {
            "Code": "Success",
            "AccessKeyId": f"ROLE{next(numbers)}",
            "SecretAccessKey": "s",
            "Token": "role-token",
            "Expiration": f"{datetime.now(UTC) + lifetime:%Y-%m-%dT%H:%M:%SZ}",
        }
        return Reply(200, json.dumps(keys).encode())

    with closing(Scripted(answer)) as service:

        def start(keys_live: timedelta) -> str:
            nonlocal lifetime
            lifetime = keys_live
            return service.url

        yield start


def signed_by(server: MotoServer) -> list[str]:
    return [call.key_id for call in server.calls]


def test_keys_of_the_file_come_first(server: MotoServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "FROMENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    ec2 = cloud(server, credentials={"key": "FROMFILE", "secret": "s", "token": "temporary"})
    ec2.list_nodes()
    assert signed_by(server) == ["FROMFILE"]
    assert server.calls[0].headers["x-amz-security-token"] == "temporary"


def test_the_environment_is_taken_when_the_file_has_no_keys(
    server: MotoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "FROMENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "env-token")
    ec2 = cloud(server, credentials={})
    ec2.list_nodes()
    ec2.account()
    assert signed_by(server) == ["FROMENV", "FROMENV"]
    tokens = {call.headers["x-amz-security-token"] for call in server.calls}
    assert tokens == {"env-token"}
    signed = server.calls[0].headers["authorization"]
    assert "x-amz-security-token" in signed


def test_a_profile_of_the_shared_file_is_taken(
    server: MotoServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shared_file = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(shared_file))
    shared_file.write_text(
        "[default]\naws_access_key_id = DEFAULT\naws_secret_access_key = s\n"
        "[cluster]\naws_access_key_id = CLUSTER\naws_secret_access_key = s\n"
    )
    cloud(server, credentials={"profile": "cluster"}).list_nodes()
    assert signed_by(server) == ["CLUSTER"]


def test_keys_that_are_refused_are_looked_for_again(
    server: MotoServer, keys: Callable[[str], object]
) -> None:
    keys("OLD")
    ec2 = cloud(server, credentials={})
    ec2.list_nodes()
    keys("NEW")
    ec2.list_nodes()
    server.fault("DescribeInstances", before=refusal("ExpiredToken", 400))
    with pytest.raises(Unauthorized):
        ec2.list_nodes()
    ec2.list_nodes()
    assert signed_by(server) == ["OLD", "OLD", "OLD", "NEW"]


def test_keys_found_anew_do_nothing_until_their_account_was_told(
    server: MotoServer, keys: Callable[[str], object]
) -> None:
    """L5, N20: with STS down, another account's empty listing must not come in their place."""
    keys("OLD")
    ec2 = cloud(server, credentials={})
    ec2.account()
    keys("NEW")
    server.fault("DescribeInstances", before=refusal("ExpiredToken", 400))
    with pytest.raises(Unauthorized):
        ec2.list_nodes()
    for call in (ec2.list_nodes, lambda: ec2.ask("i-0123456789abcdef0")):
        with pytest.raises(Unauthorized, match="other credentials"):
            call()
    assert "NEW" not in signed_by(server)
    ec2.account()
    ec2.list_nodes()
    assert signed_by(server)[-2:] == ["NEW", "NEW"]


def test_the_same_keys_found_anew_are_the_same_account_s(
    server: MotoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L5, N20."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "FROMENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    ec2 = cloud(server, credentials={})
    ec2.account()
    server.fault("DescribeInstances", before=refusal("AuthFailure", 401))
    with pytest.raises(Unauthorized):
        ec2.list_nodes()
    ec2.list_nodes()


def test_the_instance_s_role_is_taken(
    server: MotoServer,
    monkeypatch: pytest.MonkeyPatch,
    metadata: Callable[[timedelta], str],
) -> None:
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata(timedelta(hours=6)))
    ec2 = cloud(server, credentials={})
    ec2.list_nodes()
    ec2.list_nodes()
    assert signed_by(server) == ["ROLE1", "ROLE1"]


def test_keys_that_are_about_to_expire_are_renewed(
    server: MotoServer,
    monkeypatch: pytest.MonkeyPatch,
    metadata: Callable[[timedelta], str],
) -> None:
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", metadata(timedelta(minutes=5)))
    ec2 = cloud(server, credentials={})
    ec2.list_nodes()
    ec2.list_nodes()
    first, second = signed_by(server)
    assert first.startswith("ROLE")
    assert first != second


def test_no_keys_anywhere_says_where_was_looked(server: MotoServer) -> None:
    ec2 = cloud(server, credentials={})
    with pytest.raises(Unauthorized, match=r"\[Cloud Credentials\].*environment"):
        ec2.list_nodes()
    assert server.calls == []


def test_a_missing_profile_is_an_error_of_ours(server: MotoServer) -> None:
    with pytest.raises(Unauthorized, match="nobody"):
        cloud(server, credentials={"profile": "nobody"}).list_nodes()


def test_botocore_is_not_loaded_for_keys_of_the_file() -> None:
    program = (
        "import sys\n"
        "from nodemanager.cloud.ec2.adapter import build_cloud\n"
        "from tests.cloud.cloud_config import cloud_config\n"
        "config = cloud_config(credentials={'key': 'a', 'secret': 'b',"
        " 'endpoint': 'http://127.0.0.1:9'}, create={'image_id': 'ami-1'})\n"
        "cloud = build_cloud(config, timeout=1)\n"
        "try:\n    cloud.list_nodes()\n"
        "except Exception as error:\n    print(type(error).__name__)\n"
        "print('botocore' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == [CloudError.__name__, "False"]


def refusal_of_sts(status: int, code: str) -> Reply:
    text = (
        '<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error>'
        f"<Code>{code}</Code><Message>no keys</Message></Error></ErrorResponse>"
    )
    return Reply(status, text.encode())


@pytest.fixture
def sts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Scripted]:
    """An STS that gives no keys for a role that a web identity may assume."""
    token = tmp_path / "token"
    token.write_text("eyJ.a.b")
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/manager")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(token))
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    with closing(Scripted(lambda *_: refusal_of_sts(403, "AccessDenied"))) as made:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", made.url)
        yield made


@cases(
    ("status", "code"),
    {
        "refused": (403, "AccessDenied"),
        "expired": (400, "ExpiredTokenException"),
        "trouble": (503, "ServiceUnavailable"),
    },
)
def test_a_create_for_which_sts_gives_no_keys_was_never_sent(
    server: MotoServer, sts: Scripted, status: int, code: str
) -> None:
    """CL2, U6: nothing is to be looked for."""
    sts.reply = lambda *_: refusal_of_sts(status, code)
    ec2 = cloud(server, credentials={})
    with pytest.raises(Unauthorized, match=code) as refused:
        ec2.create(order())
    assert refused.value.definite
    assert len(sts.asked) == 1
    assert server.calls == []


def test_an_sts_that_hangs_holds_nobody_for_longer_than_one_call(
    server: MotoServer, sts: Scripted
) -> None:
    """CL2: it took three minutes for the first, and as long again for each that waited."""
    over = threading.Event()

    def silent(*_: str) -> None:
        over.wait(60)

    sts.reply = silent
    ec2 = cloud(server, credentials={}, timeout=1.0)
    refused: list[CloudError] = []

    def ask() -> None:
        with pytest.raises(Unauthorized, match="EC2 credentials") as error:
            ec2.list_nodes()
        refused.append(error.value)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 2
    over.set()
    assert len(sts.asked) <= 2
