"""`nodemanager` that kills itself at one call: its first word, OWNER.METHOD.MOMENT, says which."""

from __future__ import annotations

import functools
import os
import signal
import sys
from typing import Any

from nodemanager.cli import main
from nodemanager.cloud.libcloud_base import LibcloudCloud
from nodemanager.records.sql import SqlRecordStore

OWNERS: dict[str, type] = {"cloud": LibcloudCloud, "store": SqlRecordStore}


def die_at(where: str) -> None:
    """Have this process killed right before, or after, the first such call."""
    owner, method, moment = where.split(".")
    original = getattr(OWNERS[owner], method)

    @functools.wraps(original)
    def last(self: Any, *arguments: Any) -> None:
        if moment == "after":
            original(self, *arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(OWNERS[owner], method, last)


if __name__ == "__main__":
    die_at(sys.argv.pop(1))
    main()
