"""The live tests' proxy: what it leaves behind befalls other tests of the same process."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

import pytest

from tests.live.proxy import Proxy

pytestmark = pytest.mark.socket


def test_a_closed_proxy_listens_no_more() -> None:
    """A thread that was left in its accept later took a connection of the tests' EC2 server."""
    proxy = Proxy("http://127.0.0.1:9", lambda _: "?")
    where = ("127.0.0.1", urlsplit(proxy.url).port)
    with socket.create_connection(where, timeout=10) as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert client.recv(1) == b"", "nobody is behind it"
    proxy.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(where, timeout=10).close()
