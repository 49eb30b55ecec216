"""Signs of life after a clean, what they open, and what may be given back (U8, B3)."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from nodemanager.core.judge import false_clean
from nodemanager.core.model.breaker import Breaker, Cause
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import FREED_KEPT_S, FREED_LIMIT
from nodemanager.core.model.world import NO_TAGS, CloudState, FreedLife, Listing, Tags
from nodemanager.core.observe.snapshot import Flight, LateWrite
from nodemanager.core.safety import breaker as breakers
from tests.cases import cases
from tests.core.build import SMALL, World, cleaned, node, world


def freed(**settings: object) -> tuple[World, FreedLife]:
    """A record that we freed 100 s ago while its node lives, hidden from the listings till then."""
    made = world(visible_after=0.0, ids_unique=True, **settings)
    made.add_record("r1", quiet=9000.0)
    made.round()
    life = made.free("r1")
    made.advance(100.0)
    return made, life


def reasons(made: World) -> list[Reason]:
    return [sign.reason for sign in made.reported]


# Late pings.


@cases(("late_s", "is_sign"), {"at-the-minute": (60.0, False), "just-past": (60.1, True)})
def test_a_ping_counts_only_more_than_a_minute_after_the_clean_u8(late_s: float, is_sign: bool):
    made, life = freed()
    ping = made.late_ping(life)
    made.hear(replace(ping, at=ping.freed_at + late_s))
    assert reasons(made) == [Reason.LATE_PING] * is_sign
    assert made.breaker.is_open is is_sign


def test_a_late_ping_is_told_with_what_was_freed_and_how_late_it_was():
    made, life = freed()
    made.hear(made.late_ping(life, instance_id=None))
    (sign,) = made.reported
    assert sign.measures == {"late_s": pytest.approx(100.0, abs=1e-3)}
    assert (sign.life.slot, sign.life.hostname, sign.life.why) == (1, "compute1", "stale_slot")
    assert sign.life.node_id == "i-r1"
    assert made.breaker.cause is Cause.FALSE_CLEAN
    assert made.breaker.detail == {"count": 1}
    assert not made.breaker.stops_booting


def test_a_late_ping_that_names_another_instance_is_no_sign_of_life_u8():
    """With a dead node's secret, and the id of a sibling that lives, nothing is told (U8, X3)."""
    made, life = freed()
    made.hear(made.late_ping(life, instance_id="i-sibling"))
    assert made.reported == ()
    assert not made.breaker.is_open


def test_what_a_late_ping_names_is_never_taken_for_an_id_that_we_knew_u8():
    """Of a life that only the store remembers nobody knows the id; its tag is asked for (X3)."""
    made, life = freed()
    made.hear(made.late_ping(replace(life, record="r9"), instance_id="i-sibling"))
    (sign,) = made.reported
    assert sign.life.node_id is None
    made.poll()
    plan = made.plan()
    assert (plan.ask, plan.ask_tagged) == ((), ("r9",))


def test_a_life_that_ended_because_it_pinged_in_vain_is_told_by_the_cloud_alone_u8_p6():
    """That it pings on is no news; that a listing shows its node is (P6, U8)."""
    made, life = freed()
    life = replace(life, why="pinger_denied")
    made.history = false_clean.lives_freed(made.history, (life,), made.now)
    made.hear(made.late_ping(life))
    assert made.reported == ()
    lives = made.add_node("r1")
    made.poll()
    made.answer({"i-r1": lives})
    assert reasons(made) == [Reason.ALIVE_AFTER_CLEAN]


def test_a_life_is_told_once_however_often_it_pings():
    made, life = freed()
    made.hear(made.late_ping(life))
    generation = made.breaker.generation
    made.advance(60.0)
    made.hear(made.late_ping(life))
    assert made.reported == ()
    assert made.breaker.generation == generation


def test_another_pools_freed_life_is_not_ours_to_tell():
    made, life = freed()
    made.hear(made.late_ping(replace(life, record="r9"), pool="other"))
    assert made.reported == ()


def test_a_life_that_another_manager_of_the_pool_freed_is_told_by_what_the_store_says():
    made, life = freed()
    made.hear(made.late_ping(replace(life, record="r9", incarnation="x")))
    (sign,) = made.reported
    assert (sign.life.record, sign.life.slot) == ("r9", None)


def test_a_second_life_joins_the_first_and_each_must_be_explained():
    made, life = freed()
    made.add_record("r2", quiet=9000.0)
    made.poll()
    second = made.free("r2")
    made.advance(100.0)
    made.hear(made.late_ping(life))
    made.hear(made.late_ping(second))
    assert made.breaker.detail == {"count": 2}
    assert made.breaker.generation == 2
    made.answer({"i-r1": None})
    assert made.breaker.is_open
    made.answer({"i-r2": None})
    assert not made.breaker.is_open


