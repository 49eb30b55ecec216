"""Whether a boot has come to something: the one answer for B5, D17 and nodes that end in set-up.

Without a scheduler a boot has come to something once its node pings; with one, once the scheduler
calls that node up, too.
"""

from __future__ import annotations

from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import Record, life_key
from nodemanager.core.observe.history import History


def is_booting(uuid: str, incarnation: str | None, history: History) -> bool:
    """Whether this life's boot has come to nothing yet, and we have watched that.

    Of a life that nobody watched from its boot on, a ping says that it came to something.
    """
    known = history.hostnames.get(life_key(uuid, incarnation))
    if known is not None and known.waits:
        return True
    heard = history.heard.get(uuid)
    is_of_it = heard is not None and heard.incarnation == incarnation
    return is_of_it and heard is not None and heard.last_ping_at is None


def waits_to_join(record: Record, history: History) -> bool:
    """Whether the scheduler has yet to call the record's node up for the first time (D17)."""
    known = history.hostnames.get(life_key(record.uuid, record.incarnation))
    return known is not None and known.waits


def unjoined_for(record: Record, history: History, now: float, settings: Settings) -> float | None:
    """Seconds from the first to the newest answer of those in a row that said that it is not up.

    None if the newest said otherwise, or is not fresh. It may have come up since.
    """
    listing = history.scheduler
    since = history.unjoined.get(life_key(record.uuid, record.incarnation))
    if since is None or listing is None or now - listing.started_at > settings.poll_stale_after:
        return None
    return listing.started_at - since
