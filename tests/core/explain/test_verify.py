"""`nodemanager verify`: what one snapshot shows is at rest, settles, is stuck, or stands apart."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

import nodemanager.core as core
from nodemanager.core.explain.explain import DecisionView
from nodemanager.core.explain.verify import Sum, Verification, of_refusal, verify
from nodemanager.core.model.annotations import PAUSE, Mark
from nodemanager.core.model.breaker import Cause
from nodemanager.core.model.changed import changed
from nodemanager.core.model.reasons import BOOT, NODE, POOL, RECORD, Means, Outlook, Reason
from nodemanager.core.model.world import CloudState, Job, Tags, WorkerState
from nodemanager.core.observe.snapshot import Expected, Flight, Limits
from nodemanager.core.safety.breaker import opened
from tests.cases import cases
from tests.core.build import World, cleaned, node, world

CORE = Path(core.__file__).parent


def pool(nodes: int = 2, **settings: object) -> World:
    """A pool that is at rest: `nodes` idle nodes, as many as min_nodes wants."""
    made = world(**{"min_nodes": nodes, "max_nodes": 4, "node_stale_after": 7200.0, **settings})
    made.flags["slots"] = 8
    for number in range(1, nodes + 1):
        made.add_record(f"r{number}", worker_state=WorkerState.IDLE)
        made.add_node(f"r{number}")
    look(made, 3)
    return made


def look(made: World, rounds: int = 1, *silent: str) -> World:
    """Rounds of polls in which every node pings that a record names, but for the `silent`."""
    for _ in range(rounds):
        made.advance(60.0)
        for one in made.nodes:
            uuid = one.tags.record
            for record in [one for one in made.records if one.uuid == uuid not in silent]:
                if record.last_ping_at is not None:
                    made.ping(record.uuid, record.worker_state)
        made.flags["demand_at"] = made.now
        made.round()
    return made


def seen(made: World, *, later: float = 0.0, allow_empty: bool = False) -> Verification:
    decision = DecisionView(made.decided, made.last, made.settings)
    return verify(decision, made.now + later, allow_empty=allow_empty)


def found(told: Verification) -> list[tuple[str, str | None, Reason, Outlook]]:
    return [(one.what.value, one.id, one.reason, one.outlook) for one in told.open]


def test_a_pool_at_rest_is_settled_and_its_numbers_add_up() -> None:
    told = seen(pool())
    assert (told.outlook, told.open, told.held) == (Outlook.SETTLED, (), ())
    assert told.nodes == {
        "listed": 2,
        "up": 2,
        "settling": 0,
        "stuck": 0,
        "held": 0,
        "untagged": 0,
        "foreign": 0,
        "gone": 0,
        "coming": 0,
    }
    assert told.slots == {"held": 2, "leaked": 0, "total": 8}
    assert told.boots == {}


@cases("read_only", {"it-writes": (None, "apply"), "read-only": ("another store", "read-only")})
def test_the_first_line_says_whether_the_manager_writes(
    read_only: tuple[str | None, str],
) -> None:
    made = pool()
    made.flags["read_only"] = read_only[0]
    look(made)
    assert seen(made).mode == read_only[1]


# What may still settle.


def booting(made: World) -> None:
    made.with_settings(min_nodes=3)
    made.add_record("r9", pinged=False)
    made.add_node("r9", age=10.0)
    look(made)


def to_be_booted(made: World) -> None:
    made.with_settings(min_nodes=3)
    look(made)


def being_set_up(made: World) -> None:
    made.with_settings(min_nodes=3)
    made.flags["boots_unclaimed"] = ("small",)
    look(made)


def created_and_not_listed(made: World) -> None:
    made.with_settings(min_nodes=3)
    made.add_record("r9", pinged=False)
    made.flags["expected"] = {"r9": Expected("i-r9", "small", made.now)}
    look(made)


def created_and_in_no_listing_at_all(made: World) -> None:
    made.with_settings(min_nodes=3)
    made.flags["expected"] = {"r9": Expected("i-r9", "small", made.now)}
    look(made)


def set_up_on_a_cleaned_record(made: World) -> None:
    """The listing shows the record as it was before the claim: it holds nothing."""
    made.with_settings(min_nodes=3)
    made.records.append(cleaned("r9", at=made.ago(9000.0)))
    made.flags["record_flights"] = {"r9": Flight("setup", made.now)}
    look(made)


def missing_since_a_moment(made: World) -> None:
    made.drop_node("i-r2")
    look(made)


def shut_down(made: World) -> None:
    made.flags["node_flights"] = {"i-r2": Flight("shutdown:bad", made.now)}
    look(made)


def failed_to_boot(made: World) -> None:
    made.add_record("r9", pinged=False, quiet=5000.0)
    made.add_node("r9", age=5000.0)
    look(made, 40)


def silent_for_long(made: World) -> None:
    made.change("r2", worker_state=None)
    look(made, 70, "r2")


def unlisted_polls(made: World) -> None:
    made.advance(made.settings.poll_stale_after)
    made.plan()


def on_standby(made: World) -> None:
    made.flags["lease"] = False
    look(made)


def throttled(made: World) -> None:
    made.with_settings(min_nodes=3)
    made.flags["limits"] = Limits(throttled_until=made.now + 1000.0)
    look(made)


def resting_for_want_of_capacity(made: World) -> None:
    made.with_settings(min_nodes=3, sizes=made.settings.sizes[:1])
    made.flags["limits"] = Limits(resting={"small": made.now + 1000.0})
    look(made)


@cases(
    ("change", "expected"),
    {
        "a-node-boots": (booting, ("node", "i-r9", Reason.BOOTING)),
        "a-boot-is-due": (to_be_booted, ("boot", "small", Reason.BELOW_MIN_NODES)),
        "a-set-up": (being_set_up, ("boot", "small", Reason.IN_FLIGHT)),
        "created-just-now": (created_and_not_listed, ("record", "r9", Reason.NODE_EXPECTED)),
        "created-and-its-record-is-not-listed-either": (
            created_and_in_no_listing_at_all,
            ("record", "r9", Reason.NODE_EXPECTED),
        ),
        "a-reused-record": (set_up_on_a_cleaned_record, ("record", "r9", Reason.IN_FLIGHT)),
        "one-listing-lacks-a-node": (missing_since_a_moment, ("record", "r2", Reason.NOT_SETTLED)),
        "a-shutdown": (shut_down, ("node", "i-r2", Reason.SHUTTING_DOWN)),
        "to-be-replaced": (failed_to_boot, ("node", "i-r9", Reason.BOOT_FAILED)),
        "a-silent-node": (silent_for_long, ("node", "i-r2", Reason.SILENT_WITHIN_WINDOW)),
        "old-polls": (unlisted_polls, ("pool", None, Reason.POLL_STALE)),
        "no-lease-yet": (on_standby, ("pool", None, Reason.NO_LEASE)),
        "throttled": (throttled, ("boot", "small", Reason.THROTTLED)),
        "no-capacity": (resting_for_want_of_capacity, ("boot", "small", Reason.SIZE_RESTS)),
    },
)
def test_it_waits_while_something_may_still_settle(
    change: Callable[[World], None], expected: tuple[str, str | None, Reason]
) -> None:
    made = pool()
    change(made)
    told = seen(made)
    assert (*expected, Outlook.SETTLING) in found(told)
    assert told.outlook is Outlook.SETTLING


# What waiting can't mend.


def breaker_open(made: World) -> None:
    made.breaker = opened(made.breaker, Cause.FALSE_CLEAN, frozenset(), made.now, {})
    look(made)


def paused(made: World) -> None:
    made.flags["pool_marks"] = {PAUSE: Mark("ann", made.store_now, "upgrade")}
    look(made)


def read_only(made: World) -> None:
    made.flags["read_only"] = "another account"
    look(made)


def refused_as_wrong(made: World) -> None:
    made.with_settings(min_nodes=3, sizes=made.settings.sizes[:1])
    made.flags["limits"] = Limits(resting={"small": made.now + 1000.0}, bad={"small": 1})
    look(made)


def at_quota(made: World) -> None:
    made.with_settings(min_nodes=3)
    made.flags["limits"] = Limits(quota=2, quota_at=made.now)
    look(made)


def no_slot(made: World) -> None:
    made.with_settings(min_nodes=3)
    made.flags["slots"] = 2
    look(made)


def unreadable(made: World) -> None:
    made.change_node("i-r2", problems=("no id",))
    look(made)


def listed_twice(made: World) -> None:
    for number in range(10, 40):
        made.add_record(f"r{number}", worker_state=WorkerState.BUSY)
        made.add_node(f"r{number}")
    made.flags["slots"] = 64
    made.with_settings(max_nodes=64)
    look(made)
    made.nodes.append(made.nodes[0])
    look(made)


def contradictory(made: World) -> None:
    made.change("r2", slot_number=1)
    look(made)


def backlog(made: World) -> None:
    made.with_settings(max_cleans_per_cycle=1, hold_backlog=True)
    made.flags["first_clean"] = True
    made.add_record("old1", quiet=9000.0)
    made.add_record("old2", quiet=9000.0)
    made.settle()


@cases(
    ("change", "expected"),
    {
        "breaker": (breaker_open, ("pool", None, Reason.BREAKER_OPEN)),
        "paused": (paused, ("pool", None, Reason.PAUSED)),
        "read-only": (read_only, ("pool", None, Reason.READ_ONLY)),
        "wrong-image": (refused_as_wrong, ("boot", "small", Reason.SIZE_RESTS)),
        "quota": (at_quota, ("boot", "small", Reason.AT_QUOTA)),
        "no-slot-will-be-free": (no_slot, ("boot", "small", Reason.NO_FREE_SLOT)),
        "unreadable": (unreadable, ("node", "i-r2", Reason.UNREADABLE)),
        "listed-twice": (listed_twice, ("pool", None, Reason.IMPOSSIBLE)),
        "two-on-one-slot": (contradictory, ("pool", None, Reason.TOO_MANY_IMPOSSIBLE)),
        "backlog": (backlog, ("record", "old1", Reason.BACKLOG_HELD)),
    },
)
def test_it_ends_at_once_on_what_waiting_can_not_mend(
    change: Callable[[World], None], expected: tuple[str, str | None, Reason]
) -> None:
    made = pool()
    change(made)
    told = seen(made)
    assert (*expected, Outlook.STUCK) in found(told)
    assert told.outlook is Outlook.STUCK


def test_what_is_stuck_is_named_before_what_settles() -> None:
    made = pool()
    booting(made)
    breaker_open(made)
    (first, *_, last) = seen(made).open
    assert (first.reason, first.outlook) == (Reason.BREAKER_OPEN, Outlook.STUCK)
    assert last.outlook is Outlook.SETTLING


# What is counted apart.


def held_in_a_bad_way(made: World) -> None:
    """Something else is found before the hold: a shutdown in flight, an unreadable record."""
    made.flags["holds"] = frozenset({"i-r9", "r8"})
    made.add_record("r8", slot=7, quiet=9000.0, problems=("no version",))
    made.add_record("r9", slot=6, pinged=False, quiet=9000.0)
    made.add_node("r9", problems=("no size",))
    made.flags["node_flights"] = {"i-r9": Flight("shutdown:bad", made.now)}
    look(made, 3)


def foreign(made: World) -> None:
    made.nodes.append(node(id="i-others", pool="others", state=CloudState.STOPPED))
    made.add_record("theirs", pool="others", slot=5, quiet=90_000.0)
    look(made, 3)


def by_hand_and_unpaired(made: World) -> None:
    made.add_node(id="i-hand", tags=Tags())
    look(made, 3)


def quiet_for_less_than_its_window(made: World) -> None:
    """Its node is gone for good, and was replaced: only the slot's window has to end."""
    made.add_record("r9", slot=6, quiet=1000.0)
    look(made, 3)


