"""Requests to an EC2-like API through libcloud's signed connection, with checked answers.

libcloud 3.9 itself reads a foreign XML namespace or another service's answer as an empty list.
It never follows `nextToken`, sends user data (and so the ping secret) in the URL, and decides an
error by its HTTP status. So we use only its connection (signing, TLS, proxies) and check the
answers here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from nodemanager.cloud.ec2.access import Keys
from nodemanager.cloud.ec2.errors import Refusal
from nodemanager.cloud.refusal import unless_missing
from nodemanager.cloud.transport import Answer, each_page, without_code
from nodemanager.errors import ForeignAnswer


def tags_in(item: Element, namespace: str) -> dict[str, str]:
    """All tags of an item of an EC2 answer; raises ValueError for a tag without a key."""
    tags: dict[str, str] = {}
    for tag in item.iterfind(f"{{{namespace}}}tagSet/{{{namespace}}}item"):
        key = tag.findtext(f"{{{namespace}}}key")
        if not key:
            raise ValueError("a tag without a key")
        tags[key] = tag.findtext(f"{{{namespace}}}value") or ""
    return tags


@dataclass(frozen=True)
class Instance:
    """One `item` of an instancesSet; reading a malformed field raises ValueError (P3).

    `id` is empty where the answer has none.
    """

    item: Element
    namespace: str
    id: str

    @classmethod
    def of(cls, item: Element, namespace: str) -> Instance:
        found = item.findtext(f"{{{namespace}}}instanceId") or ""
        return cls(item, namespace, found.strip())

    def text(self, *path: str) -> str | None:
        """The text under `path`; None where the answer has none."""
        found = self.item.findtext("/".join(f"{{{self.namespace}}}{step}" for step in path))
        return found.strip() or None if found is not None else None

    @property
    def name(self) -> str:
        """The Name tag, as EC2's own console shows it, else the id."""
        try:
            return self.tags.get("Name") or self.id
        except ValueError:
            return self.id

    @property
    def state(self) -> str:
        """EC2's state name: pending, running, shutting-down, terminated, stopping or stopped."""
        state = self.text("instanceState", "name")
        if state is None:
            raise ValueError("no instanceState")
        return state

    @property
    def why(self) -> str:
        """EC2's code and message of its last change of state; empty where EC2 tells none."""
        code, message = self.text("stateReason", "code"), self.text("stateReason", "message")
        if code is None or message is None or message.startswith(code):
            return message or code or ""
        return f"{code}: {message}"

    @property
    def terminating_state(self) -> str | None:
        """The state in an answer of TerminateInstances."""
        return self.text("currentState", "name")

    @property
    def tags(self) -> dict[str, str]:
        return tags_in(self.item, self.namespace)

    @property
    def launch_time(self) -> datetime | None:
        text = self.text("launchTime")
        return None if text is None else datetime.fromisoformat(text)

    @property
    def size(self) -> str | None:
        return self.text("instanceType")

    @property
    def image(self) -> str | None:
        return self.text("imageId")

    @property
    def addresses(self) -> tuple[str, ...]:
        found = (self.text("privateIpAddress"), self.text("ipAddress"))
        return tuple(address for address in found if address)

    @property
    def places(self) -> tuple[str, ...]:
        """Its availability zone and its subnet; a terminated one has no subnet any more."""
        found = (self.text("placement", "availabilityZone"), self.text("subnetId"))
        return tuple(place for place in found if place)


PAGE_SIZE = 1000
"""The most that DescribeInstances takes as MaxResults."""

FORM = "application/x-www-form-urlencoded; charset=utf-8"


