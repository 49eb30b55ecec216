"""`nodemanager`, but what a former run told a scheduler is over in a second, not in two minutes."""

from __future__ import annotations

from nodemanager.core.model import settings

LATE_ORDER_S = 1.0

if __name__ == "__main__":
    settings.LATE_ORDER_S = LATE_ORDER_S
    # Who imports it takes the value that it has then.
    from nodemanager.cli import main

    main()
