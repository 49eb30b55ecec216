"""What a scheduler says of its nodes, in one answer and in successive ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from nodemanager.core.model.world import Record, Size, WorkerState

OURS = "nodemanager: "
"""What the reason of each of our orders begins with, so that an operator's own orders stand out."""


class SchedulerVerb(StrEnum):
    """What some schedulers can do, and others can't."""

    DESCRIBE = "describe"
    COMMENT = "comment"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True)
class SchedulerNode:
    """A node in a scheduler's listing; `name` is the hostname of its record.

    `draining`: it is given no new work, by anyone's order; `reason` is the text of that order, or
    of why the node is down. `reserved`: an advance reservation holds it. `said` is its state in the
    scheduler's own words. `weight` is its rank among nodes that a job may run on, the lowest
    first; None where the scheduler has none. `cores` and `ram_mb` are what the scheduler believes
    it to have. `responds` is False where the scheduler can't reach the node. `free_cores` and
    `free_ram_mb` are what its jobs leave of that, None where that is not known. `planned`: it is
    idle, and kept for a job that waits for more nodes. `suspended`: the scheduler has switched the
    node off, and gives work only to the next machine of that name, which it may wait for already.
    `given_up`: it gives the name no work before it is resumed, as no machine came or answers, or as
    we called it gone. `off`: it has switched the node off, and waits for no machine; `wanted`: it
    waits for the next one. `elsewhere`: the node is in no partition that this pool serves.
    `started_at` is when the daemon that it hears under the name was started, epoch seconds by that
    machine's own clock: another value is another daemon. None where it does not know.
    """

    name: str
    state: WorkerState
    draining: bool = False
    reserved: bool = False
    reason: str = ""
    said: str = ""
    features: tuple[str, ...] = ()
    weight: int | None = None
    cores: int | None = None
    responds: bool = True
    suspended: bool = False
    given_up: bool = False
    ram_mb: int | None = None
    free_cores: int | None = None
    free_ram_mb: int | None = None
    planned: bool = False
    off: bool = False
    wanted: bool = False
    elsewhere: bool = False
    started_at: int | None = None

    @property
    def drained(self) -> bool:
        """Whether it does no work and is given none."""
        return self.draining and self.state in (WorkerState.IDLE, WorkerState.DOWN)


@dataclass(frozen=True, slots=True)
class SchedulerReport:
    """What the newest complete answer of a scheduler says of a node, and what led to it (D12).

    It is about the life `incarnation` of the node's record. `idle` counts the complete answers in a
    row that call the node idle. `busy_since` is when the first answer in a row began that calls it
    busy. Times are CLOCK_BOOTTIME.
    """

    node: SchedulerNode
    incarnation: str | None
    idle: int = 0
    busy_since: float | None = None

    @property
    def is_set_aside(self) -> bool:
        """Whether somebody else keeps work from the node: an operator's drain, or a reservation."""
        return is_set_aside(self.node)

    @property
    def is_drained_by_us(self) -> bool:
        """Whether an order of ours, of whatever run, keeps work from the node."""
        return is_drained_by_us(self.node)


def is_set_aside(node: SchedulerNode) -> bool:
    """Whether somebody else keeps work from the node: an operator's drain, or a reservation."""
    return node.reserved or (node.draining and not is_drained_by_us(node))


def is_drained_by_us(node: SchedulerNode) -> bool:
    """Whether an order of ours keeps work from the node."""
    return node.draining and node.reason.startswith(OURS)


@dataclass(frozen=True, slots=True)
class SchedulerOrder:
    """What this run told a scheduler of a node, and when it had answered (CLOCK_BOOTTIME).

    `on`: to give the node no more work; else to give it work again. It is about one life.
    """

    hostname: str
    incarnation: str | None
    on: bool
    at: float


class ErrandOutcome(StrEnum):
    """What became of an errand."""

    SENT = "sent"
    DONE = "done"
    FAILED = "failed"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class ErrandTried:
    """When an errand was last sent, or answered (CLOCK_BOOTTIME), and what became of it."""

    outcome: ErrandOutcome
    at: float


@dataclass(frozen=True, slots=True)
class Dispatched:
    """What a scheduler was told of nodes, by record uuid (D12). Times are CLOCK_BOOTTIME.

    `orders` are those of this run that stand; one of unknown outcome does not count. `unclear`
    has when a node was to get work again, where nobody knows whether it does: that may still undo a
    later drain. So may an order that a former run sent before `since`. `errands` are those of this
    run, by their keys.
    """

    orders: Mapping[str, SchedulerOrder] = field(default_factory=dict)
    unclear: Mapping[str, float] = field(default_factory=dict)
    since: float | None = None
    errands: Mapping[str, ErrandTried] = field(default_factory=dict)

    def order_of(self, record: Record) -> SchedulerOrder | None:
        """The order that stands for this life of the record, under its hostname of now."""
        order = self.orders.get(record.uuid)
        if order is None or order.incarnation != record.incarnation:
            return None
        return order if order.hostname == record.hostname else None


# Records whose slot is one certain seat: a node of the scheduler, of a certain name and size.

SEAT, SEAT_SIZE = "nodemanager_seat", "nodemanager_seat_size"
"""The properties with the seat's name, and with the names of its size where it takes one only."""


def seat_of(record: Record) -> str | None:
    """The name of the node that the record is in the scheduler; None where its slot is any."""
    seat = record.properties.get(SEAT)
    return seat if isinstance(seat, str) else None


def host_of(record: Record) -> str | None:
    """The record's hostname; of a free seat, the name that its node would have."""
    return record.hostname or seat_of(record)


def may_take(record: Record, size: Size, host: str | None) -> bool:
    """Whether a boot of that size, for the node `host` if it is for one, may claim the record."""
    if host is not None and seat_of(record) != host:
        return False
    named = record.properties.get(SEAT_SIZE) or ()
    return not named or not set(size.names).isdisjoint(named)
