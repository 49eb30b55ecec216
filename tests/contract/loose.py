"""`nodemanager`, but a ping is no transaction, as on an Arvados server: it looks, then it writes.

In between the secret may be changed and the record freed, and a ping that tells something new puts
the old secret back. That is what the wait of a fence and the look behind it are for.
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
_told = NodesResource._told
_ping = NodesResource.ping


class _Late(NodesResource):
    """The second half of a ping that looked at `seen`.

    It checks nothing any more, and of the hashes that it changes writes back the whole as it was.
    """

    def __init__(self, whole: NodesResource, seen: rows.Row) -> None:
        super().__init__(whole._db, whole._naming)
        before = dict(zip(("properties", "info"), rows.objects(seen), strict=True))

        def told(_now: rows.Row, params: Mapping[str, Any]) -> dict[str, Any]:
            after = _told(seen, params)
            return {name: value for name, value in after.items() if value != before[name]}

        self._told = told  # type: ignore[method-assign]

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
    # The gap between the look and the write is what this server is about.
    time.sleep(random.uniform(0.0, GAP_S))
    return _ping(_Late(self, row), uuid, params, caller)


if __name__ == "__main__":
    NodesResource.ping = ping  # type: ignore[method-assign]
    main()