# A listed node.


def test_a_listed_node_is_asked_for_by_id_and_told_only_when_it_is_alive():
    made, _ = freed()
    node = made.add_node("r1")
    made.round()
    assert made.last.ask == ("i-r1",)
    assert made.reported == ()
    made.answer({"i-r1": node})
    assert reasons(made) == [Reason.ALIVE_AFTER_CLEAN]
    assert made.breaker.cause is Cause.FALSE_CLEAN


@cases("answer", {"no-such-node": None, "terminated": CloudState.TERMINATED})
def test_a_listed_node_that_the_cloud_denies_is_no_sign(answer: CloudState | None):
    made, _ = freed()
    node = made.add_node("r1")
    made.round()
    made.answer({"i-r1": None if answer is None else replace(node, state=answer)})
    assert made.reported == ()
    assert not made.breaker.is_open


def test_a_listing_from_before_the_clean_is_no_sign():
    made = world()
    made.add_record("r1", quiet=9000.0)
    made.add_node("r1")
    made.round()
    made.free("r1")
    made.plan()
    assert made.last.ask == ()


def test_the_node_that_we_destroyed_may_still_be_stopping():
    """It may still be listed when its record is freed: C4 is not asked of it (C20)."""
    made, life = freed()
    made.history = replace(made.history, freed={life.key: replace(life, why="after_shutdown")})
    made.add_node("r1", state=CloudState.STOPPING)
    assert made.round().ask == ()
    made.change_node("i-r1", state=CloudState.RUNNING)
    made.advance(60.0)
    assert made.round().ask == ("i-r1",)


@cases(
    ("tags", "ids_unique", "asked"),
    {
        "untagged-unique-ids": (NO_TAGS, True, True),
        "untagged-ids-used-again": (NO_TAGS, False, False),
        "another-life": (Tags("main", "r1", "another-life"), True, False),
        "another-record": (Tags("main", "r2", "r2-life1"), True, False),
    },
)
def test_whose_node_it_is_is_told_as_pairs_are(tags: Tags, ids_unique: bool, asked: bool):
    made, _ = freed()
    made.with_settings(ids_unique=ids_unique)
    made.add_node(None, id="i-r1", tags=tags)
    assert (made.round().ask == ("i-r1",)) is asked


def test_a_node_that_is_paired_anew_is_no_suspect():
    """By its id it is the record's that it pings now (P1)."""
    made, _ = freed()
    made.add_node(None, id="i-r1", pool=None, created_at=made.ago(500.0))
    made.add_record("r2", claimed=False, instance_id="i-r1", first_ping_at=made.ago(10.0))
    assert made.round().ask == ()


def test_a_suspect_is_asked_for_ever_more_rarely():
    made, _ = freed()
    made.add_node("r1")
    asked = []
    for _ in range(30):
        made.advance(30.0)
        if made.round().ask:
            asked.append(made.now)
            made.answer({"i-r1": None})
    gaps = [after - before for before, after in itertools.pairwise(asked)]
    assert gaps == sorted(gaps)
    assert 4 <= len(asked) <= 8


# A freed record that shows a ping.


def test_a_freed_record_that_its_own_instance_pinged_is_told():
    """Where a ping may cross a clean: Arvados."""
    made, _ = freed()
    made.ping("r1")
    made.poll_records()
    assert reasons(made) == [Reason.PINGED_AFTER_CLEAN]


@cases(
    "change",
    {
        "another-instance": {"instance_id": "i-new"},
        "no-instance": {"instance_id": None},
        "never-pinged": {"last_ping_at": None},
    },
)
def test_a_freed_record_that_anybody_else_uses_is_not_told(change: dict[str, object]):
    made, _ = freed()
    made.ping("r1")
    made.change("r1", **change)
    made.poll_records()
    assert made.reported == ()


def test_a_ping_that_crossed_the_clean_is_not_told():
    made, life = freed()
    made.ping("r1")
    made.change("r1", last_ping_at=made.ago(made.now - life.freed_at - 30.0))
    made.poll_records()
    assert made.reported == ()


# What closes it (B3).


def told_late() -> tuple[World, FreedLife]:
    made, life = freed()
    made.hear(made.late_ping(life))
    assert made.breaker.is_open
    return made, life


def seen_alive(made: World) -> None:
    """The cloud, asked by the id that we knew, has its node."""
    made.answer({"i-r1": node("r1")})


