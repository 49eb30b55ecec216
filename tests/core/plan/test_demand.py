"""What is booted, refused and drained: min, max, price, quota, slots, claims (D6, S4, U6, U7)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nodemanager.core.execute.expectations import still_expected
from nodemanager.core.execute.news import NodeExpected
from nodemanager.core.execute.state import State, learned
from nodemanager.core.model.annotations import Mark
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.sizes import by_price
from nodemanager.core.model.world import CloudState, Job, Size, Tags, WorkerState
from nodemanager.core.observe.snapshot import Limits
from nodemanager.core.plan.availability import after_refusal, after_success
from nodemanager.core.plan.packing import Fitting
from nodemanager.errors import (
    BadRequest,
    CapacityUnavailable,
    CloudError,
    FamilyQuotaExceeded,
    PlaceFull,
    QuotaExceeded,
    SpotQuotaExceeded,
    Throttled,
)
from tests.cases import cases
from tests.core.build import (
    LARGE,
    POOL,
    SMALL,
    Expected,
    Flight,
    World,
    claim,
    cleaned,
    incarnation_of,
    world,
)
from tests.core.nodes import pinging

SPOT = replace(SMALL, name="spot", instance_type="t.spot", price=0.05, preemptible=True)
ANY = (
    replace(LARGE, name="any/t.a", instance_type="t.a", group="any", price=9.0),
    replace(SMALL, name="any/t.b", instance_type="t.b", group="any", price=8.0),
)
FREE = replace(LARGE, name="free", instance_type="t.free", price=0.0)
UNKNOWN = replace(LARGE, name="unknown", instance_type="t.unknown", price=None)


def wanting(*jobs: Job, **settings: Any) -> World:
    """An empty pool with a wishlist, and its plan."""
    made = world(**{"max_nodes": 9, **settings})
    made.flags["demand"] = jobs
    made.round()
    return made


def unasked(**settings: Any) -> World:
    """A pool of one node at the most and the least, in which no job waits."""
    made = world(**{"max_nodes": 1, "min_nodes": 1, **settings})
    made.flags["demand"] = ()
    return made


# Matching.


@cases(
    ("job", "size"),
    {
        "anything": (Job("j"), "small"),
        "cores-just-enough": (Job("j", cores=2), "small"),
        "cores": (Job("j", cores=3), "large"),
        "ram-as-scaled": (Job("j", ram_mb=3800), "small"),
        "ram-past-its-scaling": (Job("j", ram_mb=3801), "large"),
        "scratch": (Job("j", scratch_mb=10_001), "large"),
        "by-type": (Job("j", instance_type="t.large"), "large"),
        "by-name": (Job("j", instance_type="large"), "large"),
        "by-group-the-cheapest": (Job("j", instance_type="any"), "any/t.b"),
        "by-group-that-fits": (Job("j", cores=3, instance_type="any"), "any/t.a"),
        "preemptible-is-cheapest": (Job("j", preemptible=True), "spot"),
        "too-many-cores": (Job("j", cores=17), None),
        "no-such-type": (Job("j", instance_type="t.none"), None),
        "by-name-and-it-lacks-the-cores": (Job("j", cores=9, instance_type="small"), None),
    },
)
def test_a_job_gets_the_cheapest_size_that_has_it_all(job: Job, size: str | None) -> None:
    found = Fitting(by_price([LARGE, SPOT, SMALL, *ANY]), Settings(pool=POOL)).size_for(job)
    assert (found and found.name) == size


def test_sizes_go_by_price_the_unpriced_last_and_equal_ones_as_written_s4() -> None:
    group = [replace(SMALL, name=f"any/{one}", group="any") for one in ("z", "a", "m")]
    names = [size.name for size in by_price([UNKNOWN, LARGE, FREE, *group])]
    assert names == ["any/z", "any/a", "any/m", "large", "free", "unknown"]


@cases(
    ("ram", "size"),
    {
        "as-scaled": ({"ram_mb": 128}, None),
        "as-the-file-gives-it": ({"ram_mb": 128, "ram_is_given": True}, "one"),
        "unknown": ({"ram_mb": 0}, "one"),
    },
)
def test_memory_is_scaled_unless_the_file_gives_it_and_unknown_memory_fits_n14(
    ram: dict[str, Any], size: str | None
) -> None:
    one = Size("one", "t.one", cores=1, **ram)
    fitting = Fitting((one,), Settings(pool=POOL))
    found = fitting.size_for(Job("j", ram_mb=122))
    assert (found and found.name) == size
    assert fitting.size_for(Job("j", ram_mb=121)) is one


def test_unknown_scratch_space_fits_every_job_n14() -> None:
    bare = replace(SMALL, scratch_mb=0)
    assert Fitting((bare,), Settings(pool=POOL)).size_for(Job("j", scratch_mb=5000)) is bare


@cases(
    ("job", "sizes", "size"),
    {
        "ordinary": (Job("j"), (SPOT, SMALL), "small"),
        "preemptible": (Job("j", preemptible=True), (SPOT, SMALL), "spot"),
        "ordinary-and-nothing-else-fits": (Job("j"), (SPOT,), "spot"),
        "by-name": (Job("j", instance_type="spot"), (SPOT, SMALL), "spot"),
    },
)
def test_an_ordinary_job_gets_a_preemptible_size_only_where_no_other_fits_n14(
    job: Job, sizes: tuple[Size, ...], size: str
) -> None:
    found = Fitting(by_price(sizes), Settings(pool=POOL)).size_for(job)
    assert found is not None
    assert found.name == size


def test_a_size_of_the_very_name_goes_before_a_cheaper_one_of_that_type_u11() -> None:
    plain = replace(SMALL, name="t.small")
    spot = replace(plain, name="t.small.spot", price=0.01, preemptible=True)
    job = Job("j", instance_type="t.small", preemptible=True)
    assert Fitting(by_price((spot, plain)), Settings(pool=POOL)).size_for(job) is plain


def test_a_size_is_chosen_by_features_and_resources_u12() -> None:
    gpu = replace(LARGE, name="gpu", features=("ssd", "rack1"), gres=(("gpu", 4), ("gpu:t4", 4)))
    fitting = Fitting(by_price((SMALL, gpu)), Settings(pool=POOL))

    def chosen(**asked: Any) -> str | None:
        size = fitting.size_for(Job("j", **asked))
        return None if size is None else size.name

    assert chosen(features=(("ssd",),)) == "gpu"
    assert chosen(features=(("ssd", "rack2"), ("rack1",))) == "gpu"
    assert chosen(features=(("rack2",),)) is None
    assert chosen(gres=(("gpu", 2),)) == "gpu"
    assert chosen(gres=(("gpu", 5),)) is None
    assert chosen(features=((f"instancetype={SMALL.name}",), ("ssd",))) == SMALL.name


def test_a_job_that_asks_for_what_no_size_has_is_told_with_it_u12() -> None:
    made = wanting(Job("j", features=(("ssd", "rack1"), ("rack2",)), gres=(("gpu", 2),)))
    wants = made.plan().wants
    assert wants is not None
    (told,) = wants.unsatisfiable
    assert told.reason is Reason.NO_FITTING_SIZE
    assert told.measures is not None
    assert told.measures["features"] == "ssd&rack1|rack2"
    assert told.measures["gres"] == "gpu:2"


# What can't be had (U12).


def unsatisfiable(made: World) -> dict[str, Reason]:
    return {one.id: one.reason for one in made.wants.unsatisfiable}


@cases(
    ("job", "settings", "reason"),
    {
        "no-size-fits": (Job("j", cores=99), {}, Reason.NO_FITTING_SIZE),
        "max-nodes": (Job("j", count=12), {"max_nodes": 4}, Reason.JOB_OVER_MAX_NODES),
        "max-total-price": (
            Job("j", cores=9, count=3),
            {"max_total_price": 2.5},
            Reason.JOB_OVER_MAX_PRICE,
        ),
        "no-price": (
            Job("j", cores=9),
            {"max_total_price": 2.5, "sizes": (SMALL, FREE)},
            Reason.UNPRICED_SIZE,
        ),
        "unknown-price": (
            Job("j", cores=9),
            {"max_total_price": 2.5, "sizes": (SMALL, UNKNOWN)},
            Reason.UNPRICED_SIZE,
        ),
    },
)
def test_for_a_job_that_cant_be_had_nothing_is_booted_and_it_is_told_by_id_u12_n13(
    job: Job, settings: dict[str, Any], reason: Reason
) -> None:
    made = wanting(job, Job("beside"), **settings)
    assert made.booted == ["small"]
    assert unsatisfiable(made) == {"j": reason}
    assert made.wants.refused == {}


@cases(
    ("job", "settings"),
    {
        "just-max-nodes": (Job("j", count=4), {"max_nodes": 4}),
        "just-max-total-price": (Job("j", count=3), {"max_total_price": 0.3}),
    },
)
def test_a_job_that_just_fits_the_caps_is_had_whole_u12(job: Job, settings: dict[str, Any]) -> None:
    """Three times 0.1 is a little more than 0.3 to a computer."""
    made = wanting(job, **settings)
    assert made.booted == ["small"] * job.count
    assert unsatisfiable(made) == {}


# The order of the queue (U12).


def test_what_is_first_in_the_queue_is_booted_first_u12_n4() -> None:
    made = wanting(Job("big", cores=9), *(Job(f"j{n}") for n in range(5)), max_nodes=3)
    assert made.booted == ["large", "small", "small"]
    assert made.wants.refused == {("small", Reason.AT_MAX_NODES): 3}


@cases(
    ("cap", "booted"),
    {
        "the-first-waits-and-the-rest-behind-it": (1.15, []),
        "the-first-and-no-more": (1.25, ["large"]),
        "the-first-and-one": (1.35, ["large", "small"]),
    },
)
def test_no_later_job_takes_the_price_that_an_earlier_one_waits_for_u12_n4(
    cap: float, booted: list[str]
) -> None:
    """Two small nodes work; the large one has its turn once they are gone."""
    made = world(max_nodes=9, max_total_price=cap)
    for name in ("r1", "r2"):
        made.add_record(name)
        made.add_node(name)
    made.flags["demand"] = (Job("big", cores=9), Job("j1"), Job("j2"))
    pinging(made, WorkerState.BUSY)
    assert made.booted == booted


def test_a_job_whose_turn_can_never_come_stops_nobody_u12() -> None:
    """A stranger's node takes the price that it would need, and is never destroyed (D11)."""
    made = world(max_nodes=9, max_total_price=1.15)
    for name in ("u1", "u2"):
        made.add_node(id=name, pool=None, size="t.small")
    made.flags["demand"] = (Job("big", cores=9), Job("j1"))
    made.round()
    assert made.booted == ["small"]
    assert unsatisfiable(made) == {"big": Reason.JOB_OVER_MAX_PRICE}


