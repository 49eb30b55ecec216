"""HAProxy before several registries, with the configuration that is shipped (etc/haproxy)."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.live.harness import TREE
from tests.waiting import until

SHIPPED = TREE / "etc/haproxy/registry.cfg"


class HAProxy:
    """Listens on `port`, and hands requests to the registries at `backends` (HOST:PORT)."""

    def __init__(self, home: Path, port: int, backends: Sequence[str]) -> None:
        text = SHIPPED.read_text(encoding="utf-8")
        self._admin = home / "haproxy.sock"
        text, bound = re.subn(r"bind :8990 ssl crt \S+", f"bind 127.0.0.1:{port}", text)
        text, limited = re.subn(
            "maxconn 8000", f"maxconn 200\n    stats socket {self._admin}", text
        )
        text, checked = re.subn(r"(check inter) 2s", r"\1 200ms", text)
        assert (bound, limited, checked) == (1, 1, 1)
        for number, address in enumerate(backends, 1):
            shipped = f"192.0.2.{number}:8990"
            assert shipped in text
            text = text.replace(shipped, address)
        config = home / "haproxy.cfg"
        config.write_text(text, encoding="utf-8")
        program = shutil.which("haproxy") or "/usr/sbin/haproxy"
        self._log = home / "haproxy.log"
        with open(self._log, "wb") as output:
            self._process = subprocess.Popen(
                [program, "-db", "-f", str(config)], stdout=output, stderr=output
            )
        until("HAProxy", self._admin.exists, told=self.told)

    def up(self) -> set[str]:
        """The registries that it hands requests to."""
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(str(self._admin))
            line.sendall(b"show stat\n")
            answer = b"".join(iter(lambda: line.recv(65536), b"")).decode("ascii")
        head, *rows = [row.split(",") for row in answer.removeprefix("# ").splitlines() if row]
        shown = [dict(zip(head, row, strict=False)) for row in rows]
        own = [row for row in shown if row["svname"] not in ("FRONTEND", "BACKEND")]
        return {row["svname"] for row in own if row["status"].startswith("UP")}

    @property
    def pid(self) -> int:
        return self._process.pid

    def told(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=30)
