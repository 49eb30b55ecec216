"""The installed unit under a real systemd: the whole story of one service, in order."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator

import pytest

from tests.live.harness import free_port
from tests.systemd.box import UNIT, Box
from tests.waiting import until

pytestmark = [pytest.mark.systemd, pytest.mark.server("systemd"), pytest.mark.timeout(900)]

POOL = """\
[Daemon]
min_nodes = 2
max_nodes = 2
poll_time = 2
max_poll_time = 5
node_stale_after = 600
[Registry]
listen = 127.0.0.1:{port}
slots = 4
token_file = /run/credentials/{unit}.service/token
[Cloud]
provider = local
[Cloud Create]
boot_delay = 1
"""
TOKEN = "the-registry-s-token-that-systemd-hands-over"
DROP_IN = "[Service]\nLoadCredential=token:/etc/credstore/token\nWatchdogSec=10\nRestartSec=1\n"
COMMAND = "/opt/nodemanager/bin/nodemanager"
FILE = "/etc/nodemanager/local.cfg"


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    if os.getuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("needs root, for namespaces")
    with Box(f"nodemanager-test-{os.getpid()}") as made:
        made.install()
        made.write(FILE, POOL.format(port=free_port(), unit=UNIT))
        made.write("/etc/credstore/token", TOKEN)
        made.write(f"/etc/systemd/system/{UNIT}.service.d/ours.conf", DROP_IN)
        made.ok("chmod", "0600", "/etc/credstore/token")
        made.ok("systemctl", "daemon-reload")
        code, said = made.run("systemctl", "start", UNIT)
        assert code == 0, said + made.story()
        yield made


def nodes(box: Box) -> set[str]:
    code, said = box.run(COMMAND, "nodes", "--json", "--config", FILE)
    if code:
        return set()
    told = json.loads(said)
    rows = told["nodes"] if isinstance(told, dict) else told
    return {row["node"] for row in rows if row.get("record")}


def two_nodes(box: Box) -> set[str]:
    return until("two nodes", lambda: nodes(box) if len(nodes(box)) >= 2 else None, 60) or set()


def processes(box: Box) -> set[str]:
    """The commands of the service's processes that are nodes, by process id."""
    said = box.run("sh", "-c", "ps -eo pid,user,cmd | grep '[c]loud.local' | cut -c1-40")[1]
    return set(said.splitlines())


def test_it_starts_and_is_ready_only_when_the_daemon_runs(box: Box):
    assert box.show("Type") == "notify"
    assert (box.show("ActiveState"), box.show("SubState")) == ("active", "running")
    assert box.show("StatusText") == "serving pool local"
    assert "event=daemon.started" in box.story()
    two_nodes(box)


def test_the_token_came_as_a_credential_and_is_nowhere_to_be_read(box: Box):
    place = f"/run/credentials/{UNIT}.service/token"
    pid = box.show("MainPID")

    assert box.ok("cat", place) == TOKEN
    assert TOKEN not in box.story()
    assert TOKEN not in box.ok(
        "sh", "-c", f"tr '\\0' ' ' </proc/{pid}/cmdline /proc/{pid}/environ | cat"
    )


def test_it_can_write_its_state_and_nothing_else(box: Box):
    """Asked from within the service's own mounts, as its user and without capabilities."""
    pid = box.show("MainPID")
    user = box.ok("id", "-u", "nodemanager").strip()
    as_service = f"nsenter -t {pid} -m -- setpriv --reuid {user} --clear-groups --no-new-privs"
    as_root = f"nsenter -t {pid} -m --"
    writes = "touch {place}/probe && rm {place}/probe"

    for place in ("/var/lib/nodemanager/local", "/var/log/nodemanager"):
        box.ok("sh", "-c", f"{as_service} sh -c '{writes.format(place=place)}'")
    for place in ("/etc/nodemanager", "/opt/nodemanager", "/usr", "/var/lib", "/etc"):
        # By the mounts alone: even root could not.
        code, said = box.run("sh", "-c", f"{as_root} touch {place}/probe")
        assert code != 0, place
        assert "Read-only file system" in said, said
    assert box.ok("sh", "-c", f"{as_root} ls -A /home /root").split() == ["/home:", "/root:"]
    status = box.ok("cat", f"/proc/{pid}/status")
    assert "CapBnd:\t0000000000000000" in status
    assert "NoNewPrivs:\t1" in status
    assert "Seccomp:\t2" in status


def test_reload_applies_the_file_and_refuses_a_wrong_one(box: Box):
    pid, text = box.show("MainPID"), box.ok("cat", FILE)

    box.write(FILE, text.replace("node_stale_after = 600", "node_stale_after = 7777"))
    box.ok("systemctl", "reload", UNIT)
    until("the new window", lambda: "7777" in box.story())
    box.write(FILE, text + "\n[Nonsense]\nx = 1\n")
    box.ok("systemctl", "reload", UNIT)
    until("the refusal", lambda: "Nonsense" in box.story())
    box.write(FILE, text)
    box.ok("systemctl", "reload", UNIT)

    assert box.show("MainPID") == pid
    assert box.show("ActiveState") == "active"


def test_one_that_is_stuck_is_killed_by_the_watchdog_and_loses_nothing(box: Box):
    before, pid = two_nodes(box), box.show("MainPID")

    box.ok("kill", "-STOP", pid)
    until("another process", lambda: box.show("MainPID") not in (pid, "0"), 60)
    until("its readiness", lambda: box.show("SubState") == "running", 60)

    assert int(box.show("NRestarts")) >= 1
    assert "Watchdog timeout" in box.story()
    assert two_nodes(box) == before
    assert "record.clean " not in box.story()


def test_an_upgrade_while_nodes_work_leaves_them_alone(box: Box):
    before, pid = two_nodes(box), box.show("MainPID")

    box.install()
    assert box.show("MainPID") == pid
    box.ok("systemctl", "restart", UNIT)

    assert box.show("MainPID") != pid
    assert two_nodes(box) == before
    running = box.ok("readlink", "-f", f"/proc/{box.show('MainPID')}/cwd").strip()
    assert running == "/var/lib/nodemanager/local"


def test_it_stops_within_its_limit_and_its_nodes_live_on(box: Box):
    two_nodes(box)
    box.ok("systemctl", "stop", UNIT)

    assert box.show("ActiveState") == "inactive"
    assert box.show("Result") == "success"
    assert processes(box) != set()


def test_the_journal_tells_the_whole_story(box: Box):
    story = box.story()

    for told in (
        "event=daemon.started",
        "event=node.paired",
        "event=config.changed",
        "Watchdog timeout",
        "Started",
        "event=daemon.stopped",
        "Stopped",
    ):
        assert told in story, told
