"""`nodemanager`, but a denial is asked for again after seconds, not after half a minute (D3)."""

from __future__ import annotations

from nodemanager.core.model import settings

ASK_AGAIN_S = 2.0

if __name__ == "__main__":
    settings.ASK_AGAIN_S = ASK_AGAIN_S
    # Who imports it takes the value that it has then.
    from nodemanager.cli import main

    main()