def test_a_job_that_waits_for_what_min_nodes_holds_stops_nobody_u12() -> None:
    made = world(min_nodes=2, max_nodes=9, max_total_price=1.15)
    for name in ("r1", "r2"):
        made.add_record(name)
        made.add_node(name)
    made.flags["demand"] = (Job("big", cores=9), Job("j1"))
    pinging(made, WorkerState.BUSY)
    assert made.booted == ["small"]
    assert made.wants.refused == {("large", Reason.AT_MAX_PRICE): 1}


# Which size a node is of (U11).

PLAIN = replace(SMALL, name="t.small")
CHEAP = replace(SMALL, name="t.small.spot", price=0.03, preemptible=True)


def with_claim_of(made: World, uuid: str, size: str | None, price: float | None = None) -> None:
    claim = made.record(uuid).claim
    assert claim is not None
    made.change(uuid, claim=replace(claim, size=size, price=price))


@cases(
    ("tag", "claimed", "cost"),
    {
        "by-its-tag": ("t.small", None, 0.1),
        "by-its-claim": (None, "t.small", 0.1),
        "the-tag-goes-before-the-claim": ("t.small.spot", "t.small", 0.03),
        "of-an-older-version-by-its-type": (None, None, 0.03),
        "of-a-size-that-is-no-more-by-its-type": ("removed", "removed", 0.03),
    },
)
def test_two_sizes_of_one_instance_type_are_two_sizes_u11_n2(
    tag: str | None, claimed: str | None, cost: float
) -> None:
    """One ordinary job, one idle node of its size: nothing is booted, nothing is surplus."""
    made = world(max_nodes=9, sizes=(CHEAP, PLAIN))
    made.add_record("r1")
    with_claim_of(made, "r1", claimed)
    made.add_node("r1", tags=Tags(POOL, "r1", incarnation_of("r1"), tag))
    made.flags["demand"] = (Job("j"),)
    pinging(made, WorkerState.IDLE, 3)
    assert made.wants.price == cost
    if cost == 0.1:
        assert (made.booted, made.destroyed) == ([], [])
    else:
        assert (made.booted, made.destroyed) == (["t.small"], ["i-r1"])