def at_max_nodes(made: World) -> None:
    made.with_settings(max_nodes=2)
    made.change("r1", worker_state=WorkerState.BUSY)
    made.change("r2", worker_state=WorkerState.BUSY)
    made.flags["demand"] = (Job("j1", 1, 1, 0),)
    look(made)


@cases(
    ("change", "count"),
    {
        "held": (held_in_a_bad_way, ("held", 1)),
        "foreign": (foreign, ("foreign", 1)),
        "untagged": (by_hand_and_unpaired, ("untagged", 1)),
        "a-window-that-runs": (quiet_for_less_than_its_window, ("up", 2)),
        "as-large-as-it-may-be": (at_max_nodes, ("up", 2)),
    },
)
def test_these_are_counted_apart_and_never_fail_it(
    change: Callable[[World], None], count: tuple[str, int]
) -> None:
    made = pool()
    for uuid in ("r1", "r2"):
        made.ping(uuid, WorkerState.BUSY)
    change(made)
    told = seen(made)
    assert found(told) == []
    assert told.outlook is Outlook.SETTLED
    assert told.nodes["up"] == 2
    assert told.nodes[count[0]] == count[1]


def test_what_is_held_is_named_and_a_leak_is_counted() -> None:
    made = pool()
    held_in_a_bad_way(made)
    told = seen(made)
    assert {one.id for one in told.held} == {"i-r9", "r8"}
    assert {one.reason for one in told.held} == {Reason.HELD}
    assert told.slots["leaked"] == 1


