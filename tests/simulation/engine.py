"""Virtual time: a heap of events, processes that can be killed or paused, calls that take time.

Everything that happens is an event; between two events nothing does. A handler of an actor that
makes a remote call runs on a strand, a stack of its own, that stops at the call. The call is then
two events of its own, its effect at the server and its answer at the caller, and any other event
may come between them. All choices are a seed's, so that one seed is one run.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from greenlet import getcurrent, greenlet

EPOCH = 1_700_000_000.0
"""True epoch seconds when virtual time was 0."""
START = 100_000.0


class Killed(BaseException):
    """Unwinds a handler whose process was killed while it waited for an answer."""


@dataclass(eq=False)
class Process:
    """What dies and stands still as one. The dead run no events; the paused run them later."""

    name: str
    dead: bool = False
    paused_until: float = 0.0
    deferred: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    strands: set[Strand] = field(default_factory=set)
    calls: list[tuple[str, str, float]] = field(default_factory=list)
    """Under way: method, what it is about, and when it was sent."""


class Engine:
    """The one clock and the one heap. `now` is true time, which is CLOCK_BOOTTIME everywhere."""

    def __init__(self, seed: str) -> None:
        self.now = START
        self.seed = seed
        self.steps = 0
        self._heap: list[tuple[float, int, Process | None, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._latency = self.random("latency")
        self.calm = False
        self.halted = False
        """Nothing happens any more: what was wanted is known."""

    def random(self, purpose: str) -> Random:
        """A stream of its own for each purpose, so that one fault less leaves the others be."""
        return Random(f"{self.seed}/{purpose}")

    def at(self, when: float, action: Callable[[], None], owner: Process | None = None) -> None:
        heapq.heappush(self._heap, (max(when, self.now), next(self._numbers), owner, action))

    def after(
        self, seconds: float, action: Callable[[], None], owner: Process | None = None
    ) -> None:
        when = self.now + seconds if seconds > 0.0 else self.now
        heapq.heappush(self._heap, (when, next(self._numbers), owner, action))

    def run(self, until: float) -> None:
        """Every event up to that time, in order."""
        heap, pop = self._heap, heapq.heappop
        while heap and heap[0][0] <= until and not self.halted:
            when, number, owner, action = pop(heap)
            if owner is not None:
                if owner.dead:
                    continue
                if owner.paused_until > when:
                    owner.deferred.append((when, number, action))
                    continue
            self.now = when
            self.steps += 1
            action()
        self.now = max(self.now, until)

    def hop(self) -> float:
        """How long a message is on its way inside a process: now and then long."""
        draw = self._latency.random()
        if draw < 0.97 or self.calm:
            return draw * 0.02
        return 0.02 + (draw - 0.97) * 300.0

    def trip(self) -> float:
        """One way of a remote call: now and then seconds."""
        draw = self._latency.random()
        if draw < 0.95 or self.calm:
            return 0.01 + draw * 0.2
        return (draw - 0.95) * 200.0

    def pause(self, process: Process, seconds: float) -> None:
        """Nothing of it runs for so long; what was due runs after that, in the same order."""
        process.paused_until = max(process.paused_until, self.now + seconds)
        self.at(process.paused_until, lambda: self.wake(process))

    def wake(self, process: Process, *, early: bool = False) -> None:
        if process.paused_until > self.now and not early:
            return
        process.paused_until = 0.0
        for _, number, action in process.deferred:
            heapq.heappush(self._heap, (self.now, number, process, action))
        process.deferred.clear()

    def kill(self, process: Process) -> None:
        """The process is no more: what it sent is on its way all the same."""
        process.dead = True
        for strand in list(process.strands):
            strand.throw(Killed())


class Strand:
    """Runs a handler that may ask for something in its middle, and goes on once it is answered."""

    current: Strand | None = None

    def __init__(self, process: Process, handler: Callable[[], None], done: Callable[[], None]):
        self.process = process
        self._handler = handler
        self._done = done
        self._stack = greenlet(self._body)
        self._request: Callable[[Strand], None] | None = None
        self._answer: Any = None
        self._error: BaseException | None = None
        self.waits = False
        process.strands.add(self)
        self._go()

    def _body(self) -> None:
        try:
            self._handler()
        except Killed:
            pass
        except BaseException as error:
            self._error = error

    def _go(self) -> None:
        """Let the handler run until it asks for something or ends."""
        before, Strand.current = Strand.current, self
        # Where it comes back to: whoever lets it go on, not who began it.
        self._stack.parent = getcurrent()
        self._stack.switch()
        Strand.current = before
        if self._stack.dead:
            self.process.strands.discard(self)
            error, self._error = self._error, None
            if error is not None:
                raise error
            if not self.process.dead:
                self._done()
            return
        request, self._request = self._request, None
        assert request is not None
        request(self)

    def ask(self, request: Callable[[Strand], None]) -> Any:
        """On the strand's side: stop, and go on once `request` was answered."""
        if self.process.dead:
            raise Killed
        self._request = request
        parent = self._stack.parent
        assert parent is not None
        parent.switch()
        error, self._error = self._error, None
        if error is not None:
            raise error
        return self._answer

    def resume(self, answer: Any) -> None:
        self._answer = answer
        self._go()

    def throw(self, error: BaseException) -> None:
        self._error = error
        self._go()


class Mailbox:
    """An actor's mailbox; the scheduler delivers one message at a time, each after a while."""

    def __init__(
        self,
        engine: Engine,
        process: Process,
        receive: Callable[[Any], Any],
        *,
        remote: bool,
        handed: Callable[[Any], None],
    ) -> None:
        self._engine = engine
        self._handed = handed
        self._process = process
        self._receive = receive
        self._remote = remote
        self._queue: deque[Any] = deque()
        self._busy = False
        self._closed = False

    def tell(self, message: Any) -> None:
        if self._closed:
            return
        self._handed(message)
        self._queue.append(message)
        if not self._busy:
            self._arrange()

    def _arrange(self) -> None:
        self._busy = True
        self._engine.after(self._engine.hop(), self._deliver, self._process)

    def _deliver(self) -> None:
        if not self._queue:
            self._busy = False
            return
        message = self._queue.popleft()
        if self._remote:
            Strand(self._process, lambda: self._receive(message), self._ended)
        else:
            try:
                self._receive(message)
            except Killed:
                # In the middle of it: what it had sent by then is lost with its process.
                return
            self._ended()

    def close(self) -> None:
        """Its actor is stopped: it ends what it is at, and begins nothing more."""
        self._closed = True
        self._queue.clear()

    def _ended(self) -> None:
        self._busy = False
        if self._queue:
            self._arrange()


class SimClock:
    """The clocks of one machine: true boottime, and a wall clock that may be wrong."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.error = 0.0
        self.booted_at = 0.0
        """When this boot of the machine began: its boottime counts from there."""

    def boottime(self) -> float:
        return self._engine.now - self.booted_at

    def wall(self) -> float:
        return EPOCH + self._engine.now + self.error


class SimTimer:
    """The manager's timer, on virtual time."""

    def __init__(self, engine: Engine, process: Process) -> None:
        self._engine = engine
        self._process = process

    def after(self, seconds: float, to: Any, message: Any) -> None:
        self._engine.after(seconds, lambda: to.tell(message), self._process)
