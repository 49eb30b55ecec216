"""Requests to Azure Resource Manager through libcloud's connection, with checked answers.

libcloud 3.9 itself gives the machines that it has after 300 seconds as if they were all, asks for
each machine's state and interfaces one by one, and drops what it can't convert. So we use only its
connection (TLS, proxies, time-outs) and check the answers here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from nodemanager.cloud import transport
from nodemanager.cloud.azure.access import Access
from nodemanager.cloud.azure.errors import Refusal
from nodemanager.cloud.azure.node import VirtualMachine, power_in
from nodemanager.cloud.refusal import unless_missing
from nodemanager.errors import ForeignAnswer, IncompleteListing

COMPUTE = "2024-11-01"
"""The first version of virtualMachines that tags the interfaces and addresses that it makes."""
DISKS = "2024-03-02"
NETWORK = "2024-05-01"
RESOURCES = "2022-12-01"
MACHINES = "Microsoft.Compute/virtualMachines"


class AzureAnswers(transport.EndpointAnswers):
    """Mix-in for libcloud's Azure connection class, which would sign in for each connection."""

    tokens: transport.TokenSource[str]

    @property
    def access_token(self) -> str:
        return self.tokens.access_token

    def get_token_from_credentials(self) -> None:
        """Nothing: the token is asked for with the first request."""


@dataclass(frozen=True, slots=True)
class AzureAnswer:
    """What an answer says; `content` is {} for one without a body."""

    content: Mapping[str, Any]
    status: int
    headers: Mapping[str, str]


class Wire:
    """Azure Resource Manager on one connection, for one thread."""

    def __init__(self, connection: Any, access: Access) -> None:
        self._connection = connection
        self._access = access

    @property
    def group(self) -> str:
        return f"{self.subscription}/resourceGroups/{self._access.group}"

    @property
    def subscription(self) -> str:
        return f"/subscriptions/{self._access.subscription}"

    def machine_path(self, name: str) -> str:
        return f"{self.group}/providers/{MACHINES}/{name}"

    def call(
        self,
        method: str,
        path: str,
        version: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        bare_list: bool = False,
    ) -> AzureAnswer:
        """The answer; raises Refusal for Azure's error codes, else CloudError. Sent once.

        `bare_list`: for a method that answers with a list, which is the content's `value` here.
        """
        answer = self._connection.request(
            path,
            method=method,
            params={"api-version": version, **(params or {})},
            data=body or "",
            headers=dict(headers or {}),
        )
        return judged(answer, f"{method} {_short(path)}", bare_list=bare_list)

    def get(self, path: str, version: str, **params: str) -> Mapping[str, Any]:
        """The resource at that path. Raises ForeignAnswer for another one."""
        content = self.call("GET", path, version, params=params).content
        found = content.get("id")
        if not isinstance(found, str) or found.lower() != path.lower():
            raise ForeignAnswer(f"asked for {_short(path)}, answered with {str(found)[:200]}")
        return content

    def machines(self) -> list[VirtualMachine]:
        """Every virtual machine of the resource group, in every state, with its power state."""
        items = self.listed(f"{self.group}/providers/{MACHINES}", COMPUTE)
        powers = self._powers(items) if items else {}
        return [VirtualMachine.of(item, powers.get(_id_of(item))) for item in items]

    def machine(self, name: str) -> VirtualMachine | None:
        """The machine of that name; None only for Azure's own "no such resource"."""
        path, also = self.machine_path(name), {"$expand": "instanceView"}
        return unless_missing(lambda: VirtualMachine.of(self.get(path, COMPUTE, **also)))

    def listed(self, path: str, version: str, **params: str) -> list[Any]:
        """The resources at that path, over all pages.

        Raises IncompleteListing or ForeignAnswer for an answer that may lack some, that has
        one twice, or that has others (L2).
        """
        found: list[Any] = []
        seen: set[str] = set()
        home, _, wanted = path.lower().rpartition("/providers/")
        for page in self._pages(path, version, params):
            items = page.get("value")
            if not isinstance(items, list):
                raise IncompleteListing(f"{_short(path)}: the answer has no list of values")
            for item in items:
                # One without an id is for the reader to tell of.
                if (known := _id_of(item)) in seen:
                    raise IncompleteListing(f"{_short(path)}: {known} is listed twice")
                fits = known.startswith(f"{home}/") and f"/providers/{wanted}/" in known
                if known and not fits:
                    raise ForeignAnswer(f"{_short(path)}: lists {known[:200]}")
                seen |= {known} if known else set()
            found += items
        return found

    def operation(self, link: str) -> Mapping[str, Any]:
        """What Azure says of the operation at that link, which an answer gave."""
        answer = self._connection.request(self._followed(link, "an operation"))
        return judged(answer, "GET an operation").content

    def _pages(
        self, path: str, version: str, params: Mapping[str, str]
    ) -> Iterator[Mapping[str, Any]]:
        doing = f"GET {_short(path)}"

        def ask(link: str | None) -> Mapping[str, Any]:
            if link is None:
                return self.call("GET", path, version, params=params).content
            return judged(self._connection.request(self._followed(link, doing)), doing).content

        return transport.each_page(ask, lambda page: page.get("nextLink"), _short(path))

    def _followed(self, link: str, doing: str) -> str:
        """Path and query of a link, which must lead to this API: it gets our token."""
        url, here = urlsplit(link), self._access.endpoint
        port = url.port or (443 if url.scheme == "https" else 80)
        same = (url.hostname or "").lower() == here.host.strip("[]").lower() and port == here.port
        if not same or (url.scheme == "https") is not here.secure:
            raise ForeignAnswer(f"{doing}: the answer leads to {url.hostname}")
        path = url.path.removeprefix(here.path)
        return f"{path}?{url.query}" if url.query else path

    def _powers(self, machines: list[Any]) -> dict[str, str | None]:
        """The power state of each machine by its id, in one request for the subscription; one for
        each machine where the role has no right to that."""
        try:
            path = f"{self.subscription}/providers/{MACHINES}"
            powers = self.listed(path, COMPUTE, statusOnly="true")
        except Refusal as refusal:
            if refusal.status != 403:
                raise
            asked = (self.machine(str(one.get("name"))) for one in machines if _id_of(one))
            return {one.path: one.power for one in asked if one is not None}
        return {
            _id_of(one): power_in(one.get("properties")) for one in powers if isinstance(one, dict)
        }


