"""Requests to Google Compute Engine through libcloud's connection, with checked answers.

libcloud 3.9 itself drops zones that warn and nodes that it fails to convert, waits in a loop for
each operation, and sends a request again when its connection is reset. So we use only its
connection (TLS, proxies, time-outs) and check the answers here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nodemanager.cloud.gce.errors import Refusal
from nodemanager.cloud.gce.instance import Instance
from nodemanager.cloud.transport import Answer, EndpointAnswers, TokenSource, each_page, json_of
from nodemanager.errors import CloudError, ForeignAnswer, IncompleteListing

PAGE_SIZE = 500
"""The most that a list call takes as maxResults."""
NOTHING_HERE = "NO_RESULTS_ON_PAGE"
"""The one warning of a listing that hides nothing."""


class GceAnswers(EndpointAnswers):
    """Mix-in for libcloud's GCE connection class; replaces the credential that it would make."""

    tokens: TokenSource[str]

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        here: Any = self
        here.gce_params = None
        here.oauth2_credential = self.tokens


class Wire:
    """Compute v1 on one connection, for one thread; paths begin below the project."""

    def __init__(self, connection: Any, project: str, page_size: int = PAGE_SIZE) -> None:
        self._connection = connection
        self._page_size = page_size
        self.project = project

    def call(
        self,
        kind: str,
        path: str,
        *,
        method: str = "GET",
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        project: str | None = None,
    ) -> dict[str, Any]:
        """The answer, which must be of that `kind`; raises Refusal for Google's error codes, else
        CloudError. The request is sent once."""
        target = f"/compute/v1/projects/{project or self.project}{'/' if path else ''}{path}"
        answer = self._connection.request(
            target, method=method, params=dict(params or {}), data=body or ""
        )
        return judged(answer, f"{method} {path or 'project'}", f"compute#{kind}")

    def granted(self, path: str, asked: Sequence[str], project: str | None = None) -> set[str]:
        """Which of the `asked` permissions we have on the thing at that path."""
        target = f"/compute/v1/projects/{project or self.project}/{path}/testIamPermissions"
        return granted(self._connection, target, asked)

    def instances(self, wanted: str | None = None) -> list[Instance]:
        """Every instance of the project that matches the filter `wanted`, of all zones."""
        return [Instance.of(item) for item in self.aggregated("instance", "instances", wanted)]

    def instance(self, zone: str, node_id: str) -> Instance | None:
        """The instance of that id; None only for Google's own "not found", in a zone it has."""
        path = f"zones/{zone}/instances/{node_id}"
        try:
            found = Instance.of(self.call("instance", path))
        except Refusal as refusal:
            if not refusal.is_not_found:
                raise
            # A project that is not there, or that we may not see, has no instance either.
            self.call("zone", f"zones/{zone}")
            return None
        if found.id != node_id:
            raise ForeignAnswer(f"asked for {node_id}, answered with {found.id or 'no id'}")
        return found

    def aggregated(self, one: str, name: str, wanted: str | None = None) -> list[Any]:
        """The items under `name` in every scope, over all pages.

        Raises IncompleteListing where any scope can't be reached: Google then answers with the
        others, and with a warning (L2).
        """
        found: list[Any] = []
        zones: set[str] = set()
        for page in self._pages(f"{one}AggregatedList", f"aggregated/{name}", wanted):
            _complete(page, name)
            if page.get("unreachables"):
                raise IncompleteListing(f"{name}: can't be reached: {page['unreachables']}")
            scopes = page.get("items", {})
            if not isinstance(scopes, dict):
                raise ForeignAnswer(f"{name}: the answer's items are no scopes")
            for scope, held in scopes.items():
                if not isinstance(held, dict):
                    raise ForeignAnswer(f"{name}: {scope} is no object")
                _complete(held, scope)
                found += _items(held.get(name, []), scope)
                zones |= {scope} if scope.startswith("zones/") else set()
        if not zones:
            # Google names each zone, also one without any.
            raise IncompleteListing(f"{name}: the answer names no zone")
        return found

    def waited(self, operation: dict[str, Any], zone: str) -> dict[str, Any]:
        """The operation once it is done, or as it is when a request's time is over."""
        if is_done(operation):
            return operation
        path = f"{operation_path(zone, operation)}/wait"
        try:
            return self.call("operation", path, method="POST")
        except (Refusal, CloudError, OSError):
            # It goes on when we can't learn how it ends. requests' exceptions are OSErrors.
            return operation

    def _pages(self, kind: str, path: str, wanted: str | None) -> Iterator[dict[str, Any]]:
        params = {"maxResults": str(self._page_size)}
        if wanted is not None:
            params["filter"] = wanted

        def ask(token: str | None) -> dict[str, Any]:
            more = {} if token is None else {"pageToken": token}
            return self.call(kind, path, params={**params, **more})

        return each_page(ask, lambda page: page.get("nextPageToken"), path)


def granted(connection: Any, target: str, asked: Sequence[str]) -> set[str]:
    """Which of the `asked` permissions Google says that we have; asking changes nothing."""
    body = {"permissions": list(asked)}
    content = judged(connection.request(target, method="POST", data=body), f"POST {target}", None)
    found = content.get("permissions", [])
    return set(map(str, _items(found, target)))


def operation_path(zone: str, operation: Mapping[str, Any]) -> str:
    """Where an operation in that zone is asked for."""
    return f"zones/{zone}/operations/{operation.get('name')}"


def is_done(operation: Mapping[str, Any]) -> bool:
    """Whether an operation has ended. Raises Refusal where it failed."""
    if operation.get("status") != "DONE":
        return False
    failed = operation.get("error")
    if failed:
        errors = failed.get("errors") if isinstance(failed, dict) else None
        first = errors[0] if isinstance(errors, list) and errors else {}
        status = operation.get("httpErrorStatusCode")
        raise Refusal(
            str(first.get("code", "")),
            str(first.get("message", "the operation failed")),
            status if isinstance(status, int) else 500,
        )
    return True


def _complete(part: Mapping[str, Any], where: str) -> None:
    if "warning" not in part:
        return
    warning = part["warning"]
    code = warning.get("code") if isinstance(warning, dict) else warning
    if code != NOTHING_HERE:
        raise IncompleteListing(f"{where}: {code}")


def _items(found: object, where: str) -> list[Any]:
    if not isinstance(found, list):
        raise ForeignAnswer(f"{where}: the answer's items are no list")
    return found


def judged(answer: Answer, doing: str, kind: str | None) -> dict[str, Any]:
    """The answer's JSON; raises the matching error for anything but one of that `kind`.

    Answers about permissions have none.
    """
    content = json_of(answer, doing, Refusal, _refusal)
    if not isinstance(content, dict) or content.get("kind") != kind:
        found = content.get("kind") if isinstance(content, dict) else type(content).__name__
        raise ForeignAnswer(f"{doing}: answered by {str(found)[:120]}, not {kind}")
    return content


def _refusal(content: Mapping[str, Any]) -> tuple[str, str]:
    error = content.get("error")
    if not isinstance(error, dict):
        return "", ""
    errors = error.get("errors")
    first = errors[0] if isinstance(errors, list) and errors else {}
    code = first.get("reason") if isinstance(first, dict) else None
    return str(code or error.get("status") or ""), str(error.get("message", ""))
