"""Runs one program: without a shell, in limited time, with no secret of ours."""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nodemanager.errors import SchedulerError

MAX_OUTPUT = 16 * 1024 * 1024
ENVIRONMENT = frozenset({"HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER"})
"""The variables that a program inherits besides LC_* and SLURM_*: no credentials or sockets."""
MARK = "NODEMANAGER_RUN"
"""The environment variable that identifies the processes of one run."""
_SHOWN = 200


class TooMuchOutput(SchedulerError):
    """A program printed over MAX_OUTPUT bytes."""


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """What a program printed and exited with; `said` is the last line of its stderr, or ""."""

    returncode: int
    output: bytes
    said: str


def run(
    what: str,
    argv: Sequence[str],
    timeout: float,
    *,
    given: bytes = b"",
    environment: Mapping[str, str] | None = None,
) -> ProgramResult:
    """Run `argv` for `timeout` seconds at most, with `given` on its stdin.

    `environment` replaces the inherited variables. Raises SchedulerError, which names `what`, for
    a program that can't be started, takes too long or prints over MAX_OUTPUT bytes. When this
    returns or raises, the program and all that it started have been ended.
    """
    ends_at = time.monotonic() + timeout
    name = f"{what} {argv[0]!r}"
    mark = secrets.token_hex(16)
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE if given else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**(inherited() if environment is None else environment), MARK: mark},
            start_new_session=True,
        )
    except OSError as error:
        raise SchedulerError(f"{name}: {error.strerror}") from error
    with process:
        try:
            output, said = _talk(process, given, ends_at)
            process.wait(max(0.0, ends_at - time.monotonic()))
        except (subprocess.TimeoutExpired, TimeoutError) as error:
            raise SchedulerError(f"{name} took over {timeout:g} s") from error
        except OverflowError as error:
            raise TooMuchOutput(f"{name} printed over {MAX_OUTPUT} bytes") from error
        finally:
            # Kill its children, too, which may hold the pipes open.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            _end_marked(f"{MARK}={mark}".encode())
    lines = said.decode("utf-8", "replace").strip().splitlines()
    return ProgramResult(process.returncode, output, lines[-1][:_SHOWN] if lines else "")


def _end_marked(mark: bytes) -> None:
    """End the processes with that word in their environment: those in groups of their own, too."""
    found = True
    while found:
        found = False
        for folder in Path("/proc").iterdir():
            # Others' processes can't be read, and one may end at any moment.
            with contextlib.suppress(OSError):
                if folder.name.isdigit() and mark in (folder / "environ").read_bytes():
                    os.kill(int(folder.name), signal.SIGKILL)
                    found = True


def output_of(what: str, argv: Sequence[str], timeout: float, *, given: bytes = b"") -> bytes:
    """The output of a `run` that exited with 0. Raises SchedulerError for any other exit."""
    ended = run(what, argv, timeout, given=given)
    if ended.returncode != 0:
        last = f": {ended.said}" if ended.said else ""
        raise SchedulerError(f"{what} {argv[0]!r} exited {ended.returncode}{last}")
    return ended.output


def inherited() -> dict[str, str]:
    """The variables that a program inherits."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in ENVIRONMENT or name.startswith(("LC_", "SLURM_"))
    }


def _talk(process: subprocess.Popen[bytes], given: bytes, ends_at: float) -> tuple[bytes, bytes]:
    """All of stdout and stderr. Raises TimeoutError, or OverflowError for too much output."""
    assert process.stdout is not None
    assert process.stderr is not None
    found: dict[int, bytearray] = {}
    left_to_give = memoryview(given)
    with selectors.DefaultSelector() as selector:
        for pipe in (process.stdout, process.stderr):
            selector.register(pipe, selectors.EVENT_READ)
            found[pipe.fileno()] = bytearray()
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE)
        while selector.get_map():
            left = ends_at - time.monotonic()
            ready = selector.select(left) if left > 0 else []
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                if key.fileobj is process.stdin:
                    left_to_give = _give(key.fd, left_to_give)
                    if not left_to_give:
                        selector.unregister(process.stdin)
                        process.stdin.close()
                    continue
                piece = os.read(key.fd, 65536)
                if not piece:
                    selector.unregister(key.fileobj)
                found[key.fd] += piece
                if len(found[key.fd]) > MAX_OUTPUT:
                    raise OverflowError
    return bytes(found[process.stdout.fileno()]), bytes(found[process.stderr.fileno()])


def _give(pipe: int, left: memoryview) -> memoryview:
    """What is still to be written after one write; nothing for a program that does not read."""
    try:
        return left[os.write(pipe, left) :]
    except BrokenPipeError:
        return left[:0]
