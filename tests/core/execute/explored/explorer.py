"""Explores a workflow breadth first, run by the product's own runner, in a world that is tiny.

From its first step on everything that may happen happens next, in every order: an effect is
answered, refused, lost before or after it took effect, or takes effect when nobody waits any more;
time passes; the manager is killed, also between a commit and the effects behind it, or stopped,
and started again; the journal can't be written; and the world does what `Tiny.changes` has. Faults
are counted, and a run has so many at the most.

What holds in every scene is `Tiny.wrong`'s to say, by what truly is. What holds for each workflow:
no write that frees or destroys leaves before the journal has it, and from everywhere an end is
reached once nothing fails any more.

Scenes that differ only in what nobody asks about are explored once. Of what was told, a scene keeps
what `Tiny.asks` names. Of equal scenes, the one after the fewest faults is explored: all that may
follow the others may follow it, and `Tiny.wrong` permits after a fault no less than before one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

from nodemanager.actors.daemon.intents import fields_of
from nodemanager.actors.daemon.runner import Runner
from nodemanager.actors.messages import CarriedOut, CarryOut, WaitOver
from nodemanager.core.execute.effects import Effect, Intended, StoreWrite, Wait, Write
from nodemanager.core.execute.flights import Flights, LeftOpen, Stepped
from nodemanager.core.execute.news import Learned
from nodemanager.core.execute.workflow import (
    Action,
    Answered,
    End,
    Failed,
    FollowUp,
    Key,
    Running,
    Seen,
    Step,
    Workflow,
    WorkflowEvent,
    WorkflowState,
)
from nodemanager.core.model.changed import changed
from nodemanager.core.model.world import Leftover
from nodemanager.core.observe.clocks import MeasuredClock
from nodemanager.core.observe.facts import Fact
from nodemanager.errors import RemoteError, StoreError
from nodemanager.journal.api import Conclusion, Intent, OpenIntent
from nodemanager.lib import log

W = TypeVar("W")
Id = tuple[object, ...]
Move = tuple[str, str, str, tuple[str, ...], tuple[str, ...]]
"""One transition: the state, what happens, the next state, the effects, and what it begins.

"start", "resume" and "over" are where it comes from and where it goes.
"""
NOW = 100_000.0
MAX_SCENES = 200_000
MAX_WRONG = 10
"""So many wrong scenes are told; then the exploration ends, for it has its answer."""


class Refusal(StoreError):
    """The server said no, and did nothing."""

    definite = True


@dataclass(frozen=True)
class Answer:
    """An error that is an effect's answer, and no failure of it."""

    error: RemoteError


class Tiny(Protocol[W]):
    """One workflow's world, as small as it can be. A world is frozen data with a telling repr."""

    workflow: Workflow[Any]
    asks: frozenset[str]
    """The events, facts and late writes that `wrong` asks about by name (`Scene.says`)."""

    def begins(self) -> Iterable[tuple[Any, W]]:
        """Each order, and the world that it is given in."""
        ...

    def seen(self, world: W) -> Seen:
        """What the manager knows of it."""
        ...

    def carry_out(self, world: W, effect: Effect) -> tuple[Any, W]:
        """The answer, an Answer, or the error in its place; and the world after it."""
        ...

    def changes(self, world: W) -> Iterable[tuple[str, W]]:
        """What may happen by itself, or by another's hand."""
        ...

    def wrong(self, before: Scene[W], after: Scene[W]) -> str | None:
        """What must not be; None where all is well."""
        ...


class Knowing(Tiny[W], Protocol[W]):
    """One whose world has what the manager knows, too."""

    def learns(self, world: W, one: Learned) -> W:
        """The world once the manager has entered that into its books."""
        ...

    def forgets(self, world: W) -> W:
        """The world once the manager was killed."""
        ...


