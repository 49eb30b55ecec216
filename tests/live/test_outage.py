"""An incident as its operator has it: alerts fire, the dashboard says why and ends it, they clear.

Nodes are killed, the cloud's API goes down, and the slots are full, all at once. Prometheus
evaluates the shipped rules on the daemon's own metrics.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("playwright")

from playwright.sync_api import Locator, Page, expect

from tests.live.cluster import MANAGEMENT_TOKEN, DirectedCluster
from tests.live.faulty import DRIVER, Faults
from tests.live.harness import Daemon
from tests.live.prometheus import Prometheus, prometheus
from tests.waiting import until
from tests.web.dashboard.browser import Visitor, chromium

pytestmark = [
    pytest.mark.proof,
    pytest.mark.live,
    pytest.mark.server("curl"),
    pytest.mark.server("chromium"),
    pytest.mark.server("prometheus"),
]

NODES, SLOTS = 5, 6
FULL, BREAKER, STALE = (
    "NodemanagerSlotsFull",
    "NodemanagerBreakerOpen",
    "NodemanagerPollStale",
)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DirectedCluster]:
    made = DirectedCluster(
        tmp_path / "cluster",
        {
            # No window frees anything while the test runs: the operator has to.
            "Daemon": {"min_nodes": NODES, "max_nodes": NODES, "node_stale_after": 600},
            "Cloud": {"driver_class": DRIVER},
            "Registry": {"slots": SLOTS},
        },
    )
    made.registry_layer["Registry"] = {**made.registry_layer["Registry"], "slots": SLOTS}
    made.everyone("busy")
    with closing(made):
        made.serve_registry()
        yield made


class Operator:
    """Ann at the dashboard, who gives orders by button."""

    def __init__(self, visitor: Visitor) -> None:
        self.page: Page = visitor.page

    def block(self, title: str) -> Locator:
        """The part of the overview under that heading."""
        return self.page.locator("section").filter(
            has=self.page.get_by_role("heading", name=title, exact=True)
        )

    def sees(self, *texts: str) -> None:
        """Wait until the overview's alerts say each of them."""
        self.page.goto("/")
        for text in texts:
            expect(self.page.locator("#alerts")).to_contain_text(text)

    def orders(self, link: str, button: str, why: str) -> None:
        """Follow the page's link to the question, say why, and give the order.

        Where rules stand against it, break each that may be broken.
        """
        self.page.get_by_role("link", name=link).first.click()
        for rule in self.page.get_by_role("checkbox").all():
            rule.check()
        self.page.get_by_label("Why?").fill(why)
        self.page.get_by_role("button", name=button).click()
        expect(self.page.get_by_role("alert")).to_be_visible()


def hold_one_and_kill_it(cluster: DirectedCluster, daemon: Daemon, ann: Operator) -> str:
    """Its record holds the last slot, and nobody may free it. The record's uuid."""
    node, record = min(cluster.tags().items())
    ann.page.goto(f"/records/{record}")
    ann.orders("Hold…", "Hold", "I am logged in")
    daemon.wait_for("operator.hold", by="Ann")
    cluster.kill_node(node)
    daemon.wait_for("cycle.done", free=0, busy=NODES)
    return record


def lose_most_of_them_and_the_cloud(cluster: DirectedCluster, daemon: Daemon) -> set[str]:
    """Three hosts fail with their nodes; the cloud's API lists them no more, and then goes down.

    The records of these nodes.
    """
    lost = dict(sorted(cluster.tags().items())[:3])
    cloud = Faults(cluster.state / "local-cloud")
    cloud.set(lost=list(lost), deaf=True)
    for node in lost:
        cluster.kill_node(node)
    daemon.wait_for("breaker.opened", cause="cloud_collapsed")
    cloud.set(outage=True)
    return set(lost.values())


def test_three_alerts_fire_are_ended_on_the_dashboard_and_clear(
    cluster: DirectedCluster, tmp_path: Path
) -> None:
    daemon = cluster.start()
    daemon.wait_for("node.paired", count=NODES)
    url = daemon.url_of("management")
    with prometheus(tmp_path / "prometheus", url) as watch, chromium() as browser:
        visitor = Visitor(browser, url)
        visitor.sign_in(MANAGEMENT_TOKEN)
        ann = Operator(visitor)
        assert watch.firing() == set()
        held = hold_one_and_kill_it(cluster, daemon, ann)
        lost = lose_most_of_them_and_the_cloud(cluster, daemon)
        fires(watch, FULL, BREAKER, STALE)
        ends_it(ann, cluster, daemon, held, lost)
        until("the alerts to clear", lambda: not watch.firing(), told=lambda: str(watch.firing()))
        assert visitor.complaints == []


def fires(watch: Prometheus, *names: str) -> None:
    wanted = set(names)
    until(f"{wanted}", lambda: watch.firing() >= wanted, told=lambda: str(watch.firing()))


def ends_it(
    ann: Operator, cluster: DirectedCluster, daemon: Daemon, held: str, lost: set[str]
) -> None:
    """Look, wait for the cloud, reset the breaker, release the hold, free the four slots."""
    ann.sees("The breaker is open", "cloud")
    expect(ann.block("Breaker, lease, polls")).to_contain_text("too old to decide from")
    cloud = Faults(cluster.state / "local-cloud")
    cloud.set(outage=False)
    expect(ann.block("Breaker, lease, polls")).not_to_contain_text("too old to decide from")
    ann.orders("Reset the breaker…", "Reset the breaker", "the host is lost, I looked")
    daemon.wait_for("operator.breaker_reset", by="Ann", result="done")
    # A clean asks for the very node first (C11).
    cloud.set(deaf=False)
    ann.page.goto(f"/records/{held}")
    ann.orders("Release…", "Release", "logged out")
    for record in sorted({held, *lost}):
        before = daemon.last()
        ann.page.goto(f"/records/{record}")
        expect(ann.page.get_by_text("within_window").first).to_be_visible()
        ann.orders("Clean…", "Clean", "its host is lost")
        daemon.wait_for("operator.clean", after=before, record=record, by="Ann", result="done")
    until("the pool to be whole", lambda: len(cluster.running()) == NODES)
    ann.page.goto("/")
    expect(ann.page.locator("#alerts")).to_contain_text("All is well.")
    expect(ann.block("Slots")).to_contain_text("1 free")
