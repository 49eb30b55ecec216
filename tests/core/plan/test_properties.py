"""What holds of every world: states, life, monotony, order, permission (T7, C, L4, B2, D)."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.world import CloudNode, CloudState, Record, RecordState, Tags
from nodemanager.core.observe.signs import classify
from nodemanager.core.plan.plan import Plan
from tests.core.build import EPOCH, POOL, World, cleaned, node, world
from tests.core.worlds import UUIDS, Spec, records, run, specs

pytestmark = pytest.mark.slow

# T7.


def states_of(one: Record, made: World) -> list[RecordState]:
    """T7's text, predicate by predicate."""
    something = any(
        value is not None
        for value in (
            one.slot_number,
            one.hostname,
            one.ip_address,
            one.first_ping_at,
            one.last_ping_at,
            one.claim,
        )
    )
    readable = not one.problems and not (something and one.modified_at is None)
    pinged = one.first_ping_at is not None or one.last_ping_at is not None
    signs = [one.modified_at, one.last_ping_at, one.claim and one.claim.at]
    quiet = made.store_now - max(sign for sign in (*signs, 0.0) if sign is not None)
    settings = made.settings
    window = settings.node_stale_after
    if one.claim is not None and not pinged:
        expiry = settings.boot_fail_after + 120.0 + settings.visible_after
        window = expiry if settings.claim_expiry else max(expiry, window)
    stale = quiet > window
    found = {
        RecordState.UNREADABLE: not readable,
        RecordState.CLEANED: readable and not something,
        RecordState.STALE: readable and something and stale,
        RecordState.IN_USE: readable and something and not stale and pinged,
        RecordState.ASSIGNED: readable and something and not stale and not pinged,
    }
    return [state for state, holds in found.items() if holds]


@given(one=records("r1"), expiry=st.booleans(), past=st.sampled_from([0.0, 100.0, 6000.0, 1e5]))
def test_every_record_has_exactly_one_state_t7(one: Record, expiry: bool, past: float) -> None:
    made = world(claim_expiry=expiry)
    made.advance(past)
    made.read_clock()
    assert [classify(one, made.snapshot(), made.settings)] == states_of(one, made)


# Life.


def signs_of_life(one: Record, spec: Spec, made: World) -> list[str]:
    """Whatever speaks for the record's node being alive, or for not knowing, by the rules' text."""
    windows, flags = made.settings, dict(spec.flags)
    signs = []

    def bears(listed: CloudNode) -> bool:
        if listed.state is CloudState.TERMINATED:
            return False
        if one.instance_id is not None and listed.id == one.instance_id:
            return True
        if listed.tags.record != one.uuid:
            return False
        known = listed.tags.incarnation is not None and one.claim is not None
        return not known or listed.tags.incarnation == one.claim.incarnation  # type: ignore[union-attr]

    if any(bears(listed) for listed in spec.nodes):
        signs.append("C4 listed")
    if spec.glimpse is not None and any(bears(listed) for listed in spec.glimpse):
        signs.append("C5 seen in an incomplete listing")
    stamps = [one.modified_at, one.last_ping_at, one.claim and one.claim.at]
    pinged = one.first_ping_at is not None or one.last_ping_at is not None
    window = windows.node_stale_after
    if one.claim is not None and not pinged:
        expiry = windows.boot_fail_after + 120.0 + windows.visible_after
        window = expiry if windows.claim_expiry else max(expiry, window)
    if one.modified_at is None or one.problems:
        signs.append("P3 unreadable")
    elif made.store_now - max(stamp for stamp in stamps if stamp is not None) <= window:
        signs.append("C3 quiet for no longer than its window")
    if spec.rounds < windows.absent_listings:
        signs.append("C5 too few listings")
    if spec.apart > windows.poll_stale_after:
        signs.append("C5 a gap in every absence")
    if (spec.rounds - 1) * spec.apart < windows.settle - 3.0:
        signs.append("C5 not settled")
    if one.held or {one.uuid, one.instance_id} & flags["holds"]:
        signs.append("C9 held")
    if one.uuid in dict(flags["record_flights"]) or one.instance_id in flags["node_flights"]:
        signs.append("C8 in flight")
    age = dict(flags["expected"]).get(one.uuid)
    if age is not None and age <= windows.boot_fail_after:
        signs.append("P4 expected")
    if spec.later is not None:
        versions = {later.version for later in spec.later if later.uuid == one.uuid}
        if versions - {one.version}:
            signs.append("C6 vetoed")
    pools = {one.pool, one.claim and one.claim.pool} - {None}
    if pools - {POOL}:
        signs.append("C0 another pool's")
    if not pools and windows.adopt_unclaimed is False:
        signs.append("C0 nobody's")
    if sum(other.uuid == one.uuid for other in spec.records) > 1:
        signs.append("L4 impossible")
    return signs


