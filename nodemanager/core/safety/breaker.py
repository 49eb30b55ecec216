"""The breaker: a latch that stops all freeing and destroying (SAFETY.md B1-B3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from nodemanager.core.model.breaker import COLLAPSES, Breaker, Cause
from nodemanager.core.model.settings import (
    ASK_AGAIN_S,
    ASK_LIMIT,
    CLOCK_STEP_S,
    COLLAPSE_FLOOR,
    Settings,
)
from nodemanager.core.model.world import CloudNode, CloudState
from nodemanager.core.observe.history import History

RUNS = frozenset({CloudState.PENDING, CloudState.RUNNING})


def _standing(lasting: Breaker, parts: Iterable[Breaker], generation: int) -> Breaker:
    """Open for these parts, closed without any; what outlasts a closing is as in `lasting`."""
    first, *others = tuple(parts) or (Breaker(),)
    return replace(
        first,
        generation=generation,
        others=tuple(others),
        gone=lasting.gone,
        acquitted=lasting.acquitted,
        reported=lasting.reported,
        looked_at=lasting.looked_at,
        looked=lasting.looked,
    )


def opened(
    breaker: Breaker, cause: Cause, ids: frozenset[str], at: float, detail: Mapping[str, int]
) -> Breaker:
    """The breaker, open for one more cause; its other causes stay."""
    part = Breaker(cause=cause, ids=ids, opened_at=at, detail=detail)
    stood = (one for one in breaker.parts if one.cause is not cause)
    return _standing(breaker, (part, *stood), breaker.generation + 1)


def closed(breaker: Breaker) -> Breaker:
    return _standing(breaker, (), breaker.generation + 1)


def reset(breaker: Breaker, at: float) -> Breaker:
    """The breaker, closed by an operator at `at`: what it was about does not open it again (B3)."""
    lost: frozenset[str] = frozenset()
    silent: frozenset[str] = frozenset()
    looked = breaker.looked
    for part in breaker.parts:
        if part.cause is Cause.CLEAN_RATE:
            looked = part.ids
        elif part.cause in COLLAPSES:
            lost |= part.ids - part.back
        elif part.cause is Cause.MASS_SILENCE:
            silent |= part.ids
    gone, acquitted = breaker.gone | lost, breaker.acquitted | silent
    return closed(replace(breaker, gone=gone, acquitted=acquitted, looked_at=at, looked=looked))


def joined(stored: Breaker, other: Breaker) -> Breaker:
    """The breaker of an earlier run and the present one, joined: open for the causes of both."""
    own = {part.cause: part for part in other.parts}
    stood = [_both(part, own.pop(part.cause, None)) for part in stored.parts]
    generation = max(stored.generation, other.generation) + (1 if other.generation else 0)
    lasting = Breaker(
        gone=stored.gone | other.gone,
        acquitted=stored.acquitted | other.acquitted,
        reported={**stored.reported, **other.reported},
        looked_at=max(stored.looked_at, other.looked_at),
        looked=stored.looked | other.looked,
    )
    return _standing(lasting, (*stood, *own.values()), generation)


def _both(stored: Breaker, own: Breaker | None) -> Breaker:
    """One cause of both runs, about all that it is about in either; as new as the newer one."""
    if own is None:
        return stored
    return replace(
        max(stored, own, key=lambda part: part.opened_at),
        ids=stored.ids | own.ids,
        back=stored.back | own.back,
        confirmed=stored.confirmed | own.confirmed,
        denied={**stored.denied, **own.denied},
    )


def with_part(breaker: Breaker, cause: Cause, part: Breaker | None) -> Breaker:
    """The breaker with `cause`'s part replaced, or dropped if None; closed when none is left."""
    parts = [one for one in breaker.parts if one.cause is not cause]
    if part is not None:
        at = [one.cause for one in breaker.parts].index(cause)
        parts.insert(at, part)
    return _standing(breaker, parts, breaker.generation) if parts else closed(breaker)


