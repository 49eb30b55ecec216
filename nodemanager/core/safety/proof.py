"""The proof that a clean was right, from its journal entry alone, after its outcome (C0-C12).

It shares data types with the code that decides, but no window, no match of a node with a record,
and no age but `Asked.said_at`: an error in a rule must be made twice to go unnoticed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.world import (
    CloudNode,
    CloudState,
    FreedLife,
    Guarantee,
    Record,
    WorkerState,
)
from nodemanager.core.observe.clocks import MeasuredClock
from nodemanager.core.observe.evidence import AgeBasis, Grounds, Look, Signs, Windows
from nodemanager.core.observe.history import Records
from nodemanager.core.safety.orders import CleanOrder

UNPROVEN = "proof"
"""Stands in place of a rule's id: the journal has no proof of the clean."""
CLAIM_MARGIN_S = 120.0
_SEEN_AGAIN_S = 60.0
_AGREEING_READINGS = 3
_STEP_S = 60.0
_BREAKABLE = frozenset({"C2", "C3", "C5"})
"""The rules that an operator may override, giving their name and a reason (O3); no others."""
_BLIND = "unverifiable"
"""The override for a record that the cloud can be asked for only by its own tag (C11, O3)."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that the evidence does not support; `rule` is its id."""

    rule: str
    measures: Mapping[str, Any] = field(default_factory=dict)


def unproven(why: str) -> Violation:
    """The violation of a clean that the journal can't prove, and `why` it can't."""
    return Violation(UNPROVEN, {"detail": why})


def violations(order: CleanOrder, look: Look, before: Record) -> tuple[Violation, ...]:
    """Every rule that this clean broke, as far as its evidence tells.

    `before` is the pre-image. After a shutdown of ours or a refused create, C20 or U6 replaces C2
    to C7.
    """
    if order.uuid != before.uuid:
        return (unproven(f"the pre-image is of {before.uuid}"),)
    found = [*_always(order, look, before)]
    if order.reason is Reason.AFTER_SHUTDOWN:
        found += _after_shutdown(order, look, before)
    elif order.reason is Reason.CREATE_REFUSED:
        found += _create_refused(order, look, before)
    elif order.grounds is None:
        found.append(unproven("the plan's grounds are not there"))
    elif order.reason is Reason.PINGER_DENIED:
        found += _pings_in_vain(order.grounds, look, before)
    else:
        found += _stale(order, order.grounds, look, before)
    broken = _broken_by_name(order)
    return tuple(one for one in found if one.rule not in broken)


def _broken_by_name(order: CleanOrder) -> frozenset[str]:
    """The rules that an operator overrode knowingly: these are no broken invariants (O3)."""
    hand = order.hand
    if hand is None or not hand.by or not hand.reason:
        return frozenset()
    broken = _BREAKABLE & frozenset(hand.forced)
    # C21 sets the window of a claim that never pinged, because its node may be on its way.
    on_its_way = order.grounds is not None and _is_unpinged(order.grounds.signs)
    return broken - {"C3"} if on_its_way else broken


# The rules of every clean: C0, C1, C8-C12.


def _always(order: CleanOrder, look: Look, before: Record) -> Iterator[Violation]:
    grounds, terms = order.grounds, look.terms
    named = {before.pool} if before.claim is None else {before.pool, before.claim.pool}
    named.discard(None)
    adopts = terms.adopt if grounds is None else grounds.adopt
    if named - {terms.pool} or (not named and adopts is False):
        yield Violation("C0", {"pool": before.pool})
    fields = (before.slot_number, before.hostname, before.ip_address)
    pings = (before.first_ping_at, before.last_ping_at)
    if before.claim is None and all(one is None for one in (*fields, *pings)):
        yield Violation("C1", {"version": before.version})
    yield from _forbidden(order, look, before)
    yield from _last_look(order, look, before)
    yield from _write(order, look, before)


