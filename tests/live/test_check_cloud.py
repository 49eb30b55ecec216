"""`check-cloud` and `init` as a user runs them: on the local cloud, beside a daemon, and on EC2."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import IO

import pytest

from tests.cases import cases
from tests.cloud.ec2.moto_server import MotoServer, refusal, shared
from tests.cloud.files import write
from tests.cloud.gce.server import shared as shared_gce
from tests.cloud.test_preflight import of_gce
from tests.forked import Forked, piped, run
from tests.live.cluster import TOKEN, LocalCluster
from tests.live.ec2 import ec2_cluster, on_ec2
from tests.live.harness import Daemon, Registry, free_port, write_config
from tests.live.preflight import check, told, words
from tests.live.terminal import CTRL_C, Terminal
from tests.waiting import DEADLINE_S, until

pytestmark = [pytest.mark.live, pytest.mark.server("curl")]

MINE, OURS = "live", "live-preflight"
CREATED = "claim and create"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A pool with a daemon and one node of its own, which nothing here may touch."""
    home = tmp_path_factory.mktemp("check-cloud")
    fixed = {
        "Daemon": {"min_nodes": 1, "max_nodes": 1},
        "Registry": {"listen": f"127.0.0.1:{free_port()}", "token": TOKEN},
        "Cloud": {"shutdown_windows": "60, 999999"},
    }
    with closing(LocalCluster(home, fixed)) as made:
        daemon = made.start()
        daemon.wait_for("node.paired")
        daemon.wait_for("cycle.done", nodes=1, paired=1)
        yield made


def of_preflight(cluster: LocalCluster) -> list[str]:
    """The nodes of the pre-flight that run, whatever a listing says."""
    return [
        node_id
        for node_id, entry in cluster.running().items()
        if entry.meta()["tags"]["nodemanager-pool"] == OURS
    ]


def nothing_is_left(cluster: LocalCluster, daemon: Daemon) -> None:
    """Neither a node nor a record of the pre-flight; the pool has what it had."""
    assert of_preflight(cluster) == []
    rows = Registry(daemon.url_of("registry"), TOKEN).rows().values()
    by_pool = {row["properties"]["nodemanager_pool"]: row for row in rows}
    if OURS in by_pool:
        assert by_pool[OURS]["slot_number"] is None
        assert by_pool[OURS]["first_ping_at"] is None
    assert by_pool[MINE]["slot_number"] is not None
    assert len(cluster.running()) == 1
    assert {line["node"] for line in daemon.lines("node.created")} == set(cluster.running())
    assert daemon.lines("node.shutdown_started") == daemon.lines("record.clean") == []


def begun(cluster: LocalCluster) -> tuple[Forked, IO[str], str]:
    """A `--boot` that has created its node, what it says, and that node."""
    process, said = piped("check-cloud", str(cluster.config), "--boot", env=told(cluster.state))
    (node,) = until("its node", lambda: of_preflight(cluster))
    return process, said, node


def test_boot_plays_a_node_from_claim_to_end_beside_the_running_daemon(
    cluster: LocalCluster, daemon: Daemon
) -> None:
    code, answers = check(cluster.config, cluster.state, "--boot")

    assert code == 0
    assert [name for name in answers if name in ("running", "ping", "pair", "end")] == [
        *("running", "ping", "pair", "end")
    ]
    assert "a running daemon serves" in answers["registry"]["text"]
    assert answers["ping answer"]["mark"] == "ok"
    nothing_is_left(cluster, daemon)


def test_an_interrupted_boot_leaves_nothing(cluster: LocalCluster, daemon: Daemon) -> None:
    process, said, _ = begun(cluster)
    process.send_signal(signal.SIGTERM)

    assert process.wait(DEADLINE_S) == 1
    with said:
        assert "interrupted by SIGTERM" in said.read()
    nothing_is_left(cluster, daemon)


def test_a_reader_that_goes_away_leaves_nothing(cluster: LocalCluster, daemon: Daemon) -> None:
    process, said, _ = begun(cluster)
    said.close()
    process.wait(DEADLINE_S)
    nothing_is_left(cluster, daemon)


