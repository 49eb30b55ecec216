"""The libvirt adapter on libvirt's own test driver: what the contract suite doesn't ask."""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID
from xml.etree import ElementTree

import mock
import pytest

from nodemanager import errors
from nodemanager.cloud.api import CreateOrder
from nodemanager.cloud.libcloud_base import LibcloudCloud
from nodemanager.cloud.libvirt.adapter import build_cloud
from nodemanager.cloud.libvirt.domain import READER, STATE_NAMES, STATES, URI, Domain, state_name
from nodemanager.cloud.libvirt.driver import Hypervisor
from nodemanager.cloud.libvirt.options import Template
from nodemanager.cloud.libvirt.order import Guest, domain_xml
from nodemanager.cloud.libvirt.volumes import VolumePlan
from nodemanager.core.model.world import CloudState, Leftover, LeftoverKind, Outcome, Size, Tags
from tests.cases import cases
from tests.cloud.cloud_config import cloud_config
from tests.cloud.libvirt import driver as libvirt_driver
from tests.cloud.libvirt.driver import POOL, Uploading, by_hand, volumes
from tests.cloud.libvirt.test_errors import STORAGE, Refusal
from tests.fakes.clock import ManualClock

pytestmark = pytest.mark.server("libvirt")

RECORD = "zzzzz-7ekkf-000000000000001"
INCARNATION = "a" * 32
TAGS = Tags("mine", RECORD, INCARNATION, "large")
LARGE = Size("large", "l.1", cores=3, ram_mb=2048, scratch_mb=5000, ram_is_given=True)
BY_THE_SCHEMA = 1
"""VIR_DOMAIN_DEFINE_VALIDATE."""
SECRET_URL = "http://127.0.0.1:9/ping?ping_secret=verysecret"


def without_times() -> Any:
    """libvirt tells no times of volumes."""

    def told(self: Hypervisor, volume: Any) -> str:
        return str(volume.XMLDesc())

    return mock.patch.object(Uploading, "ex_volume_xml", told)


def order(token: str = "once", *, size: Size = LARGE, tags: Tags = TAGS) -> CreateOrder:
    return CreateOrder("compute1", size, tags, token, SECRET_URL)


@pytest.fixture
def cloud(hypervisor: Any) -> Iterator[LibcloudCloud]:
    with closing(libvirt_driver.cloud(ManualClock())) as opened:
        yield opened


def mine(hypervisor: Any) -> list[str]:
    return [d.name() for d in hypervisor.listAllDomains() if d.name() != "test"]


def xml_of(hypervisor: Any, node_id: str) -> ElementTree.Element:
    return ElementTree.fromstring(hypervisor.lookupByUUIDString(node_id).XMLDesc())


# What is made.


