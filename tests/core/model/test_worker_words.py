"""What Slurm's and nodes' words for a state mean (T6): the same in each of the forms."""

from __future__ import annotations

import itertools

import pytest

from nodemanager.core.model.worker_words import MARKS, RESERVED, words_of, worker_state
from nodemanager.core.model.world import WorkerState


@pytest.mark.parametrize(
    ("raw", "means"),
    [
        *(
            (raw, "busy")
            for raw in ["busy", "alloc", "allocated", "comp", "completing", "mix", "mixed", "drng"]
        ),
        *((raw, "busy") for raw in ("Busy", " alloc ", "alloc*", "mix-", "draining@", "idle+")),
        *((raw, "down") for raw in ("down", "DOWN*", "down~", "fail", "fail*", "downed")),
        *((raw, "down") for raw in ("powered-down", "powered_down", "idle~", "drain~", "pow_dn")),
        ("idle", "idle"),
        *((raw, "unknown") for raw in ("idle*", "idle#", "idle%", "idle!", "idle@", "idle^")),
        *(
            (raw, "unknown")
            for raw in ("idle-", "idle$", "plnd", "pow_up", "unk*", "futr", "inval")
        ),
        *((raw, "unknown") for raw in ("drain", "drained", "maint", "resv", "", "?")),
    ],
)
def test_a_word_means(raw: str, means: str) -> None:
    assert worker_state(words_of(raw)) == means


@pytest.mark.parametrize(
    ("compact", "complete"),
    [
        ("idle", "idle+cloud"),
        ("idle~", "idle+cloud+powered_down"),
        ("mix-", "mixed+planned"),
        ("alloc*", "allocated+not_responding"),
        ("drng", "allocated+drain"),
        ("down*", "down+not_responding"),
        ("idle#", "idle+cloud+powering_up"),
        ("alloc+", "allocated+completing"),
        ("fail*", "idle+fail+not_responding"),
        ("idle$", "idle+maintenance"),
    ],
)
def test_the_compact_and_the_complete_form_mean_the_same(compact: str, complete: str) -> None:
    assert worker_state(words_of(compact)) is worker_state(words_of(complete))


def test_work_is_never_hidden_by_any_marks() -> None:
    for first, second in itertools.product(MARKS, repeat=2):
        for base in ("alloc", "mix", "comp", "drng"):
            assert worker_state(words_of(f"{base}{first}{second}")) is WorkerState.BUSY


@pytest.mark.parametrize("mark", MARKS)
def test_no_marked_idle_is_idle(mark: str) -> None:
    assert worker_state(words_of(f"idle{mark}")) is not WorkerState.IDLE


def test_a_drained_node_is_idle_only_where_its_base_state_is_known() -> None:
    assert worker_state(words_of("idle+drain")) is WorkerState.IDLE
    assert worker_state(words_of("down+drain")) is WorkerState.DOWN
    assert worker_state(words_of("drain")) is WorkerState.UNKNOWN


def test_a_reservation_is_seen_in_every_form() -> None:
    for raw in ("idle$", "maint", "resv", "idle+reserved", "allocated+maintenance"):
        assert words_of(raw) & RESERVED
