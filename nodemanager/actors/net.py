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

from nodemanager import log
from nodemanager.core.model.reasons import Event
from nodemanager.errors import NodeManagerError, RemoteError
from nodemanager.logline import describe
from nodemanager.seldom import Seldom, place_of

P = TypeVar("P")

_log = log.get(__name__)
_OURS = (NodeManagerError, AssertionError, MemoryError)
"""What is let through: an adapter's own words, its broken promises, and what no call is to blame
for."""


def netted(port: P, kind: type[RemoteError], source: str) -> P:
    """The same port, whose calls raise a `kind` in place of an error that is none of ours.

    `source` is what the log calls it. Raises nothing itself.
    """
    return cast("P", _Net(port, kind, source))


def netted_call(call: Callable[..., P], kind: type[RemoteError], source: str) -> Callable[..., P]:
    """The same for a function."""
    return _guarded(call, kind, source, Seldom())


class _Net:
    def __init__(self, port: Any, kind: type[RemoteError], source: str) -> None:
        self._port = port
        self._kind = kind
        self._source = source
        self._seldom = Seldom()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        if not callable(found):
            return found
        return _guarded(found, self._kind, self._source, self._seldom)


def _guarded(
    call: Callable[..., P], kind: type[RemoteError], source: str, seldom: Seldom
) -> Callable[..., P]:
    @functools.wraps(call)
    def guarded(*given: Any, **named: Any) -> P:
        try:
            return call(*given, **named)
        except _OURS:
            raise
        except Exception as error:
            # Whatever a library or an adapter makes of somebody else's words.
            count = seldom.to_tell(place_of(error))
            if count:
                _log.failure(Event.ADAPTER_FAILED, error, source=source, count=count)
            raise kind(f"its answer can't be digested: {describe(error)[:300]}") from error

    return guarded