def _forbidden(order: CleanOrder, look: Look, before: Record) -> Iterator[Violation]:
    """An action in flight, a hold, and what stops all cleaning (C8 to C10)."""
    grounds = order.grounds
    flights = look.flights + (() if grounds is None else grounds.flights)
    if flights:
        yield Violation("C8", {"action": flights[0]})
    holds = look.holds + (() if grounds is None else grounds.holds)
    if holds or before.held:
        yield Violation("C9", {"held_by": ", ".join(holds)})
    if look.breaker is not None or look.generation != order.breaker_generation:
        yield Violation("C10", {"breaker": look.breaker or "closed since the plan"})
    elif not look.lease or look.read_only is not None:
        yield Violation("C10", {"detail": look.read_only or "no lease"})
    elif grounds is not None and not grounds.place < grounds.windows.cap:
        limit = grounds.windows.cap
        yield Violation("C10", {"count": grounds.place + 1, "limit": limit})


def _last_look(order: CleanOrder, look: Look, before: Record) -> Iterator[Violation]:
    """The record was read again, unchanged, and the cloud was asked, both in time (C11)."""
    signs = look.signs
    if look.reading.at > order.not_after:
        yield Violation("C11", {"late_s": look.reading.at - order.not_after})
    elif order.version is not None and signs.version != order.version:
        yield Violation("C11", {"version": signs.version, "judged": order.version})
    elif signs.incarnation != order.incarnation or before.incarnation != order.incarnation:
        yield Violation("C11", {"incarnation": before.incarnation, "judged": order.incarnation})
    elif look.tagged is None:
        yield Violation("C11", {"detail": "the cloud was not asked"})
    elif before.claim is None and _nothing_to_ask_by(look, before) and not _is_blind(order):
        yield Violation("C11", {"detail": "nothing to ask the cloud by"})
    elif before.instance_id is not None and not look.asked_id:
        yield Violation("C11", {"detail": "not asked by its instance id"})


def _nothing_to_ask_by(look: Look, before: Record) -> bool:
    return before.instance_id is None or look.malformed


def _is_blind(order: CleanOrder) -> bool:
    hand = order.hand
    return hand is not None and bool(hand.by and hand.reason) and _BLIND in hand.forced


def _write(order: CleanOrder, look: Look, before: Record) -> Iterator[Violation]:
    """Conditional on the version judged, or behind a fence that stood and hid no ping (C12)."""
    terms, signs = look.terms, look.signs
    if terms.guarantee is Guarantee.CAS:
        if before.version != signs.version:
            yield Violation("C12", {"version": before.version, "judged": signs.version})
        return
    stood_s = look.reading.at - order.fenced_at if order.fenced_at is not None else 0.0
    if not order.fenced or order.fenced_at is None or stood_s < terms.fence_wait:
        yield Violation("C12", {"age_s": stood_s, "limit_s": terms.fence_wait})
    elif _pings(signs) != (before.first_ping_at, before.last_ping_at, before.instance_id):
        yield Violation("C12", {"detail": "it was pinged behind the fence"})


def _pings(signs: Signs) -> tuple[float | None, float | None, str | None]:
    return signs.first_ping_at, signs.last_ping_at, signs.instance_id


# The cleans that rest on the known end of the node: C20, U6.


def _after_shutdown(order: CleanOrder, look: Look, before: Record) -> Iterator[Violation]:
    """The record is of the node that we destroyed, and no other node has its tag (C20)."""
    if before.instance_id not in (None, order.instance_id):
        yield Violation("C20", {"node": before.instance_id, "judged": order.instance_id})
    elif before.instance_id is None and order.incarnation is None:
        yield Violation("C20", {"detail": "nothing says whose it is"})
    # A listing may have begun before the node was gone; the answers came later.
    others = tuple(node for node in look.listed if node.id != order.instance_id)
    for node in (*_answers(look), *others):
        going = node.id == order.instance_id and node.state is CloudState.STOPPING
        if node.state is not CloudState.TERMINATED and not going:
            yield Violation("C20", {"node": node.id, "state": node.state.value})
            return


