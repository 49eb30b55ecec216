"""No node is booted under a name that the scheduler lacks (U12)."""

from __future__ import annotations

from typing import Any

from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.scheduling import SchedulerNode
from nodemanager.core.model.world import Job, WorkerState
from nodemanager.core.plan.slots import NameMismatch, apart
from tests.cases import cases
from tests.core.build import LARGE, World, world

PATTERN = "compute%(slot_number)d"


def wanting(count: int, names: frozenset[str] | None, *, slots: int = 8, **settings: Any) -> World:
    """An empty pool of a registry; its scheduler has nodes of those names, and that many jobs."""
    values: dict[str, Any] = {"hostname": PATTERN, "max_nodes": 9, "sizes": (LARGE,)}
    made = world(scheduled=True, demand_polled=True, **values | settings)
    made.flags["slots"] = slots
    made.poll()
    jobs = tuple(Job(str(number)) for number in range(count))
    shown = (SchedulerNode(name, WorkerState.DOWN) for name in sorted(names or ()))
    made.poll_scheduler(*shown, jobs=jobs, names=names)
    made.plan()
    return made


def computes(*numbers: int) -> frozenset[str]:
    return frozenset(f"compute{number}" for number in numbers)


def refused(made: World) -> dict[Reason, int]:
    return {reason: count for (_, reason), count in made.wants.refused.items()}


@cases(
    ("names", "booted"),
    {
        "all": (computes(*range(1, 9)), 4),
        "the-first": (computes(1, 2), 2),
        "a-gap": (computes(1, 3, 4, 5), 1),
        "not-the-first": (computes(2, 3), 0),
        "another-form": (frozenset({"Compute1", "Compute2"}), 0),
        "others-may-come": (None, 4),
    },
)
def test_as_many_are_booted_as_get_names_that_the_scheduler_has(
    names: frozenset[str] | None, booted: int
) -> None:
    made = wanting(4, names)
    assert len(made.booted) == booted
    assert refused(made) == ({Reason.NOT_IN_SCHEDULER: 4 - booted} if booted < 4 else {})


def test_min_nodes_boots_no_node_under_another_name_either() -> None:
    made = wanting(0, computes(1), min_nodes=2)
    assert len(made.booted) == 1
    assert refused(made) == {Reason.NOT_IN_SCHEDULER: 1}


def test_slots_that_are_held_or_claimed_give_their_names_to_no_other_node() -> None:
    made = wanting(1, computes(1, 2, 4))
    made.add_record("r1", quiet=1.0, slot=1)
    made.add_node("r1", size=LARGE.instance_type)
    made.poll()
    assert len(made.plan(boots_unclaimed=("large",)).boots) == 0
    made.flags["demand"] = tuple(Job(str(number)) for number in range(3))
    plan = made.plan(boots_unclaimed=("large",))
    # compute2 is the set-up's that is under way, so that the next would be compute3.
    assert plan.boots == ()


def test_without_a_free_slot_that_is_what_is_told() -> None:
    assert refused(wanting(3, computes(1, 2), slots=2)) == {Reason.NO_FREE_SLOT: 1}


def test_a_store_whose_names_are_not_known_before_the_claim_boots_as_ever() -> None:
    assert len(wanting(2, computes(7), hostname=None).booted) == 2


@cases(
    ("pattern", "theirs", "like"),
    {
        "case": (PATTERN, {"Compute1", "Compute2"}, "Compute1"),
        "domain": (PATTERN, {"compute1.example.org"}, "compute1.example.org"),
        "leading-zeros": (PATTERN, {"compute001"}, "compute001"),
        "the-other-way-round": ("c%(slot_number)02d.example.org", {"c1"}, "c1"),
        "quite-another": (PATTERN, {"worker1"}, None),
    },
)
def test_both_forms_of_a_name_and_the_remedy_are_told(
    pattern: str, theirs: set[str], like: str | None
) -> None:
    found = apart(pattern, 2, frozenset(theirs))
    first = pattern % {"slot_number": 1}
    assert found == NameMismatch(2, first, like)
    assert first in found.text
    assert "[Registry] hostname" in found.text if like else "NodeName=" in found.text
    assert like is None or like in found.text


def test_names_that_agree_are_not_told() -> None:
    assert apart(PATTERN, 2, computes(1, 2, 3)) is None


def test_a_job_that_excludes_the_next_names_is_told_and_boots_none() -> None:
    made = wanting(1, computes(1, 2, 3))
    made.flags["demand"] = (Job("j", not_on=("compute1",)), Job("k", not_on=("compute2", "c9")))
    plan = made.plan()
    assert len(plan.boots) == 1
    assert plan.wants is not None
    (told,) = plan.wants.unsatisfiable
    assert (told.id, told.reason) == ("j", Reason.JOB_TIED)
