"""Claims, creates and what the cloud refuses (SAFETY.md U, D6)."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from nodemanager.core.model.settings import CREATE_WITHIN_S, Settings
from nodemanager.core.model.world import CloudNode, Guarantee, Job, Record, WorkerState
from nodemanager.errors import (
    BadRequest,
    CapacityUnavailable,
    CloudError,
    NoFreeSlot,
    QuotaExceeded,
    StoreError,
    Throttled,
)
from tests.actors.conftest import Leaking, MakeRig
from tests.actors.rig import Rig
from tests.cases import cases
from tests.fakes import FakeCloud, FakeStore, TickingClock, answer, fail, first, lose
from tests.fakes.script import Step

pytestmark = pytest.mark.slow

HOUR = 3600.0


def claims(rig: Rig) -> int:
    return sum(record.claim is not None for record in rig.records)


def test_a_create_whose_answer_was_lost_is_found_by_tag_and_paired(make_rig: MakeRig) -> None:
    """U5: it is not repeated where the cloud knows no client tokens."""
    rig = make_rig(min_nodes=1, max_nodes=3)
    rig.cloud.takes_client_tokens = False
    rig.cloud.on("create", lose(CloudError("timeout")))
    rig.start()
    assert rig.lines("node.setup_failed", action="create", definite=False)

    rig.turn(300)

    assert rig.cloud.calls["create"] == 1
    assert len(rig.nodes) == 1
    assert rig.summary()["paired"] == 1


def test_an_unclear_create_is_repeated_with_its_token_until_it_is_answered(
    make_rig: MakeRig,
) -> None:
    """U9: the cloud did it at the first, and says so at the third."""
    rig = make_rig(min_nodes=1, max_nodes=3)
    rig.cloud.on("create", lose(CloudError("timeout")), fail(CloudError("HTTP 500")))
    rig.start()
    rig.turn(120)
    assert rig.cloud.calls["create"] == 3
    assert len(rig.nodes) == 1
    assert len(rig.lines("node.created")) == 1
    assert rig.summary()["paired"] == 1


def test_a_no_to_a_repeated_create_says_nothing_of_the_first_one(make_rig: MakeRig) -> None:
    """U6, U9: its claim stands, and the node that was made all the same pairs with it."""
    rig = make_rig(min_nodes=1, max_nodes=3)
    rig.cloud.on("create", lose(CloudError("timeout")), fail(QuotaExceeded("quota")))
    rig.start()
    rig.turn(300)
    assert not rig.lines("record.cleaned")
    assert len(rig.nodes) == 1
    assert rig.summary()["paired"] == 1


def test_a_lost_create_is_not_made_up_for_before_the_next_record_listing(
    make_rig: MakeRig,
) -> None:
    """Its claim stands for a node to be from the moment it is made (U6)."""
    rig = make_rig(min_nodes=1, max_nodes=3, cloudlist_poll_time=5, nodelist_poll_time=60)
    rig.cloud.takes_client_tokens = False
    rig.cloud.on("create", fail(CloudError("timeout")))
    rig.start()
    rig.turn(50)
    assert rig.cloud.calls["create"] == 1
    assert claims(rig) == 1


def test_a_claim_that_a_late_record_listing_lacks_still_stands_for_a_node_to_be(
    make_rig: MakeRig,
) -> None:
    """U6: a listing may show what was minutes ago."""
    rig = make_rig(min_nodes=1, max_nodes=3)
    rig.cloud.takes_client_tokens = False
    rig.cloud.on("create", fail(CloudError("timeout")))
    late = answer(lambda listed: replace(listed, items=()))
    rig.store.on("list_records", *[answer(lambda listed: listed)], *[late] * 3)
    rig.start()
    assert rig.cloud.calls["create"] == 1

    rig.turn(150)
    assert claims(rig) == 1
    assert rig.cloud.calls["create"] == 1


def test_a_claim_that_was_listed_stands_for_a_node_to_be_though_a_late_listing_lacks_it(
    make_rig: MakeRig,
) -> None:
    """U6, U9: nobody knows yet what became of its create, whatever an older listing shows."""
    rig = make_rig(min_nodes=1, max_nodes=3)
    rig.cloud.takes_client_tokens = False
    rig.cloud.on("create", fail(CloudError("timeout")))
    rig.cloud.always("find_by_record", fail(CloudError("timeout")))
    late = answer(
        lambda listed: replace(
            listed, items=tuple(Record(one.uuid, "0", pool=one.pool) for one in listed.items)
        )
    )
    rig.store.on("list_records", *[answer(lambda listed: listed)] * 2, *[late] * 6)
    rig.start()
    rig.turn(300)

    assert claims(rig) == 1
    assert rig.cloud.calls["create"] == 1


@pytest.mark.parametrize("repeats", [True, False], ids=["client-tokens", "none"])
def test_a_record_that_a_late_listing_shows_as_before_our_claim_is_not_judged_c8_r1(
    leaking: Leaking, repeats: bool
) -> None:
    """Nobody knows yet what became of its create, and the claim stands until C21 ends it."""
    rig, leaked = leaking(boot_fail_after=300, claim_expiry="on")
    rig.cloud.takes_client_tokens = repeats
    rig.start()
    rig.turn_until("record.cleaned", within=300)
    rig.turn(60)
    rig.cloud.always("create", fail(CloudError("timeout")))
    rig.apply(replace(rig.system.settings, min_nodes=1, action_timeout=120.0))
    assert rig.lines("record.claimed", record=leaked.uuid)
    late = answer(
        lambda listed: replace(
            listed,
            items=tuple(leaked if one.uuid == leaked.uuid else one for one in listed.items),
        )
    )
    rig.store.always("list_records", late)
    rig.forget_lines()

    rig.turn(500)
    assert not rig.lines("record.clean", record=leaked.uuid)
    assert claims(rig) == 1
    assert not rig.lines("record.claimed"), "it counts as a node to be"

    rig.store.always("list_records", None)
    rig.cloud.always("create", None)
    rig.turn_until("record.cleaned", within=600, record=leaked.uuid, reason="claim_expired")


@pytest.mark.parametrize(("expires", "spent"), [(True, 0), (False, 14)], ids=["on", "off"])
def test_failed_creates_leave_no_more_claims_than_max_nodes(
    make_rig: MakeRig, expires: bool, spent: int
) -> None:
    """U6: forty failed creates.

    Those of which a node may still come are `max_nodes` at most. A record that waits for
    node_stale_after is one more for each time in which the outcome of a create is known.
    """
    clock = TickingClock()
    rig = make_rig(
        cloud=FakeCloud(clock),
        store=FakeStore(clock, slots=range(1, 2001)),
        min_nodes=5,
        max_nodes=5,
        boot_fail_after=120,
        poll_time=60,
        settle=60,
        claim_expiry="on" if expires else "off",
    )
    known_after_s = Settings(pool="pool", boot_fail_after=120).create_known_after
    pending: list[int] = []
    most: list[int] = []

    def refuse_or_lose() -> None:
        made = [one.claim.at for one in rig.records if one.claim is not None]
        most.append(len(made))
        pending.append(sum(clock.wall() - at <= known_after_s for at in made))
        if len(most) % 2:
            raise BadRequest("no such image")
        raise CloudError("timeout")

    rig.cloud.always("create", first(refuse_or_lose))
    rig.start()
    while len(most) < 40:
        rig.turn(HOUR)
    assert max(pending) == 5
    assert max(most) <= 5 + spent
    assert claims(rig) <= 5 + spent
    assert len(rig.records) <= 10 + spent


@pytest.mark.parametrize(
    "error",
    [QuotaExceeded("quota"), CapacityUnavailable("none left"), BadRequest("no such image")],
    ids=["quota", "capacity", "bad-request"],
)
def test_a_definite_refusal_releases_its_claim_at_once(
    make_rig: MakeRig, error: CloudError
) -> None:
    rig = make_rig(min_nodes=1, max_nodes=3)
    rig.cloud.always("create", fail(error))
    rig.start()
    failed = rig.lines("node.setup_failed")[0]
    assert failed["definite"] is True
    assert rig.lines("record.cleaned", record=failed["record"], reason="create_refused")
    assert claims(rig) == 0
    assert rig.store.used_slots() == []


def test_a_quota_is_lowered_and_probed_later(make_rig: MakeRig) -> None:
    """D6."""
    rig = make_rig(min_nodes=6, max_nodes=6, boot_fail_after=600)
    quota = 3

    def refuse_above() -> None:
        if len(rig.nodes) >= quota:
            raise QuotaExceeded("instance limit")

    rig.cloud.always("create", first(refuse_above))
    rig.start()
    rig.turn(500)
    assert len(rig.nodes) == 3
    refused = len(rig.lines("node.setup_failed"))
    assert refused <= 4, "the first plan's own orders, and no more"
    assert "at_quota" in rig.reasons("node.boot_refused")

    rig.turn(300)
    assert len(rig.lines("node.setup_failed")) == refused + 1, "one probe"

    quota = 6
    rig.turn(3 * HOUR)
    assert len(rig.nodes) == 6


@cases(
    "steps",
    {
        "answered": (),
        "listed-before-it-is-answered": (lose(CloudError("timeout")), fail(CloudError("HTTP 500"))),
    },
)
def test_a_node_that_the_quota_allows_does_not_raise_it_d6(
    make_rig: MakeRig, steps: tuple[Step, ...]
) -> None:
    """It was made in place of one that went."""
    rig = make_rig(min_nodes=3, max_nodes=3, node_stale_after=300, boot_fail_after=7200)

    def refuse_above() -> None:
        if len(rig.nodes) >= 2:
            raise QuotaExceeded("instance limit")

    rig.cloud.always("create", first(refuse_above))
    rig.start()
    rig.turn(120)
    assert len(rig.nodes) == 2
    tried = rig.cloud.calls["create"]
    rig.cloud.vanish(rig.nodes[0].id)
    rig.cloud.on("create", *steps)
    rig.cloud.always("create", None)
    rig.turn(1800)
    assert len(rig.nodes) == 2
    assert rig.cloud.calls["create"] == tried + len(steps) + 1


def test_throttling_backs_every_call_off_for_as_long_as_was_asked(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=2, max_nodes=3, poll_stale_after=3000)
    # The second of the two creates is sent, or called off: that is the threads' race.
    rig.cloud.always("create", fail(Throttled("slow down", retry_after=500.0)))
    rig.start()
    rig.turn(10)
    rig.cloud.always("create", None)
    rig.forget_calls()

    rig.turn(480)
    assert sum(rig.cloud.calls.values()) == 0

    rig.turn(120)
    assert len(rig.nodes) == 2


def test_a_reused_record_that_someone_else_took_is_left_to_them(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=1, max_nodes=3)
    free = rig.store.add_cleaned(quiet_for=HOUR)
    theirs = {"pool": "other", "slot_number": 60, "hostname": "theirs"}
    rig.store.on("claim", first(lambda: rig.store.write(free.uuid, **theirs)))
    rig.start()
    assert isinstance(rig.lines("node.setup_failed", action="claim")[0]["error"], str)
    rig.turn(90)
    assert len(rig.nodes) == 1
    assert rig.lines("record.claimed")[0]["record"] != free.uuid
    assert rig.store.rows[free.uuid].hostname == "theirs"


@pytest.mark.parametrize("error", [NoFreeSlot("every slot is held"), StoreError("timeout")])
def test_a_store_that_makes_no_record_is_asked_once_a_round_and_nothing_is_booted(
    make_rig: MakeRig, error: StoreError
) -> None:
    rig = make_rig(min_nodes=1, max_nodes=3)
    rig.store.always("create", fail(error))
    rig.start()
    rig.turn(300)
    assert 0 < rig.store.calls["create"] <= 2 * rig.store.calls["list_records"]
    assert rig.cloud.calls["create"] == 0


def test_a_claim_that_took_too_long_is_renewed_before_the_create(make_rig: MakeRig) -> None:
    """U5: a create is sent within 60 s of its claim."""
    rig = make_rig(min_nodes=1, max_nodes=1)
    rig.store.on("create", first(lambda: rig.clock.advance(CREATE_WITHIN_S + 1)))
    rig.start()
    rig.turn(90)
    claim = rig.records[0].claim
    assert claim is not None
    node = rig.nodes[0]
    assert node.created_at is not None
    assert node.created_at - claim.at <= CREATE_WITHIN_S
    assert node.tags.incarnation == claim.incarnation


def test_an_order_that_waited_too_long_is_not_begun(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=8, max_nodes=8, max_creates=3)
    # Three workers, eight orders, and each create takes 40 s.
    rig.cloud.always("create", first(lambda: rig.clock.advance(40)))
    rig.start()
    assert rig.lines("node.setup_withdrawn", reason="order_expired")
    rig.turn(600)
    assert len(rig.nodes) == 8


def test_a_created_node_that_is_not_listed_yet_counts_as_live(make_rig: MakeRig) -> None:
    """P4."""
    rig = make_rig(min_nodes=1, max_nodes=4, boot_fail_after=600)
    rig.start()
    for machine in rig.cloud.machines.values():
        machine.listed = False
    rig.turn(500)
    assert rig.cloud.calls["create"] == 1


def test_the_wishlist_boots_what_the_jobs_need(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=0, max_nodes=5)
    rig.jobs = (Job("a", cores=1, count=2), Job("b", cores=4))
    rig.fleet.state = WorkerState.IDLE
    rig.start()
    rig.turn(60)
    assert sorted(str(node.size) for node in rig.nodes) == ["large", "small", "small"]
    assert {line["reason"] for line in rig.lines("node.setup_started")} == {"wanted"}


def test_slots_that_come_free_are_used_again_by_the_same_records(make_rig: MakeRig) -> None:
    clock = TickingClock()
    store = FakeStore(clock, slots=range(1, 3))
    rig = make_rig(cloud=FakeCloud(clock), store=store, min_nodes=2, max_nodes=2, poll_time=120)
    rig.start()
    rig.turn(HOUR)
    first_records = set(store.rows)
    rig.cloud.vanish(rig.nodes[0].id)
    rig.turn(4 * HOUR)
    assert set(store.rows) == first_records
    assert store.used_slots() == [1, 2]
    assert rig.summary()["paired"] == 2


@pytest.mark.parametrize("again", [False, True], ids=["new-record", "record-used-again"])
def test_a_node_has_one_name_everywhere_the_one_its_record_gives_it(
    make_rig: MakeRig, again: bool
) -> None:
    """The cloud's console, the host's prompt, the log and the status page say the same (P3)."""
    rig = make_rig(min_nodes=1, max_nodes=3)
    if again:
        rig.store.add(quiet_for=HOUR)
    rig.fleet.state = WorkerState.IDLE
    rig.start()
    rig.turn(120)
    (node,) = rig.nodes
    (record,) = rig.records
    assert node.name == record.hostname == "compute1"
    (claimed,), (created,) = rig.lines("record.claimed"), rig.lines("node.created")
    assert claimed["host"] == created["host"] == created["name"] == "compute1"


def test_where_the_store_names_no_host_the_node_is_named_by_its_life(make_rig: MakeRig) -> None:
    """Short and plain enough for every cloud: GCE takes 63 of a-z, 0-9 and dashes (P11)."""
    rig = make_rig(min_nodes=1)
    rig.store.on("create", answer(lambda record: replace(record, hostname=None)))
    rig.start()
    rig.turn(60)
    (node,) = rig.nodes
    assert re.fullmatch(r"compute-[0-9a-f]{12}", node.name)


def test_a_wrong_image_is_told_before_anything_is_claimed_or_created_n32(make_rig: MakeRig) -> None:
    """And asked for ever more rarely: at most once an hour in the end."""
    rig = make_rig(min_nodes=2, max_nodes=4, poll_time=240, max_poll_time=300)
    rig.cloud.always("check_image", fail(BadRequest("[Cloud Create] image_id = ami-0: none")))
    rig.start()
    rig.turn(10 * HOUR)

    assert not rig.cloud.calls["create"]
    assert not rig.records
    failed = rig.lines("node.setup_failed")
    assert {line["action"] for line in failed} == {"image"}
    assert "image_id = ami-0" in str(failed[0]["error"])
    assert len(failed) < 40


def test_once_the_image_is_there_nodes_are_booted_n32(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=1, max_nodes=4, max_poll_time=300)
    rig.cloud.on("check_image", fail(BadRequest("no such image")), fail(CloudError("timeout")))
    rig.start()
    rig.turn(600)
    assert len(rig.nodes) == 1


def unseen(rig: Rig) -> CloudNode:
    """Boots a node that nobody wants any more, that never pings and that no listing shows."""
    rig.jobs = (Job("job"),)
    rig.fleet.mute = True
    rig.start()
    rig.turn(1)
    (node,) = rig.nodes
    rig.cloud.machines[node.id].listed = False
    rig.jobs = ()
    return node


def test_a_created_node_that_nobody_sees_or_hears_is_a_failed_boot(make_rig: MakeRig) -> None:
    """D13: the cloud, asked by id, has it. Its record is freed as C20 says."""
    rig = make_rig(min_nodes=0, max_nodes=2, boot_fail_after=600)
    node = unseen(rig)
    rig.turn(2 * HOUR)
    assert rig.nodes == []
    (gone,) = rig.lines("node.gone")
    assert (gone["node"], gone["reason"]) == (node.id, "boot_failed")
    (cleaned,) = rig.lines("record.cleaned")
    assert (cleaned["record"], cleaned["reason"]) == (node.tags.record, "after_shutdown")
    assert rig.cloud.calls["destroy"] == 1


def hidden(rig: Rig, node: CloudNode) -> CloudNode:
    rig.cloud.machines[node.id].listed = False
    return node


def test_a_failed_boot_that_nobody_sees_is_found_by_its_tag_after_a_restart(
    make_rig: MakeRig, clock: TickingClock
) -> None:
    """D13: where the store can't compare, nothing but its tag says whose the node is then."""
    store = FakeStore(clock, guarantee=Guarantee.FENCED)
    rig = make_rig(cloud=FakeCloud(clock), store=store, max_nodes=2, boot_fail_after=600)
    node = unseen(rig)
    rig.kill()
    rig.start()
    rig.turn(HOUR)
    assert rig.nodes == []
    assert rig.lines("node.gone", node=node.id, reason="boot_failed")


