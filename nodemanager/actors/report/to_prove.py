"""What the proof of a clean rests on, until it is proven: another file must have it, too (C20)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from nodemanager.core.explain.events import CLEANED
from nodemanager.core.model.world import Outcome
from nodemanager.journal.api import Conclusion, Intent, IntentKind, Journal

FREEING = frozenset({IntentKind.FENCE, IntentKind.CLEAN})


class ToProve:
    """The cleans that were not proven yet and the destroys behind them, by the cleans' keys."""

    def __init__(self) -> None:
        self._destroys: dict[str, Intent] = {}
        """Those that ended in gone."""
        self._cleans: dict[str, tuple[Intent, Conclusion]] = {}
        """Those whose outcome is written."""

    def rest_on(self, destroys: Mapping[str, Intent]) -> None:
        """These cleans rest on those destroys, which ended in gone."""
        self._destroys |= destroys

    def destroyed(self, destroy: Intent, under_way: Iterable[Intent]) -> None:
        """A destroy ended in gone: the cleans of its node that are under way rest on it."""
        cleans = (one for one in under_way if one.kind in FREEING)
        self.rest_on({one.key: destroy for one in cleans if one.node == destroy.node})

    def concluded(self, intent: Intent, ended: Conclusion) -> None:
        """An outcome is written: where it freed a record, the proof is still to come."""
        if intent.kind in FREEING and ended.outcome == CLEANED:
            self._cleans[ended.key] = intent, ended
        else:
            self._destroys.pop(ended.key, None)

    def proven(self, key: str) -> None:
        """That clean was held against its entry: another file need not have it."""
        self._cleans.pop(key, None)
        self._destroys.pop(key, None)

    def write(self, journal: Journal, owed: Collection[str]) -> None:
        """Write what this file has nothing of, but for the keys whose outcome is owed."""
        for destroy in self._destroys.values():
            if destroy.key not in owed and journal.newest(destroy.key) is None:
                journal.commit([destroy], [Conclusion(destroy.key, Outcome.GONE.value)])
        for key, (clean, ended) in self._cleans.items():
            newest = journal.newest(key)
            if newest is None or newest.plan_id != clean.plan_id:
                journal.commit([clean], [ended])
