"""Any scheduler, through a program of the site for each verb; doc/schedulers.rst has the format.

`queue` prints one JSON object a line, as `[Daemon] wishlist_command` does. `nodes` prints one JSON
object, `{"nodes": [...]}`, so that output which was cut off is never read as fewer nodes. The
orders read one JSON object from stdin and print nothing, or `{"refused": "why"}`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from nodemanager.core.model.scheduling import SchedulerNode
from nodemanager.core.model.world import Job, Listed, WorkerState
from nodemanager.errors import SchedulerError, SchedulerRefused
from nodemanager.lib import foreign
from nodemanager.lib.program import output_of
from nodemanager.schedulers.api import OURS, SchedulerVerb, plain, single_node
from nodemanager.schedulers.wishlist import WishlistCommand

MAX_NODES = 1_000_000
_KEYS = {
    "node": str,
    "state": str,
    "draining": bool,
    "reserved": bool,
    "reason": str,
    "features": list,
    "weight": int,
    "cores": int,
    "responds": bool,
    "started_at": int,
}
_SHOWN = 60

Words = tuple[str, ...]


class CommandScheduler:
    """Runs `nodes`, `queue`, `drain`, `resume`, `down` and, where given, the further verbs.

    Each is a list of words, run without a shell for at most `timeout` seconds.
    """

    provider = "command"

    def __init__(self, programs: Mapping[str, Words], timeout: float) -> None:
        self._programs = dict(programs)
        self._timeout = timeout
        self._queue = WishlistCommand(programs["queue"], timeout, "queue_command")
        self.can = frozenset(verb for verb in SchedulerVerb if verb in programs)

    def nodes(self) -> Listed[SchedulerNode]:
        answer = _object("nodes_command", self._run("nodes"))
        items = answer.get("nodes")
        if not isinstance(items, list) or len(items) > MAX_NODES:
            raise SchedulerError("nodes_command: its answer has no list 'nodes'")
        found: dict[str, SchedulerNode] = {}
        doubted: dict[str, str] = {}
        nameless: list[str] = []
        for item in items:
            try:
                name = _name(item)
            except (ValueError, TypeError) as error:
                nameless.append(f"node {_shown(item)}: {error}")
                continue
            try:
                node = _node(name, item)
            except (ValueError, TypeError) as error:
                doubted[name] = str(error)
                continue
            if found.setdefault(name, node) != node:
                doubted.setdefault(name, "it is told in two ways")
        found |= {name: SchedulerNode(name, WorkerState.UNKNOWN) for name in doubted}
        unread = (f"node {name}: {problem}" for name, problem in doubted.items())
        return Listed(tuple(found.values()), complete=not nameless, problems=(*nameless, *unread))

    def queue(self) -> tuple[Job, ...]:
        return self._queue.queue()

    def drain(self, node: str, reason: str) -> None:
        self._order("drain", node=single_node(node), reason=f"{OURS}{plain(reason)}")

    def resume(self, node: str) -> None:
        self._order("resume", node=single_node(node))

    def mark_down(self, node: str, reason: str, *, had_joined: bool = False) -> bool:
        self._order("down", node=single_node(node), reason=f"{OURS}{plain(reason)}")
        return True

    def power_up(self, node: str) -> None:
        raise SchedulerRefused("no command powers nodes up: they are booted for jobs that wait")

    def describe(
        self, node: str, weight: int, features: tuple[str, ...], drop: tuple[str, ...] = ()
    ) -> None:
        left_out = {"drop": list(drop)} if drop else {}
        self._order(
            "describe", node=single_node(node), weight=weight, features=list(features), **left_out
        )

    def comment(self, job: str, text: str) -> None:
        self._order("comment", job=job, text=plain(text))

    def cancel(self, job: str) -> None:
        self._order("cancel", job=job)

    def _order(self, verb: str, **fields: Any) -> None:
        if verb not in self._programs:
            raise SchedulerRefused(f"there is no {verb}_command")
        output = self._run(verb, json.dumps(fields).encode() + b"\n")
        if not output.strip():
            return
        answer = _object(f"{verb}_command", output)
        if "refused" in answer:
            raise SchedulerRefused(f"{verb}_command refuses: {_shown(answer['refused'])}")
        if answer:
            raise SchedulerError(f"{verb}_command answered {_shown(answer)}")

    def _run(self, verb: str, given: bytes = b"") -> bytes:
        return output_of(f"{verb}_command", self._programs[verb], self._timeout, given=given)


def _object(what: str, output: bytes) -> dict[str, Any]:
    try:
        answer = foreign.loads(output)
    except ValueError as error:
        raise SchedulerError(f"{what} printed no JSON: {error}") from error
    if not isinstance(answer, dict):
        raise SchedulerError(f"{what} printed {_shown(answer)}, which is no JSON object")
    return answer


def _name(item: Any) -> str:
    """The name of a node; raises TypeError or ValueError where it has none."""
    if not isinstance(item, dict):
        raise TypeError("is not a JSON object")
    name = item.get("node")
    if not isinstance(name, str):
        raise TypeError(f"node = {_shown(name)} is no name")
    try:
        return single_node(name)
    except SchedulerRefused as error:
        raise ValueError(str(error)) from error


def _node(name: str, item: dict[str, Any]) -> SchedulerNode:
    """Raises TypeError or ValueError with what is wrong."""
    if "state" not in item:
        raise ValueError("has no 'state'")
    for key, value in item.items():
        if key not in _KEYS:
            raise ValueError(f"has an unknown key {_shown(key)}")
        if value is None and key in ("weight", "cores", "started_at"):
            continue
        if not isinstance(value, _KEYS[key]) or (_KEYS[key] is int and isinstance(value, bool)):
            raise TypeError(f"{key} = {_shown(value)} is no {_KEYS[key].__name__}")
    features = item.get("features", [])
    if not all(isinstance(one, str) for one in features):
        raise TypeError(f"features = {_shown(features)} has one that is no text")
    return SchedulerNode(
        name=name,
        state=WorkerState(item["state"]),
        draining=item.get("draining", False),
        reserved=item.get("reserved", False),
        reason=item.get("reason", ""),
        said=item["state"],
        features=tuple(features),
        weight=item.get("weight"),
        cores=item.get("cores"),
        responds=item.get("responds", True),
        started_at=item.get("started_at"),
    )


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
