"""What every actor has: dispatch by message type, and a death that ends the process."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

import pykka

from nodemanager.actors.messages import Beat, Ref

OnDeath = Callable[[str, BaseException], None]


class RoleActor(pykka.ThreadingActor):
    """An actor whose handler for a message `NodeCreated` is its method `on_NodeCreated`.

    An unknown message is an error of ours, so it kills the actor as any other exception does,
    and `on_death(name, exception)` ends the process: systemd restarts it into a known state.
    """

    use_daemon_thread = True

    def __init__(self, on_death: OnDeath) -> None:
        super().__init__()
        self._on_death = on_death

    @property
    def name(self) -> str:
        return type(self).__name__

    def on_receive(self, message: Any) -> Any:
        if isinstance(message, Beat):
            message.answered()
            return None
        return self.handler_of(message)(message)

    def handler_of(self, message: Any) -> Callable[[Any], Any]:
        """Who handles a message of that type."""
        handler: Callable[[Any], Any] = getattr(self, f"on_{type(message).__name__}")
        return handler

    def on_failure(
        self,
        exception_type: type[BaseException] | None,
        exception_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exception_value is not None:
            self._on_death(self.name, exception_value)


def tell(to: Ref, message: Any) -> None:
    """Tell, unless that actor has ended: one's end is no reason for another to die.

    A death of its own ends the process by `on_death`; what is in flight is in the journal.
    """
    try:
        to.tell(message)
    except pykka.ActorDeadError:
        return
