"""A file of Arvados Node Manager 2.0.4: each option with its documented meaning and unit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nodemanager.config import load, show
from tests.cases import cases
from tests.config.conftest import Read

FILES = Path(__file__).parent / "files"


@pytest.mark.parametrize(
    ("section", "option", "written", "attribute", "meaning"),
    [
        ("Daemon", "dispatcher", "slurm", "dispatcher", "slurm"),
        ("Daemon", "poll_time", "30", "poll_time", 30.0),
        ("Daemon", "cloudlist_poll_time", "15", "cloudlist_poll_time", 15.0),
        ("Daemon", "nodelist_poll_time", "15", "nodelist_poll_time", 15.0),
        ("Daemon", "wishlist_poll_time", "15", "wishlist_poll_time", 15.0),
        ("Daemon", "max_poll_time", "120", "max_poll_time", 120.0),
        ("Daemon", "watchdog", "60", "watchdog", 60.0),
        ("Daemon", "certs_file", "/etc/ssl/ca.pem", "certs_file", Path("/etc/ssl/ca.pem")),
        ("Manage", "address", "127.0.0.2", "address", "127.0.0.2"),
        ("Manage", "port", "8989", "port", 8989),
        ("Logging", "file", "/dev/stdout", "file", Path("/dev/stdout")),
        ("Logging", "level", "DEBUG", "level", "DEBUG"),
        ("Arvados", "timeout", "20", "timeout", 20.0),
        ("Arvados", "insecure", "yes", "insecure", True),
        ("Arvados", "jobs_queue", "no", "jobs_queue", False),
        ("Arvados", "slurm_queue", "no", "slurm_queue", False),
    ],
)
def test_an_option_means_what_it_meant(
    read: Read, section: str, option: str, written: str, attribute: str, meaning: Any
) -> None:
    """Those that decisions depend on are in test_deciding.py."""
    config = read(f"[{section}]\n{option} = {written}\n")
    assert getattr(getattr(config, section.lower()), attribute) == meaning


@pytest.mark.parametrize("poll", ["cloudlist", "nodelist", "wishlist"])
def test_a_poll_time_of_zero_is_poll_time(read: Read, poll: str) -> None:
    """The forerunner's own default, which its files may spell out (P6)."""
    config = read(f"[Daemon]\npoll_time = 20\n{poll}_poll_time = 0\n")
    assert getattr(config.daemon, f"{poll}_poll_time") == 20.0


@cases(
    ("text", "warned"),
    {
        "the-defaults": ("", True),
        "min-nodes": ("[Daemon]\nmin_nodes = 1\n", False),
        "a-command": ("[Daemon]\nwishlist_command = /bin/true\n", False),
        "drained-on-purpose": ("[Daemon]\nmax_nodes = 0\n", False),
    },
)
def test_a_file_that_would_never_boot_a_node_says_so(read: Read, text: str, warned: bool) -> None:
    """Its queues were on by default: a file without a line about them rests on them, too (P1)."""
    config = read(f"{text}[Cloud]\nprovider = local\n", cloud=False)
    assert any("nothing asks for nodes" in line for line in config.warnings) is warned


def test_a_log_folder_that_is_not_there_is_told_before_the_start(
    read: Read, tmp_path: Path
) -> None:
    """`file = /var/log/arvados/node-manager.log` ended the start (P2)."""
    (line,) = read(f"[Logging]\nfile = {tmp_path}/arvados/node-manager.log\n").warnings
    assert f"there is no folder {tmp_path}/arvados" in line
    assert read(f"[Logging]\nfile = {tmp_path}/node-manager.log\n").warnings == ()


def test_a_filter_by_state_that_is_taken_out_is_told(read: Read) -> None:
    (line,) = read("[Cloud List]\ninstance-state-name = running\n").warnings
    assert "[Cloud List] instance-state-name = running: ignored" in line


def test_where_the_cloud_is_asked_is_shown_and_as_whom_is_not() -> None:
    shown = {
        row.option: row.value
        for row in show(load(FILES / "ec2.cfg", environ={}))
        if row.section == "Cloud Credentials"
    }
    assert shown["region"] == "us-east-1"
    assert {shown["key"], shown["secret"]} == {"***"}
