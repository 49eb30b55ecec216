"""The server: ports, TLS, many clients at once, its end; and the real Arvados client against it."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import arvados
import arvados.errors
import pytest
import requests

from nodemanager.errors import StartError
from nodemanager.registry.app import build_app, registry_server
from tests.cases import cases
from tests.contract.stores import claim
from tests.registry.conftest import TOKEN, make_store


def test_a_taken_port_is_named_with_its_option(registry):
    host, port = (registry.server.address, registry.server.port)
    second = registry_server(build_app(registry.store, TOKEN), host, port)
    with pytest.raises(StartError) as refused:
        second.start()
    assert f"{host} port {port}" in str(refused.value)
    assert "[Registry] listen" in str(refused.value)
    assert not second.alive
    assert registry.store.probe()


def test_the_end_is_quick_repeatable_and_closes_the_port(registry):
    assert registry.server.alive
    address = (registry.server.address, registry.server.port)
    registry.server.stop()
    registry.server.stop()
    assert not registry.server.alive
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, timeout=5)


def test_a_server_starts_again_on_the_port_it_had(registry):
    host, port = (registry.server.address, registry.server.port)
    registry.store.probe()
    registry.server.stop()
    again = registry_server(build_app(registry.store, TOKEN), host, port)
    again.start()
    assert registry.store.probe()
    again.stop()


def test_many_nodes_ping_at_once_and_each_is_answered(tmp_path):
    store = make_store(tmp_path / "registry.db", slots=100)
    server = registry_server(build_app(store, TOKEN))
    server.start()
    store.public_url = server.url
    records = [store.create(claim()) for _ in range(60)]

    def ping(record):
        told = {"local_ipv4": f"10.0.0.{record.slot_number}"}
        return requests.post(store.ping_url(record), data=told, timeout=30).status_code

    with ThreadPoolExecutor(20) as threads:
        assert set(threads.map(ping, records * 3)) == {200}
    assert all(record.last_ping_at for record in store.list_records().items)
    server.stop()
    store.close()


_FORGETFUL = """
import sys, pathlib
from tests.registry.conftest import TOKEN, make_store
from nodemanager.registry.app import build_app
from nodemanager.registry.app import registry_server
store = make_store(pathlib.Path(sys.argv[1]))
server = registry_server(build_app(store, TOKEN))
server.start()
store.public_url = server.url
print(store.probe())
"""


def test_a_process_that_ends_without_stopping_its_server_does_end(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-c", _FORGETFUL, str(tmp_path / "registry.db")],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ended.stdout == "True\n"


@pytest.fixture
def tls(tmp_path, certificate):
    store = make_store(tmp_path / "tls.db", ca_file=certificate[0])
    server = registry_server(build_app(store, TOKEN), "127.0.0.1", 0, *certificate)
    server.start()
    store.public_url = server.url
    yield store, server, certificate[0]
    server.stop()
    store.close()


def test_over_tls_pings_and_probes_are_answered_and_the_certificate_is_checked(tls, tmp_path):
    store, server, ca = tls
    assert server.url.startswith("https://")
    assert store.probe()
    url = store.ping_url(store.create(claim()))
    assert requests.post(url, timeout=10, verify=ca).status_code == 200
    with pytest.raises(requests.exceptions.SSLError):
        requests.post(url, timeout=10)
    stranger = make_store(tmp_path / "tls.db", public_url=server.url)
    assert not stranger.probe()
    stranger.close()
    document = requests.get(f"{server.url}/discovery/v1/apis/arvados/v1/rest", verify=ca, timeout=9)
    assert document.json()["rootUrl"] == f"{server.url}/"


def test_clients_that_say_nothing_keep_nobody_out(tls, registry):
    for store, server in [tls[:2], (registry.store, registry.server)]:
        assert_answers_beside_silent_clients(store, server)


def assert_answers_beside_silent_clients(store, server):
    silent = [
        socket.create_connection((server.address, server.port), timeout=10) for _ in range(40)
    ]
    plain = socket.create_connection((server.address, server.port), timeout=10)
    plain.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    answered = threading.Event()

    def probe():
        if store.probe():
            answered.set()

    threading.Thread(target=probe, daemon=True).start()
    assert answered.wait(4)
    for connection in [*silent, plain]:
        connection.close()
    assert server.alive


@cases(
    ("cert", "key", "named"),
    {
        "no-key": ("cert.pem", None, "tls_key"),
        "no-certificate": (None, "key.pem", "tls_cert"),
        "no-files": ("/nowhere/cert.pem", "/nowhere/key.pem", "/nowhere/cert.pem"),
        "no-pem": (__file__, __file__, "test_server.py"),
    },
)
def test_a_certificate_that_cant_be_used_is_named(registry, cert, key, named):
    with pytest.raises(StartError, match=named):
        registry_server(build_app(registry.store, TOKEN), "127.0.0.1", 0, cert, key)


@pytest.fixture
def client(registry):
    return arvados.api(
        "v1",
        discoveryServiceUrl=f"{registry.server.url}/discovery/v1/apis/{{api}}/{{apiVersion}}/rest",
        token=TOKEN,
        cache=False,
        num_retries=0,
    ).nodes()


def test_the_arvados_client_creates_reads_writes_lists_and_deletes(client, registry):
    node = client.create(body={"node": {"hostname": "h"}}, assign_slot=True).execute()
    assert (node["slot_number"], node["hostname"]) == (1, "h")
    changed = client.update(uuid=node["uuid"], body={"properties": {"a": 1}}).execute()
    assert changed["properties"] == {"a": 1}
    assert client.get(uuid=node["uuid"]).execute() == changed
    others = [client.create(body={}).execute()["uuid"] for _ in range(4)]
    page = client.list(
        filters=[["uuid", ">", ""], ["uuid", "in", others * 300]],
        order=["uuid asc"],
        limit=3,
        count="none",
        select=["uuid"],
    ).execute()
    assert page["items"] == [{"uuid": uuid} for uuid in sorted(others)[:3]]
    told = client.ping(uuid=node["uuid"], ping_secret=node["info"]["ping_secret"]).execute()
    assert told["status"] == "running"
    assert (told.pop("drain"), told.pop("drain_order")) == (False, None)
    assert client.delete(uuid=node["uuid"]).execute() == told
    assert len(registry.store.list_records().items) == 4


def test_the_arvados_client_reads_our_refusals(client):
    with pytest.raises(arvados.errors.ApiError, match="no record") as refused:
        client.get(uuid="zzzzz-7ekkf-000000000000000").execute()
    assert refused.value.resp.status == 404


def test_the_document_names_the_store(registry):
    document = registry.call("GET", "/discovery/v1/apis/arvados/v1/rest").json()
    assert document["nodemanagerStoreId"] == registry.store.store_id()
    assert document["rootUrl"] == f"{registry.server.url}/"


def test_behind_a_tls_proxy_the_document_names_the_public_url(registry):
    """Else clients would send the token to the http address that the proxy asks us by."""
    public = "https://registry.example.org"
    server = registry_server(build_app(registry.store, TOKEN, public_url=public))
    server.start()
    try:
        asked = f"{server.url}/discovery/v1/apis/arvados/v1/rest"
        document = requests.get(asked, timeout=10).json()
    finally:
        server.stop()
    assert (document["rootUrl"], document["baseUrl"]) == (f"{public}/", f"{public}/arvados/v1/")
