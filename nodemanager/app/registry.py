"""The process of `nodemanager registry`: serves the registry without a daemon."""

from __future__ import annotations

import queue
import signal

from nodemanager.app import adapters
from nodemanager.app.from_config import secrets_of
from nodemanager.app.process import STOPS, set_up_log, wait_between_beats
from nodemanager.app.reload import tell_changes, tell_refusal
from nodemanager.app.state import StateDirectory
from nodemanager.config import Config, diff, load, reloaded
from nodemanager.core.model.reasons import Event
from nodemanager.errors import ConfigError, StartError
from nodemanager.lib import log, sdnotify
from nodemanager.lib.clock import SystemClock

_log = log.get("nodemanager.app")


def serve_registry(config: Config) -> int:
    """Serve the registry on its own until it is told to stop; gives the exit code."""
    set_up_log(config)
    clock = SystemClock()
    inbox: queue.SimpleQueue[int] = queue.SimpleQueue()
    for stop in (*STOPS, signal.SIGHUP):
        signal.signal(stop, lambda n, _: inbox.put(n))
    state = StateDirectory(config.daemon.state_dir, clock=clock)
    records = adapters.build_registry(config, state, clock)
    if records.face is None:
        raise StartError("[Registry] listen is blank: there is nothing to serve")
    records.face.start()
    try:
        _log.event(Event.SERVER_STARTED, name="registry", url=records.face.url)
        sdnotify.notify("READY=1", f"STATUS=serving on {records.face.url}")
        # Never for ever: a signal that comes right before the wait, or that another thread takes,
        # does not end it, and its handler runs after it.
        wait_s = wait_between_beats()
        while True:
            if records.face.alive:
                sdnotify.notify("WATCHDOG=1")
            try:
                number = inbox.get(timeout=wait_s)
            except queue.Empty:
                continue
            if number != signal.SIGHUP:
                return 0
            config = _reread(config, records)
    finally:
        sdnotify.notify("STOPPING=1")
        records.face.stop()
        records.store.close()
        _log.event(Event.DAEMON_STOPPED, name="registry")


def _reread(config: Config, records: adapters.RecordService) -> Config:
    """What is in force after the file was read again: of it, the token."""
    try:
        new = load(config.path, require_cloud=False)
    except ConfigError as error:
        tell_refusal(_log, error)
        return config
    tell_changes(_log, diff(config, new))
    taken = reloaded(config, new)
    log.hide(*secrets_of(taken))
    records.renew(taken)
    _log.event(Event.DAEMON_RELOADED, file=str(config.path), outcome="applied")
    return taken