def test_a_failed_boot_that_nobody_sees_is_asked_for_by_the_id_that_the_create_answered(
    make_rig: MakeRig, clock: TickingClock
) -> None:
    """D13: where no claim names its node, it is remembered for as long as its claim waits."""
    store = FakeStore(clock, guarantee=Guarantee.FENCED)
    rig = make_rig(cloud=FakeCloud(clock), store=store, max_nodes=2, boot_fail_after=600)
    rig.cloud.always("find_by_record", answer(lambda nodes: ()))
    rig.cloud.on("create", answer(lambda node: hidden(rig, node)))
    rig.jobs = (Job("job"),)
    rig.fleet.mute = True
    rig.start()
    rig.jobs = ()
    rig.turn(HOUR)
    assert rig.nodes == []


def test_while_a_failed_boot_that_nobody_sees_is_held_nothing_ends_it(make_rig: MakeRig) -> None:
    """C9, D13. Once it is released it goes."""
    rig = make_rig(min_nodes=0, max_nodes=2, boot_fail_after=600)
    node = unseen(rig)
    rig.cloud.change(node.id, held=True)
    rig.turn(2 * HOUR)
    assert len(rig.nodes) == 1
    rig.cloud.change(node.id, held=False)
    rig.turn(HOUR)
    assert rig.nodes == []
