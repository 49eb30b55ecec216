"""A scheduler in memory, for rigs whose daemon asks one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from nodemanager.core.model.scheduling import OURS, SchedulerNode
from nodemanager.core.model.world import Job, Listed, WorkerState
from nodemanager.schedulers.api import SchedulerVerb

BUSY, DOWN = WorkerState.BUSY, WorkerState.DOWN


@dataclass
class FakeScheduler:
    """A scheduler in memory. While `fails` is set, every call raises it."""

    provider: str = "fake"
    can: frozenset[SchedulerVerb] = frozenset()
    jobs: tuple[Job, ...] = ()
    known: dict[str, SchedulerNode] = field(default_factory=dict)
    names: frozenset[str] | None = None
    fails: Exception | None = None
    fails_down: Exception | None = None
    busy_at_drain: bool = False
    resumed_behind_a_look: bool = False
    fails_errands: Exception | None = None
    calls: list[tuple[str, str]] = field(default_factory=list)
    errands: list[tuple[str, ...]] = field(default_factory=list)

    def says(self, name: str, state: WorkerState) -> None:
        self.known[name] = replace(self.known.get(name, SchedulerNode(name, state)), state=state)

    def queue(self) -> tuple[Job, ...]:
        self._called("queue", "")
        return self.jobs

    def nodes(self) -> Listed[SchedulerNode]:
        self._called("nodes", "")
        listed = Listed(tuple(self.known.values()), names=self.names)
        for name, node in self.known.items() if self.resumed_behind_a_look else ():
            if node.draining:
                self.known[name] = SchedulerNode(name, BUSY)
        return listed

    def drain(self, node: str, reason: str) -> None:
        self._called("drain", node)
        one = self.known[node]
        self.known[node] = replace(one, draining=True, reason=f"{OURS}{reason}")
        if self.busy_at_drain:
            self.says(node, BUSY)

    def resume(self, node: str) -> None:
        self._called("resume", node)
        self.known[node] = replace(self.known[node], draining=False, reason="")

    def mark_down(self, node: str, reason: str, *, had_joined: bool = False) -> bool:
        self._called("down", node)
        if self.fails_down is not None:
            raise self.fails_down
        if had_joined and self.known[node].wanted:
            return False
        self.known[node] = SchedulerNode(node, DOWN, reason=f"{OURS}{reason}")
        return True

    def describe(
        self, node: str, weight: int, features: tuple[str, ...], drop: tuple[str, ...] = ()
    ) -> None:
        self._ran("describe", node, str(weight))
        self.known[node] = replace(self.known[node], weight=weight, features=features)

    def comment(self, job: str, text: str) -> None:
        self._ran("comment", job, text)

    def cancel(self, job: str) -> None:
        self._ran("cancel", job)
        self.jobs = tuple(one for one in self.jobs if one.id != job)

    def _ran(self, *errand: str) -> None:
        self.errands.append(errand)
        if self.fails_errands is not None:
            raise self.fails_errands

    def _called(self, verb: str, node: str) -> None:
        if verb not in ("queue", "nodes"):
            self.calls.append((verb, node))
        if self.fails is not None:
            raise self.fails
