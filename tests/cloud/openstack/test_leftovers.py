"""What an OpenStack server leaves behind: only ours, in order, never a live node's (D4)."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from nodemanager.core.model.world import Leftover, LeftoverKind, Outcome
from nodemanager.errors import CloudError, IncompleteListing, LeftAlone
from tests.cases import cases
from tests.cloud.faults import Reply
from tests.cloud.openstack import helpers
from tests.cloud.openstack.nova import refused
from tests.cloud.openstack.server import OpenStackServer, answering, changed
from tests.cloud.openstack.things import ADDRESS, PORT, VOLUME, neutron

pytestmark = pytest.mark.socket
INTERFACE, DISK = LeftoverKind.INTERFACE, LeftoverKind.VOLUME


def test_a_port_that_nova_forgot_is_deleted_once_its_server_is_gone(
    openstack: OpenStackServer,
) -> None:
    openstack.things.leaked = True
    ours = helpers.cloud(openstack)
    made = ours.create(helpers.order())
    (pinned,) = ours.pins(made.id)
    assert (pinned.kind, pinned.node_id, pinned.tagged) == (INTERFACE, made.id, False)
    with pytest.raises(LeftAlone, match="running"):
        ours.release(pinned)
    ours.destroy(made.id)
    assert helpers.ports_of(openstack, made.id) == [pinned.id]
    assert ours.release(pinned) is Outcome.ACCEPTED
    assert ours.release(pinned) is Outcome.GONE


def test_a_port_that_only_administrators_may_delete_is_left_alone(
    openstack: OpenStackServer,
) -> None:
    openstack.things.leaked = openstack.things.guarded = True
    ours = helpers.cloud(openstack)
    made = ours.create(helpers.order())
    (pinned,) = ours.pins(made.id)
    ours.destroy(made.id)
    assert ours.ask(made.id) is None
    with pytest.raises(LeftAlone, match="only administrators"):
        ours.release(pinned)
    assert helpers.ports_of(openstack, made.id) == [pinned.id]


@cases(
    "fields",
    {
        "named": {"name": "alice's"},
        "tagged": {"name": "", "tags": ["owner=alice"]},
        "described": {"name": "", "description": "alice's"},
    },
)
def test_a_port_that_nova_did_not_make_is_not_ours(
    openstack: OpenStackServer, fields: dict[str, Any]
) -> None:
    ours = helpers.cloud(openstack)
    made = ours.create(helpers.order())
    theirs = openstack.things.add(PORT, **fields)
    openstack.things.attach(theirs, made.id)
    assert theirs not in {leftover.id for leftover in ours.pins(made.id)}
    ours.destroy(made.id)
    assert ours.ask(made.id) is None
    with pytest.raises(LeftAlone, match="not bound to its server"):
        ours.release(Leftover(INTERFACE, theirs, made.id, tagged=False))
    assert theirs in openstack.things.all[PORT]


def test_a_port_without_a_name_that_nova_gave_back_stays(openstack: OpenStackServer) -> None:
    ours = helpers.cloud(openstack)
    made = ours.create(helpers.order())
    theirs = openstack.things.add(PORT, name="")
    openstack.things.attach(theirs, made.id)
    (pinned,) = [one for one in ours.pins(made.id) if one.id == theirs]
    ours.destroy(made.id)
    assert ours.ask(made.id) is None
    with pytest.raises(LeftAlone, match="nova did not make it"):
        ours.release(pinned)


def test_a_node_of_no_pool_pins_nothing(openstack: OpenStackServer) -> None:
    theirs = helpers.by_hand(openstack)
    assert helpers.ports_of(openstack, theirs)
    assert helpers.cloud(openstack).pins(theirs) == ()


def test_what_another_server_uses_by_now_stays(openstack: OpenStackServer) -> None:
    ours = helpers.cloud(openstack)
    made, other = ours.create(helpers.order()), ours.create(helpers.order())
    helpers.pin(openstack, made)
    pinned = {leftover.kind: leftover for leftover in ours.pins(made.id) if leftover.tagged}
    ours.destroy(made.id)
    for kind in (INTERFACE, DISK):
        openstack.things.attach(pinned[kind].id, other.id)
        with pytest.raises(LeftAlone):
            ours.release(pinned[kind])


def test_a_volume_takes_its_time_to_go(openstack: OpenStackServer) -> None:
    ours = helpers.cloud(openstack)
    made = ours.create(helpers.order())
    volume = openstack.things.add(VOLUME, metadata=helpers.our_tags(made))
    openstack.things.attach(volume, made.id)
    openstack.things.deletes = 2
    ours.destroy(made.id)
    leftover = Leftover(DISK, volume, made.id)
    said = [ours.release(leftover) for _ in range(4)]
    assert said == [Outcome.ACCEPTED] * 3 + [Outcome.GONE]
    assert len(openstack.called("volume DELETE /volumes/{id}")) == 1


@cases(
    ("error", "expected"),
    {
        "gone": (neutron(404, "PortNotFound", "gone"), Outcome.GONE),
        "in-use": (neutron(409, "PortInUse", "in use"), Outcome.ACCEPTED),
        "503": (refused(503, "later"), None),
    },
)
def test_what_a_refused_delete_means(
    openstack: OpenStackServer, error: Any, expected: Outcome | None
) -> None:
    ours = helpers.cloud(openstack)
    made = ours.create(helpers.order())
    port = openstack.things.add(PORT, tags=helpers.neutron_tags(helpers.our_tags(made)))
    ours.destroy(made.id)
    openstack.fault("network DELETE /ports/{id}", before=answering(error))
    leftover = Leftover(INTERFACE, port, made.id)
    if expected is None:
        with pytest.raises(CloudError):
            ours.release(leftover)
    else:
        assert ours.release(leftover) is expected


def test_an_address_that_goes_between_two_pages_hides_no_other(openstack: OpenStackServer) -> None:
    """Neutron does not refuse a marker that is gone: it begins anew with its list of addresses."""
    ours = helpers.cloud(openstack)
    made = ours.create(helpers.order())
    tags, things = helpers.neutron_tags(helpers.our_tags(made)), openstack.things
    addresses = [things.add(ADDRESS, tags=tags) for _ in range(5)]
    ours.destroy(made.id)
    things.max_limit = 2

    def delete_the_second(reply: Reply) -> Reply:
        things.delete(ADDRESS, addresses[1])
        return reply

    openstack.fault("network GET /floatingips", after=delete_the_second)
    found = [leftover.id for leftover in ours.find_leftovers()]
    assert sorted(found) == sorted(addresses)
    assert len(openstack.called("network GET /floatingips")) == 4


def test_a_server_whose_metadata_is_unreadable_may_own_any_leftover(
    openstack: OpenStackServer,
) -> None:
    ours = helpers.cloud(openstack)
    made = ours.create(helpers.order())
    volume = openstack.things.add(VOLUME, metadata=helpers.our_tags(made))

    def unreadable(body: Any) -> Any:
        return {"servers": [{**one, "metadata": "none"} for one in body["servers"]]}

    openstack.fault("compute GET /servers/detail", times=9, after=changed(unreadable))
    for ask in (ours.find_leftovers, partial(ours.release, Leftover(DISK, volume, ""))):
        with pytest.raises(IncompleteListing, match=f"node {made.id}: metadata is no mapping"):
            ask()


def test_a_cell_that_is_down_hides_the_owner_of_a_leftover(openstack: OpenStackServer) -> None:
    ours = helpers.cloud(openstack)
    made = ours.create(helpers.order())
    volume = openstack.things.add(VOLUME, metadata=helpers.our_tags(made))
    openstack.nova.down = {"cell1"}
    with pytest.raises(IncompleteListing):
        ours.find_leftovers()
    with pytest.raises(IncompleteListing):
        ours.release(Leftover(DISK, volume, ""))
    with pytest.raises(LeftAlone, match="unknown"):
        ours.release(Leftover(DISK, volume, made.id))
