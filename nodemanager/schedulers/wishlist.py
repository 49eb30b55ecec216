"""The wishlist: what `[Daemon] wishlist_command` says the waiting jobs need."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import time
from typing import Any

from nodemanager.core.model import Job
from nodemanager.errors import RemoteError

MAX_OUTPUT = 16 * 1024 * 1024


class WishlistError(RemoteError):
    """The wishlist could not be had: a failed poll, never an empty queue."""


class WishlistCommand:
    """Runs a command, as a list of words and with no shell, within `timeout` seconds."""

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
                # Whatever it started ends with it: its children may hold the pipes open.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        if process.returncode != 0:
            lines = said.decode("utf-8", "replace").strip().splitlines()
            last = f": {lines[-1][:200]}" if lines else ""
            raise WishlistError(f"wishlist_command {program!r} exited {process.returncode}{last}")
        return parse(output)


def _read(process: subprocess.Popen[bytes], ends_at: float) -> tuple[bytes, bytes]:
    """All of stdout and stderr. Raises TimeoutError, or WishlistError for too much."""
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
    """The jobs of one JSON object a line; empty lines don't count."""
    jobs = []
    for number, line in enumerate(output.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            jobs.append(_job(json.loads(line)))
        except (ValueError, TypeError) as error:
            raise WishlistError(f"wishlist_command, line {number}: {error}") from error
    return tuple(jobs)


_WHOLE = {"cores": 1, "ram_mb": 0, "scratch_mb": 0, "count": 1}


def _job(item: Any) -> Job:
    if not isinstance(item, dict):
        raise TypeError("is not a JSON object")
    unknown = item.keys() - _WHOLE.keys() - {"id", "preemptible", "instance_type"}
    if unknown:
        raise ValueError(f"has an unknown key {sorted(unknown)[0]!r}")
    if "id" not in item:
        raise ValueError("has no 'id'")
    numbers = {}
    for key, default in _WHOLE.items():
        value = item.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ValueError(f"{key} = {value!r} is not a whole number of 0 or more")
        numbers[key] = value
    preemptible = item.get("preemptible", False)
    if not isinstance(preemptible, bool):
        raise TypeError(f"preemptible = {preemptible!r} is neither true nor false")
    instance_type = item.get("instance_type")
    if instance_type is not None and not isinstance(instance_type, str):
        raise TypeError(f"instance_type = {instance_type!r} is not a name")
    return Job(id=str(item["id"]), preemptible=preemptible, instance_type=instance_type, **numbers)
