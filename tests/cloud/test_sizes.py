"""`[Size X]` against the cloud's own sizes, on each cloud: in check-config, check-cloud and at the
boot (F5, S4, U11)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from nodemanager.app import adapters
from nodemanager.app.check import check
from nodemanager.app.from_config import sizes_of
from nodemanager.cloud.checks import CheckStatus, Found
from nodemanager.config import Config
from nodemanager.core.model.sizes import Sizes
from nodemanager.errors import ConfigError
from tests.cloud import files
from tests.cloud.azure.server import changed
from tests.cloud.azure.world import SIZES
from tests.cloud.gce.project import MACHINES
from tests.cloud.orders import order_for
from tests.fakes.clock import ManualClock

pytestmark = pytest.mark.socket

OFFER = "offer of {}"
"""The name of the check that asks the cloud for a size."""


@dataclass(frozen=True)
class Site:
    """A cloud with sizes of its own.

    `known` is one that the cloud and our table have, `new` one that only the cloud has, and `typo`
    nearly `known`. `ordered_as_spot` says of each node whose create the server got whether it was
    ordered as a preemptible one; `never_spot` takes that from every type.
    """

    provider: str
    text: str
    known: str
    typo: str = ""
    new: str = ""
    ordered_as_spot: Callable[[], list[bool]] = list
    never_spot: Callable[[], None] = lambda: None


def ec2_site(request: pytest.FixtureRequest) -> Site:
    server = request.getfixturevalue("server")
    return Site(
        "ec2",
        files.of_ec2(server),
        known="m5.large",
        typo="m5.lrge",
        new="c8a.large",
        ordered_as_spot=lambda: [
            call.params.get("InstanceMarketOptions.MarketType") == "spot"
            for call in server.called("RunInstances")
            if "DryRun" not in call.params
        ],
        never_spot=lambda: server.fault(
            "DescribeInstanceTypes",
            after=lambda reply: replace(reply, body=reply.body.replace(b"<item>spot</item>", b"")),
        ),
    )


def gce_site(request: pytest.FixtureRequest) -> Site:
    server = request.getfixturevalue("gce")
    request.getfixturevalue("monkeypatch").setitem(MACHINES, "z9-standard-2", (2, 8192))
    return Site(
        "gce",
        files.of_gce(server),
        known="n1-standard-1",
        typo="n1-standrd-1",
        new="z9-standard-2",
        ordered_as_spot=lambda: [
            bool(call.body.get("scheduling", {}).get("preemptible"))
            or call.body.get("scheduling", {}).get("provisioningModel") == "SPOT"
            for call in server.called("instances.insert")
        ],
    )


def azure_site(request: pytest.FixtureRequest) -> Site:
    server = request.getfixturevalue("azure")
    request.getfixturevalue("monkeypatch").setitem(SIZES, "Standard_D2s_v99", (2, 8, 0))

    def never_spot(told: Any) -> None:
        for one in told["value"]:
            about = next(one for one in one["capabilities"] if one["name"] == "LowPriorityCapable")
            about["value"] = "False"

    return Site(
        "azure",
        files.of_azure(server),
        known="Standard_D2s_v5",
        typo="Standard_D2sv5",
        new="Standard_D2s_v99",
        ordered_as_spot=lambda: [
            call.body["properties"].get("priority") == "Spot"
            for call in server.called("virtualMachines.put")
        ],
        never_spot=lambda: server.fault("skus.list", after=changed(never_spot)),
    )


def openstack_site(request: pytest.FixtureRequest) -> Site:
    """The cloud itself lists its flavors: there are no newer ones."""
    text = files.of_openstack(request.getfixturevalue("openstack"))
    return Site("openstack", text, known="m1.small", typo="m1.smal")


def libvirt_site(request: pytest.FixtureRequest) -> Site:
    """A hypervisor has no sizes of its own."""
    request.getfixturevalue("hypervisor")
    return Site("libvirt", files.of_libvirt(), known="small")


OWN_TABLE = {"ec2": ec2_site, "gce": gce_site, "azure": azure_site}
LISTED = {**OWN_TABLE, "openstack": openstack_site}
SITES = {**LISTED, "libvirt": libvirt_site}
DESCRIBED = ("openstack", pytest.param("libvirt", marks=pytest.mark.server("libvirt")))


@pytest.fixture
def site(request: pytest.FixtureRequest) -> Site:
    return SITES[request.param](request)


def on(*names: object) -> Any:
    return pytest.mark.parametrize("site", names, indirect=True)


def section(name: str, **fields: object) -> str:
    lines = "\n".join(f"{key} = {value}" for key, value in fields.items())
    return f"[Size {name}]\n{lines}\n"


ALONE = {"cores": 1, "ram": 512, "price": 0.02}
"""Enough for a size that nobody lists, and less than each size of the clouds here has."""


def checked(tmp_path: Path, site: Site, sizes: str, daemon: str = "") -> tuple[Config, str]:
    """What check-config makes of the file, and its warnings."""
    config, warnings = check(files.write(tmp_path, site.provider, site.text + sizes, daemon))
    return config, "\n".join(warnings)


def found(tmp_path: Path, site: Site, sizes: str, name: str) -> Found:
    """What check-cloud says in the check of that name."""
    return files.asked(tmp_path, site.provider, site.text + sizes)[name].found


# check-config.


@on(*OWN_TABLE)
def test_check_config_names_the_size_that_was_meant(tmp_path: Path, site: Site) -> None:
    with pytest.raises(ConfigError) as caught:
        checked(tmp_path, site, section("small", instance_type=site.typo))
    (problem,) = caught.value.problems
    assert f"instance_type = {site.typo}: " in problem
    assert f"did you mean '{site.known}'?" in problem


@on(*DESCRIBED)
def test_check_config_says_that_a_size_must_be_described(tmp_path: Path, site: Site) -> None:
    with pytest.raises(ConfigError, match="cores, ram and price"):
        checked(tmp_path, site, section("small", instance_type=site.known))


@on(*OWN_TABLE)
def test_check_config_takes_a_size_newer_than_our_table_that_is_described(
    tmp_path: Path, site: Site
) -> None:
    config, _ = checked(tmp_path, site, section("new", instance_type=site.new, **ALONE))
    with closing(adapters.build_cloud(config, ManualClock())) as cloud:
        (size,) = sizes_of(config, cloud)
    assert (size.name, size.instance_type, size.cores, size.price) == ("new", site.new, 1, 0.02)


@on(*OWN_TABLE)
def test_check_config_tells_of_a_size_that_the_price_cap_never_lets_boot_s4(
    tmp_path: Path, site: Site
) -> None:
    unpriced = site.known if site.provider != "ec2" else "c5.9xlarge"
    sizes = section("dear", instance_type=unpriced) + section(
        "cheap", instance_type=site.known, price=1
    )
    _, warnings = checked(tmp_path, site, sizes, "max_total_price = 2")
    assert "[Size dear]" in warnings
    assert "[Size cheap]" not in warnings
    _, warnings = checked(tmp_path, site, sizes)
    assert "[Size dear]" not in warnings


@on("gce", "azure")
def test_check_config_tells_that_nothing_can_boot_below_the_price_cap_s4(
    tmp_path: Path, site: Site
) -> None:
    _, warnings = checked(tmp_path, site, "", "max_total_price = 2")
    assert "max_total_price" in warnings


@on(*DESCRIBED)
def test_a_cloud_without_preemptible_nodes_says_so(tmp_path: Path, site: Site) -> None:
    spot = section("spot", instance_type=site.known, preemptible="yes", **ALONE)
    with pytest.raises(ConfigError) as caught:
        checked(tmp_path, site, spot)
    (problem,) = caught.value.problems
    assert "[Size spot] preemptible = yes: " in problem


# check-cloud.


@on(*LISTED)
def test_check_cloud_fails_for_a_described_size_that_the_cloud_does_not_have(
    tmp_path: Path, site: Site
) -> None:
    sizes = section("small", instance_type=site.typo, **ALONE)
    answers = files.asked(tmp_path, site.provider, site.text + sizes)
    assert f"did you mean '{site.known}'?" in answers["size small"].found.text
    assert answers[OFFER.format(site.typo)].found.mark is CheckStatus.FAILED


@on(*OWN_TABLE)
def test_check_cloud_finds_a_size_newer_than_our_table(tmp_path: Path, site: Site) -> None:
    sizes = section("new", instance_type=site.new, **ALONE)
    answers = files.asked(tmp_path, site.provider, site.text + sizes)
    ours, own = answers["size new"].found, answers[OFFER.format(site.new)].found
    assert (ours.mark, own.mark) == (CheckStatus.WARNING, CheckStatus.FINE)
    assert f"this version knows no {site.new}" in ours.text
    assert "2 cores" in own.text


@on(*LISTED)
def test_check_cloud_warns_of_a_size_that_promises_more_than_the_cloud_has(
    tmp_path: Path, site: Site
) -> None:
    for more in ({"cores": 4096}, {"ram": 99_999_999}):
        said = found(
            tmp_path,
            site,
            section("huge", instance_type=site.known, **{**ALONE, **more}),
            OFFER.format(site.known),
        )
        assert said.mark is CheckStatus.WARNING, said
        assert "[Size huge]" in said.text + said.to_do


# Spot beside on-demand.


def both(site: Site, first: str) -> str:
    """Two sizes of one instance type; `first` says which of them the file has first."""
    kinds = {"plain": {}, "spot": {"preemptible": "yes"}}
    order = [first, *({*kinds} - {first})]
    prices = {"plain": 0.10, "spot": 0.03}
    return "".join(
        section(one, instance_type=site.known, **{**ALONE, "price": prices[one]}, **kinds[one])
        for one in order
    )


@pytest.mark.parametrize("first", ["plain", "spot"])
@on("ec2", "azure")
def test_the_cloud_is_asked_whether_a_type_can_be_spot_beside_on_demand(
    tmp_path: Path, site: Site, first: str
) -> None:
    asked = (tmp_path, site, both(site, first), OFFER.format(site.known))
    assert found(*asked).mark is CheckStatus.FINE
    site.never_spot()
    said = found(*asked)
    assert (said.mark, "never as a spot node" in said.text) == (CheckStatus.FAILED, True)


@on(*OWN_TABLE)
def test_a_spot_size_beside_an_on_demand_one_of_the_same_type_is_ordered_and_known_again_u11(
    tmp_path: Path, site: Site
) -> None:
    config, _ = checked(tmp_path, site, both(site, "plain"))
    with closing(adapters.build_cloud(config, ManualClock())) as cloud:
        sizes = Sizes(sizes_of(config, cloud))
        assert [size.name for size in sizes.by_price] == ["spot", "plain"]
        for size in sizes.by_price:
            cloud.create(order_for(f"compute-{size.name}", size, pool="mine"))
        assert site.ordered_as_spot() == [True, False]
        known = {sizes.called(node) for node in cloud.list_nodes().items}
        assert known == {"spot", "plain"}


@on(*LISTED)
def test_a_size_of_unknown_price_sorts_last_and_none_is_free_s4(tmp_path: Path, site: Site) -> None:
    sizes = section("small", instance_type=site.known, **ALONE)
    config, _ = checked(tmp_path, site, sizes)
    with closing(adapters.build_cloud(config, ManualClock())) as cloud:
        own = cloud.list_sizes()
        assert 0 not in {size.price for size in own}
        by_price = Sizes((*own, *sizes_of(config, cloud))).by_price
        unpriced = [size.price is None for size in by_price]
        assert unpriced == sorted(unpriced)
        assert not unpriced[0]
