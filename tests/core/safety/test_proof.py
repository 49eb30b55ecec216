"""Each clean is proven once more from its journal entry, by other code (SAFETY.md C0-C12, C20, U6).

Each case changes the evidence of a right clean in one point, and one rule is found broken.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.core.model.changed import changed
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.world import CloudState, FreedLife, Guarantee, Record, WorkerState
from nodemanager.core.observe.evidence import Look
from nodemanager.core.safety import proof
from nodemanager.core.safety.orders import CleanOrder, fenced_order, order_release
from nodemanager.core.safety.proof import listed_again, violations
from nodemanager.journal.codec import codec_of, decoded
from tests.cases import cases
from tests.core.build import (
    EPOCH,
    START,
    World,
    claim,
    deny,
    in_vain,
    incarnation_of,
    look_of,
    node,
    record,
    world,
)
from tests.core.execute.test_last_look import gone


@dataclass(frozen=True)
class Evidence:
    """What the journal has of one clean."""

    order: CleanOrder
    look: Look
    before: Record

    def broken(self) -> list[str]:
        return [one.rule for one in violations(self.order, self.look, self.before)]

    def with_order(self, **changes: Any) -> Evidence:
        return replace(self, order=replace(self.order, **changes))

    def with_grounds(self, **changes: Any) -> Evidence:
        assert self.order.grounds is not None
        return self.with_order(grounds=replace(self.order.grounds, **changes))

    def with_look(self, **changes: Any) -> Evidence:
        return replace(self, look=replace(self.look, **changes))

    def with_terms(self, **changes: Any) -> Evidence:
        """Of the plan and of the last look alike."""
        changed = self.with_look(terms=replace(self.look.terms, **changes))
        grounds = self.order.grounds
        if grounds is None or grounds.windows is None:
            return changed
        known = {key: one for key, one in changes.items() if hasattr(grounds.windows, key)}
        return changed.with_grounds(windows=replace(grounds.windows, **known))

    def with_clock_set_back(self) -> Evidence:
        """A jump back was measured long ago, in the plan and at the last look alike."""
        assert self.order.grounds is not None
        planned, looked = self.order.grounds.reading, self.look.reading
        assert planned.clock is not None
        clock = changed(planned.clock, known_since=-1e9)
        made = self.with_grounds(reading=replace(planned, clock=clock))
        return made.with_look(reading=replace(looked, clock=clock))

    def with_before(self, **changes: Any) -> Evidence:
        return replace(self, before=replace(self.before, **changes))

    def with_signs(self, **changes: Any) -> Evidence:
        """In the plan and at the last look alike."""
        assert self.order.grounds is not None
        signs = replace(self.order.grounds.signs, **changes)
        look_signs = replace(self.look.signs, **changes)
        return self.with_grounds(signs=signs).with_look(signs=look_signs)


Change = Callable[[Evidence], Evidence]


def looked(made: World, order: CleanOrder, guarantee: Guarantee = Guarantee.CAS) -> Evidence:
    return Evidence(order, *look_of(made, order, guarantee))


def stale(**fields: Any) -> Evidence:
    made = gone(**fields)
    return looked(made, made.clean_order("r1"))


def fenced(stood_s: float = 40.0, made: World | None = None) -> Evidence:
    """Behind a fence that stood for so long."""
    made = made or gone()
    judged, now = made.record("r1"), made.now
    behind = replace(judged, version="v1-fenced", modified_at=EPOCH + now, fenced=True)
    order = fenced_order(made.clean_order("r1"), judged, behind, now)
    assert order is not None
    made.records = [behind]
    made.advance(stood_s)
    return replace(looked(made, order, Guarantee.FENCED), before=judged)


def released(reason: Reason, **fields: Any) -> Evidence:
    """A clean of its own right: of a record that was pinged a moment ago, unless told."""
    made = world()
    made.add_record("r1", quiet=5.0, **fields)
    made.settle()
    after_shutdown = reason is Reason.AFTER_SHUTDOWN
    order = order_release(
        "r1",
        reason,
        made.snapshot(),
        incarnation=incarnation_of("r1"),
        instance_id="i-r1" if after_shutdown else None,
    )
    return looked(made, order)


def in_vain_evidence(**fields: Any) -> Evidence:
    """Of one that pings in vain, denied for longer than its window (P6)."""
    made = in_vain(**fields)
    for _ in range(30):
        deny(made)
    made.ping("r1", WorkerState.BUSY)
    return looked(made, made.clean_order("r1"))


def long_ahead() -> World:
    """Busy, by a word that is ahead of the clock for ever, and was watched for the window."""
    first = {"first_ping_at": EPOCH + START - 9000.0}
    made = world()
    made.add_record("r1", quiet=-1e9, worker_state=WorkerState.BUSY, **first)
    made.round(1)
    made.advance(7300.0)
    made.settle()
    return made


@cases(("boot_fail_after", "rules"), {"old": (900.0, []), "maybe-young": (1800.0, ["C11"])})
def test_a_first_ping_ahead_of_a_clock_that_was_set_back_is_as_old_as_the_denials_p6_a2(
    boot_fail_after: float, rules: list[str]
) -> None:
    """Its create may have taken effect `boot_fail_after` and two minutes after its claim."""
    one = in_vain_evidence(first_ping_at=EPOCH + START + 86_400.0)
    one = one.with_terms(boot_fail_after=boot_fail_after)
    assert one.broken() == rules


def test_a_right_clean_is_proven() -> None:
    assert in_vain_evidence().broken() == []
    assert stale().broken() == []
    assert stale(pinged=False, slot=None).broken() == []
    assert fenced().broken() == []
    assert fenced(made=long_ahead()).broken() == []
    assert released(Reason.AFTER_SHUTDOWN).broken() == []
    assert released(Reason.CREATE_REFUSED, pinged=False).broken() == []


BREAKS: list[tuple[str, str, Change]] = [
    ("C0", "another-pool", lambda one: one.with_before(pool="other")),
    ("C0", "a-claim-of-another", lambda one: one.with_before(claim=_foreign())),
    (
        "C0",
        "none-and-not-adopted",
        lambda one: one.with_before(pool=None, claim=None).with_grounds(adopt=False),
    ),
    (
        "C1",
        "it-held-nothing",
        lambda one: (
            one.with_before(slot_number=None, hostname=None, ip_address=None, claim=None)
            .with_before(first_ping_at=None, last_ping_at=None)
            .with_order(incarnation=None)
            .with_look(signs=replace(one.look.signs, incarnation=None))
        ),
    ),
    ("C2", "busy", lambda one: _word(one, WorkerState.BUSY)),
    ("C2", "idle", lambda one: _word(one, WorkerState.IDLE)),
    ("C2", "ahead-of-the-clock", lambda one: _word(one, WorkerState.BUSY, ago=-3600.0)),
    ("C3", "inside-the-window", lambda one: one.with_terms(node_stale_after=1e6)),
    ("C3", "just-written", lambda one: one.with_signs(modified_at=EPOCH + START + 100)),
    ("C3", "just-claimed", lambda one: one.with_signs(claimed_at=EPOCH + START + 100)),
    ("C3", "no-stamp", lambda one: one.with_signs(modified_at=None)),
    ("T1", "a-clock-that-jumped", lambda one: _clock(one, agreed=1)),
    ("T1", "a-clock-read-long-ago", lambda one: _clock(one, read_at=-1e6)),
    ("T1", "pinged-before-its-first-ping", lambda one: _slow(one, last_ping_at=-700.0)),
    ("T1", "written-before-its-last-ping", lambda one: _slow(one, modified_at=-70.0)),
    ("T1", "written-before-its-claim", lambda one: _slow(one, modified_at=-700.0)),
    ("C4", "listed-by-tag", lambda one: one.with_grounds(listed=(node("r1"),))),
    ("C4", "glimpsed", lambda one: one.with_grounds(partially_listed_nodes=(node("r1"),))),
    ("C4", "listed-since", lambda one: one.with_look(listed=(node("r1"),))),
    (
        "C4",
        "listed-by-id-stopped",
        lambda one: one.with_grounds(
            listed=(node(None, id="i-r1", pool=None, state=CloudState.STOPPED),)
        ),
    ),
    ("C5", "too-few-listings", lambda one: one.with_terms(absent_listings=99)),
    ("C5", "too-short", lambda one: one.with_terms(settle=1e6)),
    ("C5", "never-absent", lambda one: one.with_grounds(absence=None)),
    ("C5", "of-another-life", lambda one: _absent(one, incarnation="another")),
    ("C5", "a-gap-in-between", lambda one: _absent(one, gap_s=600.1)),
    ("C6", "the-cloud-first", lambda one: one.with_grounds(base_ended_at=1e9)),
    (
        "C6",
        "at-the-same-moment",
        lambda one: one.with_grounds(base_ended_at=one.order.grounds.cloud_started_at),
    ),
    ("C6", "another-version", lambda one: one.with_grounds(base_version="v0")),
    ("C6", "vetoed", lambda one: one.with_grounds(vetoed=True)),
    ("C6", "glimpsed", lambda one: one.with_grounds(partially_listed="v2")),
    ("C6", "no-listing", lambda one: one.with_grounds(base_ended_at=None)),
    ("C7", "an-old-poll", lambda one: one.with_look(polls={**one.look.polls, "cloud": -1e6})),
    ("C7", "judged-on-old-records", lambda one: one.with_grounds(base_started_at=-1e6)),
    ("C7", "no-poll", lambda one: one.with_look(polls={**one.look.polls, "demand": None})),
    ("C8", "in-flight-at-the-write", lambda one: one.with_look(flights=("setup",))),
    ("C8", "in-flight-at-the-plan", lambda one: one.with_grounds(flights=("shutdown",))),
    ("C9", "held", lambda one: one.with_look(holds=("r1",))),
    ("C9", "node-held-at-the-plan", lambda one: one.with_grounds(holds=("i-r1",))),
    ("C9", "held-in-the-record", lambda one: one.with_before(held=True)),
    ("C10", "breaker", lambda one: one.with_look(breaker="cloud_collapsed")),
    ("C10", "breaker-moved", lambda one: one.with_look(generation=7)),
    ("C10", "lease", lambda one: one.with_look(lease=False)),
    ("C10", "read-only", lambda one: one.with_look(read_only="another account")),
    ("C10", "cap", lambda one: one.with_grounds(place=25)),
    ("C11", "late", lambda one: one.with_order(not_after=one.look.reading.at - 1)),
    ("C11", "no-answer", lambda one: one.with_look(tagged=None)),
    ("C11", "not-asked-by-id", lambda one: one.with_look(asked_id=False)),
    ("C11", "alive-by-tag", lambda one: one.with_look(tagged=(node("r1"),))),
    ("C11", "alive-by-id", lambda one: one.with_look(by_id=node(None, id="i-r1", pool=None))),
    ("C11", "denied-too-early", lambda one: one.with_terms(visible_after=1e6)),
    ("C11", "another-version", lambda one: one.with_order(version="v0")),
    ("C12", "another-version-written", lambda one: _version_read(one, "v9")),
    ("C12", "no-fence", lambda one: one.with_terms(guarantee=Guarantee.FENCED)),
]


def _foreign() -> Any:
    return claim("r1", at=EPOCH, pool="other")


def _slow(one: Evidence, **by: float) -> Evidence:
    """With stamps so many seconds after its last ping, or before it."""
    assert one.order.grounds is not None
    last = one.order.grounds.signs.last_ping_at
    assert last is not None
    stamps = {name: last + seconds for name, seconds in by.items()}
    return one.with_signs(**stamps).with_before(**stamps)


def _clock(one: Evidence, **fields: Any) -> Evidence:
    clock = one.look.reading.clock
    assert clock is not None
    return one.with_look(reading=replace(one.look.reading, clock=replace(clock, **fields)))


def _word(one: Evidence, word: WorkerState, ago: float = 60.0) -> Evidence:
    """Told a moment ago by a node whose ping no other stamp shows."""
    assert one.look.reading.clock is not None
    fresh_at = one.look.reading.clock.now(one.look.reading.at) - ago
    signs = replace(one.look.signs, worker_state=word, last_ping_at=fresh_at)
    fenced_off = one.with_look(signs=signs)
    # The quiet is that of the plan, so that nothing but the word speaks.
    return fenced_off.with_order(fenced=True, not_after=float("inf"))


def _absent(one: Evidence, **changes: Any) -> Evidence:
    assert one.order.grounds is not None
    assert one.order.grounds.absence is not None
    return one.with_grounds(absence=replace(one.order.grounds.absence, **changes))


def _version_read(one: Evidence, version: str) -> Evidence:
    signs = replace(one.look.signs, version=version)
    return one.with_look(signs=signs).with_order(version=version)


@pytest.mark.parametrize(
    ("rule", "change"),
    [pytest.param(rule, change, id=f"{rule}-{name}") for rule, name, change in BREAKS],
)
def test_evidence_against_a_rule_names_that_rule(rule: str, change: Change) -> None:
    assert rule in change(stale()).broken()


def test_every_rule_of_c_has_evidence_against_it() -> None:
    assert {rule for rule, _, _ in BREAKS} == {"T1", *(f"C{n}" for n in range(13))}


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        pytest.param(rule, change, id=f"{rule}-{name}")
        for rule, name, change in BREAKS
        if rule not in ("C0", "C1", "C2", "C3", "C6", "C11", "C12")
    ],
)
def test_one_point_breaks_one_rule_alone(rule: str, change: Change) -> None:
    assert change(stale()).broken() == [rule]


# The exceptions, and the fence.


@cases(
    "waived",
    {
        "C3": lambda one: one.with_terms(node_stale_after=1e6),
        "C5": lambda one: one.with_terms(absent_listings=99),
        "C7": lambda one: one.with_terms(poll_stale_after=0.0),
        "C4-its-own-node": lambda one: one.with_look(listed=(node("r1"),)),
        "stopping": lambda one: one.with_look(by_id=node("r1", state=CloudState.STOPPING)),
    },
)
def test_after_a_shutdown_of_ours_c20_waives_what_silence_proves(waived: Change) -> None:
    assert waived(released(Reason.AFTER_SHUTDOWN)).broken() == []


@cases(
    ("rule", "change"),
    {
        "another-node": ("C20", lambda one: one.with_look(tagged=(node("r1", id="i-2"),))),
        "the-node-runs": ("C20", lambda one: one.with_look(by_id=node("r1"))),
        "another-instance-pings": ("C20", lambda one: one.with_before(instance_id="i-9")),
        "another-life": ("C11", lambda one: one.with_order(incarnation="other")),
        "held": ("C9", lambda one: one.with_look(holds=("r1",))),
        "no-lease": ("C10", lambda one: one.with_look(lease=False)),
    },
)
def test_after_a_shutdown_of_ours_c20_has_conditions_of_its_own(rule: str, change: Change) -> None:
    assert change(released(Reason.AFTER_SHUTDOWN)).broken() == [rule]


@cases(
    "change",
    {
        "pinged-after-all": lambda one: one.with_before(first_ping_at=EPOCH),
        "a-node-after-all": lambda one: one.with_look(tagged=(node("r1"),)),
        "a-listed-node": lambda one: one.with_look(listed=(node("r1"),)),
    },
)
def test_after_a_refused_create_a_sign_of_life_breaks_u6(change: Change) -> None:
    assert change(released(Reason.CREATE_REFUSED, pinged=False)).broken() == ["U6"]


def _asked(one: Evidence, by: str, **changes: Any) -> Evidence:
    """The same with another answer of the cloud, by tag or by id; None for no answer."""
    assert one.order.grounds is not None
    answer = getattr(one.order.grounds, by)
    return one.with_grounds(**{by: replace(answer, **changes) if changes else None})


@pytest.mark.parametrize("by", ["asked_by_tag", "asked_by_id"])
@cases(
    "changes",
    {
        "not-asked": {},
        "not-denied": {"denied_since": None},
        "denied-too-short": {"denied_since": 1e9},
        "asked-long-ago": {"asked_at": 0.0},
        "answered-long-ago": {"at": 0.0, "asked_at": None},
        "too-far-apart": {"gap_s": 600.1},
        "no-node-s-id": {"malformed": True},
    },
)
def test_one_that_pings_is_freed_on_unbroken_denials_alone_p6(
    by: str, changes: dict[str, Any]
) -> None:
    assert _asked(in_vain_evidence(), by, **changes).broken() == ["P6"]


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("C4", lambda one: one.with_look(listed=(node("r1"),))),
        (
            "C5",
            lambda one: one.with_grounds(absence=replace(one.order.grounds.absence, listings=1)),
        ),
        ("C7", lambda one: one.with_look(polls={"cloud": None})),
        ("C9", lambda one: one.with_before(held=True)),
        ("C11", lambda one: one.with_look(tagged=(node("r1"),))),
        ("C12", lambda one: one.with_before(version="another")),
    ],
)
def test_one_that_pings_in_vain_is_held_against_all_that_pings_do_not_say_p6(
    rule: str, change: Change
) -> None:
    assert rule in change(in_vain_evidence()).broken()


def test_a_malformed_id_is_nothing_to_have_asked_by_c11_p1a() -> None:
    """Nobody may be freed because the cloud has no node of an id that none can have (N12)."""
    assert stale(claimed=False).broken() == []
    assert stale(claimed=False).with_look(malformed=True).broken() == ["C11"]


@pytest.mark.parametrize(("more_s", "broken"), [(4.0, []), (12.0, ["C11"])])
def test_a_first_ping_ahead_of_the_clock_is_as_old_as_the_silence_at_the_last_look_c11_t1(
    more_s: float, broken: list[str]
) -> None:
    """The clock was set back since, and the cloud asked 8 s after the plan."""
    made = gone()
    order = made.clean_order("r1")
    made.advance(8.0)
    ahead = made.store_now + 3600.0
    evidence = looked(made, order).with_before(first_ping_at=ahead).with_signs(first_ping_at=ahead)
    evidence = evidence.with_clock_set_back()
    limit_s = float(order.measures["idle_s"]) + more_s
    assert evidence.with_terms(visible_after=limit_s).broken() == broken


def test_a_first_ping_that_the_clock_caught_up_with_is_as_old_as_the_silence_c11_t1() -> None:
    """It was ahead when the clock was set back; behind the fence it shows some seconds of age."""
    behind = fenced()
    caught_up = EPOCH + behind.look.reading.at - 13.0
    evidence = behind.with_before(first_ping_at=caught_up).with_clock_set_back()
    assert evidence.with_signs(first_ping_at=caught_up).broken() == []
    # One that the plan did not see tells of a ping since.
    assert "C11" in evidence.broken()


def test_a_word_is_no_fresher_behind_a_fence_than_when_it_was_judged_c2_t1() -> None:
    """The store's clock was set back while the fence waited: the old ping shows a second of age."""
    behind = fenced().with_signs(worker_state=WorkerState.IDLE)
    ping, clock = behind.look.signs.last_ping_at, behind.look.reading.clock
    assert ping is not None
    assert clock is not None
    set_back = changed(clock, offset=ping + 1.0 - behind.look.reading.at)
    later = behind.with_look(reading=replace(behind.look.reading, clock=set_back))
    assert later.broken() == []
    # A ping that the plan did not see is as fresh as it shows.
    newer = replace(later.look.signs, last_ping_at=ping + 0.5)
    assert "C2" in later.with_look(signs=newer).broken()