def test_after_a_kill_9_the_next_run_names_what_is_left_and_ends_it_when_told_to(
    cluster: LocalCluster, daemon: Daemon
) -> None:
    process, said, node = begun(cluster)
    said.close()
    process.kill()
    process.wait()
    assert of_preflight(cluster) == [node]

    code, answers = check(cluster.config, cluster.state)
    assert code == 0
    assert answers["earlier pre-flight"]["mark"] == "warning"
    assert node in answers["earlier pre-flight"]["text"]

    # Nobody is there to ask, and it was not told.
    code, answers = check(cluster.config, cluster.state, "--boot")
    assert code == 1
    assert node in answers["leftovers"]["text"]
    assert CREATED not in answers
    assert of_preflight(cluster) == [node]

    env = told(cluster.state)
    with closing(Terminal(words(cluster.config, "--boot"), cwd=cluster.home, env=env)) as screen:
        screen.shows("end that? [y/N]")
        screen.type("y\r")
        screen.shows("claim and create")
        screen.type(CTRL_C)
        screen.shows("interrupted by SIGINT")
        assert screen.ended() == 1
    nothing_is_left(cluster, daemon)


def test_a_node_that_never_pings_is_told_and_ended(cluster: LocalCluster, daemon: Daemon) -> None:
    mute = cluster.home / "mute"
    mute.write_text("#!/bin/sh\nexit 0\n")
    config = cluster.configure({"Cloud Create": {"ping_script": mute}}, "mute.cfg")

    code, answers = check(config, cluster.state, "--boot", "--wait", "3s")

    assert code == 1
    assert "did not ping within 3 s" in answers["boot"]["text"]
    assert answers["end"]["mark"] == "ok"
    nothing_is_left(cluster, daemon)


@cases(
    ("changes", "name", "text"),
    {
        "a-closed-port": (
            {"Registry": {"listen": ""}, "Cloud Create": {"ping_host": "http://127.0.0.1:9"}},
            "ping answer",
            "Connection refused",
        ),
        "a-name-that-nobody-knows": (
            {"Cloud Create": {"ping_host": "nowhere.invalid"}},
            "ping address",
            "does not resolve",
        ),
        "a-size-with-a-typo": ({"Size smal": {"cores": 1}}, "size smal", "did you mean 'small'"),
    },
)
def test_what_is_wrong_is_one_failed_line_and_nothing_is_booted(
    cluster: LocalCluster,
    daemon: Daemon,
    changes: dict[str, dict[str, object]],
    name: str,
    text: str,
) -> None:
    config = cluster.configure(changes, "wrong.cfg")
    code, answers = check(config, cluster.state, "--boot")
    assert code == 1
    assert answers[name]["mark"] == "failed"
    assert text in answers[name]["text"]
    assert answers[name]["to_do"]
    assert CREATED not in answers
    nothing_is_left(cluster, daemon)


def test_without_a_daemon_it_serves_the_registry_itself(tmp_path: Path) -> None:
    fixed = {"Registry": {"listen": f"127.0.0.1:{free_port()}"}}
    with closing(LocalCluster(tmp_path, fixed)) as alone:
        done = run("check-cloud", str(alone.config), "--boot", env=told(alone.state))
        assert done.returncode == 0, done.stdout + done.stderr
        assert "served by this pre-flight itself" in done.stdout
        assert "\x1b" not in done.stdout
        assert done.stdout.splitlines()[-1].startswith("small at 0.01 an hour: at most 0.")
        assert alone.running() == {}
        # The node's secret and the token are in no log.
        (log,) = alone.state.glob("preflight-*/log")
        assert "ping_secret" not in log.read_text()
        assert os.stat(log.parent).st_mode & 0o777 == 0o700


# On EC2.


def test_boot_on_ec2_hears_the_ping_of_the_machine_itself(tmp_path: Path) -> None:
    with closing(ec2_cluster(tmp_path)) as made:
        made.farm.start()
        code, answers = check(made.config, made.state, "--boot", module="tests.live.soon")
        assert code == 0, answers
        assert answers["permission ec2:RunInstances"]["text"] == "allowed as m5.large"
        assert answers["ping"]["mark"] == "ok"
        assert made.cloud.instances() == {}
        (boot,) = [call for call in made.cloud.calls("RunInstances") if "DryRun" not in call]
        assert OURS in boot.values()


