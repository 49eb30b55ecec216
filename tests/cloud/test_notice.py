"""What the shipped ping script reads of a cloud's taking its node, and what the node does (D18).

The answers of the metadata services have the form of the examples that each cloud publishes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cases import cases
from tests.cloud import metadata, pings
from tests.cloud.pings import PingServer

ORDER = "00c0ffee00c0ffee"
Notice = tuple[str | None, str | None]
NONE: Notice = ("none", None)

TERMINATES = '{"action": "terminate", "time": "2017-09-18T08:22:00Z"}'
STOPS = '{"action": "stop", "time": "2017-09-18T08:22:00Z"}'
REBOOTS = """[
  {
    "NotBefore" : "21 Jan 2019 09:00:43 GMT",
    "Code" : "system-reboot",
    "Description" : "scheduled reboot",
    "EventId" : "instance-event-0d59937288b749b32",
    "NotAfter" : "21 Jan 2019 09:17:23 GMT",
    "State" : "active"
  }
]"""
AT = "Mon, 19 Sep 2016 18:29:47 GMT"


def azure(kind: str, *names: str, at: str = AT) -> dict[str, Any]:
    return metadata.azure_event(kind, *names, at=at)


class Node(pings.Node):
    """A node whose metadata service has the pages of its ping server."""

    def __init__(self, home: Path, server: PingServer) -> None:
        super().__init__(home, server, "--metadata", server.base)
        server.pages = metadata.amazon("i-1", None)

    def is_at_google(self, preempted: str, event: str) -> None:
        self.pings.pages = metadata.google("400", "soon" if preempted == "TRUE" else None, event)

    def is_at_azure(self, *events: dict[str, Any], indent: int | None = None) -> None:
        self.pings.pages = metadata.azure_pages(*events, indent=indent)

    @property
    def notice(self) -> Notice:
        assert self.ping().returncode == 0
        form = self.pings.pings[-1].form
        return form.get("notice"), form.get("notice_at")


@pytest.fixture
def node(tmp_path: Path, pings: PingServer) -> Node:
    return Node(tmp_path, pings)


# What each cloud says.


@cases(
    ("pages", "expected"),
    {
        "nothing": ({}, NONE),
        "terminates": ({metadata.SPOT_PAGE: TERMINATES}, ("spot", "2017-09-18T08:22:00Z")),
        "stops": ({metadata.SPOT_PAGE: STOPS}, ("spot", "2017-09-18T08:22:00Z")),
        "no-events": ({metadata.EVENTS_PAGE: "[]"}, NONE),
        "reboots": ({metadata.EVENTS_PAGE: REBOOTS}, ("maintenance", "21 Jan 2019 09:00:43 GMT")),
        "canceled-event": ({metadata.EVENTS_PAGE: REBOOTS.replace('"active"', '"canceled"')}, NONE),
        "both": (
            {metadata.SPOT_PAGE: TERMINATES, metadata.EVENTS_PAGE: REBOOTS},
            ("spot", "2017-09-18T08:22:00Z"),
        ),
        "without-a-time": ({metadata.SPOT_PAGE: "{}"}, ("spot", None)),
        "odd-time": ({metadata.SPOT_PAGE: '{"time": "\\\\\\nurl = x"}'}, ("spot", None)),
    },
)
def test_on_amazon(node: Node, pages: dict[str, str], expected: Notice) -> None:
    node.pings.pages |= pages
    assert node.notice == expected


@cases(
    ("preempted", "event", "expected"),
    {
        "nothing": ("FALSE", "NONE", NONE),
        "preempted": ("TRUE", "NONE", ("spot", None)),
        "moved-while-it-runs": ("FALSE", "MIGRATE_ON_HOST_MAINTENANCE", NONE),
        "maintenance": ("FALSE", "TERMINATE_ON_HOST_MAINTENANCE", ("maintenance", None)),
        "both": ("TRUE", "TERMINATE_ON_HOST_MAINTENANCE", ("spot", None)),
    },
)
def test_on_google(node: Node, preempted: str, event: str, expected: Notice) -> None:
    node.is_at_google(preempted, event)
    assert node.notice == expected


@cases(
    ("events", "expected"),
    {
        "nothing": ([], NONE),
        "spot": ([azure("Preempt", "Node-7")], ("spot", AT)),
        "its-name-in-small-letters": ([azure("Preempt", "node-7")], ("spot", AT)),
        "reboot": ([azure("Reboot", "Node-7")], ("maintenance", AT)),
        "redeploy": ([azure("Redeploy", "a", "Node-7")], ("maintenance", AT)),
        "terminate": ([azure("Terminate", "Node-7")], ("maintenance", AT)),
        "a-pause-of-seconds": ([azure("Freeze", "Node-7")], NONE),
        "its-neighbours": ([azure("Preempt", "Node-71", "xNode-7")], NONE),
        "its-own-among-others": (
            [azure("Preempt", "other"), azure("Reboot", "Node-7")],
            ("maintenance", AT),
        ),
        "one-that-has-begun": (
            [azure("Reboot", "Node-7"), azure("Preempt", "Node-7", at="")],
            ("spot", None),
        ),
    },
)
def test_on_azure(node: Node, events: list[dict[str, Any]], expected: Notice) -> None:
    node.is_at_azure(*events)
    assert node.notice == expected
    if len(events) > 1:
        # Azure promises no layout.
        node.is_at_azure(*events, indent=4)
        assert node.notice == expected


@pytest.mark.parametrize("page", [metadata.SPOT_PAGE, metadata.EVENTS_PAGE])
def test_a_service_that_fails_says_nothing_not_that_there_is_none(node: Node, page: str) -> None:
    node.pings.failing = {page}
    assert node.notice == (None, None)


def test_so_on_google_and_azure(node: Node) -> None:
    node.is_at_google("FALSE", "NONE")
    node.pings.failing = {f"{metadata.GOOGLE}/maintenance-event", metadata.AZURE_EVENTS}
    assert node.notice == (None, None)
    node.is_at_azure()
    assert node.notice == (None, None)


def test_a_node_without_a_metadata_service_says_nothing(node: Node) -> None:
    node.pings.pages = {}
    assert node.notice == (None, None)


# What the node does.


def test_a_node_that_will_be_taken_stops_taking_work_before_anybody_tells_it(node: Node) -> None:
    """It is often gone before an order could come; idle, as it answers none."""
    node.pings.pages[metadata.SPOT_PAGE] = TERMINATES
    node.ping()
    assert (node.said, node.hook_runs) == ([("idle", "yes", None)], ["drain"])
    node.says("busy")
    node.ping("busy")
    assert node.said == [("busy", "yes", None)]


def test_it_then_answers_the_managers_order(node: Node) -> None:
    node.pings.pages[metadata.SPOT_PAGE] = TERMINATES
    node.told(ORDER)
    node.ping()
    assert node.said == [("idle", "yes", None), ("drained", "yes", ORDER)]


def test_it_takes_work_again_once_the_cloud_takes_the_notice_back(node: Node) -> None:
    node.pings.pages[metadata.SPOT_PAGE] = TERMINATES
    node.ping()
    del node.pings.pages[metadata.SPOT_PAGE]
    node.ping()
    node.ping()
    assert node.hook_runs == ["drain", "resume"]


def test_a_service_that_fails_takes_no_notice_back(node: Node) -> None:
    node.pings.pages[metadata.SPOT_PAGE] = TERMINATES
    node.ping()
    node.pings.failing = {metadata.SPOT_PAGE}
    node.ping()
    assert node.hook_runs == ["drain", "drain"]


def test_a_notice_taken_back_leaves_the_managers_order_alone(node: Node) -> None:
    node.pings.pages[metadata.SPOT_PAGE] = TERMINATES
    node.told(ORDER)
    node.ping()
    del node.pings.pages[metadata.SPOT_PAGE]
    node.ping()
    assert node.said == [("drained", "yes", ORDER)]
    assert "resume" not in node.hook_runs
    node.told(None)
    node.ping()
    assert node.said == [("drained", "yes", ORDER), ("idle", "yes", None)]
    assert node.hook_runs[-1] == "resume"


def test_an_order_taken_back_leaves_a_node_that_will_be_taken_without_work(node: Node) -> None:
    node.pings.pages[metadata.SPOT_PAGE] = TERMINATES
    node.told(ORDER)
    node.ping()
    node.told(None)
    node.ping()
    assert node.said == [("drained", "yes", ORDER), ("idle", "yes", None)]
    assert "resume" not in node.hook_runs


def test_a_node_that_cannot_keep_its_notice_pings_all_the_same(node: Node) -> None:
    """Its silence would end it; it takes work until it is told not to."""
    node.pings.pages[metadata.SPOT_PAGE] = TERMINATES
    node.state.write_text("no directory")
    done = node.ping()
    assert (done.returncode, node.said) == (0, [("idle", "yes", None)])
    assert "can't write" in done.stderr
    assert node.pings.pings[0].form["notice"] == "spot"
    assert node.hook_runs == []


def test_a_resume_that_fails_is_tried_again_and_the_node_pings(node: Node) -> None:
    node.pings.pages[metadata.SPOT_PAGE] = TERMINATES
    node.ping()
    del node.pings.pages[metadata.SPOT_PAGE]
    node.hook.write_text(f"#!/bin/sh\necho $1 >>{node.ran}\n[ $1 = drain ] && echo drained\n")
    done = node.ping()
    assert (done.returncode, node.said) == (0, [("idle", "yes", None)])
    assert "resume failed" in done.stderr
    node.says("drained")
    node.ping()
    node.ping()
    assert node.hook_runs == ["drain", "resume", "drain", "resume"]
