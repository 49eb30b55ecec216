"""The simulated record API as an Arvados server: the real adapter, on a client that is simulated.

The adapter's own code reads, writes and reads back, one request after the other; between any two
of them anything may happen.
"""

from __future__ import annotations

import email.utils
from collections.abc import Mapping
from typing import Any

from nodemanager.core.model.world import Listed, Record
from nodemanager.errors import NoFreeSlot, NoSuchRecord, StoreError, StoreRefused
from nodemanager.lib.clock import Clock
from nodemanager.records import wire
from nodemanager.records.arvados import ArvadosRecordStore, _version
from nodemanager.records.arvados_client import ArvadosAnswer
from nodemanager.records.view import view
from tests.simulation.registry import Registry, Row, ping_url
from tests.simulation.weather import Line
from tests.simulation.world import Bulletin

CALLS = {"get": "read", "list": "list", "create": "create", "update": "update", "delete": "delete"}


def purpose(row: Row, values: Mapping[str, Any]) -> str:
    """What a write is for, as far as it shows."""
    info = values.get("info")
    if values.get("slot_number") is not None and info is not None:
        return "restore"
    if "slot_number" in values and values["slot_number"] is None and info is not None:
        return f"clean {info.get(wire.LAST_ACTION)}"
    if wire.CLAIM in (values.get("properties") or {}):
        return "claim"
    if info is not None and "properties" not in values:
        return "unfence" if info.get(wire.PING_SECRET) else "fence"
    return "update"


def _as_kept(values: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes of a request as a row keeps them: times in nanoseconds."""
    times = {key: values[key] for key in ("first_ping_at", "last_ping_at") if values.get(key)}
    return {**values, **{key: wire.parse_stamp_ns(stamp) for key, stamp in times.items()}}


class SimClient:
    """What ArvadosClient does, without a socket."""

    def __init__(self, registry: Registry, line: Line, manager: str) -> None:
        self._registry = registry
        self._line = line
        self._manager = manager
        self.token = "an administrator's"

    def call(self, method: str, *, slot_asked: bool = False, **parameters: Any) -> ArvadosAnswer:
        uuid = parameters.get("uuid", "")
        name = CALLS[method]
        if method == "list" and parameters.get("limit") == 0:
            name = "time"

        def effect() -> dict[str, Any]:
            return self._effect(method, uuid, parameters, slot_asked)

        body = self._line.call(name, effect, uuid)
        return ArvadosAnswer(body, email.utils.formatdate(int(body.pop("now")), usegmt=True))

    def _effect(
        self, method: str, uuid: str, parameters: Mapping[str, Any], slot_asked: bool
    ) -> dict[str, Any]:
        registry = self._registry
        if method == "list":
            return self._page(parameters) | {"now": registry.now()}
        node = parameters.get("body", {}).get("node", {})
        if method == "create":
            made = registry.insert(node, self._manager, "create")
            row = self._with_slot(made, asked=slot_asked)
        else:
            found = registry.rows.get(uuid)
            if found is None:
                raise NoSuchRecord(f"no record {uuid}")
            row = found
        if method == "update":
            values = _as_kept(node)
            what = purpose(row, values)
            self._refuse_taken(uuid, values.get("slot_number"))
            if "info" in values:
                values["info"] = registry.with_secret(values["info"])
            row = registry.change(row, values, self._manager, what)
            row = self._with_slot(row, asked=slot_asked)
        elif method == "delete":
            registry.delete(uuid, self._manager)
        return {**self._shown(row), "now": registry.now()}

    def _refuse_taken(self, uuid: str, slot: int | None) -> None:
        """The server has a unique index on the slot."""
        rows = self._registry.rows.values()
        if slot is not None and any(
            row["slot_number"] == slot and row["uuid"] != uuid for row in rows
        ):
            raise StoreRefused(f"slot {slot} is another record's")

    def _shown(self, row: Row) -> dict[str, Any]:
        registry = self._registry
        shown = view(row, registry.now_ns())
        if registry.shown.get(row["uuid"]) is not row:
            registry.aliases[row["uuid"], _version(shown)] = str(row["version"])
            registry.shown[row["uuid"]] = row
        return shown

    def _with_slot(self, row: Row, *, asked: bool) -> Row:
        """The fields are saved before a slot is looked for."""
        registry = self._registry
        if not asked:
            return row
        try:
            values = registry.with_slot(row)
        except NoFreeSlot as error:
            raise NoFreeSlot(str(error)) from None
        return registry.change(row, values, "server", "slot")

    def _page(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        registry = self._registry
        if parameters.get("limit") == 0:
            return {"items": []}
        rows = registry.listing_rows()
        for field, operator, value in parameters.get("filters", ()):
            if field == "uuid" and operator == ">":
                rows = [row for row in rows if row["uuid"] > value]
            elif field == "created_at" and operator == ">=":
                since = wire.parse_stamp_ns(value)
                rows = [row for row in rows if row["created_at"] >= since]
            else:
                raise StoreError(f"{field} {operator} is not simulated")
        page: dict[str, Any] = {"items": [self._shown(row) for row in rows]}
        if parameters.get("count") == "exact":
            page["items_available"] = len(rows)
        return page

    def is_administrator(self) -> bool | None:
        return None

    def document(self) -> dict[str, Any]:
        if self._registry.asks_for_id:
            self._line.call("id", lambda: None)
        return {"uuidPrefix": "zzzzz", "nodemanagerStoreId": self._registry.store_id}

    def post(self, url: str, form: Mapping[str, str], timeout: float) -> tuple[int, bytes]:
        self._line.call("probe", lambda: True)
        return 404, b'{"errors": ["no such node"]}'


class FencedStore(ArvadosRecordStore):
    """Arvados' store in one manager, whose listings may be altered by a fault."""

    def __init__(
        self,
        registry: Registry,
        line: Line,
        manager: str,
        bulletin: Bulletin,
        *,
        timeout: float,
        clock: Clock,
    ) -> None:
        super().__init__(
            "http://127.0.0.1",
            "token",
            timeout=timeout,
            insecure=True,
            slots=registry.naming.slots,
            ping_url=None,
            ca_file=None,
            clock=clock,
        )
        client: Any = SimClient(registry, line, manager)
        self._client = client
        self._engine = registry.engine
        self._bulletin = bulletin
        self._manager = manager

    def list_records(self) -> Listed[Record]:
        started_at = self._engine.now
        listed = super().list_records()
        for alter in self._bulletin.alterations:
            listed = alter(listed.items) if listed.complete else listed
        self._bulletin.tell(self._manager, started_at, self._engine.now, listed)
        return listed

    def ping_url(self, record: Record) -> str:
        return ping_url(record)
