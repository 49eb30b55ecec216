"""The tables of counters and gauges: a counter counts the logged events of one kind, a gauge shows
a number of the newest status.

Labels come from closed lists (sources, reasons, error classes, rules) and from the configured
sizes. No id of a node or record is ever a label, so that there are few series and they disclose no
names.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import NamedTuple

from nodemanager.core.judge.node_view import FAILED_BOOTS
from nodemanager.core.model.breaker import Cause
from nodemanager.core.model.reasons import Event, Reason
from nodemanager.core.model.world import LeftoverKind, Outcome
from nodemanager.core.operate.verbs import STANDING
from nodemanager.core.plan.leftovers import LedgerState
from nodemanager.core.plan.slots import slots_per_node
from nodemanager.lib.logline import Fields
from nodemanager.web.status import Status, slots_used


class Counted(NamedTuple):
    """A counter of the logged `event`s for which `when` holds.

    The value of a label is the field of that name, or what `of` gives for it.
    """

    event: Event
    name: str
    doc: str
    labels: tuple[str, ...] = ()
    of: Mapping[str, Callable[[Fields], object]] = MappingProxyType({})
    when: Callable[[Fields], bool] = lambda fields: True

    def label_values(self, fields: Fields) -> list[object]:
        """The values of its labels for an event with these fields, in their order."""
        found = [self.of[one](fields) if one in self.of else fields[one] for one in self.labels]
        return ["" if value is None else value for value in found]


COUNTERS = (
    Counted(
        Event.CYCLE_ABORTED,
        "cycles_aborted",
        "Snapshots that allowed no decision.",
        ("reason",),
    ),
    Counted(Event.RECORD_CLEANED, "cleans", "Records freed.", ("reason",)),
    Counted(
        Event.RECORD_CLEAN_SKIPPED,
        "cleans_skipped",
        "Cleans skipped by the pre-write check.",
        ("reason",),
    ),
    Counted(
        Event.RECORD_CLEAN_FAILED,
        "cleans_failed",
        "Cleans whose write failed.",
        when=lambda fields: fields["action"] != "unfence",
    ),
    Counted(Event.RECORD_PRUNED, "prunes", "Surplus records deleted."),
    Counted(Event.RECORD_FALSE_CLEAN, "false_cleans", "Freed records whose node lived."),
    Counted(Event.RECORD_RESTORED, "restores", "Freed records restored for their node."),
    Counted(Event.NODE_CREATED, "boots", "Nodes created.", ("size",)),
    Counted(
        Event.NODE_GONE,
        "boot_failures",
        "Nodes that never pinged, or never were up in their scheduler.",
        ("size",),
        when=lambda fields: fields["reason"] in FAILED_BOOTS,
    ),
    Counted(
        Event.NODE_SETUP_FAILED,
        "create_errors",
        "Set-ups that failed, by the size and the class of the error.",
        ("size", "kind"),
        of={"kind": lambda fields: type(fields["error"]).__name__},
    ),
    Counted(Event.NODE_GONE, "shutdowns", "Nodes destroyed.", ("reason",)),
    Counted(
        Event.NODE_SHUTDOWN_SKIPPED,
        "shutdowns_skipped",
        "Shutdowns skipped by the pre-write check.",
        ("reason",),
    ),
    Counted(
        Event.NODE_SHUTDOWN_FAILED,
        "destroy_errors",
        "Destroy calls that failed.",
        when=lambda fields: fields["outcome"] is Outcome.FAILED,
    ),
    Counted(Event.INVARIANT_BROKEN, "violations", "Safety rules broken.", ("rule",)),
    Counted(Event.ACTOR_DIED, "actor_exceptions", "Exceptions in actors."),
    Counted(
        Event.BREAKER_OPENED,
        "breaker_opened",
        "Times the breaker opened.",
        ("reason",),
        of={"reason": lambda fields: fields["cause"]},
    ),
    Counted(
        Event.LEFTOVER_RELEASED,
        "leftovers_released",
        "Leftovers of gone nodes that were released.",
        ("kind",),
    ),
    Counted(
        Event.LEFTOVER_RELEASE_FAILED,
        "leftover_errors",
        "Releases that failed or whose outcome is unknown.",
        ("kind",),
        when=lambda fields: fields["outcome"] is not Outcome.ACCEPTED,
    ),
    Counted(
        Event.LEFTOVER_UNKNOWN,
        "leftover_ask_errors",
        "Failed queries for what a node pins or left behind.",
        when=lambda fields: fields.get("error") is not None,
    ),
)


class Gauged(NamedTuple):
    """A gauge; `of` gives its number, or its numbers by label values, from a status."""

    name: str
    doc: str
    of: Callable[[Status], float | Mapping[str, float] | Mapping[tuple[str, str], float]]
    labels: tuple[str, ...] = ()


def _nodes(status: Status) -> Mapping[str, int]:
    counts = asdict(status.nodes)
    del counts["wish"]
    return counts


def _spares(status: Status) -> Mapping[tuple[str, str], int]:
    return {
        (size, state): count
        for size, one in status.spares.items()
        for state, count in (("wanted", one.wanted), ("ready", one.there), ("kept", one.kept))
    }


def _slots(status: Status) -> Mapping[str, int]:
    """Used and free slots; only the used ones where the store can't tell the total."""
    used, total = slots_used(status.slots), status.slots.total
    return {"used": used} if total is None else {"used": used, "free": max(0, total - used)}


