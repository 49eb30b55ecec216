"""The `nodes` contract's own text, and raw HTTP to a registry that claims to keep it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import requests

from nodemanager.records.sql import SqlRecordStore
from nodemanager.registry.app import build_app, registry_server
from tests.fakes.clock import ManualClock

CONTRACT = """
- uuid `zzzzz-7ekkf-` + 15 base-36 characters; times `YYYY-MM-DDTHH:MM:SS.nnnnnnnnnZ`; create answers 200.
- Fields: href, kind `arvados#node`, etag, uuid, owner_uuid, created_at, modified_by_client_uuid,
  modified_by_user_uuid, modified_at, hostname, domain, ip_address, last_ping_at, slot_number, status, job_uuid,
  crunch_worker_state, properties; administrators also first_ping_at, info, nameservers.
- status: never pinged = `pending`, after 5 minutes `startup-fail`; last ping over an hour ago `missing`; else `running`.
- crunch_worker_state: no slot = `down`; info.slurm_state alloc/comp/mix/drng = `busy`, idle = `idle`, else `down`.
- ping (POST, no token): no secret 422, wrong secret 401, unknown uuid 404, another instance_id 422. Sets
  last_ping_at; when ip_address is null, sets it (local_ipv4 or the caller's) and first_ping_at, never overwrites, and takes
  that address from every other record; then assigns a slot. total_cpu_cores / _ram_mb / _scratch_mb become integers in
  properties, absent ones are deleted. Answers the administrator's view.
- assign_slot: nothing to do when slot > 0; lowest free of 1..max under a unique index; none free 422; hostname
  from the pattern only if null; attributes are saved first.
- PUT of info or properties replaces the whole hash; **info without ping_secret makes a new secret** (so a clean
  locks the old node out). modified_at moves only when a field changes. No If-Match.
- list: limit 100 by default, at most 1000; order `modified_at desc, uuid`; filters = != < <= > >= like ilike in
  `not in`; select; count=none; bare and `{"node": {...}}` bodies both accepted.
- errors `{"errors": ["..."], "error_token": "..."}`; no token 401, not an administrator 403.
"""  # noqa: E501 - quoted as it is

QUOTED: list[str] = []

# One token, the administrator's: there is nobody else who could be told 403.
NOT_BUILT = ["not an administrator 403"]


def quotes(*clauses: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Say which words of CONTRACT a test proves; words it does not have fail the import."""
    for clause in clauses:
        assert flat(clause) in flat(CONTRACT), clause
        QUOTED.append(clause)

    def mark(test: Callable[..., None]) -> Callable[..., None]:
        test.__doc__ = "; ".join(clauses)
        return test

    return mark


def flat(text: str) -> str:
    return " ".join(text.split())


TOKEN = "tok3n"
NOBODY = "zzzzz-7ekkf-000000000000000"
Node = dict[str, Any]


@dataclass
class Api:
    """Raw HTTP to a registry with four slots, on a clock that tests move."""

    base: str
    clock: ManualClock

    def call(
        self, verb: str, path: str = "", *, token: str = f"OAuth2 {TOKEN}", **more: Any
    ) -> requests.Response:
        headers = {"Authorization": token, **more.pop("headers", {})}
        url = f"{self.base}/arvados/v1/nodes{path}"
        return requests.request(verb, url, headers=headers, timeout=10, **more)

    def create(self, node: Node | None = None, **params: Any) -> Node:
        answer = self.call("POST", json={"node": node or {}}, params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def get(self, node: Node) -> Node:
        answer = self.call("GET", f"/{node['uuid']}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def put(self, node: Node, changes: Node, **params: Any) -> Node:
        answer = self.call("PUT", f"/{node['uuid']}", json={"node": changes}, params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def list(self, **params: Any) -> Node:
        texts = {n: v if isinstance(v, str) else json.dumps(v) for n, v in params.items()}
        answer = self.call("GET", params=texts)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def found(self, **params: Any) -> list[str]:
        return [item["uuid"] for item in self.list(**params)["items"]]

    def try_ping(self, node: Node, **told: Any) -> requests.Response:
        told.setdefault("ping_secret", node["info"]["ping_secret"])
        url = f"{self.base}/arvados/v1/nodes/{node['uuid']}/ping"
        return requests.post(url, data=told, timeout=10)

    def ping(self, node: Node, **told: Any) -> Node:
        answer = self.try_ping(node, **told)
        assert answer.status_code == 200, answer.text
        node = answer.json()
        # What the node is told comes before the record (D12).
        assert list(node)[:2] == ["drain", "drain_order"]
        return {key: value for key, value in node.items() if key not in ("drain", "drain_order")}


@contextlib.contextmanager
def serving(database: str) -> Iterator[Api]:
    clock = ManualClock()
    store = SqlRecordStore(
        database,
        slots=4,
        hostname="compute%(slot_number)d",
        domain="example.org",
        public_url="",
        clock=clock,
    )
    server = registry_server(build_app(store, TOKEN))
    server.start()
    yield Api(server.url, clock)
    server.stop()
    store.close()


def at(clock: ManualClock) -> str:
    """The clock's time as the contract writes it, made without the code under test."""
    whole = datetime.fromtimestamp(int(clock.wall()), UTC)
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{round(clock.wall() % 1 * 1e6):06d}000Z"
