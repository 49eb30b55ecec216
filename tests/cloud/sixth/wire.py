"""Requests to DigitalOcean's API through libcloud's connection, with checked answers.

libcloud 3.9 itself takes the pages that it has for all where a later one has no droplets in it,
fails at one droplet that lacks a field, and reads a page as it stands while others end. So we use
only its connection (TLS, proxies, time-outs) and check the answers here.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from nodemanager.cloud.transport import (
    Answer,
    EndpointAnswers,
    each_page,
    json_object,
    json_told,
)
from nodemanager.errors import ForeignAnswer, IncompleteListing, MalformedId
from tests.cloud.sixth.droplet import Droplet
from tests.cloud.sixth.errors import Refusal

PAGE_SIZE = 200
"""The most that a list call takes as per_page."""
READINGS = 4


class DropletAnswer(Answer):
    """An answer that may name the time at which the hour's limit of requests is lifted."""

    @property
    def wait_asked_for(self) -> float | None:
        lifted = self.headers.get("ratelimit-reset", "")
        if self.status != 429 or "retry-after" in self.headers or not lifted.isdigit():
            return super().wait_asked_for
        return max(1.0, float(lifted) - time.time())


class DropletAnswers(EndpointAnswers):
    """Mix-in for libcloud's connection class: our endpoint and our token."""

    responseCls = DropletAnswer
    token: str

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        here: Any = self
        here.key = self.token


class Wire:
    """DigitalOcean's API on one connection, for one thread."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """The answer; raises Refusal for DigitalOcean's error codes, else CloudError. Sent once."""
        return judged(self._sent(method, path, params, body), f"{method} {path}")

    def done(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> None:
        """The same for what is answered with nothing but that it was done."""
        answer = self._sent(method, path, None, body)
        if answer.status != 204:
            judged(answer, f"{method} {path}")
            raise ForeignAnswer(f"{method} {path}: answered with HTTP {answer.status}")

    def _sent(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        body: Mapping[str, Any] | None,
    ) -> Answer:
        answer: Answer = self._connection.request(
            path,
            method=method,
            params=dict(params or {}),
            data="" if body is None else json.dumps(body),
        )
        return answer

    def one(self, path: str, name: str) -> dict[str, Any]:
        """What the answer has under that name."""
        return _in(self.call("GET", path), name)

    def droplets(self, tag: str) -> list[Droplet]:
        """Every droplet that has the tag, in every state, over all pages.

        A droplet that ends while we read shifts those behind it to an earlier page, and one may
        slip through. So more than one page is read until all that was read is there again: had a
        droplet slipped through, the one whose end let it would be missing now.
        """
        found = self._read(tag)
        for _ in range(READINGS):
            if len(found) == 1:
                # One answer is of one moment.
                return found[0]
            before, found = _ids(found), self._read(tag)
            if before <= _ids(found):
                return list({one.id or id(one): one for page in found for one in page}.values())
        raise IncompleteListing(f"droplets end faster than {READINGS} listings of them")

    def _read(self, tag: str) -> list[list[Droplet]]:
        return [
            [Droplet.of(item) for item in page] for page in self.pages("droplets", tag_name=tag)
        ]

    def pages(self, name: str, **params: str) -> list[list[Any]]:
        """The pages of what is listed under that name. The listing is incomplete where they have
        fewer than the last of them says that there are."""
        doing = f"GET /v2/{name}"
        found: list[list[Any]] = []

        def ask(_link: str | None) -> dict[str, Any]:
            told = self.call("GET", f"/v2/{name}", params={**params, "page": str(len(found) + 1)})
            items, total = told.get(name), _in(told, "meta").get("total")
            if not isinstance(items, list) or not isinstance(total, int):
                raise IncompleteListing(f"{doing}: the answer has no list of {name}, or no total")
            found.append(items)
            return told

        *_, last = each_page(ask, _next_in, doing)
        if sum(map(len, found)) < last["meta"]["total"]:
            raise IncompleteListing(f"{doing}: more were promised than came")
        return found

    def droplet(self, node_id: str) -> Droplet | None:
        """The droplet of that id in any state; None only for DigitalOcean's own "not found"."""
        path = droplet_path(node_id)
        try:
            found = Droplet.of(self.one(path, "droplet"))
        except Refusal as refusal:
            if refusal.is_not_found:
                return None
            raise
        if found.id != node_id:
            raise ForeignAnswer(f"asked for {node_id}, answered with {found.id or 'no id'}")
        return found


def _ids(pages: list[list[Droplet]]) -> set[str]:
    return {one.id for page in pages for one in page}


def droplet_path(node_id: str) -> str:
    """The path of a droplet. Raises MalformedId for what can't be a droplet's id."""
    if not (node_id.isascii() and node_id.isdigit()) or len(node_id) > 20:
        raise MalformedId(f"{node_id[:80]!r} is no droplet's id, which is a number")
    return f"/v2/droplets/{node_id}"


def _next_in(told: Mapping[str, Any]) -> object:
    pages = _in(told, "links").get("pages")
    return pages.get("next") if isinstance(pages, dict) else None


def _in(told: Mapping[str, Any], name: str) -> dict[str, Any]:
    return json_object(told.get(name), f"the answer's {name}")


def judged(answer: Answer, doing: str) -> dict[str, Any]:
    """The answer's JSON object; raises the matching error for any other answer."""
    return json_object(json_told(answer, doing, Refusal, _refusal), doing)


def _refusal(told: Mapping[str, Any]) -> tuple[str, str]:
    """Code and message of an error answer."""
    return str(told.get("id") or ""), str(told.get("message", ""))