def test_a_domain_whose_volumes_are_being_made_is_one_to_come_and_not_stopped(
    cloud: LibcloudCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else another node would be booted for its job; and with a large image it would be ended,
    since it has been shut off for `settle` (D1)."""
    make, seen = VolumePlan.make, []

    def slowly(*arguments: Any) -> None:
        (listed,) = (one for one in cloud.list_nodes().items if one.tags.record == RECORD)
        (found,) = cloud.find_by_record(RECORD)
        asked = cloud.ask(listed.id)
        assert asked is not None
        seen.extend([listed.state, found.state, asked.state])
        make(*arguments)

    monkeypatch.setattr(VolumePlan, "make", slowly)
    node = cloud.create(order())
    assert seen == [CloudState.PENDING] * 3
    assert node.state is CloudState.RUNNING


def test_a_node_has_what_its_size_says_and_volumes_named_after_it(
    cloud: LibcloudCloud, hypervisor: Any
) -> None:
    made = cloud.create(order())
    root = xml_of(hypervisor, made.id)
    assert root.findtext("vcpu") == "3"
    assert root.findtext("memory") == str((2048 + 512) * 1024)
    assert root.findtext("name") == f"compute1-{made.id[:8]}"
    stem = f"nodemanager.mine.{INCARNATION}"
    assert volumes(hypervisor) == [
        f"{stem}.root.qcow2",
        f"{stem}.scratch.raw",
        f"{stem}.seed.iso",
    ]
    pool = hypervisor.storagePoolLookupByName(POOL)
    boot = ElementTree.fromstring(pool.storageVolLookupByName(f"{stem}.root.qcow2").XMLDesc())
    assert boot.findtext("backingStore/path") == f"/{POOL}/{libvirt_driver.IMAGE}"
    assert pool.storageVolLookupByName(f"{stem}.scratch.raw").info()[1] == 5000 * 1024 * 1024
    disks = [
        (disk.find("source").get("file"), disk.find("target").get("dev"))  # type: ignore[union-attr]
        for disk in root.iterfind("devices/disk")
    ]
    assert disks == [
        (f"/{POOL}/{name}", f"vd{letter}")
        for name, letter in zip(volumes(hypervisor), "abc", strict=True)
    ]


def test_what_the_node_is_told_is_nowhere_in_its_domain(
    cloud: LibcloudCloud, hypervisor: Any
) -> None:
    made = cloud.create(order())
    assert "verysecret" not in hypervisor.lookupByUUIDString(made.id).XMLDesc()


def test_a_domain_of_the_operator_s_own_is_filled_in(hypervisor: Any, tmp_path: Path) -> None:
    path = tmp_path / "domain.xml"
    path.write_text(
        "<domain type='test'><name>x</name><description>ours</description><memory>1</memory>"
        "<metadata><a:b xmlns:a='urn:another'>kept</a:b></metadata><os><type>hvm</type></os>"
        "<devices><disk type='file' device='cdrom'><target dev='vda'/></disk>"
        "<interface type='bridge'><source bridge='br7'/></interface></devices></domain>"
    )
    with closing(libvirt_driver.cloud(ManualClock(), domain_xml=str(path))) as cloud:
        made = cloud.create(order())
        assert made.problems == ()
        root = xml_of(hypervisor, made.id)
    assert root.findtext("description") == "ours"
    assert root.findtext("metadata/{urn:another}b") == "kept"
    assert [one.get("type") for one in root.iterfind("devices/interface")] == ["bridge"]
    targets = [one.get("dev") for one in root.iterfind("devices/disk/target")]
    assert sorted(map(str, targets)) == ["vda", "vdb", "vdc", "vdd"]


GPUS = "65:00.0+65:00.1, 66:00.0"


def devices_of(hypervisor: Any, node_id: str) -> list[str]:
    """Bus and function of the host's devices that a domain has."""
    return [
        f"{address.get('bus')} {address.get('function')}"
        for address in xml_of(hypervisor, node_id).iterfind("devices/hostdev/source/address")
    ]


def test_a_node_gets_the_first_of_the_host_s_devices_that_no_domain_has(hypervisor: Any) -> None:
    with closing(libvirt_driver.cloud(ManualClock(), host_devices=GPUS)) as cloud:
        one = cloud.create(order("one"))
        other = cloud.create(order("other", tags=replace(TAGS, incarnation="b" * 32)))
        assert devices_of(hypervisor, one.id) == ["0x65 0x0", "0x65 0x1"]
        assert devices_of(hypervisor, other.id) == ["0x66 0x0"]
        third = order("third", tags=replace(TAGS, incarnation="c" * 32))
        with pytest.raises(errors.CapacityUnavailable, match="domains have all 2 of them"):
            cloud.create(third)
        assert len(mine(hypervisor)) == 2
        # One that is shut off may be started at any time.
        hypervisor.lookupByUUIDString(one.id).destroy()
        with pytest.raises(errors.CapacityUnavailable):
            cloud.create(third)
        assert cloud.destroy(one.id) is Outcome.GONE
        assert devices_of(hypervisor, cloud.create(third).id) == ["0x65 0x0", "0x65 0x1"]


def test_nodes_that_are_created_at_once_get_other_devices(hypervisor: Any) -> None:
    """Each of the creates has listed the domains before another has defined its own."""
    wanted = ", ".join(f"{bus}:00.0" for bus in range(60, 68))
    with (
        closing(libvirt_driver.cloud(ManualClock(), host_devices=wanted)) as cloud,
        ThreadPoolExecutor(8) as threads,
    ):
        orders = [order(c, tags=replace(TAGS, incarnation=c * 32)) for c in "abcdef01"]
        made = list(threads.map(cloud.create, orders))
        taken = [devices_of(hypervisor, node.id)[0] for node in made]
    assert len(set(taken)) == len(made)


@pytest.mark.parametrize(
    ("passed", "os", "features"),
    [
        ({}, {}, []),
        ({"firmware": "bios"}, {"firmware": "bios"}, []),
        (
            {"firmware": "efi", "secure-boot": "yes"},
            {"firmware": "efi"},
            [{"enabled": "yes", "name": "secure-boot"}],
        ),
    ],
)
def test_firmware_and_devices_are_as_libvirt_s_own_schema_has_them(
    hypervisor: Any, passed: dict[str, str], os: dict[str, str], features: list[dict[str, str]]
) -> None:
    template = Template(libvirt_driver.IMAGE, firmware=passed)
    xml = domain_xml(
        order(),
        template,
        Guest("test", "i686"),
        str(UUID(int=7)),
        0.0,
        [],
        None,
        ("0000:65:00.0", "0001:66:1f.7"),
    )
    about = ElementTree.fromstring(xml).find("os")
    assert about is not None
    assert about.attrib == os
    assert [dict(one.attrib) for one in about.iterfind("firmware/feature")] == features
    hypervisor.defineXMLFlags(xml, BY_THE_SCHEMA).undefine()


def test_a_bridge_takes_the_place_of_the_network(hypervisor: Any) -> None:
    with closing(libvirt_driver.cloud(ManualClock(), bridge="br0")) as cloud:
        root = xml_of(hypervisor, cloud.create(order()).id)
    assert [one.attrib for one in root.iterfind("devices/interface/source")] == [{"bridge": "br0"}]


# What is refused, and what is unclear.


def test_an_image_that_is_not_there_stops_the_boot_before_anything_is_made(
    hypervisor: Any,
) -> None:
    with closing(libvirt_driver.cloud(ManualClock(), image="no-such.qcow2")) as cloud:
        with pytest.raises(errors.BadRequest, match=r"no-such\.qcow2"):
            cloud.check_image()
        with pytest.raises(errors.BadRequest, match=r"no-such\.qcow2"):
            cloud.create(order())
    assert (mine(hypervisor), volumes(hypervisor)) == ([], [])


def test_an_image_may_be_named_by_its_path(hypervisor: Any) -> None:
    path = f"/{POOL}/{libvirt_driver.IMAGE}"
    with closing(libvirt_driver.cloud(ManualClock(), image=path)) as cloud:
        cloud.check_image()
        assert cloud.create(order()).state is CloudState.RUNNING


def test_an_image_of_which_libvirt_tells_no_time_is_not_known_d15(hypervisor: Any) -> None:
    """The path alone would be the same for another content."""
    with closing(libvirt_driver.cloud(ManualClock())) as cloud, without_times():
        made = cloud.create(order())
        assert (cloud.image(), made.image) == (None, None)


def test_a_device_is_known_by_its_key_d15(hypervisor: Any) -> None:
    """Its times change whenever the host makes its file anew."""
    uuid = "Jd3lW9-0000-0000-0000-0000-0000-000000"
    xml = f"<volume type='block'><key>{uuid}</key><target><timestamps><mtime>1</mtime>"
    with (
        closing(libvirt_driver.cloud(ManualClock())) as cloud,
        mock.patch.object(
            Uploading, "ex_volume_xml", return_value=f"{xml}</timestamps></target></volume>"
        ),
    ):
        assert cloud.image() == uuid


def test_an_adopted_node_keeps_the_image_that_it_told_d15(hypervisor: Any) -> None:
    with closing(libvirt_driver.cloud(ManualClock())) as cloud:
        made = cloud.create(order())
        cloud.adopt(made.id, TAGS)
        again = cloud.ask(made.id)
        assert again is not None
        assert again.image == made.image is not None


def test_a_full_storage_pool_is_no_capacity_and_nothing_is_left_u6(
    cloud: LibcloudCloud, hypervisor: Any
) -> None:
    import libvirt

    create_xml = libvirt.virStoragePool.createXML

    def full(pool: Any, xml: str, flags: int = 0) -> Any:
        if ".scratch." in xml:
            raise Refusal(38, "cannot allocate", STORAGE, errno.ENOSPC)
        return create_xml(pool, xml, flags)

    with (
        mock.patch.object(libvirt.virStoragePool, "createXML", full),
        pytest.raises(errors.CapacityUnavailable) as caught,
    ):
        cloud.create(order())
    assert caught.value.definite
    assert (mine(hypervisor), volumes(hypervisor)) == ([], [])


def test_a_hypervisor_that_takes_no_uploads_boots_nothing_and_keeps_nothing(
    hypervisor: Any,
) -> None:
    with (
        closing(libvirt_driver.cloud(ManualClock(), driver_class=None)) as cloud,
        pytest.raises(errors.BadRequest, match="virStorageVolUpload") as caught,
    ):
        cloud.create(order())
    assert caught.value.definite
    assert (mine(hypervisor), volumes(hypervisor)) == ([], [])


def test_a_create_that_hung_is_unclear_stays_listed_and_is_finished_by_its_repeat_u9(
    cloud: LibcloudCloud, hypervisor: Any
) -> None:
    with (
        mock.patch.object(Uploading, "ex_upload", side_effect=TimeoutError("no answer")),
        pytest.raises(errors.CloudError) as caught,
    ):
        cloud.create(order())
    assert not caught.value.definite
    [half] = cloud.find_by_record(RECORD)
    assert (half.state, half.tags) == (CloudState.STOPPED, TAGS)
    assert cloud.find_leftovers() == ()
    made = cloud.create(order())
    assert (made.id, made.state) == (half.id, CloudState.RUNNING)
    assert [node.id for node in cloud.find_by_record(RECORD)] == [made.id]


def test_a_create_that_cant_be_taken_back_is_unclear(cloud: LibcloudCloud, hypervisor: Any) -> None:
    import libvirt

    with (
        mock.patch.object(libvirt.virStorageVol, "upload", side_effect=libvirt.libvirtError("no")),
        mock.patch.object(Uploading, "ex_upload", lambda self, volume, content: volume.upload()),
        mock.patch.object(
            libvirt.virDomain, "undefineFlags", side_effect=libvirt.libvirtError("stuck")
        ),
        pytest.raises(errors.CloudError) as caught,
    ):
        cloud.create(order())
    assert type(caught.value) is errors.CloudError
    assert [node.tags for node in cloud.find_by_record(RECORD)] == [TAGS]


def test_a_start_that_took_effect_late_is_not_taken_back(
    cloud: LibcloudCloud, hypervisor: Any
) -> None:
    """The call was given up, and libvirt starts the domain while the repeat is at work."""
    import libvirt

    def late(hypervisor_driver: Any, volume: Any, content: bytes) -> None:
        for domain in hypervisor.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_SHUTOFF):
            domain.create()

    with (
        mock.patch.object(Uploading, "ex_upload", late),
        pytest.raises(errors.CloudError) as caught,
    ):
        cloud.create(order())
    assert not caught.value.definite
    [node] = cloud.find_by_record(RECORD)
    assert node.state is CloudState.RUNNING
    assert cloud.create(order()).id == node.id
    assert len(volumes(hypervisor)) == 3


