"""`nodemanager`, but what was left behind is asked for again within half a second, not ten.

With $DIES_AT_RELEASE it kills itself (kill -9) when it is about to release something.
"""

from __future__ import annotations

import os
import signal
from typing import NoReturn

from nodemanager.cli import main
from nodemanager.cloud.libcloud_base import LibcloudCloud
from nodemanager.core.execute import leftovers

FIRST_RETRY_S = 0.5
DIES = "DIES_AT_RELEASE"


def die(*_: object) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("it lives")


if __name__ == "__main__":
    leftovers.FIRST_RETRY_S = FIRST_RETRY_S
    if DIES in os.environ:
        LibcloudCloud.release = die  # type: ignore[method-assign]  # the point of it
    main()