@pytest.mark.parametrize(("took_s", "broken"), [(15.0, []), (25.0, ["C11"])])
@pytest.mark.parametrize("never_pinged", [True, False])
def test_a_denial_is_as_old_as_its_question_c11(
    took_s: float, broken: list[str], never_pinged: bool
) -> None:
    """It counts from 20 s before the look on: past the first ping, or past C21's expiry."""
    one = stale(first_ping_at=None, claimed=False) if never_pinged else stale()
    at, clock = one.look.reading.at, one.look.reading.clock
    assert clock is not None
    if never_pinged:
        # C21's expiry is boot_fail_after + 120 s + visible_after.
        quiet_s = float(one.order.measures["idle_s"])
        one = one.with_terms(boot_fail_after=quiet_s - 20.0 - 120.0 - 300.0)
    else:
        first = one.before.first_ping_at
        assert first is not None
        one = one.with_terms(visible_after=clock.age(first, at) - 20.0)
    assert one.with_look(asked_at=at - took_s).broken() == broken


def test_a_slower_reading_of_the_clock_since_the_plan_accuses_no_clean_c11() -> None:
    one = stale(first_ping_at=None, claimed=False)
    reading, quiet_s = one.look.reading, float(one.order.measures["idle_s"])
    assert reading.clock is not None
    slower = changed(reading.clock, offset=reading.clock.offset - 4.0)
    one = one.with_look(reading=replace(reading, clock=slower))
    assert one.with_terms(boot_fail_after=quiet_s - 2.0 - 120.0 - 300.0).broken() == []
    assert one.with_terms(boot_fail_after=quiet_s + 2.0 - 120.0 - 300.0).broken() == ["C11"]


