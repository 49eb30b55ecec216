"""What every HTTP cloud's requests have in common (nodemanager/cloud/transport.py)."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator
from contextlib import closing

import pytest
import requests

from nodemanager.lib import bounded_session
from nodemanager.lib.bounded_session import within_its_time
from tests.cloud.faults import Reply
from tests.cloud.gce.server import GceServer
from tests.cloud.json_http import Scripted
from tests.live.proxy import LONGEST_DRIP_S, Fate, Proxy

pytestmark = pytest.mark.socket


@pytest.fixture
def way(gce: GceServer) -> Iterator[Proxy]:
    with closing(Proxy(gce.url, str)) as opened:
        yield opened
    # Only the way is looked at: no method of Google's was asked for.
    gce.wrong.clear()


@pytest.mark.parametrize("proxied", [False, True], ids=["straight", "through-a-proxy"])
def test_a_time_out_ends_the_whole_answer_and_not_each_read(way: Proxy, proxied: bool) -> None:
    url = "http://nowhere.example.org/" if proxied else way.url
    with requests.Session() as session:
        session.trust_env = False
        session.proxies = {"http": way.url} if proxied else {}
        within_its_time(session)
        assert session.get(url, timeout=5).status_code == 400
        began = time.monotonic()
        with way.meeting(lambda _: Fate.DRIPPED), pytest.raises(requests.RequestException):
            session.get(url, timeout=0.3)
        assert time.monotonic() - began < LONGEST_DRIP_S / 2
        # Nothing is left of the short time.
        assert session.get(url, timeout=5).status_code == 400


@pytest.fixture
def bomb() -> Iterator[str]:
    """A server whose answer is a few packed kilobytes, and a hundred times that unpacked."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = packer.compress(b" " * 20_000_000) + packer.flush()

    reply = Reply(200, packed, {"Content-Encoding": "gzip"})
    with closing(Scripted(lambda *_: reply)) as server:
        yield server.url


def test_an_answer_is_as_large_as_allowed_and_no_larger(
    bomb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with requests.Session() as session:
        session.trust_env = False
        within_its_time(session)
        assert len(session.get(bomb, timeout=20).content) == 20_000_000
        monkeypatch.setattr(bounded_session, "LARGEST", 10_000_000)
        with pytest.raises(requests.RequestException, match="over 10000000 bytes"):
            session.get(bomb, timeout=20)
