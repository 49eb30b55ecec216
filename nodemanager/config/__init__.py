"""The configuration file: `load` reads it, `show` lists it, `diff` compares two."""

from nodemanager.config.settings import Config, load, located
from nodemanager.config.values import StoreProvider
from nodemanager.config.views import diff, reloaded, show

__all__ = ["Config", "StoreProvider", "diff", "load", "located", "reloaded", "show"]
