"""A registry as years without cleaning leave it, and nodes that somebody made by hand."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

from nodemanager.cloud.local.driver import LocalNodeDriver
from nodemanager.cloud.local.options import node_settings
from nodemanager.lib.clock import SystemClock
from tests.forked import run
from tests.live.cluster import DirectedCluster
from tests.live.harness import PING_SCRIPT, environment

YEAR_NS = 31_557_600 * 10**9


def leak(cluster: DirectedCluster, count: int) -> dict[str, int]:
    """Records whose nodes ended unnoticed, one a month or so ago and more; slots by uuid.

    As the forerunner left them: with an instance id, and without a claim.
    """
    uuids: dict[str, int] = {}
    for slot in range(1, count + 1):
        row = cluster.registry.create(
            slot_number=slot,
            hostname=f"compute{slot}",
            ip_address=f"10.1.0.{slot}",
            info={"ec2_instance_id": f"i-{slot:08x}"},
        )
        uuids[row["uuid"]] = slot
    with sqlite3.connect(cluster.state / "registry.db", timeout=10) as connection:
        for uuid, slot in uuids.items():
            ago = YEAR_NS // 12 * slot
            connection.execute(
                "UPDATE nodes SET modified_at = modified_at - ?, created_at = created_at - ?, "
                "last_ping_at = modified_at - ?, first_ping_at = modified_at - ? WHERE uuid = ?",
                (ago, ago, ago, ago + YEAR_NS // 52, uuid),
            )
    return uuids


def secrets_of(cluster: DirectedCluster) -> list[str]:
    """Every ping secret that the registry knows."""
    with sqlite3.connect(cluster.state / "registry.db", timeout=10) as connection:
        infos = [json.loads(row[0]) for row in connection.execute("SELECT info FROM nodes")]
    return [info["ping_secret"] for info in infos if info.get("ping_secret")]


def hand_made(cluster: DirectedCluster, name: str, ping_url: str) -> str:
    """A node that somebody started beside us, without a tag of ours, and that works; its id."""
    settings = node_settings(
        {"ping_interval": "0.7", "ping_script": str(PING_SCRIPT), "work_for": "3600"}
    )
    driver = LocalNodeDriver(cluster.state_made() / "local-cloud", settings, SystemClock())
    size = driver.list_sizes()[0]
    node = driver.create_node(name, size, ex_tags={"owner": "alice"}, ex_userdata=ping_url)
    return str(node.id)


def ping_url(cluster: DirectedCluster, uuid: str) -> str:
    with sqlite3.connect(cluster.state / "registry.db", timeout=10) as connection:
        query = "SELECT info FROM nodes WHERE uuid = ?"
        (info,) = connection.execute(query, (uuid,)).fetchone()
    secret = json.loads(info)["ping_secret"]
    return f"{cluster.registry.url}/arvados/v1/nodes/{uuid}/ping?ping_secret={secret}"


def command(config: Path, *words: str, code: int = 0) -> str:
    """What `nodemanager WORDS --config FILE` prints, once it exits with that code."""
    env = environment(STATE_DIRECTORY=str(config.parent / "state"))
    ended = run(*words, "--config", str(config), env=env)
    assert ended.returncode == code, (ended.returncode, ended.stdout, ended.stderr)
    return ended.stdout + (ended.stderr if code else "")


def answer(config: Path, *words: str) -> Any:
    return json.loads(command(config, *words, "--json"))
