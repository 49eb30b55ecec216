"""doc/contract.rst says what the suites of the clouds ask, and of which cloud."""

from __future__ import annotations

from pathlib import Path

from tests.cloud import test_misbehaving
from tests.contract import table, test_cloud_contract
from tests.contract.lacks import LACKS, Ability

SUITES = (test_cloud_contract, test_misbehaving)


def test_each_reason_of_a_cloud_keeps_a_test_from_it() -> None:
    """A reason that no test needs any more is a cell that could be "yes"."""
    rows = {suite: list(table.rows(suite)) for suite in SUITES}
    kept_from = {
        (cloud, row.need)
        for suite, found in rows.items()
        for row in found
        for cloud in {*table.CLOUDS, *suite.clouds.all} - row.runs_on
    }
    given = {(cloud, need) for cloud, needs in LACKS.items() for need in needs}
    assert {one for one in given if one[1] is not Ability.SERVER} - kept_from == set()
    assert {cloud for cloud, need in given if need is Ability.SERVER}.isdisjoint(
        test_misbehaving.clouds.all
    )


def test_no_test_of_a_cloud_is_skipped_in_silence() -> None:
    """Or a "yes" would say nothing."""
    for suite in SUITES:
        source = Path(str(suite.__file__)).read_text(encoding="utf-8")
        assert "skip" not in source
        assert "xfail" not in source


def test_the_page_says_why_not() -> None:
    page = table.page()
    for row in (row for suite in SUITES for row in table.rows(suite)):
        for cloud in set(table.CLOUDS) - row.runs_on:
            assert f") {table.cell(row, cloud)}\n" in page
