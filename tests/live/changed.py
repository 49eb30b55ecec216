"""Constants of the program that a test makes shorter: they are no options."""

from __future__ import annotations

import sys
from importlib import import_module

from nodemanager.core.model import settings


def change(name: str, value: float) -> None:
    """Give a constant of `settings` that value, wherever it was imported already, too."""
    import_module("nodemanager.app.daemon")
    was = getattr(settings, name)
    for module in list(sys.modules.values()):
        if module.__name__.startswith("nodemanager.") and getattr(module, name, None) == was:
            setattr(module, name, value)
