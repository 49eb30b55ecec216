"""What nodes leave behind, on each cloud that has several owners of things: it is released once its
node has ended, and nothing else ever is (D4).

The order of the calls is one for all clouds (nodemanager/cloud/leftovers.py); what is held here is
that each reads its own answers so. test_cloud_contract.py has the way that all goes well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nodemanager.cloud.api import CloudDriver
from nodemanager.cloud.tags import HOLD_TAG, INCARNATION_TAG, POOL_TAG
from nodemanager.core.model.world import CloudNode, CloudState, Leftover, LeftoverKind, Outcome
from nodemanager.core.plan import leftovers
from nodemanager.core.plan.leftovers import Ledger
from nodemanager.errors import CloudError, LeftAlone, Throttled, Unauthorized
from tests.cases import cases
from tests.cloud.orders import POOL
from tests.cloud.site import CloudSite

pytestmark = pytest.mark.socket

OTHERS: tuple[dict[str, str], ...] = (
    {POOL_TAG: POOL},
    {POOL_TAG: "red", INCARNATION_TAG: "f" * 32},
    {INCARNATION_TAG: "f" * 32},
    {},
)
"""Tags of what is not ours: the pool alone, another pool's, an incarnation alone, none."""
HELD = {POOL_TAG: POOL, INCARNATION_TAG: "f" * 32, HOLD_TAG: "yes"}


def made(site: CloudSite) -> CloudNode:
    return site.driver.create(site.order())


def ended_with_volume(site: CloudSite) -> Leftover:
    """The volume that a node of ours left behind, as the ledger has it."""
    node = made(site)
    volume = site.add_volume(node, site.tags(node))
    site.end(node.id)
    return Leftover(LeftoverKind.VOLUME, volume, node.id)


def found(driver: CloudDriver) -> set[str]:
    return {one.id for one in driver.find_leftovers()}


def test_an_operator_s_own_things_are_never_pinned_found_or_released(site: CloudSite) -> None:
    node = made(site)
    things = [thing for tags in OTHERS[:2] for thing in site.pin(node, tags)]
    for tags in (*OTHERS[2:], HELD):
        volume = site.add_volume(node, tags)
        things.append(Leftover(LeftoverKind.VOLUME, volume, node.id))
    theirs = {thing.id for thing in things}
    assert theirs.isdisjoint({one.id for one in site.driver.pins(node.id)})
    site.end(node.id)
    assert site.driver.find_leftovers() == ()
    for thing in things:
        with pytest.raises(LeftAlone):
            site.driver.release(thing)
    assert site.sent() == 0


@cases(
    ("tags", "why"),
    {
        "taken-off": ({}, "of pool blue any more"),
        "given-away": ({POOL_TAG: "red", INCARNATION_TAG: "f" * 32}, "of pool blue"),
        "on-hold": (HELD, "held"),
    },
)
def test_an_operator_may_take_a_thing_out_of_our_hands(
    site: CloudSite, tags: dict[str, str], why: str
) -> None:
    volume = ended_with_volume(site)
    assert found(site.driver) == {volume.id}
    site.set_tags(volume.id, tags)
    assert site.driver.find_leftovers() == ()
    with pytest.raises(LeftAlone, match=why) as caught:
        site.driver.release(volume)
    assert caught.value.definite
    assert site.sent() == 0


def test_nothing_of_a_node_that_lives_is_released(site: CloudSite) -> None:
    """By the node's id, by the incarnation alone, and where it is taken from the node."""
    node = made(site)
    things = site.pin(node, site.tags(node))
    assert {one.id for one in things} <= {one.id for one in site.driver.pins(node.id)}
    loose = site.add_volume(node, site.tags(node))
    site.detach(loose, node.id)
    things += [Leftover(LeftoverKind.VOLUME, loose, owner) for owner in (node.id, "")]
    states = site.states()
    for live in (CloudState.PENDING, CloudState.RUNNING, CloudState.STOPPED):
        states[live](node.id)
        assert site.driver.find_leftovers() == ()
        for thing in things:
            with pytest.raises(LeftAlone, match="belongs to a node that is"):
                site.driver.release(thing)
    assert site.sent() == 0


def test_the_things_of_a_node_that_is_being_deleted_wait(site: CloudSite) -> None:
    node = made(site)
    things = site.pin(node, site.tags(node))
    site.states()[CloudState.STOPPING](node.id)
    assert site.driver.find_leftovers() == ()
    assert {site.driver.release(thing) for thing in things} == {Outcome.ACCEPTED}
    assert site.sent() == 0


def test_what_another_node_uses_by_now_stays(site: CloudSite) -> None:
    volume, other = ended_with_volume(site), made(site)
    site.attach(volume.id, other.id)
    assert site.driver.find_leftovers() == ()
    with pytest.raises(LeftAlone, match="is used by"):
        site.driver.release(volume)
    assert site.sent() == 0