@pytest.fixture
def moto() -> MotoServer:
    made = shared()
    made.reset()
    return made


@pytest.fixture
def on_moto(moto: MotoServer, tmp_path: Path) -> Path:
    daemon = {"Daemon": {"max_nodes": 1, "pool": MINE}, "Registry": {"listen": "127.0.0.1:0"}}
    return write_config(tmp_path / "live.cfg", {**on_ec2(moto.url), **daemon})


def test_broken_credentials_are_told_and_no_other_question_is_asked(
    moto: MotoServer, on_moto: Path, tmp_path: Path
) -> None:
    moto.fault("GetCallerIdentity", before=refusal("InvalidClientTokenId", 403))
    code, answers = check(on_moto, tmp_path / "state")
    assert code == 1
    assert "InvalidClientTokenId" in answers["credentials"]["text"]
    assert "[Cloud Credentials]" in answers["credentials"]["to_do"]
    assert answers["all else of the cloud"]["mark"] == "not asked"
    assert {call.action for call in moto.calls} == {"GetCallerIdentity"}


def test_a_create_that_is_refused_frees_its_record_and_names_the_permission(
    moto: MotoServer, on_moto: Path, tmp_path: Path
) -> None:
    # The policy lets the pool's nodes be made, and not the pre-flight's.
    moto.fault("RunInstances", before=refusal("DryRunOperation", 412))
    moto.fault("RunInstances", before=refusal("UnauthorizedOperation", 403, "no"))
    code, answers = check(on_moto, tmp_path / "state", "--boot")
    assert code == 1
    assert "UnauthorizedOperation" in answers["boot"]["text"]
    assert OURS in answers["boot"]["to_do"]
    assert answers["end"]["mark"] == "ok"
    assert CREATED not in answers


def test_init_writes_a_file_that_both_checks_take(moto: MotoServer, tmp_path: Path) -> None:
    path = tmp_path / "mine.cfg"
    given = {
        "image_id": "ami-12345678",
        "endpoint": moto.url,
        "key": "AKIDEXAMPLE",
        "secret": "wJalrXUtnFEMI",
        "ping_host": "https://127.0.0.1:9",
    }
    flags = [word for name, value in given.items() for word in ("--set", f"{name}={value}")]
    env = told(tmp_path / "state")
    done = run("init", "--cloud", "ec2", "--yes", *flags, str(path), env=env)
    # The one thing wrong: no node of EC2 can ping our loopback.
    assert done.returncode == 1, done.stderr
    (failed,) = [line for line in done.stdout.splitlines() if line.startswith("failed")]
    assert "ping address" in failed
    assert f"nodemanager check-cloud {path}" in done.stdout
    assert given["secret"] not in done.stdout + done.stderr
    assert os.stat(path).st_mode & 0o777 == 0o600


# On Google's cloud.


@pytest.fixture
def refusing(tmp_path: Path) -> tuple[Path, str, str]:
    """A file for a cloud that refuses one right; the check that must say so, and the right."""
    gce = shared_gce()
    gce.reset()
    gce.denied = {"compute.instances.create"}
    text, size = of_gce(gce), "[Size n1-standard-1]\nprice = 0.05\n"
    path = write(tmp_path, "gce", text + size)
    return path, "permissions to boot nodes", "compute.instances.create"


def test_a_right_that_is_refused_is_one_failed_line_for_people_and_programs(
    refusing: tuple[Path, str, str], tmp_path: Path
) -> None:
    config, name, right = refusing
    code, answers = check(config, tmp_path / "state")
    assert code == 1
    # Nobody serves the file's own registry, and its address is our loopback.
    failed = {one for one, row in answers.items() if row["mark"] == "failed"}
    assert failed - {"ping address"} == {name}
    assert right in answers[name]["text"]
    assert answers[name]["to_do"]
