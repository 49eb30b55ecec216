"""Who watches the daemon: the status page and the metrics, or nobody."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from nodemanager.core.execute.workflow import Told
from nodemanager.core.leftovers import LedgerState
from nodemanager.core.marks import Marks
from nodemanager.core.model import LeftoverKind
from nodemanager.core.plan import Plan
from nodemanager.core.reasons import Event, Reason
from nodemanager.core.settings import Settings
from nodemanager.core.snapshot import Snapshot


class Observer(Protocol):
    """Told of each fact as it happens; must return at once and never raise."""

    def planned(self, plan: Plan, snapshot: Snapshot, settings: Settings, took_s: float) -> None:
        """One decision was taken, in `took_s` seconds."""

    def identified(self, kind: str, seen: str) -> None:
        """What the account or the store called itself (L5)."""

    def listed(self, source: str, took_s: float, items: int, started_at: float) -> None: ...

    def list_partial(self, source: str) -> None: ...

    def list_suspect(self, source: str) -> None: ...

    def list_failed(self, source: str) -> None: ...

    def booted(self, size: str) -> None: ...

    def create_failed(self, kind: str) -> None: ...

    def shut_down(self, reason: Reason, size: str) -> None: ...

    def shutdown_skipped(self, reason: Reason) -> None: ...

    def destroy_failed(self) -> None: ...

    def cleaned(self, reason: Reason) -> None: ...

    def clean_skipped(self, reason: Reason) -> None: ...

    def clean_failed(self) -> None: ...

    def false_cleaned(self) -> None:
        """A record was freed whose node lives (U8)."""

    def restored(self) -> None: ...

    def pruned(self) -> None:
        """A surplus record was deleted."""

    def violated(self, rule: str) -> None:
        """A rule was found broken; `rule` is its id."""

    def leftovers(self, counts: Mapping[tuple[LeftoverKind, LedgerState], int]) -> None:
        """The ledger's entries, by kind and state (D4)."""

    def leftover_released(self, kind: LeftoverKind) -> None: ...

    def leftover_failed(self, kind: LeftoverKind) -> None: ...

    def marked(self, marks: Marks) -> None:
        """What operators' orders stand now."""

    def leftovers_unknown(self) -> None:
        """The cloud could not be asked what a node pins, or what was left behind."""


def count(observer: Observer, told: Told) -> None:
    """What is counted of what a workflow tells."""
    fields = told.fields
    match told.event:
        case Event.RECORD_CLEANED:
            observer.cleaned(fields["reason"])
        case Event.RECORD_CLEAN_SKIPPED:
            observer.clean_skipped(fields["reason"])
        case Event.RECORD_CLEAN_FAILED if fields["action"] != "unfence":
            observer.clean_failed()
        case Event.RECORD_PRUNED:
            observer.pruned()


class Nobody:
    """Watches nothing: for tests and for `--once`."""

    def planned(self, plan: Plan, snapshot: Snapshot, settings: Settings, took_s: float) -> None:
        return

    def identified(self, kind: str, seen: str) -> None:
        return

    def listed(self, source: str, took_s: float, items: int, started_at: float) -> None:
        return

    def list_partial(self, source: str) -> None:
        return

    def list_suspect(self, source: str) -> None:
        return

    def list_failed(self, source: str) -> None:
        return

    def booted(self, size: str) -> None:
        return

    def create_failed(self, kind: str) -> None:
        return

    def shut_down(self, reason: Reason, size: str) -> None:
        return

    def shutdown_skipped(self, reason: Reason) -> None:
        return

    def destroy_failed(self) -> None:
        return

    def cleaned(self, reason: Reason) -> None:
        return

    def clean_skipped(self, reason: Reason) -> None:
        return

    def clean_failed(self) -> None:
        return

    def false_cleaned(self) -> None:
        return

    def restored(self) -> None:
        return

    def pruned(self) -> None:
        return

    def violated(self, rule: str) -> None:
        return

    def leftovers(self, counts: Mapping[tuple[LeftoverKind, LedgerState], int]) -> None:
        return

    def leftover_released(self, kind: LeftoverKind) -> None:
        return

    def leftover_failed(self, kind: LeftoverKind) -> None:
        return

    def leftovers_unknown(self) -> None:
        return

    def marked(self, marks: Marks) -> None:
        return
