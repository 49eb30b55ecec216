"""The HTTP server under the registry and the management server, over real sockets."""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import pytest
import requests

from nodemanager.core.model.reasons import Reason
from nodemanager.errors import StartError
from nodemanager.httpserver import connections
from nodemanager.httpserver import server as httpserver
from nodemanager.httpserver.connections import ServerLimits, peer_of
from nodemanager.httpserver.server import STOP_S, HttpServer
from nodemanager.lib.workers import Workers
from tests.cases import cases
from tests.waiting import until

pytestmark = pytest.mark.socket


async def answer(send: Any, body: bytes) -> None:
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def hello(scope: Any, receive: Any, send: Any) -> None:
    await answer(send, scope["scheme"].encode())


async def echo(scope: Any, receive: Any, send: Any) -> None:
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message["body"], message["more_body"]
    await answer(send, body)


async def failing(scope: Any, receive: Any, send: Any) -> None:
    raise RuntimeError(f"at /ping?{scope['query_string'].decode()}")


def serve(app: Any = hello, port: int = 0, **options: Any) -> HttpServer:
    options = {"option": "[Manage] port", "name": "test"} | options
    return HttpServer(app, options.pop("address", "127.0.0.1"), port, **options)


@pytest.fixture
def secure(certificate: tuple[str, str]) -> Iterator[HttpServer]:
    server = serve(tls_cert=certificate[0], tls_key=certificate[1])
    server.start()
    yield server
    server.stop()


def test_an_answers_date_is_of_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store's clock is measured by it, so it must not be older than the question."""
    monkeypatch.setattr(httpserver, "_TICK_S", 10.0)
    server = serve()
    server.start()
    try:
        # Into the next second, in which the loop has no other work than to answer.
        time.sleep(1.01 - time.time() % 1)
        before = int(time.time())
        told = requests.get(server.url, timeout=5).headers["Date"]
        refused = requests.get(server.url, headers={"x": "x" * 100_000}, timeout=5).headers["Date"]
    finally:
        server.stop()
    assert before <= parsedate_to_datetime(told).timestamp() <= time.time()
    assert before <= parsedate_to_datetime(refused).timestamp() <= time.time()


def test_it_answers_on_a_free_port_and_no_more_once_stopped() -> None:
    server = serve()
    server.start()
    try:
        assert requests.get(server.url, timeout=5).text == "http"
    finally:
        server.stop()
    with pytest.raises(requests.ConnectionError):
        requests.get(server.url, timeout=5)
    server.stop()


def test_a_taken_port_is_refused_with_its_number_and_its_option() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(StartError) as refused:
            serve(port=port).start()
    assert f"127.0.0.1 port {port}" in str(refused.value)
    assert "[Manage] port" in str(refused.value)


def test_an_address_that_is_not_this_machines_is_refused() -> None:
    with pytest.raises(StartError) as refused:
        serve(address="192.0.2.1").start()
    assert "192.0.2.1" in str(refused.value)


def test_a_handler_that_hangs_delays_the_stop_by_two_seconds_at_most() -> None:
    entered, release, workers = threading.Event(), threading.Event(), Workers("test", 1)

    async def hanging(scope: Any, receive: Any, send: Any) -> None:
        entered.set()
        await workers.run(release.wait, 30)
        await hello(scope, receive, send)

    server = serve(hanging)
    server.start()
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert entered.wait(5)
        begun = time.monotonic()
        server.stop()
        took = time.monotonic() - begun
    release.set()
    assert took < STOP_S + 3


def test_a_request_under_way_is_answered_before_the_stop() -> None:
    entered, release, workers = threading.Event(), threading.Event(), Workers("test", 1)

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        entered.set()
        await workers.run(release.wait, 30)
        await hello(scope, receive, send)

    server = serve(slow)
    server.start()
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert entered.wait(5)
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        release.set()
        answer = client.makefile("rb").read()
        stopping.join(5)
    assert answer.startswith(b"HTTP/1.1 200 OK")


def test_it_speaks_tls_and_says_so_to_the_application(
    secure: HttpServer, certificate: tuple[str, str]
) -> None:
    assert secure.url.startswith("https://")
    assert requests.get(secure.url, verify=certificate[0], timeout=5).text == "https"


def test_silent_and_plain_clients_do_not_hold_up_a_tls_client(
    secure: HttpServer, certificate: tuple[str, str]
) -> None:
    with (
        socket.create_connection(("127.0.0.1", secure.port)),
        socket.create_connection(("127.0.0.1", secure.port)) as plain,
    ):
        plain.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert requests.get(secure.url, verify=certificate[0], timeout=5).text == "https"


