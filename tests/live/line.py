"""A line to a server's Unix socket that can be cut, or fall silent, for one client alone."""

from __future__ import annotations

import selectors
import socket
import threading
from contextlib import suppress
from pathlib import Path

CHUNK = 65536
LOOK_EVERY_S = 0.05


class Line:
    """Listens in `folder` on the name of the socket `server`, and passes all on to it."""

    def __init__(self, server: Path, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self._server, self._own = server, folder / server.name
        self._state = threading.Condition()
        self._is_open, self._is_silent, self._is_over = True, False, False
        self._listener: socket.socket | None = None
        self._ends: dict[socket.socket, socket.socket] = {}
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        with self._state:
            self._state.wait_for(lambda: self._listener is not None)

    def cut(self) -> None:
        """Every connection ends, and a new one is refused."""
        self._become(is_open=False)

    def silence(self) -> None:
        """Nothing passes any more, and no connection ends."""
        self._become(is_silent=True)

    def mend(self) -> None:
        self._become()

    def close(self) -> None:
        self._is_over = True
        self._thread.join()

    def _become(self, *, is_open: bool = True, is_silent: bool = False) -> None:
        with self._state:
            self._is_open, self._is_silent = is_open, is_silent
            self._state.wait_for(lambda: (self._listener is not None) == is_open)

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            while not self._is_over:
                self._open_or_cut(selector)
                if self._is_silent:
                    threading.Event().wait(LOOK_EVERY_S)
                    continue
                for key, _ in selector.select(LOOK_EVERY_S):
                    one = key.fileobj
                    assert isinstance(one, socket.socket)
                    if one is self._listener:
                        self._connect(selector, one)
                    elif one in self._ends:
                        self._pass_on(selector, one)
            self._is_open = False
            self._open_or_cut(selector)

    def _open_or_cut(self, selector: selectors.BaseSelector) -> None:
        with self._state:
            if self._is_open and self._listener is None:
                self._listener = socket.socket(socket.AF_UNIX)
                self._listener.bind(str(self._own))
                self._listener.listen()
                selector.register(self._listener, selectors.EVENT_READ)
            elif not self._is_open and self._listener is not None:
                selector.unregister(self._listener)
                self._listener.close()
                self._own.unlink()
                self._listener = None
                for one in list(self._ends):
                    self._end(selector, one)
            self._state.notify_all()

    def _connect(self, selector: selectors.BaseSelector, listener: socket.socket) -> None:
        client, _ = listener.accept()
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(str(self._server))
        except OSError:
            client.close()
            server.close()
            return
        self._ends[client], self._ends[server] = server, client
        for one in (client, server):
            selector.register(one, selectors.EVENT_READ)

    def _pass_on(self, selector: selectors.BaseSelector, one: socket.socket) -> None:
        try:
            heard = one.recv(CHUNK)
            if heard:
                self._ends[one].sendall(heard)
                return
        except OSError:
            pass
        self._end(selector, one)

    def _end(self, selector: selectors.BaseSelector, one: socket.socket) -> None:
        other = self._ends.pop(one, None)
        if other is None:
            return
        self._ends.pop(other, None)
        for end in (one, other):
            with suppress(KeyError, ValueError):
                selector.unregister(end)
            end.close()
