"""A recorded incident under other windows: what would have been, and what it would have cost."""

from __future__ import annotations

import pytest

from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.world import Record
from nodemanager.core.observe.facts import LivesFreed
from nodemanager.core.replay.whatif import By, Sign
from nodemanager.core.replay.worth import weigh
from nodemanager.journal import sweep
from nodemanager.journal.reading import read
from tests.replay.conftest import NAP_S, POLL_S, WINDOW_S, Incident, by_record, window

SECOND = 1.0
"""The daemon's timer and its clock, which ticks with each reading, are apart by less."""


def about(seconds: float) -> object:
    return pytest.approx(seconds, abs=SECOND)


def ends_of(incident: Incident) -> set[str]:
    return {
        life.record
        for entry in read(incident.path)
        if isinstance(entry, LivesFreed)
        for life in entry.lives
    }


def test_by_the_recorded_settings_every_verdict_is_as_recorded_and_lives_end_as_told(
    incident: Incident,
) -> None:
    made = incident.under()
    assert incident.outline.decisions > 100
    assert incident.outline.acts
    assert made.differing == 0
    assert made.differences == ()
    assert not made.recorded.diverged
    ends = made.recorded.ends.values()
    assert {end.life.record for end in ends} == ends_of(incident)
    assert {end.life.record: (end.by, end.reason) for end in ends} == {
        incident.died[0].uuid: (By.CLEAN, Reason.STALE_SLOT),
        incident.died[1].uuid: (By.CLEAN, Reason.STALE_SLOT),
        incident.hung.uuid: (By.SHUTDOWN, Reason.NODE_DOWN),
    }


def test_the_recorded_window_given_again_moves_nothing(incident: Incident) -> None:
    made = incident.under(window(WINDOW_S), {"settle": 60.0}, {})
    for other in made.others:
        balance = weigh(made.recorded, other, made.walls)
        assert balance.moves == ()
        assert balance.hits == ()
        assert (balance.slot_s, balance.boots, balance.boots_lost) == (0.0, 0, 0)


def test_a_shorter_window_frees_sooner_by_exactly_the_difference(incident: Incident) -> None:
    shorter_s = (60.0, 540.0)
    for shorter, balance in zip(
        shorter_s, incident.weighed(*(WINDOW_S - one for one in shorter_s)), strict=True
    ):
        assert by_record(balance, *incident.died, incident.hung) == [about(shorter)] * 3
        assert balance.slot_s == about(3 * shorter)
        assert (balance.earlier, balance.later, balance.never) == (3, 0, 0)
        assert balance.hits == ()
        (move,) = [one for one in balance.moves if one.life.record == incident.hung.uuid]
        assert (move.by, move.reason) == (By.SHUTDOWN, Reason.NODE_DOWN)


def test_a_window_that_is_too_short_hits_a_node_that_pinged_afterwards(
    incident: Incident,
) -> None:
    napped: Record = incident.napped
    (balance,) = incident.weighed(WINDOW_S / 2)
    (hit,) = balance.hits
    assert hit in balance.hits
    assert (hit.life.record, hit.life.incarnation) == (napped.uuid, napped.incarnation)
    assert (hit.life.node_id, hit.life.slot) == (napped.instance_id, napped.slot_number)
    # The cloud, asked by its id, shows it: no clean frees its record before its node is ended.
    assert hit.by is By.SHUTDOWN
    assert hit.pinged_at is not None
    # It fell silent, was freed half a window later, and pinged when its nap was over.
    assert hit.freed_at < hit.pinged_at
    assert hit.pinged_at - hit.freed_at == pytest.approx(NAP_S - WINDOW_S / 2, abs=2 * POLL_S)
    # The one listed again is first known by that; its ping is told all the same.
    assert hit.sign in (Sign.LISTED, Sign.PINGED)
    assert hit.alive_at <= hit.pinged_at + 2 * POLL_S
    # Nothing is gained by it.
    assert napped.uuid not in {move.life.record for move in balance.moves}
    # One of the others may wait for a poll, while the listing lacks it.
    assert 3 * WINDOW_S / 2 - POLL_S - SECOND < balance.slot_s < 3 * WINDOW_S / 2 + SECOND


def test_a_longer_window_frees_later_and_one_beyond_the_recording_not_in_it(
    incident: Incident,
) -> None:
    longer, beyond = incident.weighed(WINDOW_S + 600, 10 * WINDOW_S)
    assert by_record(longer, *incident.died, incident.hung) == [about(-600)] * 3
    assert longer.slot_s == about(-1800)
    assert (longer.earlier, longer.later, longer.never) == (0, 3, 0)
    assert (beyond.earlier, beyond.later, beyond.never) == (0, 0, 3)
    assert beyond.cleans == 0
    assert beyond.slot_s < 0
    assert all(move.after is None for move in beyond.moves)


def test_boots_that_waited_for_a_slot_wait_no_longer(incident: Incident) -> None:
    shorter, longer = incident.weighed(WINDOW_S - 300, WINDOW_S + 300)
    assert shorter.boots >= 1
    assert shorter.boots_lost == 0
    assert shorter.boot_wait_s == pytest.approx(300 * shorter.boots, abs=3 * POLL_S)
    assert longer.boots == 0
    assert longer.boots_lost >= 1


def test_a_sweep_is_monotone_in_gain_and_in_cost(incident: Incident) -> None:
    windows = [420.0, 900.0, 1260.0, WINDOW_S, 2700.0, 7200.0]
    balances = incident.weighed(*windows)
    gains = [balance.slot_s for balance in balances]
    costs = [len(balance.hits) for balance in balances]
    assert gains == sorted(gains, reverse=True)
    assert costs == sorted(costs, reverse=True)
    assert costs[0] == 1
    assert costs[-1] == 0
    assert gains[0] > 0 > gains[-1]


def test_other_settings_than_the_window_count_as_well(incident: Incident) -> None:
    made = incident.under({"settle": WINDOW_S + 600.0}, {"max_cleans_per_cycle": 1})
    late, capped = (weigh(made.recorded, one, made.walls) for one in made.others)
    # The absence must last for longer than the silence: that holds both back.
    assert [gain < -500 for gain in by_record(late, *incident.died)] == [True, True]
    assert capped.moves == ()


def test_many_processes_come_to_the_same_as_one(
    incident: Incident, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "ALONE", 0)
    values = (window(900.0), window(3600.0))
    told: list[int] = []
    together = sweep.replay(incident.path, incident.outline, values, jobs=2, tick=told.append)
    assert together == incident.under(*values)
    assert sum(told) <= sweep.steps(incident.outline, len(values))
