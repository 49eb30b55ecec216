"""The `command` adapter: what its programs may answer, and every way they can fail."""

from __future__ import annotations

import json
import sys

import pytest

from nodemanager.core.model.scheduling import SchedulerNode
from nodemanager.core.model.world import WorkerState
from nodemanager.errors import SchedulerError, SchedulerRefused
from nodemanager.schedulers.api import SchedulerVerb
from nodemanager.schedulers.command import CommandScheduler
from tests.cases import cases


def scheduler(timeout: float = 20.0, **scripts: str) -> CommandScheduler:
    """Its programs are these shell scripts; the others print nothing."""
    silent = dict.fromkeys(("nodes", "queue", "drain", "resume", "down"), "")
    programs = {verb: ("sh", "-c", script) for verb, script in (silent | scripts).items()}
    return CommandScheduler(programs, timeout)


def answering(answer: object) -> CommandScheduler:
    return scheduler(nodes=f"cat <<'END'\n{json.dumps(answer)}\nEND")


def test_a_node_needs_only_its_name_and_state() -> None:
    listed = answering({"nodes": [{"node": "c1", "state": "idle"}]}).nodes()
    assert listed.complete
    assert listed.items == (SchedulerNode("c1", WorkerState.IDLE, said="idle"),)


def test_when_a_nodes_daemon_was_started_may_be_told() -> None:
    nodes = [{"node": "c1", "state": "idle", "started_at": at} for at in (1795709449, None)]
    for told in nodes:
        (node,) = answering({"nodes": [told]}).nodes().items
        assert node.started_at == told["started_at"]


def test_no_nodes_is_an_answer() -> None:
    listed = answering({"nodes": []}).nodes()
    assert (listed.items, listed.complete) == ((), True)


@cases(
    ("item", "problem"),
    {
        "a-list": ([], "not a JSON object"),
        "no-name": ({"state": "idle"}, "node = None"),
        "pattern": ({"node": "c[1-9]", "state": "idle"}, "not the name of one"),
        "no-text": ({"node": 5, "state": "idle"}, "node = 5"),
    },
)
def test_a_node_without_a_name_makes_the_listing_incomplete(item: object, problem: str) -> None:
    listed = answering({"nodes": [{"node": "c2", "state": "busy"}, item]}).nodes()
    assert not listed.complete
    assert [node.name for node in listed.items] == ["c2"]
    (told,) = listed.problems
    assert problem in told
    assert len(told) < 300


@cases(
    ("fields", "problem"),
    {
        "no-state": ({}, "no 'state'"),
        "unknown-state": ({"state": "sleepy"}, "sleepy"),
        "a-list": ({"state": []}, "state = []"),
        "unknown-key": ({"state": "idle", "jobs": 1}, "unknown key"),
        "number": ({"state": "idle", "draining": 1}, "draining = 1"),
        "truth": ({"state": "idle", "weight": True}, "weight = True"),
        "feature": ({"state": "idle", "features": [1]}, "no text"),
    },
)
def test_of_a_node_that_cant_be_read_only_its_name_is_known_and_no_other_suffers(
    fields: dict[str, object], problem: str
) -> None:
    listed = answering(
        {"nodes": [{"node": "c2", "state": "busy"}, {"node": "c1", **fields}]}
    ).nodes()
    assert listed.complete
    assert listed.items == (
        SchedulerNode("c2", WorkerState.BUSY, said="busy"),
        SchedulerNode("c1", WorkerState.UNKNOWN),
    )
    (told,) = listed.problems
    assert told.startswith("node c1: ")
    assert problem in told


def test_of_a_node_that_is_told_in_two_ways_only_its_name_is_known() -> None:
    twice = [{"node": "c1", "state": "idle"}, {"node": "c1", "state": "busy"}]
    listed = answering({"nodes": twice}).nodes()
    assert listed.complete
    assert listed.items == (SchedulerNode("c1", WorkerState.UNKNOWN),)


@cases(
    ("script", "problem"),
    {
        "nothing": ("", "no JSON"),
        "cut-off": ('echo \'{"nodes": [{"node"\'', "no JSON"),
        "a-list": ("echo '[]'", "no JSON object"),
        "no-nodes": ("echo '{}'", "no list 'nodes'"),
        "nodes-are-no-list": ("echo '{\"nodes\": {}}'", "no list 'nodes'"),
        "it-failed": ("echo '{\"nodes\": []}'; exit 3", "exited 3"),
        "nested": ("yes '[' | head -n 200000 | tr -d '\\n'", "nested too deep"),
        "it-hangs": ("sleep 60", "took over"),
    },
)
def test_whatever_else_is_a_failed_poll_and_no_empty_listing(script: str, problem: str) -> None:
    limit_s = 0.5 if "sleep" in script else 20.0
    with pytest.raises(SchedulerError, match=problem) as caught:
        scheduler(limit_s, nodes=script).nodes()
    assert not caught.value.definite


def test_an_order_is_one_object_on_stdin(tmp_path) -> None:
    asked = scheduler(drain=f"cat >{tmp_path}/told")
    asked.drain("c1", "idle beyond demand")
    told = json.loads((tmp_path / "told").read_text())
    assert told == {"node": "c1", "reason": "nodemanager: idle beyond demand"}


def test_a_program_that_does_not_read_its_order_has_done_it_all_the_same() -> None:
    scheduler(drain="exec <&-; exit 0").drain("c1", "surplus")


def test_a_refusal_is_definite_and_anything_else_is_not() -> None:
    refused = scheduler(drain="""echo '{"refused": "no such node"}'""")
    with pytest.raises(SchedulerRefused, match="no such node"):
        refused.drain("c1", "surplus")
    for script in ("exit 1", "echo done", "echo '[]'", """echo '{"ok": 1}'"""):
        with pytest.raises(SchedulerError) as caught:
            scheduler(drain=script).drain("c1", "surplus")
        assert not caught.value.definite


def test_an_order_without_a_program_is_refused() -> None:
    asked = scheduler(comment="cat >/dev/null")
    assert asked.can == {SchedulerVerb.COMMENT}
    asked.comment("1", "too large")
    with pytest.raises(SchedulerRefused, match="no cancel_command"):
        asked.cancel("1")
    with pytest.raises(SchedulerRefused, match="no describe_command"):
        asked.describe("c1", 5, ())


def test_an_order_larger_than_a_pipe_is_read_whole() -> None:
    count = "import sys; sys.exit(len(sys.stdin.read()) < 200_000)"
    programs = dict.fromkeys(("queue", "describe"), (sys.executable, "-c", count))
    CommandScheduler(programs, 20.0).describe("c1", 5, tuple(f"f{n}" for n in range(30_000)))


def test_the_queue_is_the_wishlists_format() -> None:
    (job,) = scheduler(queue="""echo '{"id": "7.server", "cores": 2}'""").queue()
    assert (job.id, job.cores) == ("7.server", 2)
    with pytest.raises(SchedulerError, match="queue_command, line 1"):
        scheduler(queue="echo oops").queue()