def _create_refused(order: CleanOrder, look: Look, before: Record) -> Iterator[Violation]:
    """The claim brought no node (U6)."""
    if before.first_ping_at is not None or before.last_ping_at is not None:
        yield Violation("U6", {"detail": "it was pinged"})
    for node in (*_answers(look), *look.listed):
        if node.state is not CloudState.TERMINATED:
            yield Violation("U6", {"node": node.id, "state": node.state.value})
            return


def _answers(look: Look) -> tuple[CloudNode, ...]:
    by_id = () if look.by_id is None else (look.by_id,)
    return (*(look.tagged or ()), *by_id)


def needs_destroy(order: CleanOrder) -> str | None:
    """The id of the node whose destroy by us C20 requires; None for other cleans."""
    return (order.instance_id or "") if order.reason is Reason.AFTER_SHUTDOWN else None


def without_destroy(order: CleanOrder) -> Violation:
    """The violation of C20 if the journal has no destroy of that node."""
    return Violation("C20", {"node": order.instance_id, "detail": "no destroy is in the journal"})


# The cleans of records that ping but whose node the cloud denies: P6, with C4, C5, C7 and C11.


def _pings_in_vain(grounds: Grounds, look: Look, before: Record) -> Iterator[Violation]:
    yield from _denied_long_enough(grounds, look, before)
    yield from _nothing_listed(grounds, look, before)
    yield from _absence(grounds, look)
    yield from _fresh_polls(grounds, look)
    yield from _denial(grounds, look, before, in_vain=True)


def _denied_long_enough(grounds: Grounds, look: Look, before: Record) -> Iterator[Violation]:
    """Denied by tag, and by id where it has one, unbroken for longer than the window (P6)."""
    terms, at, absence = grounds.windows, grounds.reading.at, grounds.absence
    limit_s = terms.node_stale_after
    asked = [("tag", grounds.asked_by_tag)]
    if before.instance_id is not None and not _is_claimed_and_misnamed(grounds, look, before):
        asked.append(("id", grounds.asked_by_id))
    for by, answer in asked:
        since = None if answer is None or answer.malformed else answer.denied_since
        if answer is None or since is None or absence is None:
            yield Violation("P6", {"detail": f"not denied by {by}"})
            return
        denied_s = at - max(since, absence.first_at)
        age_s = max(answer.gap_s, at - answer.said_at)
        if not denied_s > limit_s or age_s > terms.poll_stale_after:
            yield Violation("P6", {"denied_s": denied_s, "limit_s": limit_s, "age_s": age_s})
            return


def _is_claimed_and_misnamed(grounds: Grounds, look: Look, before: Record) -> bool:
    """Whether a claimed record pings with no valid id, or with another record's node (P1a)."""
    answer = grounds.asked_by_id
    others = answer is not None and any(
        node.tags.record not in (None, before.uuid) for node in answer.nodes
    )
    return before.claim is not None and (look.malformed or others)


# The cleans of quiet records: C2-C7, and C11's time of denial.


def _stale(order: CleanOrder, grounds: Grounds, look: Look, before: Record) -> Iterator[Violation]:
    yield from _word(order, grounds, look)
    yield from _trust(order, grounds, look)
    readings = [(_quiet(grounds.signs, grounds.reading), grounds.windows)]
    if not order.fenced:
        # Behind a fence of ours only we stamp the record.
        readings.append((_quiet(look.signs, look.reading), look.terms))
    for quiet_s, terms in readings:
        window_s = terms.node_stale_after
        if _is_unpinged(grounds.signs):
            window_s = _claim_window(terms, before)
        if quiet_s is None or not quiet_s > window_s:
            yield Violation("C3", {"idle_s": quiet_s, "window_s": window_s})
            break
    yield from _nothing_listed(grounds, look, before)
    yield from _absence(grounds, look)
    yield from _order_of_listings(order, grounds, look, before)
    yield from _fresh_polls(grounds, look)
    yield from _denial(grounds, look, before)


