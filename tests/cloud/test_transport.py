"""What every HTTP cloud's requests have in common (nodemanager/cloud/transport.py)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import pytest
import requests

from nodemanager.cloud.transport import within_its_time
from tests.cloud.gce.server import GceServer
from tests.live.proxy import LONGEST_DRIP_S, Fate, Proxy

pytestmark = pytest.mark.socket


@pytest.fixture
def way(gce: GceServer) -> Iterator[Proxy]:
    with closing(Proxy(gce.url, str)) as opened:
        yield opened


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
