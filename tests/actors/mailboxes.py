"""Whether any actor has something to do: a message that came and is not handled yet."""

from __future__ import annotations

import queue
import threading
from typing import Any

import pykka


class Mailboxes:
    """Those of all actors that start from now on, until `monkeypatch` is undone."""

    def __init__(self, monkeypatch: Any) -> None:
        self.changed = threading.Condition()
        self.open = 0
        """Messages that were sent and are not handled, and actors that are not up yet."""
        monkeypatch.setattr(
            pykka.ThreadingActor, "_create_actor_inbox", staticmethod(lambda: Mailbox(self))
        )

    def rest(self, within: float) -> bool:
        """Wait until no actor has anything to do; whether that came to be.

        An actor sends while it handles a message, so there is no moment at which all have handled
        theirs and another is about to come.
        """
        with self.changed:
            return self.changed.wait_for(lambda: self.open == 0, within)


class Mailbox(queue.SimpleQueue[Any]):
    """One actor's. Pykka's loop takes a message, handles it, and then takes the next one.

    When the actor has ended, the loop asks whether there is another, and drops what there is.
    """

    def __init__(self, all_of_them: Mailboxes) -> None:
        super().__init__()
        self._all = all_of_them
        self._open = 0
        self._has_ended = False
        self._count(1)

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        self._count(1)
        super().put(item, block, timeout)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        self._count(-1)
        return super().get(block, timeout)

    def empty(self) -> bool:
        with self._all.changed:
            self._count(-self._open)
            self._has_ended = True
        return super().empty()

    def _count(self, more: int) -> None:
        with self._all.changed:
            if not self._has_ended:
                self._open += more
                self._all.open += more
                if self._all.open == 0:
                    self._all.changed.notify_all()