def test_a_fence_must_have_stood_and_hidden_nothing_c12() -> None:
    assert fenced(stood_s=10.0).broken() == ["C12"]
    pinged = fenced()
    signs = replace(pinged.look.signs, last_ping_at=EPOCH + START + 9e3)
    assert "C12" in pinged.with_look(signs=signs).broken()
    assert fenced().with_order(fenced=False).broken()


@pytest.mark.parametrize("guarantee", list(Guarantee))
@pytest.mark.parametrize(("quiet", "broken"), [(2219.0, ["C11"]), (2221.0, [])])
def test_without_a_first_ping_a_denial_is_as_old_as_the_look_that_got_it_c11(
    guarantee: Guarantee, quiet: float, broken: list[str]
) -> None:
    """C21's window is 2220 s. It passes between the plan and the last look, fence or none."""
    window = {"node_stale_after": 600.0}
    made = gone(quiet=1000.0, settings=window, first_ping_at=None, claimed=False)
    order = made.clean_order("r1")
    judged = made.record("r1")
    assert judged.last_ping_at is not None
    if guarantee is Guarantee.FENCED:
        behind = replace(judged, version="fenced", modified_at=made.store_now, fenced=True)
        behind_fence = fenced_order(order, judged, behind, made.now)
        assert behind_fence is not None
        order, made.records = behind_fence, [behind]
        made.advance(40.0)
    made.advance(quiet - (made.store_now - judged.last_ping_at))
    made.read_clock()
    one = looked(made, replace(order, not_after=made.now), guarantee)
    polls = dict.fromkeys(one.look.polls, made.now)
    assert replace(one, before=judged).with_look(polls=polls).broken() == broken


