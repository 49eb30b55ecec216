"""What each manager was told by the world: its listings, and the answers to its questions.

The monitors hold what a manager does against this, so that they depend on nothing that it made of
what it heard.
"""

from __future__ import annotations

import itertools
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import itemgetter
from typing import Any, TypeVar

from nodemanager.actors.messages import CarriedOut, CloudListed, RecordsListed
from nodemanager.core.execute.effects import LookAtRecord
from nodemanager.core.model.reasons import Event
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import CloudNode, CloudState, Listed, Outcome, Record, Tags
from nodemanager.core.observe.evidence import CleanEvidence
from nodemanager.core.observe.facts import NodesAnswered, TagsAnswered
from nodemanager.errors import RemoteError
from tests.simulation.manager import Manager
from tests.simulation.world import World

T = TypeVar("T", "Read", "Answer")
KEPT = 40
ASKED_APART_S = 29.0
"""Two denials that confirm an end are asked for 30 s apart, and answered nearly so."""
SOURCES = {CloudListed: "cloud", RecordsListed: "records"}


@dataclass(frozen=True)
class Heard:
    """One listing as it was answered: times are boottime, items by id or uuid."""

    started: float
    ended: float
    complete: bool
    items: Mapping[str, Any]
    doubled: frozenset[str] = frozenset()
    again: int = 0
    """How many entries show what another one shows."""
    given_at: float = float("-inf")
    """When the daemon had it: a message may be on its way for seconds inside the process."""


@dataclass(frozen=True)
class Answer:
    """One answer to a question by tag or by id: the nodes it showed, at that time."""

    at: float
    nodes: tuple[CloudNode, ...]
    given: bool = False
    """The daemon had it: a message may be on its way for seconds inside the process."""


@dataclass(frozen=True)
class Read:
    """A record as it was read, by then."""

    at: float
    record: Record | None


@dataclass
class Destroy:
    """A destroy that was sent `at` that time, to a node that bore `tags` then, or when listed."""

    at: float
    tags: Tags
    outcome: Outcome | None = None


