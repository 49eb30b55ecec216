"""The docs' tables say what the program says."""

from __future__ import annotations

from pathlib import Path

import pytest

from doc.generate import cloud_options, metrics, outlooks
from doc.generate.events import events_page, main
from nodemanager.core.model.keys import LogKey
from nodemanager.core.model.reasons import Documented, Event, Reason

DOC = Path(__file__).parent.parent / "doc"
PAGE = DOC / "events.rst"


def test_the_page_in_the_repository_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == events_page(), (
        "run `python -m doc.generate.events doc/events.rst`"
    )


def test_the_table_of_what_verify_waits_for_is_current() -> None:
    assert (DOC / "verify.inc").read_text(encoding="utf-8") == outlooks.table(), (
        "run `python -m doc.generate.outlooks doc/verify.inc`"
    )


def test_the_table_of_metrics_is_current() -> None:
    assert (DOC / "metrics.inc").read_text(encoding="utf-8") == metrics.table(), (
        "run `python -m doc.generate.metrics doc/metrics.inc`"
    )


@pytest.mark.parametrize("cloud", cloud_options.CLOUDS)
def test_the_tables_of_a_cloud_s_options_are_current(cloud: str) -> None:
    there = (DOC / f"options-{cloud}.inc").read_text(encoding="utf-8")
    assert there == cloud_options.page(cloud), "run `python -m doc.generate.cloud_options doc`"


@pytest.mark.parametrize("cloud", cloud_options.CLOUDS)
def test_the_manual_names_every_option_of_a_cloud(cloud: str) -> None:
    page = "".join(
        (DOC / name).read_text("utf-8") for name in (f"{cloud}.rst", f"options-{cloud}.inc")
    )
    for section in cloud_options.DECLARED_IN:
        for key, declared in cloud_options.options(cloud, section).items():
            for name in (key, *declared.also):
                assert f"``{name.replace('?*', 'NAME')}" in page


@pytest.mark.parametrize("members", [Event, Reason, LogKey])
def test_every_member_has_a_row_of_its_own_and_a_sentence(members: type[Documented]) -> None:
    page = events_page()
    for member in members:
        assert page.count(f"   * - ``{member.value}``\n") >= 1
        assert member.doc.strip().endswith(".")


@pytest.mark.parametrize("members", [Event, Reason, LogKey])
def test_no_member_hides_behind_another_of_the_same_value(members: type[Documented]) -> None:
    assert len(members.__members__) == len(list(members))


def test_no_key_names_a_secret() -> None:
    from nodemanager.lib.redact import FENCING_TOKEN, is_secret

    """But for a lease's token, which is a number and shown as such."""
    assert [key.value for key in LogKey if is_secret(key.value)] == [FENCING_TOKEN]


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    assert main([str(tmp_path / "events.rst")]) == 0
    assert (tmp_path / "events.rst").read_text(encoding="utf-8") == events_page()
    assert main([]) == 2
