"""Talks to a running daemon through its management server, for the commands that need one."""

from __future__ import annotations

import getpass
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import requests

from nodemanager.config import Config
from nodemanager.core.commands import Verb
from nodemanager.errors import NodeManagerError

TIMEOUT_S = 30.0
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared with, never bound


class ClientError(NodeManagerError):
    """The daemon could not be reached, or said no."""


class NobodyThereError(ClientError):
    """No daemon takes commands there."""


class Client:
    """The daemon that serves `config`'s pool: address, port and token are from the same file."""

    def __init__(self, config: Config) -> None:
        manage = config.manage
        if not manage.port:
            raise NobodyThereError(
                f"{config.path}: [Manage] port is not set, so the daemon takes no commands; "
                "set one and restart it"
            )
        host = _WILDCARDS.get(manage.address, manage.address)
        host = f"[{host}]" if ":" in host else host
        self._url = f"http://{host}:{manage.port}"
        self._config = config

    def status(self) -> dict[str, Any]:
        """The daemon's newest picture (web.status); counts only for who may not read the token."""
        shown: dict[str, Any] = self._request("GET", "/status.json", None, must=False)
        return shown

    def order(
        self,
        verb: Verb,
        id: str | None = None,
        *,
        reason: str = "",
        forced: Sequence[str] = (),
        unlisted: bool = False,
    ) -> dict[str, Any]:
        """What became of an operator's command: `result`, `message`, and why where it was refused.

        Raises ClientError where no daemon answers, or not as one does.
        """
        path = "/api/breaker/reset" if verb is Verb.BREAKER_RESET else f"/api/{verb.value}"
        body: dict[str, Any] = {"by": getpass.getuser(), "reason": reason}
        if id is not None:
            path += f"/{quote(id)}"
        if forced:
            body["force"] = list(forced)
        if unlisted:
            body["unlisted"] = True
        answer = self._send("POST", path, body)
        try:
            told = answer.json()
        except ValueError:
            told = None
        if isinstance(told, dict) and "result" in told:
            return told
        raise ClientError(f"{self._url}{path}: {_why(answer)}")

    def standing(self) -> dict[str, Any]:
        """The newest picture with the orders that stand and who gave them: `pause`, `marks`."""
        return dict(self._get("/status.json"))

    def explain(self, id: str, since: float | None = None) -> dict[str, Any]:
        """Why it is left alone, or is not (journal.explained). Raises ClientError that says what
        there is near where nothing, or more than one thing, goes by that id."""
        query = "" if since is None else f"?since={since}"
        path = f"/api/explain/{quote(id)}{query}"
        shown: dict[str, Any] = self._request("GET", path, None)
        return shown

    def backlog(self) -> dict[str, Any]:
        """What an operator is asked to decide, with the evidence."""
        return dict(self._get("/api/backlog"))

    def apply_backlog(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Apply a reviewed plan: the run, as it stands."""
        return dict(self._post("/api/backlog/apply", order))

    def backlog_run(self, *, items: bool = False) -> dict[str, Any]:
        """How far the plan that is, or was last, applied has come."""
        return dict(self._get(f"/api/backlog/run?items={'yes' if items else 'no'}"))

    def stop_backlog(self) -> dict[str, Any]:
        return dict(self._post("/api/backlog/stop", {}))

    def _token(self) -> str:
        given = self._config.manage.management_token
        if given is not None:
            return given.reveal()
        path = self._config.daemon.state_dir / "management.token"
        try:
            return path.read_text(encoding="utf-8").strip()
        except FileNotFoundError as error:
            raise NobodyThereError(
                f"there is no {path}, which a daemon makes at its first start: start it "
                f"(nodemanager run --config {self._config.path}), or set $STATE_DIRECTORY as the "
                "daemon has it"
            ) from error
        except OSError as error:
            raise ClientError(
                f"{path}: {error.strerror}; run this as the user that the daemon runs as"
            ) from error

    def _nobody(self) -> str:
        return (
            f"no daemon answers at {self._url}; start it: "
            f"nodemanager run --config {self._config.path}"
        )

    def _get(self, path: str) -> Any:
        return self._request("GET", path, None)

    def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        return self._request("POST", path, {"by": getpass.getuser(), **body})

    def _request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        *,
        must: bool = True,
    ) -> Any:
        """The JSON that it answers. Raises ClientError where it does not, or says no.

        Without `must` it is asked without a token where there is none to read.
        """
        answer = self._send(method, path, body, must=must)
        if answer.status_code != 200:
            raise ClientError(_unknown(answer) or f"{self._url}{path}: {_why(answer)}")
        return answer.json()

    def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None, *, must: bool = True
    ) -> requests.Response:
        headers = {}
        try:
            headers["Authorization"] = f"Bearer {self._token()}"
        except ClientError:
            if must:
                raise
        try:
            with requests.Session() as session:
                # A proxy of the environment has no business with loopback, nor with our token.
                session.trust_env = False
                return session.request(
                    method, f"{self._url}{path}", json=body, headers=headers, timeout=TIMEOUT_S
                )
        except requests.ConnectionError as error:
            raise NobodyThereError(self._nobody()) from error
        except requests.RequestException as error:
            raise ClientError(f"{self._url}: {type(error).__name__}") from error


def _unknown(answer: requests.Response) -> str | None:
    """The daemon's own words about an id that it does not know."""
    try:
        told: Any = answer.json()
        return str(told["description"]) if told["title"] == "unknown" else None
    except (ValueError, KeyError, TypeError):
        return None


def _why(answer: requests.Response) -> str:
    try:
        told: Any = answer.json()
        return f"{told.get('title', answer.status_code)}: {told.get('description', '')}"
    except ValueError:
        return f"HTTP {answer.status_code}"
