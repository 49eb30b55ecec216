"""Takes a changed configuration over while the daemon runs, by SIGHUP or `nodemanager reload`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from nodemanager.actors.base import tell
from nodemanager.actors.messages import ApplySettings, TakeCloud, TakeUserData, TakeWishlist
from nodemanager.app import adapters, wiring
from nodemanager.app.from_config import as_in_file, secrets_of, settings_of, user_data_of
from nodemanager.cloud.api import CloudDriver
from nodemanager.config import Config, diff, load, reloaded
from nodemanager.config.views import Change, changes_cloud
from nodemanager.core.model.reasons import Event
from nodemanager.errors import ConfigError
from nodemanager.lib import log, sdnotify
from nodemanager.lib.clock import Clock


class Reloader:
    """Reads the file again. `config` is what the daemon runs on now.

    `renewals` take the tokens of a changed file.
    """

    def __init__(self, config: Config, log: log.Logger, clock: Clock) -> None:
        self.config = config
        self.renewals: list[Callable[[Config], None]] = []
        self._log = log
        self._clock = clock

    def reload(self, system: wiring.System, by: str | None = None) -> dict[str, Any]:
        """Apply the changed windows, limits and credentials; a wrong file changes nothing.

        Gives the answer of `nodemanager reload` (web.reload).
        """
        sdnotify.reloading()
        try:
            new = load(self.config.path, accepts=adapters.accepted_keys)
            changes, taken = diff(self.config, new), reloaded(self.config, new)
            cloud, user_data = None, user_data_of(taken)
            if changes_cloud(changes):
                cloud = adapters.build_cloud(taken, self._clock)
        except ConfigError as error:
            tell_refusal(self._log, error, by)
            sdnotify.notify("READY=1")
            return {"done": False, "problems": list(error.problems), "changes": []}
        tell_changes(self._log, changes)
        self._apply(system, taken, cloud)
        for worker in system.team.setups:
            tell(worker, TakeUserData(user_data))
        file = str(self.config.path)
        self._log.event(Event.DAEMON_RELOADED, file=file, outcome="applied", by=by)
        sdnotify.notify("READY=1")
        shown = [
            {
                "option": f"[{change.section}] {change.option}",
                "old": change.old,
                "new": change.new,
                "applied": change.reloadable,
            }
            for change in changes
        ]
        return {"done": True, "problems": [], "changes": shown}

    def _apply(self, system: wiring.System, taken: Config, cloud: CloudDriver | None) -> None:
        """Give the actors and servers what changed. The cloud is asked for its account first."""
        before, self.config = self.config, taken
        log.hide(*secrets_of(taken))
        for renew in self.renewals:
            renew(taken)
        if taken.arvados.token != before.arvados.token and system.team.demand is not None:
            wishlist = adapters.wishlist_of(taken)
            if wishlist is not None:
                tell(system.team.demand, TakeWishlist(wishlist))
        if cloud is not None:
            tell(system.team.cloud_list, TakeCloud(cloud))
        sizes = as_in_file(system.settings.sizes, taken)
        settings = settings_of(taken, system.cloud, system.records.store, sizes)
        tell(system.daemon, ApplySettings(settings))
        team = system.team
        pollers = (team.cloud_list, team.record_list, team.demand)
        for poller, every in zip(pollers, wiring.poll_intervals(taken, settings), strict=True):
            if poller is not None:
                tell(poller, every)


def tell_refusal(to: log.Logger, error: ConfigError, by: str | None = None) -> None:
    """Log that a wrong file changes nothing, with each of its problems."""
    for problem in error.problems:
        to.event(Event.CONFIG_WARNING, level=log.ERROR, message=problem)
    to.event(Event.DAEMON_RELOADED, level=log.ERROR, outcome="refused, nothing changed", by=by)


def tell_changes(to: log.Logger, changes: Iterable[Change]) -> None:
    """Log each change; what needs a restart stays as it is."""
    for change in changes:
        to.event(
            Event.CONFIG_CHANGED,
            level=log.INFO if change.reloadable else log.WARNING,
            option=f"[{change.section}] {change.option}",
            old=change.old,
            new=change.new,
            action="applied" if change.reloadable else "needs a restart",
        )
