"""Single values: what each option takes, and what it is told of the rest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.config import kinds, load
from nodemanager.config.values import Listen, ServerAddress
from nodemanager.errors import ConfigError
from tests.cases import cases
from tests.config.conftest import Read, Refused


@cases(
    ("text", "seconds"),
    {
        "seconds": ("90", 90.0),
        "fraction": ("0.5", 0.5),
        "s": ("90s", 90.0),
        "m": ("30m", 1800.0),
        "h": ("2h", 7200.0),
        "fraction-space-capital": ("1.5 H", 5400.0),
        "d": ("1d", 86400.0),
    },
)
def test_a_duration_is_seconds_or_has_a_unit(read: Read, text: str, seconds: float) -> None:
    assert read(f"[Arvados]\ntimeout = {text}\n").arvados.timeout == seconds


DURATIONS = (
    ("Daemon", "poll_time"),
    ("Daemon", "max_poll_time"),
    ("Daemon", "poll_stale_after"),
    ("Daemon", "boot_fail_after"),
    ("Daemon", "node_stale_after"),
    ("Daemon", "watchdog"),
    ("Arvados", "timeout"),
    ("Cleaning", "settle"),
    ("Cleaning", "action_timeout"),
    ("Cleaning", "visible_after"),
    ("Journal", "keep"),
)


@pytest.mark.parametrize("value", ["0", "-1", "0m", "nan", "inf", "-inf", "1e999", "soon", "1h30"])
def test_a_duration_that_is_none_is_refused_with_file_and_line(
    refused: Refused, value: str
) -> None:
    for section, name in DURATIONS:
        (problem,) = refused(f"\n[{section}]\n{name} = {value}\n")
        assert problem.startswith(f"3: [{section}] {name} = {value}: ")


@given(st.text(max_size=12))
def test_whatever_is_read_as_a_duration_is_a_finite_positive_number(text: str) -> None:
    try:
        seconds = kinds.duration().parse(text)
    except ValueError:
        return
    assert 0 < seconds <= kinds.LONGEST_S


@given(st.floats(min_value=0.001, max_value=1e8))
def test_a_duration_that_is_shown_can_be_read_again(seconds: float) -> None:
    kind = kinds.duration()
    assert kind.parse(kind.show(seconds)) == seconds


def test_a_boot_that_may_take_for_ever_loads_as_the_forerunner_had_it(read: Read) -> None:
    assert read("[Daemon]\nboot_fail_after = 9223372036854775807\n").daemon.boot_fail_after > 1e18


@cases(
    ("section", "option", "value"),
    {
        "min-nodes-0": ("Daemon", "min_nodes", "0"),
        "drain": ("Daemon", "max_nodes", "0"),
        "no-cap": ("Daemon", "max_total_price", "0"),
        "no-server": ("Manage", "port", "-1"),
        "any-port": ("Manage", "port", "0"),
        "token-to-be-made": ("Manage", "ManagementToken", ""),
        "serve-nothing": ("Registry", "listen", ""),
        "the-adapters-own": ("Cleaning", "visible_after", ""),
        "no-wishlist": ("Daemon", "wishlist_command", ""),
        "window-at-once": ("Cloud", "shutdown_windows", "0, 5, 1"),
    },
)
def test_zero_minus_one_and_blank_load_where_they_mean_something(
    read: Read, section: str, option: str, value: str
) -> None:
    header = "" if section == "Cloud" else f"[{section}]"
    config = read(f"[Cloud]\nprovider = dummy\n{header}\n{option} = {value}\n", cloud=False)
    assert config.origin(section, option) == f"{config.path}:4"


@cases(
    ("section", "option", "value"),
    {
        "negative-nodes": ("Daemon", "min_nodes", "-1"),
        "half-a-node": ("Daemon", "max_nodes", "2.5"),
        "not-ascii-digit": ("Daemon", "max_nodes", "\u0663"),
        "negative-price": ("Daemon", "max_total_price", "-1"),
        "infinite-price": ("Daemon", "max_total_price", "inf"),
        "no-memory": ("Daemon", "node_mem_scaling", "0"),
        "more-than-all-memory": ("Daemon", "node_mem_scaling", "1.1"),
        "never-seen-idle": ("Daemon", "consecutive_idle_count", "0"),
        "space-in-pool": ("Daemon", "pool", "a b"),
        "dash-first": ("Daemon", "pool", "-a"),
        "relative-path": ("Daemon", "state_dir", "state"),
        "open-quote": ("Daemon", "wishlist_command", "sh -c 'a"),
        "unknown-dispatcher": ("Daemon", "dispatcher", "pbs"),
        "port-too-high": ("Manage", "port", "65536"),
        "level": ("Logging", "level", "LOUD"),
        "format": ("Logging", "format", "xml"),
        "neither-yes-nor-no": ("Arvados", "insecure", "maybe"),
        "scheme": ("Arvados", "host", "ftp://a"),
        "port-placeholder": ("Arvados", "host", "a:port"),
        "query": ("Arvados", "host", "https://a/?b"),
        "store": ("Records", "provider", "mysql"),
        "no-slot-arvados": ("Records", "slots", "0"),
        "no-slot-registry": ("Registry", "slots", "0"),
        "listen-without-address": ("Registry", "listen", "8990"),
        "listen-bare-ipv6": ("Registry", "listen", "::1:8990"),
        "no-domain": ("Registry", "domain", "a b/c"),
        "a-domain-with-a-hole": ("Registry", "domain", "lab..net"),
        "one-name-for-all": ("Registry", "hostname", "compute"),
        "unknown-field": ("Registry", "hostname", "compute%(slot)d"),
        "no-host-name": ("Registry", "hostname", "a_%(slot_number)d"),
        "no-url": ("Registry", "database", "registry.db"),
        "relative-database": ("Registry", "database", "sqlite:///registry.db"),
        "all-may-collapse": ("Cleaning", "collapse_fraction", "1"),
        "none-may": ("Cleaning", "collapse_fraction", "0"),
        "no-cleans": ("Cleaning", "max_cleans_per_cycle", "0"),
        "no-listing": ("Cleaning", "absent_listings", "0"),
        "backlog": ("Cleaning", "backlog", "purge"),
    },
)
def test_a_value_out_of_bounds_is_refused(
    refused: Refused, section: str, option: str, value: str
) -> None:
    problems = refused(f"[{section}]\n{option} = {value}\n")
    assert [p for p in problems if p.startswith(f"2: [{section}] {option} = ")] == problems[:1]


@pytest.mark.parametrize("windows", ["54", "54, 0, 6", "54, -1", "a, b", "1,,2", "1, nan", ""])
def test_shutdown_windows_that_never_open_or_are_no_minutes_are_refused(
    refused: Refused, windows: str
) -> None:
    (problem,) = refused(f"[Cloud]\nprovider = dummy\nshutdown_windows = {windows}\n", cloud=False)
    assert problem.startswith("3: [Cloud] shutdown_windows =")


@cases(
    ("written", "url"),
    {
        "host": ("a.example", "https://a.example"),
        "host-and-port": ("a.example:8443", "https://a.example:8443"),
        "ipv6": ("[2001:db8::1]:8443", "https://[2001:db8::1]:8443"),
        "loopback-http": ("http://127.0.0.1:8000/", "http://127.0.0.1:8000"),
        "url": ("https://a.example/base/", "https://a.example/base"),
    },
)
def test_a_host_is_https_unless_it_is_a_whole_url(read: Read, written: str, url: str) -> None:
    host = read(f"[Arvados]\ntoken = t\nhost = {written}\n").arvados.host
    assert host is not None
    assert host.url == url


def test_a_close_word_is_suggested_for_a_choice(refused: Refused) -> None:
    assert refused("[Cleaning]\nbacklog = cleen\n") == [
        "2: [Cleaning] backlog = cleen: must be hold or clean; did you mean 'clean'?"
    ]


def test_levels_may_be_set_for_each_logger_whose_name_is_kept_as_written(
    read: Read, refused: Refused
) -> None:
    config = read("[Logging]\npykka = warning\nsqlalchemy.Engine = WARN\n")
    assert config.log_levels == {"pykka": "WARNING", "sqlalchemy.Engine": "WARNING"}
    assert refused("[Logging]\nfiel = /tmp/x\npykka = DEBG\n") == [
        "2: [Logging] fiel = /tmp/x: no log level; one of DEBUG, INFO, WARNING, ERROR, CRITICAL; "
        "did you mean 'file'?",
        "3: [Logging] pykka = DEBG: no log level; did you mean 'DEBUG'?",
    ]


def test_a_wishlist_command_is_words_and_no_shell(read: Read) -> None:
    config = read("[Daemon]\nwishlist_command = /bin/x 'a b' $HOME\n")
    assert config.daemon.wishlist_command == ("/bin/x", "a b", "$HOME")


def test_defaults_follow_from_the_file_name_the_environment_and_each_other(read: Read) -> None:
    config = read("[Daemon]\npoll_time = 10\nnodelist_poll_time = 20\n")
    assert config.daemon.pool == "pool"
    assert config.daemon.cloudlist_poll_time == 10
    assert config.daemon.nodelist_poll_time == 20
    assert config.daemon.state_dir == Path("/var/lib/nodemanager/pool")
    assert config.registry.database.reveal() == "sqlite:////var/lib/nodemanager/pool/registry.db"
    assert config.registry.listen == Listen("127.0.0.1", 8990)
    moved = read("", environ={"STATE_DIRECTORY": "/run/state:/other"})
    assert moved.registry.database.reveal() == "sqlite:////run/state/registry.db"


def test_a_file_name_that_makes_no_pool_name_asks_for_one(file: Callable[..., Path]) -> None:
    path = file("", name="my pool.cfg")
    with pytest.raises(ConfigError, match="set it in the file"):
        load(path, environ={})


def test_a_longest_poll_above_five_minutes_raises_the_cap_by_default(read: Read) -> None:
    config = read("[Daemon]\npoll_time = 600\npoll_stale_after = 2000\n[Cleaning]\nsettle = 600\n")
    assert config.daemon.max_poll_time == 600
    assert config.warnings == ()


@cases(
    ("written", "said"),
    {
        "no-scheme": ("pool.example", "write it whole"),
        "a-path": ("https://pool.example/nodes", "must have no path"),
        "another-scheme": ("ftp://pool.example", "must be http or https"),
        "no-host": ("https://", "write host"),
    },
)
def test_a_public_url_is_a_whole_url_without_a_path(
    refused: Refused, written: str, said: str
) -> None:
    (problem,) = refused(f"[Manage]\npublic_url = {written}\n")
    assert f"2: [Manage] public_url = {written}: {said}" in problem


def test_an_endpoint_of_ipv6_has_brackets_again() -> None:
    assert ServerAddress("https", "::1", 80).url == "https://[::1]:80"


def test_a_wrong_value_of_a_size_is_told_with_the_size_s_name(refused: Refused) -> None:
    """O13."""
    (problem,) = refused("[Size big]\ncores = two\n")
    assert problem == "2: [Size big] cores = two: not a whole number"


def test_the_features_and_resources_of_a_size_are_lists(read: Read, refused: Refused) -> None:
    (size,) = read("[Size big]\nfeatures = ssd, rack1\ngres = gpu:t4:4, license\n").sizes
    assert size.features == ("ssd", "rack1")
    assert size.gres == (("gpu", 4), ("gpu:t4", 4), ("license", 1))
    (problem,) = refused("[Size big]\nfeatures = ssd&rack1\n")
    assert problem.endswith("write names, separated by commas")
    (problem,) = refused("[Size big]\ngres = 4\n")
    assert "no resource" in problem


def test_a_size_says_what_it_replaces(read: Read) -> None:
    """Memory and scratch space in MB, as the forerunner's files give them (N3)."""
    (size,) = read("[Size big]\ncores = 4\nram = 8192\nscratch = 100000\nprice = .5\n").sizes
    assert (size.cloud_id, size.cores, size.ram_mb, size.scratch_mb) == (
        "big",
        4,
        8192,
        100000,
    )
    assert (size.price, size.preemptible, size.stands_alone) == (0.5, None, True)


