"""The latch that stops all freeing and destroying (SAFETY.md B1-B3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from nodemanager.core.model.settings import ASK_AGAIN_S, ASK_LIMIT, COLLAPSE_FLOOR, Settings
from nodemanager.core.model.world import CloudNode, CloudState, FreedLife
from nodemanager.core.observe.history import History


class Cause(StrEnum):
    """Why the breaker opened."""

    CLOUD_COLLAPSED = "cloud_collapsed"
    RECORDS_COLLAPSED = "records_collapsed"
    MASS_SILENCE = "mass_silence"
    FALSE_CLEAN = "false_clean"
    INVARIANT = "invariant"
    CLEAN_RATE = "clean_rate"
    WRITES_FAIL = "writes_fail"
    UNREADABLE = "unreadable"


HOW_TO_CLEAR = {
    Cause.CLOUD_COLLAPSED: "closes when the lost nodes are listed again or each is confirmed gone "
    "by id; or by `nodemanager breaker reset` once you have looked",
    Cause.RECORDS_COLLAPSED: "closes when the lost records are listed again; or by `nodemanager "
    "breaker reset` once you have looked",
    Cause.MASS_SILENCE: "closes when few enough of these nodes are still silent, or each is "
    "terminated or stopped; or by `nodemanager breaker reset` once you have looked",
    Cause.FALSE_CLEAN: "closes when each of these records is listed as restored, or its node "
    "confirmed gone by id; or by `nodemanager breaker reset` once you have looked",
    Cause.INVARIANT: "closes by `nodemanager breaker reset` once you know what broke the rule that "
    "the `invariant.broken` lines name",
    Cause.CLEAN_RATE: "closes by `nodemanager breaker reset` once you know why so many records may "
    "be freed at once; those are not counted again",
    Cause.WRITES_FAIL: "closes when a probe write to the record store succeeds; or by `nodemanager "
    "breaker reset` once you have looked",
    Cause.UNREADABLE: "closes by `nodemanager breaker reset` once you know what a newer version of "
    "this program had opened it for: this one can't read all that was kept of it",
}


@dataclass(frozen=True, slots=True)
class Breaker:
    """Closed while `cause` is None. `generation` counts its changes; an order carries it (C11).

    `ids` are what was lost or fell silent; of them `back` are listed again, `confirmed` were called
    gone (or stopped, after a mass silence) by the cloud, asked by id, and `denied` is when it first
    knew no such node. `others` are further causes that stand: it closes with the last. `gone` and
    `acquitted` outlast the closing: nodes whose loss or silence is explained, and opens no more.
    So does `told`: the lives, by key, that were freed while their node lived (U8); after a false
    clean `ids` are such keys. `looked_at` is when an operator last reset it, and `looked` are the
    records, by name and version, that many at once had opened it for: they never do again.
    """

    cause: Cause | None = None
    ids: frozenset[str] = frozenset()
    confirmed: frozenset[str] = frozenset()
    opened_at: float = 0.0
    generation: int = 0
    detail: Mapping[str, int] = field(default_factory=dict)
    back: frozenset[str] = frozenset()
    denied: Mapping[str, float] = field(default_factory=dict)
    others: tuple[Breaker, ...] = ()
    gone: frozenset[str] = frozenset()
    acquitted: frozenset[str] = frozenset()
    told: Mapping[str, FreedLife] = field(default_factory=dict)
    looked_at: float = float("-inf")
    looked: frozenset[str] = frozenset()

    @property
    def is_open(self) -> bool:
        return self.cause is not None

    @property
    def stops_booting(self) -> bool:
        """Booting stops, too, when a listing can't be believed (B2)."""
        return any(part.cause in COLLAPSES for part in self.parts)

    @property
    def parts(self) -> tuple[Breaker, ...]:
        """Each cause that stands, as a breaker of its own."""
        if not self.is_open:
            return ()
        return (replace(self, others=()), *self.others) if self.others else (self,)

    def part(self, cause: Cause) -> Breaker | None:
        if not self.is_open:
            return None
        return next((part for part in self.parts if part.cause is cause), None)


