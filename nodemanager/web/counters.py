"""The table of counters: each counts the logged events of one kind.

Labels come from closed lists (sources, reasons, error classes, rules) and from the configured
sizes. No id of a node or record is ever a label, so that there are few series and they disclose no
names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from nodemanager.core.judge.node_view import FAILED_BOOTS
from nodemanager.core.model.reasons import Event
from nodemanager.core.model.world import Outcome
from nodemanager.lib.logline import Fields


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
