"""What forbids every write in a tiny world: a hold, a pause, a lost lease, a daemon that stops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from nodemanager.core.execute.workflow import Seen
from nodemanager.core.model.annotations import PAUSE, Mark
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import Guarantee
from nodemanager.core.observe.snapshot import Snapshot

B = TypeVar("B", bound="Bans")


@dataclass(frozen=True, kw_only=True)
class Bans:
    """The part of a tiny world that says what forbids a write in it."""

    held: bool = False
    paused: bool = False
    lease: bool = True
    stopping: bool = False

    @property
    def may_write(self) -> bool:
        return self.lease and not (self.held or self.paused or self.stopping)

    def seen(self, id: str, snapshot: Snapshot, settings: Settings, **more: Any) -> Seen:
        """What the manager knows with them; `id` is what is on hold if anything is."""
        marks = {PAUSE: Mark("somebody", 1.0, "")} if self.paused else {}
        holds = frozenset({id} if self.held else ())
        snapshot = replace(snapshot, lease=self.lease, pool_marks=marks, holds=holds)
        return Seen(snapshot, settings, Guarantee.CAS, stopping=self.stopping, **more)

    def banned(self: B) -> Iterator[tuple[str, B]]:
        """The worlds with one more of them."""
        if not self.held:
            yield "held", replace(self, held=True)
        if not self.paused:
            yield "paused", replace(self, paused=True)
        if self.lease:
            yield "lease lost", replace(self, lease=False)
        if not self.stopping:
            yield "told to stop", replace(self, stopping=True)
