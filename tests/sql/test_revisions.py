"""A new database gets its schema whole; one of an earlier program gets the revisions it lacks."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from nodemanager.errors import StartError
from nodemanager.journal import schema as journal
from nodemanager.journal.opened import SCHEMA
from nodemanager.lease import keeper as lease
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


SECOND = """
import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("leases", sa.Column("noted", sa.Text))
"""


def test_one_that_an_earlier_program_left_gets_the_revisions_that_it_lacks(tmp_path: Path) -> None:
    migrations = tmp_path / "migrations"
    shutil.copytree(LEASE, migrations)

    def of_the_first_program(connection: sa.Connection) -> None:
        bring_up_to_date(connection, LEASE, lease.metadata, "old")

    def upgraded(connection: sa.Connection) -> None:
        of_the_first_program(connection)
        bring_up_to_date(connection, migrations, lease.metadata, "upgraded")

    before, revision = made_by(of_the_first_program)
    (migrations / "versions" / "r0002_noted.py").write_text(SECOND)
    after, revisions = made_by(upgraded)
    assert (revision, revisions) == (["0001"], ["0002"])
    assert not any("notedTEXT" in one for one in before)
    assert any("notedTEXT" in one for one in after)


def test_one_of_a_newer_program_is_refused(tmp_path: Path) -> None:
    def newer(connection: sa.Connection) -> None:
        bring_up_to_date(connection, LEASE, lease.metadata, "newer")
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0009'")
        bring_up_to_date(connection, LEASE, lease.metadata, "newer")

    with pytest.raises(StartError, match="newer has schema 0009"):
        made_by(newer)


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
