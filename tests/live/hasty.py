"""`nodemanager`, but a create that was not heard of is given up after seconds, not minutes.

The 120 s of SAFETY.md A2 are no option. The local cloud's creates take effect within a second, so
that A2 holds with this margin, too, and a run sees claims expire.

Where the environment says NODE_TEST_DIES=3.before, the process kills itself right before its third
write to cloud or records; after it, with NODE_TEST_DIES=3.after.
"""

from __future__ import annotations

import functools
import itertools
import os
import signal
from collections.abc import Callable
from typing import Any

from nodemanager.cli import main
from nodemanager.core.safety import proof
from tests.live.changed import change

CREATE_MARGIN_S = 6.0
DIES = "NODE_TEST_DIES"
MOMENTS = ("before", "after")


def die_at(number: int, moment: str) -> None:
    """Have this process killed at its `number`th write, from 1."""
    from nodemanager.cloud.libcloud_base import LibcloudCloud
    from nodemanager.records.sql import SqlRecordStore

    numbers = itertools.count(1)

    def deadly(write: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(write)
        def counted(*arguments: Any, **more: Any) -> Any:
            last = next(numbers) == number
            if last and moment == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            done = write(*arguments, **more)
            if last:
                os.kill(os.getpid(), signal.SIGKILL)
            return done

        return counted

    for owner, name in (
        (LibcloudCloud, "create"),
        (LibcloudCloud, "destroy"),
        (SqlRecordStore, "create"),
        (SqlRecordStore, "claim"),
        (SqlRecordStore, "clean"),
    ):
        setattr(owner, name, deadly(getattr(owner, name)))


if __name__ == "__main__":
    change("CREATE_MARGIN_S", CREATE_MARGIN_S)
    # What proves a clean has its own, and would call it too early.
    proof.CLAIM_MARGIN_S = CREATE_MARGIN_S
    where = os.environ.pop(DIES, None)
    if where is not None:
        number, _, moment = where.partition(".")
        die_at(int(number), moment)
    main()
