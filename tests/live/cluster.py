"""A cluster in a directory: its configuration, its daemons, its local cloud, its registry."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import requests

from nodemanager.cloud.local.__main__ import sweep
from nodemanager.cloud.local.state import NodeDir, StateDir
from tests.forked import run
from tests.live.harness import (
    PING_SCRIPT,
    Daemon,
    Registry,
    end_all,
    environment,
    free_port,
    write_config,
)
from tests.waiting import DEADLINE_S

TOKEN = "live-registry-token"
MANAGEMENT_TOKEN = "live-management-token"

Sections = Mapping[str, Mapping[str, object]]

SHORT: Sections = {
    "Daemon": {
        "pool": "live",
        "poll_time": 0.5,
        "max_poll_time": 2,
        "poll_stale_after": 4,
        "node_stale_after": 6,
        "boot_fail_after": 30,
    },
    "Manage": {"port": 0, "ManagementToken": MANAGEMENT_TOKEN},
    "Registry": {"listen": "127.0.0.1:0", "token": TOKEN},
    "Cleaning": {"settle": 1.5},
}
"""Windows of a few seconds, and ports that nobody else has."""

LOCAL: Sections = {
    # In minutes: nodes may go as soon as they are idle.
    "Cloud": {"provider": "local", "shutdown_windows": "0, 999999"},
    "Cloud Create": {"boot_delay": 0.3, "ping_interval": 0.7},
}

SAYS = """#!/bin/sh
# The shipped script, told what the test wants this node to do.
for word; do
    [ "$last" = --instance-id ] && id=$word
    last=$word
done
said=$(cat "{states}/$id" 2>/dev/null || cat "{states}/default")
exec /bin/sh "{script}" "$@" --worker-state "$said"
"""


def over_arvados(registry: str, slots: object, timeout: float) -> Sections:
    """Records behind the Arvados client, in the registry at that URL."""
    return {
        "Records": {"provider": "arvados", "slots": slots},
        "Arvados": {"host": registry, "token": TOKEN, "timeout": timeout},
        "Registry": {"listen": None, "token": None, "slots": None},
    }


def merged(*layers: Sections) -> dict[str, dict[str, object]]:
    """Sections of several layers as one, later ones before earlier ones; None leaves one out."""
    whole: dict[str, dict[str, object]] = {}
    for layer in layers:
        for name, options in layer.items():
            whole.setdefault(name, {}).update(options)
    return {
        name: {key: value for key, value in options.items() if value is not None}
        for name, options in whole.items()
    }


class Cluster:
    """One pool: a directory that holds all there is of it."""

    module = "nodemanager"
    """What its daemons run."""
    patience_s = DEADLINE_S
    """How long to wait for what a daemon of it is to say."""

    def __init__(self, home: Path, *layers: Sections) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        self.state = home / "state"
        self.layers = (SHORT, *layers)
        self.config = self.configure()
        self.daemons: list[Daemon] = []

    def options(self, section: str) -> dict[str, object]:
        """What the configuration file says there."""
        return merged(*self.layers).get(section, {})

    def configure(self, changes: Sections | None = None, name: str = "live.cfg") -> Path:
        """Write the configuration file, with these changes to what it is made from."""
        return write_config(self.home / name, merged(*self.layers, changes or {}))

    def change(self, changes: Sections) -> None:
        """Rewrite the configuration file for good; a SIGHUP or a start takes it up."""
        self.layers = (*self.layers, changes)
        self.configure()

    def start(
        self,
        *arguments: str,
        config: Path | None = None,
        command: str = "run",
        told: Mapping[str, str] | None = None,
    ) -> Daemon:
        """A daemon (or registry) of this cluster; it is ended with the cluster at the latest."""
        number = len(self.daemons) + 1
        daemon = Daemon(
            config or self.config,
            self.state,
            *arguments,
            command=command,
            log=self.home / f"{command}-{number}.log",
            module=self.module,
            told=told,
            patience_s=self.patience_s,
        )
        self.daemons.append(daemon)
        return daemon

    def types(
        self, *words: str, state: Path | None = None, **variables: str
    ) -> CompletedProcess[str]:
        """`nodemanager WORDS --config FILE` on a daemon's machine, until it has ended."""
        env = environment(STATE_DIRECTORY=str(state or self.state), **variables)
        return run(*words, "--config", str(self.config), env=env)

    def status(self, daemon: Daemon) -> dict[str, Any]:
        """The newest picture on its management server; empty before the first one."""
        answer = requests.get(
            f"{daemon.url_of('management')}/status.json",
            headers={"Authorization": f"Bearer {MANAGEMENT_TOKEN}"},
            timeout=10,
        )
        return dict(answer.json()) if answer.ok else {}

    def close(self) -> None:
        end_all(self.daemons)


