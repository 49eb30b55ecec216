"""Our actions that ended, but that no listing shows yet: they still count (C8, C10, D9, U6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from nodemanager.core.execute.news import NodeGone
from nodemanager.core.execute.workflow import Action, End
from nodemanager.core.judge.idle import UNCAPPED
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import Outcome, Record
from nodemanager.core.observe.history import History, Records
from nodemanager.core.observe.snapshot import Flight
from nodemanager.core.safety.orders import NEVER


@dataclass(frozen=True, slots=True)
class OwnClaim:
    """A claim that the store confirmed, `at` that CLOCK_BOOTTIME; it stands `until` C21 ends it."""

    incarnation: str
    at: float
    until: float


@dataclass(frozen=True, slots=True)
class Recent:
    """Actions count until both listings began after their end. Times are CLOCK_BOOTTIME.

    `landed` are set-ups that count as a future node, by record uuid, with when they ended;
    `doubtful` has size and end of each set-up that may have claimed a record. `cleaned_at` and
    `destroyed_at` count for the caps. `touched`, `gone` and `skipped` are as in Snapshot. `claims`
    are ours that stand, by record uuid. `late_destroys` has by node id until when a destroy that
    was sent may still take effect; until `unknown_destroys` there may be others, which a journal
    that was lost had (D12).
    """

    landed: Mapping[str, tuple[Flight, float]] = field(default_factory=dict)
    doubtful: tuple[tuple[str, float], ...] = ()
    cleaned_at: tuple[float, ...] = ()
    destroyed_at: tuple[float, ...] = ()
    touched: Mapping[str, float] = field(default_factory=dict)
    gone: Mapping[str, float] = field(default_factory=dict)
    skipped: Mapping[str, float] = field(default_factory=dict)
    claims: Mapping[str, OwnClaim] = field(default_factory=dict)
    late_destroys: Mapping[str, float] = field(default_factory=dict)
    unknown_destroys: float = NEVER

    def by_record(self, without: str | None) -> dict[str, Flight]:
        """The landed set-ups by record uuid, except that of the record `without`."""
        return {uuid: flight for uuid, (flight, _) in self.landed.items() if uuid != without}

    @property
    def unclaimed(self) -> tuple[str, ...]:
        return tuple(size for size, _ in self.doubtful)


def still_recent(recent: Recent, history: History, now: float) -> Recent:
    """What still counts: without actions that ended before both newest listings began.

    A listing may show a state from minutes before it began. A record that it shows without our
    standing claim counts as if its set-up had ended just as that listing began (C8, U6).
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
        unknown_destroys=recent.unknown_destroys,
        late_destroys={id: until for id, until in recent.late_destroys.items() if now <= until},
    )


def _of_claim(claim: OwnClaim) -> Flight:
    return Flight("setup", claim.at, claim.incarnation)


def _shown(claims: Mapping[str, OwnClaim], listing: Records) -> set[str]:
    """The uuids of the records that the listing shows with our claim."""
    return {
        one.uuid
        for one in listing.items
        if one.uuid in claims and claims[one.uuid].incarnation == one.incarnation
    }


def after_claim(recent: Recent, record: Record, now: float, settings: Settings) -> Recent:
    """With the claim that the store confirmed, answering with `record`."""
    claim = record.claim
    if claim is None:
        return recent
    own = OwnClaim(claim.incarnation, now, now + settings.window_of(claim))
    return replace(recent, claims={**recent.claims, record.uuid: own})


def after_freed(recent: Recent, uuid: str) -> Recent:
    """Without our claim on a record that is free now."""
    return replace(recent, claims={id: one for id, one in recent.claims.items() if id != uuid})


def after_gone(recent: Recent, gone: NodeGone, now: float) -> Recent:
    """With a node that we destroyed and that is gone; an idle one does not count for D9's cap."""
    recent = replace(recent, gone={**recent.gone, gone.node_id: now})
    if gone.reason in UNCAPPED:
        return recent
    return replace(recent, destroyed_at=(*recent.destroyed_at, now))


def after_fence(recent: Recent, now: float) -> Recent:
    """With a clean whose fence is up: it counts from now, however long the fence stands (C10)."""
    return replace(recent, cleaned_at=(*recent.cleaned_at, now))


def with_late_destroy(recent: Recent, node_id: str, until: float) -> Recent:
    """With a destroy that was sent, and that nobody waits for any more.

    The node may live although the cloud denied it (A1), or although the wait was given up (C8).
    """
    until = max(until, recent.late_destroys.get(node_id, until))
    return replace(recent, late_destroys={**recent.late_destroys, node_id: until})


def with_inherited(
    recent: Recent, sent: Mapping[str, float], now: float, settings: Settings, *, may_lack: bool
) -> Recent:
    """With a former run's destroys that nobody waits for, by node id, and when each was sent.

    No node that one of them may still hit gets work again (D12). `may_lack` says that the journal
    may lack some, as a new one does: then that goes for every node, for as long.
    """
    waits_s = settings.action_timeout
    for node_id, sent_at in sent.items():
        recent = with_late_destroy(recent, node_id, sent_at + waits_s)
    return replace(recent, unknown_destroys=now + waits_s) if may_lack else recent


def after_end(recent: Recent, end: End, now: float, settings: Settings) -> Recent:
    """With the end of a workflow, which no listing that began before it shows."""
    about, action, since = end.about, end.key.action, end.since
    if since is None and action is not Action.CLEAN:
        return recent
    # A drain changes nothing that records and nodes are judged by.
    if action is not Action.DRAIN:
        ids = (id for id in (about.record, about.node) if id is not None)
        recent = replace(recent, touched={**recent.touched, **dict.fromkeys(ids, now)})
    if action is Action.SHUTDOWN and end.state.is_written and not _is_refused(end):
        return with_late_destroy(recent, end.key.id, now + settings.action_timeout)
    if action is Action.CLEAN:
        return _after_clean(recent, end, now)
    if action is Action.PRUNE:
        return replace(recent, cleaned_at=(*recent.cleaned_at, now))
    if action is Action.SETUP and end.state.is_written and since is not None:
        # It counts as a future node until a listing shows its claim (U6).
        if about.record is None:
            return replace(recent, doubtful=(*recent.doubtful, (end.order.size.name, now)))
        flight = Flight("setup", since, end.order.claim.incarnation)
        return _landed(recent, about.record, flight, now)
    return recent


def _is_refused(end: End) -> bool:
    return end.ended is not None and end.ended.name == Outcome.FAILED.value


def _after_clean(recent: Recent, end: End, now: float) -> Recent:
    uuid = end.key.id
    skipped = {one: at for one, at in recent.skipped.items() if one != uuid}
    if not end.has_freed:
        skipped[uuid] = now
    recent = replace(recent, skipped=skipped)
    own = recent.claims.get(uuid)
    if end.has_freed and own is not None and own.incarnation == end.order.incarnation:
        # A write that nobody answered has released our claim, as a look shows.
        recent = after_freed(recent, uuid)
    if end.since is None:
        return recent
    if end.order.reason is Reason.CREATE_REFUSED:
        # A claim counts as a future node until it is seen to be released (U6).
        return _landed(recent, uuid, Flight("setup", end.since, end.order.incarnation), now)
    if end.order.not_after != NEVER and not end.order.fenced:
        return replace(recent, cleaned_at=(*recent.cleaned_at, now))
    return recent


def _landed(recent: Recent, uuid: str, flight: Flight, now: float) -> Recent:
    return replace(recent, landed={**recent.landed, uuid: (flight, now)})
