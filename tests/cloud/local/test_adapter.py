"""The local cloud: real processes that outlive their creator, work, and vanish."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from nodemanager.cloud.api import CloudDriver, CreateOrder
from nodemanager.cloud.local import node as local_node
from nodemanager.cloud.local import state as local_state
from nodemanager.cloud.local.__main__ import sweep
from nodemanager.cloud.local.adapter import build_cloud
from nodemanager.cloud.local.options import node_settings
from nodemanager.cloud.local.state import ENDED_SHOWN, ProcessIdentity, StateDir
from nodemanager.core.model.world import CloudNode, CloudState, Outcome, Tags
from nodemanager.errors import BadRequest, ConfigError
from nodemanager.lib.clock import SystemClock
from tests.cloud.cloud_config import cloud_config
from tests.cloud.pings import PingServer
from tests.fakes.clock import ManualClock
from tests.waiting import until

QUICK = {"boot_delay": "0", "ping_interval": "0.2"}


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "local"
    yield place
    sweep(place)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def open_cloud(
    directory: Path, create: Mapping[str, str] | None = None, *, clock: ManualClock | None = None
) -> CloudDriver:
    return build_cloud(
        cloud_config(
            pool="demo",
            directory=directory,
            create={**QUICK, **(create or {})},
            clock=clock or SystemClock(),
        )
    )


def order(cloud: CloudDriver, number: int, url: str) -> CreateOrder:
    return CreateOrder(
        name=f"compute{number}",
        size=cloud.list_sizes()[0],
        tags=Tags("demo", f"zzzzz-7ekkf-{number:015}", f"{number:032x}"),
        client_token=f"token-{number}",
        user_data=url,
    )


def boot(cloud: CloudDriver, server: PingServer, count: int = 1) -> list[CloudNode]:
    records = [f"zzzzz-7ekkf-{number:015}" for number in range(count)]
    return [
        cloud.create(order(cloud, number, server.url(record)))
        for number, record in enumerate(records)
    ]


def process_of(directory: Path, node: CloudNode) -> ProcessIdentity:
    entry = StateDir(directory).find(node.id)
    assert entry is not None
    process = entry.process()
    assert process is not None
    return process


def test_a_node_pings_its_record_from_an_address_of_its_own(
    directory: Path, pings: PingServer
) -> None:
    nodes = boot(open_cloud(directory), pings, 3)
    until("a ping of each", lambda: all(pings.of(node.id) for node in nodes))
    for number, node in enumerate(nodes):
        ping = pings.of(node.id)[0]
        assert (ping.address,) == node.addresses == (f"127.0.0.{2 + number}",)
        assert ping.form["local_ipv4"] == ping.address
        assert ping.path == f"/arvados/v1/nodes/{node.tags.record}/ping"
        assert ping.query == {"ping_secret": f"s3cr3t-{number:03}"}


def test_a_node_works_and_rests_by_turns(directory: Path, pings: PingServer) -> None:
    (node,) = boot(open_cloud(directory, {"work_for": "0.6"}), pings)

    def turns() -> list[str]:
        said = [ping.form["worker_state"] for ping in pings.of(node.id)]
        return [one for one, before in zip(said, ["", *said], strict=False) if one != before]

    until("work, rest, work", lambda: len(turns()) >= 3)
    assert turns()[:3] == ["busy", "idle", "busy"]


def test_a_node_that_is_told_to_drain_ends_its_work_and_takes_none_until_it_is_wanted_d12(
    directory: Path, pings: PingServer
) -> None:
    (node,) = boot(open_cloud(directory, {"work_for": "0.6"}), pings)

    def newest() -> tuple[str, str | None]:
        form = pings.of(node.id)[-1].form
        return form["worker_state"], form.get("drain_order")

    until("a ping", lambda: bool(pings.of(node.id)))
    assert pings.of(node.id)[0].form["drain_hook"] == "yes"
    pings.body = '{"drain": true, "drain_order": "00c0ffee"}'
    until("drained", lambda: newest() == ("drained", "00c0ffee"))
    said = len(pings.of(node.id))
    until("time for many turns", lambda: len(pings.of(node.id)) > said + 8)
    assert {one.form["worker_state"] for one in pings.of(node.id)[said:]} == {"drained"}
    pings.body = '{"drain": false, "drain_order": null}'
    until("work again", lambda: newest() == ("busy", None))


def test_a_node_outlives_the_kill_of_its_creator(directory: Path, pings: PingServer) -> None:
    program = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from tests.cloud.local.test_adapter import open_cloud, order\n"
        "cloud = open_cloud(Path(sys.argv[1]))\n"
        "print(cloud.create(order(cloud, 1, sys.stdin.readline())).id, flush=True)\n"
        "time.sleep(60)\n"
    )
    creator = subprocess.Popen(
        [sys.executable, "-c", program, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
        start_new_session=True,
    )
    assert creator.stdin is not None
    assert creator.stdout is not None
    creator.stdin.write(pings.url() + "\n")
    creator.stdin.flush()
    node_id = creator.stdout.readline().strip()
    os.killpg(creator.pid, signal.SIGKILL)
    creator.wait()
    creator.stdin.close()
    creator.stdout.close()
    before = len(pings.of(node_id))
    until("pings after the kill", lambda: len(pings.of(node_id)) >= before + 2)
    node = open_cloud(directory).ask(node_id)
    assert node is not None
    assert node.state is CloudState.RUNNING


def test_one_busy_node_vanishes_once_in_the_life_of_the_cloud(
    directory: Path, pings: PingServer
) -> None:
    # Three nodes must be up before the first of them goes, also on a busy machine.
    settings = {"work_for": "60", "vanish_after": "6"}
    cloud = open_cloud(directory, settings)
    nodes = boot(cloud, pings, 3)
    processes = {node.id: process_of(directory, node) for node in nodes}

    def missing() -> set[str]:
        return {node.id for node in nodes} - {node.id for node in cloud.list_nodes().items}

    until("one node gone", lambda: bool(missing()))
    (gone,) = missing()
    until("its process dead", lambda: not processes[gone].alive)
    assert pings.of(gone)[-1].form["worker_state"] == "busy"
    assert cloud.ask(gone) is None
    assert cloud.destroy(gone) is Outcome.UNKNOWN
    later = open_cloud(directory, settings)
    replacement = later.create(order(later, 9, pings.url()))
    alive = [node.id for node in (*nodes, replacement) if node.id != gone]
    seen = {node_id: len(pings.of(node_id)) for node_id in alive}
    until(
        "more work of the others",
        lambda: all(len(pings.of(node_id)) >= seen[node_id] + 4 for node_id in alive),
    )
    assert {node.id for node in later.list_nodes().items} == set(alive)


def test_an_idle_node_never_vanishes(directory: Path, pings: PingServer) -> None:
    cloud = open_cloud(directory, {"work_for": "0", "vanish_after": "0"})
    (node,) = boot(cloud, pings)
    until("some pings", lambda: len(pings.of(node.id)) >= 4)
    assert [one.id for one in cloud.list_nodes().items] == [node.id]
    assert not (directory / "vanished").exists()


def test_no_process_shows_the_secret_while_a_ping_is_under_way(
    directory: Path, pings: PingServer
) -> None:
    pings.gate.clear()
    (node,) = boot(open_cloud(directory), pings)
    until("the ping", lambda: bool(pings.of(node.id)))
    ours = [
        entry
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and node.id.encode() in read(entry / "cmdline")
    ]
    assert len(ours) >= 2, "the node and its ping script at the least"
    curls = [
        entry
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and read(entry / "comm") == b"curl\n"
    ]
    assert curls
    for entry in (*ours, *curls):
        assert b"s3cr3t" not in read(entry / "cmdline")
        assert b"s3cr3t" not in read(entry / "environ")
    user_data = directory / "nodes" / node.id / "user-data"
    assert user_data.read_text() == pings.url("zzzzz-7ekkf-000000000000000")
    assert user_data.stat().st_mode & 0o777 == 0o600


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_destroy_ends_a_node_that_does_not_heed_a_polite_signal(
    directory: Path, pings: PingServer
) -> None:
    cloud = open_cloud(directory)
    (node,) = boot(cloud, pings)
    process = process_of(directory, node)
    os.kill(process.pid, signal.SIGSTOP)
    assert cloud.destroy(node.id) is Outcome.GONE
    assert not process.alive
    assert cloud.destroy(node.id) is Outcome.GONE
    assert not (directory / "nodes" / node.id / "user-data").exists()


def test_a_node_killed_from_outside_is_terminated_then_listed_no_more(
    directory: Path, pings: PingServer, clock: ManualClock
) -> None:
    cloud = open_cloud(directory, clock=clock)
    (node,) = boot(cloud, pings)
    process = process_of(directory, node)
    os.kill(process.pid, signal.SIGKILL)
    until("its end", lambda: not process.alive)
    assert [one.state for one in cloud.list_nodes().items] == [CloudState.TERMINATED]
    clock.advance(ENDED_SHOWN + 1)
    assert cloud.list_nodes().items == ()
    assert cloud.ask(node.id) is None
    with pytest.raises(BadRequest):
        cloud.create(order(cloud, 0, pings.url()))


def test_a_reused_pid_is_not_taken_for_the_node(directory: Path, pings: PingServer) -> None:
    cloud = open_cloud(directory)
    (node,) = boot(cloud, pings)
    process = process_of(directory, node)
    assert process.end()
    stranger = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        said = {"pid": stranger.pid, "start": process.start, "boot_id": process.boot_id}
        (directory / "nodes" / node.id / "process.json").write_text(json.dumps(said))
        assert [one.state for one in cloud.list_nodes().items] == [CloudState.TERMINATED]
        assert cloud.destroy(node.id) is Outcome.GONE
        assert sweep(directory) == 0
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_create_killed_before_its_node_started_leaves_nothing(
    directory: Path, pings: PingServer
) -> None:
    cloud = open_cloud(directory)
    (made,) = boot(cloud, pings)
    cut_short = StateDir(directory).new_attempt("local-" + 20 * "1")
    (cut_short / local_node.USER_DATA).write_text(pings.url())
    listing = cloud.list_nodes()
    assert listing.complete
    assert [node.id for node in listing.items] == [made.id]
    os.utime(cut_short, (0, 0))
    cloud.list_nodes()
    assert not cut_short.exists()


def test_a_create_under_way_is_not_taken_for_a_killed_one_when_the_date_jumps(
    directory: Path,
) -> None:
    cloud = open_cloud(directory)
    state = StateDir(directory)
    with state.creating():
        under_way = state.new_attempt("local-" + 20 * "1")
        os.utime(under_way, (0, 0))
        cloud.list_nodes()
        assert under_way.exists()
    cloud.list_nodes()
    assert not under_way.exists()


def test_a_create_killed_after_its_node_started_is_found_and_not_repeated(
    directory: Path, pings: PingServer
) -> None:
    cloud = open_cloud(directory)
    asked = order(cloud, 1, pings.url())
    made = cloud.create(asked)
    # What a create leaves that was killed between its launch and its answer: a second one like it.
    attempt = StateDir(directory).new_attempt(made.id)
    shutil.copy(directory / "nodes" / made.id / local_node.META, attempt)
    late = subprocess.run(
        [sys.executable, "-I", "-S", str(local_node.__file__), str(attempt)], check=False
    )
    assert late.returncode == local_node.REFUSED
    assert cloud.create(asked).id == made.id
    assert [node.id for node in cloud.list_nodes().items] == [made.id]


def test_a_node_ends_when_its_state_directory_is_taken_away(
    directory: Path, pings: PingServer
) -> None:
    (node,) = boot(open_cloud(directory), pings)
    process = process_of(directory, node)
    shutil.rmtree(directory)
    until("its end", lambda: not process.alive)


def test_a_node_with_a_torn_file_is_listed_with_what_is_wrong(
    directory: Path, pings: PingServer
) -> None:
    cloud = open_cloud(directory)
    (node,) = boot(cloud, pings)
    meta = directory / "nodes" / node.id / "meta.json"
    whole = meta.read_text()
    meta.write_text("{")
    listing = cloud.list_nodes()
    meta.write_text(whole)
    assert listing.complete
    (seen,) = listing.items
    assert seen.id == node.id
    assert not seen.is_absent
    assert any(line.startswith("tags") for line in seen.problems)
    assert any("launch time" in line for line in seen.problems)
    assert len(listing.problems) == len(seen.problems)


def test_sweep_ends_every_node_though_nobody_reads_what_it_says(
    directory: Path, pings: PingServer
) -> None:
    """O8: `make run | tee log`, where Ctrl-C ends tee as well."""
    nodes = boot(open_cloud(directory), pings, 3)
    processes = [process_of(directory, node) for node in nodes]
    command = [sys.executable, "-m", "nodemanager.cloud.local", "sweep", str(directory)]
    reader, writer = os.pipe()
    os.close(reader)
    root = Path(__file__).parents[3]
    done = subprocess.run(
        command, stdout=writer, stderr=subprocess.PIPE, text=True, cwd=root, check=False
    )
    os.close(writer)
    assert not [process for process in processes if process.alive]
    assert (done.returncode, done.stderr) == (0, "")


def test_sweep_ends_every_node_and_says_which(
    directory: Path, pings: PingServer, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = boot(open_cloud(directory), pings, 2)
    processes = [process_of(directory, node) for node in nodes]
    root = Path(__file__).parents[3]
    command = [sys.executable, "-m", "nodemanager.cloud.local", "sweep", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for node, process in zip(nodes, processes, strict=True):
        assert f"ended node {node.id} ({node.name}), pid {process.pid}" in done.stdout
        assert not process.alive
    assert sweep(directory) == 0
    assert "no node was running" in capsys.readouterr().out
    usage = subprocess.run(command[:-2], capture_output=True, text=True, cwd=root, check=False)
    assert usage.returncode == 2


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("boot_delay", "soon"),
        ("work_for", "-1"),
        ("vanish_after", "nan"),
        ("ping_interval", "0"),
        ("ping_script", "/nowhere/ping"),
    ],
)
def test_a_wrong_option_is_named(key: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        node_settings({key: value})
    assert len(caught.value.problems) == 1
    assert f"[Cloud Create] {key} = {value}" in caught.value.problems[0]


def test_the_options_are_read_as_durations() -> None:
    settings = node_settings(
        {"boot_delay": "1.5", "work_for": "2m", "vanish_after": "1h", "ping_interval": "3s"}
    )
    assert (settings.boot_delay, settings.work_for) == (1.5, 120.0)
    assert (settings.vanish_after, settings.ping_interval) == (3600.0, 3.0)
    assert node_settings({"vanish_after": "off"}).vanish_after is None


@pytest.mark.parametrize("name", ["ended.json", "first-use"])
def test_no_link_is_followed_where_a_value_is_written(tmp_path: Path, name: str) -> None:
    """X7: who may write to the directory must not choose what is written elsewhere."""
    victim = tmp_path / "victim"
    victim.write_text("mine", encoding="utf-8")
    target = tmp_path / name
    (tmp_path / f"{name}.{os.getpid()}.draft").symlink_to(victim)
    target.symlink_to(victim)
    local_node.write_atomic(target, {"at": 1.0})
    assert victim.read_text(encoding="utf-8") == "mine"
    assert not target.is_symlink()
    assert json.loads(target.read_text(encoding="utf-8")) == {"at": 1.0}


def test_a_lock_that_is_a_link_is_not_opened(tmp_path: Path) -> None:
    """X7."""
    state = StateDir(tmp_path / "local")
    victim = tmp_path / "victim"
    (state.root / local_state.LOCK).symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"), state.creating():
        pass
    assert not victim.exists()


def test_the_name_of_an_image_is_looked_up_each_time_d15(directory: Path) -> None:
    cloud = open_cloud(directory, {"image": "worker"})
    assert cloud.image() == "worker"
    names = directory / "images"
    names.mkdir()
    (names / "worker").write_text("image-7\n", encoding="utf-8")
    assert cloud.image() == "image-7"
    assert open_cloud(directory).image() is None