COLLAPSES = frozenset({Cause.CLOUD_COLLAPSED, Cause.RECORDS_COLLAPSED})


def _standing(lasting: Breaker, parts: Iterable[Breaker], generation: int) -> Breaker:
    """Open for these causes, or closed without any; with what outlasts them as in `lasting`."""
    first, *others = tuple(parts) or (Breaker(),)
    return replace(
        first,
        generation=generation,
        others=tuple(others),
        gone=lasting.gone,
        acquitted=lasting.acquitted,
        told=lasting.told,
        looked_at=lasting.looked_at,
        looked=lasting.looked,
    )


def opened(
    breaker: Breaker, cause: Cause, ids: frozenset[str], at: float, detail: Mapping[str, int]
) -> Breaker:
    """Open for one more cause; what stood before goes on standing."""
    part = Breaker(cause=cause, ids=ids, opened_at=at, detail=detail)
    stood = (one for one in breaker.parts if one.cause is not cause)
    return _standing(breaker, (part, *stood), breaker.generation + 1)


def closed(breaker: Breaker) -> Breaker:
    """Closed for every cause."""
    return _standing(breaker, (), breaker.generation + 1)


def reset(breaker: Breaker, at: float) -> Breaker:
    """Closed by an operator who has looked: what was lost or fell silent opens it no more (B3).

    Nor do records that were eligible then.
    """
    lost: frozenset[str] = frozenset()
    silent: frozenset[str] = frozenset()
    looked = breaker.looked
    for part in breaker.parts:
        if part.cause is Cause.CLEAN_RATE:
            looked = part.ids
        elif part.cause in COLLAPSES:
            lost |= part.ids - part.back
        elif part.cause in (Cause.MASS_SILENCE, Cause.FALSE_CLEAN):
            silent |= part.ids
    gone, acquitted = breaker.gone | lost, breaker.acquitted | silent
    return closed(replace(breaker, gone=gone, acquitted=acquitted, looked_at=at, looked=looked))


def joined(stored: Breaker, other: Breaker) -> Breaker:
    """What a former run left and what opened since: both stand. Never closer than either."""
    standing = {part.cause for part in stored.parts}
    more = tuple(part for part in other.parts if part.cause not in standing)
    generation = max(stored.generation, other.generation) + (1 if other.generation else 0)
    lasting = Breaker(
        gone=stored.gone | other.gone,
        acquitted=stored.acquitted | other.acquitted,
        told={**stored.told, **other.told},
        looked_at=max(stored.looked_at, other.looked_at),
        looked=stored.looked | other.looked,
    )
    return _standing(lasting, (*stored.parts, *more), generation)


def with_part(breaker: Breaker, cause: Cause, part: Breaker | None) -> Breaker:
    """With one cause's part changed, or without it; closed when none is left."""
    parts = [one for one in breaker.parts if one.cause is not cause]
    if part is not None:
        at = [one.cause for one in breaker.parts].index(cause)
        parts.insert(at, part)
    return _standing(breaker, parts, breaker.generation) if parts else closed(breaker)


def with_changed(breaker: Breaker, part: Breaker) -> Breaker:
    """With one cause's part as it is now; without it once all of `ids` are back or confirmed."""
    assert part.cause is not None
    explained = part.back | part.confirmed >= part.ids
    return with_part(breaker, part.cause, None if explained else part)


