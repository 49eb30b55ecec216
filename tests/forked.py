"""`python -m MODULE` as a process, without the second or two that its imports take.

One process for each set of imports has done them, for all workers of a run; each start is a fork of
it. What is started has its own session, environment, files, signals and end, as if it had been
executed.

What is to be seen of an interpreter's own start (a variable that it reads, a library loaded before
it, an import that is missing) needs `subprocess`.
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import gc
import hashlib
import importlib
import io
import json
import os
import resource
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

TREE = Path(__file__).parents[1]
PROGRAM = (
    "nodemanager.app.daemon",
    "nodemanager.app.registry",
    "nodemanager.commands",
    "nodemanager.records.sql",
    "nodemanager.cloud.local.adapter",
    "psycopg",
)
"""What most starts of `nodemanager` import."""
MOST = 1 << 20
"""Bytes of an order."""


class Forked:
    """A process that was started so; what the tests use of subprocess.Popen."""

    def __init__(self, template: _Template, pid: int) -> None:
        self._template = template
        self._end = os.pidfd_open(pid)
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._template.code_of(self.pid)
            if self.returncode is not None:
                os.close(self._end)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None and not select.select([self._end], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        code = self.poll()
        assert code is not None
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start(
    *words: str,
    module: str = "nodemanager",
    imports: Sequence[str] = PROGRAM,
    env: Mapping[str, str],
    cwd: Path = TREE,
    output: IO[bytes],
    errors: IO[bytes] | None = None,
    input: IO[bytes] | None = None,
    files: int | None = None,
) -> Forked:
    """Start `python -m MODULE WORDS`; `files` is how many descriptors it may have at most.

    It has nothing to read, and says its errors where it says all else, unless told otherwise.
    """
    order = {
        "module": module,
        "words": words,
        "env": dict(env),
        "cwd": str(cwd),
        "files": files,
    }
    template = _template(tuple(imports))
    with open(os.devnull, "rb") as nothing:
        stdio = [one.fileno() for one in (input or nothing, output, errors or output)]
        return Forked(template, template.ask(order, stdio))


def piped(*words: str, env: Mapping[str, str]) -> tuple[Forked, IO[str]]:
    """`nodemanager WORDS`, and the end of the pipe that it writes into."""
    reads, writes = os.pipe()
    with open(writes, "wb") as output:
        return start(*words, env=env, output=output), open(reads, encoding="utf-8")


def run(
    *words: str,
    env: Mapping[str, str],
    module: str = "nodemanager",
    imports: Sequence[str] = PROGRAM,
    cwd: Path = TREE,
    timeout: float = 90.0,
) -> subprocess.CompletedProcess[str]:
    """`python -m MODULE WORDS` until it has ended, and all that it said."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = start(
            *words, module=module, imports=imports, env=env, cwd=cwd, output=out, errors=err
        )
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
            process.wait()
        said = []
        for file in (out, err):
            file.seek(0)
            said.append(file.read().decode("utf-8", "replace"))
    return subprocess.CompletedProcess([module, *words], code, *said)


class _Template:
    """The process that has imported, and what it is asked."""

    def __init__(self, imports: Sequence[str]) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        run = os.environ.get("PYTEST_XDIST_TESTRUNUID", os.getpid())
        key = hashlib.sha256(repr((run, TREE, imports)).encode()).hexdigest()
        self._line = _socket()
        # Of several workers one starts it.
        with _alone():
            try:
                self._line.connect(f"\0{key}")
            except ConnectionRefusedError:
                self._start(f"\0{key}", imports)
                self._line.connect(f"\0{key}")

    def _start(self, address: str, imports: Sequence[str]) -> None:
        with _socket() as listener:
            listener.bind(address)
            listener.listen()
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(listener.fileno()), *imports],
                stdin=subprocess.DEVNULL,
                # It may live longer than the worker, whose output somebody reads to its end.
                stdout=subprocess.DEVNULL,
                cwd=TREE,
                env={**os.environ, "PYTHONPATH": str(TREE)},
                pass_fds=[listener.fileno()],
                start_new_session=True,
            )

    def code_of(self, pid: int) -> int | None:
        """The exit code of a process of its own, once it has ended; ask no more then."""
        return self.ask({"ended": pid})

    def ask(self, order: Mapping[str, Any], descriptors: Sequence[int] = ()) -> Any:
        # A farm asks from a thread of its own.
        with self._lock:
            socket.send_fds(self._line, [json.dumps(order).encode()], descriptors)
            answer = self._line.recv(MOST)
        if not answer:
            raise ChildProcessError(f"what forks for the tests ended: {order}")
        return json.loads(answer)


