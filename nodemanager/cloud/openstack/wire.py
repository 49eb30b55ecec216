"""Requests to OpenStack's services through libcloud's connections, with checked answers.

libcloud 3.9 itself takes an answer without `servers` for an empty list, follows no pages of
flavors, and fails at one server that lacks a field. For a page after the first it asks as for the
first, but nova then leaves out, without a word, the servers of a cell that is down. So we use only
its connections (TLS, proxies, headers) and check the answers here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from nodemanager import errors
from nodemanager.cloud.libcloud_base import OneTry
from nodemanager.cloud.openstack.errors import Refusal, error_of
from nodemanager.cloud.openstack.node import Server
from nodemanager.cloud.openstack.options import UUID
from nodemanager.cloud.openstack.token import Keystone
from nodemanager.cloud.refusal import unless_missing
from nodemanager.cloud.transport import Answer, WholeAnswers
from nodemanager.lib import foreign

MICROVERSION = "2.69"
"""Nova's API of OpenStack Stein (2019): the first that tells of servers in a cell that is down."""
MOST_PAGES = 10_000
PAGE_SIZE = "1000"
"""A service gives fewer where its own limit is lower."""
_DONE = (200, 201, 202, 204)


class Connected(WholeAnswers):
    """Mix-in for libcloud's connection to one service: the token and endpoint are Keystone's."""

    retryCls = OneTry
    keystone: Keystone
    service: str

    def _populate_hosts_and_request_paths(self) -> None:
        token = self.keystone.token()
        self.auth_token = token.id
        # libcloud has no types.
        self._set_up_connection_info(url=token.endpoint(self.service))  # type: ignore[attr-defined]


