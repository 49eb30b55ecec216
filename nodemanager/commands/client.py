"""The client that commands use to talk to a running daemon over its Unix socket."""

from __future__ import annotations

import getpass
import http.client
import json
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from nodemanager import __version__
from nodemanager.core.operate.verbs import Verb
from nodemanager.errors import ConfigError, NodeManagerError
from nodemanager.lib import control
from nodemanager.lib.deadline import Bounded
from nodemanager.lib.logline import Json

if TYPE_CHECKING:
    from nodemanager.config import Reach

TIMEOUT_S = 30.0
"""How long a whole answer may take."""


class ClientError(NodeManagerError):
    """The daemon could not be reached, or refused the request."""


class NobodyThereError(ClientError):
    """No daemon answers there."""


# `timeout` is a property of Bounded, and a plain field of the other.
class _Connection(Bounded, http.client.HTTPConnection):  # type: ignore[misc]
    """A connection to the socket whose whole answer takes no longer than `timeout` seconds."""


class _Object(dict[str, Any]):
    """An object of an answer. After an upgrade the daemon runs on as it was until its restart."""

    def __missing__(self, key: str) -> Any:
        raise ClientError(
            f"the daemon's answer has no {key!r}: it is of another version than this command "
            f"({__version__}); restart it"
        )


@dataclass(frozen=True)
class _Answer:
    status_code: int
    body: bytes

    def json(self, hook: type[dict[str, Any]] | None = None) -> Any:
        return json.loads(self.body, object_hook=hook)


