"""Takes a changed configuration over while the daemon runs, by SIGHUP or `nodemanager reload`."""

from __future__ import annotations

from typing import Any

from nodemanager import adapters, log, sdnotify, wiring
from nodemanager.actors.base import tell
from nodemanager.actors.messages import ApplySettings
from nodemanager.config import Config, diff, load, reloaded
from nodemanager.config.views import Change
from nodemanager.core.model.reasons import Event
from nodemanager.errors import ConfigError
from nodemanager.from_config import settings_of, with_spares


class Reloader:
    """Reads the file again. `config` is what the daemon runs on now."""

    def __init__(self, config: Config, log: log.Logger) -> None:
        self.config = config
        self._log = log

    def reload(self, system: wiring.System, by: str | None = None) -> dict[str, Any]:
        """Apply the changed windows and limits of the file; a wrong file changes nothing.

        Gives the answer of `nodemanager reload` (web.reload).
        """
        sdnotify.reloading()
        try:
            new = load(self.config.path, accepts=adapters.accepted_keys)
        except ConfigError as error:
            for problem in error.problems:
                self._log.event(Event.CONFIG_WARNING, level=log.ERROR, message=problem)
            self._log.event(
                Event.DAEMON_RELOADED, level=log.ERROR, outcome="refused, nothing changed", by=by
            )
            sdnotify.notify("READY=1")
            return {"done": False, "problems": list(error.problems), "changes": []}
        changes = diff(self.config, new)
        self._apply(system, new, changes)
        file = str(self.config.path)
        self._log.event(Event.DAEMON_RELOADED, file=file, outcome="applied", by=by)
        sdnotify.notify("READY=1")
        told = [
            {
                "option": f"[{change.section}] {change.option}",
                "old": change.old,
                "new": change.new,
                "applied": change.reloadable,
            }
            for change in changes
        ]
        return {"done": True, "problems": [], "changes": told}

    def _apply(self, system: wiring.System, new: Config, changes: list[Change]) -> None:
        """Tell the actors what changed; what needs a restart stays as it is."""
        for change in changes:
            self._log.event(
                Event.CONFIG_CHANGED,
                level=log.INFO if change.reloadable else log.WARNING,
                option=f"[{change.section}] {change.option}",
                old=change.old,
                new=change.new,
                action="applied" if change.reloadable else "needs a restart",
            )
        self.config = taken = reloaded(self.config, new)
        # Sizes stay as at the start, so that a reload never waits for the cloud.
        sizes = with_spares(system.settings.sizes, taken)
        settings = settings_of(taken, system.cloud, system.records.store, sizes)
        tell(system.daemon, ApplySettings(settings))
        team = system.team
        pollers = (team.cloud_list, team.record_list, team.demand)
        for poller, every in zip(pollers, wiring.poll_intervals(taken, settings), strict=True):
            if poller is not None:
                tell(poller, every)
