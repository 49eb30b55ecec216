"""What the stamps of records tell on the store's clock: that it was set back unmeasured (T1).

A store stamps the writes of one record in their order. If a later write has the lower stamp, and we
know of no jump, the clock was set back while nobody measured it, or what was measured was lost. It
may have been set right again since. Then no stamp tells when it was made, of
whatever record: a life may lie wholly in the time in which the clock was slow. All that a run then
knows of what was stamped earlier is that it was there when the run listed it.
"""

from __future__ import annotations

from nodemanager.core.model.changed import changed
from nodemanager.core.model.settings import CLOCK_STEP_S
from nodemanager.core.model.world import Listing, Record
from nodemanager.core.observe.clocks import MeasuredClock


def after_stamps(
    clock: MeasuredClock, listing: Listing[Record], *, is_first: bool
) -> MeasuredClock:
    """The clock after `listing`: known since its end if stamps in it contradict each other.

    A jump that we know of explains such stamps. But not in the first listing of a run: what that
    shows may also come from the time between two runs, in which nobody read the clock.
    """
    if clock.has_jumped and not is_first:
        return clock
    if not contradicted(listing):
        return clock
    return changed(clock, known_since=listing.ended_at)


def contradicted(listing: Listing[Record]) -> list[str]:
    """The uuids of records whose stamps contradict each other."""
    return [record.uuid for record in listing.items if _contradicts_itself(record)]


def _contradicts_itself(record: Record) -> bool:
    """Whether a later write of `record` has the lower stamp, by more than a minute.

    Every write and every ping moves `modified_at`, and no ping comes before the first one. Pings
    may come before the claim, because a node that pings may be adopted.
    """
    modified, last, first = record.modified_at, record.last_ping_at, record.first_ping_at
    claimed = None if record.claim is None else record.claim.at
    if modified is not None:
        for stamp in (last, first, claimed):
            if stamp is not None and stamp - modified > CLOCK_STEP_S:
                return True
    return last is not None and first is not None and first - last > CLOCK_STEP_S