def test_old_tls_is_refused(secure: HttpServer) -> None:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    with pytest.deprecated_call():
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    with (
        socket.create_connection(("127.0.0.1", secure.port)) as client,
        pytest.raises(OSError),
        context.wrap_socket(client),
    ):
        pass


def test_connections_opened_to_spare_keep_nobody_out() -> None:
    server = serve()
    server.start()
    spare = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(5)]
    try:
        assert requests.get(server.url, timeout=5).text == "http"
        spare[0].sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert spare[0].makefile("rb").readline() == b"HTTP/1.1 200 OK\r\n"
    finally:
        for connection in spare:
            connection.close()
        server.stop()


def test_requests_on_one_connection_are_all_answered() -> None:
    server = serve()
    server.start()
    try:
        with requests.Session() as session:
            assert [session.get(server.url, timeout=5).text for _ in range(50)] == ["http"] * 50
    finally:
        server.stop()


def test_an_answer_leaves_as_a_whole() -> None:
    """Not its header first: each call of the system costs more than the parsing of a request."""
    server = serve()
    server.start()
    try:
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            for _ in range(50):
                client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                assert client.recv(65536).endswith(b"\r\n\r\nhttp")
    finally:
        server.stop()


def test_who_waits_for_a_100_gets_it_and_a_large_answer_comes_whole() -> None:
    server = serve(echo)
    server.start()
    body = b"x" * 100_000
    header = f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
    header += "Expect: 100-continue\r\n\r\n"
    try:
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as client:
            client.sendall(header.encode())
            assert client.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
            client.sendall(body)
            got = b""
            while not got.endswith(b"\r\n\r\n" + body):
                came = client.recv(65536)
                assert came
                got += came
    finally:
        server.stop()


@pytest.mark.parametrize("given", ["cert", "key", "swapped"])
def test_a_bad_certificate_is_refused_with_its_option(
    given: str, certificate: tuple[str, str], tmp_path: Path
) -> None:
    cert, key = certificate
    files = {"cert": (str(tmp_path / "none"), key), "key": (cert, None), "swapped": (key, cert)}
    with pytest.raises(StartError) as refused:
        serve(tls_cert=files[given][0], tls_key=files[given][1])
    assert "tls_" in str(refused.value)


