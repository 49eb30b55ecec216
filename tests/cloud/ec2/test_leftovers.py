"""What EC2 nodes leave behind is named, found again and released in order (D4), over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from nodemanager.cloud.api import CloudDriver
from nodemanager.cloud.ec2.leftovers import IN_USE
from nodemanager.cloud.tags import HOLD_TAG, INCARNATION_TAG, POOL_TAG
from nodemanager.core.model.world import CloudNode, Leftover, LeftoverKind, Outcome, Size
from nodemanager.core.plan import leftovers
from nodemanager.core.plan.leftovers import Ledger
from nodemanager.errors import (
    BadRequest,
    CloudError,
    ForeignAnswer,
    IncompleteListing,
    LeftAlone,
    Throttled,
    Unauthorized,
)
from tests.cloud.ec2.helpers import (
    POOL,
    add_address,
    add_interface,
    add_volume,
    by_hand,
    cloud,
    order,
    tagged,
    tags_of,
)
from tests.cloud.ec2.moto_server import MotoServer, lost, plain, refusal, replaced, truncated
from tests.cloud.ec2.moto_things import NAMESPACE

DESCRIBES = ("DescribeVolumes", "DescribeNetworkInterfaces", "DescribeAddresses")


@pytest.fixture
def ec2(server: MotoServer) -> CloudDriver:
    return cloud(server, page_size=5)


def ids(found: tuple[Leftover, ...]) -> list[str]:
    return [leftover.id for leftover in found]


def retag(server: MotoServer, thing_id: str, **tags: str) -> None:
    """Tags by an operator's hand; `hold`, `pool` for ours."""
    names = {"hold": HOLD_TAG, "pool": POOL_TAG}
    for name, value in tags.items():
        by_hand(
            server,
            "CreateTags",
            ResourceId__1=thing_id,
            Tag__1__Key=names[name],
            Tag__1__Value=value,
        )


def gone(server: MotoServer, ec2: CloudDriver, node: CloudNode) -> None:
    ec2.destroy(node.id)
    assert ec2.destroy(node.id) is Outcome.GONE


# What a node pins.


def test_a_node_as_we_create_it_pins_nothing(server: MotoServer, ec2: CloudDriver) -> None:
    made = ec2.create(order(size=Size("large", "m5.large", 2, 8192, scratch_mb=100_000)))
    assert ec2.pins(made.id) == ()
    gone(server, ec2, made)
    assert ec2.find_leftovers() == ()
    for describe in DESCRIBES:
        assert "tagSet" not in by_hand(server, describe)


def test_a_volume_and_an_interface_of_the_create_that_stay_are_pinned(
    server: MotoServer, ec2: CloudDriver
) -> None:
    asked = order()
    tags = {f"TagSpecification.1.Tag.{n}": pair for n, pair in enumerate(tags_items(asked), 1)}
    params = {
        "ImageId": "ami-1",
        "MinCount": "1",
        "MaxCount": "1",
        "BlockDeviceMapping.1.DeviceName": "/dev/xvdt",
        "BlockDeviceMapping.1.Ebs.VolumeSize": "8",
        "BlockDeviceMapping.1.Ebs.DeleteOnTermination": "false",
        "NetworkInterface.1.DeviceIndex": "0",
        "NetworkInterface.1.DeleteOnTermination": "false",
    }
    for number, resource in enumerate(("instance", "volume", "network-interface"), 1):
        params[f"TagSpecification.{number}.ResourceType"] = resource
        for name, (key, value) in tags.items():
            name = name.replace("TagSpecification.1", f"TagSpecification.{number}")
            params |= {f"{name}.Key": key, f"{name}.Value": value}
    by_hand(server, "RunInstances", **{name.replace(".", "__"): v for name, v in params.items()})
    (node,) = ec2.list_nodes().items
    pinned = ec2.pins(node.id)
    assert [leftover.kind for leftover in pinned] == [LeftoverKind.INTERFACE, LeftoverKind.VOLUME]
    gone(server, ec2, node)
    assert ec2.find_leftovers() == pinned


def tags_items(asked: Any) -> list[tuple[str, str]]:
    return [(POOL_TAG, asked.tags.pool), (INCARNATION_TAG, asked.tags.incarnation)]


