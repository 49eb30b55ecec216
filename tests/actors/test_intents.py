"""What a run reads from the intents of the run before it (SAFETY.md R1, D12, C12)."""

from __future__ import annotations

from dataclasses import replace

from nodemanager.actors.daemon.intents import (
    ends_of,
    may_be_under_way,
    open_destroys,
    sent_destroys,
    shutdowns_in,
)
from nodemanager.core.explain.events import CLEANED
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.world import life_key
from nodemanager.core.plan.destroy import ShutdownOrder
from nodemanager.core.safety.orders import CleanOrder
from nodemanager.journal.api import Concluded, Intent, IntentKind, OpenIntent
from nodemanager.journal.codec import codec_of
from tests.cases import cases
from tests.core.build import record

CLEAN, CREATE, CLAIM, FENCE, DESTROY = (
    IntentKind.CLEAN,
    IntentKind.CREATE,
    IntentKind.CLAIM,
    IntentKind.FENCE,
    IntentKind.DESTROY,
)
ORDER = ShutdownOrder(
    "i-1", "node-1", "small", Reason.NODE_DOWN, "p", 0, 60.0, None, "r1", "v1", "life"
)
CLEANS = CleanOrder("r1", Reason.STALE_SLOT, "p", 0, 60.0, "v1", "life", "i-1")


def destroy(node: str | None = "i-1", kind: IntentKind = DESTROY) -> Intent:
    details = {"order": codec_of(ShutdownOrder).encode(ORDER)}
    return Intent(kind, f"destroy:{node}", "p", node=node, details=details)


def clean(kind: IntentKind = CLEAN, *, fenced: bool = False, looked: bool = True) -> Intent:
    details = {"order": codec_of(CleanOrder).encode(replace(CLEANS, fenced=fenced))}
    image = record("r1", at=1.0) if looked else None
    return Intent(kind, "clean:r1", "p", record="r1", details=details, pre_image=image)


def ended(intent: Intent, outcome: str) -> Concluded:
    return Concluded(intent, 1.0, 2.0, outcome)


def left(intent: Intent, *, passed_over: bool = False) -> OpenIntent:
    return OpenIntent(
        intent, opened_at=1.0, failures=5 if passed_over else 0, passed_over=passed_over
    )


@cases(
    ("closed", "still_open", "sent"),
    {
        "gone": (ended(destroy(), "gone"), None, [("i-1", 2.0)]),
        "unclear": (ended(destroy(), "unknown"), None, [("i-1", 2.0)]),
        "refused": (ended(destroy(), "failed"), None, []),
        "of-no-node": (ended(destroy(None), "gone"), None, []),
        "a-create": (ended(destroy(kind=CREATE), "gone"), None, []),
        "passed-over": (None, left(destroy(), passed_over=True), [("i-1", None)]),
        "waited-for": (None, left(destroy()), []),
        "passed-over-of-no-node": (None, left(destroy(None), passed_over=True), []),
        "a-passed-over-create": (None, left(destroy(kind=CREATE), passed_over=True), []),
    },
)
def test_a_destroy_that_was_sent_may_hit_its_node_though_nobody_waits_for_it_d12(
    closed: Concluded | None, still_open: OpenIntent | None, sent: list[object]
) -> None:
    """One passed over, too: its node gets no work again."""
    closed_ones = () if closed is None else (closed,)
    left_ones = () if still_open is None else (still_open,)
    assert list(sent_destroys(closed_ones, left_ones)) == sent


@cases(
    ("one", "nodes"),
    {
        "a-destroy": (left(destroy()), ["i-1"]),
        "passed-over": (left(destroy(), passed_over=True), []),
        "of-no-node": (left(destroy(None)), []),
        "a-create": (left(destroy(kind=CREATE)), []),
    },
)
def test_this_run_waits_for_the_destroys_that_are_open_and_not_passed_over_r1(
    one: OpenIntent, nodes: list[str]
) -> None:
    assert list(open_destroys([one])) == nodes


@cases(
    ("one", "ends"),
    {
        "a-node-that-is-gone": (ended(destroy(), "gone"), ["i-1"]),
        "a-destroy-that-was-refused": (ended(destroy(), "failed"), []),
        "a-destroy-of-unknown-outcome": (ended(destroy(), "unknown"), []),
        "of-no-node": (ended(destroy(None), "gone"), []),
        "a-life-that-was-freed": (ended(clean(), CLEANED), [life_key("r1", "life")]),
        "a-clean-that-was-skipped": (ended(clean(), "skipped"), []),
        "an-unreadable-one": (ended(Intent(CLEAN, "clean:r1", "p", record="r1"), CLEANED), []),
    },
)
def test_only_what_is_gone_or_freed_has_ended_r4(one: Concluded, ends: list[str]) -> None:
    assert list(ends_of([one])) == ends


@cases(
    ("intent", "found"),
    {
        "a-clean-behind-its-fence": (clean(fenced=True), [("r1", True)]),
        "a-clean-before-its-fence": (clean(fenced=False), [("r1", False)]),
        "a-fence": (clean(FENCE, fenced=True), [("r1", True)]),
        "a-clean-that-only-looks": (clean(looked=False), []),
        "a-claim": (Intent(CLAIM, "setup:r1", "p", record="r1"), [("r1", False)]),
        "a-create": (Intent(CREATE, "setup:r1", "p", record="r1"), [("r1", False)]),
        "a-clean-whose-order-nobody-can-read-may-free": (
            Intent(CLEAN, "clean:r1", "p", record="r1", pre_image=record("r1", at=1.0)),
            [("r1", True)],
        ),
        "a-destroy-writes-no-record": (destroy(), []),
    },
)
def test_what_a_former_run_may_be_writing_still_and_whether_that_frees_c12(
    intent: Intent, found: list[tuple[str, bool]]
) -> None:
    assert list(may_be_under_way([left(intent)])) == found


@cases(
    ("one", "orders"),
    {
        "gone": (ended(destroy(), "gone"), [(ORDER, 2.0)]),
        "unclear": (ended(destroy(), "unknown"), []),
        "a-create": (ended(destroy(kind=CREATE), "gone"), []),
        "unreadable": (ended(Intent(DESTROY, "destroy:i-1", "p", node="i-1"), "gone"), []),
    },
)
def test_a_shutdown_is_over_once_its_node_is_gone_d3(
    one: Concluded, orders: list[tuple[ShutdownOrder, float]]
) -> None:
    assert list(shutdowns_in([one])) == orders
