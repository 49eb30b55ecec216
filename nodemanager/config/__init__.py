"""The configuration file: `load` reads it, `reach` what leads to its daemon, `show` lists it,
`diff` compares two."""

from nodemanager.config.settings import Config, Reach, load, located, reach
from nodemanager.config.values import StoreProvider
from nodemanager.config.views import diff, reloaded, show

__all__ = [
    "Config",
    "Reach",
    "StoreProvider",
    "diff",
    "load",
    "located",
    "reach",
    "reloaded",
    "show",
]
