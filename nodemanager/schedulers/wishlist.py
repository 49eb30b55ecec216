"""The wishlist: what `[Daemon] wishlist_command` says the waiting jobs need."""

from __future__ import annotations

import json
import subprocess
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
        try:
            done = subprocess.run(
                self._argv,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=self._timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise WishlistError(
                f"wishlist_command {program!r} took over {self._timeout:g} s"
            ) from error
        except OSError as error:
            raise WishlistError(f"wishlist_command {program!r}: {error.strerror}") from error
        if done.returncode != 0:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines()
            last = f": {said[-1][:200]}" if said else ""
            raise WishlistError(f"wishlist_command {program!r} exited {done.returncode}{last}")
        return parse(done.stdout)


def parse(output: bytes) -> tuple[Job, ...]:
    """The jobs of one JSON object a line; empty lines don't count."""
    if len(output) > MAX_OUTPUT:
        raise WishlistError(f"wishlist_command printed over {MAX_OUTPUT} bytes")
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