def test_a_section_of_several_instance_types_is_a_size_for_each(read: Read) -> None:
    config = read("[Size any]\ninstance_types = m5.large, m6i.large\ncores = 2\nprice = 1\n")
    assert [(one.name, one.cloud_id, one.cores, one.group) for one in config.sizes] == [
        ("any/m5.large", "m5.large", 2, "any"),
        ("any/m6i.large", "m6i.large", 2, "any"),
    ]
    # What is told of any of them names the section that the file has.
    assert {config.places[f"Size {one.name}", "cores"].section for one in config.sizes} == {
        "Size any"
    }


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "[Size any]\ninstance_type = c\ninstance_types = a, b\n",
            "3: [Size any] instance_types = a, b: "
            "[Size any] instance_type = c (line 2) contradicts this",
        ),
        (
            "[Size any]\ninstance_types = a, b\nspare_nodes = 1\n",
            "3: [Size any] spare_nodes = 1: give it to the [Size] of one instance type: each of "
            "these would keep so many",
        ),
        (
            "[Size any/a]\n[Size any]\ninstance_types = a, b\n",
            "3: [Size any] instance_types = a, b: [Size any/a] is a section already",
        ),
        (
            "[Size any]\ninstance_types = a, b\n[Size  any]\ncores = 1\n",
            "3: [Size  any]: this size has a section already",
        ),
    ],
)
def test_instance_types_that_contradict_another_option_are_told(
    refused: Refused, text: str, told: str
) -> None:
    assert refused(text) == [told]