def _nothing_listed(grounds: Grounds, look: Look, before: Record) -> Iterator[Violation]:
    """No listed node may be the record's own (C4)."""
    for node in (*grounds.listed, *grounds.partially_listed_nodes, *look.listed):
        if _may_be(node, before):
            yield Violation("C4", {"node": node.id, "state": node.state.value})
            return


def _fresh_polls(grounds: Grounds, look: Look) -> Iterator[Violation]:
    """The records judged on, and every poll, were fresh (C7)."""
    planned_s, now_s = grounds.windows.poll_stale_after, look.terms.poll_stale_after
    judged_on = ("records judged on", grounds.base_started_at, grounds.reading.at, planned_s)
    polls = [(name, began, look.reading.at, now_s) for name, began in sorted(look.polls.items())]
    for source, started_at, at, limit_s in (judged_on, *polls):
        age_s = None if started_at is None else at - started_at
        if age_s is None or age_s > limit_s:
            yield Violation("C7", {"source": source, "age_s": age_s, "limit_s": limit_s})
            return


def _word(order: CleanOrder, grounds: Grounds, look: Look) -> Iterator[Violation]:
    """The node's worker state is neither busy nor idle, or its last ping is old (C2)."""
    signs, reading = look.signs, look.reading
    if signs.worker_state not in (WorkerState.BUSY, WorkerState.IDLE):
        return
    limit_s, clock = look.terms.node_stale_after, reading.clock
    if signs.last_ping_at is None or clock is None or reading.silent_s > limit_s:
        return
    age_s = _age(signs.last_ping_at, reading)
    # A stamp from the future counts from its first sighting, also if a fence stamped since.
    same = signs.last_ping_at == grounds.signs.last_ping_at
    watched_from = grounds.reading.future_at if same else reading.future_at
    if watched_from is not None:
        age_s = max(age_s, reading.at - watched_from)
    if same and order.fenced and grounds.reading.clock is not None:
        # Behind a fence of ours nobody pings: it is no younger than when it was judged.
        age_s = max(age_s, _age(signs.last_ping_at, grounds.reading))
    if age_s <= limit_s:
        yield Violation("C2", {"worker_state": signs.worker_state.value, "age_s": age_s})


def _trust(order: CleanOrder, grounds: Grounds, look: Look) -> Iterator[Violation]:
    """The clock that measured the silence had not just jumped, and was read lately (T1).

    And no stamp of the record tells of a jump back where none is known. Behind a fence of ours only
    we stamp it.
    """
    planned_s, now_s = grounds.windows.poll_stale_after, look.terms.poll_stale_after
    planned = (grounds.reading, grounds.signs, planned_s)
    for reading, signs, limit_s in (planned, (look.reading, look.signs, now_s)):
        clock = reading.clock
        if clock is None:
            continue
        age_s = reading.at - clock.read_at
        if clock.agreed < _AGREEING_READINGS or age_s > limit_s:
            yield Violation("T1", {"count": clock.agreed, "age_s": age_s, "limit_s": limit_s})
            return
        back_s = 0.0 if clock.known_since > float("-inf") else _set_back_by(signs)
        if back_s > _STEP_S and not (order.fenced and signs is look.signs):
            yield Violation("T1", {"detail": f"set back by {back_s:.0f} s, and nobody measured it"})
            return


def _set_back_by(signs: Signs) -> float:
    """By how many seconds the store's clock was set back, as the record's stamps tell.

    The record's newest write is never older than its pings and its claim, nor its last ping older
    than its first one.
    """
    stamps = (signs.first_ping_at, signs.last_ping_at, signs.claimed_at)
    order = [(signs.modified_at, stamp) for stamp in stamps]
    order.append((signs.last_ping_at, signs.first_ping_at))
    earlier_by = (
        earlier - later for later, earlier in order if later is not None and earlier is not None
    )
    return max(earlier_by, default=0.0)


