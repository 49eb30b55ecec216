"""The wishlist: the waiting jobs' needs, as printed by `[Daemon] wishlist_command`."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import time
from typing import Any

from nodemanager.core.model.world import Job
from nodemanager.errors import RemoteError

MAX_OUTPUT = 16 * 1024 * 1024
MAX_COUNT = 1_000_000
MAX_NUMBER = 10**12
"""An upper limit for MB and cores, beyond any machine's."""
MAX_ID = 256
ENVIRONMENT = frozenset({"HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER"})
"""The variables that the command inherits besides LC_* and SLURM_*: no credentials or sockets."""


class WishlistError(RemoteError):
    """The wishlist is unavailable: a failed poll, which never means an empty queue."""


class WishlistCommand:
    """Runs a command, given as a list of words, without a shell, for `timeout` seconds at most."""

    def __init__(self, command: tuple[str, ...], timeout: float) -> None:
        self._argv = list(command)
        self._timeout = timeout

    def __call__(self) -> tuple[Job, ...]:
        """The jobs, one for each line of JSON. Raises WishlistError for anything else."""
        program = self._argv[0]
        ends_at = time.monotonic() + self._timeout
        try:
            process = subprocess.Popen(
                self._argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=_environment(),
                start_new_session=True,
            )
        except OSError as error:
            raise WishlistError(f"wishlist_command {program!r}: {error.strerror}") from error
        with process:
            try:
                output, said = _read(process, ends_at)
                process.wait(max(0.0, ends_at - time.monotonic()))
            except (subprocess.TimeoutExpired, TimeoutError) as error:
                raise WishlistError(
                    f"wishlist_command {program!r} took over {self._timeout:g} s"
                ) from error
            finally:
                # Kill its children, too, which may hold the pipes open.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        if process.returncode != 0:
            lines = said.decode("utf-8", "replace").strip().splitlines()
            last = f": {lines[-1][:200]}" if lines else ""
            raise WishlistError(f"wishlist_command {program!r} exited {process.returncode}{last}")
        return parse(output)


def _environment() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if name in ENVIRONMENT or name.startswith(("LC_", "SLURM_"))
    }


def _read(process: subprocess.Popen[bytes], ends_at: float) -> tuple[bytes, bytes]:
    """All of stdout and stderr. Raises TimeoutError, or WishlistError for too much output."""
    assert process.stdout is not None
    assert process.stderr is not None
    found: dict[int, bytearray] = {}
    with selectors.DefaultSelector() as selector:
        for pipe in (process.stdout, process.stderr):
            selector.register(pipe, selectors.EVENT_READ)
            found[pipe.fileno()] = bytearray()
        while selector.get_map():
            left = ends_at - time.monotonic()
            ready = selector.select(left) if left > 0 else []
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                piece = os.read(key.fd, 65536)
                if not piece:
                    selector.unregister(key.fileobj)
                found[key.fd] += piece
                if len(found[key.fd]) > MAX_OUTPUT:
                    raise WishlistError(f"wishlist_command printed over {MAX_OUTPUT} bytes")
    return bytes(found[process.stdout.fileno()]), bytes(found[process.stderr.fileno()])


def parse(output: bytes) -> tuple[Job, ...]:
    """The jobs of an output with one JSON object a line; ignores empty lines."""
    jobs = []
    for number, line in enumerate(output.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            jobs.append(_job(json.loads(line)))
        except (ValueError, TypeError) as error:
            raise WishlistError(f"wishlist_command, line {number}: {error}") from error
        except RecursionError:
            # Not chained: its traceback has a thousand useless frames.
            raise WishlistError(f"wishlist_command, line {number}: is nested too deep") from None
    return tuple(jobs)


_WHOLE = {"cores": 1, "ram_mb": 0, "scratch_mb": 0, "count": 1}
_SHOWN = 60


def _job(item: Any) -> Job:
    if not isinstance(item, dict):
        raise TypeError("is not a JSON object")
    unknown = item.keys() - _WHOLE.keys() - {"id", "preemptible", "instance_type"}
    if unknown:
        raise ValueError(f"has an unknown key {sorted(unknown)[0]!r}")
    if "id" not in item:
        raise ValueError("has no 'id'")
    id = item["id"]
    if isinstance(id, bool) or not isinstance(id, int | str) or len(str(id)) > MAX_ID:
        raise ValueError(f"id = {_shown(id)} is not a text of at most {MAX_ID} characters")
    numbers = {}
    for key, default in _WHOLE.items():
        value = item.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ValueError(f"{key} = {_shown(value)} is not a whole number of 0 or more")
        most = MAX_COUNT if key == "count" else MAX_NUMBER
        if value > most:
            raise ValueError(f"{key} = {_shown(value)} is over {most}")
        numbers[key] = value
    preemptible = item.get("preemptible", False)
    if not isinstance(preemptible, bool):
        raise TypeError(f"preemptible = {_shown(preemptible)} is neither true nor false")
    instance_type = item.get("instance_type")
    if instance_type is not None and not isinstance(instance_type, str):
        raise TypeError(f"instance_type = {_shown(instance_type)} is not a name")
    return Job(id=str(id), preemptible=preemptible, instance_type=instance_type, **numbers)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
