"""The schema of a new database is what the revisions make of an empty one, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from nodemanager.journal import schema as journal
from nodemanager.journal.opened import SCHEMA
from nodemanager.lease import table as lease
from nodemanager.records import schema as registry
from nodemanager.sql import database as revisions
from nodemanager.sql.database import bring_up_to_date, newest_of

JOURNAL, REGISTRY, LEASE = (
    Path(one.__file__).parent / "migrations" for one in (journal, registry, lease)
)
OURS = [
    pytest.param(LEASE, lease.metadata, id="lease"),
    pytest.param(JOURNAL, journal.metadata, id="journal"),
    pytest.param(REGISTRY, registry.metadata, id="registry"),
]


def made_by(make: Callable[[sa.Connection], None]) -> tuple[list[str], list[str]]:
    """The statements of a database's schema without their blanks, and its revision."""
    with sa.create_engine("sqlite://").begin() as connection:
        make(connection)
        statements = connection.exec_driver_sql("SELECT sql FROM sqlite_master").scalars()
        found = sorted("".join(str(one).split()) for one in statements)
        versions = connection.exec_driver_sql("SELECT version_num FROM alembic_version")
        return found, list(versions.scalars())


@pytest.mark.parametrize(("migrations", "tables"), OURS)
def test_a_new_database_is_as_the_revisions_make_it(migrations: Path, tables: sa.MetaData) -> None:
    def new(connection: sa.Connection) -> None:
        bring_up_to_date(connection, migrations, tables, "new")

    def revised(connection: sa.Connection) -> None:
        revisions._upgrade(connection, migrations, "revised")

    assert made_by(new) == made_by(revised)


@pytest.mark.parametrize(("migrations", "tables"), OURS)
def test_one_that_an_earlier_program_left_gets_the_revisions_that_it_lacks(
    migrations: Path, tables: sa.MetaData
) -> None:
    def left_empty(connection: sa.Connection) -> None:
        revisions._VERSIONS.create(connection)
        bring_up_to_date(connection, migrations, tables, "old")

    assert made_by(left_empty)[1] == [newest_of(migrations)]


@pytest.mark.parametrize(("migrations", "tables"), OURS)
def test_neither_a_new_one_nor_one_that_is_up_to_date_waits_for_alembic(
    migrations: Path, tables: sa.MetaData, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(revisions, "_upgrade")

    def twice(connection: sa.Connection) -> None:
        bring_up_to_date(connection, migrations, tables, "new")
        bring_up_to_date(connection, migrations, tables, "again")

    assert made_by(twice)[1] == [newest_of(migrations)]


def test_a_reader_expects_the_newest_revision_of_the_journal() -> None:
    assert newest_of(JOURNAL) == SCHEMA
