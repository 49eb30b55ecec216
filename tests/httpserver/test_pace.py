"""How long refusals wait: the first ones never, a flood always, and each peer for itself."""

from __future__ import annotations

import pytest

from nodemanager.httpserver import connections
from nodemanager.httpserver.connections import ALL, LONGEST_S, PEER, Pace


class Time:
    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at


def test_so_many_are_answered_at_once_and_then_so_many_a_second() -> None:
    paced = Pace(Time())
    waits = [paced.wait("a") for _ in range(PEER.at_once + 100)]
    assert max(waits[: PEER.at_once]) == 0
    assert waits[-1] == pytest.approx(100 / PEER.per_s)


def test_after_some_time_they_are_answered_at_once_again() -> None:
    time = Time()
    paced = Pace(time)
    for _ in range(PEER.at_once):
        paced.wait("a")
    time.at += 1.0
    waits = [paced.wait("a") for _ in range(round(PEER.per_s) + 1)]
    assert max(waits[:-1]) == pytest.approx(0)
    assert waits[-1] > 0


def test_a_peer_waits_for_its_own_refusals() -> None:
    paced = Pace(Time())
    for _ in range(2 * PEER.at_once):
        paced.wait("a")
    assert paced.wait("b") == 0


def test_many_peers_wait_for_each_other() -> None:
    paced = Pace(Time())
    waits = [paced.wait(str(number)) for number in range(2 * ALL.at_once)]
    assert max(waits[: ALL.at_once]) == 0
    assert waits[-1] == pytest.approx(ALL.at_once / ALL.per_s)


def test_nobody_waits_without_an_end_and_no_flood_outlasts_itself() -> None:
    time = Time()
    paced = Pace(time)
    assert max(paced.wait("a") for _ in range(100_000)) == LONGEST_S
    time.at += LONGEST_S + PEER.at_once / PEER.per_s
    assert paced.wait("a") == 0


def test_it_forgets_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_MOST_PEERS", 10)
    time = Time()
    paced = Pace(time)
    for number in range(100):
        time.at += 1.0
        paced.wait(str(number))
    assert len(paced._peers) <= 12
