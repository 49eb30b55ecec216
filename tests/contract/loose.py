"""`nodemanager`, but a ping is no transaction, as on an Arvados server: it looks, then it writes.

In between the secret may be changed and the record freed. That is what the wait of a fence is for.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from typing import Any

from nodemanager.cli import main
from nodemanager.errors import NoSuchRecord
from nodemanager.records import rows
from nodemanager.records.resource import NodesResource, Pinged

GAP_S = 0.03

_check = NodesResource._check_secret
_ping = NodesResource.ping


class _Unchecked(NodesResource):
    @staticmethod
    def _check_secret(row: rows.Row, given: str | None) -> None:
        """Done before."""


def ping(self: NodesResource, uuid: str, params: Mapping[str, Any], caller: str) -> Pinged:
    with self._db.reading() as connection:
        row = rows.find(connection, uuid)
    if row is None:
        raise NoSuchRecord(f"no record {uuid}")
    secret = params.get("ping_secret")
    _check(row, secret if isinstance(secret, str) else None)
    time.sleep(random.uniform(0.0, GAP_S))
    return _ping(_Unchecked(self._db, self._naming), uuid, params, caller)


if __name__ == "__main__":
    NodesResource.ping = ping  # type: ignore[method-assign]
    main()