def test_a_call_that_hangs_is_given_up_and_the_next_ones_are_answered(hypervisor: Any) -> None:
    import threading

    over = threading.Event()
    with closing(
        build_cloud(
            cloud_config(
                credentials={"uri": libvirt_driver.URI, "timeout": "1"},
                create={"image": "x"},
                clock=ManualClock(),
                driver_class=libvirt_driver.DRIVER,
            )
        )
    ) as cloud:
        cloud.list_nodes()
        driver = cloud._drivers.mine()
        with mock.patch.object(driver, "connection") as connection:
            connection.listAllDomains = over.wait
            with pytest.raises(errors.CloudError, match="no answer within 1 s") as caught:
                cloud.list_nodes()
        assert not caught.value.definite
        assert cloud.list_nodes().complete
        over.set()


# What is seen.


def test_a_paused_domain_is_stopped_and_not_gone_t4(cloud: LibcloudCloud, hypervisor: Any) -> None:
    made = cloud.create(order())
    hypervisor.lookupByUUIDString(made.id).suspend()
    seen = cloud.ask(made.id)
    assert seen is not None
    assert (seen.raw_state, seen.state, seen.is_absent) == ("paused", CloudState.STOPPED, False)


@pytest.mark.parametrize(
    ("raw", "state"),
    [
        ((0, 0), CloudState.UNKNOWN),
        ((1, 1), CloudState.RUNNING),
        ((2, 0), CloudState.RUNNING),
        ((3, 1), CloudState.STOPPED),
        ((3, 2), CloudState.RUNNING),
        ((3, 3), CloudState.RUNNING),
        ((3, 4), CloudState.RUNNING),
        ((3, 5), CloudState.STOPPED),
        ((3, 6), CloudState.STOPPED),
        ((3, 7), CloudState.RUNNING),
        ((3, 8), CloudState.STOPPING),
        ((3, 9), CloudState.RUNNING),
        ((3, 10), CloudState.STOPPED),
        ((3, 11), CloudState.PENDING),
        ((3, 12), CloudState.RUNNING),
        ((4, 1), CloudState.STOPPING),
        ((5, 1), CloudState.STOPPED),
        ((6, 1), CloudState.STOPPED),
        ((7, 0), CloudState.STOPPED),
        ((99, 0), CloudState.UNKNOWN),
    ],
)
def test_no_state_of_libvirt_means_that_a_domain_is_gone(
    raw: tuple[int, int], state: CloudState
) -> None:
    assert STATES.get(state_name(*raw), CloudState.UNKNOWN) is state
    assert CloudState.TERMINATED not in STATES.values()


