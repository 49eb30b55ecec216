"""The machines behind a cloud's API: each instance that runs pings, by the shipped script."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.live.harness import PING_SCRIPT, environment

PING_EVERY_S = 0.6
PING_LIMIT_S = 30.0

HOOK = """#!/bin/sh
cat "{own}" 2>/dev/null || cat "{default}"
"""
DRAIN_HOOK = """#!/bin/sh
case $1 in
    drain) : >"{flag}"; if [ "$("{hook}")" = busy ]; then echo busy; else echo drained; fi ;;
    resume) rm -f "{flag}" ;;
esac
"""


class NotServed(Exception):
    """The API is ending, or the instance just did."""


class Api(Protocol):
    """What the machines are, by a hand of the test's own. Both raise NotServed."""

    def running(self) -> list[str]:
        """The ids of the instances that run."""
        ...

    def user_data(self, node_id: str) -> bytes:
        """What the instance finds its ping URL in."""
        ...


@dataclass(frozen=True)
class Seen:
    """A node as its cloud has it: the host name and the tags that it bears."""

    hostname: str
    tags: Mapping[str, str]


class Cloud(Api, Protocol):
    """A cloud as its owner sees it, whatever a listing says."""

    def nodes(self) -> dict[str, Seen]:
        """Every node of ours that is there, by its id."""
        ...

    def creates(self) -> int:
        """How often a node was asked for so far."""
        ...

    def vanish(self, node_id: str) -> None:
        """End a node behind the manager's back."""
        ...

    def close(self) -> None: ...


@dataclass
class Machine:
    """One instance from its first sight: its user data, and how it pings."""

    user_data: Path
    command: list[str]
    said: str = "never pinged"


class NodeFarm:
    """Watches the instances, and has each running one ping, over and over, from `start` to `close`.

    Its nodes do what `everyone` and `node_does` say, through the script's hook for worker states.
    With `drain_hooks` they can be told to take no more work. `metadata` gives the URL of the
    metadata service of a node, by its id; None where they have none.
    """

    def __init__(
        self,
        api: Api,
        home: Path,
        *,
        ping_every: float = PING_EVERY_S,
        drain_hooks: bool = False,
        metadata: Callable[[str], str] | None = None,
    ) -> None:
        self._api = api
        self._home = home
        self._ping_every = ping_every
        self._drain_hooks = drain_hooks
        self._metadata = metadata
        home.mkdir(parents=True)
        self.machines: dict[str, Machine] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="node-farm", daemon=True)
        self.everyone("idle")

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(2 * PING_LIMIT_S)

    def everyone(self, state: str) -> None:
        """What every node does that was told nothing of its own."""
        (self._home / "default").write_text(state, encoding="ascii")

    def node_does(self, node_id: str, state: str) -> None:
        (self._home / f"{node_id}.state").write_text(state, encoding="ascii")

    def draining(self) -> list[str]:
        """The nodes that take no work."""
        return sorted(path.name.removesuffix(".no-work") for path in self._home.glob("*.no-work"))

    def told(self) -> str:
        """What each machine's script said last."""
        return "\n".join(f"{node_id}: {one.said}" for node_id, one in self.machines.items())

    def _run(self) -> None:
        while not self._over.wait(self._ping_every):
            try:
                running = self._api.running()
                for node_id in running:
                    if node_id not in self.machines:
                        self.machines[node_id] = self._boot(node_id)
            except NotServed:
                continue
            self._ping([self.machines[node_id] for node_id in running])

    def _boot(self, node_id: str) -> Machine:
        """A machine with what cloud-init would find, and an address that is its own."""
        found = self._api.user_data(node_id)
        user_data = self._home / f"{node_id}.user-data"
        user_data.touch(mode=0o600)
        user_data.write_bytes(found)
        hook = self._home / f"{node_id}.hook"
        own, default = self._home / f"{node_id}.state", self._home / "default"
        hook.write_text(HOOK.format(own=own, default=default), encoding="utf-8")
        hook.chmod(0o700)
        asks = ("--metadata", self._metadata(node_id)) if self._metadata else ("--no-metadata",)
        command = [
            *("/bin/sh", str(PING_SCRIPT), *asks),
            *("--url-file", str(user_data), "--instance-id", node_id),
            *("--interface", f"127.0.7.{len(self.machines) + 1}", "--state-hook", str(hook)),
        ]
        if self._drain_hooks:
            drain = self._home / f"{node_id}.drain"
            flag = self._home / f"{node_id}.no-work"
            drain.write_text(DRAIN_HOOK.format(flag=flag, hook=hook), encoding="utf-8")
            drain.chmod(0o700)
            command += ["--drain-hook", str(drain)]
            command += ["--state-directory", str(self._home / f"{node_id}.kept")]
        return Machine(user_data, command)

    def _ping(self, machines: list[Machine]) -> None:
        """All at once, as machines do; returns when each script has ended."""
        pings = [
            subprocess.Popen(
                machine.command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                env=environment(),
            )
            for machine in machines
        ]
        for machine, ping in zip(machines, pings, strict=True):
            try:
                _, said = ping.communicate(timeout=PING_LIMIT_S)
            except subprocess.TimeoutExpired:
                ping.kill()
                _, said = ping.communicate()
            machine.said = said.strip() or f"exit code {ping.returncode}"
