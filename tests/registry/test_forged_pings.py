"""What a node that is not honest may say in a ping, over HTTP (P1a, X12)."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest
import requests

from nodemanager.core.model.world import Record
from nodemanager.lib import log
from tests.cases import cases
from tests.contract.stores import claim
from tests.registry.conftest import Registry


def bound(registry: Registry, record: Record, node_id: str) -> Record:
    """The manager tells the claim which node the cloud created for it."""
    now = registry.store.read(record.uuid)
    assert now is not None
    assert now.claim is not None
    return registry.store.claim(now, replace(now.claim, node_id=node_id))


def ping(registry: Registry, record: Record, **told: Any) -> requests.Response:
    return requests.post(registry.store.ping_url(record), data=told, timeout=10)


def row(registry: Registry, record: Record) -> Record:
    found = registry.store.read(record.uuid)
    assert found is not None
    return found


@pytest.mark.parametrize("name", ["instance_id", "ec2_instance_id"])
def test_a_ping_that_names_another_node_than_the_create_answered_is_refused_p1a(
    registry: Registry, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """P1a, X4: 422, nothing is changed by it, and the log says who said what."""
    record = bound(registry, registry.claimed(), "i-own")
    before = row(registry, record)
    with caplog.at_level(logging.WARNING, logger="nodemanager"):
        answer = ping(registry, record, **{name: "i-sibling"})
    assert answer.status_code == 422
    assert set(answer.json()) == {"errors", "error_token"}
    assert row(registry, record) == before
    (line,) = [log.fields_of(one) for one in caplog.records]
    assert line is not None
    assert (line["event"], line["reason"]) == ("request.refused", "wrong_instance")
    assert (line["record"], line["address"]) == (record.uuid, "127.0.0.1")
    assert record.ping_secret is not None
    assert record.ping_secret not in caplog.text
    assert ping(registry, record, **{name: "i-own"}).status_code == 200
    assert ping(registry, record).status_code == 200
    assert row(registry, record).instance_id == "i-own"


def test_what_a_first_ping_named_is_no_evidence_once_the_claim_is_told_its_node_p1a(
    registry: Registry,
) -> None:
    """X4: the forger was quicker than the manager."""
    record = registry.claimed()
    assert ping(registry, record, instance_id="i-sibling").status_code == 200
    after = bound(registry, record, "i-own")
    assert after.instance_id == row(registry, record).instance_id == "i-own"
    assert after.first_ping_at is not None
    assert ping(registry, record, instance_id="i-sibling").status_code == 422
    assert ping(registry, record, instance_id="i-own").status_code == 200


def test_the_claims_word_stands_whatever_is_written_over_the_pings_p1a(registry: Registry) -> None:
    """An administrator, or a client of before our time, writes info by hand."""
    record = bound(registry, registry.claimed(), "i-own")
    info = {**row(registry, record).info, "ec2_instance_id": "i-other"}
    path = f"/arvados/v1/nodes/{record.uuid}"
    assert registry.call("PUT", path, json={"node": {"info": info}}).status_code == 200
    assert row(registry, record).instance_id == "i-own"
    assert ping(registry, record, instance_id="i-own").status_code == 200
    assert ping(registry, record, instance_id="i-other").status_code == 422


@cases(
    "named",
    {
        "spaces": "i-1 or true",
        "a-terminal-escape": "i-1\u001b[2J",
        "markup": "<b>i-1</b>",
        "a-path": "../../i-1",
        "not-ascii": "i-\u0391",
        "endless": "i-" + "1" * 300,
    },
)
def test_a_malformed_id_is_refused_and_nothing_is_kept_of_it_p1a(
    registry: Registry, named: str
) -> None:
    """P1a, N12: in a first ping, too."""
    record = registry.claimed()
    assert ping(registry, record, instance_id=named).status_code == 422
    assert row(registry, record) == record
    assert ping(registry, record, instance_id="i-1").status_code == 200


def test_a_claim_of_a_new_life_knows_no_node_p1a(registry: Registry) -> None:
    """What bound the life before is gone with its clean."""
    record = bound(registry, registry.claimed(), "i-own")
    ping(registry, record, instance_id="i-own")
    free = registry.store.clean(row(registry, record), "test")
    again = registry.store.claim(free, claim())
    assert again.instance_id is None
    assert ping(registry, again, instance_id="i-next").status_code == 200


def test_nodes_behind_one_address_leave_each_other_alone_x12(registry: Registry) -> None:
    """X12: nodes that tell no address of their own all come from the same one."""
    records = [registry.claimed() for _ in range(3)]
    for record in (*records, *records):
        assert ping(registry, record).status_code == 200
    shown = [row(registry, record) for record in records]
    assert {one.ip_address for one in shown} == {"127.0.0.1"}
    assert all(one.first_ping_at != one.last_ping_at for one in shown)


@pytest.mark.parametrize(
    ("told", "problem"),
    [
        ({"notice": "perhaps"}, "notice is not none, spot or maintenance"),
        ({"notice": "spot", "notice_at": "soon"}, "notice_at is not a time"),
    ],
)
def test_a_notice_that_cannot_be_read_is_told_and_its_ping_counts_d18(
    registry: Registry, told: dict[str, str], problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    record = registry.claimed()
    with caplog.at_level(logging.WARNING, logger="nodemanager"):
        assert ping(registry, record, **told).status_code == 200
        assert ping(registry, record, **told).status_code == 200
    (line,) = caplog.messages
    assert line.startswith(f"a ping of {record.uuid}: {problem}")
    assert row(registry, record).last_ping_at is not None