def _causes(status: Status) -> Mapping[str, int]:
    open_now = {part.cause for part in status.breaker.parts}
    return {cause.value: int(cause in open_now) for cause in Cause}


def _outdated(status: Status) -> Mapping[tuple[str, str], int]:
    return {
        (size, cause): count
        for size, one in status.rotations.items()
        for cause, count in one.causes.items()
    }


def _stalled(status: Status) -> Mapping[str, int]:
    return {size: one.waits is Reason.ROTATION_STALLED for size, one in status.rotations.items()}


def _orders(status: Status) -> Mapping[str, int]:
    return {kind: len(marks) for kind, marks in status.marks.by_kind.items()}


def _leftovers(status: Status) -> Mapping[tuple[str, str], int]:
    return {
        (kind.value, state.value): status.leftovers.get((kind, state), 0)
        for kind in LeftoverKind
        for state in LedgerState
        if state is not LedgerState.RELEASED
    }


def _stands(kind: str) -> Callable[[Status], bool]:
    return lambda shown: kind in shown.marks.pool


GAUGES: tuple[Gauged, ...] = (
    Gauged("nodes", "Cloud nodes by what they do.", _nodes, ("state",)),
    Gauged("nodes_wanted", "Nodes that the demand needs.", lambda shown: shown.nodes.wish),
    Gauged(
        "spare_nodes",
        "Nodes of each size beyond demand: `wanted` by `spare_nodes`, `ready` (idle or to come), "
        "and `kept` (fewer than wanted while something runs short).",
        _spares,
        ("size", "state"),
    ),
    Gauged(
        "nodes_outdated",
        "Nodes that wait to be replaced, by size and cause (image, type or age).",
        _outdated,
        ("size", "cause"),
    ),
    Gauged(
        "rotation_stalled",
        "1 while a size's replacements are as outdated as what they replace.",
        _stalled,
        ("size",),
    ),
    Gauged("records", "Records by state.", lambda shown: shown.records, ("state",)),
    Gauged(
        "record_verdicts",
        "Records by state and by the reason of the last plan's verdict.",
        lambda shown: shown.record_reasons,
        ("state", "reason"),
    ),
    Gauged("verdicts", "The last plan's verdicts.", lambda shown: shown.reasons, ("reason",)),
    Gauged("slots", "Slots by whether a record holds them.", _slots, ("state",)),
    Gauged(
        "slots_without_node",
        "Slots held by a record without a node, by the reason that keeps it.",
        lambda shown: {leak.cause.value: leak.count for leak in shown.slots.leaks},
        ("cause",),
    ),
    Gauged(
        "slots_without_node_by_end",
        "The same slots by the way in which their nodes went: the reason of the shutdown, or "
        "`unseen` where none of this run is known.",
        lambda shown: shown.leaked_by_end,
        ("end",),
    ),
    Gauged(
        "slots_per_node",
        "Slots that the pool's records hold, for each live node (as if one, without any).",
        lambda shown: slots_per_node(shown.slots, shown.live),
    ),
    Gauged(
        "notices",
        "What only a person can end, by its reason: slots that no rule frees, or unused records.",
        lambda shown: {one.reason.value: one.count for one in shown.notices},
        ("reason",),
    ),
    Gauged(
        "breaker_open",
        "1 while nothing is freed or destroyed.",
        lambda shown: shown.breaker.is_open,
    ),
    Gauged("breaker_causes", "1 for each cause that holds the breaker open.", _causes, ("cause",)),
    Gauged(
        "read_only",
        "1 while nothing is created, destroyed or freed, by L5 or for want of a journal.",
        lambda shown: shown.read_only is not None,
    ),
    Gauged(
        "lease_held",
        "1 while this is the pool's active manager.",
        lambda shown: shown.lease.is_active,
    ),
    *(
        Gauged(one.word, f"1 while an operator's order stands: {one.title.lower()}.", _stands(kind))
        for kind, one in STANDING.items()
    ),
    Gauged("orders", "Operators' standing orders.", _orders, ("kind",)),
    Gauged(
        "poll_failures",
        "Polls that failed since the last complete answer.",
        lambda shown: {source: poll.failures_in_a_row for source, poll in shown.polls.items()},
        ("source",),
    ),
    Gauged(
        "poll_stale_after_seconds",
        "The age of a poll from which nothing is decided on it.",
        lambda shown: shown.poll_stale_after or 0.0,
    ),
    Gauged("deferred", "Cleans that wait for the next cycle.", lambda shown: shown.deferred),
    Gauged("max_nodes", "Configured `max_nodes`.", lambda shown: shown.max_nodes),
    Gauged(
        "quota",
        "Nodes that the cloud is believed to allow.",
        lambda shown: shown.max_nodes if shown.quota is None else shown.quota,
    ),
    Gauged("price_per_hour", "Price per hour of all nodes.", lambda shown: shown.price),
    Gauged(
        "boots_refused",
        "Nodes that demand calls for and that may not be booted now, by size and reason.",
        lambda shown: shown.refused,
        ("size", "reason"),
    ),
    Gauged(
        "under_way",
        "Set-ups, shutdowns and cleans in flight.",
        lambda shown: shown.under_way,
        ("action",),
    ),
    Gauged(
        "jobs_unsatisfiable",
        "Jobs of the wishlist that no node can satisfy, by reason.",
        lambda shown: Tally(reason for _, reason in shown.unsatisfiable),
        ("reason",),
    ),
    Gauged(
        "leftovers",
        "Leftovers of our nodes that are not released yet.",
        _leftovers,
        ("kind", "state"),
    ),
)


