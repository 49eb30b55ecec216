"""`nodemanager`, but what was left behind is asked for again within half a second, not ten, and a
node that is not known any more within a second, not thirty.

With $DIES_AT_RELEASE it kills itself (kill -9) when it is about to release something.
"""

from __future__ import annotations

import os
import signal
from typing import NoReturn

from nodemanager.cli import main
from nodemanager.cloud.libcloud_base import LibcloudCloud
from nodemanager.core.execute import destroy, leftovers, shutdown

FIRST_RETRY_S = 0.5
ASK_AGAIN_S = 1.0
DIES = "DIES_AT_RELEASE"


def die(*_: object) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("it lives")


if __name__ == "__main__":
    leftovers.FIRST_RETRY_S = FIRST_RETRY_S
    destroy.ASK_AGAIN_S = shutdown.ASK_AGAIN_S = ASK_AGAIN_S
    if DIES in os.environ:
        LibcloudCloud.release = die  # type: ignore[method-assign]  # the point of it
    main()
