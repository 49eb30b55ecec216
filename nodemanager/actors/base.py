"""The base of every actor: dispatch by message type, and a death that ends the process."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

import pykka

from nodemanager.actors.messages import Beat, Ref

OnDeath = Callable[[str, BaseException], None]


class RoleActor(pykka.ThreadingActor):
    """Handles a message of the class `NodeCreated` by its method `on_NodeCreated`.

    An unknown message is a bug. Like any other exception it kills the actor, and
    `on_death(name, exception)` ends the process; systemd restarts it into a known state.
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
        """The method that handles messages of this type."""
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
    """Send the message, or drop it if that actor has ended, so that the sender does not die of it.

    An actor that died ends the process by `on_death`; the journal has what was in flight.
    """
    try:
        to.tell(message)
    except pykka.ActorDeadError:
        return