def test_the_names_of_the_states_are_libvirt_s() -> None:
    import libvirt

    for number, name in enumerate(STATE_NAMES):
        assert (
            getattr(libvirt, "VIR_DOMAIN_" + name.replace("no state", "nostate").upper()) == number
        )


def tagged(*tags: tuple[str, str], attributes: str = "") -> str:
    inside = "".join(f"<n:tag name='{name}'>{value}</n:tag>" for name, value in tags)
    return f"<n:node xmlns:n='{URI}' {attributes}>{inside}</n:node>"


POOL_OF_OURS, RECORD_OF_OURS = ("nodemanager-pool", "mine"), ("nodemanager-record", RECORD)


@cases(
    ("metadata", "problem"),
    {
        "doubled": (
            tagged(POOL_OF_OURS, RECORD_OF_OURS, RECORD_OF_OURS),
            "the tag nodemanager-record twice",
        ),
        "empty": (tagged(POOL_OF_OURS, ("nodemanager-record", "")), "no tag"),
        "nameless": (f"<n:node xmlns:n='{URI}'><n:tag>{RECORD}</n:tag></n:node>", "no tag"),
        "another-name-space": (
            f"<n:node xmlns:n='{URI}'><tag name='nodemanager-record'>{RECORD}</tag></n:node>",
            "no tag",
        ),
    },
)
def test_a_domain_with_damaged_metadata_is_listed_and_no_evidence_p3(
    cloud: LibcloudCloud, hypervisor: Any, metadata: str, problem: str
) -> None:
    node_id = by_hand(hypervisor, metadata)
    listing = cloud.list_nodes()
    [damaged] = [node for node in listing.items if node.id == node_id]
    assert listing.complete
    assert any(problem in line for line in damaged.problems)
    assert damaged.tags == Tags()
    if RECORD in metadata:
        with pytest.raises(errors.IncompleteListing):
            cloud.find_by_record(RECORD)
    assert cloud.find_by_record("zzzzz-7ekkf-000000000000099") == ()