class Client:
    """The daemon that `reach` leads to, over its Unix socket, which needs no token.

    With `url`, requests go there over TCP instead, with the token of the same file. The client
    never chooses TCP by itself: a program that took the port while the daemon was down would get
    the token.
    """

    def __init__(self, reach: Reach, url: str | None = None) -> None:
        self._reach = reach
        self._over_tcp = url is not None
        self._url = (url or "").rstrip("/")

    def status(self, *, with_names: bool = False) -> Json:
        """The daemon's newest status (web.status).

        Only its counts if we can't read the token; `with_names` raises ClientError then.
        """
        return self._request("GET", "/status.json", None, must=with_names)

    def get(self, *path: str, within_s: float = TIMEOUT_S, **asked: Any) -> Json:
        """The answer of GET /api/PATH, where `asked` are the conditions that are set.

        Raises ClientError also where the whole answer takes longer than `within_s`.
        """
        given = {key: one for key, one in asked.items() if one not in (None, False)}
        query = urlencode({key: "yes" if one is True else one for key, one in given.items()})
        where = "/".join(("/api", *map(quote, path))) + (f"?{query}" if query else "")
        return self._request("GET", where, None, within_s=within_s)

    def post(self, *path: str, **body: Any) -> Json:
        return self._request("POST", "/".join(("/api", *path)), {"by": _me(), **body})

    def order(
        self,
        verb: Verb,
        id: str | None = None,
        *,
        reason: str = "",
        forced: Sequence[str] = (),
        unlisted: bool = False,
    ) -> Json:
        """Send an operator's command; gives its `result`, its `message` and why it was refused.

        Raises ClientError where no daemon answers or the answer is not a daemon's.
        """
        path = verb.path
        body: dict[str, Any] = {"by": _me(), "reason": reason}
        if id is not None:
            path += f"/{quote(id)}"
        if forced:
            body["force"] = list(forced)
        if unlisted:
            body["unlisted"] = True
        answer = self._send("POST", path, body)
        try:
            reply = answer.json()
        except ValueError:
            reply = None
        if isinstance(reply, dict) and "result" in reply:
            return reply
        raise ClientError(f"{self._url}{path}: {_why(answer)}")

    def _token(self) -> str:
        wrong = [*self._reach.problems, *self._reach.unread]
        if wrong:
            raise ConfigError(wrong)
        given = self._reach.token
        if given is not None:
            return given.reveal()
        path = self._reach.state_dir / "management.token"
        try:
            return path.read_text(encoding="utf-8").strip()
        except FileNotFoundError as error:
            raise NobodyThereError(
                f"there is no {path}, which a daemon makes at its first start: start it "
                f"(nodemanager run --config {self._reach.path}), or set $STATE_DIRECTORY as the "
                "daemon has it"
            ) from error
        except OSError as error:
            raise ClientError(
                f"{path}: {error.strerror}; run this as the user that the daemon runs as"
            ) from error

    def _nobody(self) -> str:
        start = f"start it: nodemanager run --config {self._reach.path}"
        if self._over_tcp:
            return f"no daemon answers at {self._url}; {start}"
        where = " nor at ".join(map(str, self._places()))
        return (
            f"no daemon answers at {where}; {start}, or set $STATE_DIRECTORY as the daemon has it"
        )

    def _places(self) -> list[Path]:
        return control.places(self._reach.path, self._reach.state_dir, os.environ)

    def _request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        *,
        must: bool = True,
        within_s: float = TIMEOUT_S,
    ) -> Json:
        """The JSON of the daemon's answer. Raises ClientError where it refuses or doesn't answer.

        Without `must`, a request without a token is sent where no token can be read.
        """
        answer = self._send(method, path, body, must=must, within_s=within_s)
        if answer.status_code != 200:
            raise ClientError(_message(answer) or f"{self._url}{path}: {_why(answer)}")
        answered: Json = answer.json(_Object)
        return answered

    def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        *,
        must: bool = True,
        within_s: float = TIMEOUT_S,
    ) -> _Answer:
        if not self._over_tcp:
            return self._send_locally(method, path, body, within_s)
        return self._send_over_tcp(method, path, body, within_s, must=must)

    def _send_over_tcp(
        self, method: str, path: str, body: Mapping[str, Any] | None, within_s: float, *, must: bool
    ) -> _Answer:
        # Most commands use the socket, and this import costs as much as all their others.
        import requests

        from nodemanager.lib.bounded_session import within_its_time

        headers = {}
        try:
            headers["Authorization"] = f"Bearer {self._token()}"
        except ClientError:
            if must:
                raise
        try:
            with requests.Session() as session:
                # A proxy named in the environment must not see our token.
                session.trust_env = False
                within_its_time(session)
                answer = session.request(
                    method, f"{self._url}{path}", json=body, headers=headers, timeout=within_s
                )
                return _Answer(answer.status_code, answer.content)
        except requests.exceptions.SSLError as error:
            # The innermost error says what it was; requests wraps it three times.
            cause = getattr(error.args[0], "reason", error) if error.args else error
            raise ClientError(f"{self._url}: no TLS connection: {cause}") from error
        except requests.ConnectionError as error:
            raise NobodyThereError(self._nobody()) from error
        except requests.Timeout as error:
            raise ClientError(f"{self._url}: no answer within {within_s:g} s") from error
        except requests.RequestException as error:
            raise ClientError(f"{self._url}: {type(error).__name__}") from error

    def _send_locally(
        self, method: str, path: str, body: Mapping[str, Any] | None, within_s: float
    ) -> _Answer:
        connection = _Connection("localhost", timeout=within_s)
        try:
            connection.sock = self._connected(within_s)
            raw = None if body is None else json.dumps(body).encode()
            connection.request(method, path, raw, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return _Answer(answer.status, answer.read())
        except TimeoutError as error:
            raise ClientError(f"{self._url}: no answer within {within_s:g} s") from error
        except (OSError, http.client.HTTPException) as error:
            raise ClientError(f"{self._url}: {type(error).__name__}") from error
        finally:
            connection.close()

    def _connected(self, within_s: float) -> socket.socket:
        for path in self._places():
            self._url = f"unix:{path}"
            try:
                return control.connect(path, within_s)
            except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
                continue
            except PermissionError as error:
                raise ClientError(
                    f"{path}: {error.strerror}; run this as root, as the daemon's user or as a "
                    "member of its group (nodemanager)"
                ) from error
        if self._reach.problems:
            # No daemon would start on this file: that is what to mend first.
            raise ConfigError(list(self._reach.problems))
        raise NobodyThereError(self._nobody())


def _me() -> str:
    return os.environ.get("SUDO_USER") or getpass.getuser()


def _message(answer: _Answer) -> str | None:
    """The daemon's own error message; None for an answer that is not a daemon's."""
    try:
        error: Any = answer.json()
        title, words = str(error["title"]), str(error["description"])
    except (ValueError, KeyError, TypeError):
        return None
    return words if title == "unknown" else f"{title}: {words}"


def _why(answer: _Answer) -> str:
    try:
        error: Any = answer.json()
        title, more = str(error.get("title", answer.status_code)), error.get("description")
        return f"{title}: {more}" if more else title
    except ValueError:
        return f"HTTP {answer.status_code}"
