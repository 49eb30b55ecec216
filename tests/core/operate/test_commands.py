"""Whom a command names, and what is answered to it (doc/rules O1-O4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from nodemanager.core.model.annotations import FORCIBLE, UNVERIFIABLE, HandClean, Mark
from nodemanager.core.model.breaker import Breaker
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.verdict import keep
from nodemanager.core.model.world import CloudNode, CloudState, FreedLife, Listing, Record
from nodemanager.core.observe.history import History
from nodemanager.core.observe.pairing import NO_PAIRS
from nodemanager.core.observe.snapshot import Expected, Snapshot
from nodemanager.core.operate import commands
from nodemanager.core.operate.commands import find
from nodemanager.core.operate.naming import Known, Named
from nodemanager.core.operate.replies import Command, Reply, Result, lacks_reason
from nodemanager.core.operate.verbs import Verb
from nodemanager.core.plan.plan import Plan
from tests.cases import cases
from tests.core.build import EPOCH, START, World, incarnation_of, node, pinging_round, world

MARK = Mark("ann", EPOCH + START, "new image", incarnation_of("r1"))
PAIR = Named("r1", "i-r1", "r1")
BY_NODE = Named("i-r1", "i-r1", "r1")


def pair_and_leak() -> World:
    made = world()
    made.add_record("r1", slot=1, quiet=100.0)
    made.add_node("r1")
    made.add_record("r2", slot=2, quiet=100.0)
    made.round()
    return made


def known(made: World, *others: str) -> Known:
    return Known(made.history, made.last.pairs, frozenset(others))


# Names.


def test_a_name_that_two_have_is_refused_and_one_that_nobody_has_is_unknown() -> None:
    made = pair_and_leak()
    made.change("r2", hostname="compute1")
    made.round()
    twice = find("compute1", known(made))
    assert isinstance(twice, Reply)
    assert (twice.result, twice.reason) == (Result.REFUSED, Reason.AMBIGUOUS_NAME)
    nobody = find("compute11", known(made))
    assert isinstance(nobody, Reply)
    assert (nobody.result, nobody.nearest) == (Result.UNKNOWN, "compute1")
    assert isinstance(find("nothing-like-it-at-all", known(made)), Reply)


def test_before_there_is_a_listing_nobody_is_known_to_be_unknown() -> None:
    assert not Known(world().history, NO_PAIRS).is_complete
    assert known(pair_and_leak()).is_complete


ANN = Mark("ann", 0.0, "it burned")

# Rules.


@pytest.mark.parametrize("rule", sorted(FORCIBLE))
def test_what_may_be_broken_by_name_is_not_refused(rule: str) -> None:
    assert commands.forcing((rule,), ANN) is None


@cases(
    ("by", "reason"),
    {"nobody": ("", "it burned"), "blanks": ("  ", "it burned"), "no-reason": ("ann", "")},
)
def test_a_force_that_nobody_stands_for_is_refused(by: str, reason: str) -> None:
    """The proof does not take it either (O3, N9)."""
    said = commands.forcing(("C3",), Mark(by, 0.0, reason))
    assert said is not None
    assert (said.result, said.reason) == (Result.REFUSED, Reason.NEVER_FORCED)
    assert "who orders it and why" in said.text
    assert commands.forcing((), Mark(by, 0.0, reason)) is None


NEVER = "C0 C1 C4 C6 C7 C8 C9 C10 C11 C12 C20 C21 T1 T3 L5 B2 O4 P6 c3 everything"


@pytest.mark.parametrize("rule", [*NEVER.split(), ""])
def test_no_other_rule_may_be_broken_and_the_refusal_says_which_may(rule: str) -> None:
    said = commands.forcing(("C3", rule), ANN)
    assert said is not None
    assert (said.result, said.reason, said.rule) == (Result.REFUSED, Reason.NEVER_FORCED, "O3")
    assert all(one in said.text for one in FORCIBLE)


@cases(
    ("command", "lacks"),
    {
        "kill": (Command(Verb.KILL, "ann", id="i-1"), True),
        "kill-for-one": (Command(Verb.KILL, "ann", "it hangs", id="i-1"), False),
        "pause": (Command(Verb.PAUSE, "ann"), True),
        "forced-clean": (Command(Verb.CLEAN, "ann", id="r1", forced=("C3",)), True),
        "clean": (Command(Verb.CLEAN, "ann", id="r1"), False),
        "drain": (Command(Verb.DRAIN, "ann", id="i-1"), False),
        "resume": (Command(Verb.RESUME, "ann"), False),
    },
)
def test_what_is_only_done_for_a_reason(command: Command, lacks: bool) -> None:
    assert (lacks_reason(command) is not None) is lacks


def test_a_refusal_names_reason_rule_and_measures_and_how_to_break_it() -> None:
    said = commands.refused(
        Verb.CLEAN, keep("r1", Reason.WITHIN_WINDOW, idle_s=812.25, window_s=7200.0), PAIR
    )
    assert (said.reason, said.rule) == (Reason.WITHIN_WINDOW, "C3")
    assert said.measures == {"idle_s": 812.25, "window_s": 7200.0}
    assert "idle_s=812.2, window_s=7200.0" in said.text
    assert "`--force C3`" in said.text
    blind = commands.refused(Verb.CLEAN, keep("r1", Reason.UNVERIFIABLE), PAIR)
    assert f"`--force {UNVERIFIABLE}`" in blind.text
    listed = commands.refused(Verb.CLEAN, keep("r1", Reason.PAIRED), PAIR)
    assert "--force" not in listed.text


# What a plan makes of it.


def test_a_kill_stands_when_the_plan_orders_it_and_is_refused_by_what_keeps_the_node() -> None:
    made = pair_and_leak()
    made.flags["kills"] = {"i-r1": MARK}
    assert commands.of_kill(BY_NODE, made.plan(), made.snapshot(), ()).result is Result.DONE
    made.flags["holds"] = frozenset({"i-r1"})
    said = commands.of_kill(BY_NODE, made.plan(), made.snapshot(), ())
    assert (said.result, said.reason, said.rule) == (Result.REFUSED, Reason.HELD, "C9")


def test_a_kill_that_the_cap_puts_off_stands() -> None:
    """D9."""
    made = pair_and_leak().with_settings(max_shutdowns_per_cycle=0)
    made.flags["kills"] = {"i-r1": MARK}
    assert made.round().shutdowns == ()
    assert commands.of_kill(BY_NODE, made.last, made.snapshot(), ()).result is Result.DONE


KNOWN_TO_BE_GONE = pytest.mark.parametrize(
    ("destroyed", "listed", "lives", "is_gone"),
    [
        pytest.param(set(), [], [], False, id="just-unlisted"),
        pytest.param({"i-r1"}, [], [], True, id="destroyed-by-us"),
        pytest.param({"i-r2"}, [], [], False, id="another-destroyed"),
        pytest.param(set(), [CloudState.TERMINATED], [], True, id="terminated"),
        pytest.param(set(), [], [None], True, id="its-record-freed"),
        pytest.param(set(), [], [5.0], False, id="its-record-freed-by-mistake-U8"),
    ],
)


def history_with(listed: list[CloudState], lives: list[float | None]) -> History:
    nodes = tuple(CloudNode("i-r1", "n", state) for state in listed)
    freed = [FreedLife("r1", "a", 1.0, "i-r1", reported_at=at) for at in lives]
    listing = Listing(nodes, 1.0, 2.0)
    records: Listing[Record] = Listing((), 1.0, 2.0)
    return History(cloud=listing, records=records, freed={life.key: life for life in freed})


@KNOWN_TO_BE_GONE
def test_only_a_node_that_is_known_to_be_gone_needs_no_order(
    destroyed: set[str], listed: list[CloudState], lives: list[float | None], is_gone: bool
) -> None:
    """A kill or a drain of any other one is refused (O1, O2)."""
    history = history_with(listed, lives)
    snapshot = Snapshot("p", 10.0, EPOCH, history)
    plan = Plan("p", history, Breaker(), NO_PAIRS)
    for of in (commands.of_kill, commands.of_drain):
        said = of(BY_NODE, plan, snapshot, destroyed)
        if is_gone:
            assert (said.result, said.reason) == (Result.ALREADY, None)
            assert "gone already" in said.text
        else:
            assert (said.result, said.reason) == (Result.REFUSED, Reason.NODE_ABSENT)
            assert "not listed" in said.text
            assert "Try again" in said.text


def test_a_node_that_was_just_destroyed_and_is_still_listed_needs_no_order() -> None:
    made = pair_and_leak()
    made.flags["gone"] = {"i-r1": made.now}
    plan = made.plan()
    assert made.of_node("i-r1").reason is Reason.NODE_ABSENT
    for of in (commands.of_kill, commands.of_drain):
        assert of(BY_NODE, plan, made.snapshot(), {"i-r1"}).result is Result.ALREADY


@KNOWN_TO_BE_GONE
def test_only_a_node_that_is_known_to_be_gone_is_undrained_too_late(
    destroyed: set[str], listed: list[CloudState], lives: list[float | None], is_gone: bool
) -> None:
    known = Known(history_with(listed, lives), NO_PAIRS)
    said = commands.nothing_to_undo(BY_NODE, known, destroyed)
    assert (said.result, said.reason) == (Result.REFUSED, Reason.NODE_ABSENT)
    assert ("too late" in said.text) is is_gone
    assert ("not listed" in said.text) is not is_gone


def test_a_node_that_is_not_listed_yet_is_not_taken_for_gone() -> None:
    """P4."""
    made = pair_and_leak()
    snapshot = made.snapshot(expected={"r5": Expected("i-r5", "small", made.now)})
    for of in (commands.of_kill, commands.of_drain):
        said = of(Named("i-r5", "i-r5"), made.last, snapshot, ())
        assert (said.result, said.rule) == (Result.REFUSED, "P4")


@cases(
    ("held", "kills", "drains"),
    {
        "free": (False, (Result.DONE, None), (Result.DONE, None)),
        "held": (True, (Result.REFUSED, "C9"), (Result.REFUSED, "C9")),
    },
)
def test_an_unlisted_node_that_the_cloud_has_is_not_taken_for_gone(
    held: bool, kills: tuple[Result, str | None], drains: tuple[Result, str | None]
) -> None:
    """Asked by id, the cloud has it, and the plan judges it as if it were listed (D13, O1, O2)."""
    made = world(max_nodes=4, min_nodes=0, boot_fail_after=600.0, node_stale_after=1200.0)
    made.add_record("r1", instance_id="i-r1")
    born = node("r1", created_at=made.ago(0.0), held=held)
    made.round(22)
    made.answer({"i-r1": born})
    made.advance(60.0)
    made.flags["kills"] = {"i-r1": MARK}
    plan = made.round()
    assert plan.unlisted.unheard.keys() == {"r1"}
    assert made.destroyed == ([] if held else ["i-r1"])
    said = commands.of_kill(BY_NODE, plan, made.snapshot(), ())
    assert (said.result, said.rule) == kills
    said = commands.of_drain(BY_NODE, plan, made.snapshot(), ())
    assert (said.result, said.rule) == drains


def test_an_unlisted_node_that_pings_is_not_taken_for_gone() -> None:
    """Asked by id, the cloud has it; a drain waits until it is listed again (P6, O1, O2)."""
    made = world(max_nodes=4, min_nodes=0)
    made.add_record("r1", instance_id="i-r1")
    born = node("r1", created_at=made.ago(10_000.0))
    pinging_round(made, 2)
    made.answer({"i-r1": born})
    made.flags["kills"] = {"i-r1": MARK}
    pinging_round(made, 1)
    assert (made.destroyed, made.of_record("r1").reason) == ([], Reason.LISTING_SHORT)
    said = commands.of_kill(BY_NODE, made.last, made.snapshot(), ())
    assert (said.result, said.reason, said.rule) == (Result.REFUSED, Reason.LISTING_SHORT, "P6")
    assert commands.of_drain(BY_NODE, made.last, made.snapshot(), ()).result is Result.DONE


def test_a_plan_that_was_not_taken_refuses_with_its_reason() -> None:
    """L1."""
    made = world()
    plan = made.plan()
    said = commands.of_kill(BY_NODE, plan, made.snapshot(), ())
    assert (said.result, said.reason, said.rule) == (Result.REFUSED, Reason.NO_LISTING, "L1")
    assert commands.of_drain(BY_NODE, plan, made.snapshot(), ()).reason is Reason.NO_LISTING
    refused = commands.of_clean(PAIR, plan)
    assert refused is not None
    assert refused.reason is Reason.NO_LISTING


def test_a_clean_that_is_ordered_is_not_answered_yet() -> None:
    made = world()
    made.add_record("r1", quiet=9000.0)
    made.settle()
    made.flags["by_hand"] = {"r1": HandClean("ann", EPOCH + START)}
    plan = made.plan()
    assert made.of_record("r1").kind is Kind.CLEAN
    assert commands.of_clean(Named("r1", None, "r1"), plan) is None


@pytest.mark.parametrize("verb", [Verb.CLEAN, Verb.KILL], ids=str)
def test_what_is_read_only_by_the_journal_names_the_rule_that_explain_names(verb: Verb) -> None:
    said = commands.refused(verb, keep("r1", Reason.READ_ONLY, detail="the disk is full"), PAIR)
    assert (said.rule, said.measures["detail"]) == ("L5", "the disk is full")


def _unreadable(made: World) -> None:
    made.change("r1", problems=("slot_number",))
    made.settle()


def _others(made: World) -> None:
    made.change("r1", pool="theirs")
    made.settle()


def _read_only(made: World) -> None:
    made.flags["read_only"] = "another account"


def _unleased(made: World) -> None:
    made.flags["lease"] = False


def _touched(made: World) -> None:
    made.flags["touched"] = {"r1": 1e9}


def _changed(made: World) -> None:
    made.change("r1", version="v2")
    made.poll_records()


def _lacked(made: World) -> None:
    made.poll_records([])


@cases(
    ("happens", "rule"),
    {
        "touched-by-us": (_touched, "C8 changed_since_listing"),
        "another-version": (_changed, "C6 changed_since_listing"),
        "lacked": (_lacked, "C6 changed_since_listing"),
        "unreadable": (_unreadable, "T7 unreadable"),
        "anothers": (_others, "C0 other_pool"),
        "read-only": (_read_only, "L5 read_only"),
        "no-lease": (_unleased, "L6 no_lease"),
    },
)
def test_a_refused_clean_names_the_rule_of_the_check_that_objects(
    happens: Callable[[World], None], rule: str
) -> None:
    made = world()
    made.add_record("r1", quiet=20_000.0)
    made.settle()
    happens(made)
    said = commands.of_clean(Named("r1", None, "r1"), made.plan())
    assert said is not None
    assert f"{said.rule} {said.reason}" == rule


def test_a_record_that_is_clean_already_needs_no_clean() -> None:
    made = world()
    made.add_record("r1", quiet=9000.0)
    made.free("r1")
    plan = made.round()
    said = commands.of_clean(Named("r1", None, "r1"), plan)
    assert said is not None
    assert said.result is Result.ALREADY


def test_marks_of_nodes_that_are_no_more_are_forgotten_and_others_stand() -> None:
    """A listing that only lacks a node may be short."""
    made = pair_and_leak()
    made.nodes.append(node(id="i-over", state=CloudState.TERMINATED))
    made.round()
    long_ago = Mark("ann", EPOCH + START - 8 * 86400.0)
    marks = dict.fromkeys(("i-over", "i-unlisted", "i-ours"), MARK)
    marks |= dict.fromkeys(("i-r1", "i-long-unlisted"), long_ago)
    snapshot = made.snapshot(gone={"i-ours": made.now})
    assert commands.ended(marks, snapshot) == {"i-over", "i-ours", "i-long-unlisted"}


def test_a_mark_stands_whose_node_is_listed_as_ended_and_as_running_l4() -> None:
    made = pair_and_leak()
    running = next(one for one in made.nodes if one.id == "i-r1")
    made.nodes.append(replace(running, state=CloudState.TERMINATED))
    made.round()
    assert commands.ended({"i-r1": MARK}, made.snapshot()) == frozenset()