OTHERS: tuple[dict[str, str], ...] = (
    {},
    {POOL_TAG: POOL},
    {POOL_TAG: "red", INCARNATION_TAG: "f" * 32},
    {INCARNATION_TAG: "f" * 32},
    {POOL_TAG: POOL, INCARNATION_TAG: "f" * 32, HOLD_TAG: "yes"},
)
"""Tags of what is not ours: none, the pool or an incarnation alone, another pool's; on hold."""


def test_an_operator_s_own_things_are_never_pinned_found_or_released(
    server: MotoServer, ec2: CloudDriver
) -> None:
    made = ec2.create(order())
    things: list[tuple[LeftoverKind, str]] = []
    for index, tags in enumerate(OTHERS, 1):
        interface = add_interface(server, made, tags, index)
        volume = add_volume(server, made, tags, f"/dev/xvd{index}")
        address = add_address(server, tags, interface=interface)
        things += zip(LeftoverKind, (interface, volume, address), strict=True)
    assert ec2.pins(made.id) == ()
    gone(server, ec2, made)
    assert ec2.find_leftovers() == ()
    for kind, thing in things:
        with pytest.raises(LeftAlone):
            ec2.release(Leftover(kind, thing, made.id))
    for action in ("DeleteVolume", "DeleteNetworkInterface", "ReleaseAddress"):
        assert server.called(action) == []


def test_all_pages_are_followed(server: MotoServer) -> None:
    server.page_limit = 2
    ec2 = cloud(server, page_size=2)
    made = ec2.create(order())
    volumes = {add_volume(server, made, tags_of(made), f"/dev/xvd{letter}") for letter in "abcdefg"}
    interfaces = {add_interface(server, made, tags_of(made), index) for index in (1, 2, 3)}
    assert set(ids(ec2.pins(made.id))) == volumes | interfaces
    assert len(server.called("DescribeVolumes")) == 4
    gone(server, ec2, made)
    assert set(ids(ec2.find_leftovers())) == volumes | interfaces


@pytest.mark.parametrize(
    ("how", "error"),
    [
        pytest.param({"after": truncated}, IncompleteListing, id="truncated"),
        pytest.param({"after": replaced(NAMESPACE, "urn:x")}, ForeignAnswer, id="foreign"),
        pytest.param({"after": lost}, CloudError, id="no-answer"),
        pytest.param({"before": refusal("InternalError", 500)}, CloudError, id="internal"),
        pytest.param(
            {"before": refusal("UnauthorizedOperation", 403)}, Unauthorized, id="not-permitted"
        ),
        pytest.param(
            {"before": refusal("RequestLimitExceeded", 503, retry_after="9")}, Throttled, id="slow"
        ),
    ],
)
def test_an_answer_that_is_not_whole_is_never_nothing(
    server: MotoServer,
    ec2: CloudDriver,
    how: dict[str, Any],
    error: type[CloudError],
) -> None:
    made = ec2.create(order())
    for describe, ask in product(DESCRIBES, (lambda: ec2.pins(made.id), ec2.find_leftovers)):
        server.fault(describe, **how)
        with pytest.raises(CloudError) as caught:
            ask()
        assert type(caught.value) is error, describe


def test_a_thing_without_an_id_is_not_passed_by_in_silence(
    server: MotoServer, ec2: CloudDriver
) -> None:
    made = ec2.create(order())
    add_volume(server, made, tags_of(made))
    server.fault(
        "DescribeVolumes",
        after=lambda reply: replaced("</volumeId>", "</noId>")(
            replaced("<volumeId>", "<noId>")(reply)
        ),
    )
    with pytest.raises(IncompleteListing):
        ec2.pins(made.id)


def test_an_answer_about_another_node_s_things_pins_nothing(
    server: MotoServer, ec2: CloudDriver
) -> None:
    made = ec2.create(order())
    add_volume(server, made, tags_of(made))
    server.fault("DescribeVolumes", after=replaced(made.id, "i-0ffffffffffffffff"))
    assert ec2.pins(made.id) == ()


# Found again without a ledger.


def test_a_live_node_s_detached_volume_is_not_left_over(
    server: MotoServer, ec2: CloudDriver
) -> None:
    made = ec2.create(order())
    volume = add_volume(server, made, tags_of(made))
    by_hand(server, "DetachVolume", VolumeId=volume, InstanceId=made.id, Device="/dev/xvdz")
    for state in ("running", "stopped", "shutting-down"):
        server.put(made.id, state)
        assert ec2.find_leftovers() == ()
    server.put(made.id, "terminated")
    assert ec2.find_leftovers() == (Leftover(LeftoverKind.VOLUME, volume, made.id),)


