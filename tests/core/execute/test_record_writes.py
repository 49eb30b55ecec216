"""What is known of our own writes to records (SAFETY.md U2, C12, B1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nodemanager.core.execute.effects import FreeRecord, LiftFence, StoreWrite
from nodemanager.core.execute.writes import Writes, after_answer, after_poll
from nodemanager.core.model.breaker import Breaker, Cause
from nodemanager.core.model.settings import WRITE_FAILURES, Settings
from nodemanager.core.model.world import Guarantee, Listing, Record
from nodemanager.core.observe.snapshot import LateWrite
from nodemanager.errors import Conflict, RemoteError, StoreError
from tests.cases import cases
from tests.core.build import EPOCH, POOL, START, record

STALE_AFTER_S = Settings(pool=POOL).node_stale_after
FREED = record("r1", at=EPOCH, version="v1")


class Made:
    """Our writes and the breaker, as answers and polls change them."""

    def __init__(self, guarantee: Guarantee = Guarantee.FENCED) -> None:
        self.writes, self.breaker = Writes(guarantee), Breaker()

    def answered(self, effect: StoreWrite, answer: Any, error: RemoteError | None) -> None:
        self.writes, self.breaker = after_answer(
            self.writes, self.breaker, effect, answer, error, START
        )


def listed(*records: Record, began: float) -> Listing[Record]:
    return Listing(records, began, began + 1.0, True)


def after_our_clean() -> Made:
    made = Made()
    made.answered(FreeRecord(replace(FREED, version="v0"), "stale_slot"), FREED, None)
    return made


@cases(
    ("listing", "ours"),
    {
        "as-we-left-it": (listed(FREED, began=START + 1), True),
        "somebody-wrote-it": (listed(replace(FREED, version="v2"), began=START + 1), False),
        "from-before-it": (listed(replace(FREED, version="v0"), began=START - 1), True),
        "it-is-no-more": (listed(began=START + 1), False),
    },
)
def test_a_record_is_our_own_clean_until_somebody_writes_it_u2(
    listing: Listing[Record], ours: bool
) -> None:
    made = after_our_clean()
    writes, _ = after_poll(made.writes, made.breaker, listing, START, Settings(pool=POOL))
    assert writes.own_cleans.keys() == ({"r1"} if ours else set())


UNREAD = Conflict("another version")
UNREAD.unsent = True


@cases(
    ("answer", "error", "works"),
    {
        "a-fence-is-lifted": (FREED, None, True),
        "there-is-none-to-lift": (None, None, False),
        "a-conflict-of-the-write": (None, Conflict("another version"), True),
        "a-conflict-read-before-the-write": (None, UNREAD, False),
    },
)
def test_only_an_answer_to_a_write_says_that_writes_work_b3(
    answer: Record | None, error: StoreError | None, works: bool
) -> None:
    made = Made()
    lift = LiftFence(FREED, "secret")
    for _ in range(WRITE_FAILURES):
        made.answered(lift, None, StoreError("500"))
    assert made.breaker.cause is Cause.WRITES_FAIL
    made.answered(lift, answer, error)
    assert (made.writes.failed > 0, made.breaker.is_open) == (not works, not works)


def test_an_answer_without_a_write_does_not_interrupt_a_row_of_failures_b1() -> None:
    made = Made()
    lift = LiftFence(FREED, "secret")
    for _ in range(WRITE_FAILURES):
        made.answered(lift, None, None)
        made.answered(lift, None, StoreError("500"))
    assert made.breaker.cause is Cause.WRITES_FAIL


def test_a_restored_record_is_no_clean_of_ours_u8() -> None:
    assert after_our_clean().writes.without_own_clean("r1").own_cleans == {}


@cases(
    ("late", "under_way", "known"),
    {
        "a-late-clean-of-a-former-run-frees": (
            {"r1": LateWrite(START - 10, START - 20)},
            (),
            {"r1": LateWrite(START - 10, START - 20)},
        ),
        "a-late-claim": ({"r1": LateWrite(START - 10)}, (), {"r1": LateWrite(START - 10)}),
        "under-way-a-clean": ({}, (("r1", True),), {"r1": LateWrite(START, START)}),
        "under-way-a-claim": ({}, (("r1", False),), {"r1": LateWrite(START)}),
        "both": (
            {"r1": LateWrite(START - 10, START - 20)},
            (("r1", False),),
            {"r1": LateWrite(START, START - 20)},
        ),
    },
)
def test_what_a_former_run_wrote_may_come_late_to_this_one_c12_u2(
    late: dict[str, LateWrite], under_way: tuple[tuple[str, bool], ...], known: dict[str, LateWrite]
) -> None:
    assert Writes(Guarantee.FENCED).inherited(late, under_way, START).late == known


def test_no_write_comes_late_where_the_store_compares_c12() -> None:
    made = Writes(Guarantee.CAS)
    assert made.inherited({"r1": LateWrite(START)}, (("r2", True),), START) == made


def test_a_late_write_is_forgotten_a_window_after_the_last_of_them_c12() -> None:
    settings = Settings(pool=POOL)
    made = Writes(Guarantee.FENCED).inherited({"r1": LateWrite(START)}, (), START)
    assert made.still(START + STALE_AFTER_S, settings).late == {"r1": LateWrite(START)}
    assert made.still(START + STALE_AFTER_S + 1.0, settings).late == {}
