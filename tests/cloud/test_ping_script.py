"""The shipped ping script, run for real against a real server."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from tests.cases import cases
from tests.cloud.pings import SCRIPT, PingServer, ping
from tests.waiting import until


@pytest.fixture
def url_file(tmp_path: Path, pings: PingServer) -> Path:
    file = tmp_path / "ping-url"
    file.write_text(pings.url() + "\n")
    return file


def hook(tmp_path: Path, body: str) -> Path:
    file = tmp_path / "worker-state"
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(0o755)
    return file


def test_a_ping_tells_who_and_what_the_node_is(url_file: Path, pings: PingServer) -> None:
    done = ping("--url-file", url_file, "--instance-id", "i-0abc", "--interface", "127.0.0.9")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    (seen,) = pings.pings
    assert (seen.method, seen.address) == ("POST", "127.0.0.9")
    assert seen.path == "/arvados/v1/nodes/zzzzz-7ekkf-000000000000001/ping"
    assert seen.query == {"ping_secret": "s3cr3t-001"}
    assert seen.form["instance_id"] == "i-0abc"
    assert seen.form["local_ipv4"] == "127.0.0.9"
    assert int(seen.form["total_cpu_cores"]) == os.sysconf("SC_NPROCESSORS_ONLN")
    memory_mb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20
    assert int(seen.form["total_ram_mb"]) == pytest.approx(memory_mb, abs=1)
    size_mb = shutil.disk_usage("/tmp").total // 2**20
    assert int(seen.form["total_scratch_mb"]) == pytest.approx(size_mb, rel=0.2)
    assert set(seen.form) <= {
        "instance_id",
        "local_ipv4",
        "total_cpu_cores",
        "total_ram_mb",
        "total_scratch_mb",
        "worker_state",
    }


@pytest.mark.parametrize("state", ["busy", "idle", "down"])
def test_the_hook_tells_the_worker_state(
    url_file: Path, pings: PingServer, tmp_path: Path, state: str
) -> None:
    script = hook(tmp_path, f"echo {state}")
    done = ping("--url-file", url_file, "--no-metadata", "--state-hook", script)
    assert done.returncode == 0
    assert pings.pings[0].form["worker_state"] == state


@pytest.mark.parametrize(
    "body", ["exit 3", "echo", "echo working", "echo busy; exit 1", "printf 'busy\\nidle\\n'"]
)
def test_a_hook_that_fails_or_talks_nonsense_reports_nothing_and_the_ping_goes_on(
    url_file: Path, pings: PingServer, tmp_path: Path, body: str
) -> None:
    done = ping("--url-file", url_file, "--no-metadata", "--state-hook", hook(tmp_path, body))
    assert done.returncode == 0
    assert "no worker state is reported" in done.stderr
    assert "worker_state" not in pings.pings[0].form


def test_a_missing_hook_is_no_word_at_all(
    url_file: Path, pings: PingServer, tmp_path: Path
) -> None:
    done = ping("--url-file", url_file, "--no-metadata", "--state-hook", tmp_path / "none")
    assert (done.returncode, done.stderr) == (0, "")
    assert "worker_state" not in pings.pings[0].form


def test_the_url_and_the_nodes_facts_come_from_the_metadata_service(pings: PingServer) -> None:
    if os.path.exists("/etc/nodemanager/ping-url"):
        pytest.skip("/etc/nodemanager/ping-url is here, and goes before the metadata service")
    pings.pages = {
        "/latest/user-data": pings.url(),
        "/latest/meta-data/instance-id": "i-0fromcloud",
        "/latest/meta-data/local-ipv4": "10.1.2.3",
    }
    done = ping("--metadata", pings.base)
    assert (done.returncode, done.stderr) == (0, "")
    (seen,) = pings.pings
    assert seen.query == {"ping_secret": "s3cr3t-001"}
    assert seen.form["instance_id"] == "i-0fromcloud"
    assert seen.form["local_ipv4"] == "10.1.2.3"


@pytest.mark.parametrize("key", ["arv-ping-url", "user-data"])
def test_on_google_they_come_from_its_metadata_server(pings: PingServer, key: str) -> None:
    if os.path.exists("/etc/nodemanager/ping-url"):
        pytest.skip("/etc/nodemanager/ping-url is here, and goes before the metadata service")
    instance = "/computeMetadata/v1/instance"
    pings.pages = {
        f"{instance}/attributes/{key}": pings.url(),
        f"{instance}/id": "4000000000000000001",
        f"{instance}/network-interfaces/0/ip": "10.128.0.2",
        f"{instance}/preempted": "FALSE",
        f"{instance}/maintenance-event": "NONE",
    }
    done = ping("--metadata", pings.base)
    assert (done.returncode, done.stderr) == (0, "")
    (seen,) = pings.pings
    assert seen.query == {"ping_secret": "s3cr3t-001"}
    assert seen.form["instance_id"] == "4000000000000000001"
    assert seen.form["local_ipv4"] == "10.128.0.2"


def test_on_azure_the_nodes_facts_come_from_its_metadata_service(
    url_file: Path, pings: PingServer
) -> None:
    """Azure shows custom data to cloud-init alone, so the URL is in a file."""
    asked = "api-version=2021-02-01&format=text"
    interface = "network/interface/0/ipv4/ipAddress/0/privateIpAddress"
    pings.pages = {
        f"/metadata/instance/compute/vmId?{asked}": "02AAB8A4-74EF-476E-8182-F6D2BA4166A6",
        f"/metadata/instance/{interface}?{asked}": "10.0.0.4",
        f"/metadata/instance/compute/name?{asked}": "m1",
        "/metadata/scheduledevents?api-version=2020-07-01": '{"Events": []}',
    }
    done = ping("--metadata", pings.base, "--url-file", url_file)
    assert (done.returncode, done.stderr) == (0, "")
    (seen,) = pings.pings
    assert seen.form["instance_id"] == "02aab8a4-74ef-476e-8182-f6d2ba4166a6"
    assert seen.form["local_ipv4"] == "10.0.0.4"


def test_the_url_is_found_in_user_data_of_any_form(tmp_path: Path, pings: PingServer) -> None:
    file = tmp_path / "user-data.yaml"
    file.write_text(
        "#cloud-config\n# see https://example.org/docs?page=1\nwrite_files:\n"
        f'  - content: "{pings.url()}"\n'
    )
    assert ping("--url-file", file, "--no-metadata").returncode == 0
    assert pings.pings[0].query == {"ping_secret": "s3cr3t-001"}


@cases(
    ("status", "code", "said"),
    {
        "taken": (204, 0, ""),
        "wrong-secret": (401, 4, "no longer, this node's"),
        "unknown-record": (404, 4, "no such record"),
        "no-slot": (422, 4, "no free slot"),
        "throttled": (429, 1, "put off"),
        "failing": (500, 1, "the server failed (500)"),
        "redirected": (302, 1, "the server failed (302)"),
    },
)
def test_the_exit_code_says_what_the_server_answered(
    url_file: Path, pings: PingServer, status: int, code: int, said: str
) -> None:
    pings.status = status
    done = ping("--url-file", url_file, "--no-metadata")
    assert done.returncode == code
    assert said in done.stderr
    assert "s3cr3t" not in done.stdout + done.stderr
    assert len(pings.pings) == 1, "the timer tries again, not the script"


def test_a_server_that_is_not_there_is_told_without_the_secret(tmp_path: Path) -> None:
    file = tmp_path / "ping-url"
    file.write_text("http://127.0.0.1:1/ping?ping_secret=s3cr3t")
    done = ping("--url-file", file, "--no-metadata")
    assert done.returncode == 1
    assert "could not be reached" in done.stderr
    assert "s3cr3t" not in done.stderr


@cases(
    ("content", "code"),
    {
        "empty": ("", 3),
        "no-secret": ("http://127.0.0.1:1/ping", 3),
        "no-http": ("ftp://127.0.0.1/ping?ping_secret=a", 3),
        "backslash": ("http://127.0.0.1:1/\\ping?ping_secret=a", 3),
        "backtick": ("http://127.0.0.1:1/ping?ping_secret=a`b`", 3),
        "quote": ('http://127.0.0.1:1/ping?ping_secret=a"\noutput="/tmp/x', 1),
    },
)
def test_what_is_no_ping_url_is_refused(tmp_path: Path, content: str, code: int) -> None:
    file = tmp_path / "ping-url"
    file.write_text(content)
    assert ping("--url-file", file, "--no-metadata").returncode == code


@pytest.mark.parametrize(
    "arguments",
    [
        ["--bogus"],
        ["--url-file"],
        ["--worker-state", "lazy"],
        ["--url-file", "URL", "--instance-id", 'i"\nurl = "http://x/'],
        ["--url-file", "URL", "--instance-id", "i", "--interface", "eth0 --output x"],
    ],
)
def test_wrong_usage_is_told(url_file: Path, pings: PingServer, arguments: list[str]) -> None:
    done = ping(*[str(url_file) if one == "URL" else one for one in arguments])
    assert done.returncode == 2
    assert done.stderr.startswith("nodemanager-ping: ")
    assert pings.pings == []


def test_a_missing_url_file_is_told(tmp_path: Path) -> None:
    done = ping("--url-file", tmp_path / "none")
    assert done.returncode == 3
    assert "can't read" in done.stderr


def test_help_names_every_option() -> None:
    done = ping("--help")
    assert done.returncode == 0
    for option in ("--url-file", "--interface", "--instance-id", "--state-hook", "--metadata"):
        assert option in done.stdout


def test_curl_shows_no_secret_on_its_command_line_and_in_its_environment(
    url_file: Path, pings: PingServer
) -> None:
    pings.gate.clear()
    running = threading.Thread(
        target=ping, args=("--url-file", url_file, "--no-metadata", "--instance-id", "i-cmdline")
    )
    running.start()
    try:
        until("the ping", lambda: bool(pings.pings))
        curls = [
            entry
            for entry in Path("/proc").glob("[0-9]*")
            # Other tests run the script at the same time.
            if is_curl(entry) and str(url_file).encode() in parents_cmdline(entry)
        ]
        assert curls
        for entry in curls:
            assert b"s3cr3t" not in (entry / "cmdline").read_bytes()
            assert b"--config" in (entry / "cmdline").read_bytes()
            assert b"s3cr3t" not in (entry / "environ").read_bytes()
            assert b"s3cr3t" not in parents_cmdline(entry)
    finally:
        pings.gate.set()
        running.join()


def is_curl(entry: Path) -> bool:
    try:
        return (entry / "comm").read_text() == "curl\n"
    except OSError:
        return False


def parents_cmdline(entry: Path) -> bytes:
    try:
        parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
        return Path(f"/proc/{parent}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_the_script_is_plain_posix_shell(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    posix = ["--posix"] if shell == "bash" else []
    done = subprocess.run(
        [shell, *posix, "-n", SCRIPT], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.server("shellcheck")
def test_shellcheck_has_nothing_to_say() -> None:
    done = subprocess.run(["shellcheck", SCRIPT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