def with_changed(breaker: Breaker, part: Breaker) -> Breaker:
    """The breaker with that part replaced, or dropped once all its `ids` are back or confirmed."""
    assert part.cause is not None
    explained = part.back | part.confirmed >= part.ids
    return with_part(breaker, part.cause, None if explained else part)


def collapses(lost: int, known: int, settings: Settings, *, cloud: bool = True) -> bool:
    """Whether a listing lacks too many (L3): a few nodes may all be gone, but not all records."""
    if not cloud and lost == known > 0:
        return True
    return known >= COLLAPSE_FLOOR and lost > settings.collapse_fraction * known


def after_listing(
    breaker: Breaker,
    history: History,
    ids: frozenset[str],
    at: float,
    settings: Settings,
    *,
    cloud: bool,
) -> Breaker:
    """The breaker after a complete listing that began at `at`; `history` is without that listing.

    `ids` are all listed ids, of any pool and in any state, terminated too; only this pool's ids can
    be missing (L3a). The breaker opens on a collapse (L3), and closes when what was lost is listed
    again or confirmed gone (B3). While it is open, what else goes missing belongs to the loss. What
    we destroyed belongs to no loss, from when the destroy was sent.
    """
    cause = Cause.CLOUD_COLLAPSED if cloud else Cause.RECORDS_COLLAPSED
    if breaker.gone & ids:
        breaker = replace(breaker, gone=breaker.gone - ids)
    sets = history.known_nodes if cloud else history.known_records
    known = sets.largest(at, breaker.gone)
    lost = known - ids
    part = breaker.part(cause)
    if part is None:
        if not collapses(len(lost), len(known), settings, cloud=cloud):
            return breaker
        detail = {"lost": len(lost), "known": len(known), "listed": len(ids)}
        return opened(breaker, cause, lost, at, detail)
    lost = (lost | part.ids).difference(sets.destroyed)
    part = replace(part, ids=lost, back=lost & ids, confirmed=part.confirmed - ids)
    is_back = len(part.back) >= (1 - settings.collapse_fraction) * len(lost)
    if is_back or part.back | part.confirmed >= lost:
        return _explained(breaker, part)
    return with_part(breaker, cause, part)


def after_scheduler(
    breaker: Breaker,
    history: History,
    names: frozenset[str],
    ours: frozenset[str],
    at: float,
    settings: Settings,
) -> Breaker:
    """The breaker after a scheduler's complete listing of `names` that began at `at` (L3).

    Only names that are `ours` now can be missing (L3a): those of nodes that the cloud lists. What
    is no longer ours is lost no more.
    """
    if breaker.gone & names:
        breaker = replace(breaker, gone=breaker.gone - names)
    known = history.known_scheduled.largest(at, breaker.gone) & ours
    lost = known - names
    part = breaker.part(Cause.SCHEDULER_COLLAPSED)
    if part is None:
        if not collapses(len(lost), len(known), settings):
            return breaker
        detail = {"lost": len(lost), "known": len(known), "listed": len(names)}
        return opened(breaker, Cause.SCHEDULER_COLLAPSED, lost, at, detail)
    lost |= part.ids
    part = replace(part, ids=lost, back=lost & names)
    if history.cloud is not None and not _is_listing_lacking(breaker):
        lost &= ours
    is_back = len(lost & names) >= (1 - settings.collapse_fraction) * len(lost)
    return with_part(breaker, Cause.SCHEDULER_COLLAPSED, None if is_back else part)


def _is_listing_lacking(breaker: Breaker) -> bool:
    """Whether a listing can't be believed that tells which nodes are ours."""
    return any(part.cause in COLLAPSES - {Cause.SCHEDULER_COLLAPSED} for part in breaker.parts)


def _explained(breaker: Breaker, part: Breaker) -> Breaker:
    """The breaker without an explained collapse; the nodes that are gone count as lost no more."""
    assert part.cause is not None
    gone = breaker.gone | (part.confirmed - part.back)
    return with_part(replace(breaker, gone=gone), part.cause, None)


