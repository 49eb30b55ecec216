"""`nodemanager`, but a ping is no transaction, as on an Arvados server: it looks, then it writes.

In between the secret may be changed and the record freed, and a ping that tells something new puts
the old secret back. That is what the wait of a fence and the look behind it are for.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Any

from nodemanager.cli import main
from nodemanager.errors import NoSuchRecord
from nodemanager.records import rows
from nodemanager.records.pings import Ping, Pinged, columns_of
from nodemanager.records.resource import NodesResource, Outcomes

GAP_S = 0.03

_ping = NodesResource.ping


class _Late(NodesResource):
    """The second half of a ping that looked at `seen`.

    It checks nothing any more, and of the hashes that it changes writes back the whole as it was.
    """

    def __init__(self, whole: NodesResource, seen: rows.Row) -> None:
        super().__init__(whole._db, whole._naming)
        before = dict(zip(("properties", "info"), rows.objects(seen), strict=True))

        def late(_now: rows.Row, ping: Ping) -> dict[str, Any]:
            after = columns_of(seen, ping)
            return {name: value for name, value in after.items() if value != before[name]}

        self._columns_of = late  # type: ignore[method-assign]


def ping(self: NodesResource, ping: Ping) -> Pinged:
    with self._db.reading() as connection:
        row = rows.find(connection, ping.uuid)
    if row is None:
        raise NoSuchRecord(f"no record {ping.uuid}")
    columns_of(row, ping)
    # The gap between the look and the write is what this server is about.
    time.sleep(random.uniform(0.0, GAP_S))
    return _ping(_Late(self, row), ping)


def ping_all(self: NodesResource, pings: Sequence[Ping]) -> Outcomes:
    return [None] * len(pings)


if __name__ == "__main__":
    NodesResource.ping = ping  # type: ignore[method-assign]
    NodesResource.ping_all = ping_all  # type: ignore[method-assign]
    main()
