"""The wishlist: the waiting jobs' needs, as printed by `[Daemon] wishlist_command`."""

from __future__ import annotations

import math
from typing import Any

from nodemanager.core.model.features import Alternatives, Gres, gres_of
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.world import Job, Unserved
from nodemanager.errors import SchedulerError
from nodemanager.lib import foreign
from nodemanager.lib.program import output_of

MAX_COUNT = 1_000_000
MAX_NUMBER = 10**12
"""An upper limit for MB and cores, beyond any machine's."""
MAX_ID = 256


class WishlistCommand:
    """Runs a command, given as a list of words, without a shell, for `timeout` seconds at most.

    Whatever keeps it from answering is a SchedulerError: a failed poll, never an empty queue.
    """

    def __init__(
        self, command: tuple[str, ...], timeout: float, what: str = "wishlist_command"
    ) -> None:
        self._command = command
        self._timeout = timeout
        self._what = what
        self._known: dict[bytes, Job] = {}
        """The jobs of the poll before, by their lines."""

    def queue(self) -> tuple[Job, ...]:
        """The jobs, one for each line of JSON. Raises SchedulerError for anything else."""
        return self.read(output_of(self._what, self._command, self._timeout))

    def read(self, output: bytes) -> tuple[Job, ...]:
        """The jobs of the command's output, one JSON object a line; ignores empty lines.

        A job with a field that can't be read is `unserved`, and concerns no other. A line that is
        no job at all may be what the program says of an error, so it fails the whole. Most of a
        long queue waits from poll to poll: a line that was there before gives the same object.
        """
        jobs: list[Job] = []
        known: dict[bytes, Job] = {}
        for number, line in enumerate(output.splitlines(), start=1):
            job = self._known.get(line)
            if job is None:
                if not line.strip():
                    continue
                where = f"{self._what}, line {number}"
                try:
                    item = foreign.loads(line)
                    id = _id(item)
                except (ValueError, TypeError) as error:
                    raise SchedulerError(f"{where}: {error}") from error
                try:
                    job = _job(id, item)
                except (ValueError, TypeError) as error:
                    unread = Unserved(Reason.JOB_UNREADABLE, f"{where}: {error}")
                    jobs.append(Job(id, unserved=unread))
                    continue
            jobs.append(job)
            known[line] = job
        self._known = known
        return tuple(jobs)


_KEYS = frozenset(
    {
        *("id", "cores", "ram_mb", "scratch_mb", "count"),
        *("preemptible", "instance_type", "features", "gres"),
    }
)
_SHOWN = 60


def _id(item: Any) -> str:
    if not isinstance(item, dict):
        raise TypeError("is not a JSON object")
    if "id" not in item:
        raise ValueError("has no 'id'")
    id = item["id"]
    if isinstance(id, bool) or not isinstance(id, int | str) or len(str(id)) > MAX_ID:
        raise ValueError(f"id = {_shown(id)} is not a text of at most {MAX_ID} characters")
    return str(id)


def _job(id: str, item: dict[str, Any]) -> Job:
    unknown = item.keys() - _KEYS
    if unknown:
        raise ValueError(f"has an unknown key {_shown(sorted(unknown)[0])}")
    preemptible = item.get("preemptible", False)
    if not isinstance(preemptible, bool):
        raise TypeError(f"preemptible = {_shown(preemptible)} is neither true nor false")
    instance_type = item.get("instance_type")
    if instance_type is not None and not isinstance(instance_type, str):
        raise TypeError(f"instance_type = {_shown(instance_type)} is not a name")
    return Job(
        id=id,
        preemptible=preemptible,
        instance_type=instance_type,
        features=_features(item.get("features")),
        gres=_gres(item.get("gres")),
        cores=_whole(item, "cores", 1),
        ram_mb=_whole(item, "ram_mb"),
        scratch_mb=_whole(item, "scratch_mb"),
        count=_whole(item, "count", 1, most=MAX_COUNT),
    )


def _whole(item: dict[str, Any], key: str, default: int = 0, *, most: int = MAX_NUMBER) -> int:
    """The number, which some programs write as 8192.0 or 1e4; parts of a core or MB count whole."""
    value = item.get(key, default)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not value >= 0 or (key == "count" and value % 1):
        raise ValueError(f"{key} = {_shown(value)} is not a whole number of 0 or more")
    if value > most:
        raise ValueError(f"{key} = {_shown(value)} is over {most}")
    whole: int = math.ceil(value)
    return whole


def _features(value: Any) -> Alternatives:
    """All of the listed features are needed."""
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
        raise TypeError(f"features = {_shown(value)} is not a list of names")
    return (tuple(sorted(set(value))),) if value else ()


def _gres(value: Any) -> Gres:
    if value is None:
        return ()
    if not isinstance(value, str):
        raise TypeError(f"gres = {_shown(value)} is not a text like gpu:2")
    return gres_of(value)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