class Aged(NamedTuple):
    """A gauge of seconds; `of` gives them by label values, from a status and boottime seconds."""

    name: str
    doc: str
    of: Callable[[Status, float], Mapping[tuple[str, ...], float]]
    labels: tuple[str, ...] = ()


def _poll_ages(status: Status, now: float) -> Mapping[tuple[str, ...], float]:
    """The age of each source's last complete answer; none before the first."""
    return {
        (source,): max(0.0, now - poll.started_at)
        for source, poll in status.polls.items()
        if poll.started_at is not None
    }


def _ping_age(status: Status, now: float) -> Mapping[tuple[str, ...], float]:
    if status.last_ping_s is None:
        return {}
    return {(): max(0.0, status.last_ping_s) + max(0.0, now - status.made_at)}


def _rests(status: Status, now: float) -> Mapping[tuple[str, ...], float]:
    return {(size, place): max(0.0, until - now) for size, place, until in status.resting}


AGES = (
    Aged(
        "poll_age_seconds",
        "Age of the last complete answer, from its request on, as decisions count it.",
        _poll_ages,
        ("source",),
    ),
    Aged("last_ping_age_seconds", "Age of the pool's newest ping, at the store.", _ping_age),
    Aged(
        "place_rest_seconds",
        "How long a place without room still rests for a size; 0 once it is over.",
        _rests,
        ("size", "place"),
    ),
)
