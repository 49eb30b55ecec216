"""A registry's database of an earlier schema is brought up to date, and keeps what it has."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from nodemanager.records import database
from tests.contract.stores import REAL_CAS_STORES, open_sql, running_postgres

UUID = "zzzzz-7ekkf-00000000000000a"
ROW = {
    "uuid": UUID,
    "version": 7,
    "created_at": 10**18,
    "modified_at": 10**18,
    "slot_number": 3,
    "hostname": "compute3",
    "properties": '{"nodemanager_pool": "main"}',
    "info": '{"ping_secret": "s3cret"}',
}


def first_schema(url: str) -> None:
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        config = Config()
        folder = Path(database.__file__).parent / "migrations"
        config.set_main_option("script_location", str(folder))
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        names = ", ".join(ROW)
        values = ", ".join(f":{name}" for name in ROW)
        connection.execute(sa.text(f"INSERT INTO nodes ({names}) VALUES ({values})"), ROW)
    engine.dispose()


@pytest.mark.parametrize("kind", REAL_CAS_STORES)
def test_a_database_of_the_first_schema_is_brought_up_to_date(kind: str, tmp_path: Path) -> None:
    is_postgres = kind == "postgresql"
    url = running_postgres().new_database() if is_postgres else f"sqlite:///{tmp_path}/registry.db"
    first_schema(url)
    store = open_sql(url, slots=8)
    try:
        (before,) = store.list_records().items
        assert (before.uuid, before.slot_number, before.ping_secret) == (UUID, 3, "s3cret")
        free = store.clean(before, "stale_slot")
        assert store.late_pings() == ()
        assert store.restore(free, before).slot_number == 3
    finally:
        store.close()
    again = open_sql(url, slots=8)
    assert [one.uuid for one in again.list_records().items] == [UUID]
    again.close()
