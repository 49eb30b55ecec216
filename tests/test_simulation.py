"""The promise holds in simulated worlds where all that can go wrong does."""

from __future__ import annotations

import string
from dataclasses import dataclass, replace

import pytest

from nodemanager.core.model.reasons import Reason
from tests.cases import cases
from tests.sampling import first, newest_of_each
from tests.simulation import census
from tests.simulation.mutation import SEEDS
from tests.simulation.run import play, run
from tests.simulation.scenario import Storm, draw
from tests.simulation.shrink import shrink, told

pytestmark = pytest.mark.slow

SHARES = 8
"""The seeds are played in so many tests, so that each ends in its time."""
OFTEN = 1
"""`make test` plays so many of these shares, the first; `make proof NAME=worlds` plays all."""
MORE_SEEDS = 60


FOUND = [
    pytest.param(991000079, "U5", id="a-claim-that-a-clock-set-back-made-young"),
    pytest.param(88000055, "SAFETY", id="a-young-twin-of-a-node-that-was-destroyed"),
    pytest.param(240001145, "SAFETY", id="a-young-twin-of-a-node-that-never-pinged"),
    pytest.param(121001211, "PROGRESS", id="an-unlisted-node-denied-until-it-lost-its-claim"),
    pytest.param(140001145, "PROGRESS", id="a-clean-while-the-stores-clock-was-ahead"),
    pytest.param(150001129, "MAX", id="a-ping-that-late-record-listings-took-back"),
    pytest.param(220000204, "D9", id="four-nodes-turned-silent-and-two-were-made-since"),
    pytest.param(230000591, "B3", id="a-clock-set-back-while-the-manager-rebooted"),
    pytest.param(260000276, "D9", id="a-wrong-listings-node-was-never-made"),
    pytest.param(310001454, "PROGRESS", id="nodes-of-before-us-that-pair-with-nothing"),
    pytest.param(277000037, "MAX", id="three-listings-since-a-node-was-made-lack-it"),
    pytest.param(260008352, "D10", id="a-complete-listing-before-forty-partial-ones"),
    pytest.param(250000152, "PROGRESS", id="a-node-that-ended-and-a-clock-set-back-at-restart"),
    pytest.param(210000830, "C10", id="a-refused-creates-fence-soon-after-a-clean"),
    pytest.param(180000595, "C10", id="a-fence-that-arrived-twice"),
    pytest.param(300006708, "C3", id="a-clock-set-back-and-right-again-that-a-killed-run-measured"),
    pytest.param(230000080, "LIVENESS", id="a-life-given-back-late-finds-its-slot-taken"),
    pytest.param(260000209, "LIVENESS", id="a-clock-set-back-over-a-boot-and-right-again"),
    pytest.param(270008596, "MAX", id="an-operator-closed-the-breaker-on-lost-records"),
    pytest.param(280000192, "MAX", id="a-listing-from-before-the-node-was-made"),
    pytest.param(320000834, "D9", id="a-node-out-of-sight-since-before-another-was-down"),
    pytest.param(320000267, "PROOF", id="a-journal-lost-while-its-writer-was-paused"),
    pytest.param(320000532, "PROGRESS", id="a-refused-creates-claim-served-behind-a-backlog"),
    pytest.param(410000032, "PROGRESS", id="seven-silent-nodes-that-go-one-by-one"),
    pytest.param(400000291, "U8", id="killed-between-the-breaker-and-the-line"),
    pytest.param(380000910, "PROGRESS", id="a-release-that-timed-out-and-landed"),
    pytest.param(370003058, "PROGRESS", id="a-drained-node-that-a-destroy-did-not-end"),
    pytest.param(360004329, "PROOF", id="a-clean-of-a-manager-whose-lease-was-taken"),
    pytest.param(410002071, "U3", id="a-claim-without-the-lease-overtakes-another"),
    pytest.param(432001295, "PROOF", id="a-first-ping-that-a-set-back-clock-caught-up-with"),
    pytest.param(433007037, "WORK", id="a-twin-whose-tags-an-operator-took"),
    pytest.param(436000146, "PROOF", id="a-word-made-fresh-by-a-clock-set-back-behind-a-fence"),
    pytest.param(436000713, "PROGRESS", id="a-create-whose-claim-a-former-run-had-cleaned"),
    pytest.param(438001474, "L3", id="a-short-listing-that-lacks-every-other-pool"),
    pytest.param(438001607, "C11", id="a-node-made-after-its-claim-had-expired-and-the-look"),
    pytest.param(435003444, "D9", id="who-ended-since-was-one-of-those-who-turned"),
    pytest.param(432004539, "U6", id="claims-called-gone-with-the-breaker"),
    pytest.param(440002475, "D7", id="twins-of-a-free-record-that-may-name-either"),
    pytest.param(440003884, "D9", id="who-lost-their-records-and-an-operator-reset-it"),
    pytest.param(441000992, "MAX", id="a-late-record-list-and-an-empty-cloud-list"),
    pytest.param(442002572, "MAX", id="ordered-before-a-longer-settle-was-loaded"),
    pytest.param(444001486, "WORK", id="a-late-list-shows-a-node-that-we-destroyed"),
    pytest.param(445000258, "D4", id="a-denied-node-listed-before-its-slow-destroy"),
    pytest.param(449000561, "D9", id="who-fell-silent-out-of-sight-before-a-restart"),
    pytest.param(454000627, "D14", id="an-idle-large-node-serves-a-small-job"),
    pytest.param(450000463, "U10", id="a-former-run-destroyed-whom-the-cloud-denied"),
    pytest.param(450000054, "D9", id="a-late-list-shows-two-that-we-destroyed"),
    pytest.param(445000741, "O4", id="killed-between-a-resume-and-its-answer"),
    pytest.param(446001237, "PROGRESS", id="no-job-waits-and-a-spare-node-is-idle"),
    pytest.param(440002644, "WORK", id="an-untagged-node-uses-up-the-price"),
    pytest.param(438017743, "D9", id="two-of-six-said-idle-and-fell-silent-together"),
    pytest.param(438018222, "D9", id="two-of-six-silent-and-the-first-was-replaced"),
    pytest.param(438012595, "MAX", id="a-pause-between-two-listings-that-lack-who-pings"),
    pytest.param(438016104, "MAX", id="a-pause-after-a-list-truncated-for-good"),
    pytest.param(455004359, "PROGRESS", id="a-clean-written-before-a-kill-and-found-after-it"),
    pytest.param(457000453, "WORK", id="one-too-many-once-those-for-its-jobs-were-made"),
    pytest.param(460000510, "D14", id="the-destroy-of-a-spare-node-never-happens"),
    pytest.param(460002564, "PROGRESS", id="a-freed-claim-and-its-create-over-a-restart"),
    pytest.param(461002910, "C0", id="another-pool-comes-between-a-listing-and-its-plan"),
    pytest.param(463000132, "B3", id="a-clean-lands-after-the-journal-with-it-was-lost"),
    pytest.param(465001823, "D15", id="a-node-with-a-twin-got-the-former-image"),
    pytest.param(468001063, "MAX", id="a-late-node-that-was-denied-before-it-came"),
    pytest.param(470000692, "C12", id="a-late-node-behind-the-fence-of-a-clean-in-doubt"),
    pytest.param(472001120, "D9", id="as-silent-as-when-its-operator-looked-and-shown-again"),
    pytest.param(473002239, "WORK", id="one-too-many-by-twins-of-those-for-its-jobs"),
    pytest.param(473000125, "D9", id="a-slow-destroy-comes-as-its-flight-runs-out"),
    pytest.param(475007766, "D15", id="replaced-in-the-plan-that-lets-another-go"),
    pytest.param(478002568, "C20", id="one-from-before-us-ended-by-itself-and-others-live"),
    pytest.param(479010737, "PROGRESS", id="another-pool-takes-each-slot-that-comes-free"),
    pytest.param(481011829, "L3", id="a-reset-that-the-journal-did-not-take"),
    pytest.param(481018627, "D9", id="two-fall-silent-while-four-others-are-out-of-sight"),
    pytest.param(481019700, "D9", id="one-on-its-way-out-is-out-of-sight-for-a-while"),
    pytest.param(481017248, "U2", id="a-hold-while-a-late-claim-is-on-its-way"),
    pytest.param(474000149, "C11", id="a-late-fence-after-a-hung-ping-took-the-first-down"),
    pytest.param(465000342, "D9", id="heard-again-before-its-slow-destroy"),
    pytest.param(990100027, "U6", id="a-living-node-that-the-cloud-denied-before-its-ping"),
    pytest.param(992000639, "D9", id="one-that-fell-silent-out-of-sight-long-before-another"),
    pytest.param(992000768, "B3", id="a-ping-from-before-a-jump-that-is-listed-after-it"),
    pytest.param(
        992000810, "PROGRESS", id="an-operators-drain-outlives-the-machine-that-it-was-of"
    ),
    pytest.param(992002678, "D4", id="a-run-ended-between-its-ledger-and-its-destroy"),
    pytest.param(992002493, "B3", id="a-run-closed-a-breaker-and-ended-before-its-next-plan"),
    pytest.param(992003472, "B3", id="two-denials-of-which-the-first-took-long"),
    pytest.param(992010177, "PROGRESS", id="a-full-disk-forgets-nothing-in-the-run-that-counts"),
    pytest.param(992010290, "B3", id="a-run-that-can-not-read-its-journal-yet"),
    pytest.param(992010299, "L4", id="a-node-that-is-listed-three-times"),
    pytest.param(992010057, "PROGRESS", id="seats-whose-price-pays-for-one-node-take-turns"),
    pytest.param(992010192, "PROGRESS", id="a-job-waits-for-a-name-while-another-node-is-idle"),
    pytest.param(992011187, "PROGRESS", id="a-start-that-is-told-while-nobody-has-the-name"),
    pytest.param(997500000, "PROGRESS", id="a-node-without-a-name-fills-max-nodes"),
    pytest.param(996003891, "D16", id="one-that-joined-between-two-answers-and-went-down"),
    pytest.param(999000478, "D1", id="a-late-list-shows-a-node-as-before-its-start"),
    pytest.param(999000934, "O5", id="a-cordon-and-its-end-in-one-burst"),
    pytest.param(999002997, "U14", id="a-name-is-wanted-again-before-its-end-is-told"),
    pytest.param(981010710, "B3", id="a-no-to-a-question-from-before-the-sign-of-life"),
    pytest.param(992011225, "D17", id="a-node-that-joined-unseen-and-was-lost-again"),
    pytest.param(993200085, "D16", id="nodes-that-a-late-listing-shows-silent"),
    pytest.param(992000243, "D17", id="a-late-order-calls-the-next-node-of-the-name-gone"),
    pytest.param(990200839, "WORK", id="a-name-given-anew-while-its-node-works-on"),
    pytest.param(990403084, "WORK", id="a-name-given-to-one-that-never-joins"),
    pytest.param(1005095100, "WORK", id="an-idle-word-from-the-future"),
    pytest.param(991700176, "WORK", id="an-adopted-machine-from-before-on-a-free-seat"),
    pytest.param(993200298, "B5", id="nodes-that-end-while-their-ids-are-written"),
    pytest.param(991100307, "B3", id="no-fence-to-lift-while-each-write-times-out"),
    pytest.param(
        990301138, "LIVENESS", id="a-machine-without-a-record-is-up-under-the-next-ones-name"
    ),
    pytest.param(991200047, "D16", id="a-hold-on-a-node-on-its-way-to-its-job"),
    pytest.param(995002008, "B3", id="one-listed-as-ended-and-as-running"),
    pytest.param(995002687, "D9", id="two-of-four-in-sight-while-three-are-out-of-it"),
    pytest.param(996000545, "D9", id="an-adopted-one-that-its-old-record-names-works-on"),
    pytest.param(997200170, "D1", id="stopped-and-started-since-it-was-listed"),
    pytest.param(996004095, "D1", id="silent-since-it-was-stopped-and-started-just-now"),
    pytest.param(996003422, "D9", id="two-of-three-and-one-in-the-place-of-the-first"),
    pytest.param(999001213, "D16", id="no-answer-of-the-scheduler-since-its-first-ping"),
    pytest.param(991300602, "D9", id="one-of-two-down-nodes-young-again-by-a-clock-set-ahead"),
    pytest.param(999002053, "D9", id="says-down-in-its-boot-grace-again-by-a-jump"),
    pytest.param(999001911, "B3", id="silent-as-when-its-operator-looked-after-a-restart"),
    pytest.param(995002215, "D15", id="late-claims-that-no-create-follows-fill-min-nodes"),
    pytest.param(995002480, "D15", id="a-record-on-slot-0-leaves-no-slot-for-a-replacement"),
    pytest.param(1005040153, "O5", id="a-cordoned-node-loses-its-tags"),
    pytest.param(1005051485, "D9", id="a-silent-node-comes-back-and-says-down"),
    pytest.param(1005100418, "B5", id="a-node-that-ends-twice-on-late-lists"),
    pytest.param(1005091531, "U14", id="a-run-takes-up-the-end-of-a-machine-of-a-wanted-name"),
    pytest.param(1005072585, "U14", id="a-machine-ends-once-its-name-is-wanted-again"),
    pytest.param(1005075242, "U6", id="one-of-two-nodes-of-a-create-was-taken-back"),
    pytest.param(1005042291, "D9", id="one-that-lived-on-while-the-store-was-down"),
    pytest.param(1005042276, "D15", id="nodes-of-two-sizes-are-replaced-at-one-moment"),
    pytest.param(1005050184, "B3", id="a-breaker-from-before-the-journal-could-be-read"),
    pytest.param(1005030019, "D15", id="a-spot-node-in-whose-place-min-nodes-pays-for-none"),
    pytest.param(78000658, "WORK", id="a-name-that-was-given-again-and-a-lost-journal"),
    pytest.param(78000923, "U9", id="a-node-that-ended-before-the-journal-could-be-read"),
]
"""The worlds that once broke a rule; of each kind of rule `make test` plays the last."""