def _absence(grounds: Grounds, look: Look) -> Iterator[Violation]:
    """The absence of this incarnation's node lasted, in enough listings (C5)."""
    seen, terms = grounds.absence, grounds.windows
    listings = seen.listings if seen is not None else 0
    lasted_s = seen.last_at - seen.first_at if seen is not None else 0.0
    if seen is not None and seen.incarnation != grounds.signs.incarnation:
        listings = 0
    if seen is not None and seen.gap_s > terms.poll_stale_after:
        # Listings before the gap no longer count.
        listings = 0
    if listings < terms.absent_listings or lasted_s < terms.settle:
        yield Violation("C5", {"absent_listings": listings, "absent_s": lasted_s})


def _order_of_listings(
    order: CleanOrder, grounds: Grounds, look: Look, before: Record
) -> Iterator[Violation]:
    """The records were listed before the cloud, and no other version was seen since (C6)."""
    signs = grounds.signs
    if grounds.base_ended_at is None or grounds.cloud_started_at is None:
        yield Violation("C6", {"detail": "a listing is missing"})
    elif grounds.base_ended_at >= grounds.cloud_started_at:
        late_s = grounds.base_ended_at - grounds.cloud_started_at
        yield Violation("C6", {"detail": "the cloud was listed first", "late_s": late_s})
    elif grounds.base_version != signs.version or grounds.vetoed:
        yield Violation("C6", {"version": grounds.base_version, "judged": signs.version})
    elif grounds.partially_listed not in (None, signs.version):
        yield Violation("C6", {"version": grounds.partially_listed, "judged": signs.version})
    elif look.terms.guarantee is Guarantee.CAS and before.version != signs.version:
        yield Violation("C6", {"version": before.version, "judged": signs.version})
    elif _pings(signs) != (before.first_ping_at, before.last_ping_at, before.instance_id):
        yield Violation("C6", {"detail": "it was pinged since it was judged"})


def _denial(
    grounds: Grounds, look: Look, before: Record, *, in_vain: bool = False
) -> Iterator[Violation]:
    """No answer showed the node, and the denial came late enough to count (C11).

    The node of one that pings `in_vain` has been denied for long (P6), and is as old as that, but
    for the time that its create may have taken.
    """
    for node in _answers(look):
        if _may_be(node, before):
            yield Violation("C11", {"node": node.id, "state": node.state.value})
            return
    # Ages count until the cloud was asked, because it may have answered at once.
    asked_at = look.reading.at if look.asked_at is None else look.asked_at
    denied = replace(look.reading, at=asked_at)
    # The plan's signs, because a fence stamps the record anew.
    quiet_s = _quiet(grounds.signs, replace(denied, future_at=grounds.reading.future_at)) or 0.0
    if asked_at >= grounds.reading.at:
        # A slower reading of the clock since then makes it no younger.
        quiet_s = max(quiet_s, _quiet(grounds.signs, grounds.reading) or 0.0)
    limit_s = look.terms.visible_after
    if before.first_ping_at is None:
        since_s, limit_s = quiet_s, _claim_window(look.terms, before)
    else:
        since_s = _since_first_ping(before.first_ping_at, denied, quiet_s, grounds, look, before)
        if in_vain:
            since_s = max(since_s, _denied_in_vain_s(grounds, look, before) or since_s)
    if not since_s > limit_s:
        yield Violation("C11", {"age_s": since_s, "limit_s": limit_s})


