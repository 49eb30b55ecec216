"""An actor is stuck when it has not answered for a while of this process's own running."""

from __future__ import annotations

import socket
import threading
from typing import Any, cast

import pykka
import pytest

from nodemanager.actors.messages import Beat
from nodemanager.app.process import BEAT_S, Pulse
from nodemanager.httpserver.server import HttpServer
from tests.fakes.clock import ManualClock

WATCHDOG_S = 600.0


class Mailbox:
    """As much of an actor as a pulse is taken of."""

    actor_class = type("TheActor", (), {})

    def __init__(self, urn: str) -> None:
        self.actor_urn = urn
        self.beats: list[Beat] = []

    def tell(self, beat: Beat) -> None:
        self.beats.append(beat)

    def answer(self) -> None:
        while self.beats:
            self.beats.pop().answered()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def actors() -> tuple[Mailbox, Mailbox]:
    return Mailbox("a"), Mailbox("b")


def pulse_of(clock: ManualClock, actors: tuple[Mailbox, ...]) -> Pulse:
    return Pulse(clock, cast("tuple[pykka.ActorRef[Any], ...]", actors))


def test_an_actor_that_just_died_does_not_end_the_pulse(clock: ManualClock) -> None:
    """Its death is on its way to the service, which ends with it and says whose it was."""

    class Mortal(pykka.ThreadingActor):
        pass

    actor = Mortal.start()
    actor.stop()
    Pulse(clock, (actor,)).beat()
    assert not actor.is_alive()


def go_on(clock: ManualClock, pulse: Pulse, seconds: float, *answering: Mailbox) -> None:
    """Beats as the service gives them."""
    for _ in range(int(seconds / BEAT_S)):
        pulse.beat()
        for actor in answering:
            actor.answer()
        clock.advance(BEAT_S)
    pulse.beat()


@pytest.mark.parametrize("answered", [True, False], ids=["answered-before", "asked-before"])
def test_a_suspend_longer_than_the_watchdog_finds_nobody_stuck(
    clock: ManualClock, actors: tuple[Mailbox, Mailbox], answered: bool
) -> None:
    """N24: it ended the process at every resume of a laptop, or of a paused guest."""
    pulse = pulse_of(clock, actors)
    go_on(clock, pulse, 60, *actors)
    if answered:
        for actor in actors:
            actor.answer()
    clock.advance(3 * WATCHDOG_S)
    pulse.beat()
    assert pulse.stuck(WATCHDOG_S) == []
    go_on(clock, pulse, WATCHDOG_S / 2, *actors)
    assert pulse.stuck(WATCHDOG_S) == []


def test_an_actor_that_answers_no_more_is_found_after_the_watchdogs_time(
    clock: ManualClock, actors: tuple[Mailbox, Mailbox]
) -> None:
    well, _ = actors
    pulse = pulse_of(clock, actors)
    go_on(clock, pulse, 60, *actors)
    go_on(clock, pulse, WATCHDOG_S - 2 * BEAT_S, well)
    assert pulse.stuck(WATCHDOG_S) == []
    go_on(clock, pulse, 4 * BEAT_S, well)
    ((name, age_s),) = pulse.stuck(WATCHDOG_S)
    assert name == "TheActor"
    assert WATCHDOG_S < age_s < WATCHDOG_S + 4 * BEAT_S


def test_an_actor_stuck_before_a_suspend_is_found_after_it(
    clock: ManualClock, actors: tuple[Mailbox, Mailbox]
) -> None:
    well, _ = actors
    pulse = pulse_of(clock, actors)
    go_on(clock, pulse, WATCHDOG_S / 2, well)
    clock.advance(10 * WATCHDOG_S)
    go_on(clock, pulse, WATCHDOG_S / 2 + 4 * BEAT_S, well)
    assert pulse.stuck(WATCHDOG_S)


@pytest.mark.socket
def test_a_server_whose_loop_hangs_is_found_stuck(clock: ManualClock) -> None:
    """X1: a server that answers nothing must not go unnoticed."""
    entered, release = threading.Event(), threading.Event()

    async def stuck(scope: Any, receive: Any, send: Any) -> None:
        entered.set()
        release.wait(30)

    server = HttpServer(stuck, "127.0.0.1", 0, option="", name="registry")
    server.start()
    pulse = Pulse(clock, (), servers=(server,))
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert entered.wait(5)
        go_on(clock, pulse, WATCHDOG_S + 2 * BEAT_S)
        assert [name for name, _ in pulse.stuck(WATCHDOG_S)] == ["http-registry"]
        release.set()
        answered = threading.Event()
        server.ask(answered.set)
        assert answered.wait(5)
    assert pulse.stuck(WATCHDOG_S) == []
    server.stop()