@cases(
    ("idle_size", "job", "wanted"),
    {
        "on-demand": ("t.small", Job("j", preemptible=True), "t.small.spot"),
        "spot": ("t.small.spot", Job("j"), "t.small"),
    },
)
def test_an_idle_node_goes_while_another_size_of_its_type_is_wanted_in_vain_u11_n2(
    idle_size: str, job: Job, wanted: str
) -> None:
    made = world(max_nodes=9, sizes=(CHEAP, PLAIN))
    made.add_record("r1")
    made.add_node("r1", tags=Tags(POOL, "r1", incarnation_of("r1"), idle_size))
    made.flags |= {"demand": (job,), "limits": Limits(resting={wanted: 9e9})}
    pinging(made, WorkerState.IDLE, 3)
    assert made.destroyed == ["i-r1"]
    assert made.shutdown_order("i-r1").size == idle_size
    assert made.wants.unmet == {wanted}


def test_the_size_of_a_node_to_be_is_known_by_its_claim_after_a_restart_n17() -> None:
    """It is not listed yet, and this process did not claim it: a cap of 1.05 holds."""
    made = world(max_nodes=9, max_total_price=1.05)
    made.add_record("r1", pinged=False)
    with_claim_of(made, "r1", "large")
    made.flags["demand"] = (Job("j"), Job("big", cores=9))
    made.round()
    assert made.booted == []
    assert made.wants.refused == {("small", Reason.AT_MAX_PRICE): 1}
    assert made.wants.price == 1.0


@pytest.mark.parametrize("listed", [True, False])
def test_a_node_costs_what_it_did_when_its_size_is_no_more_u11(listed: bool) -> None:
    made = world(max_nodes=9)
    made.add_record("r1", pinged=listed)
    with_claim_of(made, "r1", "removed", 0.7)
    if listed:
        made.add_node("r1", size="t.removed")
    made.round()
    assert made.wants.price == 0.7


# Nodes without our tag (D11).


def test_strangers_that_pair_with_nothing_serve_neither_min_nodes_nor_demand_d11_n34() -> None:
    made = world(min_nodes=2, max_nodes=9, max_total_price=9.0)
    for name in ("u1", "u2", "u3"):
        made.add_node(id=name, pool=None, size="t.small")
    made.round()
    assert made.booted == ["small", "small"]
    assert made.wants.price == pytest.approx(0.3)
    made.reload(max_nodes=4)
    made.plan()
    assert made.booted == ["small"], "they count against max_nodes"
    assert made.wants.refused == {("small", Reason.AT_MAX_NODES): 1}


@pytest.mark.parametrize(
    "tags", [{"pool": None}, {"tags": Tags(POOL)}], ids=["a-stranger", "our-tag-and-no-records"]
)
def test_one_without_a_records_tag_serves_once_it_pairs_by_its_id_d11_p1(
    tags: dict[str, Any],
) -> None:
    made = world(min_nodes=1, max_nodes=9, ids_unique=True)
    made.add_record("r1", claimed=False)
    made.add_node(id="i-r1", **tags)
    made.flags["demand"] = (Job("j"),)
    pinging(made, WorkerState.IDLE, 3)
    assert made.view("i-r1").record is not None
    assert (made.booted, made.destroyed) == ([], [])


@pytest.mark.parametrize("ids_unique", [True, False])
@cases(("jobs", "min_nodes"), {"demand": (2, 0), "min-nodes": (0, 2)})
def test_one_with_our_tag_and_no_records_that_pairs_with_nothing_serves_nobody_d11_d7(
    jobs: int, min_nodes: int, ids_unique: bool
) -> None:
    """It counts against max_nodes and the price for as long as it is there."""
    made = world(min_nodes=min_nodes, max_nodes=2, max_total_price=9.0, ids_unique=ids_unique)
    made.add_node(id="alone", tags=Tags(POOL))
    made.flags["demand"] = (Job("j"),) * jobs
    made.round()
    assert made.of_node("alone").reason is Reason.UNPAIRED_WITHIN_WINDOW
    assert made.booted == ["small"]
    assert made.wants.refused == {("small", Reason.AT_MAX_NODES): 1}
    assert made.wants.price == pytest.approx(0.1)


def test_beside_it_the_last_node_that_serves_min_nodes_stays_up_d11_d7() -> None:
    """Else both would go, one after the other, and a third would have to be booted."""
    made = world(min_nodes=1, max_nodes=9)
    made.add_record("r1")
    made.add_node("r1")
    made.add_node(id="alone", tags=Tags(POOL))
    made.flags["demand"] = ()
    pinging(made, WorkerState.IDLE, 5)
    assert made.of_node("alone").reason is Reason.UNPAIRED_WITHIN_WINDOW
    assert made.of_node("i-r1").reason is Reason.NEEDED
    assert (made.booted, made.destroyed) == ([], [])


# How many.


@cases(
    ("jobs", "settings", "booted"),
    {
        "nothing-wanted": ([], {}, []),
        "min-nodes": ([], {"min_nodes": 2}, ["small", "small"]),
        "wishlist": ([Job("j", count=3)], {}, ["small"] * 3),
        "wishlist-fills-min": ([Job("j")], {"min_nodes": 3}, ["small"] * 3),
        "in-their-order": ([Job("b", cores=9), Job("a")], {}, ["large", "small"]),
        "max-nodes": ([Job("j")] * 99, {"max_nodes": 4}, ["small"] * 4),
        "a-huge-wish": ([Job("j", count=10**9)], {"max_nodes": 2}, []),
        "drained": ([Job("j")], {"max_nodes": 0}, []),
        "no-sizes": ([Job("j")], {"sizes": ()}, []),
        "unpriced-where-there-is-no-cap": (
            [Job("j", cores=9)],
            {"sizes": (SMALL, UNKNOWN)},
            ["unknown"],
        ),
    },
)
def test_as_many_are_booted_as_are_wanted_and_allowed(
    jobs: list[Job], settings: dict[str, Any], booted: list[str]
) -> None:
    assert wanting(*jobs, **settings).booted == booted