def give_back(made: World, life: FreedLife) -> None:
    slot = 1 if life.slot is None else life.slot
    made.records = [one for one in made.records if one.uuid != life.record]
    made.add_record(life.record, slot=slot)


def test_it_closes_when_a_listing_shows_the_record_restored():
    made, life = told_late()
    give_back(made, life)
    made.advance(1.0)
    made.poll_records()
    assert not made.breaker.is_open
    assert made.breaker.reported == {}
    assert made.history.freed == {}


def test_a_listing_that_began_before_it_was_told_shows_nothing_restored():
    made, _ = freed()
    before = made.add_record("r9", quiet=10.0)
    life = FreedLife("r9", before.incarnation, made.now - 100.0)
    made.hear(made.late_ping(life))
    made.now -= 5.0
    made.poll_records(took=1.0)
    assert made.breaker.is_open


def test_a_record_as_it_was_before_its_clean_is_not_restored():
    """A replica of the store lags behind (seed 78002287)."""
    made, life = told_late()
    give_back(made, life)
    quiet_s = made.now - life.freed_at + 60.0
    made.change(life.record, modified_at=made.ago(quiet_s))
    made.advance(1.0)
    made.poll_records()
    assert made.breaker.is_open
    made.change(life.record, modified_at=made.ago(0.5))
    made.advance(1.0)
    made.poll_records()
    assert not made.breaker.is_open


def test_while_the_stores_clock_is_unknown_no_changed_record_counts_as_restored():
    """It may be as it was before its clean, and nothing tells."""
    made, life = told_late()
    give_back(made, life)
    made.change(life.record, modified_at=made.ago(0.5))
    made.advance(2.0)
    listing = Listing(tuple(made.records), made.now - 1.0, made.now, True)
    unknown = replace(made.history, clock=None)
    assert false_clean.records_seen(made.breaker, unknown, listing).breaker.is_open
    assert not false_clean.records_seen(made.breaker, made.history, listing).breaker.is_open


def test_an_incomplete_listing_closes_nothing():
    """L1."""
    made, life = told_late()
    give_back(made, life)
    made.advance(1.0)
    made.poll_records(complete=False)
    assert made.breaker.is_open


def test_a_restored_life_that_is_freed_wrongly_again_is_told_again():
    made, life = told_late()
    give_back(made, life)
    made.advance(1.0)
    made.poll_records()
    made.free("r1")
    made.advance(100.0)
    made.hear(made.late_ping(replace(life, freed_at=made.now - 100.0)))
    assert reasons(made) == [Reason.LATE_PING]


def test_it_closes_when_the_node_is_confirmed_gone_by_id():
    made, _ = told_late()
    made.answer({"i-r1": None})
    assert not made.breaker.is_open
    assert made.breaker.reported


def test_a_no_to_a_question_from_before_its_sign_of_life_confirms_nothing_b3():
    made, _ = told_late()
    made.advance(1.0)
    made.answer({"i-r1": None}, late=1.5)
    assert made.breaker.is_open
    made.answer({"i-r1": None}, late=0.5)
    assert not made.breaker.is_open


def test_gone_is_gone_as_in_d3():
    made, _ = told_late()
    made.with_settings(visible_after=300.0)
    made.answer({"i-r1": None})
    made.advance(301.0)
    made.answer({"i-r1": None})
    assert made.breaker.is_open
    made.advance(30.0)
    made.answer({"i-r1": None})
    assert not made.breaker.is_open


def test_an_answer_that_shows_it_alive_counts_as_none():
    made, _ = told_late()
    node = made.add_node("r1")
    made.answer({"i-r1": node})
    assert made.breaker.is_open


def test_an_operators_reset_closes_it_and_it_is_not_told_again():
    made, life = told_late()
    made.breaker = breakers.reset(made.breaker, made.now)
    assert not made.breaker.is_open
    made.hear(made.late_ping(life))
    assert made.reported == ()
    assert not made.breaker.is_open


def test_it_stands_beside_other_causes():
    made, _ = told_late()
    more = breakers.opened(
        made.breaker, Cause.CLOUD_COLLAPSED, frozenset({"i-x"}), made.now, {"lost": 5}
    )
    made.breaker = more
    made.answer({"i-r1": None})
    assert [part.cause for part in made.breaker.parts] == [Cause.CLOUD_COLLAPSED]
    assert made.breaker.reported


def test_a_former_runs_and_this_ones_are_joined():
    made, life = told_late()
    joined = breakers.joined(made.breaker, Breaker())
    assert joined.part(Cause.FALSE_CLEAN) is not None
    assert joined.reported.keys() == {life.key}


