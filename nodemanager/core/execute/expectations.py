"""What workflows learn, and for how long it counts: nodes not listed yet, claims, drain orders."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from nodemanager.core.execute.news import DrainTold, NodeExpected, SchedulerTold
from nodemanager.core.model.scheduling import (
    Dispatched,
    SchedulerNode,
    SchedulerOrder,
    is_drained_by_us,
)
from nodemanager.core.model.settings import LATE_ORDER_S, Settings
from nodemanager.core.model.world import Listing, life_key
from nodemanager.core.observe.history import History, Records
from nodemanager.core.observe.pairing import Pairs
from nodemanager.core.observe.queries import is_called_gone
from nodemanager.core.observe.signs import pinged_lives, waits_for_first_ping
from nodemanager.core.observe.snapshot import Expected


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

    def after_told(self, orders: DrainTold, now: float) -> Drains:
        given = {uuid: one for uuid, one in self.given.items() if uuid != orders.record}
        if orders.order is not None:
            given[orders.record] = orders.order, now
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


def dispatched_after(dispatched: Dispatched, one: SchedulerTold, now: float) -> Dispatched:
    """What the scheduler was orders, with that; an answered order is unclear no more."""
    uuid = one.record.uuid
    orders = {id: order for id, order in dispatched.orders.items() if id != uuid}
    unclear = {
        id: at for id, at in dispatched.unclear.items() if id != uuid and now - at <= LATE_ORDER_S
    }
    if one.on is not None:
        orders[uuid] = SchedulerOrder(one.hostname, one.record.incarnation, one.on, now)
    elif one.unclear:
        unclear[uuid] = now
    elif uuid in dispatched.unclear and not one.unclear:
        unclear[uuid] = dispatched.unclear[uuid]
    return replace(dispatched, orders=orders, unclear=unclear)


def dispatched_listed(dispatched: Dispatched, listing: Listing[SchedulerNode]) -> Dispatched:
    """Without the orders that this listing, complete and begun since, does not show to stand."""
    if not (dispatched.orders and listing.complete):
        return dispatched
    drained = {node.name for node in listing.items if is_drained_by_us(node)}
    orders = {
        uuid: order
        for uuid, order in dispatched.orders.items()
        if order.at >= listing.started_at or (order.on and order.hostname in drained)
    }
    return replace(dispatched, orders=orders)


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
    ended, items = history.ended, history.listed_records
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
    clock = history.clock
    if clock is not None and clock.by_wall:
        clock = None
    return {
        life_key(one.uuid, one.incarnation): now
        if clock is None
        else clock.since(one.claim.at, now)
        for one in history.listed_records
        if one.claim is not None and waits_for_first_ping(one)
    }
