"""What is in force and where it came from; what a reload changes; whose keys are whose."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nodemanager.config import diff, located, reloaded, show
from nodemanager.config.providers import PROVIDERS
from nodemanager.config.sections import SECTIONS
from nodemanager.config.views import Change, EffectiveSetting, changes_cloud
from tests.config.conftest import Read, Refused

ACCEPTED = {
    "Cloud Credentials": frozenset({"key", "secret"}),
    "Cloud List": frozenset({"vpc-id", "tag_*"}),
    "Cloud Create": frozenset({"image_id"}),
}


def test_every_setting_is_shown_with_where_it_came_from(read: Read) -> None:
    config = read(
        "[Daemon]\nmax_nodes = 2\npoll_stale_after = 2h\n[Logging]\npykka = DEBUG\n"
        "[Cloud Credentials]\nkey = k\n[Cloud List]\ntag_a = b\n[Size m]\nprice = 1.50\n"
    )
    rows = show(config)
    names = {(row.section, row.option) for row in rows}
    assert {(s.name, o.name) for s in SECTIONS for o in s.options} <= names
    path = config.path
    for row in (
        EffectiveSetting("Daemon", "max_nodes", "2", f"{path}:2"),
        EffectiveSetting("Daemon", "min_nodes", "0", "default"),
        EffectiveSetting("Daemon", "poll_stale_after", "3600", "adjusted"),
        EffectiveSetting("Logging", "pykka", "DEBUG", f"{path}:5"),
        EffectiveSetting("Cloud Credentials", "key", "***", f"{path}:7"),
        EffectiveSetting("Cloud List", "tag_a", "b", f"{path}:9"),
        EffectiveSetting("Size m", "price", "1.50", f"{path}:11"),
    ):
        assert row in rows


def test_what_is_shown_of_an_option_can_be_read_again(read: Read) -> None:
    config = read("[Registry]\nlisten = [::1]:8990\n[Daemon]\nwishlist_command = /bin/x 'a b'\n")
    for section in SECTIONS:
        for option in section.options:
            value = getattr(getattr(config, section.attribute), option.attribute)
            if not option.kind.secret:
                assert option.kind.parse(option.kind.show(value)) == value, option.name


def test_a_reload_tells_each_changed_option_and_whether_it_may(read: Read) -> None:
    old = read("[Daemon]\nmax_nodes = 2\n[Registry]\ntoken = a\n[Cloud List]\ntag_a = b\n")
    new = read("[Daemon]\nmax_nodes = 3\n[Registry]\ntoken = b\n[Size m]\ncores = 2\n")
    assert diff(old, new) == [
        Change("Daemon", "max_nodes", "2", "3", True),
        Change("Registry", "token", "***", "***", True),
        Change("Cloud List", "tag_a", "b", None, False),
        Change("Size m", "cores", None, "2", False),
    ]
    assert diff(old, old) == []


def test_windows_and_limits_can_be_reloaded_and_nothing_that_needs_a_restart() -> None:
    may = {o.name for section in SECTIONS for o in section.options if o.reload}
    assert {"node_stale_after", "max_nodes", "settle", "shutdown_windows", "poll_time"} <= may
    assert not may & {
        "pool",
        "state_dir",
        "port",
        "address",
        "listen",
        "database",
        "provider",
        "file",
        "slots",
    }


def test_a_running_daemon_takes_over_the_windows_and_limits_alone(read: Read) -> None:
    old = read("[Daemon]\nmax_nodes = 2\n[Manage]\nport = 1\n")
    new = read("[Daemon]\nmax_nodes = 3\nnode_stale_after = 300\n[Manage]\nport = 2\n")
    taken = reloaded(old, new)
    assert taken.daemon.max_nodes == 3
    assert taken.daemon.poll_stale_after == 150
    assert taken.origin("Daemon", "poll_stale_after") == "adjusted"
    assert taken.manage.port == 1
    assert taken.warnings == new.warnings
    assert not [change for change in diff(taken, new) if change.reloadable]


def test_all_tokens_are_read_again() -> None:
    secret = {o.name: o.reload for s in SECTIONS for o in s.options if o.kind.secret}
    assert secret == {
        "ManagementToken": True,
        "read_token": True,
        "token": True,
        # Another address may be another store.
        "database": False,
    }


EC2 = "[Cloud]\nprovider = ec2\n[Cloud Credentials]\nkey = k\nsecret = {secret}\n{more}"


def test_rotated_credentials_are_read_again_and_what_new_nodes_are_booted_from(read: Read) -> None:
    old = read(
        EC2.format(secret="a", more="[Cloud Create]\nimage_id = ami-1\nping_host = a\n"),
        cloud=False,
    )
    new = read(
        EC2.format(secret="b", more="[Cloud Create]\nimage_id = ami-2\nping_host = b\n"),
        cloud=False,
    )
    changes = diff(old, new)
    assert changes == [
        Change("Cloud Credentials", "secret", "***", "***", True),
        Change("Cloud Create", "image_id", "ami-1", "ami-2", True),
        Change("Cloud Create", "ping_host", "a", "b", False),
    ]
    assert changes_cloud(changes)
    assert not changes_cloud(changes[2:])
    taken = reloaded(old, new)
    assert taken.cloud_credentials["secret"] == "b"
    assert taken.cloud_create == {"image_id": "ami-2", "ping_host": "a"}
    assert not [change for change in diff(taken, new) if change.reloadable]


@pytest.mark.parametrize("key", ["secret", "certificate"])
def test_a_rotated_file_is_another_credential_though_its_name_is_the_same(
    read: Read, tmp_path: Path, key: str
) -> None:
    """`secret_file` names what we read, `certificate` what the cloud's own adapter reads."""
    file = tmp_path / "rotated"
    written = f"{key}_file = {file}" if key == "secret" else f"{key} = {file}"
    text = f"[Cloud]\nprovider = azure\n[Cloud Credentials]\n{written}\n"
    file.write_text("one")
    old = read(text, cloud=False)
    assert diff(old, read(text, cloud=False)) == []
    file.write_text("two")
    (change,) = diff(old, read(text, cloud=False))
    assert (change.option, change.new, change.reloadable) == (key, "***", True)


