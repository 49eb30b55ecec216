"""The lease's row in PostgreSQL (L6)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from nodemanager.actors.daemon.remembered import RememberedBacklog, RememberedIdentity
from nodemanager.errors import StartError, StoreError
from nodemanager.lease.keeper import LeaseTable
from nodemanager.lib.clock import SystemClock
from tests.contract.stores import running_postgres
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.server("postgresql")]


@pytest.fixture
def url() -> str:
    return running_postgres().new_database()


@pytest.fixture
def table(url: str) -> Iterator[LeaseTable]:
    with closing(opened(url)) as made:
        yield made


def opened(url: str, pool: str = "main") -> LeaseTable:
    return LeaseTable(url, pool, SystemClock(), timeout=5.0)


def test_the_first_one_gets_it_and_who_looks_sees_that(table: LeaseTable) -> None:
    assert table.look() is None
    assert table.take(None, "one", 30.0) == 1
    row = table.look()
    assert row is not None
    assert (row.holder, row.token, row.renewals, row.duration) == ("one", 1, 0, 30.0)
    assert 25.0 < row.left_s <= 30.0
    assert table.take(None, "two", 30.0) is None, "it was taken since that look"


def test_each_renewal_shows_and_only_the_holder_renews(table: LeaseTable) -> None:
    table.take(None, "one", 30.0)
    assert table.renew("one", 1, 60.0)
    row = table.look()
    assert row is not None
    assert (row.renewals, row.duration) == (1, 60.0)
    assert not table.renew("two", 1, 30.0)
    assert not table.renew("one", 2, 30.0)


def test_one_that_nobody_renewed_is_taken_and_its_former_holder_renews_no_more(
    table: LeaseTable,
) -> None:
    table.take(None, "one", 30.0)
    before = table.look()
    table.renew("one", 1, 30.0)
    assert table.take(before, "two", 30.0) is None, "renewed since that look"
    assert table.take(table.look(), "two", 30.0) == 2
    assert not table.renew("one", 1, 30.0)


def test_one_that_ended_and_nobody_took_is_renewed(table: LeaseTable) -> None:
    table.take(None, "one", 0.05)
    until("its end", lambda: (row := table.look()) is not None and row.left_s < 0)
    assert table.renew("one", 1, 30.0)


def test_what_is_given_back_is_free(table: LeaseTable) -> None:
    table.take(None, "one", 30.0)
    table.give_back("two", 1)
    table.give_back("one", 1)
    row = table.look()
    assert row is not None
    assert row.holder is None
    assert table.take(row, "two", 30.0) == 2


def test_of_many_at_one_moment_one_gets_it(url: str, table: LeaseTable) -> None:
    table.take(None, "before", 30.0)
    table.give_back("before", 1)
    row = table.look()
    others = [opened(url) for _ in range(6)]
    with ThreadPoolExecutor(6) as threads:
        taken = list(threads.map(lambda one: one.take(row, "x", 30.0), others))
    for one in others:
        one.close()
    assert sorted(taken, key=str) == [2, None, None, None, None, None]


def test_each_pool_has_its_own(url: str, table: LeaseTable) -> None:
    table.take(None, "one", 30.0)
    with closing(opened(url, "other")) as other:
        assert other.look() is None
        assert other.take(None, "two", 30.0) == 1
        other.remember("store", "s-1")
    assert table.recall("store") is None


def test_what_a_start_saw_is_known_to_the_manager_of_another_machine(
    url: str, table: LeaseTable
) -> None:
    """L5, S5."""
    assert RememberedIdentity(table, writes=True).check("store", "s-1") is None
    backlog = RememberedBacklog(table)
    assert backlog.load() == (True, frozenset())
    backlog.save(frozenset({"r1 v1", "r2"}))
    with closing(opened(url)) as other:
        problem = RememberedIdentity(other, writes=True).check("store", "s-2")
        assert problem is not None
        assert "[Lease] database" in problem
        assert RememberedBacklog(other).load() == (False, frozenset({"r1", "v1", "r2"}))
        other.remember("backlog", None)
    assert backlog.load() == (True, frozenset())


def test_one_that_is_out_of_reach_is_no_reason_to_end() -> None:
    nowhere = LeaseTable("postgresql://nobody@127.0.0.1:1/x", "main", SystemClock(), timeout=1.0)
    nowhere.open()
    with pytest.raises(StoreError):
        nowhere.look()
    with pytest.raises(StartError):
        nowhere.recall("store")
    nowhere.close()
