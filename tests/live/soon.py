"""`nodemanager`, but a denial is asked for again within a second, not thirty (D3), and what was
left behind within half a second, not ten.

With $DIES_AT_RELEASE it kills itself (kill -9) when it is about to release something.
"""

from __future__ import annotations

import os
import signal
from typing import NoReturn

from nodemanager.cli import main
from tests.live.changed import change

FIRST_RETRY_S = 0.5
ASK_AGAIN_S = 1.0
DIES = "DIES_AT_RELEASE"


def die(*_: object) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("it lives")


if __name__ == "__main__":
    change("ASK_AGAIN_S", ASK_AGAIN_S)
    from nodemanager.cloud.libcloud_base import LibcloudCloud
    from nodemanager.core.plan import leftovers

    leftovers.FIRST_RETRY_S = FIRST_RETRY_S
    if DIES in os.environ:
        LibcloudCloud.release = die  # type: ignore[method-assign]  # the point of it
    main()