def forbidding(spec: Spec, made: World) -> list[str]:
    """What forbids every clean and every destroy."""
    flags = dict(spec.flags)
    found = []
    if not flags["lease"]:
        found.append("C10 lease")
    if flags["read_only"] is not None:
        found.append("L5 read only")
    if spec.open_breaker:
        found.append("B2 breaker")
    if not made.settings.may_authorise:
        found.append("L2 adapter")
    if spec.wait > made.settings.poll_stale_after:
        found.append("C7 polls")
    return found


@settings(max_examples=150)
@given(spec=specs())
def test_no_verdict_cleans_a_record_with_any_sign_of_life_c(spec: Spec) -> None:
    made = run(spec)
    listed = {one.uuid: one for one in spec.records}
    for verdict in made.last.records:
        if verdict.kind is not Kind.KEEP:
            assert signs_of_life(listed[verdict.id], spec, made) == []


@settings(max_examples=150)
@given(spec=specs())
def test_no_order_without_permission_b2_c10_d9(spec: Spec) -> None:
    made = run(spec)
    plan, settings = made.last, made.settings
    assert plan is not None
    forbidden = forbidding(spec, made)
    if forbidden:
        assert (plan.cleans, plan.shutdowns) == ((), ())
    assert len(plan.cleans) <= settings.max_cleans_per_cycle
    for order in plan.shutdowns:
        listed = [one for one in spec.nodes if one.id == order.node_id]
        assert [one.tags.pool for one in listed] == [POOL]
        assert not listed[0].held
        assert order.node_id not in plan.pairs.ambiguous
        assert not {order.node_id, order.record} & dict(spec.flags)["holds"]
    nodes = {one.id for one in spec.nodes if one.state is not CloudState.TERMINATED}
    counted = {
        view.node.id for view in plan.views if view.verdict.reason is not Reason.FOREIGN_NODE
    }
    if plan.boots:
        assert len(plan.boots) + len(nodes & counted) <= settings.max_nodes
        assert not {"C10 lease", "L5 read only", "C7 polls"} & set(forbidden)
    for boot in plan.boots:
        if boot.record is not None:
            assert not boot.record.holds_anything
            assert boot.record.pool in (POOL, None)


WANTED: dict[str, Callable[[Plan], object]] = {
    "cleans": lambda plan: plan.cleans,
    "defers": lambda plan: plan.deferred,
    "destroys": lambda plan: plan.shutdowns,
    "boots": lambda plan: plan.boots,
    "ambiguities": lambda plan: plan.pairs.ambiguous,
    "aborted plans": lambda plan: plan.aborted,
}


def test_these_worlds_come_with_all_that_the_properties_are_about() -> None:
    """Else they would hold of nothing."""
    missing = set(WANTED)

    def has_shown_all(spec: Spec) -> bool:
        plan = run(spec).last
        missing.difference_update([name for name in missing if WANTED[name](plan)])
        return not missing

    unshrunk = settings(phases=[Phase.generate], max_examples=2000)
    with suppress(NoSuchExample):
        find(specs(), has_shown_all, settings=unshrunk)
    assert not missing


# Monotony.


def with_node(spec: Spec, one: Record) -> Spec:
    tags = Tags(POOL, one.uuid, one.incarnation)
    return replace(spec, nodes=(*spec.nodes, node(id="fresh", tags=tags)))


def with_glimpse(spec: Spec, one: Record) -> Spec:
    tags = Tags(POOL, one.uuid, one.incarnation)
    return replace(spec, glimpse=(*(spec.glimpse or ()), node(id="fresh", tags=tags)))


def with_ping(spec: Spec, one: Record) -> Spec:
    now = EPOCH + 100_000.0
    pinged = replace(one, first_ping_at=one.first_ping_at or now, last_ping_at=now, version="v9")
    return replace(spec, records=tuple(pinged if r.uuid == one.uuid else r for r in spec.records))