def test_what_is_left_of_a_node_that_ec2_forgot_is_found_without_its_node(
    server: MotoServer, ec2: CloudDriver
) -> None:
    made = ec2.create(order())
    volume = add_volume(server, made, tags_of(made))
    gone(server, ec2, made)
    # EC2 forgets a terminated instance within the hour.
    empty = (
        f'<DescribeInstancesResponse xmlns="{NAMESPACE}"><reservationSet/>'
        "</DescribeInstancesResponse>"
    )
    server.fault("DescribeInstances", times=2, before=plain(200, empty))
    (found,) = ec2.find_leftovers()
    assert found == Leftover(LeftoverKind.VOLUME, volume, "")
    assert ec2.release(found) is Outcome.ACCEPTED
    assert ec2.release(found) is Outcome.GONE


def test_an_instance_whose_tags_can_t_be_read_may_own_anything(
    server: MotoServer, ec2: CloudDriver
) -> None:
    made = ec2.create(order())
    add_volume(server, made, tags_of(made))
    gone(server, ec2, made)

    def spoil(reply: Any) -> Any:
        return replaced("</key>", "</notKey>")(replaced("<key>", "<notKey>")(reply))

    server.fault("DescribeInstances", after=spoil)
    with pytest.raises(IncompleteListing):
        ec2.find_leftovers()


def test_one_found_too_early_is_kept_once_its_node_is_seen(
    server: MotoServer, ec2: CloudDriver
) -> None:
    """A node younger than visible_after may be missing from a listing (A1)."""
    made = ec2.create(order())
    volume = add_volume(server, made, tags_of(made))
    by_hand(server, "DetachVolume", VolumeId=volume, InstanceId=made.id, Device="/dev/xvdz")
    empty = (
        f'<DescribeInstancesResponse xmlns="{NAMESPACE}"><reservationSet/>'
        "</DescribeInstancesResponse>"
    )
    server.fault("DescribeInstances", before=plain(200, empty))
    (found,) = ec2.find_leftovers()
    with pytest.raises(LeftAlone, match="running"):
        ec2.release(found)


def test_what_is_being_deleted_is_not_found(
    server: MotoServer, ec2: CloudDriver, pinned: tuple[CloudNode, tuple[Leftover, ...]]
) -> None:
    server.fault("DescribeVolumes", after=replaced("<status>available<", "<status>deleting<"))
    assert LeftoverKind.VOLUME not in {found.kind for found in ec2.find_leftovers()}


def test_a_node_whose_state_can_t_be_read_keeps_its_things(
    server: MotoServer, ec2: CloudDriver, pinned: tuple[CloudNode, tuple[Leftover, ...]]
) -> None:
    server.fault("DescribeInstances", times=2, after=replaced("instanceState>", "noState>"))
    assert ec2.find_leftovers() == ()
    with pytest.raises(LeftAlone, match="unreadable"):
        ec2.release(pinned[1][1])


# Released.


@pytest.fixture
def pinned(server: MotoServer, ec2: CloudDriver) -> tuple[CloudNode, tuple[Leftover, ...]]:
    """A node that is gone, and its interface, volume and address."""
    made = ec2.create(order())
    interface = add_interface(server, made, tags_of(made))
    add_address(server, tags_of(made), interface=interface)
    add_volume(server, made, tags_of(made))
    found = ec2.pins(made.id)
    assert [leftover.kind for leftover in found] == list(LeftoverKind)
    gone(server, ec2, made)
    return made, found


RELEASES = ("DeleteNetworkInterface", "DeleteVolume", "ReleaseAddress")
"""In the order of the kinds."""


