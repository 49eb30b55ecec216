"""A time limit for a whole HTTP answer, for the connections of http.client.

The libraries above it limit each read of the socket alone: a server that sends a byte now and then
would keep a call for ever. `bounded_session` has the same for requests.
"""

from __future__ import annotations

import http.client
import io
import time
from collections.abc import Callable
from typing import Any

_LEAST_S = 0.001


class Bounded:
    """Mix-in for a connection class of http.client, beside which it stands first.

    `timeout` in seconds is what is left; whoever sets it begins anew. None is no limit.
    """

    _ends_at: float | None = None
    sock: Any

    @property
    def timeout(self) -> float | None:
        if self._ends_at is None:
            return None
        return max(_LEAST_S, self._ends_at - time.monotonic())

    @timeout.setter
    def timeout(self, seconds: object) -> None:
        # urllib3 sets a word of its own for "the default" before it sets the seconds.
        limited = isinstance(seconds, (int, float))
        self._ends_at = time.monotonic() + float(seconds) if limited else None  # type: ignore[arg-type]

    def send(self, data: Any) -> None:
        if self.sock is not None:
            self.sock.settimeout(self.timeout)
        super().send(data)  # type: ignore[misc]  # of http.client's connection, beside this class

    def response_class(self, sock: Any, **more: Any) -> http.client.HTTPResponse:
        answer = http.client.HTTPResponse(sock, **more)
        raw = answer.fp.detach()
        answer.fp = io.BufferedReader(_Until(raw, lambda: self._bound(sock)))
        return answer

    def _bound(self, sock: Any) -> None:
        if self._ends_at is not None and time.monotonic() >= self._ends_at:
            raise TimeoutError("no whole answer in time")
        sock.settimeout(self.timeout)


class _Until(io.RawIOBase):
    """A socket's bytes; calls `bound` before each read, to set its time limit."""

    def __init__(self, raw: Any, bound: Callable[[], None]) -> None:
        super().__init__()
        self._raw = raw
        self._bound = bound

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._bound()
        count: int | None = self._raw.readinto(buffer)
        return count

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()