def test_without_the_plans_grounds_nothing_is_proven() -> None:
    assert stale().with_order(grounds=None).broken() == [proof.UNPROVEN]
    assert stale().with_before(uuid="r2").broken() == [proof.UNPROVEN]


def test_an_unpinged_claim_is_held_against_its_own_window_c21() -> None:
    one = stale(quiet=3000.0, pinged=False, slot=None)
    assert one.order.reason is Reason.CLAIM_EXPIRED
    assert one.with_terms(claim_expiry=True).broken() == []
    assert "C3" in one.with_terms(claim_expiry=False).broken()
    assert "C3" in one.with_terms(claim_expiry=True, boot_fail_after=7200.0).broken()


def test_a_claim_that_says_how_long_it_stands_is_held_against_that_c21_s6() -> None:
    """N16."""
    one = stale(quiet=3000.0, pinged=False, slot=None)
    stands = replace(one.before.claim, window=2900.0)
    assert one.with_before(claim=stands).with_terms(boot_fail_after=7200.0).broken() == []
    assert "C3" in one.with_before(claim=replace(stands, window=3100.0)).broken()


@given(
    quiet=st.floats(0.0, 20_000.0),
    window=st.floats(60.0, 20_000.0),
    pinged=st.booleans(),
    life=st.integers(1, 2),
    state=st.sampled_from([None, *WorkerState]),
)
def test_whatever_is_ordered_is_proven_and_survives_the_journal(
    quiet: float, window: float, pinged: bool, life: int, state: WorkerState | None
) -> None:
    """The decision and the proof are two programs; on right evidence they agree."""
    made = world(node_stale_after=window)
    made.add_record("r1", quiet=quiet, pinged=pinged, life=life, worker_state=state)
    made.settle()
    for order in made.last.cleans:
        one = looked(made, order)
        assert one.broken() == []
        stored = replace(
            one,
            order=decoded(CleanOrder, codec_of(CleanOrder).encode(order)),
            look=decoded(Look, codec_of(Look).encode(one.look)),
        )
        assert stored == one