# Nothing at all, and impossible sums.


def empty() -> World:
    made = pool(nodes=0)
    made.nodes.append(node(id="i-others", pool="others"))
    look(made)
    return made


def test_nothing_at_all_fails_unless_that_is_allowed() -> None:
    made = empty()
    told = seen(made)
    assert found(told) == [("pool", None, Reason.POOL_EMPTY, Outlook.STUCK)]
    assert told.outlook is Outlook.STUCK
    assert seen(made, allow_empty=True).outlook is Outlook.SETTLED


def test_an_empty_pool_whose_first_node_is_wanted_is_waited_for() -> None:
    made = empty().with_settings(min_nodes=1)
    look(made)
    assert seen(made).outlook is Outlook.SETTLING


def test_a_pool_of_one_held_node_is_not_empty() -> None:
    made = pool(nodes=1)
    made.flags["holds"] = frozenset({"i-r1"})
    look(made)
    told = seen(made)
    assert (told.nodes["held"], told.outlook) == (1, Outlook.SETTLED)


@pytest.mark.parametrize("allow_empty", [False, True])
@pytest.mark.parametrize("count", ["nodes", "nodes_booting", "nodes_paired"])
def test_a_sum_that_does_not_add_up_fails_it(count: str, allow_empty: bool) -> None:
    made = pool()
    counts = {**made.last.counts, count: made.last.counts.get(count, 0) + 1}
    made.last = changed(made.last, counts=counts)
    told = seen(made, allow_empty=allow_empty)
    assert [(one.reason, one.outlook) for one in told.open] == [
        (Reason.SUM_IMPOSSIBLE, Outlook.STUCK)
    ]
    assert told.outlook is Outlook.STUCK