def to_ask(breaker: Breaker, history: History, limit: int = ASK_LIMIT) -> tuple[str, ...]:
    """The node ids that the cloud must still be asked for, at most `limit` (B3).

    They are the lost nodes, and those silent nodes that are unlisted or listed as stopped.
    """
    present = history.present
    asking: set[str] = set()
    for part in breaker.parts:
        if part.cause is Cause.CLOUD_COLLAPSED:
            asking |= part.ids - part.confirmed - part.back - present.keys()
        elif part.cause is Cause.MASS_SILENCE:
            asking |= {
                node_id
                for node_id in part.ids - part.confirmed
                if node_id not in present or present[node_id].state is CloudState.STOPPED
            }
    denied: dict[str, float] = {}
    for part in breaker.parts:
        denied |= part.denied
    return tuple(sorted(asking, key=lambda one: (denied.get(one, 0.0), one))[:limit])


def after_answers(
    breaker: Breaker,
    answers: Mapping[str, CloudNode | None],
    *,
    asked_at: float,
    at: float,
    settings: Settings,
) -> Breaker:
    """The breaker after the cloud's answers by id; a node is gone by D3 (B3).

    The first question was sent at `asked_at`, and the answers were here `at`, CLOCK_BOOTTIME. Each
    was given in between, nobody knows when: two are as far apart as the later's question is from
    the earlier's arrival. A lost node was created before it was lost, so that its age is at least
    the time since the opening.
    """
    for part in breaker.parts:
        if part.cause not in (Cause.CLOUD_COLLAPSED, Cause.MASS_SILENCE):
            continue
        ended = {CloudState.TERMINATED}
        if part.cause is Cause.MASS_SILENCE:
            ended.add(CloudState.STOPPED)
        denied = dict(part.denied)
        confirmed = set(part.confirmed)
        for node_id in sorted(part.ids & answers.keys()):
            node = answers[node_id]
            if node is not None:
                denied.pop(node_id, None)
                confirmed.discard(node_id)
                if node.state in ended:
                    confirmed.add(node_id)
            elif settings.visible_after == 0 or (
                asked_at - part.opened_at > settings.visible_after
                and asked_at - denied.setdefault(node_id, at) >= ASK_AGAIN_S
            ):
                confirmed.add(node_id)
        part = replace(part, confirmed=frozenset(confirmed), denied=denied)
        assert part.cause is not None
        if part.cause is Cause.CLOUD_COLLAPSED and part.back | part.confirmed >= part.ids:
            breaker = _explained(breaker, part)
        else:
            breaker = with_part(breaker, part.cause, part)
    return breaker


@dataclass(frozen=True, slots=True)
class Population:
    """The nodes among whom some turned silent, down or unpaired (D9).

    So many are `listed`, or known by an answer; `left` had turned bad and are listed no more.
    `uncounted` turned bad in a listing that had collapsed, and no plan before this one could tell
    how many of all nodes they are.
    `made_since` says which of the listed were launched after a time, `out_of_sight` how many more
    no listing shows that were heard lately: each of them may be alive, and may have turned bad.
    """

    listed: int
    left: frozenset[str]
    uncounted: frozenset[str]
    made_since: Callable[[float], AbstractSet[str]]
    out_of_sight: Callable[[], int]