@cases(
    ("text", "size"),
    {
        "bytes": ("8388608", 8 << 20),
        "k": ("9000k", 9000 << 10),
        "m": ("64 M", 64 << 20),
        "g": ("2G", 2 << 30),
    },
)
def test_a_size_is_bytes_or_has_a_unit(read: Read, text: str, size: int) -> None:
    config = read(f"[Journal]\nmax_size = {text}\n")
    assert config.journal.max_size == size
    assert kinds.size(0).parse(kinds.show_size(size)) == size


@pytest.mark.parametrize("value", ["7M", "0", "-1", "64MB", "1.5G", "much"])
def test_a_size_that_is_none_or_too_small_is_refused(refused: Refused, value: str) -> None:
    (problem,) = refused(f"\n[Journal]\nmax_size = {value}\n")
    assert problem.startswith(f"3: [Journal] max_size = {value}: ")


def test_the_journal_is_in_the_state_directory_unless_it_is_told(read: Read) -> None:
    at_home = read("[Daemon]\nstate_dir = /srv/nm\n").journal
    assert (str(at_home.path), at_home.keep) == ("/srv/nm/journal.db", 7 * 86400.0)
    assert str(read("[Journal]\npath = /data/j.db\n").journal.path) == "/data/j.db"


def test_a_public_url_that_would_show_the_token_is_warned_of(read: Read) -> None:
    for url, warns in (("http://registry.example", True), ("https://registry.example", False)):
        config = read(f"[Registry]\npublic_url = {url}\n")
        told = [line for line in config.warnings if "the registry's token in plain http" in line]
        assert bool(told) is warns
