"""A proxy before a libvirtd's socket: libvirt's calls go through it one by one, and meet fates.

A message begins with its length, and six numbers of which the fourth says whether it is a call
(libvirt's `virNetMessageHeader`).
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.live.proxy import INSTEAD, Fate, Fates, Listener, drip

HEAD = struct.Struct(">IIIiI")
"""Length, program, version, procedure, type."""
CALL = 0


class RpcProxy:
    """Serves `path`, a Unix socket, with what answers at `upstream`."""

    def __init__(self, path: Path, upstream: Path) -> None:
        self._upstream = upstream
        self._fates = Fates()
        self.meeting = self._fates.meeting
        """Each call meets what is said of its procedure's number."""
        self._open: list[socket.socket] = []
        self._rename = (b"", b"")
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(path))
        listening.listen()
        self._listener = Listener(listening, self._serve)

    def close(self) -> None:
        self._fates.over.set()
        self._listener.close()

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

    def _serve(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        server.connect(str(self._upstream))
        self._open.append(client)
        fates: list[Fate] = []
        threading.Thread(target=self._replies, args=(client, server, fates), daemon=True).start()
        self._calls(client, server, fates)

    def _calls(self, client: socket.socket, server: socket.socket, fates: list[Fate]) -> None:
        with _ended(client, server):
            for procedure, kind, message in _messages(client):
                fate, over = Fate.CARRIED, self._fates.over
                if kind == CALL:
                    fate = self._fates.of(str(procedure))
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
                    drip(client, message, self._fates.over)
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