class LocalCluster(Cluster):
    """A cluster whose nodes are processes of the local cloud."""

    def __init__(self, home: Path, *layers: Sections) -> None:
        super().__init__(home, LOCAL, *layers)
        self._cloud = StateDir(self.state_made() / "local-cloud")

    def state_made(self) -> Path:
        self.state.mkdir(mode=0o700, exist_ok=True)
        return self.state

    def close(self) -> None:
        super().close()
        sweep(self._cloud.root)

    # What the cloud really has, whatever a listing says.

    def running(self) -> dict[str, NodeDir]:
        """The nodes whose process runs, by id."""
        alive = {}
        for entry in self._cloud.all():
            process = entry.process()
            if process is not None and process.alive:
                alive[entry.id] = entry
        return alive

    def tags(self) -> dict[str, str]:
        """The record that each running node was created for, by node id."""
        return {
            node_id: str(entry.meta()["tags"]["nodemanager-record"])
            for node_id, entry in self.running().items()
        }

    def pids(self) -> dict[str, int]:
        """The process of each running node: the same one tells that it never was another."""
        found = {}
        for node_id, entry in self.running().items():
            process = entry.process()
            if process is not None:
                found[node_id] = process.pid
        return found

    def vanished(self) -> str | None:
        """The id of the node that vanished unseen, once one has."""
        marker = self._cloud.root / "vanished"
        return (marker.read_text(encoding="ascii") or None) if marker.exists() else None

    def name_image(self, name: str, image: str) -> None:
        """From now on the local cloud's name of an image names that one."""
        names = self.state / "local-cloud" / "images"
        names.parent.mkdir(mode=0o700, exist_ok=True)
        names.mkdir(exist_ok=True)
        draft = names / "draft"
        draft.write_text(image, encoding="utf-8")
        draft.replace(names / name)

    def kill_node(self, node_id: str) -> None:
        """kill -9 from outside, of the node with all it runs."""
        process = self.running()[node_id].process()
        assert process is not None
        os.killpg(process.pid, signal.SIGKILL)


class DirectedCluster(LocalCluster):
    """A local cluster with a registry process of its own, whose nodes do what the test says."""

    def __init__(self, home: Path, *layers: Sections) -> None:
        states = home / "states"
        states.mkdir(parents=True)
        script = home / "ping"
        script.write_text(SAYS.format(states=states, script=PING_SCRIPT), encoding="utf-8")
        port = free_port()
        self.registry_layer: Sections = {
            "Registry": {"listen": f"127.0.0.1:{port}", "token": TOKEN},
        }
        url = f"http://127.0.0.1:{port}"
        apart: Sections = {
            "Registry": {"listen": ""},
            "Cloud Create": {"ping_host": url, "ping_script": script},
        }
        self._states = states
        self.everyone("idle")
        super().__init__(home, apart, *layers)
        self.registry = Registry(url, TOKEN)
        self.registry_process: Daemon | None = None

    def everyone(self, state: str) -> None:
        """What every node does that was told nothing of its own."""
        (self._states / "default").write_text(state, encoding="ascii")

    def node_does(self, node_id: str, state: str) -> None:
        (self._states / node_id).write_text(state, encoding="ascii")

    def serve_registry(self) -> Daemon:
        """Start the registry process, and wait until it listens."""
        config = self.configure(self.registry_layer, "registry.cfg")
        self.registry_process = self.start(config=config, command="registry")
        self.registry_process.wait_for("server.started", name="registry")
        return self.registry_process

    def claimed(self) -> dict[str, dict[str, Any]]:
        """The records that bear a claim."""
        rows = self.registry.rows()
        return {u: row for u, row in rows.items() if row["properties"].get("nodemanager_claim")}