def test_a_domain_with_two_elements_of_ours_has_no_readable_tags_p3() -> None:
    """Which of the two pools it is of, nobody can tell."""
    both = tagged(POOL_OF_OURS) + tagged(("nodemanager-pool", "theirs"))
    domain = Domain("id", "x", "running", f"<domain><metadata>{both}</metadata></domain>")
    node = READER.read(domain, "mine")
    assert node.tags == Tags()
    assert any("2 elements of ours" in line for line in node.problems)


def test_a_launch_time_that_is_none_is_a_problem_and_the_tags_still_count(
    cloud: LibcloudCloud, hypervisor: Any
) -> None:
    node_id = by_hand(hypervisor, tagged(POOL_OF_OURS, RECORD_OF_OURS, attributes="created='x'"))
    [node] = cloud.find_by_record(RECORD)
    assert (node.id, node.created_at, node.managed) == (node_id, None, True)
    assert any(line.startswith("launch time") for line in node.problems)


def test_a_foreign_domain_is_seen_and_not_ours(cloud: LibcloudCloud, hypervisor: Any) -> None:
    foreign = [node for node in cloud.list_nodes().items if node.name == "test"]
    assert [(node.managed, node.tags) for node in foreign] == [(False, Tags())]
    # It has no launch time, as no domain that others made; with a problem it could not be adopted.
    assert [(node.created_at, node.problems) for node in foreign] == [(None, ())]


