"""A proxy before a libvirtd's socket: libvirt's calls go through it one by one, and meet fates.

A message begins with its length, and six numbers of which the fourth says whether it is a call
(libvirt's `virNetMessageHeader`).
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.live.proxy import INSTEAD, Fate, drip
from tests.waiting import DEADLINE_S

HEAD = struct.Struct(">IIIiI")
"""Length, program, version, procedure, type."""
CALL = 0


class RpcProxy:
    """Serves `path`, a Unix socket, with what answers at `upstream`."""

    def __init__(self, path: Path, upstream: Path) -> None:
        self._upstream = upstream
        self._fate: Callable[[str], Fate] = lambda _: Fate.CARRIED
        self._over = threading.Event()
        self._open: list[socket.socket] = []
        self._rename = (b"", b"")
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(path))
        self._listening.listen()
        self._accepting = threading.Thread(target=self._accept, name="rpc-proxy", daemon=True)
        self._accepting.start()

    def close(self) -> None:
        self._over.set()
        self._listening.shutdown(socket.SHUT_RDWR)
        self._accepting.join(DEADLINE_S)
        self._listening.close()

    @contextmanager
    def meeting(self, fate: Callable[[str], Fate]) -> Iterator[None]:
        """Each call meets what `fate` says of its procedure's number."""
        over, before = self._over, self._fate
        self._over, self._fate = threading.Event(), fate
        try:
            yield
        finally:
            self._fate = before
            self._over.set()
            self._over = over

    @contextmanager
    def elsewhere(self, name: bytes, another: bytes) -> Iterator[None]:
        """New connections seem to lead to another host, whose name is as long."""
        self._rename = (name, another)
        self._cut()
        try:
            yield
        finally:
            self._rename = (b"", b"")
            self._cut()

    def _cut(self) -> None:
        while self._open:
            with suppress(OSError):
                self._open.pop().shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(str(self._upstream))
            self._open.append(client)
            fates: list[Fate] = []
            for work in (self._calls, self._replies):
                threading.Thread(target=work, args=(client, server, fates), daemon=True).start()

    def _calls(self, client: socket.socket, server: socket.socket, fates: list[Fate]) -> None:
        with _ended(client, server):
            for procedure, kind, message in _messages(client):
                fate, over = Fate.CARRIED, self._over
                if kind == CALL:
                    fate = self._fate(str(procedure))
                if fate is Fate.HUNG:
                    over.wait()
                    return
                if fate in INSTEAD:
                    client.sendall(INSTEAD[fate])
                    return
                if fate is Fate.REQUEST_CUT:
                    server.sendall(message[: len(message) // 2])
                    return
                # Before the reply can come.
                fates.append(fate)
                server.sendall(message)

    def _replies(self, client: socket.socket, server: socket.socket, fates: list[Fate]) -> None:
        with _ended(client, server):
            for _, _, message in _messages(server):
                fate = fates.pop(0) if fates else Fate.CARRIED
                message = message.replace(*self._rename) if self._rename[0] else message
                if fate is Fate.REPLY_LOST:
                    return
                if fate is Fate.REPLY_CUT:
                    client.sendall(message[: len(message) // 2])
                    return
                if fate is Fate.DRIPPED:
                    drip(client, message, self._over)
                else:
                    client.sendall(message)


@contextmanager
def _ended(*both: socket.socket) -> Iterator[None]:
    """When one of the two goes away, so does the other."""
    try:
        with suppress(OSError, EOFError):
            yield
    finally:
        for one in both:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


def _messages(sender: socket.socket) -> Iterator[tuple[int, int, bytes]]:
    """Each message with the number of its procedure and its type."""
    while True:
        head = _read(sender, HEAD.size)
        length, _, _, procedure, kind = HEAD.unpack(head)
        yield procedure, kind, head + _read(sender, length - HEAD.size)


def _read(sender: socket.socket, count: int) -> bytes:
    got = b""
    while len(got) < count:
        more = sender.recv(count - len(got))
        if not more:
            raise EOFError
        got += more
    return got