@dataclass(frozen=True)
class Scene(Generic[W]):
    """Everything there is at one moment."""

    world: W
    running: WorkflowState | None
    """What the manager goes by; None once it is over, and while there is no manager."""
    kept: Intent | None
    """What the journal has as begun."""
    out: tuple[Effect, ...] = ()
    """On their way, or waited for."""
    loose: tuple[Write, ...] = ()
    """Writes that nobody waits for any more, and that may still take effect."""
    held: tuple[WorkflowEvent, ...] = ()
    """What the journal could not take the step of."""
    is_up: bool = True
    stopping: bool = False
    journal_works: bool = True
    ended: str | None = None
    """What the journal says became of it."""
    begun: tuple[str, ...] = ()
    """The actions that it began."""
    told: frozenset[str] = frozenset()
    """What has happened of `asks`."""
    asks: frozenset[str] = frozenset()
    faults: int = 0

    def says(self, name: str) -> bool:
        """Whether that event, fact or late write has happened."""
        assert name in self.asks, f"{name} is not among those that this world keeps"
        return name in self.told

    @property
    def is_over(self) -> bool:
        return self.is_up and self.running is None and self.kept is None


@dataclass
class Explored:
    """What was seen. `ways` has how each scene came about, for the telling."""

    scenes: int = 0
    transitions: int = 0
    states: set[str] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)
    moves: set[Move] = field(default_factory=set)

    def and_also(self, other: Explored) -> Explored:
        """Both together: of one workflow in two worlds."""
        return Explored(
            self.scenes + other.scenes,
            self.transitions + other.transitions,
            self.states | other.states,
            [*self.wrong, *other.wrong],
            self.moves | other.moves,
        )

    def __str__(self) -> str:
        states = ", ".join(sorted(self.states))
        return f"{self.scenes} scenes, {self.transitions} transitions; states: {states}"


def nothing_is_wrong(
    found: Explored,
    workflow: type[Workflow[Any]],
    record_property: Callable[[str, object], None],
) -> None:
    """It was not trivial, came through each of the workflow's states, and nothing is wrong."""
    record_property("explored", str(found))
    print(found)
    assert found.wrong == [], "\n".join(found.wrong)
    assert found.states == {state.__name__ for state in workflow.states}
    assert found.scenes > 100


class _Noted:
    """A workflow, all of whose moves are noted."""

    def __init__(self, workflow: Workflow[Any], moves: set[Move]) -> None:
        self._workflow = workflow
        self._moves = moves

    def __getattr__(self, name: str) -> Any:
        return getattr(self._workflow, name)

    def start(self, order: Any, seen: Seen) -> Step[Any]:
        return self._note("start", "ordered", self._workflow.start(order, seen))

    def on(self, state: Any, event: WorkflowEvent, seen: Seen) -> Step[Any]:
        happens = type(event).__name__.lower()
        if isinstance(event, Answered | Failed):
            happens = f"{_name(event.effect)} {happens}"
        return self._note(type(state).__name__, happens, self._workflow.on(state, event, seen))

    def resume(self, state: Any, seen: Seen) -> Step[Any]:
        step = self._workflow.resume(state, seen)
        return self._note("resume", f"left as {type(state).__name__}", step)

    def _note(self, of: str, happens: str, step: Step[Any]) -> Step[Any]:
        to = "over" if step.state is None else type(step.state).__name__
        effects = tuple(_name(effect) for effect in step.effects)
        begins = tuple(one.action.name for one in step.begin)
        self._moves.add((of, happens, to, effects, begins))
        return step


