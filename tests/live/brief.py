"""`nodemanager`, but an order stands for seconds, not for a minute (SAFETY.md C11)."""

from __future__ import annotations

from nodemanager.core.model import settings

ORDER_TTL_S = 3.0

if __name__ == "__main__":
    settings.ORDER_TTL_S = ORDER_TTL_S
    # Who imports it takes the value that it has then.
    from nodemanager.cli import main

    main()