def test_a_wish_that_is_refused_does_not_keep_the_pool_below_min_nodes() -> None:
    made = wanting(Job("j", cores=9), min_nodes=1, max_total_price=0.5)
    assert made.booted == ["small"]


def test_min_nodes_is_filled_with_no_preemptible_and_no_resting_size() -> None:
    made = world(min_nodes=1, sizes=(SPOT, SMALL, LARGE))
    made.flags["limits"] = Limits(resting={"small": made.now + 9e9})
    made.round()
    assert made.booted == ["large"]


def test_nodes_that_boot_serve_the_wishlist_already() -> None:
    made = world(max_nodes=9)
    made.add_record("r1", pinged=False)
    made.add_node("r1")
    made.add_record("r2", pinged=False)
    made.flags |= {"demand": (Job("j", count=3),), "claimed_sizes": {"r2": "small"}}
    made.round()
    assert made.booted == ["small"]


# D6.


@cases("known", {"of-none": 0, "of-all": 1})
@cases(("ago", "booted"), {"rests": (1800.0, 0), "probed-with-one": (1801.0, 1)})
def test_a_quota_is_probed_with_one_more_once_in_a_while_d6(
    known: int, ago: float, booted: int
) -> None:
    """With one more than there are, too, where it was refused while a listing showed none."""
    made = world(max_nodes=9)
    made.add_record("r1")
    made.add_node("r1")
    made.poll()
    pinging(made, WorkerState.BUSY)
    limits = Limits(quota=known, quota_at=made.now - ago)
    made.plan(demand=(Job("j", count=3),), limits=limits)
    assert len(made.booted) == booted
    assert made.wants.refused["small", Reason.AT_QUOTA] == 3 - booted


@cases(
    ("limits", "reason"),
    {
        "size-rests": ({"resting": {"small": 9e9}}, Reason.SIZE_RESTS),
        "throttled": ({"throttled_until": 9e9}, Reason.THROTTLED),
        "quota-of-none": ({"quota": 0, "quota_at": 9e9}, Reason.AT_QUOTA),
    },
)
def test_what_the_cloud_refused_lately_is_not_asked_again_d6(
    limits: dict[str, Any], reason: Reason
) -> None:
    made = wanting(Job("j"))
    made.plan(limits=Limits(**limits))
    assert (made.booted, made.wants.refused) == ([], {("small", reason): 1})


NO_SMALL = {"resting": {"small": 9e9}, "full": {"small": 0.0}}
"""The size has no room; the times of `full` are set below."""


@cases(
    ("job", "limits", "booted"),
    {
        "the-next": (Job("j"), NO_SMALL, ["large"]),
        "for-each-node": (Job("j", count=2), NO_SMALL, ["large", "large"]),
        "refused-for-another-cause": (Job("j"), {"resting": {"small": 9e9}}, []),
        "room-again": (Job("j"), {"full": {"small": 0.0}}, ["small"]),
        "room-for-none": (
            Job("j"),
            {
                "resting": {"small": 9e9, "large": 9e9},
                "full": {"small": 0.0, "large": 0.0},
            },
            [],
        ),
        "a-size-by-name": (Job("j", instance_type="small"), NO_SMALL, []),
        "for-a-seat": (Job("j", host="small"), NO_SMALL, []),
    },
)
def test_a_job_whose_size_has_no_room_gets_the_next_that_fits_at_once_d6(
    job: Job, limits: dict[str, Any], booted: list[str]
) -> None:
    made = wanting(job)
    moved = {name: value for name, value in limits.items() if name != "full"}
    full = dict.fromkeys(limits.get("full", {}), made.now)
    made.plan(limits=Limits(**moved, full=full))
    assert made.booted == booted


@cases(("ago", "booted"), {"within-its-boot": (2100.0, []), "past-it": (2101.0, ["small"])})
def test_a_job_stays_with_the_node_that_comes_in_its_sizes_stead_d6(
    ago: float, booted: list[str]
) -> None:
    """For boot_fail_after and max_poll_time: else that node is needless before the job starts."""
    made = wanting(Job("j"))
    made.plan(limits=Limits(full={"small": made.now - ago}), boots_unclaimed=("large",))
    assert made.booted == booted


def test_no_job_that_is_not_preemptible_gets_a_spot_node_for_want_of_room_d6() -> None:
    fitting = Fitting(by_price([LARGE, SPOT, SMALL]), Settings(pool=POOL))
    assert fitting.instead(Job("j"), SMALL) == (LARGE,)
    spot = Job("j", preemptible=True)
    assert fitting.instead(spot, SPOT) == (SMALL, LARGE)


def test_each_refusal_has_its_own_effect_d6() -> None:
    settings = Settings(pool=POOL, max_poll_time=300.0)

    def after(error: Exception) -> Limits:
        return after_refusal(Limits(), error, "small", 7, 1000.0, settings)

    assert (after(QuotaExceeded("q")).quota, after(QuotaExceeded("q")).quota_at) == (7, 1000.0)
    assert after(CapacityUnavailable("c")).resting == {"small": 1300.0}
    assert after(CapacityUnavailable("c")).full == {"small": 1000.0}
    assert after(PlaceFull("c", place="a")).full == {"small": 1000.0}
    assert after(BadRequest("b")).resting == {"small": 1300.0}
    assert after(Throttled("t")) == Limits()
    assert after(CloudError("time-out")) == Limits(is_unclear=True)


@cases(
    ("error", "rests"),
    {
        "of-a-family": (FamilyQuotaExceeded("q"), {"large"}),
        "of-spot-nodes": (SpotQuotaExceeded("q"), {"large", "spot"}),
    },
)
def test_a_quota_rests_those_whom_it_concerns_and_an_ordinary_job_boots_d6(
    error: QuotaExceeded, rests: set[str]
) -> None:
    """CL5: it stopped every size of the pool."""
    made = world(max_nodes=9, sizes=(SMALL, LARGE, SPOT))
    made.flags["demand"] = (Job("j"),)
    limits = after_refusal(Limits(), error, "large", 1, made.now, made.settings)
    assert limits.quota is None
    assert limits.resting == dict.fromkeys(rests, made.now + made.settings.boot_fail_after)
    made.flags["limits"] = limits
    made.round()
    assert made.booted == ["small"]