def after_silence(
    breaker: Breaker,
    history: History,
    no_more: frozenset[str],
    population: Population,
    at: float,
    settings: Settings,
) -> Breaker:
    """The breaker after a plan has folded in who of `population` is bad: D9 opens, B3 closes it.

    Of those for which it is open, or that are acquitted, the nodes in `no_more` are known to be
    well, or are not ours.
    """
    breaker = _still_acquitted(breaker, history, no_more)
    part = breaker.part(Cause.MASS_SILENCE)
    if part is not None:
        # A node that turns bad while it is open belongs to the same wave.
        joins = {one for one, turned in history.turned.items() if turned.found_at > part.opened_at}
        if joins - part.ids - breaker.acquitted:
            part = replace(part, ids=part.ids | (joins - breaker.acquitted))
            breaker = with_part(breaker, Cause.MASS_SILENCE, part)
        breaker, part = _started_again(breaker, part, history)
        ended = part.confirmed | (part.ids & history.ended.keys())
        if len(part.ids - no_more - ended) > settings.collapse_fraction * len(part.ids):
            return breaker
        breaker = with_part(
            replace(breaker, acquitted=breaker.acquitted | ended), Cause.MASS_SILENCE, None
        )
    window = settings.node_stale_after
    turned = {one: then for one, then in history.turned.items() if one not in breaker.acquitted}
    lately = {one: then.found_at for one, then in turned.items() if at - then.found_at <= window}
    # A silent node turned bad long before a plan found it so, and one out of sight longer still.
    found = {
        one for one, then in turned.items() if then.found_at == at or one in population.uncounted
    }
    together = _turned_with(found, {one: then.since for one, then in turned.items()}, window)
    for wave in sorted((lately, together), key=len, reverse=True):
        nodes = _number_of(wave, population, window, settings)
        if mass_silence(len(wave), nodes, settings):
            detail = {"silent": len(wave), "nodes": nodes}
            return opened(breaker, Cause.MASS_SILENCE, frozenset(wave), at, detail)
    return breaker


def _still_acquitted(breaker: Breaker, history: History, no_more: frozenset[str]) -> Breaker:
    """The breaker, with who is known to be well, or has left, acquitted no more.

    After a start no run has found those nodes ill, and they may be as ill as before.
    """
    left = breaker.acquitted - history.present.keys()
    over = breaker.acquitted & (no_more | left) - history.turned.keys()
    return replace(breaker, acquitted=breaker.acquitted - over) if over else breaker


def _started_again(breaker: Breaker, part: Breaker, history: History) -> tuple[Breaker, Breaker]:
    """The breaker and its part, without the stopped nodes that are listed as running again."""
    present = history.present
    runs = {id for id in part.confirmed if id in present and present[id].state in RUNS}
    if not runs:
        return breaker, part
    part = replace(part, confirmed=part.confirmed - runs)
    return with_part(breaker, Cause.MASS_SILENCE, part), part


def _number_of(
    wave: Mapping[str, float], population: Population, window: float, settings: Settings
) -> int:
    """How many nodes there are, those of the wave included (D9).

    Who was made after the window of the wave did not turn in it. So a node that was destroyed and
    its successor are not both counted, unless fewer than five were left otherwise. Who is out of
    sight, or was made about when the window ended, only fills them up to five: too many would hide
    a wave.
    """
    everyone = population.listed + len(population.left)
    if len(wave) <= settings.collapse_fraction * COLLAPSE_FLOOR:
        return everyone
    ended_at = min(wave.values()) + window
    # The cloud's clock may be off by as much either way (A3).
    least, most = (
        everyone - len((population.made_since(at) | population.left) - wave.keys())
        for at in (ended_at, ended_at + 2 * CLOCK_STEP_S)
    )
    if most >= COLLAPSE_FLOOR:
        return max(least, COLLAPSE_FLOOR)
    return max(everyone, min(everyone + population.out_of_sight(), COLLAPSE_FLOOR))


def _turned_with(
    found: AbstractSet[str], turned: Mapping[str, float], window: float
) -> dict[str, float]:
    """The most nodes that turned bad within one window, in which at least one of `found` did."""
    ordered = sorted(turned.items(), key=lambda item: item[1])
    best: tuple[int, int] = (0, 0)
    first, newest = 0, -1
    for last, (node_id, since) in enumerate(ordered):
        if node_id in found:
            newest = last
        while since - ordered[first][1] > window:
            first += 1
        if newest >= first and last + 1 - first > best[1] - best[0]:
            best = (first, last + 1)
    return dict(ordered[slice(*best)])


def mass_silence(turned: int, population: int, settings: Settings) -> bool:
    """Whether more than `collapse_fraction` of enough nodes turned bad in one window (D9)."""
    return population >= COLLAPSE_FLOOR and turned > settings.collapse_fraction * population