def test_more_slots_held_than_there_are_fail_it() -> None:
    made = pool()
    made.flags["slots"] = 1
    look(made)
    (first, *_) = seen(made).open
    assert first.reason is Reason.SUM_IMPOSSIBLE
    assert first.measures == {"sum": "slots", "at_most": 1, "held": 2}


@cases(
    ("one", "possible"),
    {
        "adds-up": (Sum("s", 3, {"a": 1, "b": 2}), True),
        "too-little": (Sum("s", 3, {"a": 1, "b": 1}), False),
        "too-much": (Sum("s", 3, {"a": 2, "b": 2}), False),
        "below-zero": (Sum("s", 3, {"a": 4, "b": -1}), False),
        "at-most": (Sum("s", 3, {"a": 1}, at_most=True), True),
        "over-the-most": (Sum("s", 3, {"a": 4}, at_most=True), False),
    },
)
def test_which_sums_are_possible(one: Sum, possible: bool) -> None:
    assert one.is_possible is possible


def test_a_decision_that_nothing_followed_grows_old() -> None:
    """The daemon hangs: its newest decision was fine, and is no evidence any more."""
    made = pool()
    assert seen(made, later=300.0).outlook is Outlook.SETTLED
    told = seen(made, later=made.settings.poll_stale_after + 60.0)
    assert found(told) == [("pool", None, Reason.POLL_STALE, Outlook.SETTLING)]
    assert told.age_s == made.settings.poll_stale_after + 60.0


