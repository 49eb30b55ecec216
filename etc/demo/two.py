"""What `make run WHAT=two` runs: two managers of one pool, their PostgreSQL, and a registry apart.

Enter kills the one that acts as `kill -9` does, and the other one takes over; the killed one is
started again, as systemd would. All is below .demo-two but for the database, which has a folder of
its own below /tmp. Ctrl-C ends all.
"""

from __future__ import annotations

import argparse
import os
import pwd
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import run
import slurm

NAMES = ("one", "two")
CONFIG = """\
# The demo of two managers: nodes are processes on this machine, and every window is short.
[Daemon]
min_nodes = 4
max_nodes = 4
poll_time = 1
max_poll_time = 5
poll_stale_after = 20
boot_fail_after = 30
node_stale_after = 60

[Lease]
store = database
duration = 5

[Manage]
port = 0

[Cloud]
provider = local
shutdown_windows = 1, 999999

[Cloud Credentials]
directory = {state}/local-cloud

[Cloud Create]
ping_host = {url}
boot_delay = 3
work_for = 20
vanish_after = 20

[Registry]
database = postgresql://nodemanager@/postgres?host={database}
slots = 4
listen = {listen}
token = the-demos-own-token

[Cleaning]
settle = 10
"""
OF_ANY = ("event=lease.", "event=daemon.", "level=warning", "nodemanager: ")
"""What is shown of a manager that stands by; its whole log is in its file."""


class Managers:
    """The two managers, and which of them acts, as they say themselves."""

    def __init__(self, state: Path, config: Path) -> None:
        self._state, self._config = state, config
        self._running: dict[str, subprocess.Popen[str]] = {}
        self.active: str | None = None
        self.is_ending = False

    def start(self, name: str) -> None:
        folder = self._state / name
        folder.mkdir(mode=0o700, exist_ok=True)
        self._running[name] = process = subprocess.Popen(
            [sys.executable, "-m", "nodemanager", "run", "--config", str(self._config)],
            env={**os.environ, "STATE_DIRECTORY": str(folder), "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        threading.Thread(target=self._tell, args=(name, process)).start()

    def _tell(self, name: str, process: subprocess.Popen[str]) -> None:
        """Show what a manager says, until it ends."""
        assert process.stdout is not None
        with (self._state / f"{name}.log").open("a", encoding="utf-8") as log:
            for line in process.stdout:
                log.write(line)
                log.flush()
                if "event=lease.acquired" in line:
                    self._acts(name)
                if name == self.active or any(word in line for word in OF_ANY):
                    run.say(f"{name:>3} | {line.rstrip()}")

    def _acts(self, name: str) -> None:
        self.active = name
        for other, process in list(self._running.items()):
            if process.poll() is not None and not self.is_ending:
                run.say(f"    | {other} is started again: it stands by")
                self.start(other)

    def kill_active(self) -> None:
        name = self.active
        if name is None:
            run.say("    | none of them acts now: one does when it says lease.acquired")
            return
        self.active = None
        run.say(f"    | kill -9 of {name}; the other one takes over once the lease is at its end")
        self._running[name].kill()
        self._running[name].wait()

    def end(self) -> None:
        self.is_ending = True
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            try:
                process.wait(run.PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()


def postgres(program: str) -> str | None:
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"))
    return str(places[-1]) if places else shutil.which(program)


@contextmanager
def database(state: Path) -> Iterator[Path]:
    """A PostgreSQL on a socket in the folder that it gives, until the end.

    It refuses to be root's, so root's is that of Debian's own user, who must reach its folder.
    """
    folder = Path(tempfile.mkdtemp(prefix="nodemanager-demo-"))
    (state / "database").symlink_to(folder)
    user = None
    if os.geteuid() == 0:
        user = "postgres"
        owner = pwd.getpwnam(user)
        os.chown(folder, owner.pw_uid, owner.pw_gid)
    data = str(folder / "data")
    made = [postgres("initdb") or "", "-D", data, "-A", "trust", "-U", "nodemanager", "--no-sync"]
    with (state / "postgres.log").open("wb") as log:
        subprocess.run(made, user=user, cwd=folder, stdout=log, stderr=log, check=True)
        server = subprocess.Popen(
            [postgres("postgres") or "", "-D", data, "-k", str(folder), "-h", "", "-F"],
            user=user,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        if not run.until((folder / ".s.PGSQL.5432").exists, 20):
            sys.exit(f"PostgreSQL does not start, see {state}/postgres.log")
        yield folder
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(run.PATIENCE_S)
        shutil.rmtree(folder, ignore_errors=True)


def end_earlier(state: Path) -> None:
    """End what an earlier run left behind that was killed itself."""
    slurm.end_strays(state)
    left = state / "database"
    if left.is_symlink():
        folder = left.resolve()
        slurm.end_strays(folder)
        shutil.rmtree(folder, ignore_errors=True)


def play(state: Path, held: int) -> int:
    """Run all until we are asked to stop."""
    with database(state) as folder:
        (port,) = slurm.free_ports(1)
        listen = f"127.0.0.1:{port}"
        given = {"state": state, "url": f"http://{listen}", "database": folder}
        config = slurm.write(state / "demo.cfg", CONFIG.format(listen="", **given))
        apart = slurm.write(state / "registry.cfg", CONFIG.format(listen=listen, **given))
        nodemanager = [sys.executable, "-m", "nodemanager"]
        wrong = subprocess.run(
            [*nodemanager, "check-config", str(config)], stdout=subprocess.DEVNULL
        )
        if wrong.returncode:
            # Else nobody would ever act, and each would say why in its own file alone.
            return wrong.returncode
        registry = subprocess.Popen(
            [*nodemanager, "registry", "--config", str(apart)],
            env={**os.environ, "STATE_DIRECTORY": str(state / "registry")},
            stdin=subprocess.DEVNULL,
            stdout=(state / "registry.log").open("wb"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        managers = Managers(state, config)
        try:
            for name in NAMES:
                managers.start(name)
            command = Path(sys.executable).with_name("nodemanager")
            where = f"STATE_DIRECTORY={shlex.quote(str(state / 'two'))}"
            where += f" NODEMANAGER_CONFIG={shlex.quote(str(config))}"
            run.say(
                "Enter kills the manager that acts; Ctrl-C ends all.\n"
                f"Look at it from another terminal: {where} {shlex.quote(str(command))} status"
            )
            for _ in sys.stdin:
                managers.kill_active()
            # Nobody can press Enter: it runs until it is stopped.
            signal.pause()
        except KeyboardInterrupt:
            pass
        finally:
            managers.end()
            registry.terminate()
            registry.wait(run.PATIENCE_S)
            swept = run.sweep(state)
            os.close(held)
    return swept


def interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["start", "end"])
    parser.add_argument("--state", type=Path, default=Path(".demo-two"))
    chosen = parser.parse_args()
    state: Path = chosen.state.absolute()
    if state.is_dir():
        end_earlier(state)
    if chosen.what == "end":
        return run.end(state)
    if postgres("postgres") is None:
        sys.exit("PostgreSQL is not installed; `make test-deps` installs it")
    run.curl_or_stand_in()
    held = run.take_over(state)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, interrupt)
    with suppress(KeyboardInterrupt):
        return play(state, held)
    return 130


if __name__ == "__main__":
    sys.exit(main())
