"""A node of the `local` cloud: a small process that boots, pings, works, and can vanish.

It runs as a script of its own, `python -I -S node.py ATTEMPT`, and uses only the standard
library, so that a node needs little memory and starts at once. It forks away from its creator
and outlives it.

The directory ATTEMPT holds meta.json and user-data. The process writes its identity there and
then renames the directory to its place among the nodes. So a node is listed if and only if its
process once ran, even if its creator was killed meanwhile (SAFETY.md R2).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

META, PROCESS, USER_DATA, LOG = "meta.json", "process.json", "user-data", "log"
DRAIN_HOOK, NO_WORK, BUSY = "drain-hook", "no-work", "busy"
FIRST_USE, VANISHED, GONE = "first-use", "vanished", "gone"

STARTED, REFUSED = 0, 3
PING_LIMIT = 100.0
"""Seconds for one run of the ping script; its own limits normally end it sooner."""
HOOK = f"""\
#!/bin/sh
cd "${{0%/*}}" || exit 1
case $1 in
    drain) : >{NO_WORK} && if [ -e {BUSY} ]; then echo busy; else echo drained; fi ;;
    resume) rm -f {NO_WORK} ;;
esac
"""
"""The node's drain hook; the worker starts no work while the file NO_WORK exists
(SAFETY.md D12)."""


def write_atomic(path: Path, content: object) -> None:
    """Write `content` as JSON, completely or not at all, readable by this user only."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.draft")
    # A dead process with this pid may have left a draft, or somebody may have planted one.
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)


def boot_id() -> str:
    """The id of this boot of the machine; pids are only comparable within one boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def process_stat(pid: int) -> tuple[str, int] | None:
    """State letter and start time (clock ticks since boot) of a process; None if there is none.

    Reads fields 3 and 22 of /proc/PID/stat (proc(5)); the name before them may hold any character.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[19])


class LocalNode:
    """The life of one node, from the first ping on."""

    def __init__(self, home: Path, meta: dict[str, Any]) -> None:
        self.home = home
        self.root = home.parent.parent
        self.id = str(meta["id"])
        self.settings = meta["settings"]
        self.command = [
            "/bin/sh",
            str(self.settings["ping_script"]),
            "--no-metadata",
            "--url-file",
            str(home / USER_DATA),
            "--interface",
            str(meta["address"]),
            "--instance-id",
            self.id,
            "--drain-hook",
            str(home / DRAIN_HOOK),
            "--state-directory",
            str(home),
        ]
        self.vanish_at = self._vanish_at()
        self.last_said = ""

    def _vanish_at(self) -> float | None:
        """Epoch seconds from which a busy node may vanish; None means never."""
        after = self.settings["vanish_after"]
        if after is None:
            return None
        return float((self.root / FIRST_USE).read_text(encoding="ascii")) + float(after)

    def run(self) -> None:
        """Boot, then ping until the node's directory is removed."""
        time.sleep(float(self.settings["boot_delay"]))
        hook = self.home / DRAIN_HOOK
        hook.write_text(HOOK, encoding="ascii")
        hook.chmod(0o700)
        begun = time.monotonic()
        interval = float(self.settings["ping_interval"])
        upcoming = begun
        while (self.home / META).exists():
            state = self.worker_state(time.monotonic() - begun)
            if self.ping(state) and state == "busy":
                self.vanish_if_due()
            upcoming = max(upcoming + interval, time.monotonic())
            time.sleep(max(0.0, upcoming - time.monotonic()))

    def worker_state(self, age: float) -> str:
        """Busy for work_for seconds, then idle for half as long, and so on, until it drains.

        The worker writes BUSY before it checks NO_WORK; the drain hook writes NO_WORK before it
        checks BUSY. So at least one of them sees the other.
        """
        work_for = float(self.settings["work_for"])
        busy = self.home / BUSY
        if work_for <= 0 or age % (work_for * 1.5) >= work_for:
            busy.unlink(missing_ok=True)
            return "idle"
        if not busy.exists():
            busy.touch()
            if (self.home / NO_WORK).exists():
                busy.unlink()
                return "idle"
        return "busy"

    def ping(self, worker_state: str) -> bool:
        """Run the shipped script; True when it succeeded. Repeated messages are logged once."""
        try:
            done = subprocess.run(
                [*self.command, "--worker-state", worker_state],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=PING_LIMIT,
                check=False,
            )
            said = done.stderr.decode("utf-8", "replace").strip()
            worked = done.returncode == 0
        except (OSError, subprocess.TimeoutExpired) as error:
            said, worked = type(error).__name__, False
        if said != self.last_said:
            self.last_said = said
            print(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), said or "ping taken")
            sys.stdout.flush()
        return worked

    def vanish_if_due(self) -> None:
        """Leave the listing and kill the process group, without a notice.

        An exclusive marker file makes sure that only one node per cloud does so.
        """
        if self.vanish_at is None or time.time() < self.vanish_at:
            return
        self.vanish_at = None
        try:
            marker = os.open(self.root / VANISHED, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return
        os.write(marker, self.id.encode("ascii"))
        os.close(marker)
        away = self.root / GONE / self.id
        os.rename(self.home, away)
        (away / USER_DATA).unlink()
        os.killpg(0, signal.SIGKILL)


def settle_in(attempt: Path) -> Path:
    """Write this process's identity and move the directory to the node's place.

    Raises FileExistsError when another attempt has the place.
    """
    meta = json.loads((attempt / META).read_text(encoding="utf-8"))
    seen = process_stat(os.getpid())
    start = None if seen is None else seen[1]
    write_atomic(attempt / PROCESS, {"pid": os.getpid(), "start": start, "boot_id": boot_id()})
    home = attempt.parent / str(meta["id"])
    try:
        os.rename(attempt, home)
    except OSError as error:
        if home.exists():
            raise FileExistsError(home) from error
        raise
    return home


def main(arguments: list[str]) -> int:
    """Fork the node; gives STARTED when it took its place, else REFUSED."""
    attempt = Path(arguments[1])
    reader, writer = os.pipe()
    if os.fork() != 0:
        os.close(writer)
        return STARTED if os.read(reader, 1) else REFUSED
    os.close(reader)
    os.setsid()
    try:
        home = settle_in(attempt)
    except FileExistsError:
        return REFUSED
    os.write(writer, b"+")
    os.close(writer)
    os.chdir("/")
    meta = json.loads((home / META).read_text(encoding="utf-8"))
    LocalNode(home, meta).run()
    return STARTED


if __name__ == "__main__":
    sys.exit(main(sys.argv))