def test_while_it_is_open_nothing_is_freed_and_nodes_are_booted_b2():
    made, _ = told_late()
    made.with_settings(min_nodes=1)
    made.add_record("r5", quiet=9000.0)
    made.settle()
    assert made.of_record("r5").reason is Reason.BREAKER_OPEN
    assert made.cleaned == []
    assert made.booted == [SMALL.name]


# What may be given back.


def restore_verdict(made: World) -> tuple[list[str], list[Reason]]:
    plan = made.plan()
    return [life.record for life in plan.restores], [one.reason for one in plan.not_restored]


def test_a_record_that_is_free_is_given_back_with_what_was_known():
    made, life = told_late()
    made.poll()
    seen_alive(made)
    assert restore_verdict(made) == (["r1"], [])
    assert made.last.restores[0].key == life.key


@cases(
    ("change", "why"),
    {
        "holds-something": ({"slot_number": 4}, Reason.RECORD_REUSED),
        "malformed": ({"problems": ("its hostname is no text",)}, Reason.UNREADABLE),
        "held-in-the-record": ({"held": True}, Reason.HELD),
    },
)
def test_a_record_that_is_not_free_is_not(change: dict[str, object], why: Reason):
    made, _ = told_late()
    made.change("r1", **change)
    made.poll()
    assert restore_verdict(made) == ([], [why])
    assert why.row.restores


def test_not_when_its_slot_is_anothers_by_now():
    made, _ = told_late()
    made.add_record("r2", slot=1)
    made.poll()
    assert restore_verdict(made) == ([], [Reason.SLOT_TAKEN])
    assert made.last.not_restored[0].measures == {"held_by": "r2"}


def test_not_when_the_record_is_gone():
    made, _ = told_late()
    made.records = []
    made.poll()
    assert restore_verdict(made) == ([], [Reason.RECORD_DELETED])


@cases(
    "flag",
    {
        "without-the-lease": {"lease": False},
        "read-only": {"read_only": "another store"},
        "under-way": {"record_flights": {"r1": Flight("restore", 1.0)}},
        "written-since-the-listing": {"touched": {"r1": 1e9}},
        "another-clean-may-come-late-c12": {"late": {"r1": LateWrite(1e6)}},
    },
)
def test_it_waits_while_it_may_not_be_written(flag: dict[str, object]):
    made, _ = told_late()
    made.poll()
    seen_alive(made)
    assert restore_verdict(made) == (["r1"], [])
    made.flags.update(flag)
    assert restore_verdict(made) == ([], [])


def test_a_ping_alone_gives_nothing_back_u8():
    """Somebody who copied its secret pings with the dead node's own id (U8, X5)."""
    made, _ = told_late()
    made.poll()
    assert restore_verdict(made) == ([], [])
    assert made.last.ask == ("i-r1",)
    made.answer({"i-r1": None})
    assert restore_verdict(made) == ([], [])
    assert not made.breaker.is_open, "visible_after is 0 there: it is confirmed gone"


def told_without_an_id(*, claimed: bool = True) -> tuple[World, FreedLife]:
    """Told by a late ping; we never knew an id of its node."""
    made = world(visible_after=300.0, ids_unique=True)
    made.add_record("r1", quiet=9000.0, claimed=claimed)
    made.round()
    life = made.free("r1", node_id=None)
    made.advance(100.0)
    made.hear(made.late_ping(life))
    assert made.breaker.is_open
    return made, life


def test_without_an_id_it_is_asked_for_by_tag_and_confirmed_gone_as_in_d3_n18():
    """Past visible_after, denied twice (B3, N18)."""
    made, _ = told_without_an_id()
    made.round()
    assert made.last.ask_tagged == ("r1",)
    made.answer_tags({"r1": ()})
    assert made.breaker.is_open
    made.advance(made.settings.visible_after)
    made.answer_tags({"r1": (node("r1", life=7),)})
    assert made.breaker.is_open
    made.advance(30.0)
    made.answer_tags({"r1": ()})
    assert not made.breaker.is_open


def test_without_an_id_an_answer_that_waited_for_us_is_as_old_as_its_question_d3():
    made, _ = told_without_an_id()
    made.round()
    made.advance(made.settings.visible_after)
    made.answer_tags({"r1": ()})
    made.advance(40.0)
    made.answer_tags({"r1": ()}, late=30.0)
    assert made.breaker.is_open
    made.answer_tags({"r1": ()})
    assert not made.breaker.is_open


