"""The configuration file: `load` reads it, `show` lists it, `diff` compares two."""

from nodemanager.config.settings import Accepts, Config, load, located, pool_name_of
from nodemanager.config.values import (
    AdoptUnclaimed,
    Backlog,
    Credentials,
    Dispatcher,
    Endpoint,
    Listen,
    LogFormat,
    LogLevel,
    Secret,
    SizeOverride,
    StoreProvider,
)
from nodemanager.config.views import Change, Row, diff, reloaded, show

__all__ = [
    "Accepts",
    "AdoptUnclaimed",
    "Backlog",
    "Change",
    "Config",
    "Credentials",
    "Dispatcher",
    "Endpoint",
    "Listen",
    "LogFormat",
    "LogLevel",
    "Row",
    "Secret",
    "SizeOverride",
    "StoreProvider",
    "diff",
    "load",
    "located",
    "pool_name_of",
    "reloaded",
    "show",
]
