"""The worked example among the clouds of `nodemanager`.

This does what the one line of wiring would do for a package below `nodemanager.cloud`.
"""

from __future__ import annotations

import sys
from typing import Any, cast

from nodemanager.config.providers import PROVIDERS, Traits
from tests.cloud import sixth
from tests.cloud.sixth import adapter, options

NAME = "digitalocean"
PACKAGE = f"nodemanager.cloud.{NAME}"


def join() -> None:
    """From now on `[Cloud] provider = digitalocean` is this adapter."""
    cast(Any, PROVIDERS)[NAME] = Traits()
    sys.modules[PACKAGE] = sixth
    sys.modules[f"{PACKAGE}.adapter"] = adapter
    sys.modules[f"{PACKAGE}.options"] = options


def leave() -> None:
    """Undo `join`."""
    cast(Any, PROVIDERS).pop(NAME, None)
    for module in (PACKAGE, f"{PACKAGE}.adapter", f"{PACKAGE}.options"):
        sys.modules.pop(module, None)
