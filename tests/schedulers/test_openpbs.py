"""The example for OpenPBS, on stand-ins for its programs: there is no real PBS here."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nodemanager.core.model.world import Job
from nodemanager.errors import SchedulerError, SchedulerRefused
from nodemanager.schedulers.command import CommandScheduler

EXAMPLE = Path(__file__).parents[2] / "etc" / "schedulers" / "openpbs"

CORES = {"resources_available": {"ncpus": 4, "mem": "4041048kb"}}
NODES = {
    "free": {"state": "free", **CORES},
    "works": {"state": "job-busy", "jobs": ["7.pbs/0", "7.pbs/1", "8.pbs/0"], **CORES},
    "drains": {"state": "offline", "jobs": ["9.pbs/0"], "comment": "disk", **CORES},
    "gone": {"state": "state-unknown,down", **CORES},
    "starts": {"state": "provisioning", **CORES},
}
JOBS = {
    "10.pbs": {"job_state": "Q", "Resource_List": {"select": "2:ncpus=4:mem=8gb+ncpus=1"}},
    "9.pbs": {"job_state": "R", "Resource_List": {"ncpus": 1}},
    "11.pbs": {"job_state": "H", "Resource_List": {"ncpus": 1}},
    "12.pbs": {"job_state": "Q", "Priority": 5, "Resource_List": {"ncpus": 3, "nodect": 1}},
    "2.pbs": {"job_state": "Q", "Resource_List": {"select": "1:ncpus=1:mem=1500kb"}},
}

Pbs = Callable[[str, str], None]


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path / "calls"


@pytest.fixture
def pbs(tmp_path: Path, calls: Path) -> Pbs:
    """Makes a program of PBS from a shell script; it notes how it was called."""

    def make(name: str, script: str) -> None:
        program = tmp_path / name
        program.write_text(
            f'#!/bin/sh\nprintf "%s|" "$0" "$@" >>{calls}; echo >>{calls}\n{script}\n'
        )
        program.chmod(0o755)

    make("pbsnodes", f"case \"$1\" in -a) cat <<'END'\n{json.dumps({'nodes': NODES})}\nEND\nesac")
    make("qstat", f"cat <<'END'\n{json.dumps({'Jobs': JOBS})}\nEND")
    make("qrerun", "")
    return make


def asked() -> CommandScheduler:
    verbs = ("nodes", "queue", "drain", "resume", "down")
    programs = {verb: (sys.executable, "-I", "-S", str(EXAMPLE), verb) for verb in verbs}
    return CommandScheduler(programs, 20.0)


def test_its_nodes(pbs: Pbs) -> None:
    listed = asked().nodes()
    assert listed.complete
    assert [(one.name, one.state, one.draining, one.reason) for one in listed.items] == [
        ("free", "idle", False, ""),
        ("works", "busy", False, ""),
        ("drains", "busy", True, "disk"),
        ("gone", "down", False, ""),
        ("starts", "unknown", False, ""),
    ]


def test_its_queue(pbs: Pbs) -> None:
    assert asked().queue() == (
        Job("12.pbs", cores=3),
        Job("2.pbs", cores=1, ram_mb=2),
        Job("10.pbs", cores=4, ram_mb=8192, count=2),
        Job("10.pbs", cores=1),
    )


def test_its_orders(pbs: Pbs, calls: Path) -> None:
    asked().drain("free", "idle beyond demand")
    asked().resume("free")
    asked().mark_down("works", "gone")
    lines = [line.split("/")[-1] for line in calls.read_text().splitlines()]
    assert [line for line in lines if not line.startswith("pbsnodes|-a")] == [
        "pbsnodes|-o|-C|nodemanager: idle beyond demand|free|",
        "pbsnodes|-r|-C||free|",
        "qrerun|-W|force|7.pbs|",
        "qrerun|-W|force|8.pbs|",
        "pbsnodes|-r|-C|nodemanager: gone|works|",
    ]


def test_what_pbs_refuses_is_refused_and_all_else_is_a_failed_call(pbs: Pbs) -> None:
    pbs("pbsnodes", "echo 'pbsnodes: Unknown node  nosuch' >&2; exit 1")
    with pytest.raises(SchedulerRefused, match="Unknown node"):
        asked().drain("nosuch", "surplus")
    for name in ("pbsnodes", "qstat"):
        pbs(name, "echo 'cannot connect to server' >&2; exit 1")
    for call in (asked().nodes, asked().queue, lambda: asked().drain("free", "surplus")):
        with pytest.raises(SchedulerError, match="cannot connect") as caught:
            call()
        assert not caught.value.definite
