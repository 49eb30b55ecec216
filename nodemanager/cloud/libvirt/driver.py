"""libcloud's libvirt driver with time limits, a new connection for a lost one, and whole listings.

libcloud's own listing names nodes by a number that stopped domains don't have, calls a paused
domain terminated, and runs `arp` for each domain.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar
from xml.etree import ElementTree

from libcloud.compute.drivers.libvirt_driver import LibvirtNodeDriver

from nodemanager.cloud.libvirt.domain import URI, Domain, state_name
from nodemanager.cloud.libvirt.errors import NO_DOMAIN, code_of
from nodemanager.errors import Unauthorized
from nodemanager.lib.workers import Workers

T = TypeVar("T")

MOST_CALLS = 16
CLOSING_S = 1.0
PIECE = 65_536
RUNNING = 1


class TimeLimit:
    """Runs libvirt's calls in threads of their own, since libvirt has no time-outs.

    A call that does not return in time is given up, and its result is not used. Such calls can
    occupy at most MOST_CALLS threads; more calls than that are never sent.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._workers = Workers("libvirt", MOST_CALLS)

    def __call__(self, function: Callable[..., T], *args: Any) -> T:
        return self._within(self.seconds, function, *args)

    def briefly(self, function: Callable[..., object]) -> None:
        """Run what may fail, and for no longer than a program that ends may wait."""
        with suppress(Exception):
            self._within(min(self.seconds, CLOSING_S), function)

    def _within(self, seconds: float, function: Callable[..., T], *args: Any) -> T:
        future = self._workers.submit(function, *args)
        try:
            return future.result(seconds)
        except TimeoutError:
            future.cancel()
            raise TimeoutError(f"no answer within {seconds:g} s") from None


# libcloud has no types, and its classes are Any to the checker.
class Hypervisor(LibvirtNodeDriver):  # type: ignore[misc]
    """One connection for all threads, opened by the first call. `within` runs each of libvirt's.

    Python must never delete a connection that is open: that waits for a libvirtd that hangs.
    """

    def __init__(self, uri: str, key: str | None, secret: str | None, within: TimeLimit) -> None:
        self._given = (uri, key, secret)
        self.within = within
        self.connection: Any = None
        self._known: str | None = None
        self._leads_to: str | None = None
        self._opening = threading.Lock()

    def ex_live(self) -> Any:
        """The connection, opened anew if the old one was lost.

        Raises Unauthorized where it leads to another hypervisor than `ex_account` told last (L5).
        """
        with self._alone():
            self._open()
            if self._known not in (None, self._leads_to):
                raise Unauthorized(
                    f"the connection leads to {self._leads_to}, not to {self._known}, which the "
                    "account was told for (L5); with the next poll it is asked for again"
                )
            return self.connection

    def ex_account(self) -> str:
        """The hypervisor's kind and path, its host's name, and its host's UUID where it tells."""
        with self._alone():
            self._open()
            # The host may have got another name meanwhile.
            self._known = self._leads_to = self._account()
            return self._known

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._opening.acquire(timeout=self.within.seconds):
            raise TimeoutError("the connection is still being opened")
        try:
            yield
        finally:
            self._opening.release()

    def _open(self) -> None:
        if self.connection is None or not self.connection.isAlive():
            self._leads_to = None
            self.within(super().__init__, *self._given)
        if self._leads_to is None:
            self._leads_to = self._account()

    def _account(self) -> str:
        connection = self.connection
        uri, host = self.within(connection.getURI), self.within(connection.getHostname)
        kind = self.within(connection.getType).lower()
        # libvirt's own XML.
        root = ElementTree.fromstring(self.within(connection.getCapabilities))  # noqa: S314
        path = uri.partition("://")[2].partition("?")[0].partition("/")[2]
        return " ".join(filter(None, (f"{kind}://{host}/{path}", root.findtext("host/uuid"))))

    def ex_close(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            self.within.briefly(connection.close)

    def list_nodes(self) -> list[Domain]:
        """Every domain in every state.

        A domain that ends while the others are read is left out: it exists no more. Any other
        failure ends the listing.
        """
        domains = self.within(self.ex_live().listAllDomains)
        read = (self._read(domain) for domain in domains)
        return [domain for domain in read if domain is not None]

    def ex_domain(self, node_id: str) -> Any | None:
        """libvirt's object for the domain; None only for libvirt's own "no domain"."""
        try:
            return self.within(self.ex_live().lookupByUUIDString, node_id)
        except Exception as error:
            if code_of(error) != NO_DOMAIN:
                raise
            return None

    def ex_node(self, node_id: str) -> Domain | None:
        found = self.ex_domain(node_id)
        return None if found is None else self._read(found)

    def ex_volume_xml(self, volume: Any) -> str:
        """A volume as it is now, with the times of its file."""
        return str(self.within(volume.XMLDesc))

    def ex_upload(self, volume: Any, content: bytes) -> None:
        stream = self.connection.newStream()
        try:
            volume.upload(stream, 0, len(content))
            sent = 0
            while sent < len(content):
                sent += stream.send(content[sent : sent + PIECE])
            stream.finish()
        except BaseException:
            with suppress(Exception):
                stream.abort()
            raise

    def _read(self, domain: Any) -> Domain | None:
        try:
            return self.within(_read, domain)
        except Exception as error:
            if code_of(error) != NO_DOMAIN:
                raise
            return None


def _read(domain: Any) -> Domain:
    state, reason = domain.state()
    xml = domain.XMLDesc()
    addresses: tuple[str, ...] = ()
    if URI in xml and state == RUNNING:
        # Only for people to read, and not every hypervisor can tell.
        with suppress(Exception):
            found = domain.interfaceAddresses(0).values()
            addresses = tuple(one["addr"] for each in found for one in each["addrs"] or ())
    return Domain(domain.UUIDString(), domain.name(), state_name(state, reason), xml, addresses)