def collapses(lost: int, known: int, settings: Settings, *, cloud: bool = True) -> bool:
    """Too many of them at once (L3). A few nodes may all go; records never go by our doing."""
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
    """The breaker after a complete listing of `ids`; `history` is without that listing.

    `ids` are all that are listed, of whatever pool, a node that is listed as terminated too: that
    one is not lacking. What may be lacking is this pool's (L3a).
    Opens on a collapse (L3), closes when what was lost is there again (B3). While it is open, what
    else goes missing belongs to the loss.
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
    lost |= part.ids
    part = replace(part, ids=lost, back=lost & ids)
    is_back = len(part.back) >= (1 - settings.collapse_fraction) * len(lost)
    if is_back or part.back | part.confirmed >= lost:
        return _explained(breaker, part)
    return with_part(breaker, cause, part)


def _explained(breaker: Breaker, part: Breaker) -> Breaker:
    """Without a collapse whose lost are back or gone; the gone ones are lost no more."""
    assert part.cause is not None
    gone = breaker.gone | (part.confirmed - part.back)
    return with_part(replace(breaker, gone=gone), part.cause, None)


def to_ask(breaker: Breaker, history: History, limit: int = ASK_LIMIT) -> tuple[str, ...]:
    """Nodes that the cloud has still to be asked for by id, a few at a time (B3).

    Those lost; and of those that fell silent the ones that are not listed as up.
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
    settings: Settings,
) -> Breaker:
    """The breaker once the cloud was asked by id, CLOCK_BOOTTIME; gone is gone by D3 (B3).

    By when it was asked, not by when its answer was taken: two answers that waited for us may have
    been given in one moment. A lost node was created before it was lost, so its age is at least
    that of the opening.
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
                if node.state in ended:
                    confirmed.add(node_id)
            elif settings.visible_after == 0 or (
                asked_at - part.opened_at > settings.visible_after
                and asked_at - denied.setdefault(node_id, asked_at) >= ASK_AGAIN_S
            ):
                confirmed.add(node_id)
        part = replace(part, confirmed=frozenset(confirmed), denied=denied)
        assert part.cause is not None
        if part.cause is Cause.CLOUD_COLLAPSED and part.back | part.confirmed >= part.ids:
            breaker = _explained(breaker, part)
        else:
            breaker = with_part(breaker, part.cause, part)
    return breaker


def after_silence(
    breaker: Breaker,
    history: History,
    still_bad: frozenset[str],
    population: int,
    at: float,
    settings: Settings,
) -> Breaker:
    """Opens on mass silence (D9), closes when few enough of those nodes are still bad (B3)."""
    unlisted = frozenset(history.turned) - history.present.keys()
    still = still_bad | unlisted
    if breaker.acquitted - still:
        breaker = replace(breaker, acquitted=breaker.acquitted & still)
    part = breaker.part(Cause.MASS_SILENCE)
    if part is not None:
        # Who turns bad while it is open is of the same wave.
        joins = {one for one, since in history.turned.items() if since > part.opened_at}
        if joins - part.ids - breaker.acquitted:
            part = replace(part, ids=part.ids | (joins - breaker.acquitted))
            breaker = with_part(breaker, Cause.MASS_SILENCE, part)
        ended = part.confirmed
        if history.cloud is not None:
            ended |= {node.id for node in history.cloud.items if node.is_absent} & part.ids
        bad = (part.ids & (still_bad | (part.ids - history.present.keys()))) - ended
        if len(bad) > settings.collapse_fraction * len(part.ids):
            return breaker
        breaker = with_part(
            replace(breaker, acquitted=breaker.acquitted | ended), Cause.MASS_SILENCE, None
        )
    window = settings.node_stale_after
    turned = frozenset(
        node_id
        for node_id, since in history.turned.items()
        if at - since <= window and node_id not in breaker.acquitted
    )
    if not mass_silence(len(turned), population, settings):
        return breaker
    detail = {"silent": len(turned), "nodes": population}
    return opened(breaker, Cause.MASS_SILENCE, turned, at, detail)


def mass_silence(turned: int, population: int, settings: Settings) -> bool:
    """More than `collapse_fraction` of at least five nodes turned bad in one window (D9)."""
    return population >= COLLAPSE_FLOOR and turned > settings.collapse_fraction * population
