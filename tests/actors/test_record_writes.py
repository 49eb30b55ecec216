"""What is known of our own writes to records (SAFETY.md U2, C12, B1)."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from nodemanager.actors.daemon.record_writes import RecordWrites
from nodemanager.core.execute.books import Books
from nodemanager.core.execute.effects import FreeRecord, LiftFence
from nodemanager.core.execute.recent import Recent
from nodemanager.core.model.breaker import Breaker, Cause
from nodemanager.core.model.settings import WRITE_FAILURES, Settings
from nodemanager.core.model.world import Guarantee, Listing, Record
from nodemanager.core.observe.snapshot import LateWrite
from nodemanager.errors import Conflict, StoreError
from tests.core.build import EPOCH, POOL, START, record

STALE_AFTER_S = Settings(pool=POOL).node_stale_after
FREED = record("r1", at=EPOCH, version="v1")


class Shell:
    """The daemon's context, as far as writes to records need it."""

    def __init__(self, guarantee: Guarantee) -> None:
        self.now = START
        self.settings = Settings(pool=POOL)
        self.inputs = SimpleNamespace(guarantee=guarantee)
        self.books, self.recent, self.breaker = Books(), Recent(), Breaker()
        self.written: list[Any] = []
        self.journal_writer = SimpleNamespace(keep=lambda name, value: self.written.append(value))

    def turn_breaker(self, breaker: Breaker) -> None:
        self.breaker = breaker


def writes(guarantee: Guarantee = Guarantee.FENCED) -> tuple[RecordWrites, Any]:
    shell: Any = Shell(guarantee)
    return RecordWrites(shell), shell


def listed(*records: Record, began: float) -> Listing[Record]:
    return Listing(records, began, began + 1.0, True)


def after_our_clean() -> RecordWrites:
    made, _ = writes()
    made.answered(FreeRecord(replace(FREED, version="v0"), "stale_slot"), FREED, None)
    return made


@pytest.mark.parametrize(
    ("listing", "ours"),
    [
        pytest.param(listed(FREED, began=START + 1), True, id="as-we-left-it"),
        pytest.param(
            listed(replace(FREED, version="v2"), began=START + 1), False, id="somebody-wrote-it"
        ),
        pytest.param(
            listed(replace(FREED, version="v0"), began=START - 1), True, id="from-before-it"
        ),
        pytest.param(listed(began=START + 1), False, id="it-is-no-more"),
    ],
)
def test_a_record_is_our_own_clean_until_somebody_writes_it_u2(
    listing: Listing[Record], ours: bool
) -> None:
    made = after_our_clean()
    made.forget_own_cleans(listing)
    assert made.own_cleans == ({"r1"} if ours else frozenset())


UNREAD = Conflict("another version")
UNREAD.unsent = True


@pytest.mark.parametrize(
    ("answer", "error", "works"),
    [
        pytest.param(FREED, None, True, id="a-fence-is-lifted"),
        pytest.param(None, None, False, id="there-is-none-to-lift"),
        pytest.param(None, Conflict("another version"), True, id="a-conflict-of-the-write"),
        pytest.param(None, UNREAD, False, id="a-conflict-read-before-the-write"),
    ],
)
def test_only_an_answer_to_a_write_says_that_writes_work_b3(
    answer: Record | None, error: StoreError | None, works: bool
) -> None:
    made, shell = writes()
    lift = LiftFence(FREED, "secret")
    for _ in range(WRITE_FAILURES):
        made.answered(lift, None, StoreError("500"))
    assert shell.breaker.cause is Cause.WRITES_FAIL
    made.answered(lift, answer, error)
    assert (made.failing, shell.breaker.is_open) == (not works, not works)


def test_an_answer_without_a_write_does_not_interrupt_a_row_of_failures_b1() -> None:
    made, shell = writes()
    lift = LiftFence(FREED, "secret")
    for _ in range(WRITE_FAILURES):
        made.answered(lift, None, None)
        made.answered(lift, None, StoreError("500"))
    assert shell.breaker.cause is Cause.WRITES_FAIL


def test_a_restored_record_is_no_clean_of_ours_u8() -> None:
    made = after_our_clean()
    made.restored("r1")
    assert made.own_cleans == frozenset()


@pytest.mark.parametrize(
    ("late", "under_way", "known"),
    [
        pytest.param(
            {"r1": LateWrite(START - 10, START - 20)},
            (),
            {"r1": LateWrite(START - 10, START - 20)},
            id="a-late-clean-of-a-former-run-frees",
        ),
        pytest.param(
            {"r1": LateWrite(START - 10)}, (), {"r1": LateWrite(START - 10)}, id="a-late-claim"
        ),
        pytest.param({}, (("r1", True),), {"r1": LateWrite(START, START)}, id="under-way-a-clean"),
        pytest.param({}, (("r1", False),), {"r1": LateWrite(START)}, id="under-way-a-claim"),
        pytest.param(
            {"r1": LateWrite(START - 10, START - 20)},
            (("r1", False),),
            {"r1": LateWrite(START, START - 20)},
            id="both",
        ),
    ],
)
def test_what_a_former_run_wrote_may_come_late_to_this_one_c12_u2(
    late: dict[str, LateWrite], under_way: tuple[tuple[str, bool], ...], known: dict[str, LateWrite]
) -> None:
    made, shell = writes()
    made.load(late, under_way)
    assert made.late == known
    assert shell.written[-1] == known


def test_no_write_comes_late_where_the_store_compares_c12() -> None:
    made, shell = writes(Guarantee.CAS)
    made.load({"r1": LateWrite(START)}, (("r2", True),))
    assert (made.late, shell.written) == ({}, [])


def test_a_late_write_is_forgotten_a_window_after_the_last_of_them_c12() -> None:
    made, _ = writes()
    made.load({"r1": LateWrite(START)}, ())
    made.forget_late(START + STALE_AFTER_S)
    assert made.late == {"r1": LateWrite(START)}
    made.forget_late(START + STALE_AFTER_S + 1.0)
    assert made.late == {}