def kind_of(rule: str) -> str:
    """Its letter; for what no number stands behind, its monitor's name."""
    return rule.rstrip(string.digits)


@dataclass(frozen=True)
class Played:
    """What several tests here ask of one run."""

    rule: str | None
    """The first that it broke."""
    broken: frozenset[str]
    reasons: frozenset[Reason]


PLAYED: dict[int, Played] = {}


def played(seed: int) -> Played:
    """That seed's run, which is played once for all tests."""
    if seed not in PLAYED:
        there: list[census.Census] = []
        result = run(seed, watch=lambda world: there.append(census.Census(world)))
        rule = result.violations[0].rule if result.failed else None
        PLAYED[seed] = Played(rule, frozenset(result.broken), frozenset(there[0].reasons))
    return PLAYED[seed]


@pytest.mark.parametrize("share", first(OFTEN, range(SHARES)))
def test_no_seed_breaks_a_rule(share: int) -> None:
    for seed in range(SEEDS * share // SHARES, SEEDS * (share + 1) // SHARES):
        rule = played(seed).rule
        if rule is not None:
            pytest.fail(told(*shrink(seed, rule)))


def test_every_reason_was_given_in_some_world() -> None:
    """F6: what no world shows is listed with why, or is deleted with its documentation."""
    shown = frozenset[Reason]().union(*census.known().values())
    assert shown == frozenset(Reason) - census.NEVER.keys(), "run `make proof NAME=census`"


@pytest.mark.proof
def test_every_reason_is_given_in_some_world() -> None:
    wanted = frozenset(Reason) - census.NEVER.keys()
    seen = frozenset[Reason]().union(*(one.reasons for one in PLAYED.values()))
    known = census.known()
    # What changed since the last census changes which seed shows what.
    for seed in (*known, *range(MORE_SEEDS)):
        if not known.get(seed, wanted) <= seen:
            seen |= played(seed).reasons
    missing = sorted(wanted - seen)
    assert not missing, "run `python -m tests.simulation.census`"


@pytest.mark.parametrize(
    ("seed", "rule"), newest_of_each(FOUND, lambda row: kind_of(row.values[1]))
)
def test_what_once_broke_a_rule_does_not_any_more(seed: int, rule: str) -> None:
    assert run(seed).violations == [], f"once it broke {rule}"


@pytest.mark.parametrize("seed", [120, 125, 133, 147])
def test_worlds_in_which_more_or_fewer_run_at_once_break_no_rule_u13(seed: int) -> None:
    assert draw(seed).shape.setups in (1, 4, 16)
    assert run(seed).violations == []


def test_a_first_ping_that_a_set_back_clock_just_caught_up_with_accuses_no_clean() -> None:
    kinds = ("the store's clock steps", "a node dies unseen", "manager restarted by systemd")
    assert run(104, storm=Storm(kinds, count=7)).violations == []


def test_a_step_of_the_stores_clock_over_a_boot_is_seen_though_our_clock_stepped_as_far() -> None:
    kinds = (
        "a node dies unseen",
        "all nodes die",
        "the store's clock steps",
        "the store's clock steps",
        "manager's machine reboots",
        "the manager's clock steps",
        "the store's clock drifts",
        "a node reboots",
    )
    assert run(312000010, storm=Storm(kinds, count=14)).violations == []


@cases(
    "seed",
    {
        "a-listing-without-them-since-the-order": 312000144,
        "an-unlisted-node-known-by-an-answer": 312000021,
    },
)
def test_a_node_whose_tags_an_operator_took_goes_only_by_what_the_manager_had_been_shown(
    seed: int,
) -> None:
    kinds = (
        "a created node is never listed and never boots",
        "a node dies unseen",
        "an operator edits a record",
        "an operator edits a record",
        "an operator takes a node's tags",
        "an operator deletes a record",
    )
    assert run(seed, storm=Storm(kinds, breaks="A5", count=10)).violations == []


def test_a_node_without_tags_that_shares_its_address_with_another_keeps_no_place_for_ever() -> None:
    """P6: each of their pings takes the address from the other's record, and is its first again."""
    kinds = (
        "an operator takes a node's tags",
        "an operator edits a record",
        "store writes fail",
        "store replies lost",
        "manager killed at a call",
    )
    scenario = draw(155, Storm(kinds, breaks="A5", count=16))
    shape = scenario.shape
    # The nodes name no instance: without their tags nothing pairs them.
    shape = replace(
        shape,
        habits=replace(shape.habits, tells_instance=False),
        traits=replace(shape.traits, ids_unique=False),
        pools=tuple((replace(pool, ids_unique=False), poll_s) for pool, poll_s in shape.pools),
    )
    assert play(replace(scenario, shape=shape)).violations == []


def test_a_claim_whose_pings_an_operator_took_counts_once_a_listing_shows_them_gone() -> None:
    kinds = (
        "a node dies unseen",
        "an operator edits a record",
        "an operator edits a record",
        "an operator takes a node's tags",
        "an operator deletes a record",
        "creates happen twice",
        "manager's machine reboots",
        "the store's clock steps",
        "cloud list truncated for good",
    )
    assert run(312000080, storm=Storm(kinds, breaks="A5", count=14)).violations == []


def test_a_lost_journal_that_an_operators_kill_reads_first_has_the_destroy_that_a_clean_needs() -> (
    None
):
    """R1, C20: the loss is told to one reader only, and the open destroy was not written again."""
    kinds = (*("destroys slow",) * 2, *("the journal is lost",) * 3, "manager restarted by systemd")
    assert run(330000001, storm=Storm(kinds, count=14)).violations == []


def test_a_node_that_was_cordoned_right_before_a_listing_showed_it_stays() -> None:
    """O5: the order is of the node that the next plan knows."""
    kinds = ("an operator cordons nodes", "a node is stopped", "a node freezes")
    assert run(2, storm=Storm(kinds, count=30)).violations == []


def test_one_seed_replays_one_run_exactly() -> None:
    assert run(7).digest == run(7).digest


def test_every_assumption_is_kept_in_most_runs_and_broken_in_some() -> None:
    broken = [played(seed).broken for seed in range(OFTEN * SEEDS // SHARES)]
    assert len(broken) // 2 < sum(not one for one in broken) < len(broken)