def with_later_ping(spec: Spec, one: Record) -> Spec:
    now = EPOCH + 100_300.0
    pinged = replace(one, first_ping_at=one.first_ping_at or now, last_ping_at=now, version="v9")
    others = tuple(r for r in (spec.later or spec.records) if r.uuid != one.uuid)
    return replace(spec, later=(*others, pinged))


def with_flag(spec: Spec, **flags: Any) -> Spec:
    return replace(spec, flags=tuple({**dict(spec.flags), **flags}.items()))


def with_setting(spec: Spec, **settings: Any) -> Spec:
    return replace(spec, settings=tuple({**dict(spec.settings), **settings}.items()))


def longer_window(spec: Spec, one: Record) -> Spec:
    return with_setting(spec, node_stale_after=1e5, boot_fail_after=9000.0)


def longer_claim(spec: Spec, one: Record) -> Spec:
    return with_setting(spec, claim_expiry=False, node_stale_after=1e5)


MORE_LIFE = {
    "a-node-bears-its-tags": with_node,
    "an-incomplete-listing-shows-its-node": with_glimpse,
    "it-pinged": with_ping,
    "it-pinged-in-a-later-listing": with_later_ping,
    "it-is-held": lambda spec, one: with_flag(spec, holds=frozenset({one.uuid})),
    "a-set-up-is-under-way": lambda spec, one: with_flag(
        spec, record_flights=((one.uuid, "setup"),)
    ),
    "its-node-is-expected": lambda spec, one: with_flag(spec, expected=((one.uuid, 1.0),)),
    "the-window-is-longer": longer_window,
    "settle-is-longer": lambda spec, one: with_setting(spec, settle=600.0),
    "more-listings-are-asked-for": lambda spec, one: with_setting(spec, absent_listings=9),
    "the-breaker-is-open": lambda spec, one: replace(spec, open_breaker=True),
    "the-lease-is-lost": lambda spec, one: with_flag(spec, lease=False),
    "the-polls-are-old": lambda spec, one: replace(spec, wait=5000.0),
    "the-adapter-may-not-authorise": lambda spec, one: with_setting(spec, may_authorise=False),
    "claims-do-not-expire": longer_claim,
}


@pytest.mark.parametrize("more", [pytest.param(make, id=name) for name, make in MORE_LIFE.items()])
@given(spec=specs(), pick=st.integers(0, 4))
def test_more_life_never_turns_keep_into_clean_c(more: Any, spec: Spec, pick: int) -> None:
    if not spec.records:
        return
    one = spec.records[pick % len(spec.records)]
    if more in (longer_window, longer_claim) and verdict_of(run(spec), one.uuid) is Kind.CLEAN:
        # Quiet for longer than that, too.
        return
    assert verdict_of(run(more(spec, one)), one.uuid) is not Kind.CLEAN


def verdict_of(made: World, uuid: str) -> Kind | None:
    kinds = [verdict.kind for verdict in made.last.records if verdict.id == uuid]
    return kinds[0] if kinds else None


# Order.


def everything(plan: Plan) -> dict[str, Any]:
    """All that a plan says and goes on from, without the order of the items it was given."""
    listings = {"cloud", "records", "base", "pinned"}
    history = {
        one.name: getattr(plan.history, one.name)
        for one in fields(plan.history)
        if one.name not in listings
    }
    whole = {one.name: getattr(plan, one.name) for one in fields(plan) if one.name != "history"}
    whole["records"] = sorted(plan.records, key=repr)
    whole["views"] = sorted(plan.views, key=repr)
    return {**whole, "history": history}


@settings(max_examples=150)
@given(spec=specs(), seed=st.integers(0, 2**32))
def test_the_plan_does_not_depend_on_the_order_of_its_inputs_l4(spec: Spec, seed: int) -> None:
    def shuffled(items: list[Any]) -> list[Any]:
        random.Random(seed + len(items)).shuffle(items)
        return items

    plain, other = run(spec), run(replace(spec, order=shuffled))
    assert everything(other.last) == everything(plain.last)


@given(spec=specs())
def test_the_same_inputs_give_the_same_plan(spec: Spec) -> None:
    first, second = run(spec).last, run(spec).last
    assert first == second


def test_an_empty_cloud_and_an_empty_store_give_an_empty_plan() -> None:
    made = run(Spec(flags=(("slots", None),)))
    assert made.last.aborted is None
    assert (made.cleaned, made.destroyed, made.booted) == ([], [], [])
    assert cleaned(UUIDS[0], at=0.0).holds_anything is False