class Wire:
    """An API on one connection, for one thread.

    `namespace` is the XML namespace of its answers, which ends with the API's version.
    """

    def __init__(
        self, connection: Any, keys: Keys, namespace: str, page_size: int = PAGE_SIZE
    ) -> None:
        connection.user_id, connection.key, connection.token = keys.key, keys.secret, keys.token
        connection.signer.access_key = keys.key
        connection.signer.access_secret = keys.secret
        self._connection = connection
        self._version = namespace.split("/")[-2]
        self._page_size = page_size
        self.namespace = namespace

    def call(self, action: str, params: Mapping[str, str]) -> Element:
        """The root of the answer; raises Refusal for EC2's error codes, else CloudError.

        The request is sent once, as a form: user data is too long for a URL and must not appear
        in proxies' logs.
        """
        body = urlencode({"Action": action, "Version": self._version, **params})
        answer = self._connection.request(
            "/", method="POST", data=body, headers={"Content-Type": FORM}, retry_failed=False
        )
        return judged(answer, action, self.namespace)

    def instances(self, params: Mapping[str, str], *, paged: bool = True) -> list[Instance]:
        """Every instance that DescribeInstances gives for `params`, over all pages."""
        return [
            Instance.of(item, self.namespace)
            for reservation in self.listing(
                "DescribeInstances", "reservationSet", params, paged=paged
            )
            for item in self._items(reservation, "instancesSet")
        ]

    def instance(self, node_id: str) -> Instance | None:
        """The instance of that id in any state; None only for EC2's own "not found"."""
        found = unless_missing(lambda: self.instances({"InstanceId.1": node_id}, paged=False))
        if found is None:
            return None
        if [instance.id for instance in found] != [node_id]:
            raise ForeignAnswer(f"asked for {node_id}, answered with {len(found)} other nodes")
        return found[0]

    def listing(
        self, action: str, name: str, params: Mapping[str, str], *, paged: bool = True
    ) -> Iterator[Element]:
        """The items under `name` in a Describe call's answers, over all pages.

        Without `paged` it leaves MaxResults out, which EC2 refuses beside ids.
        """
        limit = {"MaxResults": str(self._page_size)} if paged else {}

        def ask(token: str | None) -> Element:
            more = {} if token is None else {"NextToken": token}
            return self.call(action, {**params, **limit, **more})

        token = f"{{{self.namespace}}}nextToken"
        for root in each_page(ask, lambda root: root.findtext(token), action):
            yield from self._items(root, name)

    def items(self, root: Element, name: str) -> list[Instance]:
        """The instances under `name`; raises ForeignAnswer where the answer has no `name`."""
        return [Instance.of(item, self.namespace) for item in self._items(root, name)]

    def _items(self, parent: Element, name: str) -> Iterator[Element]:
        """The items of a set; an empty set is fine, a missing one raises ForeignAnswer."""
        found = parent.find(f"{{{self.namespace}}}{name}")
        if found is None:
            raise ForeignAnswer(f"the answer has no {name}: not an EC2 answer, or not a whole one")
        for child in found:
            if child.tag != f"{{{self.namespace}}}item":
                raise ForeignAnswer(f"the answer's {name} holds {_local(child)}, not items")
            yield child


def judged(answer: Answer, action: str, namespace: str) -> Element:
    """The root of the answer to `action`; raises the matching error for any other answer."""
    try:
        # Parsed from bytes: where the header names no charset, requests would take UTF-8 for
        # Latin-1. The standard parser fetches nothing, and expat limits entity expansion.
        root: Element = ElementTree.fromstring(answer.content)  # noqa: S314
    except ElementTree.ParseError as error:
        raise without_code(answer, action, f"no whole XML ({error})") from error
    code, message = _refusal(root)
    if code:
        raise Refusal(code, message, answer.status, answer.wait_asked_for)
    if answer.status != 200:
        raise without_code(answer, action, f"a {_local(root)} without an error code")
    if root.tag != f"{{{namespace}}}{action}Response":
        raise ForeignAnswer(f"{action}: answered by {root.tag[:120]}, not {namespace}")
    return root


def _refusal(root: Element) -> tuple[str, str]:
    """Code and message of an error answer; EC2 and STS wrap it differently."""
    if _local(root) not in ("Response", "ErrorResponse"):
        return "", ""
    for element in root.iter():
        if _local(element) == "Error":
            said = {_local(child): (child.text or "").strip() for child in element}
            return said.get("Code", ""), said.get("Message", "")
    return "", ""


def _local(element: Element) -> str:
    return str(element.tag).rpartition("}")[2]
