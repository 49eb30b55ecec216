"""The systemd units and the cloud-init sample that go with the ping script."""

from __future__ import annotations

import base64
import gzip
import subprocess
from pathlib import Path
from typing import Any

import pytest

NODE = Path(__file__).parents[2] / "etc/node"
EC2_LIMIT = 16 * 1024
"""Bytes of user data that EC2 takes."""

FILLED_IN = {
    "{ping_url}": "https://records.example.org/arvados/v1/nodes/zzzzz-7ekkf-000000000000001/ping"
    "?ping_secret=s3cr3t",
    "{record}": "zzzzz-7ekkf-000000000000001",
    "{hostname}": "compute1",
    "{incarnation}": 32 * "a",
}


@pytest.mark.server("systemd")
@pytest.mark.parametrize("unit", ["nodemanager-ping.service", "nodemanager-ping.timer"])
def test_systemd_has_nothing_to_say_of_the_unit(tmp_path: Path, unit: str) -> None:
    for file in NODE.glob("nodemanager-ping.*"):
        text = file.read_text().replace(
            "/usr/local/bin/nodemanager-ping", f"{NODE}/nodemanager-ping"
        )
        (tmp_path / file.name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", tmp_path / unit], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_script_may_be_run() -> None:
    assert (NODE / "nodemanager-ping").stat().st_mode & 0o111 == 0o111


def sample() -> dict[str, Any]:
    """The sample as a node's cloud-init reads it."""
    yaml = pytest.importorskip("yaml")
    text = (NODE / "user-data.yaml").read_text()
    assert text.startswith("#cloud-config\n")
    for name, value in FILLED_IN.items():
        assert name in text
        text = text.replace(name, value)
    assert len(text.encode()) < EC2_LIMIT
    read: dict[str, Any] = yaml.safe_load(text)
    return read


def content_of(file: dict[str, str]) -> str:
    """The text of a file as cloud-init writes it."""
    if file.get("encoding") != "gz+b64":
        return file["content"]
    return gzip.decompress(base64.b64decode(file["content"])).decode()


def test_the_sample_puts_the_ping_url_where_the_script_looks_for_roots_eyes_only() -> None:
    files = {file["path"]: file for file in sample()["write_files"]}
    url = files["/etc/nodemanager/ping-url"]
    assert url["content"] == FILLED_IN["{ping_url}"] + "\n"
    assert (url["owner"], url["permissions"]) == ("root:root", "0600")
    assert "URL_FILE=/etc/nodemanager/ping-url\n" in (NODE / "nodemanager-ping").read_text()
    assert all("s3cr3t" not in file["content"] for file in files.values() if file is not url)


def test_the_sample_installs_the_shipped_script_and_units() -> None:
    read = sample()
    files = {file["path"]: file for file in read["write_files"]}
    for path, mode in (
        ("/usr/local/bin/nodemanager-ping", "0755"),
        ("/etc/systemd/system/nodemanager-ping.service", "0644"),
        ("/etc/systemd/system/nodemanager-ping.timer", "0644"),
    ):
        assert content_of(files[path]) == (NODE / Path(path).name).read_text(), (
            "run `python -m doc.generate.user_data etc/node`"
        )
        assert files[path]["permissions"] == mode
    assert ["systemctl", "enable", "--now", "nodemanager-ping.timer"] in read["runcmd"]
    assert read["hostname"] == "compute1"