def test_without_an_id_it_is_given_back_once_the_cloud_has_it_by_tag_u8():
    made, _ = told_without_an_id()
    made.round()
    made.answer_tags({"r1": (node("r1", life=7),)})
    assert restore_verdict(made) == ([], [])
    made.answer_tags({"r1": (node("r1"),)})
    assert restore_verdict(made) == (["r1"], [])


def test_one_with_nothing_to_ask_by_holds_it_open_while_it_pings_n18():
    """Of before our time, and its id, if it had one, is no node's (B3, N18, P1a)."""
    made, life = told_without_an_id(claimed=False)
    made.poll()
    assert restore_verdict(made) == ([], [Reason.UNVERIFIABLE])
    made.advance(made.settings.node_stale_after)
    ping = made.late_ping(life)
    made.hear(ping)
    made.advance(made.settings.node_stale_after - 10.0)
    made.poll_records()
    made.hear(ping)
    assert made.breaker.is_open
    made.advance(20.0)
    made.hear(ping)
    assert not made.breaker.is_open


def test_a_malformed_id_is_nothing_to_ask_by_n18():
    made = world(visible_after=300.0, ids_unique=True)
    made.add_record("r1", quiet=9000.0, claimed=False)
    made.round()
    life = made.free("r1", node_id="x")
    made.advance(100.0)
    made.hear(made.late_ping(life))
    made.poll()
    made.answer({}, malformed=frozenset({"x"}))
    assert restore_verdict(made) == ([], [Reason.UNVERIFIABLE])


@pytest.mark.parametrize("held", ["r1", "i-r1"])
def test_what_an_operator_holds_is_left_alone_c9(held: str):
    made, _ = told_late()
    made.poll()
    made.flags["holds"] = frozenset({held})
    assert restore_verdict(made) == ([], [Reason.HELD])


def test_one_whose_node_is_gone_by_now_is_not_given_back():
    made, _ = told_late()
    made.answer({"i-r1": None})
    made.poll()
    assert restore_verdict(made) == ([], [])


def test_after_a_shutdown_it_is_given_back_only_once_the_cloud_has_its_node():
    """A ping of the node that we destroyed may have been under way for long."""
    made, life = freed()
    made.with_settings(visible_after=300.0)
    made.history = replace(made.history, freed={life.key: replace(life, why="after_shutdown")})
    made.hear(made.late_ping(life))
    assert reasons(made) == [Reason.LATE_PING]
    made.poll()
    assert restore_verdict(made) == ([], [])
    made.answer({"i-r1": None})
    assert restore_verdict(made) == ([], [])
    made.answer({"i-r1": node("r1")})
    assert restore_verdict(made) == (["r1"], [])


def test_until_it_is_given_back_its_record_is_used_for_no_other_node_u1():
    made, _ = told_late()
    made.with_settings(min_nodes=1)
    made.poll()
    (boot,) = made.plan(record_flights={}).boots
    assert boot.record is None


# What is remembered.


def test_freed_lives_are_forgotten_after_a_week_and_beyond_a_number():
    made, life = freed()
    made.advance(FREED_KEPT_S)
    history = false_clean.lives_freed(made.history, (), made.now)
    assert history.freed == {}
    many = [FreedLife(f"r{n}", None, made.now + n) for n in range(FREED_LIMIT + 5)]
    history = false_clean.lives_freed(made.history, many, made.now)
    assert len(history.freed) == FREED_LIMIT
    assert life.key not in history.freed
    assert many[-1].key in history.freed


@cases(
    ("back_at", "ends"),
    {
        "never": (None, [500.0, 1000.0]),
        "the-older-clean": (1000.0, [500.0]),
        "the-newer-clean": (500.0, []),
        "by-the-time-alone": (700.0, []),
    },
)
def test_a_life_that_was_freed_again_with_our_clock_set_back_is_known(
    back_at: float | None, ends: list[float]
):
    """The newest come first: it was freed at 1000 and, with a clock set back, again at 500."""
    cleans = [(FreedLife("r1", None, end), end) for end in (500.0, 1000.0)]
    given_back = {} if back_at is None else {cleans[0][0].key: back_at}
    lives = false_clean.not_given_back(cleans, given_back)
    assert [life.freed_at for life in lives] == ends


def test_a_record_without_a_claim_is_known_by_its_secret_alone():
    made = world(ids_unique=True)
    made.add_record("r1", quiet=9000.0, claimed=False)
    made.round()
    life = made.free("r1")
    made.advance(100.0)
    made.hear(made.late_ping(life))
    assert reasons(made) == [Reason.LATE_PING]
    made.records = [cleaned("r1", at=made.store_now, slot_number=1, hostname="compute1")]
    made.advance(1.0)
    made.poll_records()
    assert not made.breaker.is_open
