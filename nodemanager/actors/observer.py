"""Who watches the daemon: the status page and the metrics, or nobody."""

from __future__ import annotations

from typing import Protocol

from nodemanager.core.history import History
from nodemanager.core.plan import Plan
from nodemanager.core.reasons import Reason
from nodemanager.core.snapshot import Limits


class Observer(Protocol):
    """Told of each fact as it happens; must return at once and never raise."""

    def planned(self, plan: Plan, history: History, limits: Limits, now: float) -> None: ...

    def listed(self, source: str, took_s: float, items: int) -> None: ...

    def list_failed(self, source: str) -> None: ...

    def booted(self, size: str) -> None: ...

    def boot_failed(self) -> None: ...

    def shut_down(self, reason: Reason) -> None: ...

    def shutdown_failed(self) -> None: ...

    def cleaned(self, reason: Reason) -> None: ...

    def clean_skipped(self, reason: Reason) -> None: ...

    def clean_failed(self) -> None: ...


class Nobody:
    """Watches nothing: for tests and for `--once`."""

    def planned(self, plan: Plan, history: History, limits: Limits, now: float) -> None:
        return

    def listed(self, source: str, took_s: float, items: int) -> None:
        return

    def list_failed(self, source: str) -> None:
        return

    def booted(self, size: str) -> None:
        return

    def boot_failed(self) -> None:
        return

    def shut_down(self, reason: Reason) -> None:
        return

    def shutdown_failed(self) -> None:
        return

    def cleaned(self, reason: Reason) -> None:
        return

    def clean_skipped(self, reason: Reason) -> None:
        return

    def clean_failed(self) -> None:
        return
