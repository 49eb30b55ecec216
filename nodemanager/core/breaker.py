"""The latch that stops all freeing and destroying (SAFETY.md B1-B3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from nodemanager.core.history import History
from nodemanager.core.model import CloudNode, CloudState
from nodemanager.core.settings import COLLAPSE_FLOOR, Settings


class Cause(StrEnum):
    """Why the breaker opened."""

    CLOUD_COLLAPSED = "cloud_collapsed"
    RECORDS_COLLAPSED = "records_collapsed"
    MASS_SILENCE = "mass_silence"


HOW_TO_CLEAR = {
    Cause.CLOUD_COLLAPSED: "closes when the lost nodes are listed again or each is confirmed gone "
    "by id; or restart the daemon once you have looked",
    Cause.RECORDS_COLLAPSED: "closes when the lost records are listed again; or restart the daemon "
    "once you have looked",
    Cause.MASS_SILENCE: "closes when few enough of these nodes are still silent, or each is "
    "terminated or stopped; or restart the daemon once you have looked",
}


@dataclass(frozen=True, slots=True)
class Breaker:
    """Closed while `cause` is None. `generation` counts its changes; an order carries it (C11).

    `ids` are what was lost or fell silent, `confirmed` those of them that the cloud, asked by
    id, called gone.
    """

    cause: Cause | None = None
    ids: frozenset[str] = frozenset()
    confirmed: frozenset[str] = frozenset()
    opened_at: float = 0.0
    generation: int = 0
    detail: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        return self.cause is not None

    @property
    def stops_booting(self) -> bool:
        """Booting stops, too, when a listing can't be believed (B2)."""
        return self.cause in (Cause.CLOUD_COLLAPSED, Cause.RECORDS_COLLAPSED)


def opened(
    breaker: Breaker, cause: Cause, ids: frozenset[str], at: float, detail: Mapping[str, int]
) -> Breaker:
    return Breaker(
        cause=cause, ids=ids, opened_at=at, generation=breaker.generation + 1, detail=detail
    )


def closed(breaker: Breaker) -> Breaker:
    return Breaker(generation=breaker.generation + 1)


def collapses(lost: int, known: int, settings: Settings) -> bool:
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

    Opens on a collapse (L3), closes when what was lost is there again (B3).
    """
    cause = Cause.CLOUD_COLLAPSED if cloud else Cause.RECORDS_COLLAPSED
    if breaker.cause is cause:
        return closed(breaker) if _is_back(breaker, ids, settings) else breaker
    known = (history.known_nodes if cloud else history.known_records).largest(at)
    lost = known - ids
    if not collapses(len(lost), len(known), settings):
        return breaker
    detail = {"lost": len(lost), "known": len(known), "listed": len(ids)}
    return opened(breaker, cause, lost, at, detail)


def _is_back(breaker: Breaker, ids: frozenset[str], settings: Settings) -> bool:
    back = len(breaker.ids & ids)
    return back >= (1 - settings.collapse_fraction) * len(breaker.ids)


def to_ask(breaker: Breaker, history: History, limit: int = 20) -> tuple[str, ...]:
    """Lost nodes that the cloud has still to be asked for by id, a few at a time (B3)."""
    if breaker.cause is not Cause.CLOUD_COLLAPSED:
        return ()
    open_ids = breaker.ids - breaker.confirmed - history.present.keys()
    return tuple(sorted(open_ids)[:limit])


def after_answers(breaker: Breaker, answers: Mapping[str, CloudNode | None]) -> Breaker:
    """The breaker once the cloud was asked by id; one that is gone by D3 is confirmed (B3).

    The caller asks only for nodes older than `visible_after`.
    """
    if breaker.cause is not Cause.CLOUD_COLLAPSED:
        return breaker
    gone = {
        node_id
        for node_id, node in answers.items()
        if node is None or node.state is CloudState.TERMINATED
    }
    confirmed = breaker.confirmed | (gone & breaker.ids)
    if confirmed >= breaker.ids:
        return closed(breaker)
    return replace(breaker, confirmed=confirmed)


def after_silence(
    breaker: Breaker,
    history: History,
    still_bad: frozenset[str],
    population: int,
    at: float,
    settings: Settings,
) -> Breaker:
    """Opens on mass silence (D9), closes when few enough of those nodes are still bad (B3)."""
    if breaker.cause is Cause.MASS_SILENCE:
        ended = {
            node_id
            for node_id in breaker.ids
            if (node := history.present.get(node_id)) is not None
            and node.state is CloudState.STOPPED
        }
        if history.cloud is not None:
            ended |= {node.id for node in history.cloud.items if node.is_absent} & breaker.ids
        bad = (breaker.ids & (still_bad | (breaker.ids - history.present.keys()))) - ended
        if not bad or len(bad) <= settings.collapse_fraction * len(breaker.ids):
            return closed(breaker)
        return breaker
    if breaker.is_open:
        return breaker
    turned = frozenset(history.turned)
    if not mass_silence(len(turned), population, settings):
        return breaker
    detail = {"silent": len(turned), "nodes": population}
    return opened(breaker, Cause.MASS_SILENCE, turned, at, detail)


def mass_silence(turned: int, population: int, settings: Settings) -> bool:
    """More than `collapse_fraction` of at least five nodes turned bad in one window (D9)."""
    return population >= COLLAPSE_FLOOR and turned > settings.collapse_fraction * population
