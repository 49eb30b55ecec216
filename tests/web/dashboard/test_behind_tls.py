"""The dashboard behind a TLS proxy, in a real browser: signed in, live, and steered."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

pytest.importorskip("playwright")

from playwright.sync_api import expect

from nodemanager.core.operate.replies import Command
from nodemanager.core.operate.verbs import Verb
from tests.live.harness import free_port
from tests.web.dashboard.browser import Visitor, chromium
from tests.web.dashboard.console import TOKEN
from tests.web.dashboard.scene import Scene, scene

pytestmark = [
    pytest.mark.server("chromium"),
    pytest.mark.socket,
    pytest.mark.slow,
]

NAME = "pool.example"


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


@contextmanager
def proxy(home: Path, port: int, upstream: int) -> Iterator[None]:
    """A proxy on that port that ends TLS, and passes on what is in it as it came."""
    made = [*("-keyout", str(home / "key.pem"), "-out", str(home / "cert.pem"))]
    command = [*("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1")]
    subprocess.run([*command, *made, "-subj", f"/CN={NAME}"], check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(home / "cert.pem", home / "key.pem")

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind = await asyncio.open_connection("127.0.0.1", upstream)
        await asyncio.gather(_copy(reader, behind[1]), _copy(behind[0], writer))

    async def begin() -> asyncio.Server:
        return await asyncio.start_server(carry, "127.0.0.1", port, ssl=context)

    # A thread of its own: Playwright runs a loop in this one.
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(begin(), loop).result(10)

    async def end() -> None:
        server.close()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_a_node_is_drained_through_the_proxy_and_the_cookie_is_secure(tmp_path: Path) -> None:
    port = free_port()
    url = f"https://{NAME}:{port}"
    resolves = f"--host-resolver-rules=MAP {NAME} 127.0.0.1"
    with scene(tmp_path, public_url=url) as shown, chromium(resolves) as browser:
        behind = urlsplit(shown.url).port
        assert behind is not None
        with proxy(tmp_path, port, behind):
            ann = Visitor(browser, url, ignore_https_errors=True)
            drains(ann, shown)
            (cookie,) = ann.context.cookies()
            assert cookie["secure"]
            assert ann.complaints == []
            ann.close()


def drains(ann: Visitor, shown: Scene) -> None:
    ann.sign_in(TOKEN)
    ann.live()
    node = shown.world.nodes[0].id
    ann.page.goto(f"/act/drain?id={node}")
    ann.page.get_by_label("Why?").fill("new image")
    ann.page.get_by_role("button", name="Drain").click()
    expect(ann.page.get_by_role("alert")).to_have_text("it is so")
    assert shown.console.daemon.heard == [Command(Verb.DRAIN, "Ann", "new image", node)]
