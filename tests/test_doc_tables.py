"""The docs' tables say what the program says."""

from __future__ import annotations

from pathlib import Path

import pytest

from doc.generate import cloud_options, events
from nodemanager.core.model.keys import LogKey
from nodemanager.core.model.reasons import Documented, Event, Reason

DOC = Path(__file__).parent.parent / "doc"


@pytest.mark.parametrize("cloud", cloud_options.CLOUDS)
def test_the_manual_names_every_option_of_a_cloud(cloud: str) -> None:
    page = (DOC / f"{cloud}.rst").read_text("utf-8") + cloud_options.page(cloud)
    for section in cloud_options.DECLARED_IN:
        for key, declared in cloud_options.options(cloud, section).items():
            for name in (key, *declared.also):
                assert f"``{name.replace('?*', 'NAME')}" in page


@pytest.mark.parametrize("members", [Event, Reason, LogKey])
def test_every_member_has_a_row_of_its_own_and_a_sentence(members: type[Documented]) -> None:
    page = events.tables()
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