def test_a_daemon_without_any_listing_yet_settles() -> None:
    made = world()
    made.plan()
    assert found(seen(made)) == [("pool", None, Reason.NO_LISTING, Outlook.SETTLING)]


# The tables.


def reasons_in(*files: str) -> set[Reason]:
    """Every member of Reason that those files of core name."""
    names = set()
    for file in files:
        for one in ast.walk(ast.parse((CORE / file).read_text(encoding="utf-8"))):
            of = one.value if isinstance(one, ast.Attribute) else None
            if isinstance(one, ast.Attribute) and isinstance(of, ast.Name) and of.id == "Reason":
                names.add(Reason[one.attr])
    return names


OF_BOTH = ("judge/preconditions.py",)
NODE_FILES = ("judge/nodes.py", "judge/idle.py", "plan/plan.py", "plan/orders.py", *OF_BOTH)
RECORD_FILES = ("judge/records.py", "plan/due.py", *OF_BOTH)
NEVER_LISTED = {Reason.NODE_ABSENT, Reason.NO_LISTING, Reason.TOO_MANY_IMPOSSIBLE}
NO_SLOT = {Reason.HOLDS_NOTHING}
ORDERED = {Reason.FENCE_LEFT}
OF_PLANS = {Reason.STOPPING, Reason.THROTTLED}
"""Why a whole plan is not carried out: no node, record or pool is told so."""
OF_PRUNES = {Reason.SURPLUS}
OF_JOBS = {Reason.NO_FITTING_SIZE, Reason.JOB_OVER_MAX_NODES, Reason.JOB_OVER_MAX_PRICE}
OF_IDLE_NODES = {Reason.CHANGED_SINCE_LISTING, Reason.SHUTTING_DOWN, Reason.NOT_AUTHORISED}


@cases(
    ("subject", "files", "left_out"),
    {
        "nodes": (NODE, NODE_FILES, NEVER_LISTED | OF_PLANS),
        "records": (RECORD, RECORD_FILES, NO_SLOT | ORDERED | OF_PLANS | OF_PRUNES),
        "boots": (BOOT, ("plan/demand.py", *OF_BOTH), OF_JOBS | OF_IDLE_NODES | {Reason.STOPPING}),
        "pool": (POOL, OF_BOTH, OF_PLANS),
    },
)
def test_each_reason_that_a_judge_can_give_has_an_outlook(
    subject: Means, files: tuple[str, ...], left_out: set[Reason]
) -> None:
    given = reasons_in(*files) - left_out
    assert {one for one in given if subject not in one.outlooks} == set()


@cases(
    ("reason", "bad", "free_in_s", "expected"),
    {
        "no-capacity": (Reason.SIZE_RESTS, 0, None, Outlook.SETTLING),
        "bad-request": (Reason.SIZE_RESTS, 1, None, Outlook.STUCK),
        "a-slot-soon": (Reason.NO_FREE_SLOT, 0, 30.0, Outlook.SETTLING),
        "no-slot-ever": (Reason.NO_FREE_SLOT, 0, None, Outlook.STUCK),
        "as-configured": (Reason.AT_MAX_NODES, 0, None, Outlook.APART),
    },
)
def test_a_refused_boot_is_waited_for_only_where_that_helps(
    reason: Reason, bad: int, free_in_s: float | None, expected: Outlook
) -> None:
    assert of_refusal(reason, bad_requests=bad, slot_free_in_s=free_in_s) is expected
