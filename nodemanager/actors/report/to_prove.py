"""The entries that a clean's proof needs: a new journal file must have them, too (C20)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from nodemanager.core.explain.events import CLEANED
from nodemanager.core.model.world import Outcome
from nodemanager.journal.api import Conclusion, Intent, IntentKind, Journal

FREEING = frozenset({IntentKind.FENCE, IntentKind.CLEAN})


class ToProve:
    """The cleans that are not proven yet, and the destroys they need, by the cleans' keys."""

    def __init__(self) -> None:
        self._destroys: dict[str, Intent] = {}
        """Destroys that ended in gone."""
        self._cleans: dict[str, tuple[Intent, Conclusion]] = {}
        """Cleans whose outcome is written."""

    def rest_on(self, destroys: Mapping[str, Intent]) -> None:
        """Add destroys that ended in gone, each by the key of the clean that needs it."""
        self._destroys |= destroys

    def destroyed(self, destroy: Intent, under_way: Iterable[Intent]) -> None:
        """Add a destroy that ended in gone for the open cleans of its node."""
        cleans = (one for one in under_way if one.kind in FREEING)
        self.rest_on({one.key: destroy for one in cleans if one.node == destroy.node})

    def concluded(self, intent: Intent, ended: Conclusion) -> None:
        """Add a clean whose outcome is written; forget the destroy of one that freed nothing."""
        if intent.kind in FREEING and ended.outcome == CLEANED:
            self._cleans[ended.key] = intent, ended
        else:
            self._destroys.pop(ended.key, None)

    def proven(self, key: str) -> None:
        """Forget a clean that was checked against its entry: a new file need not have it."""
        self._cleans.pop(key, None)
        self._destroys.pop(key, None)

    def write(self, journal: Journal, owed: Collection[str]) -> None:
        """Write what this file lacks, but for the keys whose outcome still waits to be written."""
        for destroy in self._destroys.values():
            if destroy.key not in owed and journal.newest(destroy.key) is None:
                journal.commit([destroy], [Conclusion(destroy.key, Outcome.GONE.value)])
        for key, (clean, ended) in self._cleans.items():
            newest = journal.newest(key)
            if newest is None or newest.plan_id != clean.plan_id:
                journal.commit([clean], [ended])
