"""What each long-running process of nodemanager does: its log, its signals, its watchdog."""

from __future__ import annotations

import signal

from nodemanager.app.from_config import secrets_of
from nodemanager.app.pulse import BEAT_S
from nodemanager.config import Config
from nodemanager.lib import log, sdnotify

STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
"""Signals for an orderly stop; Arvados Node Manager took SIGQUIT, too."""


def wait_between_beats() -> float:
    """How many seconds the process may wait before it next tells systemd that it lives."""
    interval = sdnotify.watchdog_interval()
    return min(BEAT_S, interval / 3) if interval is not None else BEAT_S


def set_up_log(config: Config) -> None:
    """Log as the configuration says, with its secrets hidden."""
    logging = config.logging
    log.setup(str(logging.file), logging.level, config.log_levels, logging.format)
    log.hide(*secrets_of(config))
