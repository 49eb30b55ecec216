"""Which idle node is replaced next, of each size at most one at a time (`rotate`).

A node with another image or type than new ones have, or that is too old, goes as an idle node does
(D12), and demand, spare_nodes and min_nodes boot the next one. The one after it waits until then,
whatever keeps the next one from being booted: while no node can be had, none goes. While min_nodes
counts on nodes that are still to come, of whatever size, no other one goes either.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from nodemanager.core.judge.idle import is_in_vain, outdated
from nodemanager.core.judge.node_view import OUTSIDE, NodeView
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.model.world import CloudState, Size, WorkerState
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.plan.supply import SPARE, Supply

ROTATING = "shutdown:rotate"
"""The flight of a node that is being replaced."""
IDLE = frozenset({Reason.NEEDED, Reason.NOT_IDLE_LONG})


@dataclass(frozen=True, slots=True)
class Rotation:
    """The replacement of the outdated nodes of one size: `outdated` of `nodes` are left.

    `causes` counts them by reason code. `node` is the one that is being replaced, `waits` why none
    is now; both are None where the replacement is only starting. `at` is the node behind `waits`.
    """

    nodes: int
    outdated: int
    causes: Mapping[str, int]
    node: str | None = None
    waits: Reason | None = None
    at: str | None = None


@dataclass(frozen=True, slots=True)
class Rotations:
    """The rotations by size, and why each node goes now that is to be replaced, by its id."""

    sizes: Mapping[str, Rotation] = field(default_factory=dict)
    chosen: Mapping[str, Verdict] = field(default_factory=dict)


NONE = Rotations()


@dataclass(frozen=True, slots=True)
class Need:
    """What demand makes of the sizes, by name: the queue's `wishes`, and what is `lacking`.

    `lacking` has the sizes of which nodes are to be booted, with what refuses these (None: nothing
    does); those that only wait until another node of this pool goes are not in it. `going` are the
    nodes that go as unwanted. `refusal` says what would forbid the next node in the place of one of
    a size, of which so many may take work, once that one has gone; None if nothing does.
    """

    wishes: Mapping[str, int]
    lacking: Mapping[str, Reason | None]
    going: frozenset[str]
    refusal: Callable[[Size, int], Reason | None]


def rotations(supply: Supply, snapshot: Snapshot, settings: Settings, need: Need) -> Rotations:
    """What is replaced now, and what of each size is left to replace."""
    found: defaultdict[str, dict[str, Verdict]] = defaultdict(dict)
    image, ages = snapshot.history.image, settings.max_node_age is not None
    types = {size.name: size.instance_type for size in supply.sizes.by_price}
    for view in supply.views:
        node, name = view.node, view.size
        # Most nodes are as new ones are, and the calls cost more than to see that.
        if not ages and node.image == image and node.size == types.get(name or ""):
            continue
        size = supply.sizes.named(name)
        if size is None or view.verdict.reason in OUTSIDE:
            continue
        why = outdated(node, view.record, size, snapshot, settings)
        if why is not None:
            found[size.name][node.id] = why
    if not found:
        return NONE
    by_size: defaultdict[str, list[NodeView]] = defaultdict(list)
    for view in supply.views:
        size = supply.sizes.named(view.size)
        if size is not None and view.verdict.reason not in OUTSIDE:
            by_size[size.name].append(view)
    sizes: dict[str, Rotation] = {}
    chosen: dict[str, Verdict] = {}
    for name, old in found.items():
        views, size = by_size[name], supply.sizes.named(name)
        assert size is not None
        one = _Turn(size, views, old, supply, snapshot, settings, need).taken()
        if one.node in old and one.waits is None and one.node not in snapshot.node_flights:
            chosen[str(one.node)] = old[str(one.node)]
        sizes[name] = one
    return Rotations(sizes, chosen)


class _Turn:
    """Whose turn it is of one size."""

    def __init__(
        self,
        size: Size,
        views: list[NodeView],
        old: Mapping[str, Verdict],
        supply: Supply,
        snapshot: Snapshot,
        settings: Settings,
        need: Need,
    ) -> None:
        self.size, self.views, self.old = size, views, old
        self.supply, self.snapshot, self.settings, self.need = supply, snapshot, settings, need

    def taken(self) -> Rotation:
        causes: defaultdict[str, int] = defaultdict(int)
        for why in self.old.values():
            causes[why.reason.value] += 1
        node, waits = self._next()
        at = node if waits is not None else None
        node = node if waits is None else None
        return Rotation(len(self.views), len(self.old), dict(causes), node, waits, at)

    def _next(self) -> tuple[str | None, Reason | None]:
        """The node that is being replaced or is the next, or why none is, with the node behind."""
        snapshot = self.snapshot
        for view in self.views:
            flight = snapshot.node_flights.get(view.node.id)
            if flight is not None and flight.kind == ROTATING:
                return view.node.id, None
        if snapshot.rotation_paused is not None:
            return None, Reason.ROTATION_PAUSED
        for view in self.views:
            if is_in_vain(view.node, view.record, self.size, snapshot):
                return view.node.id, Reason.ROTATION_STALLED
        unready = self._unready()
        if unready is not None:
            return unready, Reason.REFILL_AWAITED
        lacking, refusal = self.need.lacking, self.need.refusal(self.size, self._left())
        if self.size.name in lacking:
            return None, lacking[self.size.name] or Reason.REFILL_AWAITED
        if refusal is not None:
            return None, refusal
        free = [view for view in self.views if view.node.id in self.old and self._is_free(view)]
        if not free or self._left() <= self.need.wishes.get(self.size.name, 0):
            return None, Reason.NO_IDLE_NODE
        since = snapshot.history.unwanted
        oldest = min(
            free,
            key=lambda view: (
                not view.surplus_if_idle,
                since.get(view.node.id, snapshot.now),
                view.node.created_at or 0.0,
                view.node.id,
            ),
        )
        return oldest.node.id, None

    def _unready(self) -> str | None:
        """The node of the size that comes or goes; an empty name if no listing shows it yet."""
        snapshot, name = self.snapshot, self.size.name
        listed = snapshot.history.present
        if self.supply.coming.get(name) or self._fills_min_nodes():
            return ""
        for node_id in snapshot.node_flights:
            if node_id not in listed:
                return node_id
        for view in self.views:
            reason, node_id = view.beneath or view.verdict.reason, view.node.id
            if reason is Reason.SHUTTING_DOWN or reason in SPARE:
                return node_id
            # A former run may have sent its destroy.
            if view.node.state is CloudState.STOPPING:
                return node_id
            if node_id in snapshot.late_destroys:
                return node_id
            # This very plan orders it, or a later one once the node may go.
            if node_id in self.need.going and view.surplus_if_idle:
                return node_id
        return None

    def _fills_min_nodes(self) -> bool:
        """Whether min_nodes needs the nodes that come or are booted now, of any size.

        They may never come: a claim that had no answer may be written late, and no create follows
        it. Another node that goes then leaves one more place empty.
        """
        comes = any(self.supply.coming.values()) or None in self.need.lacking.values()
        going = sum(view.counts and view.node.id in self.need.going for view in self.supply.views)
        return comes and self.supply.up - going <= self.settings.min_nodes

    def _left(self) -> int:
        """How many idle nodes of the size are there that do not go already."""
        going = sum(view.node.id in self.need.going for view in self.views)
        return self.supply.spare.get(self.size.name, 0) - going

    def _is_free(self, view: NodeView) -> bool:
        """Whether the node is paired and idle, and nothing keeps it from going."""
        if view.record is None or not view.counts or view.node.id in self.need.going:
            return False
        if view.verdict.reason in IDLE:
            return True
        # An action of ours for it ended since the newest listing, such as being told to drain.
        is_news = view.verdict.reason is Reason.CHANGED_SINCE_LISTING
        is_idle = view.state is WorkerState.IDLE
        return is_news and is_idle and view.node.id in self.snapshot.history.unwanted
