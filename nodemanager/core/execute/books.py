"""What workflows leave for the plans: limits, nodes not listed yet, claims' sizes, drain orders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.scheduling import (
    Dispatched,
    SchedulerNode,
    SchedulerOrder,
    is_drained_by_us,
)
from nodemanager.core.model.settings import ASK_AGAIN_S, LATE_ORDER_S, Settings
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.model.world import Listing, Record, life_key
from nodemanager.core.observe.history import History, Records
from nodemanager.core.observe.pairing import Pairs
from nodemanager.core.observe.queries import is_called_gone
from nodemanager.core.observe.signs import pinged_lives, waits_for_first_ping
from nodemanager.core.observe.snapshot import Expected, Limits
from nodemanager.core.operate.backlog_run import Step as ItemStep
from nodemanager.core.plan.refusals import after_refusal, after_success
from nodemanager.errors import RemoteError


@dataclass(frozen=True, slots=True)
class Claimed:
    """A record is claimed, or about to be, for a node of that size."""

    record: str
    size: str


@dataclass(frozen=True, slots=True)
class CreateRefused:
    """A create of these sizes failed with that error (D6)."""

    sizes: tuple[str, ...]
    error: RemoteError


@dataclass(frozen=True, slots=True)
class NodeExpected:
    """A node that the cloud created, or may have (`node_id` None), and no listing shows yet."""

    record: str
    incarnation: str | None
    size: str
    node_id: str | None = None
    is_new: bool = True
    """Whether the create was answered just now; False for a node that was found by its tag."""
    place: str | None = None
    since: float | None = None
    """From when on its time counts, CLOCK_BOOTTIME; None: from now on."""


@dataclass(frozen=True, slots=True)
class NodeDenied:
    """The cloud, asked by tag, has no node of a create whose outcome is unclear (U9)."""

    record: str
    incarnation: str


@dataclass(frozen=True, slots=True)
class WriteInDoubt:
    """A write to the record may still take effect, where the store can't compare (C12)."""

    record: str


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A set-up of that size was withdrawn since the newest plan."""

    size: str


@dataclass(frozen=True, slots=True)
class NodeGone:
    """A node that we destroyed is gone."""

    node_id: str
    reason: Reason
    size: str | None
    record: str | None = None
    incarnation: str | None = None


@dataclass(frozen=True, slots=True)
class PinsFailed:
    """The cloud failed once more to tell what a node pins; `error` None is an answer too late."""

    node_id: str
    error: RemoteError | None


@dataclass(frozen=True, slots=True)
class PinsTold:
    """The cloud told what a node pins, or nobody asks any more: the failures are forgotten."""

    node_id: str


@dataclass(frozen=True, slots=True)
class PinsCalledOff:
    """A node is not destroyed after all: what it pins is not left behind."""

    node_id: str


@dataclass(frozen=True, slots=True)
class PinsDoubted:
    """It is not known whether a node is gone: what it pins may be left behind."""

    node_id: str


@dataclass(frozen=True, slots=True)
class DrainTold:
    """The number of the drain order that the record's node is told, None where there is none (D12).

    None also while another order is on its way: nobody knows then what the node is told.
    """

    record: str
    order: str | None


@dataclass(frozen=True, slots=True)
class SchedulerTold:
    """The scheduler was told to keep work from the record's node (`on`), or to give it some (D12).

    None: nobody knows what it was told, or nothing. `unclear`: it may give the node work at any
    time from now on.
    """

    record: Record
    hostname: str
    on: bool | None
    unclear: bool = False


@dataclass(frozen=True, slots=True)
class FenceStands:
    """The fence of a clean is up: it counts for this cycle's cap, and for no later one's (C10)."""


@dataclass(frozen=True, slots=True)
class Restored:
    """A record was given back to its node (U8)."""

    record: str


@dataclass(frozen=True, slots=True)
class NotRestored:
    """Why a record that was freed by mistake stays free; logged once for each reason (U8)."""

    verdict: Verdict


@dataclass(frozen=True, slots=True)
class ItemEnded:
    """What became of an adoption that a backlog run ordered; `key` is its item's (S5, D11)."""

    key: str
    step: ItemStep


Learned = (
    Claimed
    | CreateRefused
    | NodeExpected
    | NodeDenied
    | WriteInDoubt
    | Withdrawn
    | NodeGone
    | FenceStands
    | PinsFailed
    | PinsTold
    | PinsCalledOff
    | PinsDoubted
    | DrainTold
    | SchedulerTold
    | Restored
    | NotRestored
    | ItemEnded
)


