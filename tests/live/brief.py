"""`nodemanager`, but an order stands for seconds, not for a minute (SAFETY.md C11)."""

from __future__ import annotations

from nodemanager.cli import main
from tests.live.changed import change

ORDER_TTL_S = 3.0

if __name__ == "__main__":
    change("ORDER_TTL_S", ORDER_TTL_S)
    main()