def test_an_address_waits_for_the_interface_that_bears_it(
    ec2: CloudDriver, server: MotoServer, pinned: tuple[CloudNode, tuple[Leftover, ...]]
) -> None:
    interface, _volume, address = pinned[1]
    assert ec2.release(address) is Outcome.ACCEPTED
    assert server.called("ReleaseAddress") == []
    assert ec2.release(interface) is Outcome.ACCEPTED
    assert ec2.release(interface) is Outcome.GONE
    assert ec2.release(address) is Outcome.ACCEPTED
    assert ec2.release(address) is Outcome.GONE
    assert len(server.called("ReleaseAddress")) == 1


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param({"before": refusal("InternalError", 500)}, id="internal-error"),
        pytest.param({"before": refusal("UnauthorizedOperation", 403)}, id="not-permitted"),
        pytest.param({"before": refusal("VolumeInUse", 400)}, id="in-use"),
        pytest.param({"after": lost}, id="done-and-the-answer-lost"),
    ],
)
def test_releases_that_fail_twice_are_tried_until_all_is_gone(
    server: MotoServer,
    ec2: CloudDriver,
    pinned: tuple[CloudNode, tuple[Leftover, ...]],
    fault: dict[str, Any],
) -> None:
    node, found = pinned
    for action in RELEASES:
        server.fault(action, times=2, **fault)
    ledger = leftovers.ended(leftovers.entered(Ledger(), found, 0.0), node.id, 0.0)
    ended: list[str] = []
    for _ in range(20):
        now = leftovers.next_due(ledger)
        if now is None:
            break
        for entry in leftovers.due(ledger, now):
            outcome, error = tried(ec2, entry.leftover)
            ledger, told = leftovers.after(ledger, entry.leftover, outcome, now, error=error)
            if told.state is leftovers.LedgerState.RELEASED:
                ended.append(told.leftover.id)
    assert len(ledger) == 0
    assert ended == ids(found)
    assert ec2.find_leftovers() == ()


def tried(ec2: CloudDriver, leftover: Leftover) -> tuple[Outcome, str | None]:
    """One try, as the actor that releases makes it."""
    try:
        return ec2.release(leftover), None
    except CloudError as error:
        return (Outcome.FAILED if error.definite else Outcome.UNKNOWN), str(error)


def test_a_release_is_an_order_once_and_then_a_question(
    server: MotoServer, ec2: CloudDriver, pinned: tuple[CloudNode, tuple[Leftover, ...]]
) -> None:
    for leftover, action in zip(pinned[1], RELEASES, strict=True):
        assert ec2.release(leftover) is Outcome.ACCEPTED
        assert [ec2.release(leftover) for _ in range(3)] == [Outcome.GONE] * 3
        assert len(server.called(action)) == 1


def test_a_release_that_is_refused_is_what_the_code_says(
    server: MotoServer, ec2: CloudDriver, pinned: tuple[CloudNode, tuple[Leftover, ...]]
) -> None:
    """A typed error; or the thing is in use or gone since our look."""
    for code, status, kind, definite in (
        ("RequestLimitExceeded", 503, Throttled, True),
        ("UnauthorizedOperation", 403, Unauthorized, True),
        ("OperationNotPermitted", 400, BadRequest, True),
        ("InternalError", 500, CloudError, False),
    ):
        server.fault("DeleteVolume", before=refusal(code, status, "scripted", retry_after="7"))
        with pytest.raises(CloudError, match=code) as caught:
            ec2.release(pinned[1][1])
        assert type(caught.value) is kind
        assert (caught.value.definite, caught.value.retry_after) == (definite, 7.0), code
    for code in sorted(IN_USE):
        server.fault("DeleteVolume", before=refusal(code, 400))
        assert ec2.release(pinned[1][1]) is Outcome.ACCEPTED, code
    server.fault("DeleteVolume", before=refusal("InvalidVolume.NotFound", 400))
    assert ec2.release(pinned[1][1]) is Outcome.GONE


def test_a_volume_that_is_being_deleted_is_not_ordered_again(
    server: MotoServer, ec2: CloudDriver, pinned: tuple[CloudNode, tuple[Leftover, ...]]
) -> None:
    server.fault("DescribeVolumes", after=replaced("<status>available<", "<status>deleting<"))
    assert ec2.release(pinned[1][1]) is Outcome.ACCEPTED
    assert server.called("DeleteVolume") == []


def test_nothing_of_a_node_that_lives_is_released(server: MotoServer, ec2: CloudDriver) -> None:
    made = ec2.create(order())
    interface = add_interface(server, made, tags_of(made))
    add_address(server, tags_of(made), interface=interface)
    add_volume(server, made, tags_of(made))
    for state in ("pending", "running", "stopping", "stopped"):
        server.put(made.id, state)
        for leftover in ec2.pins(made.id):
            with pytest.raises(LeftAlone, match=state):
                ec2.release(leftover)
    server.put(made.id, "shutting-down")
    assert {ec2.release(leftover) for leftover in ec2.pins(made.id)} == {Outcome.ACCEPTED}
    for action in ("DeleteVolume", "DeleteNetworkInterface", "ReleaseAddress"):
        assert server.called(action) == []