@dataclass
class Ears:
    """All that one manager heard, newest last."""

    cloud: deque[Heard] = field(default_factory=lambda: deque(maxlen=KEPT))
    records: deque[Heard] = field(default_factory=lambda: deque(maxlen=KEPT))
    by_tag: dict[str, list[Answer]] = field(default_factory=dict)
    by_id: dict[str, list[Answer]] = field(default_factory=dict)
    reads: dict[str, list[Read]] = field(default_factory=dict)
    probes: deque[float] = field(default_factory=lambda: deque(maxlen=400))
    destroys: dict[str, Destroy] = field(default_factory=dict)
    accounts: list[str] = field(default_factory=list)
    stores: list[str] = field(default_factory=list)
    scheduled_at: float = float("-inf")
    """When its scheduler last told of all nodes."""
    resets: list[float] = field(default_factory=list)
    """When its operators closed the breaker."""

    def hear(self, source: str, given: Heard) -> None:
        """Keep the newest listings, and of complete ones the newest, however many came since."""
        kept: deque[Heard] = getattr(self, source)
        if len(kept) == KEPT and not any(one.complete for one in (*list(kept)[1:], given)):
            del kept[1]
        kept.append(given)

    def last_look(
        self, uuid: str, node_id: str | None, by: float
    ) -> tuple[Read | None, Answer | None, Answer | None]:
        """The newest answers by then about a record: read, asked by tag, asked by id."""
        read = _until(self.reads.get(uuid, ()), by)
        by_tag = _until(self.by_tag.get(uuid, ()), by)
        return read, by_tag, _until(self.by_id.get(node_id or "", ()), by)

    def answered(self, node_id: str, uuid: str, since: float) -> list[CloudNode]:
        """What its daemon was answered since then by that id or tag, the newest answer first."""
        answers = (*self.by_id.get(node_id, ()), *self.by_tag.get(uuid, ()))
        fresh = [one for one in answers if one.given and one.at >= since]
        fresh.sort(key=lambda one: one.at, reverse=True)
        return [node for one in fresh for node in one.nodes]

    def silence(self, since: float, settings: Settings) -> float:
        """Seconds since then in which the store answered the probe: only these count (D8)."""
        return sum(
            max(0.0, after - max(before, since))
            for before, after in itertools.pairwise(self.probes)
            if after - before <= settings.poll_stale_after
        )

    def is_gone(
        self, node_id: str, visible_after: float, since: float = 0.0, *, stopped: bool = False
    ) -> bool:
        """Whether the cloud, asked by that id, has called the node gone since then (D3, B3).

        Terminated is gone, and so is stopped where that counts. One denial is not: two that are
        ASKED_APART_S apart and later than `visible_after`, and none that showed it between them.
        """
        ended = {CloudState.TERMINATED} | ({CloudState.STOPPED} if stopped else set())
        denied_at: float | None = None
        for one in self.by_id.get(node_id, ()):
            if one.at < since or not one.given:
                continue
            if one.nodes:
                if one.nodes[0].state in ended:
                    return True
                denied_at = None
            elif visible_after == 0:
                return True
            elif one.at - since > visible_after:
                denied_at = one.at if denied_at is None else denied_at
                if one.at - denied_at >= ASKED_APART_S:
                    return True
        return False

    def newest(self, source: str, by: float = float("inf")) -> Heard | None:
        """The newest complete listing of `cloud` or `records` that ended by then."""
        heard: deque[Heard] = getattr(self, source)
        for one in reversed(heard):
            if one.complete and one.ended <= by:
                return one
        return None

    def had(self, source: str, by: float) -> Heard | None:
        """The newest complete listing of `cloud` or `records` that its daemon had by then."""
        heard: deque[Heard] = getattr(self, source)
        return next((one for one in reversed(heard) if one.complete and one.given_at <= by), None)

    def knew_records(self, by: float) -> bool:
        """Whether a complete listing had shown it any records by then.

        What the newest listing lacked when an operator closed the breaker is lost by their word,
        until it is listed again (B3).
        """
        reset_at = max((at for at in self.resets if at <= by), default=float("-inf"))
        looked_at = self.had("records", reset_at)
        since = float("-inf") if looked_at is None else looked_at.given_at
        shown = (one for one in self.records if one.complete and one.items)
        return any(since <= one.given_at <= by for one in shown)

    def lack(self, node_id: str, by: float, settings: Settings) -> bool:
        """Whether that node's absence had settled by then: enough complete listings in a row, over
        `settle`, and none of them showed it alive, complete or not (C5)."""
        lacking: list[float] = []
        for heard in reversed([one for one in self.cloud if one.given_at <= by]):
            shown = heard.items.get(node_id)
            if shown is not None and shown.state is not CloudState.TERMINATED:
                break
            if heard.complete:
                lacking.append(heard.started)
        enough = len(lacking) >= settings.absent_listings
        return enough and lacking[0] - lacking[-1] >= settings.settle

    def shown_since(self, node_id: str) -> float:
        """When the first of the newest complete listings that all show that node began.

        -inf where it can't be told: all that are remembered show it and there were more, or the
        newest does not.
        """
        since = float("-inf")
        for heard in reversed(self.cloud):
            if heard.complete:
                if node_id not in heard.items:
                    return since
                since = heard.started
        return since if len(self.cloud) < KEPT else float("-inf")


def _until(answers: Sequence[T], by: float) -> T | None:
    return next((one for one in reversed(answers) if one.at <= by), None)


def answers_given(ears: Ears, message: Any) -> None:
    """What the cloud was asked by id and by tag, by a poll or by the last look of a clean."""
    by_id: Mapping[str, CloudNode | None] = {}
    by_tag: Mapping[str, tuple[CloudNode, ...]] = {}
    match message:
        case NodesAnswered():
            by_id = message.answers
        case TagsAnswered():
            by_tag = message.answers
        case CarriedOut(effect=LookAtRecord(), answer=CleanEvidence(by_id=node) as found):
            by_id = {} if node is None else {node.id: node}
            by_tag = {message.effect.uuid: found.tagged or ()}
    for node_id, node in by_id.items():
        _mark_given(ears.by_id.get(node_id, []), () if node is None else (node,))
    for uuid, nodes in by_tag.items():
        _mark_given(ears.by_tag.get(uuid, []), nodes)


def _mark_given(answers: list[Answer], nodes: tuple[CloudNode, ...]) -> None:
    """The newest that says so: of two that say the same, either may be the one."""
    for number in reversed(range(len(answers))):
        if answers[number].nodes == nodes:
            answers[number] = replace(answers[number], given=True)
            return