def judged(answer: transport.Answer, doing: str, *, bare_list: bool = False) -> AzureAnswer:
    """The answer's JSON object; raises the matching error for any other answer."""
    fine = 200 <= answer.status < 300
    if fine and not answer.content and not doing.startswith("GET"):
        return AzureAnswer({}, answer.status, answer.headers)
    content = transport.json_of(answer, doing, Refusal, _refusal)
    if bare_list and isinstance(content, list):
        content = {"value": content}
    return AzureAnswer(transport.json_object(content, doing), answer.status, answer.headers)


def _refusal(content: Mapping[str, Any]) -> tuple[str, str]:
    said = content.get("error")
    if not isinstance(said, dict):
        return "", ""
    return str(said.get("code") or ""), str(said.get("message", ""))


def is_done(operation: Mapping[str, Any]) -> bool:
    """Whether an operation has ended. Raises Refusal where it failed."""
    status = operation.get("status")
    if status in ("Failed", "Canceled"):
        raise _failure(operation)
    return status == "Succeeded"


def _failure(operation: Mapping[str, Any]) -> Refusal:
    """Why an operation failed. Its status counts as a server's: only the code is definite."""
    error = operation.get("error")
    error = error if isinstance(error, dict) else {}
    message = str(error.get("message") or "the operation failed")
    return Refusal(str(error.get("code") or operation.get("status")), message, 500)


def _id_of(item: object) -> str:
    found = item.get("id") if isinstance(item, dict) else None
    return found.lower() if isinstance(found, str) else ""


def _short(path: str) -> str:
    """The end of a path, which says what it is."""
    return path.rpartition("/providers/")[2] or path