def test_what_its_terminated_node_still_holds_is_waited_for(
    server: MotoServer, ec2: CloudDriver
) -> None:
    made = ec2.create(order())
    add_volume(server, made, tags_of(made))
    (volume,) = ec2.pins(made.id)
    # Terminated, its volume still attached: EC2 detaches it in its own time.
    server.put(made.id, "terminated")
    assert ec2.release(volume) is Outcome.ACCEPTED
    assert server.called("DeleteVolume") == []
    by_hand(server, "DetachVolume", VolumeId=volume.id, InstanceId=made.id, Device="/dev/xvdz")
    assert [ec2.release(volume) for _ in range(2)] == [Outcome.ACCEPTED, Outcome.GONE]


def put_on_another(server: MotoServer, ec2: CloudDriver, volume: str) -> None:
    rescue = ec2.create(order("rescue"))
    by_hand(server, "AttachVolume", VolumeId=volume, InstanceId=rescue.id, Device="/dev/xvdr")


def hold(server: MotoServer, _ec2: CloudDriver, volume: str) -> None:
    retag(server, volume, hold="yes")


def give_away(server: MotoServer, _ec2: CloudDriver, volume: str) -> None:
    retag(server, volume, pool="red")


@pytest.mark.parametrize(
    ("deed", "why"),
    [
        pytest.param(put_on_another, "used by i-", id="attached-to-another-node"),
        pytest.param(hold, "held", id="on-hold"),
        pytest.param(give_away, "tags of pool", id="given-to-another-pool"),
    ],
)
def test_an_operator_may_take_a_thing_out_of_our_hands(
    server: MotoServer,
    ec2: CloudDriver,
    pinned: tuple[CloudNode, tuple[Leftover, ...]],
    deed: Callable[[MotoServer, CloudDriver, str], None],
    why: str,
) -> None:
    volume = pinned[1][1]
    deed(server, ec2, volume.id)
    with pytest.raises(LeftAlone, match=why) as caught:
        ec2.release(volume)
    assert caught.value.definite
    assert server.called("DeleteVolume") == []


def test_a_thing_of_nobody_known_is_left_alone(server: MotoServer, ec2: CloudDriver) -> None:
    volume = by_hand(
        server,
        "CreateVolume",
        Size="8",
        AvailabilityZone="us-east-1a",
        **tagged("volume", {"colour": "red"}),
    )["volumeId"]
    with pytest.raises(LeftAlone, match="is unknown"):
        ec2.release(Leftover(LeftoverKind.VOLUME, volume, "", tagged=False))


def test_what_the_ledger_alone_names_goes_once_its_node_is_gone(
    server: MotoServer, ec2: CloudDriver
) -> None:
    made = ec2.create(order())
    volume = Leftover(LeftoverKind.VOLUME, add_volume(server, made, {}), made.id, tagged=False)
    with pytest.raises(LeftAlone, match="running"):
        ec2.release(volume)
    gone(server, ec2, made)
    assert [ec2.release(volume) for _ in range(2)] == [Outcome.ACCEPTED, Outcome.GONE]


def test_an_answer_about_another_thing_is_refused(
    server: MotoServer, ec2: CloudDriver, pinned: tuple[CloudNode, tuple[Leftover, ...]]
) -> None:
    volume = pinned[1][1]
    server.fault("DescribeVolumes", after=replaced(volume.id, "vol-0ffffffffffffffff"))
    with pytest.raises(ForeignAnswer):
        ec2.release(volume)


def test_an_empty_answer_to_a_question_by_id_is_no_denial(
    server: MotoServer, ec2: CloudDriver, pinned: tuple[CloudNode, tuple[Leftover, ...]]
) -> None:
    empty = f'<DescribeVolumesResponse xmlns="{NAMESPACE}"><volumeSet/></DescribeVolumesResponse>'
    server.fault("DescribeVolumes", before=plain(200, empty))
    with pytest.raises(ForeignAnswer):
        ec2.release(pinned[1][1])