class _Stand:
    """The daemon, the journal and the workers of one scene: all that a runner needs."""

    def __init__(self, tiny: Tiny[Any], scene: Scene[Any]) -> None:
        self.tiny = tiny
        self.scene = scene
        self.out = list(scene.out)
        self.kept = scene.kept
        self.ended_as = scene.ended
        self.told: list[str] = []
        self.began: list[str] = []
        self.unwritten: list[Effect] = []
        self.flights = Flights()
        self.runner = Runner((tiny.workflow,), self, self, self)  # type: ignore[arg-type]
        self.key = Key(tiny.workflow.action, "")

    # The shell.

    def seen(self, key: Key, plan_id: str) -> Seen:
        seen = self.tiny.seen(self.scene.world)
        return replace(seen, stopping=True) if self.scene.stopping else seen

    def fold(self, fact: Fact) -> None:
        self.told.append(type(fact).__name__)

    def workers_for(self, action: Action) -> _Stand:
        return self

    def remind(self, seconds: float, message: WaitOver) -> None:
        self.out.append(Wait(seconds))

    def wrote(self, effect: StoreWrite, answer: Any, error: RemoteError | None) -> None: ...

    def throttled(self, error: RemoteError) -> None: ...

    def cloud_worked(self) -> None: ...

    def learn(self, one: Learned | Stepped | LeftOpen) -> None:
        if isinstance(one, Stepped | LeftOpen):
            self.flights = self.flights.after(one)
            return
        self.told.append(type(one).__name__)
        learns = getattr(self.tiny, "learns", None)
        if learns is not None:
            self.scene = changed(self.scene, world=learns(self.scene.world, one))

    def enter_pins(self, pins: tuple[Leftover, ...]) -> bool:
        if self.scene.journal_works:
            self.told.append("pins entered")
        return self.scene.journal_works

    def begun(self, one: FollowUp) -> None:
        self.began.append(one.action.name)

    def ended(self, end: End) -> None: ...

    def settled(self) -> None: ...

    # The pool.

    def give(self, key: str, order: CarryOut, *, paced: bool) -> None:
        self.out.append(order.effect)
        if isinstance(order.effect, Intended) and self.kept is None:
            self.unwritten.append(order.effect)

    go_on = give

    def done(self, key: str) -> None: ...

    # The journal.

    @property
    def problem(self) -> str | None:
        return None if self.scene.journal_works else "the disk is full"

    def commit(self, opened: Sequence[Intent], ended: Sequence[Conclusion]) -> bool:
        if opened and not self.scene.journal_works:
            return False
        for conclusion in ended:
            # Owed where the journal does not work; the journal writer's own tests show that.
            self.kept, self.ended_as = None, conclusion.outcome
        for intent in opened:
            self.kept = intent
        return True

    def recovery_failed(self, key: str, error: str) -> None:
        return None

    # The log.

    def event(self, event: log.Event, /, *, level: int = 0, **fields: object) -> None:
        self.told.append(str(event.value))

    # What is done with it.

    def run(self) -> Runner:
        """The runner as it stands in this scene."""
        if self.scene.running is not None:
            workflow = self.tiny.workflow
            key = self.key = Key(workflow.action, workflow.id(self.scene.running.order))
            self.learn(Stepped(key, Running(self.scene.running, NOW, 1)))
            self.runner._held = {key: self.scene.held} if self.scene.held else {}
        return self.runner

    def after(self, **changes: Any) -> Scene[Any]:
        running = next((one.state for one in self.flights.running.values()), None)
        held = tuple(event for one in self.runner._held.values() for event in one)
        # The runner has this as its shell: apart, both are freed at once.
        del self.runner
        return changed(
            self.scene,
            running=running,
            kept=self.kept,
            held=held,
            out=tuple(self.out),
            ended=self.ended_as,
            begun=(*self.scene.begun, *self.began),
            told=self.scene.told | self.scene.asks.intersection(self.told),
            **changes,
        )


