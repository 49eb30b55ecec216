"""Counts which reasons the simulated worlds give: python -m tests.simulation.census --seeds 1000.

Prints those that no seed shows, and writes a few seeds that show all the others into census.json;
the test plays these first.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from nodemanager.core.model.reasons import Event, Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.operate.replies import Reply
from nodemanager.core.plan.plan import Plan
from tests.simulation.manager import Manager
from tests.simulation.run import run
from tests.simulation.world import World

KNOWN = Path(__file__).with_name("census.json")
TIMES = 2
"""What one seed alone shows, the next change of the product may take away."""
NEVER: Mapping[Reason, str] = {
    **dict.fromkeys(
        (
            *(Reason.NO_TOKEN, Reason.WRONG_TOKEN, Reason.WRONG_HOST, Reason.WRONG_SECRET),
            Reason.WRONG_INSTANCE,
            *(Reason.NOT_HTTP, Reason.TOO_LARGE, Reason.TOO_SLOW, Reason.TOO_MANY_CONNECTIONS),
        ),
        "An HTTP server refuses a request, and the simulation has none: real servers show it.",
    ),
    **dict.fromkeys(
        (Reason.JOB_TIED, Reason.JOB_UNREADABLE, Reason.PARTITION_LIMIT),
        "Simulated jobs say nothing of where they may run: the tests of schedulers and plan do.",
    ),
    **dict.fromkeys(
        (Reason.LEAVING, Reason.NOTICED),
        "Only storms take nodes with notice: tests/test_simulated_notices.py plays them.",
    ),
    **dict.fromkeys(
        (Reason.PARKED, Reason.PARKING, Reason.POOL_PARKED),
        "Only storms park a pool: tests/test_simulated_parking.py plays them.",
    ),
    Reason.ONE_PLAN: "No simulated manager runs with `--once`: the tests of commands by hand do.",
    Reason.OTHER_TYPE: "No simulated cloud has other types than the file: the ways out have.",
    Reason.ROTATION_PAUSED: "No simulated operator pauses it: the tests of the actors do.",
    Reason.RECORD_GONE: "Hardly ever is a record deleted right before its prune or backlog item: "
    "tests/core/execute/test_prune and tests/actors/test_backlog do it.",
    Reason.STANDBY: "No simulated operator commands a standby: tests/actors/test_standby does.",
    Reason.UNDECIDED: "Only `nodemanager verify` says it.",
    Reason.POOL_EMPTY: "Only `nodemanager verify` says it.",
    Reason.SUM_IMPOSSIBLE: "Only `nodemanager verify` says it, of numbers that contradict.",
}
"""Reasons that no simulated world need show, and why."""


class Census:
    """The reasons and events of one world, as plans, lines and replies show them."""

    def __init__(self, world: World) -> None:
        self.reasons: set[Reason] = set()
        self.events: set[Event] = set()
        world.plans.append(self._planned)
        world.events.append(self._logged)
        world.replies.append(self._replied)

    def _planned(
        self, manager: Manager, plan: Plan, snapshot: Snapshot, settings: Settings
    ) -> None:
        self.reasons.update(one.reason for one in (*plan.records, *plan.not_restored))
        self.reasons.update(view.verdict.reason for view in plan.views)
        orders = (*plan.cleans, *plan.shutdowns, *plan.prunes, *plan.boots)
        self.reasons.update(order.reason for order in orders)
        if plan.wants is not None:
            self.reasons.update(reason for _, reason in plan.wants.refused)
            self.reasons.update(one.reason for one in plan.wants.unsatisfiable)
        self._note(plan.aborted[0] if plan.aborted is not None else None)

    def _logged(self, manager: Manager, event: Event, fields: dict[str, object]) -> None:
        self.events.add(event)
        self._note(fields.get("reason"))

    def _replied(self, reply: Reply) -> None:
        self._note(reply.reason)

    def _note(self, reason: object) -> None:
        if isinstance(reason, Reason):
            self.reasons.add(reason)


def shown_by(seed: int) -> tuple[int, frozenset[Reason], frozenset[Event]]:
    """What that seed's world shows."""
    there: list[Census] = []
    run(seed, watch=lambda world: there.append(Census(world)))
    return seed, frozenset(there[0].reasons), frozenset(there[0].events)


def known() -> dict[int, frozenset[Reason]]:
    """The seeds that the last census chose, and what they showed it."""
    chosen = json.loads(KNOWN.read_text(encoding="utf-8"))
    members = {reason.value: reason for reason in Reason}
    return {
        int(seed): frozenset(members[name] for name in names if name in members)
        for seed, names in chosen.items()
    }


def cover(shown: Mapping[int, frozenset[Reason]]) -> Iterator[tuple[int, frozenset[Reason]]]:
    """A few seeds that show together what all of them show, each reason TIMES times if they do."""
    counts = Counter(reason for reasons in shown.values() for reason in reasons)
    left = Counter({reason: min(TIMES, count) for reason, count in counts.items()})
    others = dict(shown)
    while +left:
        wanted = frozenset(+left)
        seed = max(others, key=lambda one: (len(others[one] & wanted), -one))
        found = others.pop(seed) & wanted
        yield seed, found
        left.subtract(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many (1000)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (0)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    shown: dict[int, frozenset[Reason]] = {}
    counts: Counter[Reason] = Counter()
    events: Counter[Event] = Counter()
    seeds = range(asked.first, asked.first + asked.seeds)
    with multiprocessing.get_context("spawn").Pool(asked.jobs) as pool:
        for seed, reasons, told in pool.imap_unordered(shown_by, seeds, chunksize=5):
            shown[seed] = reasons
            counts.update(reasons)
            events.update(told)
    for reason, count in sorted(counts.items(), key=lambda one: one[1]):
        print(f"{count:6} {reason.value}")
    for event in Event:
        if event not in events:
            print(f"no line: {event.value}")
    missing = [reason for reason in Reason if reason not in counts and reason not in NEVER]
    for reason in missing:
        print(f"never:   {reason.value}")
    chosen = {str(seed): sorted(reasons) for seed, reasons in cover(shown)}
    KNOWN.write_text(json.dumps(chosen, indent=1) + "\n", encoding="utf-8")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
