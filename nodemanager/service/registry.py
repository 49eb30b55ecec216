"""The process of `nodemanager registry`: serves the registry without a daemon."""

from __future__ import annotations

import queue
import signal

from nodemanager import adapters, log, sdnotify
from nodemanager.clock import SystemClock
from nodemanager.config import Config
from nodemanager.core.model.reasons import Event
from nodemanager.errors import StartError
from nodemanager.service.process import STOPS, set_up_log, wait_between_beats
from nodemanager.state import StateDirectory

_log = log.get("nodemanager.service")


def serve_registry(config: Config) -> int:
    """Serve the registry on its own until it is told to stop; gives the exit code."""
    set_up_log(config)
    clock = SystemClock()
    inbox: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in STOPS:
        signal.signal(number, lambda n, _: inbox.put(n))
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
                inbox.get(timeout=wait_s)
            except queue.Empty:
                continue
            return 0
    finally:
        sdnotify.notify("STOPPING=1")
        records.face.stop()
        records.store.close()
        _log.event(Event.DAEMON_STOPPED, name="registry")
