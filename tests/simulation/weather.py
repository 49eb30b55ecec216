"""What becomes of each remote call: how long it takes, whether it arrives, what is answered."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol, TypeVar

from nodemanager.errors import CloudError, RemoteError, StoreError
from tests.simulation.engine import Engine, Process, Strand

T = TypeVar("T")


@dataclass(frozen=True)
class Fate:
    """What happens to one call.

    `effect` False: it never arrives. `error` is answered in place of the result, whether or not
    there was an effect. `there` and `back` are seconds added to the way; what takes longer than
    the caller waits is a time-out for it, and takes effect all the same. With `again` it arrives a
    second time, so many seconds after the first, and only the second is answered.
    """

    effect: bool = True
    error: Callable[[], RemoteError] | None = None
    there: float = 0.0
    back: float = 0.0
    again: float | None = None


FINE = Fate()


class Spell(Protocol):
    """A fault that lasts for a while and strikes calls."""

    def strikes(self, method: str, caller: str) -> Fate | None: ...


@dataclass(frozen=True)
class Watcher:
    """Acts once a call of `method` by `caller` reaches a stage: `sent` or `done`."""

    caller: str
    method: str
    stage: str
    act: Callable[[], None]


class Weather:
    """All spells in force. `spells` is changed by the faults' beginnings and ends."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.spells: list[Spell] = []
        self.watchers: list[Watcher] = []
        self.calls = 0
        self.sent_at = 0.0
        """When the call that takes effect just now was sent."""
        self.answered: list[Callable[[str, str, str, Any], None]] = []
        self.failed: list[Callable[[str, str, str, RemoteError], None]] = []
        self.sent: list[Callable[[str, str, str], None]] = []

    def fate(self, method: str, caller: str) -> Fate:
        for spell in self.spells:
            fate = spell.strikes(method, caller)
            if fate is not None:
                return fate
        return FINE

    def reached(self, stage: str, method: str, caller: str) -> None:
        if not self.watchers:
            return
        for watcher in self.watchers:
            if (watcher.caller, watcher.method, watcher.stage) == (caller, method, stage):
                self.watchers.remove(watcher)
                watcher.act()
                return


class Line:
    """The way from one process to one server. `method` names are `SERVER.CALL`."""

    def __init__(
        self,
        engine: Engine,
        weather: Weather,
        process: Process,
        *,
        server: str,
        timeout: float,
        error: type[RemoteError],
    ) -> None:
        self._engine = engine
        self._weather = weather
        self._process = process
        self._server = server
        self._timeout = timeout
        self._error = error

    def call(self, name: str, effect: Callable[[], T], about: str = "") -> T:
        """Make the call from the strand that runs; raises RemoteErrors alone.

        `about` is the node id or record uuid that it concerns.
        """
        strand = Strand.current
        assert strand is not None, "only an actor that may wait makes remote calls"
        method = f"{self._server}.{name}"

        def request(strand: Strand) -> None:
            self._send(strand, method, effect)

        for told in self._weather.sent:
            told(self._process.name, method, about)
        call = (method, about, self._engine.now)
        self._process.calls.append(call)
        try:
            result, error = strand.ask(request)
        finally:
            self._process.calls.remove(call)
        if error is not None:
            for failed in self._weather.failed:
                failed(self._process.name, method, about, error)
            raise error
        for heard in self._weather.answered:
            heard(self._process.name, method, about, result)
        return result

    def _send(self, strand: Strand, method: str, effect: Callable[[], Any]) -> None:
        engine, weather, process = self._engine, self._weather, self._process
        weather.calls += 1
        fate = weather.fate(method, process.name)
        there = engine.trip() + fate.there
        back = engine.trip() + fate.back
        pending = True
        sent_at = engine.now

        def answer(result: Any, error: RemoteError | None) -> None:
            nonlocal pending
            if pending:
                pending = False
                strand.resume((result, error))

        def arrive() -> None:
            result, error = None, None
            if fate.effect:
                weather.sent_at = sent_at
                try:
                    result = effect()
                except RemoteError as refusal:
                    error = refusal
            if fate.error is not None:
                error = fate.error()
            weather.reached("done", method, process.name)
            engine.after(back, lambda: answer(result, error), process)

        def time_out() -> None:
            answer(None, self._error(f"{method}: timed out"))

        def arrive_unanswered() -> None:
            weather.sent_at = sent_at
            with suppress(RemoteError):
                effect()

        weather.reached("sent", method, process.name)
        if fate.again is not None:
            engine.after(there, arrive_unanswered)
            there += fate.again
        engine.after(there, arrive)
        if there + back > self._timeout:
            engine.after(self._timeout, time_out, process)


def cloud_line(engine: Engine, weather: Weather, process: Process, timeout: float) -> Line:
    return Line(engine, weather, process, server="cloud", timeout=timeout, error=CloudError)


def store_line(engine: Engine, weather: Weather, process: Process, timeout: float) -> Line:
    return Line(engine, weather, process, server="store", timeout=timeout, error=StoreError)


class Sometimes:
    """A spell on some methods that strikes with a chance of `often`."""

    def __init__(
        self, random: Random, methods: frozenset[str], often: float, fate: Callable[[], Fate]
    ) -> None:
        self._random = random
        self._methods = methods
        self._often = often
        self._fate = fate

    def strikes(self, method: str, caller: str) -> Fate | None:
        if method not in self._methods or self._random.random() >= self._often:
            return None
        return self._fate()
