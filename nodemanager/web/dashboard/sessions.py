"""Signed-in browsers: a signed cookie, and the token that each of its forms must carry.

A session is in its cookie alone, signed with a key made from the token that was given. So it
outlives a restart of the daemon, and ends when that token is changed. What was signed out is
remembered until it would have ended anyway, but not over a restart.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass

from nodemanager.web.door import Door, Role

LASTS_S = 12 * 3600
"""Seconds after which one must sign in again."""
LONGEST_NAME = 64
LONGEST_COOKIE = 1024
MOST_ENDED = 10_000


@dataclass(frozen=True, slots=True)
class Session:
    """A signed-in browser. `name` is what its user is called in the log; `ends_at` is epoch
    seconds; `id` is random."""

    id: str
    role: Role
    name: str
    ends_at: float

    @property
    def may_act(self) -> bool:
        return self.role is Role.FULL


class Sessions:
    """Signs and checks cookies. `wall` gives epoch seconds. For use by one thread."""

    def __init__(self, door: Door, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._door = door
        self._ended: dict[str, float] = {}

    def begin(self, role: Role, name: str) -> tuple[Session, str]:
        session = Session(secrets.token_urlsafe(16), role, name, self._wall() + LASTS_S)
        claims = json.dumps([session.id, session.role, session.name, session.ends_at]).encode()
        return session, f"{_text(claims)}.{_text(self._mac(role, b'cookie', claims))}"

    def read(self, cookie: str | None) -> Session | None:
        """The session of a cookie; None where it is not ours, too old or signed out."""
        if cookie is None or len(cookie) > LONGEST_COOKIE:
            return None
        body, _, mac = cookie.partition(".")
        try:
            claims, given = _bytes(body), _bytes(mac)
            id, role, name, ends_at = json.loads(claims)
            session = Session(str(id), Role(role), str(name), float(ends_at))
        except (ValueError, TypeError, RecursionError, OverflowError):
            return None
        if self._door.secret(session.role) is None:
            return None
        if not hmac.compare_digest(self._mac(session.role, b"cookie", claims), given):
            return None
        if session.ends_at <= self._wall() or session.id in self._ended:
            return None
        return session

    def end(self, session: Session) -> None:
        """Sign out: the session's cookie is worth nothing from now on."""
        now = self._wall()
        self._ended = {id: at for id, at in self._ended.items() if at > now}
        while len(self._ended) >= MOST_ENDED:
            del self._ended[next(iter(self._ended))]
        self._ended[session.id] = session.ends_at

    def form_token(self, session: Session) -> str:
        """What every form of the session must carry, so that no other site's form does (CSRF)."""
        return _text(self._mac(session.role, b"form", session.id.encode()))

    def is_form_token(self, session: Session, given: str) -> bool:
        expected = self.form_token(session).encode()
        return hmac.compare_digest(expected, given.encode("utf-8", "replace"))

    def _mac(self, role: Role, use: bytes, claims: bytes) -> bytes:
        token = self._door.secret(role) or b""
        key = hmac.digest(token, b"nodemanager dashboard", hashlib.sha256)
        return hmac.digest(key, use + b":" + claims, hashlib.sha256)


def _text(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
