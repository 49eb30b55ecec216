"""What an operator's order will do, in sentences, before it is given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from nodemanager.core.model.world import Record, WorkerState
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.operate.naming import Known
from nodemanager.core.operate.verbs import Verb
from nodemanager.core.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class _Subject:
    """What an order is about: its node's name and worker state, and its record."""

    name: str
    state: WorkerState | None
    record: Record | None

    @property
    def slot(self) -> str:
        """Its slot in words; empty where it holds none."""
        if self.record is None or self.record.slot_number is None:
            return ""
        return f"slot {self.record.slot_number}"


def consequences(verb: Verb, made: Plan, snapshot: Snapshot, given: str | None) -> list[str]:
    """The sentences about that order now; `given` names what it is about, None for the pool.

    Raises UnknownIdError.
    """
    if given is None:
        return list(_OF_POOL[verb])
    named = Known(snapshot.history, made.pairs).find(given)
    view = next((one for one in made.views if one.node.id == named.node), None)
    listed = snapshot.history.records
    record = next(
        (one for one in (listed.items if listed else ()) if one.uuid == named.record), None
    )
    state = None if view is None else view.state
    return list(_OF_ONE[verb](_Subject(named.node or named.id, state, record)))


_OF_POOL: Mapping[Verb, tuple[str, ...]] = {
    Verb.PAUSE: (
        "Nothing is booted, shut down or freed until you resume, over restarts too.",
        "What is under way is brought to its end. Polls, log and this page go on.",
    ),
    Verb.RESUME: ("The daemon boots, shuts down and frees again, from its next decision on.",),
    Verb.ROTATE_PAUSE: (
        "No node is replaced for its image, type or age until you resume, over restarts too.",
    ),
    Verb.ROTATE_RESUME: ("Outdated nodes are replaced again, from the next decision on.",),
    Verb.BREAKER_RESET: (
        "The breaker closes, and what it stopped may go on: freeing records and shutting down "
        "nodes.",
        "Reset it only when you know what opened it.",
    ),
}


def _freed(one: _Subject) -> Iterator[str]:
    if one.slot:
        yield f"Its {one.slot} is freed once the cloud says that the node is gone."


def _drain_says(one: _Subject) -> Iterator[str]:
    yield (
        f"{one.name} is shut down as soon as it is idle, whatever the demand, and never while it "
        "is busy."
    )
    if one.state is WorkerState.BUSY:
        yield "It is busy now: it works until its job ends."
    elif one.state is WorkerState.IDLE:
        yield "It is idle now: it may go with one of the next decisions."
    yield "Another node is booted where the demand needs one."
    yield from _freed(one)
    yield "Until it is being shut down, you can undo this."


def _cordon_says(one: _Subject) -> Iterator[str]:
    yield f"{one.name} gets no more work, and is kept until you undo this, over restarts too."
    if one.state is WorkerState.BUSY:
        yield "It is busy now: what runs on it goes on."
    yield "Another node is booted where the demand needs one."
    if one.slot:
        yield f"It keeps its {one.slot}."


def _uncordon_says(one: _Subject) -> Iterator[str]:
    yield f"{one.name} may take work again, and may be shut down again."


def _kill_says(one: _Subject) -> Iterator[str]:
    yield f"{one.name} is shut down now, busy or not."
    if one.state is WorkerState.BUSY:
        yield "It is busy now: what runs on it is lost."
    yield from _freed(one)
    yield "Once its destroy is sent, this can't be undone."


def _run_says(one: _Subject) -> Iterator[str]:
    yield (
        f"{one.name} may take work again: a drain is undone, and so is a kill that has not been "
        "carried out yet."
    )


def _hold_says(one: _Subject) -> Iterator[str]:
    yield f"Nothing automatic touches {one.name} until you release it, over restarts too."
    if one.slot:
        yield f"It keeps its {one.slot}."


def _release_says(one: _Subject) -> Iterator[str]:
    yield f"The daemon decides about {one.name} again, as about any other."


def _clean_says(one: _Subject) -> Iterator[str]:
    freed = one.slot or "what it holds"
    yield f"The record is freed now, if the usual rules allow it: {freed} can be used again."
    yield (
        "It is refused while any rule forbids it, its stale window too. Right before it, the cloud "
        "is asked whether a node of it lives."
    )


_OF_ONE: Mapping[Verb, Callable[[_Subject], Iterator[str]]] = {
    Verb.DRAIN: _drain_says,
    Verb.CORDON: _cordon_says,
    Verb.UNCORDON: _uncordon_says,
    Verb.KILL: _kill_says,
    Verb.RUN: _run_says,
    Verb.HOLD: _hold_says,
    Verb.RELEASE: _release_says,
    Verb.CLEAN: _clean_says,
}