class Told:
    """The ears of every manager."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.ears: dict[str, Ears] = defaultdict(Ears)
        self._polled: dict[tuple[str, str, float], Heard] = {}
        world.given.append(self.given)
        world.cloud.books.listed.append(self._nodes)
        world.bulletin.told.append(self._records)
        world.cloud.books.asked.append(self._asked)
        world.weather.answered.append(self._answered)
        world.weather.sent.append(self._sent)
        world.weather.failed.append(self._failed)
        world.events.append(self._logged)

    def family(self, pool: str) -> list[Ears]:
        """The ears of every manager that the pool has had."""
        return [
            ears for name, ears in self.ears.items() if self.world.managers[name].pool.name == pool
        ]

    def _nodes(self, manager: str, started: float, ended: float, listed: Listed[CloudNode]) -> None:
        items: dict[str, CloudNode] = {}
        doubled = set()
        for node in listed.items:
            if node.id in items:
                doubled.add(node.id)
                if node.is_absent:
                    continue
            items[node.id] = node
        again = len(listed.items) - len(items)
        heard = Heard(started, ended, listed.complete, items, frozenset(doubled), again)
        self._polled[manager, "cloud", self._boottime(manager)] = heard

    def _records(self, manager: str, started: float, ended: float, listed: Listed[Record]) -> None:
        items = {record.uuid: record for record in listed.items}
        heard = Heard(started, ended, listed.complete, items)
        self._polled[manager, "records", self._boottime(manager)] = heard

    def _boottime(self, manager: str) -> float:
        """What its clock says now: a listing is known by when its manager had it."""
        return self.world.managers[manager].clock.boottime()

    def given(self, manager: str, message: Any) -> None:
        """The daemon is given a listing: it must be the one that its poll just had (L1).

        A poll may have listed and failed after that; then nothing of it counts.
        """
        source = SOURCES.get(type(message))
        if source is None:
            answers_given(self.ears[manager], message)
            return
        heard = self._polled.pop((manager, source, message.listing.ended_at), None)
        ids = [getattr(item, "id", None) or item.uuid for item in message.listing.items]
        if heard is None or (message.listing.complete and not heard.complete):
            self.world.violate("L1", f"{manager} takes a {source} listing that nobody gave")
        elif set(ids) != set(heard.items):
            self.world.violate("L1", f"{manager} takes another {source} listing than was given")
        else:
            given = replace(heard, given_at=self.world.engine.now)
            self.ears[manager].hear(source, given)

    def _asked(
        self, manager: str, nodes: tuple[CloudNode, ...], *, record: str | None, node_id: str | None
    ) -> None:
        answer = Answer(self.world.engine.now, nodes)
        if record is not None:
            self.ears[manager].by_tag.setdefault(record, []).append(answer)
        if node_id is not None:
            self.ears[manager].by_id.setdefault(node_id, []).append(answer)

    def _sent(self, manager: str, method: str, about: str) -> None:
        if method == "cloud.destroy":
            node = self.world.cloud.instances.get(about)
            tags = node.tags if node is not None else Tags()
            if tags.record is None:
                tags = self._shown_tags(manager, about) or tags
            self.ears[manager].destroys[about] = Destroy(self.world.engine.now, tags)

    def _shown_tags(self, manager: str, node_id: str) -> Tags | None:
        """What the manager knows a node by whose tags an operator took since.

        The newest listing or answer that showed the node: some nodes no listing shows (D13).
        """
        ears = self.ears[manager]
        shown = [(one.ended, one.items[node_id]) for one in ears.cloud if node_id in one.items]
        for answer in chain(ears.by_id.get(node_id, ()), *ears.by_tag.values()):
            if answer.given:
                shown += [(answer.at, one) for one in answer.nodes if one.id == node_id]
        return max(shown, key=itemgetter(0))[1].tags if shown else None

    def _failed(self, manager: str, method: str, about: str, error: RemoteError) -> None:
        if method == "cloud.destroy" and error.definite:
            self.ears[manager].destroys[about].outcome = Outcome.FAILED

    def _logged(self, manager: Manager, event: Event, fields: dict[str, object]) -> None:
        if event is Event.OPERATOR_BREAKER_RESET and fields.get("result") == "done":
            self.ears[manager.name].resets.append(self.world.engine.now)

    def _answered(self, manager: str, method: str, about: str, result: Any) -> None:
        """An answer has reached its caller."""
        ears, now = self.ears[manager], self.world.engine.now
        if method == "store.read":
            if isinstance(result, dict):
                result = self.world.registry.record_as(about, result["etag"])
            ears.reads.setdefault(about, []).append(Read(now, result))
        elif method == "scheduler.nodes":
            ears.scheduled_at = now
        elif method == "store.probe" and result:
            ears.probes.append(now)
        elif method == "cloud.destroy":
            ears.destroys[about].outcome = result
        elif method == "cloud.account":
            ears.accounts.append(result)