def _since_first_ping(
    first: float, denied: AgeBasis, quiet_s: float, grounds: Grounds, look: Look, before: Record
) -> float:
    """The minimum age, in seconds, of the first ping of `before` at the denial."""
    since_s = _age(first, denied) if denied.clock is not None else 0.0
    if first == grounds.signs.first_ping_at:
        # A clock that was set back makes the first ping young, but the plan saw it.
        since_s = max(since_s, quiet_s)
    if since_s < 0.0 or first <= (before.last_ping_at or 0.0):
        # And none is after the last one.
        since_s = max(since_s, quiet_s, _quiet(look.signs, denied) or 0.0)
    return since_s


def _denied_in_vain_s(grounds: Grounds, look: Look, before: Record) -> float | None:
    """The minimum age of a pinging record's node, from how long the cloud has denied it (P6)."""
    if before.claim is None or grounds.absence is None:
        return None
    asked = (grounds.asked_by_tag, grounds.asked_by_id)
    begun = [one.denied_since for one in asked if one and one.denied_since is not None]
    denied_s = grounds.reading.at - max([grounds.absence.first_at, *begun])
    # All of its claim's nodes were made by the end of the claim's window (A2).
    return denied_s - (_claim_window(look.terms, before) - look.terms.visible_after)


def _may_be(node: CloudNode, record: Record) -> bool:
    """Whether a node in any state but terminated may be the record's own."""
    if node.state is CloudState.TERMINATED:
        return False
    if node.tags.record != record.uuid:
        # The id that a ping named does not count if both have tags of their own (P1a).
        tagged = node.tags.record is not None and record.claim is not None
        return node.id == record.instance_id and not tagged
    if node.id == record.instance_id:
        return True
    theirs, ours = node.tags.incarnation, record.incarnation
    return theirs is None or ours is None or theirs == ours


def _is_unpinged(signs: Signs) -> bool:
    pinged = signs.first_ping_at is not None or signs.last_ping_at is not None
    return signs.claimed_at is not None and not pinged


def _claim_window(terms: Windows, before: Record) -> float:
    """The claim's own window in seconds, if it has one, else C21's (S6)."""
    if before.claim is not None and before.claim.window is not None:
        return before.claim.window
    window_s = terms.boot_fail_after + CLAIM_MARGIN_S + terms.visible_after
    return window_s if terms.claim_expiry else max(window_s, terms.node_stale_after)


def _quiet(signs: Signs, reading: AgeBasis) -> float | None:
    """C3's quiet seconds, never too many: since the newest stamp, or since we saw a future one."""
    if reading.clock is None or signs.modified_at is None:
        return None
    stamps = (signs.modified_at, signs.last_ping_at, signs.claimed_at)
    dated = [stamp for stamp in stamps if stamp is not None]
    quiet_s = _age(max(dated), reading)
    watched_s = None if reading.future_at is None else reading.at - reading.future_at
    return quiet_s if watched_s is None else max(quiet_s, watched_s)


def _age(stamp: float, reading: AgeBasis) -> float:
    """Seconds since `stamp` on the store's clock, less its error, and none before a jump (T1)."""
    clock = reading.clock
    assert clock is not None
    shown = reading.at + clock.offset
    return min(shown - stamp - clock.error_s, reading.at - clock.known_since)


# After the clean.


def listed_again(
    freed: Mapping[str, FreedLife],
    reported: Iterable[str],
    listing: Records,
    clock: MeasuredClock | None,
) -> Mapping[str, FreedLife]:
    """The freed lives that a complete record listing shows again, stamped over a minute later.

    A late listing may show the record from before the clean, but then its stamp is older. Lives in
    `reported`, the false cleans that are known, are left out, because they are restored (U8).
    """
    if not listing.complete or not freed or clock is None:
        return {}
    known = frozenset(reported)
    found = {}
    for record in listing.items:
        life = freed.get(f"{record.uuid}/{record.incarnation}") if record.claim else None
        if life is None or life.key in known:
            continue
        if record.modified_at is None:
            continue
        freed_at = clock.offset + life.freed_at
        if record.modified_at - freed_at > _SEEN_AGAIN_S + clock.error_s:
            found[life.key] = life
    return found
