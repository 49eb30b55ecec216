"""What `make run` runs: the daemon on etc/local.cfg, in a state directory of its own.

Every start is a first start: what an earlier run left behind is ended, and .demo is emptied.
However this ends - Ctrl-C, SIGTERM, a closed terminal, a daemon that died - the daemon and the
processes it calls nodes are ended, too.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

PATIENCE_S = 30
"""How long an orderly end may take before SIGKILL: the longest remote call, and 10 s."""
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def say(text: str) -> None:
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # Ctrl-C ended whoever read this (`make run | tee log`); the nodes must end, too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def lock(path: Path) -> int | None:
    """The open descriptor of `path`, locked, our pid in it; None when somebody holds it."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    os.truncate(fd, 0)
    os.write(fd, f"pid {os.getpid()}\n".encode())
    return fd


def is_held(path: Path) -> bool:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def holder(path: Path) -> int | None:
    """The process named in a lock file, if it truly has that file open.

    A pid alone proves nothing: it may have been given to a stranger since.
    """
    try:
        named = re.search(r"\d+", path.read_text())
        if named is None:
            return None
        pid = int(named[0])
        descriptors = list(Path(f"/proc/{pid}/fd").iterdir())
    except (OSError, ValueError):
        return None
    for descriptor in descriptors:
        try:
            if descriptor.samefile(path):
                return pid
        except OSError:
            continue
    return None


def until(done: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def end_holder(path: Path, what: str) -> None:
    """End the process that holds the lock file `path`: SIGTERM, then SIGKILL."""
    for number, patience in ((signal.SIGTERM, PATIENCE_S), (signal.SIGKILL, 5.0)):
        if not is_held(path):
            return
        pid = holder(path)
        if pid is None:
            # The lock may be changing hands; whoever has it names itself at once.
            if not until(lambda: holder(path) is not None or not is_held(path), 2.0):
                sys.exit(f"{path} is locked by a process that it does not name; please end it")
            pid = holder(path)
            if pid is None:
                return
        say(f"Ending {what} of an earlier run (pid {pid}, {number.name})")
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        except PermissionError:
            sys.exit(f"{what} of an earlier run (pid {pid}) belongs to another user; please end it")
        if until(lambda: not is_held(path), patience):
            return
    sys.exit(f"{what} of an earlier run could not be ended; {path} is still locked")


def sweep(state: Path) -> int:
    """End every process that the local cloud in `state` started as a node."""
    cloud = state / "local-cloud"
    if not cloud.is_dir():
        return 0
    command = [sys.executable, "-m", "nodemanager.cloud.local", "sweep", str(cloud)]
    # Its own session: an impatient second Ctrl-C must not cut the sweep short.
    return subprocess.run(command, check=False, start_new_session=True).returncode


def empty(state: Path, keep: Path) -> None:
    for path in state.iterdir():
        if path == keep:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def take_over(state: Path) -> int:
    """Make `state` ours alone and end what an earlier run left in it.

    The earlier run's own script goes first: it sweeps when its daemon ends, and must not do
    that to the nodes we are about to start. The returned descriptor holds the lock.
    """
    state.mkdir(mode=0o700, exist_ok=True)
    state.chmod(0o700)
    ours = state / "run.lock"
    end_holder(ours, "make run")
    held = lock(ours)
    if held is None:
        sys.exit(f"another make run has just started in {state}")
    end_holder(state / "lock", "the daemon")
    if sweep(state):
        sys.exit("processes of an earlier run could not be ended, see above")
    empty(state, keep=ours)
    return held


class Daemon:
    """The running daemon. Being asked to stop ends it by SIGTERM; impatience, by SIGKILL."""

    def __init__(self, state: Path, config: Path) -> None:
        self.asked_to_stop = False
        self._process: subprocess.Popen[bytes] | None = None
        for number in STOPS:
            signal.signal(number, self._stop)
        signal.signal(signal.SIGALRM, self._stop)
        env = {**os.environ, "STATE_DIRECTORY": str(state), "PYTHONUNBUFFERED": "1"}
        # Its own session: Ctrl-C reaches this script alone, and the daemon just once, as
        # the SIGTERM that systemd would send.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "nodemanager", "run", "--config", str(config)],
            env=env,
            start_new_session=True,
        )
        if self.asked_to_stop:
            self._process.terminate()

    def wait(self) -> int:
        """Its exit status, once it has ended: by itself, or because we were asked to stop."""
        assert self._process is not None
        return self._process.wait()

    def _stop(self, number: int, frame: FrameType | None) -> None:
        again, self.asked_to_stop = self.asked_to_stop, True
        if self._process is None:
            return
        if again:
            say("Not waiting for the daemon any longer: SIGKILL")
            self._process.kill()
        else:
            self._process.terminate()
            signal.alarm(PATIENCE_S)


def start(state: Path, config: Path) -> int:
    curl_or_stand_in()
    return watch(state, config, take_over(state))


def curl_or_stand_in() -> None:
    """Give the nodes a stand-in for curl where there is none."""
    if shutil.which("curl") is None:
        stand_in = Path(__file__).parent / "bin"
        say(f"curl is not installed; the demo's nodes ping with {stand_in}/curl instead")
        here = Path(sys.executable).parent
        os.environ["PATH"] = f"{stand_in}:{os.environ.get('PATH', os.defpath)}:{here}"


def watch(state: Path, config: Path, held: int) -> int:
    """Run the daemon to its end, and end its nodes; `held` is the lock on `state`."""
    tell_where(state, config)
    daemon = Daemon(state, config)
    status = daemon.wait()
    signal.alarm(0)
    swept = sweep(state)
    os.close(held)
    if daemon.asked_to_stop:
        # Asked for, so no failure: make would call any other status an error.
        return swept
    return status if status >= 0 else 128 - status


def tell_where(state: Path, config: Path) -> None:
    """What another terminal and a browser need to find this daemon.

    A command of its own in the state directory, as a line with all of it is too long to be typed.
    """
    command = state / "nodemanager"
    command.write_text(
        "#!/bin/sh\n"
        f"STATE_DIRECTORY={shlex.quote(str(state))}\n"
        f"NODEMANAGER_CONFIG={shlex.quote(str(config.resolve()))}\n"
        "export STATE_DIRECTORY NODEMANAGER_CONFIG\n"
        f'exec {shlex.quote(str(Path(sys.executable).with_name("nodemanager")))} "$@"\n'
    )
    command.chmod(0o700)
    near = Path(os.path.relpath(state))
    say(f"In another terminal:  {shlex.quote(str(near / 'nodemanager'))} status --watch")
    told = config.read_text() if config.is_file() else ""
    port = re.search(r"^port *= *(\d+)", told, re.MULTILINE)
    if port is not None:
        page, token = f"http://127.0.0.1:{port[1]}/", near / "management.token"
        say(f"In a browser:         {page} with any name; the token is in {token}")


def end(state: Path) -> int:
    if state.is_dir():
        os.close(take_over(state))
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["start", "end"])
    parser.add_argument("--state", type=Path, default=Path(".demo"))
    parser.add_argument("--config", type=Path, default=Path("etc/local.cfg"))
    chosen = parser.parse_args()
    state = chosen.state.absolute()
    return start(state, chosen.config) if chosen.what == "start" else end(state)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