class Wire:
    """One driver's connections, for one thread. `seen` are the servers that any thread listed."""

    def __init__(self, driver: Any, keystone: Keystone, seen: set[str]) -> None:
        self._connections: Mapping[str, Any] = {
            "compute": driver.connection,
            "network": driver.network_connection,
            "volume": driver.volumev3_connection,
            "image": driver.image_connection,
        }
        self._keystone = keystone
        self._seen = seen

    def has(self, service: str) -> bool:
        """Whether the catalog has that service in our region."""
        return service in self._keystone.token().endpoints

    def get(
        self, service: str, path: str, params: Mapping[str, str] | None = None
    ) -> Mapping[str, Any]:
        """The JSON object of the answer; raises Refusal for an error answer.

        Asked again once, with a new token, when the service refuses the token.
        """
        answer = self._sent(service, "GET", path, params)
        if answer.status == 401:
            answer = self._sent(service, "GET", path, params)
        return judged(answer, f"GET {path}")

    def post(self, service: str, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Sent once, whatever comes: a create must not be repeated."""
        return judged(self._sent(service, "POST", path, data=body), f"POST {path}")

    def delete(self, service: str, path: str) -> None:
        judged(self._sent(service, "DELETE", path), f"DELETE {path}")

    def servers(self) -> list[Any]:
        """Every server of the project, in every state, over all pages; None for what is none.

        The first page is asked for without any parameter, since only then does nova tell of the
        servers in a cell that is down: that makes the list incomplete. It has no room to tell of
        them on a page that is full. So beyond one page, each server that was listed before and is
        not listed now is asked for by its id, which nova answers truly.
        """
        listing = self._pages("compute", "/servers/detail", "servers", {})
        pages = [self._whole(page) for page in listing]
        servers = _each_once(pages)
        listed = {server.id for server in servers if server is not None and server.id}
        if len(pages) > 1:
            for node_id in self._seen - listed:
                if self.server(node_id) is not None:
                    raise errors.IncompleteListing(f"server {node_id} exists and is not listed")
        self._seen.intersection_update(listed)
        self._seen.update(listed)
        return servers

    def _whole(self, page: list[Any]) -> list[Server | None]:
        servers = [Server.of(item) for item in page]
        unread = [server.id for server in servers if server is not None and server.is_partial]
        if unread:
            raise errors.IncompleteListing(
                f"nova can't read {len(unread)} servers, such as {unread[0]}: a cell is down"
            )
        return servers

    def page(self, service: str, path: str, items: str, params: Mapping[str, str]) -> list[Any]:
        """One page of what is listed under the name `items`."""
        found = self.get(service, path, params).get(items)
        if not isinstance(found, list):
            raise errors.IncompleteListing(f"GET {path}: the answer has no list of {items}")
        return found

    def listing(self, service: str, path: str, items: str, **params: str) -> Iterator[Any]:
        """What is listed under the name `items`, over all pages; for all but nova's servers.

        Without a limit, neutron reads no marker.
        """
        for page in self._pages(service, path, items, {**params, "limit": PAGE_SIZE}):
            yield from page

    def _pages(
        self, service: str, path: str, items: str, params: Mapping[str, str]
    ) -> Iterator[list[Any]]:
        """The pages, up to the first that is empty.

        The links to the next page are not relied on: a service or a proxy that limits a page and
        leaves them out would seem to have told everything.

        A page that leads back is asked for once more: nova begins anew at the moment when the
        marker's server leaves its queue of boots.
        """
        asked, seen, again = dict(params), set[str](), set[str]()
        while True:
            try:
                page = self.page(service, path, items, asked)
            except Refusal as refusal:
                if seen and refusal.status in (400, 404):
                    # The marker was deleted meanwhile.
                    raise errors.IncompleteListing(f"GET {path}: {refusal}") from refusal
                raise
            if not page:
                return
            yield page
            marker = page[-1].get("id") if isinstance(page[-1], dict) else None
            if marker in seen and marker not in again:
                again.add(marker)
                continue
            if not isinstance(marker, str) or marker in seen or len(seen) >= MOST_PAGES:
                raise errors.IncompleteListing(
                    f"GET {path}: the pages don't go on after {marker!r}"
                )
            seen.add(marker)
            asked["marker"] = marker

    def server(self, node_id: str) -> Server | None:
        """The server of that id in any state; None only for nova's own "not found"."""
        found = unless_missing(lambda: self.get("compute", server_path(node_id)))
        if found is None:
            return None
        server = Server.of(found.get("server"))
        if server is None or server.id != node_id:
            raise errors.ForeignAnswer(f"asked for {node_id}, answered with another server or none")
        return server

    def networks(self, asked: str | tuple[str, ...]) -> str | tuple[str, ...]:
        """The networks' ids; each name among them is looked up. `auto` and `none` stay.

        Raises BadRequest where none or several have a name.
        """
        if isinstance(asked, str):
            return asked
        return tuple(
            one if UUID.fullmatch(one) else self._only("networks", one, self.networks_named(one))
            for one in asked
        )

    def networks_named(self, name: str) -> list[Any]:
        """The networks of that name, the project's own and those that it shares."""
        return self.page("network", "/networks", "networks", {"name": name})

    def server_group(self, asked: str | None) -> str | None:
        """The id of the server group, whose name is looked up; raises as `networks` does."""
        if asked is None or UUID.fullmatch(asked):
            return asked
        return self._only("server_group", asked, self.server_groups(asked))

    def server_groups(self, asked: str) -> list[Any]:
        """The project's server groups of that name or id.

        Nova gives this list no marker, and up to 1000 of them at once.
        """
        listed = self.page("compute", "/os-server-groups", "server_groups", {})
        return [one for one in listed if asked in (one.get("name"), one.get("id"))]

    @staticmethod
    def _only(option: str, name: str, found: list[Any]) -> str:
        if len(found) != 1:
            ids = ", ".join(str(one.get("id")) for one in found)
            raise errors.BadRequest(
                f"[Cloud Create] {option} = {name}: {len(found) or 'none'} of that name"
                + (f", so give one's id: {ids}" if ids else " is there")
            )
        return str(found[0]["id"])

    def _sent(
        self,
        service: str,
        method: str,
        path: str,
        params: Mapping[str, str] | None = None,
        data: Mapping[str, Any] | str = "",
    ) -> Answer:
        connection = self._connections[service]
        answer: Answer = connection.request(path, params=params, method=method, data=data)
        if answer.status == 401:
            self._keystone.refused(connection.auth_token)
        return answer


def _each_once(pages: list[list[Server | None]]) -> list[Server | None]:
    """The servers, each of them as the last page that has it tells it; twice on one page stays so.

    A page that begins anew (see Wire._pages) has servers of the one before.
    """
    last = {server.id: page for page in range(len(pages)) for server in pages[page] if server}
    return [
        server
        for page in range(len(pages))
        for server in pages[page]
        if server is None or server.id is None or last[server.id] == page
    ]


def server_path(node_id: str) -> str:
    """The path of a server. Raises MalformedId for what can't be a server's id."""
    if not UUID.fullmatch(node_id):
        raise errors.MalformedId(f"{node_id!r} is no id of a server: nova's are UUIDs")
    return f"/servers/{quote(node_id, safe='')}"


def judged(answer: Answer, doing: str) -> Mapping[str, Any]:
    """The JSON object of an answer, {} for one without a body; raises for any other."""
    if answer.status not in _DONE:
        # Glance answers 404 with a page of HTML.
        raise error_of(answer, doing, of_a_service=doing.startswith("GET /images"))
    if not answer.content and not doing.startswith("GET"):
        return {}
    try:
        body = foreign.loads(answer.content)
    except ValueError as error:
        raise errors.IncompleteListing(f"{doing}: no whole JSON ({error})") from error
    if not isinstance(body, dict):
        raise errors.ForeignAnswer(f"{doing}: the answer is a {type(body).__name__}")
    return body
