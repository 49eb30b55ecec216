"""What ended of ours and no listing shows yet: it still counts (SAFETY.md C8, C10, D9, U6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from nodemanager.core.execute.books import NodeGone
from nodemanager.core.execute.unacknowledged import NEVER
from nodemanager.core.execute.workflow import Action, End
from nodemanager.core.explain.events import CLEANED
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import Record
from nodemanager.core.observe.history import History, Records
from nodemanager.core.plan.snapshot import Flight


@dataclass(frozen=True, slots=True)
class OwnClaim:
    """A claim of ours that the store answered: it stands `until` C21 ends it."""

    incarnation: str
    at: float
    until: float


@dataclass(frozen=True, slots=True)
class Recent:
    """Counts until both listings began after its end. Times are CLOCK_BOOTTIME.

    `landed` are set-ups that count as a node to be, by record, with when they ended; `doubtful` the
    sizes of those of which nobody knows whether a record was claimed for them. `touched`, `gone`
    and `skipped` are as in Snapshot. `claims` are those that stand, by record.
    """

    landed: Mapping[str, tuple[Flight, float]] = field(default_factory=dict)
    doubtful: tuple[tuple[str, float], ...] = ()
    cleaned_at: tuple[float, ...] = ()
    destroyed_at: tuple[float, ...] = ()
    touched: Mapping[str, float] = field(default_factory=dict)
    gone: Mapping[str, float] = field(default_factory=dict)
    skipped: Mapping[str, float] = field(default_factory=dict)
    claims: Mapping[str, OwnClaim] = field(default_factory=dict)

    def by_record(self, without: str | None) -> dict[str, Flight]:
        """The set-ups that landed, by record uuid; `without` is one that is left out."""
        return {uuid: flight for uuid, (flight, _) in self.landed.items() if uuid != without}

    @property
    def unclaimed(self) -> tuple[str, ...]:
        """The sizes of set-ups of which nobody knows whether a record was claimed for them."""
        return tuple(size for size, _ in self.doubtful)


def still_recent(recent: Recent, history: History, now: float) -> Recent:
    """Without what both newest listings began after.

    A listing may show what was minutes before it began. What it does not show as we claimed it, it
    shows as it was before: that claim counts as if it had ended only now (C8, U6).
    """
    if history.cloud is None or history.records is None:
        return recent
    listing = history.records
    shown = min(history.cloud.started_at, listing.started_at)
    claims = {uuid: one for uuid, one in recent.claims.items() if now <= one.until}
    before = claims.keys() - _shown(claims, listing) if claims else set()
    return Recent(
        landed={
            **{id: landed for id, landed in recent.landed.items() if landed[1] >= shown},
            **{id: (_of_claim(claims[id]), listing.started_at) for id in before},
        },
        doubtful=tuple((size, at) for size, at in recent.doubtful if at >= shown),
        cleaned_at=tuple(at for at in recent.cleaned_at if at >= shown),
        destroyed_at=tuple(at for at in recent.destroyed_at if at >= shown),
        touched={
            **{id: at for id, at in recent.touched.items() if at >= shown},
            **dict.fromkeys(before, listing.started_at),
        },
        gone={id: at for id, at in recent.gone.items() if at >= shown},
        skipped={uuid: at for uuid, at in recent.skipped.items() if uuid in history.heard},
        claims=claims,
    )


def _of_claim(claim: OwnClaim) -> Flight:
    return Flight("setup", claim.at, claim.incarnation)


def _shown(claims: Mapping[str, OwnClaim], listing: Records) -> set[str]:
    """The records that the listing shows as they were claimed."""
    return {
        one.uuid
        for one in listing.items
        if one.uuid in claims and claims[one.uuid].incarnation == one.incarnation
    }


def after_claim(recent: Recent, record: Record, now: float, settings: Settings) -> Recent:
    """The store answered a claim of ours with that record."""
    claim = record.claim
    if claim is None:
        return recent
    own = OwnClaim(claim.incarnation, now, now + settings.window_of(claim))
    return replace(recent, claims={**recent.claims, record.uuid: own})


def after_freed(recent: Recent, uuid: str) -> Recent:
    """That record is free: no claim of ours stands on it any more."""
    return replace(recent, claims={id: one for id, one in recent.claims.items() if id != uuid})


def after_gone(recent: Recent, gone: NodeGone, now: float) -> Recent:
    """A node that we destroyed is gone; against the cap counts what was not idle (D9)."""
    recent = replace(recent, gone={**recent.gone, gone.node_id: now})
    if gone.reason is Reason.IDLE_BEYOND_DEMAND:
        return recent
    return replace(recent, destroyed_at=(*recent.destroyed_at, now))


def after_fence(recent: Recent, now: float) -> Recent:
    """A clean has begun to write: it counts from here on, however long its fence stands (C10)."""
    return replace(recent, cleaned_at=(*recent.cleaned_at, now))


def after_end(recent: Recent, end: End, now: float) -> Recent:
    """A workflow blocks its record and node no more; a listing that began before shows what was."""
    about, action, since = end.about, end.key.action, end.since
    if since is None and action is not Action.CLEAN:
        return recent
    # A drain changes nothing that a record or node is judged by.
    if action is not Action.DRAIN:
        ids = (id for id in (about.record, about.node) if id is not None)
        recent = replace(recent, touched={**recent.touched, **dict.fromkeys(ids, now)})
    if action is Action.CLEAN:
        return _after_clean(recent, end, now)
    if action is Action.PRUNE:
        return replace(recent, cleaned_at=(*recent.cleaned_at, now))
    if action is Action.SETUP and end.state.is_written and since is not None:
        # A node to be until it is listed with the claim (U6).
        if about.record is None:
            return replace(recent, doubtful=(*recent.doubtful, (end.order.size.name, now)))
        flight = Flight("setup", since, end.order.claim.incarnation)
        return _landed(recent, about.record, flight, now)
    return recent


def _after_clean(recent: Recent, end: End, now: float) -> Recent:
    uuid = end.key.id
    skipped = {one: at for one, at in recent.skipped.items() if one != uuid}
    if end.ended is None or end.ended.name != CLEANED:
        skipped[uuid] = now
    recent = replace(recent, skipped=skipped)
    if end.since is None:
        return recent
    if end.order.reason is Reason.CREATE_REFUSED:
        # A claim counts as a node to be until it is seen to be released (U6).
        return _landed(recent, uuid, Flight("setup", end.since, end.order.incarnation), now)
    if end.order.not_after != NEVER and not end.order.fenced:
        return replace(recent, cleaned_at=(*recent.cleaned_at, now))
    return recent


def _landed(recent: Recent, uuid: str, flight: Flight, now: float) -> Recent:
    return replace(recent, landed={**recent.landed, uuid: (flight, now)})