def test_a_thing_of_nobody_known_is_left_alone(site: CloudSite) -> None:
    """Neither the ledger nor a tag says which node it was made for."""
    volume = ended_with_volume(site)
    site.set_tags(volume.id, {})
    with pytest.raises(LeftAlone, match=r"is unknown|nova did not make it"):
        site.driver.release(Leftover(volume.kind, volume.id, "", tagged=False))
    assert site.sent() == 0


def test_all_pages_are_followed_and_a_release_is_an_order_once_and_then_a_question(
    site: CloudSite,
) -> None:
    node = made(site)
    volumes = {site.add_volume(node, site.tags(node)) for _ in range(5)}
    site.end(node.id)
    assert found(site.driver) == volumes
    # The node is asked for by the incarnation, where it is not known any more.
    for volume in volumes:
        thing = Leftover(LeftoverKind.VOLUME, volume, "")
        assert site.driver.release(thing) is Outcome.ACCEPTED
        assert [site.driver.release(thing) for _ in range(2)] == [Outcome.GONE] * 2
    assert site.sent() == 5


@pytest.mark.parametrize("site", ["ec2", "azure", "openstack"], indirect=True)
def test_an_address_waits_for_the_interface_that_bears_it(site: CloudSite) -> None:
    node = made(site)
    _volume, *borne = site.pin(node, site.tags(node))
    interface, address = sorted(borne, key=lambda one: one.order)
    site.end(node.id)
    assert site.driver.release(address) is Outcome.ACCEPTED
    assert site.sent() == 0
    for thing in (interface, address):
        assert [site.driver.release(thing) for _ in range(2)] == [Outcome.ACCEPTED, Outcome.GONE]
    assert site.sent() == 2


def test_a_delete_that_is_refused_is_a_typed_error_or_a_thing_in_use_or_gone(
    site: CloudSite,
) -> None:
    volume = ended_with_volume(site)
    cases: list[tuple[Callable[[], Any], type[CloudError] | Outcome]] = [
        (site.failed, CloudError),
        (site.throttled, Throttled),
        (site.forbidden, Unauthorized),
        *((refusal, Outcome.ACCEPTED) for refusal in site.in_use),
        (site.gone, Outcome.GONE),
    ]
    for refusal, meaning in cases:
        site.server.fault(site.deletes[0], before=refusal)
        came = came_to(site.driver, volume)
        if isinstance(meaning, Outcome):
            assert came is meaning, refusal()
            continue
        assert isinstance(came, CloudError), refusal()
        assert (type(came), came.definite) == (meaning, meaning is not CloudError)
        assert came.retry_after == (7.0 if meaning is Throttled else None)
    assert site.sent() == len(cases)
    assert found(site.driver) == {volume.id}


@pytest.mark.parametrize("how", ["failed", "lost"])
def test_releases_that_fail_twice_are_tried_until_all_is_gone(site: CloudSite, how: str) -> None:
    node = made(site)
    things = site.pin(node, site.tags(node))
    site.end(node.id)
    for action in site.deletes:
        fault = {"before": site.failed} if how == "failed" else {"after": site.cut}
        site.server.fault(action, times=2, **fault)
    ordered = sorted(things, key=lambda one: one.order)
    ledger = leftovers.ended(leftovers.entered(Ledger(), ordered, 0.0), node.id, 0.0)
    ended: list[str] = []
    for _ in range(20):
        now = leftovers.next_due(ledger)
        if now is None:
            break
        for entry in leftovers.due(ledger, now):
            came = came_to(site.driver, entry.leftover)
            error = str(came) if isinstance(came, CloudError) else None
            outcome = came if isinstance(came, Outcome) else Outcome.UNKNOWN
            ledger, told = leftovers.after(ledger, entry.leftover, outcome, now, error=error)
            if told.state is leftovers.LedgerState.RELEASED:
                ended.append(told.leftover.id)
    assert len(ledger) == 0
    assert ended == [one.id for one in ordered]
    assert site.driver.find_leftovers() == ()


def came_to(driver: CloudDriver, leftover: Leftover) -> Outcome | CloudError:
    """One try, as the actor that releases makes it."""
    try:
        return driver.release(leftover)
    except CloudError as error:
        return error


def test_an_answer_that_is_not_whole_is_never_nothing_l1(site: CloudSite) -> None:
    volume = ended_with_volume(site)
    failures: list[tuple[str, dict[str, Any]]] = [
        (action, how)
        for action in site.listings
        for how in ({"before": site.failed}, {"after": site.cut}, {"before": site.forbidden})
    ]
    for action, how in [*failures, *site.unlisted]:
        site.server.fault(action, **how)
        with pytest.raises(CloudError):
            site.driver.find_leftovers()
        assert site.server.fault_for(action) is None, (action, how)
    assert found(site.driver) == {volume.id}


def test_a_node_whose_tags_can_t_be_read_might_own_anything(site: CloudSite) -> None:
    volume = ended_with_volume(site)
    made(site)
    action, how = site.no_owner
    site.server.fault(action, **how)
    with pytest.raises(CloudError):
        site.driver.find_leftovers()
    assert found(site.driver) == {volume.id}
