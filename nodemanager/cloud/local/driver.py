"""A libcloud NodeDriver whose nodes are processes on this machine."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from libcloud.common.exceptions import BaseHTTPError
from libcloud.compute.base import Node, NodeDriver, NodeImage, NodeSize
from libcloud.compute.types import NodeState

from nodemanager.cloud.local import node as node_script
from nodemanager.cloud.local.options import NodeSettings
from nodemanager.cloud.local.state import ENDED_SHOWN, NodeDir, StateDir
from nodemanager.errors import CloudError
from nodemanager.lib.clock import Clock, SystemClock

START_LIMIT = 30.0
"""Seconds within which a node's process must have started."""

SIZES = (
    ("small", 1, 1024, 4, 0.01),
    ("medium", 2, 4096, 16, 0.04),
    ("large", 4, 16384, 64, 0.16),
)
"""Name, cores, MB of memory, GB of disk and price per hour of each size."""

PASSED_ON = ("PATH", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""The environment variables that a node inherits; none of them may hold a secret."""


# libcloud has no types, and its classes are Any to the checker.
class LocalNodeDriver(NodeDriver):  # type: ignore[misc]
    """Nodes as processes; all state is in the directory, which several drivers may share."""

    name = "Processes on this machine"
    type = "local"

    def __init__(
        self, directory: Path | str, settings: NodeSettings, clock: Clock | None = None
    ) -> None:
        self.state = StateDir(Path(directory))
        self.settings = settings
        self.clock = clock or SystemClock()
        self.connection = None

    def list_nodes(self) -> list[Node]:
        """Every node in every state, but for those that ended over ENDED_SHOWN seconds ago."""
        self.state.drop_old_attempts()
        nodes = []
        for entry in self.state.all():
            self._notice_end(entry)
            ended_at = entry.ended_at()
            if ended_at is not None and self.clock.wall() - ended_at > ENDED_SHOWN:
                self.state.forget(entry)
                continue
            node = self._node(entry)
            if entry.path.exists():  # Otherwise it vanished while we read it.
                nodes.append(node)
        return nodes

    def ex_get_node(self, node_id: str) -> Node | None:
        entry = self.state.find(node_id)
        if entry is None:
            return None
        self._notice_end(entry)
        node = self._node(entry)
        return node if entry.path.exists() else None

    def list_sizes(self, location: Any = None) -> list[NodeSize]:
        return [
            NodeSize(name, name, ram, disk, None, price, self, extra={"cpu": cores})
            for name, cores, ram, disk, price in SIZES
        ]

    def create_node(
        self,
        name: str,
        size: NodeSize,
        image: NodeImage | None = None,
        ex_tags: Mapping[str, str] | None = None,
        ex_userdata: str = "",
        ex_client_token: str = "",
        **_ignored: object,
    ) -> Node:
        """Start a node, or give the one that an earlier call with this token started."""
        token = ex_client_token or os.urandom(16).hex()
        node_id = f"local-{hashlib.sha256(token.encode()).hexdigest()[:20]}"
        with self.state.creating():
            entry = self.state.find(node_id)
            if entry is None:
                if self.state.was_used(node_id):
                    raise BaseHTTPError(400, "that client token's node is gone")
                entry = self._start(node_id, name, size, dict(ex_tags or {}), ex_userdata)
            self._notice_end(entry)
            return self._node(entry)

    def destroy_node(self, node: Node) -> bool:
        """End the node's process; False when it has not ended within the time limits."""
        entry = self.state.find(node.id)
        if entry is None:
            raise BaseHTTPError(404, f"there is no node {node.id}")
        entry.mark_stopping()
        process = entry.process()
        if process is not None and not process.end():
            return False
        self._notice_end(entry)
        return True

    def ex_image(self) -> str | None:
        """The id of the image that a node started now has.

        A file of the directory's `images` that has the image's name holds its id; a name without a
        file is an id itself.
        """
        name = self.settings.image
        if name is None or "/" in name:
            return name
        try:
            return (self.state.root / "images" / name).read_text(encoding="utf-8").strip() or None
        except FileNotFoundError:
            return name

    def ex_set_tags(self, node_id: str, tags: Mapping[str, str]) -> None:
        """Add tags to a node and keep its others."""
        with self.state.creating():
            entry = self.state.find(node_id)
            if entry is None or entry.ended_at() is not None:
                raise BaseHTTPError(400, f"there is no node {node_id}")
            entry.change_tags(tags)

    def _start(
        self, node_id: str, name: str, size: NodeSize, tags: dict[str, str], user_data: str
    ) -> NodeDir:
        self.state.note_first_use()
        attempt = self.state.new_attempt(node_id)
        meta = {
            "id": node_id,
            "name": name,
            "size": str(size.id),
            "tags": tags,
            "address": self.state.new_address(),
            "created_at": self.clock.wall(),
            "settings": asdict(self.settings),
            "image": self.ex_image(),
        }
        node_script.write_atomic(attempt / node_script.META, meta)
        _write_private(attempt / node_script.USER_DATA, user_data)
        code = self._launch(attempt)
        entry = self.state.find(node_id)
        if entry is None:
            raise CloudError(f"create {name}: its process did not start (exit code {code})")
        if code == node_script.REFUSED:
            # An earlier call with this token was killed after it had started the node.
            shutil.rmtree(attempt, ignore_errors=True)
        return entry

    def _launch(self, attempt: Path) -> int:
        """Run the node's script, which returns once its fork is in place; gives its exit code."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        with open(os.open(attempt / node_script.LOG, flags, 0o600), "wb") as log:
            return subprocess.run(
                [sys.executable, "-I", "-S", str(node_script.__file__), str(attempt)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env={key: os.environ[key] for key in PASSED_ON if key in os.environ},
                start_new_session=True,
                timeout=START_LIMIT,
                check=False,
            ).returncode

    def _notice_end(self, entry: NodeDir) -> None:
        """Note the end of a node whose process is dead, whoever killed it."""
        process = entry.process()
        if process is None or process.alive or not entry.path.exists():
            return
        try:
            entry.mark_ended(self.clock.wall())
        except FileNotFoundError:
            return  # The node vanished meanwhile, or another thread removed it.

    def _node(self, entry: NodeDir) -> Node:
        """The node as libcloud's class, without the fields that can't be read."""
        try:
            meta = entry.meta()
        except (OSError, ValueError):
            meta = {}
        state = self._state(entry, meta)
        created_at = meta.get("created_at")
        extra = {"state": state, "size": meta.get("size"), "image": meta.get("image")}
        if "tags" in meta:
            extra["tags"] = meta["tags"]
        return Node(
            id=entry.id,
            name=meta.get("name"),
            # The reader takes the state and the size of `extra`.
            state=NodeState.UNKNOWN,
            public_ips=[],
            private_ips=[meta["address"]] if "address" in meta else [],
            driver=self,
            created_at=None if created_at is None else datetime.fromtimestamp(created_at, UTC),
            extra=extra,
        )

    def _state(self, entry: NodeDir, meta: Mapping[str, Any]) -> str:
        if entry.ended_at() is not None:
            return "terminated"
        if entry.process() is None:
            return "unknown"
        if entry.stopping:
            return "stopping"
        booted_at = meta.get("created_at", 0.0) + meta.get("settings", {}).get("boot_delay", 0.0)
        return "pending" if self.clock.wall() < booted_at else "running"


def _write_private(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
