"""The HTTP server under the registry and the management server, over real sockets."""

from __future__ import annotations

import logging
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from nodemanager.errors import StartError
from nodemanager.httpserver import STOP_S, HttpServer


def hello(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [environ["wsgi.url_scheme"].encode()]


def failing(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    environ["wsgi.errors"].write(f"bad GET /ping?{environ['QUERY_STRING']} broke")
    raise RuntimeError(f"at /ping?{environ['QUERY_STRING']}")


def serve(app: Any = hello, port: int = 0, **options: Any) -> HttpServer:
    options = {"option": "[Manage] port", "threads": 2, "name": "test"} | options
    return HttpServer(app, options.pop("address", "127.0.0.1"), port, **options)


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[str, str]:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        [
            *["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"],
            *["-nodes", "-days", "2", "-subj", "/CN=localhost"],
            *["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)],
        ],
        check=True,
        capture_output=True,
    )
    return str(cert), str(key)


@pytest.fixture
def secure(certificate: tuple[str, str]) -> Iterator[HttpServer]:
    server = serve(tls_cert=certificate[0], tls_key=certificate[1])
    server.start()
    yield server
    server.stop()


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


def test_it_is_not_led_astray_by_a_socket_meant_for_another_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LISTEN_PID", "1")
    server = serve()
    server.start()
    try:
        assert requests.get(server.url, timeout=5).ok
    finally:
        server.stop()


def test_a_handler_that_hangs_delays_the_stop_by_two_seconds_at_most() -> None:
    entered, release = threading.Event(), threading.Event()

    def hanging(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        entered.set()
        release.wait(30)
        return hello(environ, start_response)

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
    entered, release = threading.Event(), threading.Event()

    def slow(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        entered.set()
        release.wait(30)
        return hello(environ, start_response)

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
        plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
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


def test_connections_opened_to_spare_take_no_worker() -> None:
    server = serve(threads=1)
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