def test_a_domain_that_ends_while_it_is_read_is_left_out_and_any_other_failure_ends_the_listing_l1(
    cloud: LibcloudCloud, hypervisor: Any
) -> None:
    import libvirt

    made, other = cloud.create(order()), by_hand(hypervisor)
    xml_desc = libvirt.virDomain.XMLDesc

    def ends(domain: Any, flags: int = 0) -> Any:
        if domain.UUIDString() == other and domain.isActive():
            domain.destroy()
        return xml_desc(domain, flags)

    with mock.patch.object(libvirt.virDomain, "XMLDesc", ends):
        listing = cloud.list_nodes()
    assert listing.complete
    assert {node.id for node in listing.items} >= {made.id}
    assert other not in {node.id for node in listing.items}
    with (
        mock.patch.object(libvirt.virDomain, "XMLDesc", side_effect=libvirt.libvirtError("odd")),
        pytest.raises(errors.CloudError),
    ):
        cloud.list_nodes()


@pytest.mark.parametrize("odd", ["12", "{}", "6695EB01-F6A4-8304-79AA-97F2502E193F"])
def test_an_id_that_is_no_uuid_is_malformed(cloud: LibcloudCloud, odd: str) -> None:
    with pytest.raises(errors.MalformedId):
        cloud.ask(odd)
    with pytest.raises(errors.MalformedId):
        cloud.destroy(odd)


def test_the_account_names_the_hypervisor_and_not_its_uri_s_options(cloud: LibcloudCloud) -> None:
    import socket

    assert cloud.account().startswith("test://")
    assert cloud.account().endswith("/default")
    assert socket.gethostname().split(".")[0] in cloud.account()


# Adopted, ended, left behind.


@pytest.mark.parametrize("stopped", [True, False], ids=["stopped", "running"])
def test_a_domain_is_adopted_for_its_next_start_too(
    cloud: LibcloudCloud, hypervisor: Any, stopped: bool
) -> None:
    node_id = by_hand(hypervisor, "<a:b xmlns:a='urn:another'>kept</a:b>")
    domain = hypervisor.lookupByUUIDString(node_id)
    hypervisor.defineXML(domain.XMLDesc())
    if stopped:
        domain.destroy()
    cloud.adopt(node_id, TAGS)
    if not stopped:
        domain.destroy()
    domain.create()
    seen = cloud.ask(node_id)
    assert seen is not None
    assert (seen.tags, seen.state) == (TAGS, CloudState.RUNNING)
    assert xml_of(hypervisor, node_id).findtext("metadata/{urn:another}b") == "kept"