@dataclass(frozen=True, slots=True)
class Drains:
    """The drain orders that this run gave and that stand (D12).

    By record uuid: the order's number, and when it was given (CLOCK_BOOTTIME). An order of unknown
    outcome does not count: it is given again, with another number.
    """

    given: Mapping[str, tuple[str, float]] = field(default_factory=dict)

    @property
    def orders(self) -> dict[str, str]:
        """The numbers of the orders, by record uuid."""
        return {uuid: order for uuid, (order, _) in self.given.items()}

    def after_told(self, told: DrainTold, now: float) -> Drains:
        given = {uuid: one for uuid, one in self.given.items() if uuid != told.record}
        if told.order is not None:
            given[told.record] = told.order, now
        return Drains(given)

    def after_listing(self, listing: Records) -> Drains:
        """Without the orders that this listing, complete and begun since, does not show."""
        if not (self.given and listing.complete):
            return self
        shown = {record.uuid: record.drain for record in listing.items}
        return Drains(
            {
                uuid: (order, at)
                for uuid, (order, at) in self.given.items()
                if at >= listing.started_at or shown.get(uuid) == order
            }
        )


@dataclass(frozen=True, slots=True)
class Books:
    """What workflows left for the plans. `expected`, `created` and `sizes` are by record uuid.

    `created` has incarnation and size until we destroyed the node or its record is freed.
    `withdrawn` counts set-ups since the newest plan, by size; `pins_failed` counts failures to tell
    the pins, by node id.
    """

    limits: Limits = field(default_factory=Limits)
    expected: Mapping[str, Expected] = field(default_factory=dict)
    created: Mapping[str, tuple[str | None, str]] = field(default_factory=dict)
    sizes: Mapping[str, str] = field(default_factory=dict)
    withdrawn: Counter[str] = field(default_factory=Counter)
    pins_failed: Mapping[str, int] = field(default_factory=dict)
    drains: Drains = field(default_factory=Drains)
    dispatched: Dispatched = field(default_factory=Dispatched)


def dispatched_after(dispatched: Dispatched, one: SchedulerTold, now: float) -> Dispatched:
    """What the scheduler was told, with that; an answered order is unclear no more."""
    uuid = one.record.uuid
    told = {id: order for id, order in dispatched.told.items() if id != uuid}
    unclear = {
        id: at for id, at in dispatched.unclear.items() if id != uuid and now - at <= LATE_ORDER_S
    }
    if one.on is not None:
        told[uuid] = SchedulerOrder(one.hostname, one.record.incarnation, one.on, now)
    elif one.unclear:
        unclear[uuid] = now
    elif uuid in dispatched.unclear and not one.unclear:
        unclear[uuid] = dispatched.unclear[uuid]
    return replace(dispatched, told=told, unclear=unclear)


def dispatched_listed(dispatched: Dispatched, listing: Listing[SchedulerNode]) -> Dispatched:
    """Without the orders that this listing, complete and begun since, does not show to stand."""
    if not (dispatched.told and listing.complete):
        return dispatched
    drained = {node.name for node in listing.items if is_drained_by_us(node)}
    told = {
        uuid: order
        for uuid, order in dispatched.told.items()
        if order.at >= listing.started_at or (order.on and order.hostname in drained)
    }
    return replace(dispatched, told=told)


def learned(books: Books, one: Learned, now: float, nodes: int, settings: Settings) -> Books:
    """The books with one more thing learned; `nodes` is how many nodes there are now.

    A node that was just created is one of them.
    """
    match one:
        case Claimed(record, size):
            return replace(books, sizes={**books.sizes, record: size})
        case CreateRefused(sizes, error):
            limits = books.limits
            for size in sizes:
                limits = after_refusal(limits, error, size, nodes, now, settings)
            return replace(books, limits=limits)
        case NodeExpected():
            return _expecting(books, one, now, nodes)
        case NodeDenied(record, incarnation):
            expected = books.expected.get(record)
            if expected is None or (expected.node_id, expected.incarnation) != (None, incarnation):
                return books
            first_at = now if expected.denied_at is None else expected.denied_at
            is_denied = now - first_at >= ASK_AGAIN_S
            denied = replace(expected, denied_at=first_at, is_denied=is_denied)
            return replace(books, expected={**books.expected, record: denied})
        case Withdrawn(size):
            return replace(books, withdrawn=books.withdrawn + Counter([size]))
        case PinsFailed(node_id):
            failed = books.pins_failed.get(node_id, 0) + 1
            return replace(books, pins_failed={**books.pins_failed, node_id: failed})
        case PinsTold(node_id):
            left = {id: count for id, count in books.pins_failed.items() if id != node_id}
            return replace(books, pins_failed=left)
        case DrainTold():
            return replace(books, drains=books.drains.after_told(one, now))
        case SchedulerTold():
            return replace(books, dispatched=dispatched_after(books.dispatched, one, now))
        case NodeGone() if one.reason is not Reason.UNPAIRED:
            # It did not vanish by itself, however late its record is cleaned (B5).
            life = one.record, one.incarnation
            left_of = {uuid: of for uuid, of in books.created.items() if (uuid, of[0]) != life}
            return replace(books, created=left_of)
        case WriteInDoubt() | NodeGone() | PinsCalledOff() | PinsDoubted() | FenceStands():
            return books
        case Restored() | NotRestored() | ItemEnded():
            return books


