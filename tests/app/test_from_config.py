"""From a configuration to sizes, settings, user data, and the secrets that the log hides."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from nodemanager.app import from_config
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import Claim, Guarantee, Record, Size
from nodemanager.errors import ConfigError
from tests.cases import cases
from tests.conftest import Configured
from tests.fakes import FakeCloud, FakeStore, TickingClock


@pytest.fixture
def cloud() -> FakeCloud:
    return FakeCloud(TickingClock())


# Sizes (S4).


def test_without_size_sections_all_of_the_clouds_sizes_may_be_booted(
    configured: Configured, cloud: FakeCloud
) -> None:
    assert from_config.sizes_of(configured(), cloud) == cloud.sizes


def test_a_size_section_chooses_and_corrects_what_the_cloud_lists(
    configured: Configured, cloud: FakeCloud
) -> None:
    config = configured("[Size tiny]\ninstance_type = small\nprice = 0.05\npreemptible = yes\n")
    listed = cloud.sizes[0]
    assert from_config.sizes_of(config, cloud) == (
        dataclasses.replace(listed, name="tiny", price=0.05, preemptible=True),
    )


def test_a_size_the_cloud_does_not_list_must_be_described(
    configured: Configured, cloud: FakeCloud
) -> None:
    config = configured("[Size new]\ncores = 2\nram = 4000\n[Size newer]\n")
    with pytest.raises(ConfigError) as caught:
        from_config.sizes_of(config, cloud)
    assert [problem.split(": ")[1] for problem in caught.value.problems] == [
        "[Size new] instance_type = new",
        "[Size newer] instance_type = newer",
    ]


def test_a_size_that_is_described_needs_no_cloud_to_list_it(
    configured: Configured, cloud: FakeCloud
) -> None:
    config = configured("[Size new]\ncores = 2\nram = 4000\nprice = 1\n")
    new = Size("new", "new", cores=2, ram_mb=4000, price=1.0, ram_is_given=True)
    assert from_config.sizes_of(config, cloud) == (new,)


def test_each_of_several_instance_types_has_what_the_cloud_says_of_it(
    configured: Configured, cloud: FakeCloud
) -> None:
    config = configured("[Size any]\ninstance_types = large, small\npreemptible = yes\n")
    small, large = cloud.sizes
    assert (small.name, large.name) == ("small", "large")
    more = {"preemptible": True, "group": "any"}
    assert from_config.sizes_of(config, cloud) == (
        dataclasses.replace(large, name="any/large", **more),
        dataclasses.replace(small, name="any/small", **more),
    )
    config = configured("[Size any]\ninstance_types = large, smal\n")
    with pytest.raises(ConfigError) as caught:
        from_config.sizes_of(config, cloud)
    (problem,) = caught.value.problems
    assert "[Size any/smal] instance_type = smal: this version knows no such size" in problem


def test_a_size_is_booted_in_its_own_places_else_in_those_of_the_cloud(
    configured: Configured, cloud: FakeCloud
) -> None:
    given = "cores = 2\nram = 4000\nprice = 1\n"
    sizes = (
        f"[Size shared]\n{given}place_order = spread\n",
        f"[Size own]\n{given}places = z-3\n",
    )
    config = configured(f"places = z-1, z-2\n{''.join(sizes)}", provider="ec2")
    shared, own = from_config.sizes_of(config, cloud)
    assert (shared.places, shared.spread) == (("z-1", "z-2"), True)
    assert (own.places, own.spread) == (("z-3",), False)
    places = dict.fromkeys(("z-1", "z-2"), "[Cloud] places")
    assert from_config.named_places(config) == {**places, "z-3": "[Size own] places"}
    every = dataclasses.replace(config, sizes=())
    assert {size.places for size in from_config.sizes_of(every, cloud)} == {("z-1", "z-2")}


@cases(
    ("price", "warned"),
    {"dearer": ("0.5", True), "at-the-cap": ("0.4", False), "by-the-cloud": (None, True)},
)
def test_a_size_that_costs_more_than_the_cap_is_a_warning(
    configured: Configured, cloud: FakeCloud, price: str | None, warned: bool
) -> None:
    given = "" if price is None else f"price = {price}\n"
    config = configured(f"[Size large]\n{given}", daemon="max_total_price = 0.4\n")
    advice = from_config.advice_on_prices(config, from_config.sizes_of(config, cloud))
    assert len(advice) == warned
    if warned:
        assert f"[Size large] price: one node costs {price or '0.8'} per hour" in advice[0]


@cases(
    ("text", "warned"),
    {
        "power-saving": ("[Records]\nprovider = slurm\n", True),
        "with-it": ("[Records]\nprovider = slurm\n[Cloud Create]\nuser_data = /x\n", False),
        "nodes-that-ping": ("[Records]\nprovider = registry\n", False),
    },
)
def test_power_saving_without_user_data_is_a_warning(
    configured: Configured, text: str, warned: bool
) -> None:
    advice = from_config.advice_on_power_saving(configured(text, daemon="dispatcher = slurm\n"))
    assert len(advice) == warned
    assert not warned or "slurmd -N" in advice[0]


# Settings.


def test_every_setting_comes_from_the_file_or_an_adapter(
    configured: Configured, cloud: FakeCloud
) -> None:
    config = configured(
        "shutdown_windows = 54, 5, 1\n"
        "[Cleaning]\nsettle = 90\nabsent_listings = 3\ncollapse_fraction = 0.5\n"
        "max_cleans_per_cycle = 7\nmax_shutdowns_per_cycle = 2\naction_timeout = 600\n"
        "max_retry_after = 30m\n"
        "claim_expiry = off\nadopt_unclaimed = no\n",
        daemon="node_stale_after = 1h\npoll_stale_after = 5m\nboot_fail_after = 20m\n"
        "min_nodes = 1\nmax_nodes = 9\nmax_total_price = 3.5\nmax_poll_time = 100\n"
        "consecutive_idle_count = 4\nnode_mem_scaling = 0.8\nwishlist_command = /bin/true\n",
    )
    store = FakeStore(TickingClock(), guarantee=Guarantee.FENCED)
    made = from_config.settings_of(config, cloud, store)
    assert made == Settings(
        pool="pool",
        adopt_unclaimed=False,
        node_stale_after=3600.0,
        poll_stale_after=300.0,
        boot_fail_after=1200.0,
        settle=90.0,
        absent_listings=3,
        collapse_fraction=0.5,
        max_cleans_per_cycle=7,
        max_shutdowns_per_cycle=2,
        action_timeout=600.0,
        visible_after=300.0,
        claim_expiry=False,
        ids_unique=True,
        may_authorise=True,
        compare_and_set=False,
        demand_polled=True,
        min_nodes=1,
        max_nodes=9,
        max_total_price=3.5,
        max_poll_time=100.0,
        max_retry_after=1800.0,
        consecutive_idle_count=4,
        node_mem_scaling=0.8,
        shutdown_windows=(54 * 60.0, 5 * 60.0, 60.0),
        sizes=cloud.sizes,
    )


def test_visible_after_is_the_clouds_unless_the_file_says(
    configured: Configured, cloud: FakeCloud
) -> None:
    store = FakeStore(TickingClock())
    cloud.visible_after = 17.0
    assert from_config.settings_of(configured(), cloud, store).visible_after == 17.0
    given = configured("[Cleaning]\nvisible_after = 40\n")
    assert from_config.settings_of(given, cloud, store).visible_after == 40.0


@pytest.mark.parametrize("unproven", ["cloud", "store"])
def test_one_adapter_that_proves_nothing_may_not_authorise(
    configured: Configured, cloud: FakeCloud, unproven: str
) -> None:
    store = FakeStore(TickingClock())
    (cloud if unproven == "cloud" else store).may_authorise = False
    assert not from_config.settings_of(configured(), cloud, store).may_authorise


def test_a_reload_asks_the_cloud_nothing(configured: Configured, cloud: FakeCloud) -> None:
    sizes = (Size("mine", "mine", cores=1, ram_mb=1),)
    made = from_config.settings_of(configured(), cloud, FakeStore(TickingClock()), sizes)
    assert made.sizes == sizes
    assert sum(cloud.calls.values()) == 0


# User data.

RECORD = Record(
    "zzzzz-7ekkf-000000000000001",
    "1",
    hostname="compute1",
    claim=Claim("pool", "me", 0, 0.0, "a-node", "feed" * 8),
)


def test_without_a_template_the_user_data_is_the_bare_ping_url(configured: Configured) -> None:
    assert from_config.user_data_of(configured())(RECORD, "http://ping?x=1") == "http://ping?x=1"


def test_a_template_is_filled_in_and_its_other_braces_are_left(
    configured: Configured, tmp_path: Path
) -> None:
    template = tmp_path / "user-data"
    template.write_text(
        "#!/bin/sh\nf() { echo ${HOME}; }\nping {ping_url} {record} {hostname} {incarnation}\n",
        encoding="utf-8",
    )
    render = from_config.user_data_of(configured(f"[Cloud Create]\nuser_data = {template}\n"))
    assert render(RECORD, "http://p/{record}?s=1") == (
        "#!/bin/sh\nf() { echo ${HOME}; }\n"
        f"ping http://p/{{record}}?s=1 {RECORD.uuid} compute1 {'feed' * 8}\n"
    )


@cases(
    ("content", "problem"),
    {
        "no-ping-url": (b"echo hello\n", "has no {ping_url}"),
        "not-text": (b"\xff{ping_url}", "can't be read"),
        "missing": (None, "can't be read"),
    },
)
def test_a_template_that_can_not_be_used_is_named_with_its_line(
    configured: Configured, tmp_path: Path, content: bytes | None, problem: str
) -> None:
    template = tmp_path / "user-data"
    if content is not None:
        template.write_bytes(content)
    config = configured(f"[Cloud Create]\nuser_data = {template}\n")
    with pytest.raises(ConfigError) as caught:
        from_config.user_data_of(config)
    assert caught.value.problems[0].startswith(f"{config.path}:7: [Cloud Create] user_data = ")
    assert problem in caught.value.problems[0]


# Secrets.


def test_a_machine_without_slurms_programs_is_told_of(
    configured: Configured, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configured(daemon="dispatcher = slurm")
    monkeypatch.setenv("PATH", "/nowhere")
    (advice,) = from_config.advice_on_scheduler(config)
    assert "[Daemon] dispatcher = slurm: there is no sinfo, squeue, scontrol here" in advice
    assert from_config.advice_on_scheduler(configured()) == []


def test_every_secret_of_the_file_is_told_to_the_log(configured: Configured) -> None:
    config = configured(
        "[Cloud Credentials]\nkey = AKIA0000\nsecret = cloud-secret-1\n"
        "session_token = cloud-token-1\n"
        "[Manage]\nport = 0\nManagementToken = manage-token-1\n"
        "[Arvados]\nhost = https://arvados.example\ntoken = arvados-token-1\n"
        "[Registry]\ntoken = registry-token-1\n"
        "database = postgresql://me:pass%%40word1@db.example/registry\n".replace("%%", "%"),
        provider="ec2",
    )
    secrets = from_config.secrets_of(config)
    assert {
        "cloud-secret-1",
        "cloud-token-1",
        "manage-token-1",
        "arvados-token-1",
        "registry-token-1",
        "pass%40word1",
        "pass@word1",
    } <= set(secrets)