def test_neither_the_log_nor_the_answer_holds_a_query_string(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    server = serve(failing)
    server.start()
    try:
        answer = requests.get(f"{server.url}/ping?ping_secret=hunter2", timeout=5)
    finally:
        server.stop()
    assert answer.status_code == 500
    assert "hunter2" not in answer.text
    said = [record.getMessage() for record in caplog.records if "nodemanager" in record.name]
    assert said
    assert not [line for line in said if "hunter2" in line]


def test_the_server_header_names_no_version() -> None:
    server = serve()
    server.start()
    try:
        assert requests.get(server.url, timeout=5).headers["Server"] == "test"
    finally:
        server.stop()


CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
FEW = ServerLimits(connections=8, per_peer=4, request_s=0.6, answer_s=0.8)


@pytest.fixture
def few() -> Iterator[HttpServer]:
    server = serve(echo, limits=FEW)
    server.start()
    yield server
    server.stop()


def connect(server: HttpServer, source: str = "127.0.0.1") -> socket.socket:
    address = ("127.0.0.1", server.port)
    return socket.create_connection(address, timeout=5, source_address=(source, 0))


def ended(client: socket.socket) -> bool:
    """Whether the server closed it, now or within the time-out."""
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True


def test_a_peer_with_too_many_connections_loses_the_one_that_waited_longest(
    few: HttpServer,
) -> None:
    """X1: a newcomer is always heard, and another peer's connections stay."""
    other = connect(few, "127.0.0.2")
    opened = [connect(few) for _ in range(FEW.per_peer + 2)]
    assert ended(opened[0])
    assert ended(opened[1])
    for client in (other, opened[-1]):
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert client.makefile("rb").readline() == b"HTTP/1.1 200 OK\r\n"
    assert few.refusals.counts()[Reason.TOO_MANY_CONNECTIONS] == 2
    for client in (other, *opened):
        client.close()


def test_there_are_never_more_connections_than_the_limit(few: HttpServer) -> None:
    opened = [connect(few, f"127.0.0.{peer}") for peer in range(2, 14)]
    assert all(ended(client) for client in opened[:4])
    opened[-1].sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert opened[-1].makefile("rb").readline() == b"HTTP/1.1 200 OK\r\n"
    for client in opened:
        client.close()


@cases(
    "begin",
    {
        "silent": b"",
        "header": b"GET / HTTP/1.1\r\nX: ",
        "body": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 999\r\n\r\n",
        "chunk": CHUNKED + b"FFFFFFFFFF\r\na",
    },
)
def test_a_request_has_so_much_time_however_it_drips(few: HttpServer, begin: bytes) -> None:
    """X2."""
    begun = time.monotonic()
    with connect(few) as client:
        client.sendall(begin)
        client.settimeout(0.1)
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - begun < 10:
                if begin:
                    client.sendall(b"a")
                with contextlib.suppress(TimeoutError):
                    if client.recv(1) == b"":
                        break
    assert 0.5 < time.monotonic() - begun < 5
    assert few.refusals.counts()[Reason.TOO_SLOW] == 1


def test_an_answer_that_nobody_takes_is_given_up() -> None:
    async def long(scope: Any, receive: Any, send: Any) -> None:
        await answer(send, b"x" * 50_000_000)

    server = serve(long, limits=FEW)
    server.start()
    with connect(server) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        until("the refusal", lambda: server.refusals.counts()[Reason.TOO_SLOW])
    server.stop()


def test_a_client_that_works_is_not_ended_by_the_deadline(few: HttpServer) -> None:
    with requests.Session() as session:
        begun = time.monotonic()
        while time.monotonic() - begun < 2 * FEW.request_s:
            assert session.post(few.url, data=b"told", timeout=5).content == b"told"
    assert few.refusals.counts()[Reason.TOO_SLOW] == 0


def test_half_a_request_never_reaches_the_application() -> None:
    """What comes of a form that was cut off could still be a form."""
    heard: list[bytes] = []

    async def noting(scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        heard.append(body)
        await answer(send, b"")

    server = serve(noting)
    server.start()
    with connect(server) as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\nping_secret=x")
    with connect(server) as client:
        client.sendall(CHUNKED + b"1\r\na\r\n")
    assert requests.post(server.url, data=b"whole", timeout=5).ok
    server.stop()
    assert heard == [b"whole"]


@cases(
    ("sent", "status", "reason"),
    {
        "no-http": (b"\x16\x03\x01\r\n\r\n", b"400", Reason.NOT_HTTP),
        "bad-chunk": (CHUNKED + b"ZZ\r\n\r\n", b"400", Reason.NOT_HTTP),
        "negative-chunk": (CHUNKED + b"-5\r\nabc\r\n", b"400", Reason.NOT_HTTP),
        "chunk-beyond-numbers": (CHUNKED + b"" + b"F" * 20 + b"\r\n", b"400", Reason.NOT_HTTP),
        "endless-header": (b"GET / HTTP/1.1\r\nX: " + b"y" * 400_000, b"431", Reason.TOO_LARGE),
        "many-headers": (
            b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
            b"431",
            Reason.TOO_LARGE,
        ),
        "two-lengths": (
            CHUNKED.replace(b"Host: x", b"Host: x\r\nContent-Length: 6") + b"0\r\n\r\n",
            b"400",
            Reason.NOT_HTTP,
        ),
        "no-version": (b"GET /\r\nHost: x\r\n\r\n", b"505", Reason.NOT_HTTP),
        "0.9": (b"GET / HTTP/0.9\r\nHost: x\r\n\r\n", b"505", Reason.NOT_HTTP),
        "2.0": (b"GET / HTTP/2.0\r\nHost: x\r\n\r\n", b"505", Reason.NOT_HTTP),
        "no-host": (b"GET / HTTP/1.1\r\n\r\n", b"400", Reason.NOT_HTTP),
        "no-port": (b"GET / HTTP/1.1\r\nHost: x:abc\r\n\r\n", b"400", Reason.NOT_HTTP),
        "long-url": (
            b"GET /?" + b"%41" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
            b"414",
            Reason.TOO_LARGE,
        ),
        "a-body-that-was-only-declared": (
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n",
            b"413",
            Reason.TOO_LARGE,
        ),
    },
)
def test_what_is_no_request_is_refused_without_a_line_for_each(
    few: HttpServer, caplog: pytest.LogCaptureFixture, sent: bytes, status: bytes, reason: Reason
) -> None:
    """X10: no traceback, and the log does not grow with it."""
    caplog.set_level(logging.INFO)
    for _ in range(10):
        with connect(few) as client, contextlib.suppress(ConnectionError):
            client.sendall(sent)
            assert client.recv(65536).split(b" ")[1] == status
    assert few.refusals.counts()[reason] == 10
    assert "Traceback" not in caplog.text
    assert len(caplog.records) == 1


def test_a_client_that_is_refused_again_and_again_is_answered_more_slowly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever floods waits, and so does nobody else, not even his own fulfilled requests."""
    monkeypatch.setattr(connections, "PEER", connections.Rate(at_once=2, per_s=2.0))

    async def picky(scope: Any, receive: Any, send: Any) -> None:
        status = 200 if scope["path"] == "/fine" else 401
        headers = [(b"content-length", b"0")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    def took(path: bytes, source: str = "127.0.0.1") -> float:
        begun = time.monotonic()
        with connect(server, source) as client:
            client.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert client.recv(65536)
        return time.monotonic() - begun

    server = serve(picky)
    server.start()
    try:
        first = [took(b"/wrong"), took(b"/?" + b"a" * 9000)]
        with connect(server) as held:
            held.sendall(b"GET /wrong HTTP/1.1\r\nHost: x\r\n\r\n")
            others = [took(b"/fine"), took(b"/wrong", "127.0.0.2"), took(b"/fine")]
            later = [took(b"/wrong"), took(b"/?" + b"a" * 9000)]
            assert held.recv(65536).startswith(b"HTTP/1.1 401")
    finally:
        server.stop()
    assert max(*first, *others) < min(later)
    assert later[0] >= 0.5


def test_a_client_whose_refusal_is_held_back_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "PEER", connections.Rate(at_once=0, per_s=0.1))
    server = serve(echo, limits=FEW)
    server.start()
    try:
        held = [connect(server) for _ in range(FEW.per_peer)]
        for client in held:
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        until("the refusals", lambda: server.refusals.counts()[Reason.NOT_HTTP] == len(held))
        assert requests.post(server.url, data=b"whole", timeout=5).content == b"whole"
        assert ended(held[0])
    finally:
        server.stop()


def test_an_error_of_ours_has_one_traceback_a_minute_for_each_place(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = serve(failing)
    server.start()
    try:
        statuses = {requests.get(server.url, timeout=5).status_code for _ in range(20)}
    finally:
        server.stop()
    assert statuses == {500}
    assert len([one for one in caplog.records if "traceback" in str(one.msg).lower()]) == 1


def test_a_process_without_descriptors_serves_again_once_it_has_some() -> None:
    """X1: it accepts no more for a moment, and does not spin."""
    server = serve()
    server.start()
    used = len(os.listdir("/proc/self/fd"))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    waiting = [socket.socket() for _ in range(3)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 2, hard))
    try:
        for client in waiting:
            client.settimeout(5)
            client.connect(("127.0.0.1", server.port))
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        before = time.process_time()
        time.sleep(1)
        assert time.process_time() - before < 0.5
        assert server.alive
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    for client in waiting:
        with contextlib.suppress(ConnectionError):
            client.recv(100)
    assert requests.get(server.url, timeout=5).text == "http"
    for client in waiting:
        client.close()
    server.stop()


def test_silent_tls_clients_count_from_their_first_byte_on(
    certificate: tuple[str, str],
) -> None:
    """X1: a connection that shakes no hands has its place among the others."""
    server = serve(tls_cert=certificate[0], tls_key=certificate[1], limits=FEW)
    server.start()
    opened = [connect(server) for _ in range(FEW.per_peer + 2)]
    assert ended(opened[0])
    assert ended(opened[1])
    assert requests.get(server.url, verify=certificate[0], timeout=5).text == "https"
    assert ended(opened[-1])
    for client in opened:
        client.close()
    server.stop()


def test_a_loop_that_hangs_is_not_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watchdog is fed only while every server is."""
    entered, release = threading.Event(), threading.Event()

    async def stuck(scope: Any, receive: Any, send: Any) -> None:
        entered.set()
        release.wait(30)
        await hello(scope, receive, send)

    monkeypatch.setattr("nodemanager.httpserver.server._STUCK_S", 0.5)
    server = serve(stuck)
    server.start()
    assert server.alive
    with connect(server) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert entered.wait(5)
        until("it to be stuck", lambda: not server.alive)
        release.set()
        until("it to go on", lambda: server.alive)
    server.stop()


@pytest.mark.parametrize(
    ("address", "peer"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("", ""),
    ],
)
def test_a_peer_is_an_address_or_a_network_of_ipv6(address: str, peer: str) -> None:
    """Whoever has one address of IPv6 has 2^64."""
    assert peer_of(address) == peer