class Explorer(Generic[W]):
    """Explores one workflow; `max_faults` in a run at the most."""

    def __init__(self, tiny: Tiny[W], max_faults: int = 3) -> None:
        self.tiny = tiny
        self.max_faults = max_faults
        self.found = Explored()
        noted: Any = _Noted(tiny.workflow, self.found.moves)
        tiny.workflow = noted
        self._scenes: dict[Id, Scene[W]] = {}
        self._queues: list[deque[Id]] = [deque() for _ in range(max_faults + 1)]
        """Those to be explored, by how many faults they come after."""
        self._came_from: dict[Id, tuple[Id, str]] = {}
        self._leads_to: dict[Id, set[Id]] = {}
        """Without any fault, from each scene."""
        self._numbers: dict[str, int] = {}
        self._parts: dict[int, tuple[object, int]] = {}

    def explore(self) -> Explored:
        for order, world in self.tiny.begins():
            self._enter(self._begun(order, world), None, "begins")
        while (id := self._next_id()) is not None and len(self.found.wrong) < MAX_WRONG:
            before = self._scenes[id]
            for label, is_fault, after in self._next(before):
                self.found.transitions += 1
                if is_fault or after.faults != before.faults:
                    after = changed(after, faults=before.faults + is_fault)
                entered = self._enter(after, id, label)
                self._judge(before, after, entered)
                if not is_fault:
                    self._leads_to.setdefault(id, set()).add(entered)
            assert len(self._scenes) < MAX_SCENES, "a world that is not tiny"
        self.found.scenes = len(self._scenes)
        if id is None:
            self._ends_everywhere()
        return self.found

    def _begun(self, order: Any, world: W) -> Scene[W]:
        stand = _Stand(self.tiny, Scene(world, None, None, asks=self.tiny.asks))
        stand.runner.begin(self.tiny.workflow.action, order, NOW)
        return stand.after()

    def _next_id(self) -> Id | None:
        """Of those after the fewest faults, the one that was entered first."""
        for faults, queue in enumerate(self._queues):
            while queue:
                id = queue.popleft()
                # Entered once more since, after fewer faults, it was explored as such.
                if self._scenes[id].faults == faults:
                    return id
        return None

    def _enter(self, scene: Scene[W], of: Id | None, label: str) -> Id:
        id = self._id(scene)
        known = self._scenes.get(id)
        if known is None or known.faults > scene.faults:
            self._scenes[id] = scene
            self._queues[scene.faults].append(id)
            if of is not None:
                self._came_from[id] = (of, label)
            if scene.running is not None:
                self.found.states.add(type(scene.running).__name__)
        return id

    def _id(self, scene: Scene[W]) -> Id:
        """Equal scenes have equal ones, after however many faults."""
        number = self._number
        return (
            number(scene.world),
            number(scene.running),
            number(scene.kept),
            tuple(map(number, scene.out)),
            tuple(map(number, scene.loose)),
            tuple(map(number, scene.held)),
            scene.is_up,
            scene.stopping,
            scene.journal_works,
            scene.ended,
            scene.begun,
            scene.told,
        )

    def _number(self, part: object) -> int:
        """A number for its repr; a scene has most of its parts from another, and each is written
        out only once."""
        known = self._parts.get(id(part))
        if known is None:
            number = self._numbers.setdefault(repr(part), len(self._numbers))
            known = self._parts[id(part)] = part, number
        return known[1]

    def _judge(self, before: Scene[W], after: Scene[W], id: Id) -> None:
        wrong = self.tiny.wrong(before, after)
        if wrong is not None and len(self.found.wrong) < MAX_WRONG:
            self.found.wrong.append(f"{wrong}: {self.way(id)}")

    def way(self, id: Id) -> str:
        """How that scene came about."""
        steps: list[str] = []
        while id in self._came_from:
            id, label = self._came_from[id]
            steps.append(label)
        return " -> ".join(reversed(steps))

    def _ends_everywhere(self) -> None:
        """From every scene an end is reached once nothing fails any more."""
        leads_from: dict[Id, set[Id]] = {}
        for id, others in self._leads_to.items():
            for other in others:
                leads_from.setdefault(other, set()).add(id)
        ends = [id for id, scene in self._scenes.items() if scene.is_over]
        reached, queue = set(ends), deque(ends)
        while queue:
            for id in leads_from.get(queue.popleft(), ()):
                if id not in reached:
                    reached.add(id)
                    queue.append(id)
        stuck = [id for id in self._scenes if id not in reached]
        for id in stuck[:3]:
            self.found.wrong.append(f"no end is reached from here: {self.way(id)}")

    # What may happen next: what, whether it is a fault, and the scene after it.

    def _next(self, scene: Scene[W]) -> Iterator[tuple[str, bool, Scene[W]]]:
        may_fail = scene.faults < self.max_faults
        for number, write in enumerate(scene.loose):
            _, world = self.tiny.carry_out(scene.world, write)
            rest, label = scene.loose[:number] + scene.loose[number + 1 :], f"late {_name(write)}"
            told = scene.told | scene.asks.intersection((label,))
            yield label, False, changed(scene, world=world, loose=rest, told=told)
        if scene.is_over:
            return
        for label, world in self.tiny.changes(scene.world) if may_fail else ():
            yield label, True, changed(scene, world=world)
        progress = getattr(self.tiny, "progress", lambda world: ())
        for label, world in progress(scene.world):
            yield label, False, changed(scene, world=world)
        if scene.journal_works and may_fail:
            yield "the journal fails", True, changed(scene, journal_works=False)
        if not scene.journal_works:
            stand = _Stand(self.tiny, changed(scene, journal_works=True))
            stand.run().heal(NOW)
            yield from self._and_killed("the journal heals", False, stand)
        if not scene.is_up:
            if scene.journal_works:
                yield "restart", False, self._restarted(scene)
            return
        if may_fail:
            yield "kill -9", True, self._killed(scene)
        at_work = [one for one in scene.out if not isinstance(one, Wait)]
        if not scene.stopping and may_fail:
            stand = _Stand(self.tiny, changed(scene, stopping=True))
            stand.run().stop(NOW, lambda _: bool(at_work))
            yield from self._and_killed("stopped", True, stand)
        if scene.stopping and not at_work:
            yield "its end", False, self._killed(scene)
        yield from self._answers(scene, may_fail=may_fail)
        if scene.running is not None and scene.running.listens:
            stand = _Stand(self.tiny, scene)
            stand.run().news(NOW)
            yield from self._and_killed("news", False, stand)
        if scene.running is not None and scene.running.is_under_way:
            is_fault = not getattr(self.tiny, "expires", lambda state: False)(scene.running)
            if may_fail or not is_fault:
                stand = _Stand(self.tiny, scene)
                stand.run().expire(NOW + 1e6, 1.0)
                yield from self._and_killed("it takes too long", is_fault, stand)

    def _answers(self, scene: Scene[W], *, may_fail: bool) -> Iterator[tuple[str, bool, Scene[W]]]:
        for number, effect in enumerate(scene.out):
            rest = scene.out[:number] + scene.out[number + 1 :]
            waits = changed(scene, out=rest)
            if isinstance(effect, Wait):
                if scene.stopping:
                    continue
                stand = _Stand(self.tiny, waits)
                stand.run().wait_over(WaitOver(stand.key, 1), NOW)
                yield from self._and_killed("the wait is over", False, stand)
                continue
            answer, world = self.tiny.carry_out(scene.world, effect)
            done = changed(waits, world=world)
            yield from self._answered(f"{_name(effect)} answered", False, done, effect, answer)
            if not may_fail:
                continue
            refusal = Refusal("no")
            yield from self._answered(f"{_name(effect)} refused", True, waits, effect, refusal)
            lost = StoreError("no answer")
            yield from self._answered(f"{_name(effect)} lost", True, waits, effect, lost)
            if isinstance(effect, Write):
                label = f"{_name(effect)} done, its answer lost"
                yield from self._answered(label, True, done, effect, lost)
                late = changed(waits, loose=(*waits.loose, effect))
                yield from self._answered(f"{_name(effect)} late", True, late, effect, lost)

    def _answered(
        self, label: str, is_fault: bool, scene: Scene[W], effect: Effect, answer: Any
    ) -> Iterator[tuple[str, bool, Scene[W]]]:
        stand = _Stand(self.tiny, scene)
        runner = stand.run()
        error = answer if isinstance(answer, RemoteError) else None
        given = None if error is not None else answer
        given = given.error if isinstance(given, Answer) else given
        runner.carried_out(CarriedOut(stand.key, 1, effect, given, error), NOW)
        yield from self._and_killed(label, is_fault, stand)

    def _and_killed(
        self, label: str, is_fault: bool, stand: _Stand
    ) -> Iterator[tuple[str, bool, Scene[W]]]:
        """The scene, and the one in which the manager was killed before any effect left."""
        for effect in stand.unwritten:
            self.found.wrong.append(f"{_name(effect)} left before the journal had it: {label}")
        after = stand.after()
        yield label, is_fault, after
        if after.kept != stand.scene.kept and stand.scene.faults < self.max_faults:
            killed = self._killed(changed(after, out=stand.scene.out))
            yield f"{label}, and killed at the commit", True, killed

    def _killed(self, scene: Scene[W]) -> Scene[W]:
        """What was on its way may still take effect."""
        loose = tuple(one for one in scene.out if isinstance(one, Write))
        forgets = getattr(self.tiny, "forgets", None)
        world = scene.world if forgets is None else forgets(scene.world)
        loose = (*scene.loose, *loose)
        return changed(
            scene,
            world=world,
            is_up=False,
            stopping=False,
            running=None,
            out=(),
            held=(),
            loose=loose,
        )

    def _restarted(self, scene: Scene[W]) -> Scene[W]:
        stand = _Stand(self.tiny, scene)
        if scene.kept is not None:
            kept = OpenIntent(scene.kept, opened_at=0.0)
            assert fields_of(kept)
            stand.runner.load([kept], NOW)
            stand.runner.resume(NOW, MeasuredClock(0.0, 0.0))
        return stand.after(is_up=True)


def _name(effect: Effect) -> str:
    return type(effect).__name__
