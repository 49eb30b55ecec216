"""The net below a port: what an adapter can't digest is a failed call, and ends no actor.

A cloud, a store, a scheduler or a program may say anything. An adapter passes over a row that it
can't read, and raises one of our errors for an answer that it can't read. Where it overlooks
something, it raises what Python makes of it, a TypeError for instance, again at each poll. That
call failed, then: it is no evidence (L1), and whether its write took effect is not known (U6). It
is told, with its traceback. No decision is made behind a port: an error in one still ends the
process.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from nodemanager.core.model.reasons import Event
from nodemanager.errors import NodeManagerError, NotSent, RemoteError
from nodemanager.lib import log
from nodemanager.lib.logline import describe
from nodemanager.lib.throttle import Throttle, place_of

P = TypeVar("P")

_log = log.get(__name__)
_OURS = (NodeManagerError, AssertionError, MemoryError)
"""What is let through: an adapter's own words, its broken promises, and what no call is to blame
for."""

READS = frozenset(
    {
        # Of a cloud.
        *("account", "list_nodes", "list_sizes", "find_by_record", "ask", "check_image"),
        *("image", "pins", "find_leftovers", "preflight"),
        # Of a record store; a heartbeat frees and claims nothing.
        *("store_id", "slots", "store_time", "list_records", "read", "late_pings", "ping_url"),
        "probe",
        # Of a scheduler.
        *("queue", "nodes"),
        "close",
    }
)
"""The calls that order nothing. Every other call of a port is an order, which needs the lease."""


def netted(port: P, kind: type[RemoteError], source: str, may_send: Callable[[], bool]) -> P:
    """The same port, whose calls raise a `kind` in place of an error that is none of ours.

    `may_send` is asked right before each order goes out: one that has waited for a worker, or in a
    process that stood still, may no longer be this manager's to give (L6). Where it may not, the
    call raises NotSent. `source` is what the log calls the port. Raises nothing itself.
    """
    return cast("P", _Net(port, kind, source, may_send))


def netted_call(call: Callable[..., P], kind: type[RemoteError], source: str) -> Callable[..., P]:
    """The same for a function."""
    return _guarded(call, kind, source, Throttle())


class _Net:
    def __init__(
        self, port: Any, kind: type[RemoteError], source: str, may_send: Callable[[], bool]
    ) -> None:
        self._port = port
        self._kind = kind
        self._source = source
        self._may_send = may_send
        self._throttle = Throttle()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        if not callable(found):
            return found
        call = found if name in READS else _ordered(found, self._may_send)
        return _guarded(call, self._kind, self._source, self._throttle)


def _ordered(order: Callable[..., P], may_send: Callable[[], bool]) -> Callable[..., P]:
    @functools.wraps(order)
    def asked(*given: Any, **named: Any) -> P:
        if not may_send():
            raise NotSent("it was not sent: this manager lacks the pool's lease")
        return order(*given, **named)

    return asked


def _guarded(
    call: Callable[..., P], kind: type[RemoteError], source: str, throttle: Throttle
) -> Callable[..., P]:
    @functools.wraps(call)
    def guarded(*given: Any, **named: Any) -> P:
        try:
            return call(*given, **named)
        except _OURS:
            raise
        except Exception as error:
            # Whatever a library or an adapter makes of somebody else's words.
            count = throttle.to_tell(place_of(error))
            if count:
                _log.failure(Event.ADAPTER_FAILED, error, source=source, count=count)
            raise kind(f"its answer can't be digested: {describe(error)[:300]}") from error

    return guarded
