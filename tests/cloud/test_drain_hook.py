"""The node's side of a drain: the shipped ping script and its sample hooks, run for real (D12)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.cases import cases
from tests.cloud.pings import Node, PingServer

NODE = Path(__file__).parents[2] / "etc/node"
ORDER, OTHER = "00c0ffee00c0ffee", "feedfacefeedface"


@pytest.fixture
def node(tmp_path: Path, pings: PingServer) -> Node:
    return Node(tmp_path, pings, "--no-metadata")


def test_a_node_that_is_told_to_drain_does_so_and_says_so_at_once(node: Node) -> None:
    node.told(ORDER)
    assert node.ping().returncode == 0
    assert node.said == [("idle", "yes", None), ("drained", "yes", ORDER)]
    assert node.hook_runs == ["drain"]


def test_a_drained_node_says_so_with_each_ping_from_then_on(node: Node) -> None:
    node.told(ORDER)
    node.ping()
    node.ping()
    assert node.said == [("drained", "yes", ORDER)]


def test_work_that_came_first_is_told_as_busy(node: Node) -> None:
    node.told(ORDER)
    node.says("busy")
    node.ping()
    assert node.said[-1] == ("busy", "yes", ORDER)
    node.says("drained")
    node.ping()
    assert node.said == [("drained", "yes", ORDER)]


def test_work_that_the_drain_hook_knows_nothing_of_is_told_as_busy(node: Node) -> None:
    """It takes no more jobs, and somebody is logged in: only the state hook says so."""
    node.told(ORDER)
    node.ping("busy")
    assert node.said == [("busy", "yes", None), ("busy", "yes", ORDER)]
    node.ping("busy")
    assert node.said == [("busy", "yes", ORDER)]
    node.ping("idle")
    assert node.said == [("drained", "yes", ORDER)]


def test_a_node_that_is_wanted_again_takes_work_and_says_so_at_once(node: Node) -> None:
    node.told(ORDER)
    node.ping()
    node.told(None)
    node.ping()
    assert node.said == [("drained", "yes", ORDER), ("idle", "yes", None)]
    assert node.hook_runs == ["drain", "drain", "resume"]
    node.ping()
    assert node.said == [("idle", "yes", None)]


def test_another_order_is_answered_by_its_own_number(node: Node) -> None:
    node.told(ORDER)
    node.ping()
    node.told(OTHER)
    node.ping()
    assert node.said == [("drained", "yes", ORDER), ("drained", "yes", OTHER)]


@pytest.mark.parametrize(("word", "code"), [("drained", 1), ("sure", 0), ("", 0)])
def test_a_hook_that_fails_is_no_hook(node: Node, word: str, code: int) -> None:
    """The node can't be told: the daemon must know, and goes by its idle word."""
    node.told(ORDER)
    node.says(word, code)
    done = node.ping()
    assert node.said == [("idle", "yes", None), ("idle", None, None)]
    assert "can't be told to drain" in done.stderr


def test_a_resume_that_fails_is_tried_again_and_the_node_says_drained_till_then(node: Node) -> None:
    node.told(ORDER)
    node.ping()
    node.told(None)
    node.says("drained")
    node.hook.write_text("#!/bin/sh\n[ $1 = drain ] && echo drained\n")
    assert node.ping().returncode == 1
    node.says("drained")
    assert node.ping().returncode == 0
    assert node.said == [("drained", "yes", ORDER), ("idle", "yes", None)]


@cases(
    "body",
    {
        "arvados": '{"href": "/nodes/u", "properties": {"drain": true}}',
        "a-property": '{"properties": {"drain": true, "drain_order": "00"}}',
        "nothing": "",
    },
)
def test_a_server_that_says_nothing_of_draining_changes_nothing(node: Node, body: str) -> None:
    node.told(ORDER)
    node.ping()
    node.pings.body = body
    node.ping()
    assert node.said == [("drained", "yes", ORDER)]


def test_without_a_hook_an_order_is_left_alone(node: Node) -> None:
    node.hook.unlink()
    node.told(ORDER)
    assert node.ping().returncode == 0
    assert node.said == [("idle", None, None)]
    assert not node.state.exists()


def run(hook: Path, verb: str, **more: str) -> str:
    path = f"{hook.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["/bin/sh", hook, verb],
        capture_output=True,
        text=True,
        env={"PATH": path} | more,
        check=True,
    )
    return done.stdout.strip()


def test_the_sample_hook_of_a_plain_worker(tmp_path: Path) -> None:
    text = (NODE / "drain").read_text()
    text = text.replace("/etc/nodemanager/", f"{tmp_path}/").replace("/run/", f"{tmp_path}/")
    hook = tmp_path / "hook"
    hook.write_text(text)
    (tmp_path / "worker.busy").touch()
    assert run(hook, "drain") == "busy"
    (tmp_path / "worker.busy").unlink()
    assert run(hook, "drain") == "drained"
    assert (tmp_path / "no-work").exists()
    assert run(hook, "resume") == ""
    assert not (tmp_path / "no-work").exists()


@pytest.mark.parametrize(
    ("slurm", "says"), [("drained", "drained"), ("drained*", "drained"), ("draining", "busy")]
)
def test_the_sample_hook_of_slurm(tmp_path: Path, slurm: str, says: str) -> None:
    hook = tmp_path / "hook"
    hook.write_text((NODE / "drain-slurm").read_text())
    for name, body in (("scontrol", f'echo "$@" >>{tmp_path}/told'), ("sinfo", f"echo '{slurm}'")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    assert run(hook, "drain", SLURM_NODE="compute7") == says
    run(hook, "resume", SLURM_NODE="compute7")
    told = (tmp_path / "told").read_text().splitlines()
    assert told[0].startswith("update NodeName=compute7 State=DRAIN")
    assert told[1] == "update NodeName=compute7 State=RESUME"


@pytest.mark.server("shellcheck")
@pytest.mark.parametrize("name", ["drain", "drain-slurm"])
def test_shellcheck_has_nothing_to_say_of_the_samples(name: str) -> None:
    done = subprocess.run(["shellcheck", NODE / name], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