def test_only_a_regular_file_is_read_for_that(read: Read, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path, tmp_path / "missing", "/dev/zero"):
        config = read(
            f"[Cloud]\nprovider = azure\n[Cloud Credentials]\ncertificate = {path}\n", cloud=False
        )
        assert config.cloud_credentials.contents == {}


def test_a_cloud_that_is_in_this_process_is_not_connected_anew(read: Read) -> None:
    old, new = read(), read("[Cloud Credentials]\ncreds = a\n[Cloud Create]\nx = y\n")
    assert not changes_cloud(diff(old, new))
    assert reloaded(old, new).cloud_credentials == {}


def test_a_running_daemon_takes_over_what_the_file_says_of_its_sizes(read: Read) -> None:
    old = read(
        "[Daemon]\nmax_nodes = 2\n[Size m]\ncores = 1\nspare_nodes = 1\n[Size n]\ncores = 1\n"
    )
    new = read(
        "[Daemon]\nmax_nodes = 2\n[Size m]\ncores = 2\n[Size n]\ncores = 1\nspare_nodes = 2\n"
    )
    assert [(one.section, one.option, one.reloadable) for one in diff(old, new)] == [
        ("Size m", "cores", True),
        ("Size m", "spare_nodes", True),
        ("Size n", "spare_nodes", True),
    ]
    taken = reloaded(old, new)
    assert [(size.cores, size.spare_nodes) for size in taken.sizes] == [(2, None), (1, 2)]
    assert not [change for change in diff(taken, new) if change.reloadable]


def test_keys_that_the_adapter_does_not_take_are_told_like_any_other_mistake(
    refused: Refused,
) -> None:
    found = refused(
        "[Cloud Credentials]\nkye = x\nsecret = y\n[Cloud List]\ntag_a = b\n"
        "[Cloud Create]\nimage = z\nping_host = a.example\n",
        accepts=lambda provider: ACCEPTED,
    )
    assert found == [
        "2: [Cloud Credentials] kye = ***: the provider has no such key; did you mean 'key'?",
        "7: [Cloud Create] image = z: the provider has no such key; did you mean 'image_id'?",
    ]


def test_keys_are_checked_in_one_go_with_everything_else(refused: Refused, read: Read) -> None:
    asked = []

    def accepts(provider: str) -> dict[str, frozenset[str]] | None:
        asked.append(provider)
        return ACCEPTED if provider == "dummy" else None

    problems = refused("[Daemon]\nwatchdog = 0\n[Cloud List]\nvpc = b\n", accepts=accepts)
    assert problems == [
        "2: [Daemon] watchdog = 0: a duration must be above zero",
        "4: [Cloud List] vpc = b: the provider has no such key; did you mean 'vpc-id'?",
    ]
    assert asked == ["dummy"]


def test_a_cloud_without_an_adapter_is_a_problem_like_any_other(refused: Refused) -> None:
    problems = refused(
        "[Cloud]\nprovider = nimbus\n[Daemon]\nwatchdog = 0\n",
        cloud=False,
        accepts=lambda provider: None,
    )
    *others, last = PROVIDERS
    assert problems == [
        "2: [Cloud] provider = nimbus: there is no adapter for this cloud; there are "
        f"{', '.join(others)} and {last}",
        "4: [Daemon] watchdog = 0: a duration must be above zero",
    ]


def test_an_adapters_own_complaint_gets_its_file_and_line(read: Read) -> None:
    config = read("\n[Cloud Create]\nimage_id = x\n")
    assert located(config, ["[Cloud Create] image_id = x: no AMI", "[Cloud Create] spot: bad"]) == [
        f"{config.path}:3: [Cloud Create] image_id = x: no AMI",
        f"{config.path}:2: [Cloud Create] spot: bad",
    ]
