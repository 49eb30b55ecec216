"""The lists of nodes and slots over HTTP; all need the token.

GET /api/nodes       every node of the newest decision
GET /api/nodes/ID    the node that ID names; else 404 with similar ids
GET /api/slots       every held slot

A list takes the query of core.explain.lists: filters, `sort` and `q`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any
from urllib.parse import parse_qsl

import falcon
from falcon.asgi import Request

from nodemanager.core.explain import inventory
from nodemanager.core.explain.lists import NODES, SLOTS, ListKind, UnknownColumnError
from nodemanager.core.explain.picture import Picture
from nodemanager.core.operate.naming import UnknownIdError
from nodemanager.journal.explained import plain
from nodemanager.lib.logline import Json
from nodemanager.lib.workers import Workers
from nodemanager.web.commands import Doorkeeper
from nodemanager.web.explain import ExplainResource, Explanations


def add_inventory(app: Any, explanations: Explanations, door: Doorkeeper, workers: Workers) -> None:
    routes: dict[str, Callable[..., Json]] = {
        "/api/nodes": lambda picture, _, request: as_asked(NODES, nodes(picture), request),
        # Some clouds' ids contain slashes.
        "/api/nodes/{id:path}": lambda picture, _, request, id: node(picture, id),
        "/api/slots": lambda picture, _, request: as_asked(SLOTS, slots(picture), request),
    }
    for path, ask in routes.items():
        app.add_route(path, ExplainResource(explanations, door, workers, ask))


def nodes(picture: Picture) -> Json:
    """The answer of GET /api/nodes."""
    taken = inventory.take(picture.made, picture.snapshot, picture.settings)
    return {**_head(taken), "nodes": [_row(one) for one in taken.nodes]}


def slots(picture: Picture) -> Json:
    """The answer of GET /api/slots."""
    taken = inventory.take(picture.made, picture.snapshot, picture.settings)
    rows = [_row(one) for one in taken.slots]
    return {**_head(taken), "total": taken.total, "slots": rows}


def node(picture: Picture, given: str) -> Json:
    """The node that `given` names. Raises UnknownIdError, also for a record without a node."""
    row = inventory.node_row(picture.made, picture.snapshot, picture.settings, given)
    if row is None:
        raise UnknownIdError(f"{given} has no listed node")
    return _row(row)


def _head(taken: inventory.Inventory) -> Json:
    return {"pool": taken.pool, "plan": taken.plan, "at": taken.at}


def _row(row: inventory.NodeRow | inventory.SlotRow) -> Json:
    return {one.name: plain(getattr(row, one.name)) for one in fields(row)}


def as_asked(kind: ListKind, shown: Json, request: Request) -> Json:
    """The answer with the rows that the request asks for. Raises falcon's 400."""
    try:
        rows = kind.chosen(shown[kind.key], dict(parse_qsl(request.query_string)))
    except UnknownColumnError as error:
        raise falcon.HTTPBadRequest(title="no such column", description=str(error)) from error
    return {**shown, kind.key: rows}
