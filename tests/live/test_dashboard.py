"""A real daemon's dashboard in a real browser: a node is drained by button, and really goes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("playwright")

from playwright.sync_api import expect

from tests.live.cluster import MANAGEMENT_TOKEN, DirectedCluster
from tests.waiting import until
from tests.web.dashboard.browser import Visitor, chromium

pytestmark = [pytest.mark.live, pytest.mark.server("curl"), pytest.mark.server("chromium")]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DirectedCluster]:
    # Two nodes that stay, since the demand wants no fewer.
    made = DirectedCluster(tmp_path, {"Daemon": {"min_nodes": 2, "max_nodes": 3}})
    made.everyone("idle")
    yield made
    made.close()


def test_a_node_is_drained_by_button_and_the_page_follows(cluster: DirectedCluster) -> None:
    cluster.serve_registry()
    daemon = cluster.start()
    until("two nodes", lambda: len(cluster.running()) >= 2)
    daemon.wait_for("node.paired")
    with chromium() as browser:
        ann = Visitor(browser, daemon.url_of("management"))
        ann.sign_in(MANAGEMENT_TOKEN)
        node = str(daemon.wait_for("node.paired")["node"])
        cluster.node_does(node, "busy")
        ann.page.goto(f"/nodes/{node}")
        ann.page.get_by_role("link", name="Drain…").click()
        ann.page.get_by_label("Why?").fill("new image")
        ann.page.get_by_role("button", name="Drain").click()
        expect(ann.page.get_by_role("alert")).to_contain_text("is draining")
        daemon.wait_for("operator.drain", by="Ann", cause="new image")
        ann.page.goto("/nodes")
        row = ann.page.get_by_role("row").filter(has=ann.page.get_by_text(node, exact=True))
        expect(row).to_contain_text("drain")
        cluster.node_does(node, "idle")
        until("its end", lambda: node not in cluster.running())
        expect(row).to_have_count(0)
        ann.page.goto("/log?only=done")
        expect(ann.page.get_by_role("link", name="operator.drain")).to_be_visible()
        assert ann.complaints == []