@contextmanager
def _alone() -> Iterator[None]:
    """While no other process comes to one that forks, or ends as one."""
    with open(__file__, "rb") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        yield


def _socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)


@functools.cache
def _template(imports: tuple[str, ...]) -> _Template:
    return _Template(imports)


# In the process that forks, and in its forks.


def _serve(listener: socket.socket) -> dict[str, Any]:
    """Fork at every order until nobody is left to give one; gives the fork its order."""
    lines: list[socket.socket] = []
    while True:
        line = select.select([listener, *lines], [], [])[0][0]
        if line is listener:
            lines.append(listener.accept()[0])
            continue
        message, descriptors, _, _ = socket.recv_fds(line, MOST, 3)
        if not message:
            lines.remove(line)
            line.close()
            with _alone():
                if not lines and not select.select([listener], [], [], 0)[0]:
                    listener.close()
                    sys.exit()
            continue
        order = json.loads(message)
        if "ended" in order:
            pid, status = os.waitpid(order["ended"], os.WNOHANG)
            code = os.waitstatus_to_exitcode(status) if pid else None
            line.send(json.dumps(code).encode())
            continue
        ready, own = os.pipe()
        pid = os.fork()
        if pid == 0:
            for one in (listener, *lines):
                one.detach()
            _become(order, descriptors)
            return dict(order)
        for descriptor in (own, *descriptors):
            os.close(descriptor)
        # It is told of once it has its session, as after an exec.
        os.read(ready, 1)
        os.close(ready)
        line.send(json.dumps(pid).encode())


def _become(order: Mapping[str, Any], descriptors: Sequence[int]) -> None:
    """Take the order's session, environment and files in place of the parent's."""
    os.setsid()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    time.tzset()
    if order["files"] is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (order["files"], order["files"]))
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  # until its end
    sys.stdout, sys.stderr = (_unbuffered(1, "strict"), _unbuffered(2, "backslashreplace"))
    # The last of them tells the parent that all this is done.
    for name in sorted(os.listdir("/proc/self/fd"), key=int):
        if int(name) > 2:
            with suppress(OSError):
                os.close(int(name))


def _unbuffered(descriptor: int, errors: str) -> io.TextIOWrapper:
    """As $PYTHONUNBUFFERED makes it."""
    raw: Any = io.FileIO(descriptor, "w", closefd=False)
    return io.TextIOWrapper(raw, encoding="utf-8", errors=errors, write_through=True)


class _End:
    """The last act of a fork: what it shares with its parent is not taken down piece by piece."""

    code: int | None = None

    def __call__(self) -> None:
        if self.code is not None:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self.code)


def _main(line: str, *imports: str) -> None:
    end = _End()
    # The first that is registered runs last, once all threads have ended.
    atexit.register(end)
    for name in imports:
        importlib.import_module(name)
    if "nodemanager.commands" in imports:
        from nodemanager.cli import ENTRIES

        for entry in ENTRIES.values():
            importlib.import_module(f"nodemanager.commands.{entry.module}")
    assert threading.active_count() == 1, "a fork would not have what else runs here"
    gc.collect()
    gc.freeze()
    order = _serve(socket.socket(fileno=int(line)))
    sys.argv = [sys.argv[0], *order["words"]]
    try:
        runpy.run_module(order["module"], run_name="__main__", alter_sys=True)
        end.code = 0
    except SystemExit as ended:
        end.code = 0 if ended.code is None else ended.code if isinstance(ended.code, int) else 1
        raise


if __name__ == "__main__":
    _main(*sys.argv[1:])