def test_bad_requests_in_a_row_rest_a_size_for_ever_longer_up_to_an_hour_n32() -> None:
    settings = Settings(pool=POOL, max_poll_time=300.0)
    limits, rests, now = Limits(), [], 0.0
    for _ in range(7):
        for _ in range(2):
            # Two of one plan are one.
            limits = after_refusal(limits, BadRequest("no such image"), "small", 7, now, settings)
        rests.append(limits.resting["small"] - now)
        now = limits.resting["small"]
    assert rests == [300.0, 600.0, 1200.0, 2400.0, 3600.0, 3600.0, 3600.0]
    limits = after_success(limits, "small", 1)
    limits = after_refusal(limits, BadRequest("no such image"), "small", 7, now, settings)
    assert limits.resting["small"] - now == 300.0


@cases(
    ("nodes", "quota"),
    {
        "below": (6, 7),
        "the-last-that-it-allows": (7, 7),
        "a-probe": (8, 8),
        "a-probe-where-not-all-were-known": (9, 9),
    },
)
def test_only_a_probe_that_came_through_raises_the_quota_d6(nodes: int, quota: int) -> None:
    """To as many as there are then; `nodes` has the one created."""
    state = State(limits=Limits(quota=7))
    created = NodeExpected("r1", "a1", "small", "i-1")
    assert learned(state, created, 0.0, nodes, Settings(pool=POOL)).limits.quota == quota


# U6, U7, P4.


@pytest.mark.parametrize("pinged", [True, False])
def test_a_node_of_an_earlier_life_does_not_stand_for_one_that_is_not_listed_p6(
    pinged: bool,
) -> None:
    """The earlier one is listed still, though it is gone; the record's own counts all the same."""
    made = unasked()
    made.add_record("r1", life=2, pinged=pinged, quiet=10.0)
    made.add_node("r1", life=1, id="i-old")
    made.poll()
    made.flags["gone"] = {"i-old": made.now}
    made.plan()
    assert made.booted == []


def test_a_twin_that_ended_does_not_stand_for_the_node_that_pings_p6() -> None:
    """Two were made on one record; the other is listed, as terminated, and it is not."""
    made = unasked()
    made.add_record("r1", quiet=10.0)
    made.add_node("r1", id="i-twin", state=CloudState.TERMINATED)
    made.round()
    assert made.records[0].instance_id == "i-r1"
    assert made.booted == []


@cases(
    ("answered", "booted"),
    {
        "the-create-answered-the-other": ("i-other", []),
        "the-create-answered-this-one": ("i-ended", ["small"]),
        "no-answer-is-known": (None, ["small"]),
    },
)
def test_nor_where_nodes_tell_no_id_and_the_create_answered_the_other_p1a(
    answered: str | None, booted: list[str]
) -> None:
    made = unasked()
    made.add_record("r1", quiet=10.0, instance_id=None)
    made.add_node("r1", id="i-ended", state=CloudState.TERMINATED)
    if answered is not None:
        created = Expected(answered, "small", made.now, incarnation_of("r1"))
        made.flags["expected"] = {"r1": created}
    made.round()
    assert made.booted == booted


@cases(
    ("pinger", "booted"),
    {
        "a-node-of-the-freed-life": ("i-r1", []),
        "another-that-may-be-its-own": ("i-ended", ["small"]),
    },
)
def test_a_ping_of_a_freed_lifes_node_ends_no_wait_for_the_node_that_the_next_may_get_p4_a4(
    pinger: str, booted: list[str]
) -> None:
    """The create had no answer, and a ping that hung in the server lands on its claim."""
    made = unasked()
    made.add_record("r1", quiet=10.0)
    made.free("r1")
    claimed = claim("r1", at=made.store_now, life=2)
    made.change("r1", claim=claimed, last_ping_at=made.store_now, instance_id=pinger)
    expected = {"r1": Expected(None, "small", made.now, claimed.incarnation)}
    made.flags |= {"expected": expected, "gone": {"i-r1": made.now, "i-ended": made.now}}
    made.round()
    assert made.booted == booted
    left = still_expected(expected, made.history, made.last.pairs, made.now, made.settings)
    assert set(left) == (set() if booted else {"r1"})


def denied_claim(rounds: int, how: str = "denied", **settings: Any) -> World:
    """A claim on hold, which no node came of; the cloud is asked for it each round, and answers.

    Its window is 1020 s, and a round comes every 60 s: the 19th is the first past it.
    """
    made = world(**{"max_nodes": 2, "min_nodes": 1, "boot_fail_after": 600.0, **settings})
    made.flags |= {"demand": (), "holds": frozenset({"r1"})}
    made.add_record("r1", pinged=False)
    born = replace(made.add_node("r1"), id="i-late")
    made.nodes.clear()
    for number in range(rounds):
        made.nodes = [born] if how == "listed-since" and number == 20 else []
        made.store_step = 100.0 if how == "the-clock-stepped" and number == 24 else 0.0
        plan = made.round()
        made.advance(57.5)
        found = (born,) if how == "found" else ()
        early = how == "asked-before-its-window-ended" and number > 15
        if how != "no-answer" and not early and number < 20:
            made.answer_tags(dict.fromkeys(plan.ask_tagged, found))
    return made


def test_a_claim_that_no_node_will_come_of_serves_nobody_until_it_is_cleaned_u9_c21() -> None:
    """A hold, a breaker, the backlog or the cap kept it for hours: so long min_nodes lacked one."""
    assert denied_claim(18).booted == []
    made = denied_claim(20)
    assert made.of_record("r1").reason is Reason.HELD
    assert made.booted == ["small"]
    assert made.last.counts["nodes_booting"] == 0


def test_nor_does_it_count_against_max_nodes_and_the_price() -> None:
    made = denied_claim(20, max_nodes=2, min_nodes=2, max_total_price=0.25)
    made.add_record("r2", pinged=True)
    made.add_node("r2")
    made.round()
    assert made.booted == ["small"]


