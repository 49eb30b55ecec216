"""What waits on an Arvados server: containers, and the jobs of old servers. doc/arvados.rst.

Which of the two a server has is read from its discovery document at each poll. Sizes in the API's
`runtime_constraints` and `mounts` are bytes for containers, and MB for jobs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from nodemanager.arvados_api.client import ApiClient
from nodemanager.core.model.features import Gres
from nodemanager.core.model.reasons import Event, Reason
from nodemanager.core.model.world import Job, Unserved
from nodemanager.errors import SchedulerError, StoreError
from nodemanager.lib import log

PAGE = 1000
MAX_COUNT = 1_000_000
MAX_NUMBER = 2**60
"""An upper limit for bytes, MB and cores, beyond any machine's."""
WAITS = ("Queued", "Locked")
MIB, MB = 2**20, 10**6
_SHOWN = 60
_NOT_ADMINISTRATOR = (
    "the token is not known to be an administrator's: others see only their own containers and "
    "jobs; set [Arvados] token"
)

_log = log.get(__name__)


@dataclass(frozen=True, slots=True)
class ListCall:
    """One list call of the API, and how its items are read."""

    resource: str
    method: str
    uuid: re.Pattern[str]
    states: tuple[str, ...]
    filters: tuple[list[Any], ...]
    needs: tuple[str, ...]
    """The fields to ask for, where the server lets one choose them."""
    job: Callable[[str, Mapping[str, Any]], Job]
    least_priority: int | None = None

    @property
    def name(self) -> str:
        return f"{self.resource}.{self.method}"


class ArvadosQueue:
    """The waiting containers, and then the waiting jobs, each by priority (a JobQueue).

    `containers` must be there if they are asked for. `jobs` are asked for only where its API has
    jobs.queue. The token must be an administrator's. Each container wants
    one node, a job as many as its `min_nodes`. Any answer that is not the whole queue is a
    SchedulerError; an item that can't be read is an `unserved` job.
    """

    def __init__(self, api: ApiClient, *, containers: bool, jobs: bool) -> None:
        self._api = api
        self._containers = containers
        self._jobs = jobs
        self._logged: str | None = None

    def queue(self) -> tuple[Job, ...]:
        try:
            return self._queue()
        except StoreError as error:
            raise SchedulerError(str(error), retry_after=error.retry_after) from error

    def _queue(self) -> tuple[Job, ...]:
        # The server may have been upgraded since.
        self._api.forget()
        sources = self._sources()
        if sources and self._api.is_administrator() is not True:
            raise SchedulerError(f"Arvados {self._api.host}: {_NOT_ADMINISTRATOR}")
        return tuple(job for source in sources for job in self._asked(source))

    def _sources(self) -> list[ListCall]:
        """What this server has of what is asked for."""
        sources = []
        if self._containers:
            if CONTAINERS.method not in self._api.methods(CONTAINERS.resource):
                raise SchedulerError(
                    f"Arvados {self._api.host}: its API has no {CONTAINERS.name}; set [Arvados] "
                    "containers_queue = no"
                )
            sources.append(CONTAINERS)
        if self._jobs and JOBS.method in self._api.methods(JOBS.resource):
            sources.append(JOBS)
        names = ",".join(source.name for source in sources) or "none"
        if names != self._logged:
            self._logged = names
            _log.event(Event.DEMAND_SOURCE, host=self._api.host, queues=names)
        return sources

    def _asked(self, source: ListCall) -> list[Job]:
        items = self._items(source)
        items.sort(key=lambda one: (-_urgency(one, source), _text(one.get("created_at"))))
        return [self._job(source, item) for item in items]

    def _job(self, source: ListCall, item: Mapping[str, Any]) -> Job:
        """The job of a waiting item; one that can't be read concerns no other."""
        try:
            _priority(item, source)
            return source.job(item["uuid"], item)
        except (ValueError, TypeError, AttributeError) as error:
            problem = f"Arvados {source.name}: {error}"
            return Job(item["uuid"], unserved=Unserved(Reason.JOB_UNREADABLE, problem))

    def _items(self, source: ListCall) -> list[dict[str, Any]]:
        """Every waiting item, read in pages by uuid (L2).

        The queue moves while it is read. So each page is held against its own count of what is
        left, and not against the first page's.
        """
        found: list[dict[str, Any]] = []
        last = ""
        while True:
            page, left = self._page(source, last)
            for item in page:
                last = _checked(item, last, source)
                found.append(item)
            if left is not None and len(page) >= left:
                return found
            if not page:
                if left:
                    raise SchedulerError(f"Arvados {source.name}: no more came, {left} are left")
                return found

    def _page(self, source: ListCall, last: str) -> tuple[list[Any], int | None]:
        """The items after the uuid `last`, and how many there are; None where it is not counted."""
        filters = [*source.filters, *([["uuid", ">", last]] if last else [])]
        known = self._api.methods(source.resource)[source.method].get("parameters", {})
        asked: dict[str, Any] = {"filters": filters, "order": ["uuid asc"], "limit": PAGE}
        choice = {"count": "exact", "select": list(source.needs)}
        asked |= {name: value for name, value in choice.items() if name in known}
        body = self._api.execute(source.resource, source.method, asked).body
        items, left = body.get("items"), body.get("items_available")
        if not isinstance(items, list):
            raise SchedulerError(f"Arvados {source.name}: no items came; see [Arvados] host")
        return items, left if isinstance(left, int) and not isinstance(left, bool) else None


