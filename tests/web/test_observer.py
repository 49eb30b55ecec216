"""What the status page and the metrics are told of a decision."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from nodemanager.core.model.annotations import PAUSE, Mark, Marks
from nodemanager.core.model.reasons import Event
from nodemanager.core.safety.lease import LeaseRole, LeaseView
from nodemanager.errors import CloudError
from nodemanager.lib.log import INFO
from nodemanager.web.status import Board, Status
from tests.core.build import world
from tests.fakes.clock import ManualClock
from tests.web.manager import Manager, decision_on


def shown_by(manager: Manager) -> Status:
    status = manager.board.read()
    assert status is not None
    return status


@pytest.mark.parametrize("role", LeaseRole)
def test_the_lease_is_shown_as_it_is_when_somebody_looks(role: LeaseRole) -> None:
    """O12, L6: it may have gone since the decision that is shown."""
    seen = [LeaseView(LeaseRole.ACTIVE)]
    manager = Manager(Board(ManualClock(), lambda: seen[-1]))
    manager.decides(world())
    assert manager.board.read() is not None
    seen.append(LeaseView(role))
    status = shown_by(manager)
    assert status.lease.role is role
    manager.metrics.show(status)
    held = manager.metrics.registry.get_sample_value("nodemanager_lease_held")
    assert held == float(role is LeaseRole.ACTIVE)


def test_the_leaks_meter_is_the_slots_that_the_pool_holds_for_each_live_node() -> None:
    """One node of two is gone, and another pool's slot is not ours; without any node it is all."""
    manager, made = Manager(), world()
    for uuid in ("r1", "r2"):
        made.add_record(uuid)
        made.add_node(uuid)
    made.add_record("theirs", pool="others")

    def meter() -> float | None:
        made.round()
        manager.observer.show(decision_on(made))
        manager.metrics.show(shown_by(manager))
        return manager.metrics.registry.get_sample_value("nodemanager_slots_per_node")

    assert meter() == 1.0
    made.drop_node("i-r2")
    assert meter() == 2.0
    made.drop_node("i-r1")
    assert meter() == 2.0


def test_each_order_is_shown_with_the_host_of_its_node_or_record() -> None:
    manager, made = Manager(), world()
    for uuid in ("r1", "r2"):
        made.add_record(uuid)
        made.add_node(uuid)
    made.round()
    mark = Mark("ann", 1.0)
    marks = Marks(holds={"i-r1": mark, "r2": mark, "i-unknown": mark})
    manager.observer.show(decision_on(made, marks))
    names = {record.uuid: record.hostname for record in made.records}
    assert shown_by(manager).hosts == {"i-r1": names["r1"], "r2": names["r2"]}


def test_the_error_of_a_poll_is_shown_without_secrets_until_the_next_answer() -> None:
    manager = Manager()
    decision = manager.decides(world())

    def shown(event: Event, **fields: object) -> str | None:
        manager.observer.heard(event, INFO, {"source": "cloud", **fields})
        manager.observer.show(decision)
        return shown_by(manager).polls["cloud"].error

    error = CloudError("GET https://x/?ping_secret=abc123def: no answer")
    error.__cause__ = OSError("a cause is for the log")
    said = shown(Event.LIST_FAILED, error=error)
    assert said is not None
    assert said.startswith("CloudError: GET https://x/")
    assert "abc123def" not in said
    assert "a cause" not in said
    assert shown(Event.LIST_OK, items=3, took_s=0.1) is None


def test_an_order_is_shown_at_once_and_its_decision_is_counted_once() -> None:
    manager, made = Manager(), world()
    decision = manager.decides(made)
    paused = replace(decision, marks=Marks(pool={PAUSE: Mark("ann", 1.0)}), undecided=True)
    manager.observer.show(paused)
    status = shown_by(manager)
    assert status.to_json(with_names=True, now=made.now)["pause"]["by"] == "ann"
    assert manager.board.decision is paused
    assert manager.metrics.registry.get_sample_value("nodemanager_cycle_seconds_count") == 1.0


def test_a_status_is_made_when_it_is_first_read() -> None:
    """It counts all nodes and records, and the daemon decides more often than anybody reads."""
    manager = Manager()
    board, clock = manager.board, manager.clock
    made: list[int] = []

    def status_of(number: int) -> Status:
        made.append(number)
        return Status(made_at=float(number), pool="main", deferred=number)

    began = clock.boottime()
    assert board.read() is None
    assert board.age() == 0.0
    for number in range(3):
        board.replace(began + number, partial(status_of, number))
    clock.advance(10.0)
    assert board.age() == 8.0
    assert made == []
    status = shown_by(manager)
    assert status.deferred == 2
    assert board.read() == status
    assert made == [2]


def test_a_listed_node_whose_word_is_old_is_counted_too() -> None:
    """In an outage of the store every node is one, and `status` said that there were none."""
    manager, made = Manager(), world()
    made.add_record("r1", last_ping_at=made.now - made.settings.node_stale_after - 60)
    made.add_node("r1")
    made.round()
    manager.observer.show(decision_on(made))
    status = shown_by(manager)
    assert status.nodes.unknown == status.live == 1