def _expecting(books: Books, one: NodeExpected, now: float, nodes: int) -> Books:
    """The books with a node that was created, or may have been."""
    since = now if one.since is None else one.since
    expected = Expected(one.node_id, one.size, since, one.incarnation, one.place)
    books = replace(books, expected={**books.expected, one.record: expected})
    if one.node_id is None or not one.is_new:
        return replace(books, sizes={**books.sizes, one.record: one.size})
    created = {**books.created, one.record: (one.incarnation, one.size)}
    limits = after_success(books.limits, one.size, nodes)
    return replace(books, created=created, limits=limits)


def still_unheard(sizes: Mapping[str, str], history: History) -> Mapping[str, str]:
    """The sizes of claims, by record uuid, without the records that pinged."""
    if history.cloud is None or history.records is None:
        return sizes
    heard = history.heard
    return {
        uuid: size
        for uuid, size in sizes.items()
        if uuid not in heard or heard[uuid].last_ping_at is None
    }


def still_expected(
    expected: Mapping[str, Expected],
    history: History,
    pairs: Pairs,
    now: float,
    settings: Settings,
) -> Mapping[str, Expected]:
    """Without the nodes that paired, ended, or did not come within boot_fail_after (P4).

    A node with a known id stays longer while no listing shows it, its claim waits for a ping, and
    the cloud does not call it gone: the cloud is asked for it by id (D13). A node that only may
    exist goes once it pings: until then a listing from before its claim must not hide it. One that
    the cloud denied stays for as long as its claim waits (U9). None
    comes of a life that we freed since it was expected: a look may find only later that the write
    of a clean took effect (A2).
    """
    if not expected:
        return expected
    ended, records = history.ended, history.records
    items = records.items if records is not None else ()
    heard = pinged_lives(items, expected, history)
    waiting = {(one.uuid, one.incarnation) for one in items if waits_for_first_ping(one)}

    def stays(uuid: str, one: Expected) -> bool:
        if one.node_id in pairs.record_of or one.node_id in ended:
            return False
        if one.node_id is None and (uuid, one.incarnation) in heard:
            return False
        freed = history.freed.get(life_key(uuid, one.incarnation))
        if freed is not None and freed.freed_at >= one.since:
            return False
        if now - one.since <= settings.boot_fail_after:
            return True
        if one.node_id is None:
            return one.is_denied and (uuid, one.incarnation) in waiting
        if one.node_id in history.present:
            return False
        answer = history.asked.get(one.node_id)
        is_gone = answer is not None and is_called_gone(answer, one.since, settings)
        return (uuid, one.incarnation) in waiting and not is_gone

    return {uuid: one for uuid, one in expected.items() if stays(uuid, one)}


def expected_again(
    answers: Iterable[tuple[NodeExpected, float]],
    ended: Collection[str],
    waiting: Mapping[str, float],
    now: float,
    settings: Settings,
) -> Mapping[str, Expected]:
    """By record uuid, the nodes that the creates of a former run were answered with (P1a, P4).

    `answers` has each with its CLOCK_BOOTTIME as our wall clock tells it, which may have been set
    since: where a claim still waits for its node (`waiting_claims`), the node is not older than the
    claim, and is expected however old the answer seems. `ended` are the keys of lives and the ids
    of nodes that our own actions ended since: these are left out.
    """
    expected = {}
    for one, since in answers:
        life = life_key(one.record, one.incarnation)
        if one.node_id in ended or life in ended:
            continue
        since = min(now, max(since, waiting.get(life, since)))
        if life in waiting or now - since <= settings.boot_fail_after:
            expected[one.record] = Expected(
                one.node_id, one.size, since, one.incarnation, one.place
            )
    return expected


def without_ended(
    expected: Mapping[str, Expected], ended: Collection[str]
) -> Mapping[str, Expected]:
    """Without the lives that our own actions ended, by their keys: no node comes of them (A2)."""
    return {
        uuid: one for uuid, one in expected.items() if life_key(uuid, one.incarnation) not in ended
    }


def waiting_claims(history: History, now: float) -> Mapping[str, float]:
    """When each life that waits for its first ping was claimed, CLOCK_BOOTTIME, never too early.

    By the life's key. Until the store's clock was read, that is now.
    """
    if history.records is None:
        return {}
    clock = history.clock
    if clock is not None and clock.by_wall:
        clock = None
    return {
        life_key(one.uuid, one.incarnation): now
        if clock is None
        else clock.since(one.claim.at, now)
        for one in history.records.items
        if one.claim is not None and waits_for_first_ping(one)
    }
