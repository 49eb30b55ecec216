"""Makes neutron's tables: `python -P neutron_schema.py DATABASE_URL`, in OpenStack's own venv.

From neutron's models, as its own functional tests do: one of its migrations is for MySQL alone.
"""

from __future__ import annotations

import importlib
import sys


def main() -> None:
    sqlalchemy = importlib.import_module("sqlalchemy")
    head = importlib.import_module("neutron.db.migration.models.head")
    head.get_metadata().create_all(sqlalchemy.create_engine(sys.argv[1]))


if __name__ == "__main__":
    main()
