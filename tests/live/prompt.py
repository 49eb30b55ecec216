"""`nodemanager`, but what a former run told a scheduler is over in a second, not in two minutes."""

from __future__ import annotations

from nodemanager.cli import main
from tests.live.changed import change

LATE_ORDER_S = 1.0

if __name__ == "__main__":
    change("LATE_ORDER_S", LATE_ORDER_S)
    main()