@pytest.mark.parametrize("expires", [True, False])
def test_nor_does_its_claim_however_long_that_stands_u6_c21(expires: bool) -> None:
    """By default it stands for node_stale_after, and no node comes of it for most of that time."""
    made = denied_claim(20, max_nodes=1, claim_expiry=expires)
    assert made.booted == ["small"]
    assert denied_claim(18, max_nodes=1, claim_expiry=expires).booted == []


@cases(
    ("how", "settings"),
    {
        "no-answer": ("no-answer", {}),
        "the-cloud-has-it": ("found", {}),
        "listed-since-it-was-denied": ("listed-since", {}),
        "asked-before-its-window-ended": ("asked-before-its-window-ended", {}),
        "nothing-proves-the-adapter": ("denied", {"may_authorise": False}),
        "its-absence-is-not-settled": ("denied", {"settle": 3000.0}),
        "the-clock-just-stepped": ("the-clock-stepped", {}),
    },
)
def test_without_proof_that_none_will_come_it_counts_as_a_node_to_be_d13(
    how: str, settings: dict[str, Any]
) -> None:
    made = denied_claim(25, how, **settings)
    assert made.booted == []
    assert made.last.counts["nodes_booting"] == 1


def test_an_unpinged_claim_counts_until_it_is_cleaned_though_its_node_is_gone_u6() -> None:
    """Its node failed to boot and was destroyed; the listing still shows it, the clean comes."""
    made = world(max_nodes=2)
    made.add_record("r1", pinged=False, quiet=2000.0)
    made.add_node("r1")
    made.add_record("r2", pinged=False)
    made.poll()
    made.flags |= {
        "demand": (Job("j", count=2),),
        "gone": {"i-r1": made.now},
        "record_flights": {"r1": Flight("clean", made.now)},
    }
    made.plan()
    assert made.booted == []
    assert made.wants.refused == {("small", Reason.CLAIMS_PENDING): 1}


@cases(
    ("quiet", "own", "booted"),
    {
        "locked": (7000.0, False, 0),
        "past-the-window": (7300.0, False, 2),
        "our-own-clean": (7000.0, True, 2),
    },
)
def test_without_compare_and_set_a_record_just_modified_is_not_used_again_u2_u6(
    quiet: float, own: bool, booted: int
) -> None:
    made = world(max_nodes=2, compare_and_set=False)
    made.records = [cleaned(f"r{n}", at=made.ago(quiet)) for n in range(2)]
    if own:
        made.flags["own_cleans"] = frozenset({"r0", "r1"})
    made.flags["demand"] = (Job("j", count=2),)
    made.round()
    assert len(made.booted) == booted
    if not booted:
        assert made.wants.refused == {("small", Reason.CLAIMS_PENDING): 2}


@cases(("after", "booted"), {"locked": (7100.0, 0), "past-the-window": (7210.0, 1)})
@pytest.mark.parametrize("was_ahead", [True, False], ids=["written-ahead", "set-back-since"])
def test_a_record_stamped_ahead_is_locked_for_a_window_from_when_it_was_seen_so_u2_t1(
    was_ahead: bool, after: float, booted: int
) -> None:
    """It was written while the store's clock was ten hours ahead, or the clock is set back."""
    made = world(min_nodes=1, max_nodes=1, compare_and_set=False)
    made.records = [cleaned("r1", at=made.ago(-36_000.0 if was_ahead else 60.0))]
    if not was_ahead:
        made.round()
        made.store_step = -36_000.0
    made.round()
    made.advance(after).round()
    assert len(made.booted) == booted
    if not booted:
        assert made.wants.refused == {("small", Reason.CLAIMS_PENDING): 1}


@cases(("quiet", "booted"), {"heard-just-before": (50.0, 0), "silent-then": (650.0, 1)})
def test_who_was_heard_when_the_records_were_listed_counts_however_old_that_is_p6(
    quiet: float, booted: int
) -> None:
    """A manager that stood still has old listings: they say nothing of the time since."""
    made = unasked()
    made.add_record("r1", quiet=quiet)
    made.poll()
    made.advance(590.0)
    made.plan()
    assert len(made.booted) == booted


@cases(
    ("waits", "rounds"),
    {"its-absence-is-settled": (40.0, [0, 1]), "silent-for-poll-stale-after": (610.0, [1])},
)
def test_who_was_heard_before_the_clock_was_set_back_counts_no_longer_than_others_t1(
    waits: float, rounds: list[int]
) -> None:
    """Its newest stamp is from the future for hours, and no sign of life for as long.

    Nor can its age be told: the time in which no listing need show it counts from that ping.
    """
    made = unasked(visible_after=0.0)
    made.add_record("r1", quiet=10.0)
    made.poll()
    made.store_step -= 7200.0
    for booted in rounds:
        made.advance(waits)
        made.round()
        assert len(made.booted) == booted


@pytest.mark.parametrize("complete", [True, False])
@cases(("quiet", "booted"), {"heard-lately": (10.0, 0), "silent-for-poll-stale-after": (590.0, 1)})
def test_a_late_record_listing_takes_back_no_ping_that_was_seen_c5(
    quiet: float, booted: int, complete: bool
) -> None:
    """The node pinged, and then two listings show its record as it was long before."""
    made = unasked()
    old = made.add_record("r1", quiet=900.0)
    made.add_node("r1")
    made.change("r1", last_ping_at=made.ago(quiet), modified_at=made.ago(quiet))
    made.round()
    for late in (100.0, 0.0):
        made.advance(60.0)
        at = made.ago(800.0 + late)
        shown = replace(old, last_ping_at=at, modified_at=at)
        made.poll_records([shown], complete=late == 0.0 or complete)
    made.drop_node("i-r1")
    made.poll_cloud()
    made.plan()
    assert len(made.booted) == booted


def test_a_late_record_listing_takes_back_no_ping_of_another_life_c5() -> None:
    """Who pinged in the life before says nothing of the one that is listed now."""
    made = unasked()
    made.add_record("r1", quiet=10.0)
    made.add_node("r1")
    made.round()
    made.drop_node("i-r1")
    made.records.clear()
    made.add_record("r1", life=2, quiet=900.0)
    made.round()
    assert len(made.booted) == 1


