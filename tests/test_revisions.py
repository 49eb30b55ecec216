"""A schema: made at once in a new database, upgraded in an older one, refused in a newer one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from nodemanager.errors import StartError
from nodemanager.revisions import bring_up_to_date

ENV = """
from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
"""
FIRST = """
revision = "0001"
down_revision = None
"""
SECOND = """
import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade():
    op.add_column("things", sa.Column("size", sa.Integer))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    versions = tmp_path / "migrations" / "versions"
    versions.mkdir(parents=True)
    (versions.parent / "env.py").write_text(ENV)
    (versions / "r0001.py").write_text(FIRST)
    return versions.parent


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sa.Connection]:
    engine = sa.create_engine(f"sqlite:///{tmp_path}/things.db")
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def things(*more: sa.Column[int]) -> sa.MetaData:
    metadata = sa.MetaData()
    sa.Table("things", metadata, sa.Column("id", sa.Integer, primary_key=True), *more)
    return metadata


def columns(connection: sa.Connection) -> list[str]:
    return [one["name"] for one in sa.inspect(connection).get_columns("things")]


def schema(connection: sa.Connection) -> str | None:
    return connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()


def test_an_older_database_gets_what_it_lacks_and_keeps_what_it_has(
    folder: Path, connection: sa.Connection
) -> None:
    bring_up_to_date(connection, folder, things(), "it")
    connection.exec_driver_sql("INSERT INTO things VALUES (7)")
    assert (columns(connection), schema(connection)) == (["id"], "0001")
    (folder / "versions/r0002.py").write_text(SECOND)
    for _ in range(2):
        bring_up_to_date(connection, folder, things(sa.Column("size", sa.Integer)), "it")
        assert (columns(connection), schema(connection)) == (["id", "size"], "0002")
    assert connection.exec_driver_sql("SELECT * FROM things").fetchall() == [(7, None)]


def test_a_new_database_is_made_as_the_last_revision_leaves_it(
    folder: Path, connection: sa.Connection
) -> None:
    (folder / "versions/r0002.py").write_text(SECOND)
    bring_up_to_date(connection, folder, things(sa.Column("size", sa.Integer)), "it")
    assert (columns(connection), schema(connection)) == (["id", "size"], "0002")


def test_a_newer_database_is_refused_and_left_alone(
    folder: Path, connection: sa.Connection
) -> None:
    bring_up_to_date(connection, folder, things(), "it")
    connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0009'")
    with pytest.raises(StartError, match=r"it has schema 0009.*0001.*upgrade"):
        bring_up_to_date(connection, folder, things(), "it")
    assert schema(connection) == "0009"


def test_a_stranger_s_table_of_our_name_is_not_taken_for_ours(
    folder: Path, connection: sa.Connection
) -> None:
    connection.exec_driver_sql("CREATE TABLE things (secret TEXT)")
    with pytest.raises(sa.exc.OperationalError, match="already exists"):
        bring_up_to_date(connection, folder, things(), "it")