def test_a_stopped_node_is_destroyed_as_a_running_one(
    cloud: LibcloudCloud, hypervisor: Any
) -> None:
    made = cloud.create(order())
    hypervisor.lookupByUUIDString(made.id).destroy()
    assert cloud.destroy(made.id) is Outcome.GONE
    assert mine(hypervisor) == []


def test_a_domain_that_is_still_there_after_its_end_is_not_gone_d3(cloud: LibcloudCloud) -> None:
    import libvirt

    made = cloud.create(order())
    with mock.patch.object(libvirt.virDomain, "undefineFlags", return_value=0):
        assert cloud.destroy(made.id) is Outcome.ACCEPTED
    seen = cloud.ask(made.id)
    assert seen is not None
    assert seen.state is CloudState.STOPPED
    assert cloud.destroy(made.id) is Outcome.GONE


def test_a_volume_that_another_domain_uses_is_left_alone(
    cloud: LibcloudCloud, hypervisor: Any
) -> None:
    made = cloud.create(order())
    scratch = next(one for one in cloud.pins(made.id) if ".scratch." in one.id)
    cloud.destroy(made.id)
    path = "/" + scratch.id
    other = hypervisor.createXML(
        "<domain type='test'><name>other</name><memory>65536</memory><os><type>hvm</type></os>"
        f"<devices><disk type='file'><source file='{path}'/><target dev='vda'/></disk></devices>"
        "</domain>"
    )
    assert scratch.id not in {one.id for one in cloud.find_leftovers()}
    with pytest.raises(errors.LeftAlone, match=r"other \(running\)"):
        cloud.release(scratch)
    other.destroy()
    assert cloud.release(scratch) is Outcome.GONE


def test_only_a_volume_named_by_us_is_ever_deleted(cloud: LibcloudCloud, hypervisor: Any) -> None:
    with pytest.raises(errors.LeftAlone):
        cloud.release(Leftover(LeftoverKind.VOLUME, f"{POOL}/{libvirt_driver.IMAGE}", ""))
    theirs = f"nodemanager.theirs.{INCARNATION}.root.qcow2"
    pool = hypervisor.storagePoolLookupByName(POOL)
    pool.createXML(libvirt_driver.IMAGE_XML.replace(libvirt_driver.IMAGE, theirs))
    with pytest.raises(errors.LeftAlone):
        cloud.release(Leftover(LeftoverKind.VOLUME, f"{POOL}/{theirs}", ""))
    assert cloud.find_leftovers() == ()
    assert theirs in volumes(hypervisor)


def test_a_node_keeps_its_volumes_while_it_lives(cloud: LibcloudCloud, hypervisor: Any) -> None:
    made = cloud.create(order())
    for leftover in cloud.pins(made.id):
        with pytest.raises(errors.LeftAlone):
            cloud.release(leftover)
    assert cloud.find_leftovers() == ()
    assert len(volumes(hypervisor)) == 3


# What is needed.


def test_without_libvirt_s_module_the_error_says_what_to_install() -> None:
    with (
        mock.patch.dict(sys.modules, {"libvirt": None}),
        pytest.raises(
            errors.ConfigError, match=r"apt-get install libvirt-dev .*pip install .*\[libvirt\]"
        ),
    ):
        libvirt_driver.cloud(ManualClock())


def test_a_driver_class_of_libcloud_s_own_kind_is_taken() -> None:
    from libcloud.compute.drivers.libvirt_driver import LibvirtNodeDriver

    dotted = f"{LibvirtNodeDriver.__module__}.{LibvirtNodeDriver.__name__}"
    with closing(libvirt_driver.cloud(ManualClock(), driver_class=dotted)) as cloud:
        assert cloud.list_nodes().complete