@cases(
    ("pings", "booted"),
    {
        "it-pinged-since-a-listing-lacked-it": (True, [0, 0, 0]),
        "listed-until-the-manager-stood-still": (False, [0, 0, 1]),
    },
)
def test_a_ping_since_a_listing_that_lacked_it_counts_over_a_gap_c5_p6(
    pings: bool, booted: list[int]
) -> None:
    """A manager that stood still counts the absence anew, and listings still lack who lives."""
    made = unasked(visible_after=0.0)
    made.add_record("r1", quiet=5.0)
    if not pings:
        made.add_node("r1")
    for wait, count in zip((610.0, 60.0, 0.0), booted, strict=True):
        made.round()
        assert len(made.booted) == count
        made.advance(wait)
        if wait > made.settings.poll_stale_after:
            made.nodes.clear()
            made.ping("r1")


@cases(("age", "rounds"), {"young": (10.0, [0, 0, 0, 0, 0, 0, 1]), "old": (500.0, [0, 1])})
def test_no_listing_that_may_not_show_a_node_yet_settles_its_absence_c11(
    age: float, rounds: list[int]
) -> None:
    """It pinged, its first listings lack it, and the cloud may take 300 s to show it."""
    made = unasked(poll_stale_after=900.0)
    made.add_record("r1", quiet=5.0, first_ping_at=made.ago(age))
    for booted in rounds:
        made.round()
        assert len(made.booted) == booted
        made.advance(60.0)


@pytest.mark.parametrize("slots", [0, 1, 2, 3, 4])
def test_no_boot_without_a_free_slot_of_all_pools_u7(slots: int) -> None:
    """Slot 0, another pool's, and a claim that holds none yet each take one."""
    made = world(max_nodes=9)
    made.add_record("r1", slot=0, quiet=100.0)
    made.add_record("r2", slot=5, pool="other", claimed=False)
    made.add_record("r3", slot=None, pinged=False, pool="other")
    made.flags |= {"demand": (Job("j", count=3),), "slots": slots}
    made.round()
    assert len(made.booted) == max(0, slots - 3)


@cases(
    "flags",
    {
        "set-up-without-a-record": {"boots_unclaimed": ("small",)},
        "set-up-with-one": {"record_flights": {"new": Flight("setup", 0.0)}},
        "created": {"expected": {"new": Expected("i", "small", 1e6)}},
        "perhaps-created": {"expected": {"new": Expected(None, "small", 1e6)}},
    },
)
def test_a_set_up_under_way_takes_a_slot_before_a_listing_shows_it_u7(
    flags: dict[str, Any],
) -> None:
    made = world(max_nodes=9)
    made.flags |= {"demand": (Job("j", count=3),), "slots": 1, **flags}
    made.round()
    assert made.booted == []
    assert made.wants.refused["small", Reason.NO_FREE_SLOT] > 0


@cases(
    ("settings", "flights", "too_many"),
    {
        "one-too-many": ({"max_nodes": 2}, 1, (1, {})),
        "just-room": ({"max_nodes": 3}, 1, (0, {})),
        "all-too-many": ({"max_nodes": 2}, 3, (3, {})),
        "too-dear": ({"max_total_price": 0.2}, 1, (0, {"small": 1})),
        "one-too-dear": ({"max_total_price": 0.3}, 2, (0, {"small": 1})),
        "just-the-price": ({"max_total_price": 0.4}, 2, (0, {})),
    },
)
def test_nodes_to_be_beyond_the_limits_are_known_once_a_node_is_listed_again_u10(
    settings: dict[str, Any], flights: int, too_many: tuple[int, dict[str, int]]
) -> None:
    """Two nodes that did not count when the set-ups were ordered are listed again."""
    made = world(**{"max_nodes": 9, **settings})
    for uuid in ("r1", "r2"):
        made.add_record(uuid)
        made.add_node(uuid)
    new = {f"new{number}": Flight("setup", 0.0) for number in range(flights)}
    made.flags |= {"demand": (Job("j", count=9),), "record_flights": new}
    made.round()
    assert (made.wants.too_many, made.wants.too_dear) == too_many
    assert made.booted == []


@cases(("life", "too_many"), {"its-own-node": (1, 0), "beside-a-former-lifes": (2, 1)})
def test_a_former_lifes_node_is_not_the_one_that_a_set_up_makes_u6_u10(
    life: int, too_many: int
) -> None:
    """It is listed late, and bears the record that the set-up claimed: they are two nodes."""
    made = world(max_nodes=1)
    made.records.append(cleaned("r1", at=made.ago(0.0)))
    made.add_node("r1", life=1)
    flight = Flight("setup", 0.0, incarnation_of("r1", life))
    made.flags |= {"record_flights": {"r1": flight}}
    made.round()
    assert made.wants.too_many == too_many


def test_the_dearest_node_to_be_goes_first_for_the_price_u10() -> None:
    made = world(max_nodes=9, max_total_price=1.1)
    made.add_record("r1")
    made.add_node("r1")
    flights = {"new1": Flight("setup", 0.0), "new2": Flight("setup", 0.0)}
    sizes = {"new1": "small", "new2": "large"}
    made.flags |= {"record_flights": flights, "claimed_sizes": sizes}
    made.round()
    assert made.wants.too_dear == {"large": 1}


@pytest.mark.parametrize("known", [False, True])
def test_a_claim_that_is_listed_before_it_is_answered_is_not_one_too_many_u10(known: bool) -> None:
    """Its set-up, whose record nobody knows yet, and its claim are one node to be."""
    made = world(max_nodes=1)
    made.add_record("r1", pinged=False)
    flights = {"r1": Flight("setup", 0.0)} if known else {}
    made.flags |= {"boots_unclaimed": ("small",), "record_flights": flights}
    made.round()
    assert made.wants.too_many == known


@cases(("age", "booted"), {"in-time": (1800.0, []), "past": (1810.0, ["small"])})
def test_a_created_node_that_is_not_listed_serves_for_boot_fail_after_p4(
    age: float, booted: list[str]
) -> None:
    made = wanting(Job("j"))
    made.plan(expected={"r1": Expected("i-r1", "small", made.now - age)})
    assert made.booted == booted


