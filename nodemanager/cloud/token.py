"""The token that requests to a cloud carry, shared by all threads and kept in memory alone.

libcloud asks for one as soon as a driver is made, for each driver anew. Here it is asked for when
it is needed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from nodemanager.errors import CloudError

T = TypeVar("T")

EARLY_S = 300.0
"""A token is renewed so long before it ends. A metadata server gives a new one from then on."""


class TokenSource(Generic[T]):
    """Gives the token that is valid now. `ask` gets a new one, and the seconds that it lasts.

    It is renewed `early` seconds before its end. The monotonic clock counts, so that a wrong clock
    of this machine does no harm.
    """

    def __init__(self, ask: Callable[[], tuple[T, float]], early: float = EARLY_S) -> None:
        self._ask = ask
        self._early = early
        self._lock = threading.Lock()
        self._token: T | None = None
        self._until = 0.0
        self._failures = 0

    @property
    def access_token(self) -> T:
        """As libcloud's connection asks for it. Raises Unauthorized where it is refused."""
        before = self._failures
        with self._lock:
            if self._token is not None and time.monotonic() < self._until:
                return self._token
            if self._failures != before:
                # Or each thread would wait for its own time-out, one after the other.
                raise CloudError("no access token was to be had a moment ago")
            try:
                return self._renewed()
            except Exception:
                # Whatever it was, those who waited for this token learn that there is none.
                self._failures += 1
                raise

    def _renewed(self) -> T:
        asked_at = time.monotonic()
        token, life = self._ask()
        self._token = token
        # A token that is about to end may be all there is for some seconds.
        self._until = asked_at + max(life - self._early, min(life / 2, 10.0))
        return token

    def refused(self, which: Callable[[T], bool] = lambda token: True) -> None:
        """Note that the token was refused: the next request asks for a new one, unless that one is
        known no more."""
        with self._lock:
            if self._token is not None and which(self._token):
                self._token = None
