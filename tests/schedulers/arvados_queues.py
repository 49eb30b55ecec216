"""An Arvados server with containers, and the jobs of an old one, for the real client."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nodemanager.arvados_api.client import ApiClient
from nodemanager.core.model.world import Job
from nodemanager.schedulers.arvados import ArvadosQueue
from tests.records.arvados_servers import TOKEN, Asked, Reply, ScriptedApi

GIB = 2**30
_KINDS = {"containers": "dz642", "jobs": "8i9sb"}
_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "in": lambda value, given: value in given,
    ">": lambda value, given: value is not None and value > given,
}


def uuid_of(resource: str, number: int) -> str:
    return f"zzzzz-{_KINDS[resource]}-{number:0>15}"


def container(number: int, **fields: Any) -> dict[str, Any]:
    """A container that waits, as a server of Arvados 3 shows it."""
    return {
        "uuid": uuid_of("containers", number),
        "state": "Queued",
        "priority": 1000,
        "created_at": f"2026-01-31T10:00:{number % 60:0>2}.000000000Z",
        "runtime_constraints": {"API": True, "vcpus": 1, "ram": GIB, "keep_cache_ram": 0},
        "mounts": {"stdout": {"kind": "file", "path": "/out"}},
        "scheduling_parameters": {},
        **fields,
    }


def old_job(number: int, **fields: Any) -> dict[str, Any]:
    at = f"2016-01-31T10:00:{number % 60:0>2}Z"
    base = {"uuid": uuid_of("jobs", number), "state": "Queued", "priority": None, "created_at": at}
    return {**base, "runtime_constraints": {}, **fields}


def _method(path: str, *parameters: str) -> dict[str, Any]:
    kinds = {"filters": "array", "order": "array", "select": "array", "limit": "integer"}
    given = {
        name: {"type": kinds.get(name, "string"), "required": False, "location": "query"}
        for name in parameters
    }
    id = path.replace("/", ".")
    method = {"id": f"arvados.{id}", "path": path, "httpMethod": "GET", "parameters": given}
    # Without a kind of answer the client hands out raw bytes.
    return {**method, "response": {"$ref": "NodeList"}}


LISTS = ("filters", "order", "limit", "count", "offset")


class QueueServer:
    """Has the resources in `has`; `page` is the most that one answer holds."""

    def __init__(self, api: ScriptedApi, *has: str) -> None:
        self.api = api.reset()
        self.items: dict[str, list[dict[str, Any]]] = {"containers": [], "jobs": []}
        self.page = 1000
        self.administrator = True
        self.counts = True
        self.ignores: frozenset[str] = frozenset()
        """What the server doesn't heed: filters, order."""
        self.after_page: Callable[[], None] = lambda: None
        self.fails: Reply | None = None
        self.has(*(has or ("containers", "jobs", "users")))
        api.script = self._answer

    def has(self, *resources: str) -> None:
        known = {
            "containers": {"list": _method("containers", *LISTS, "select")},
            "jobs": {"queue": _method("jobs/queue", *LISTS)},
            "users": {"current": _method("users/current")},
        }
        self.api.document["resources"] = {name: {"methods": known[name]} for name in resources}

    def queue(self, *, containers: bool = True, jobs: bool = True) -> ArvadosQueue:
        client = ApiClient(self.api.url, TOKEN, timeout=10.0, insecure=False, ca_file=None)
        return ArvadosQueue(client, containers=containers, jobs=jobs)

    def jobs(self) -> tuple[Job, ...]:
        return self.queue().queue()

    def asked(self, begin: str) -> list[Asked]:
        return [one for one in self.api.asked if one.path.startswith(f"/arvados/v1/{begin}")]

    def _answer(self, asked: Asked) -> Reply:
        path = asked.path.removeprefix("/arvados/v1/")
        if path == "users/current":
            return Reply({"uuid": "zzzzz-tpzed-0", "is_admin": self.administrator})
        if self.fails is not None:
            return self.fails
        resource = path.partition("/")[0]
        found = [one for one in self.items[resource] if self._listed(one, asked)]
        if resource == "jobs":
            found = [one for one in found if one.get("state") == "Queued"]
        if "order" not in self.ignores:
            assert asked.json("order") == ["uuid asc"]
            found.sort(key=lambda one: one["uuid"])
        left = len(found)
        body: dict[str, Any] = {"items": found[: min(self.page, int(asked.params["limit"]))]}
        if self.counts and asked.params.get("count", "exact") == "exact":
            body["items_available"] = left
        if "select" in asked.params:
            body["items"] = [
                {name: one.get(name) for name in asked.json("select")} for one in body["items"]
            ]
        self.after_page()
        return Reply(body)

    def _listed(self, one: Mapping[str, Any], asked: Asked) -> bool:
        if "filters" in self.ignores:
            return True
        return all(
            _OPERATORS[operator](one.get(name), given)
            for name, operator, given in asked.json("filters")
        )
