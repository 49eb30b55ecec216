"""The backlog over HTTP: the items that wait for an operator's decision, and the marks (S5).

    GET  /api/backlog             what would be cleaned, and why
    GET  /api/backlog/marks       what an operator let go, and how each item stands
    POST /api/backlog/apply       {"by", "pool", "store", "account",
                                   "items": [{"deed", "id", "version", "record"?}, ...]}
    POST /api/backlog/stop        {"by"}

All need the token. An apply is answered with how each item stands, or 409 with why it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import falcon
from falcon.asgi import Request, Response

from nodemanager.core.judge.preconditions import standing_block
from nodemanager.core.operate import backlog
from nodemanager.lib.logline import Json, as_json, timestamp
from nodemanager.lib.workers import Workers
from nodemanager.web.commands import Commands, bad_request, body_of, text_of, user_named

MOST_ITEMS = 100_000


def add_backlog(app: Any, daemon: Commands, workers: Workers) -> None:
    app.add_route("/api/backlog", _Shown(daemon, workers, _plan_json))
    app.add_route("/api/backlog/marks", _Shown(daemon, workers, _marks_json))
    app.add_route("/api/backlog/apply", _Apply(daemon, workers))
    app.add_route("/api/backlog/stop", _Stop(daemon, workers))


@dataclass(frozen=True, slots=True)
class _Resource:
    _daemon: Commands
    _workers: Workers


@dataclass(frozen=True, slots=True)
class _Shown(_Resource):
    _json: Callable[[backlog.BacklogView, backlog.IndexedPlan], Json]

    async def on_get(self, request: Request, response: Response) -> None:
        shown = await self._workers.run(self._daemon.ask, backlog.ShowBacklog)
        if isinstance(shown, str):
            raise falcon.HTTPServiceUnavailable(title="no answer", description=shown)
        if shown.seen is None:
            raise falcon.HTTPServiceUnavailable(
                title="starting", description="there is no decision yet; try again in a minute"
            )
        _send(response, await self._workers.run(self._json, shown, shown.seen))


class _Apply(_Resource):
    async def on_post(self, request: Request, response: Response) -> None:
        order = _order(await body_of(request, {"by", "pool", "store", "account", "items"}))
        order = replace(order, by=user_named(request, order.by))
        found = await self._workers.run(self._daemon.order, partial(backlog.ApplyBacklog, order))
        if isinstance(found, str):
            raise falcon.HTTPConflict(title="not applied", description=found)
        _send(response, {"items": _items_json(found)})


class _Stop(_Resource):
    async def on_post(self, request: Request, response: Response) -> None:
        given = await request.get_media(default_when_empty={})
        by = text_of(given, "by") if isinstance(given, dict) else ""
        stop = partial(backlog.StopBacklog, user_named(request, by))
        count = await self._workers.run(self._daemon.order, stop)
        if isinstance(count, str):
            raise falcon.HTTPServiceUnavailable(title="no answer", description=count)
        _send(response, {"stopped": count})


def _order(given: Mapping[str, Any]) -> backlog.Order:
    items = given.get("items")
    if not isinstance(items, list) or not 0 < len(items) <= MOST_ITEMS:
        raise bad_request(f"items must be a list of 1 to {MOST_ITEMS} items")
    return backlog.Order(
        by=text_of(given, "by"),
        pool=text_of(given, "pool"),
        store=text_of(given, "store"),
        account=text_of(given, "account"),
        items=tuple(_item(one) for one in items),
    )


def _item(given: Any) -> backlog.Item:
    if not isinstance(given, dict) or given.keys() - {"deed", "id", "version", "record"}:
        raise bad_request("an item must have deed, id and version, and may have a record")
    deed = text_of(given, "deed")
    if deed not in [one.value for one in backlog.ItemAction]:
        raise bad_request(f"there is no action {deed!r}")
    item = backlog.Item(
        backlog.ItemAction(deed),
        text_of(given, "id"),
        text_of(given, "version"),
        text_of(given, "record"),
    )
    if not item.id or not item.version:
        raise bad_request("an item must have deed, id and version")
    return item


def _send(response: Response, what: Mapping[str, object]) -> None:
    response.content_type = falcon.MEDIA_JSON
    response.text = as_json(what)


def _items_json(found: backlog.Statuses) -> list[Json]:
    return [
        {
            "deed": item.action,
            "id": item.id,
            "version": item.version,
            "stands": one.state,
            "reason": one.reason,
            "measures": one.measures,
        }
        for item, one in found
    ]


def _marks_json(shown: backlog.BacklogView, seen: backlog.IndexedPlan) -> Json:
    block = standing_block(seen.snapshot, shown.settings)
    items = (one.item for one in shown.marks.values())
    return {
        "items": _items_json(backlog.statuses(items, seen, shown.settings)),
        "waits_for": None if block is None else block.reason,
    }


def _plan_json(shown: backlog.BacklogView, seen: backlog.IndexedPlan) -> Json:
    made, settings = backlog.proposal(seen), shown.settings
    return {
        "pool": settings.pool,
        "made_at": timestamp(seen.snapshot.wall),
        "plan": seen.snapshot.plan_id,
        "store": shown.store or "",
        "account": shown.account or "",
        "mode": shown.mode,
        "settings": {
            "node_stale_after_s": settings.node_stale_after,
            "boot_fail_after_s": settings.boot_fail_after,
            "settle_s": settings.settle,
            "absent_listings": settings.absent_listings,
            "max_cleans_per_cycle": settings.max_cleans_per_cycle,
            "hold_backlog": settings.hold_backlog,
        },
        "records": len(seen.records),
        "freeing": made.freeing,
        "items": [
            _candidate_json(one) for one in (*made.candidates, *backlog.adoptable(seen, settings))
        ],
    }


def _candidate_json(one: backlog.Candidate) -> Json:
    beside = {name: getattr(one, name) for name in _BESIDE}
    stamps = {name: at and timestamp(at) for name, at in beside.items() if name in _STAMPS}
    measures = dict(one.status.measures)
    cause = measures.pop("cause", None)
    return {
        "deed": one.item.action,
        "id": one.item.id,
        "version": one.item.version,
        "record": one.item.record or None,
        **beside,
        **stamps,
        "reason": cause or one.status.reason,
        "standing": one.status.reason,
        "measures": measures,
    }


_BESIDE = tuple(one.name for one in fields(backlog.Candidate) if one.name not in ("item", "status"))
_STAMPS = ("last_sign_at", "created_at")
