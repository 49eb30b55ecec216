"""The options that decisions are taken by, and other values for them."""

from __future__ import annotations

from typing import Any

import pytest

from nodemanager.config.deciding import DECIDING, VARIABLE, fields_of, find, varied
from nodemanager.config.options import Option
from nodemanager.core.model.settings import Settings
from nodemanager.errors import ConfigError
from tests.cases import cases
from tests.config.conftest import Read

SETTINGS = Settings("main", max_nodes=8)
OTHER = {
    "node_stale_after": ("3h", 10_800.0),
    "poll_stale_after": ("5m", 300.0),
    "boot_fail_after": ("1h", 3600.0),
    "min_nodes": ("2", 2),
    "max_nodes": ("9", 9),
    "max_total_price": ("4.5", 4.5),
    "consecutive_idle_count": ("3", 3),
    "node_mem_scaling": ("0.9", 0.9),
    "shutdown_windows": ("54, 5, 1", (3240.0, 300.0, 60.0)),
    "settle": ("2m", 120.0),
    "absent_listings": ("4", 4),
    "collapse_fraction": ("0.5", 0.5),
    "max_cleans_per_cycle": ("7", 7),
    "max_shutdowns_per_cycle": ("1", 1),
    "visible_after": ("10m", 600.0),
    "max_node_age": ("30d", 2_592_000.0),
    "claim_expiry": ("on", True),
    "adopt_unclaimed": ("yes", True),
    "backlog": ("clean", False),
}


def test_each_option_that_can_vary_fills_its_field() -> None:
    for one in VARIABLE:
        text, value = OTHER[one.name]
        made = varied(SETTINGS, [f"{one.section}.{one.name}={text}"], poll_s=60.0)
        assert made.changes == {one.field: value}
        assert varied(SETTINGS, [f"{one.name}={text}"], poll_s=60.0).changes == made.changes


@pytest.mark.parametrize("one", VARIABLE, ids=lambda one: one.name)
def test_a_file_fills_the_field_the_same_way(one: Option, read: Read) -> None:
    text, value = OTHER[one.name]
    # [Cloud] must say more than this option.
    section = f"[{one.section}]\n"
    head = section + "provider = dummy\n" if one.section == "Cloud" else section
    if one.name == "min_nodes":
        head += "max_nodes = 8\n"
    config = read(f"{head}{one.name} = {text}\n", cloud=one.section != "Cloud")
    assert fields_of(config)[one.field] == value


def test_the_value_in_force_given_again_changes_nothing() -> None:
    for one in DECIDING:
        value: Any = one.deciding.to_option(getattr(SETTINGS, one.field))
        assert one.deciding.to_field(value) == getattr(SETTINGS, one.field), one.name
        if one.deciding.fixed is None and one.name != "shutdown_windows":
            text = one.kind.show(value)
            assert varied(SETTINGS, [f"{one.name}={text}"]).changes == {}


def test_a_window_below_poll_freshness_halves_that_too_and_warns() -> None:
    made = varied(SETTINGS, ["node_stale_after=5m"], poll_s=60.0)
    assert made.changes == {"node_stale_after": 300.0, "poll_stale_after": 150.0}
    (warning,) = made.warnings
    assert "poll_stale_after = 600 (as recorded)" in warning
    assert warning.endswith("using poll_stale_after = 150")


def test_settle_below_one_recorded_poll_is_one_poll() -> None:
    settings = Settings("main", settle=90.0)
    made = varied(settings, ["settle=5"], poll_s=59.97)
    assert made.changes == {"settle": 59.9}
    assert made.warnings


def test_settle_of_one_poll_is_not_below_what_was_measured_of_it() -> None:
    made = varied(Settings("main", settle=3.0), ["settle=1"], poll_s=1.00024)
    assert made.changes == {"settle": 1.0}
    assert not made.warnings


@cases(
    ("text", "said"),
    {
        "no-value": ("settle", "--set:1: settle: write Section.option=value"),
        "no-name": ("=5", "write Section.option=value"),
        "near": ("setle=5", "no such option; did you mean 'settle'?"),
        "near-in-section": ("Cleaning.setle=5", "did you mean 'settle'?"),
        "no-section": ("Deamon.settle=5", "[Deamon]: no such section"),
        "other-section": ("Daemon.settle=5", "it belongs in [Cleaning]"),
        "zero": ("settle=0", "a duration must be above zero"),
        "actions": ("action_timeout=5", "actions take as long as recorded"),
        "polls": ("poll_time=5", "the recording has only the polls"),
        "slots": ("Registry.slots=9", "it stays as recorded"),
        "port": ("Manage.port=9", "no decision depends on it"),
        "sizes": ("Size m4.price=9", "a replay can't vary this"),
        "contradiction": ("min_nodes=9", "more nodes than"),
        "too-fresh": ("node_stale_after=90", "below two polls of"),
    },
)
def test_a_bad_value_is_refused_as_in_a_file(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        varied(SETTINGS, [text], poll_s=60.0)
    assert len(refused.value.problems) == 1
    assert said in refused.value.problems[0]


def test_every_problem_is_told_at_once() -> None:
    given = ["settle=x", "nothing=1", "Arvados.token=hush", "Cloud Credentials.key=hush"]
    with pytest.raises(ConfigError) as refused:
        varied(SETTINGS, given)
    assert [one.split(":")[1] for one in refused.value.problems] == ["1", "2", "3", "4"]
    assert "hush" not in str(refused.value)


def test_an_option_is_found_with_or_without_its_section() -> None:
    assert find("settle") is find("Cleaning.settle") is find("SETTLE") is not None
    assert find("Daemon.settle") is None
    assert find("poll_time") is None


def test_a_blank_visible_after_is_the_clouds_own(read: Read) -> None:
    assert "visible_after" not in fields_of(read())
