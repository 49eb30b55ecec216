"""The discovery document: it tells a client the API's methods and parameters."""

from __future__ import annotations

from typing import Any

from nodemanager.records.query import TIMES
from nodemanager.records.view import FIELDS

_OBJECTS = frozenset({"properties", "info"})


def document(root_url: str, store_id: str) -> dict[str, Any]:
    """The document for a client that reached the server as `root_url`.

    `nodemanagerStoreId`, the store's unique id, is our addition.
    """
    return {
        "kind": "discovery#restDescription",
        "discoveryVersion": "v1",
        "id": "arvados:v1",
        "name": "arvados",
        "version": "v1",
        "revision": "20200101",
        "title": "nodemanager registry",
        "description": "Records of an elastic cluster's nodes",
        "documentationLink": "",
        "protocol": "rest",
        "baseUrl": f"{root_url}arvados/v1/",
        "basePath": "/arvados/v1/",
        "rootUrl": root_url,
        "servicePath": "arvados/v1/",
        "batchPath": "batch",
        "defaultTrashLifetime": 0,
        "maxRequestSize": 1024 * 1024,
        "nodemanagerStoreId": store_id,
        "parameters": {"alt": _param("string"), "prettyPrint": _param("boolean")},
        "schemas": {"Node": _node_schema(), "NodeList": _list_schema()},
        "resources": {"nodes": {"methods": _methods()}},
    }


def _methods() -> dict[str, Any]:
    one = {"uuid": _param("string", required=True, location="path")}
    listing = {name: _param("array") for name in ("filters", "order", "select")}
    listing |= {name: _param("integer") for name in ("limit", "offset")}
    listing |= {"count": _param("string")}
    assign = {"assign_slot": _param("boolean"), "select": _param("array")}
    unique = {"ensure_unique_name": _param("boolean")}
    ping = {name: _param("string") for name in _PING}
    ping["ping_secret"] = _param("string", required=True)
    return {
        "list": _method("list", "GET", "nodes", listing, answer="NodeList"),
        "get": _method("get", "GET", "nodes/{uuid}", one | {"select": _param("array")}),
        "create": _method("create", "POST", "nodes", assign | unique, body=True),
        "update": _method("update", "PUT", "nodes/{uuid}", one | assign, body=True),
        "delete": _method("delete", "DELETE", "nodes/{uuid}", one),
        "ping": _method("ping", "POST", "nodes/{uuid}/ping", one | ping),
    }


_PING = (
    "instance_id",
    "ec2_instance_id",
    "local_ipv4",
    "total_cpu_cores",
    "total_ram_mb",
    "total_scratch_mb",
    "worker_state",
)


def _method(
    name: str,
    verb: str,
    path: str,
    parameters: dict[str, Any],
    *,
    answer: str = "Node",
    body: bool = False,
) -> dict[str, Any]:
    method: dict[str, Any] = {
        "id": f"arvados.nodes.{name}",
        "path": path,
        "httpMethod": verb,
        "description": "",
        "parameters": parameters,
        "response": {"$ref": answer},
    }
    if body:
        method["request"] = {"required": True, "properties": {"node": {"$ref": "Node"}}}
    return method


def _param(kind: str, *, required: bool = False, location: str = "query") -> dict[str, Any]:
    return {"type": kind, "required": required, "location": location, "description": ""}


def _node_schema() -> dict[str, Any]:
    return {"id": "Node", "type": "object", "properties": {name: _field(name) for name in FIELDS}}


def _field(name: str) -> dict[str, Any]:
    if name in TIMES:
        return {"type": "string", "format": "date-time"}
    if name in _OBJECTS:
        return {"type": "object"}
    if name == "nameservers":
        return {"type": "array", "items": {"type": "string"}}
    return {"type": "integer" if name == "slot_number" else "string"}


def _list_schema() -> dict[str, Any]:
    numbers = {name: {"type": "integer"} for name in ("offset", "limit", "items_available")}
    texts = {name: {"type": "string"} for name in ("kind", "etag", "self_link")}
    items = {"items": {"type": "array", "items": {"$ref": "Node"}}}
    return {"id": "NodeList", "type": "object", "properties": numbers | texts | items}
