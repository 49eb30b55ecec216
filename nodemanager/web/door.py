"""The door of the management server: who asks, and may they change anything."""

from __future__ import annotations

import hmac
from enum import StrEnum

import falcon
from falcon.asgi import Request

from nodemanager.core.model.reasons import Reason
from nodemanager.httpserver.refusals import Refusals

LOOKS = frozenset({"GET", "HEAD"})
"""The methods of requests that change nothing."""


class Role(StrEnum):
    """What a client may do: FULL everything, READ only look."""

    FULL = "full"
    READ = "read"


def user_of(request: Request) -> str | None:
    """The user who sent the request, according to the kernel; None for a request over TCP."""
    user: str | None = request.scope.get("state", {}).get("user")
    return user


class Door:
    """The check for the tokens, or for the Unix socket.

    `token` lets in whoever may change things, `read_token` whoever may only look; None or empty
    where there is no such token.
    """

    def __init__(
        self, token: str | None, refusals: Refusals, read_token: str | None = None
    ) -> None:
        self.refusals = refusals
        self.renew(token, read_token)

    def renew(self, token: str | None, read_token: str | None) -> None:
        """Let in who has these tokens from now on, and nobody by the former ones."""
        self._tokens = {
            role: given.encode()
            for role, given in ((Role.FULL, token), (Role.READ, read_token))
            if given
        }

    @property
    def exists(self) -> bool:
        return Role.FULL in self._tokens

    def secret(self, role: Role) -> bytes | None:
        """The token of that role, as bytes; None where there is none."""
        return self._tokens.get(role)

    def role_of(self, token: str) -> Role | None:
        """The role that the token gives; None for a wrong one. It takes the same time for all."""
        given = token.encode("utf-8", "replace")
        # Compare with every token, so that the time does not tell which one was nearly right.
        matches = [
            role for role, known in self._tokens.items() if hmac.compare_digest(given, known)
        ]
        return matches[0] if matches else None

    def role(self, request: Request) -> Role | None:
        """The role of the request's token; a request over the Unix socket has the full one."""
        if user_of(request) is not None:
            return Role.FULL
        given = request.get_header("Authorization")
        scheme, _, token = (given or "").partition(" ")
        return self.role_of(token) if scheme == "Bearer" else None

    def knows(self, request: Request) -> bool:
        """Whether the request has a token, or came over the Unix socket."""
        return self.role(request) is not None

    def opens(self, request: Request) -> bool:
        """Whether the request has a token that suffices; raises a 403 for any other token."""
        role = self.role(request)
        if role is Role.FULL or (role is Role.READ and request.method in LOOKS):
            return True
        if role is Role.READ:
            raise falcon.HTTPForbidden(
                title="read-only token",
                description="[Manage] read_token may look and change nothing",
            )
        if self.exists and request.get_header("Authorization") is not None:
            self.refusals.note(Reason.WRONG_TOKEN, request.remote_addr)
            raise falcon.HTTPForbidden(
                title="wrong token", description="send the one in [Manage] ManagementToken"
            )
        return False

    def lets_in(self, request: Request) -> None:
        """Raise a 401 or 403 for a request without a token, a 404 where there is no token."""
        if user_of(request) is not None:
            return
        if not self.exists:
            raise falcon.HTTPNotFound(title="disabled", description="there is no token")
        if not self.opens(request):
            self.refusals.note(Reason.NO_TOKEN, request.remote_addr)
            raise falcon.HTTPUnauthorized(
                title="authorization required",
                description="send the header `Authorization: Bearer TOKEN`",
                challenges=["Bearer"],
            )