def _checked(item: Any, last: str, source: ListCall) -> str:
    """The item's uuid; raises SchedulerError where the server ignores what it was asked."""
    uuid = item.get("uuid") if isinstance(item, dict) else None
    if not isinstance(uuid, str) or not source.uuid.fullmatch(uuid):
        raise SchedulerError(f"Arvados {source.name}: {_shown(uuid)} is no uuid of it")
    if uuid <= last:
        raise SchedulerError(f"Arvados {source.name}: uuids do not rise after {last}")
    if item.get("state") not in source.states:
        said = _shown(item.get("state"))
        raise SchedulerError(f"Arvados {source.name}, {uuid}: state {said} was not asked for")
    least = source.least_priority
    if least is not None and _urgency(item, source) < least:
        raise SchedulerError(f"Arvados {source.name}, {uuid}: its priority was not asked for")
    return uuid


def _urgency(item: Mapping[str, Any], source: ListCall) -> int:
    """The item's priority; the least where it can't be read."""
    try:
        return _priority(item, source)
    except ValueError:
        return source.least_priority or 0


def _priority(item: Mapping[str, Any], source: ListCall) -> int:
    """The item's priority; a job may have none."""
    value = item.get("priority")
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if value is None and source.least_priority is None:
        return 0
    raise ValueError(f"priority = {_shown(value)} is no whole number")


def _container(uuid: str, item: Mapping[str, Any]) -> Job:
    needs, how = _object(item, "runtime_constraints"), _object(item, "scheduling_parameters")
    ram = _number(needs, "ram") + _number(needs, "keep_cache_ram", 0)
    scratch = _number(needs, "keep_cache_disk", 0)
    for path, mount in _object(item, "mounts").items():
        if not isinstance(mount, dict):
            raise TypeError(f"mounts {_shown(path)} is no object")
        if mount.get("kind") == "tmp":
            scratch += _number(mount, "capacity", 0)
    preemptible = how.get("preemptible")
    if preemptible is not None and not isinstance(preemptible, bool):
        raise TypeError(f"preemptible = {_shown(preemptible)} is neither true nor false")
    return Job(
        id=uuid,
        cores=_number(needs, "vcpus"),
        ram_mb=-(-ram // MIB),
        scratch_mb=-(-scratch // MB),
        preemptible=bool(preemptible),
        gres=_gpus(needs),
    )


def _gpus(needs: Mapping[str, Any]) -> Gres:
    """`cuda` of Arvados 2.4 to 3.0, `gpu` of later servers."""
    counts = [_number(_object(needs, name), "device_count", 0) for name in ("cuda", "gpu")]
    return (("gpu", max(counts)),) if any(counts) else ()


def _old_job(uuid: str, item: Mapping[str, Any]) -> Job:
    needs = _object(item, "runtime_constraints")
    return Job(
        id=uuid,
        cores=_number(needs, "min_cores_per_node", 1),
        ram_mb=_number(needs, "min_ram_mb_per_node", 0),
        scratch_mb=_number(needs, "min_scratch_mb_per_node", 0),
        count=_number(needs, "min_nodes", 1, most=MAX_COUNT),
    )


def _object(item: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = item.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise TypeError(f"{name} = {_shown(value)} is no object")
    return value


def _number(
    item: Mapping[str, Any], name: str, default: int | None = None, *, most: int = MAX_NUMBER
) -> int:
    """A whole number of 0 or more; jobs have them as texts, too. Without a default it must be."""
    value = item.get(name)
    if value is None and default is not None:
        return default
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < _SHOWN:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise ValueError(f"{name} = {_shown(value)} is no whole number of 0 to {most}")
    return value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _of(kind: str) -> re.Pattern[str]:
    return re.compile(rf"[a-z0-9]{{5}}-{kind}-[a-z0-9]{{15}}")


_ALWAYS: Iterable[str] = ("uuid", "state", "priority", "created_at", "runtime_constraints")
CONTAINERS = ListCall(
    "containers",
    "list",
    _of("dz642"),
    WAITS,
    (["state", "in", list(WAITS)], ["priority", ">", 0]),
    (*_ALWAYS, "mounts", "scheduling_parameters"),
    _container,
    least_priority=1,
)
JOBS = ListCall("jobs", "queue", _of("8i9sb"), ("Queued",), (), tuple(_ALWAYS), _old_job)