def test_the_proof_shares_no_function_with_the_decision() -> None:
    """It may use data of other modules, and no code but its own."""
    borrowed = [
        name
        for name, one in vars(proof).items()
        if inspect.isfunction(one) and one.__module__ not in (proof.__name__, "dataclasses")
    ]
    assert borrowed == []


# What was freed stays free.


def freed_life(at: float) -> Mapping[str, FreedLife]:
    life = FreedLife("r1", incarnation_of("r1"), at)
    return {life.key: life}


def listing_of(made: World, **fields: Any) -> Any:
    made.records = [record("r1", at=EPOCH + made.now, **fields)]
    made.poll()
    assert made.history.records is not None
    return made.history.records


def test_a_freed_life_on_its_record_again_is_found_a_minute_later() -> None:
    made = world()
    listing = listing_of(made)
    clock = made.history.clock
    long_ago, lately = freed_life(made.now - 200), freed_life(made.now - 20)
    assert set(listed_again(long_ago, (), listing, clock)) == set(long_ago)
    assert listed_again(lately, (), listing, clock) == {}
    assert listed_again(long_ago, tuple(long_ago), listing, clock) == {}
    assert listed_again(long_ago, (), replace(listing, complete=False), clock) == {}
    assert listed_again(long_ago, (), listing_of(made, life=2), clock) == {}


def test_a_late_listing_that_shows_the_record_before_its_clean_is_no_sign() -> None:
    made = world()
    listing = listing_of(made)
    made.advance(600)
    late = replace(listing, started_at=made.now, ended_at=made.now)
    assert listed_again(freed_life(made.now - 500), (), late, made.history.clock) == {}


def test_a_record_without_a_claim_is_no_freed_life() -> None:
    made = world()
    listing = listing_of(made, claimed=False)
    assert listed_again(freed_life(0.0), (), listing, made.history.clock) == {}