@cases(
    ("life", "pinged", "rounds"),
    {
        "it-pinged": (1, True, [0, 1]),
        "a-former-life-pinged": (2, True, [0, 0]),
        "never-pinged": (1, False, [0, 0]),
    },
)
def test_a_created_node_that_pinged_serves_until_its_absence_is_settled_p4_c5(
    life: int, pinged: bool, rounds: list[int]
) -> None:
    """A restart forgets that it was listed: what ended since then must not serve anew."""
    made = unasked(max_nodes=2, visible_after=0.0)
    made.add_record("r1", quiet=5.0, pinged=pinged)
    created = Expected("i-r1", "small", made.now, incarnation_of("r1", life))
    made.flags["expected"] = {"r1": created}
    for booted in rounds:
        made.round()
        assert len(made.booted) == booted
        made.advance(60.0)


def test_a_created_node_that_pinged_serves_for_boot_fail_after_where_no_clock_is_known_p4() -> None:
    """Nobody can tell then when it was heard."""
    made = unasked(max_nodes=2, visible_after=0.0)
    made.add_record("r1", quiet=5.0)
    created = Expected("i-r1", "small", made.now, incarnation_of("r1"))
    made.flags["expected"] = {"r1": created}
    made.poll()
    made.history = replace(made.history, clock=None)
    made.plan()
    assert made.booted == []


HELD = {"holds": frozenset({"i-r1"})}
KILLED = {"kills": {"i-r1": Mark("ops", 0.0, incarnation=incarnation_of("r1"))}}
SET_UP = {"touched": {"i-r1": 2e6, "r1": 2e6}}
"""Its set-up ended after the newest listings, which show its node already, had begun."""


@cases(
    ("flags", "polls", "booted"),
    {
        "held": (HELD, 1, []),
        "held-and-its-boot-failed": (HELD, 20, ["small"]),
        "listed-before-its-create-was-answered": (SET_UP, 1, []),
        "killed": (KILLED, 1, ["small"]),
    },
)
def test_a_booting_node_is_on_its_way_to_its_job_whatever_keeps_us_from_touching_it_d16(
    flags: dict[str, Any], polls: int, booted: list[str]
) -> None:
    made = world(max_nodes=9)
    made.flags["demand"] = (Job("j"),)
    made.add_record("r1", pinged=False, claim=claim("r1", at=made.ago(10.0)))
    made.add_node("r1", age=5.0)
    for _ in range(polls):
        made.advance(100.0)
        made.poll()
    made.plan(**flags)
    assert made.booted == booted


def test_a_node_listed_before_its_record_and_before_its_create_was_answered_serves_its_job_p4() -> (
    None
):
    made = wanting(Job("j"))
    made.records = [cleaned("r1", at=made.ago(100.0))]
    made.add_node("r1", age=1.0)
    made.poll()
    created = Expected("i-r1", "small", made.now, incarnation_of("r1"))
    made.plan(expected={"r1": created}, **SET_UP)
    assert made.booted == []


# Draining.


def idle(count: int, **settings: Any) -> World:
    made = world(**settings)
    for number in range(count):
        made.add_record(f"r{number}")
        made.add_node(f"r{number}")
    made.poll()
    return made


def test_min_and_max_0_drain_only_what_is_idle_even_when_jobs_wait() -> None:
    made = idle(5, min_nodes=0, max_nodes=0)
    made.flags["demand"] = (Job("j", count=9),)
    for _ in range(3):
        made.advance(30.0)
        for number in range(5):
            made.ping(f"r{number}", WorkerState.BUSY if number < 2 else WorkerState.IDLE)
        made.poll()
        made.plan()
    assert made.destroyed == ["i-r2", "i-r3", "i-r4"]
    assert made.booted == []


def test_what_the_wishlist_wants_stays_and_the_longest_idle_go_first() -> None:
    made = idle(5, max_nodes=9)
    made.flags["demand"] = (Job("j", count=3),)
    for step in range(5):
        made.advance(30.0)
        for number in range(5):
            state = WorkerState.BUSY if number > 1 and step < 2 else WorkerState.IDLE
            made.ping(f"r{number}", state)
        made.poll()
        made.plan()
    assert made.destroyed == ["i-r0", "i-r1"]


def eight_idle() -> World:
    """Eight idle nodes for eight waiting jobs, in a pool that has room for as many again."""
    made = world(max_nodes=16, demand_polled=True)
    for number in range(8):
        made.add_record(f"r{number}", quiet=100.0)
        made.add_node(f"r{number}")
    made.flags |= {"demand": (Job("a", count=8),), "demand_at": made.now}
    made.poll()
    pinging(made, WorkerState.IDLE, 2)
    made.flags["demand_at"] = made.now
    made.plan()
    assert made.booted == []
    return made


@cases(
    ("back_s", "rounds"),
    {"whenever-they-took-them": (0.0, 3), "before-the-clock-was-set-back-t1": (7200.0, 1)},
)
def test_nodes_that_took_the_jobs_since_the_demand_poll_serve_it_until_the_next_n1(
    back_s: float, rounds: int
) -> None:
    """Their word overtakes the demand: booting for jobs that run already is eight too many.

    A busy word is from the future for hours where the clock was set back since, and each demand
    poll meanwhile is later all the same.
    """
    made = eight_idle()
    pinging(made, WorkerState.BUSY, rounds)
    assert made.booted == []
    made.store_step -= back_s
    pinging(made, WorkerState.BUSY)
    made.flags["demand_at"] = made.now
    pinging(made, WorkerState.BUSY)
    assert len(made.booted) == 8


def test_a_nodes_first_word_that_it_is_busy_serves_the_demand_it_was_booted_for_n1() -> None:
    made = world(max_nodes=4, demand_polled=True)
    made.flags |= {"demand": (Job("a"),), "demand_at": made.now}
    made.add_record("r1", pinged=False)
    made.add_node("r1", age=60.0)
    assert made.round().boots == ()
    pinging(made, WorkerState.BUSY, 2)
    assert made.booted == []
    made.flags["demand_at"] = made.now
    pinging(made, WorkerState.BUSY)
    assert made.booted == ["small"]


def test_of_two_sizes_that_come_min_nodes_needs_but_one_u10() -> None:
    made = world(max_nodes=9, min_nodes=1, demand_polled=True, sizes=(SMALL, LARGE))
    made.poll()
    flights = {uuid: Flight("setup", made.now, incarnation_of(uuid)) for uuid in ("r1", "r2")}
    sizes = {"r1": "small", "r2": "large"}
    plan = made.plan(record_flights=flights, claimed_sizes=sizes, demand=(), demand_at=1.0)
    assert sum(plan.wants.needless.values()) == 1
