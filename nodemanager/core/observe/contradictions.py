"""What the stamps of records tell on the store's clock: that it was set back unmeasured (T1).

A store stamps the writes of one record in their order. If a later write has the lower stamp, and no
jump that we measured explains that, the clock was set back while nobody measured it, or what was
measured was lost. It may have been set right again since. Then no stamp tells when it was made, of
whatever record: a life may lie wholly in the time in which the clock was slow. All that a run then
knows of what was stamped earlier is that it was there when the run listed it.
"""

from __future__ import annotations

from collections.abc import Iterator

from nodemanager.core.model.changed import changed
from nodemanager.core.model.settings import CLOCK_STEP_S
from nodemanager.core.model.world import Listing, Record
from nodemanager.core.observe.store_clock import StoreClock


def after_stamps(clock: StoreClock, listing: Listing[Record], *, is_first: bool) -> StoreClock:
    """The clock after `listing`: known since its end if stamps in it contradict each other.

    A jump back that we measured explains a stamp that is no higher than what the clock showed
    before it. But not in the first listing of a run: what that shows may also come from the time
    between two runs, in which nobody read the clock.
    """
    shown = [stamp for _, stamp in contradicted(clock, listing, is_first=is_first)]
    if not shown:
        return clock
    # The clock showed that much, and was set back: this explains the same stamps from now on.
    return changed(clock, known_since=listing.ended_at, peak=max(clock.peak, *shown))


def contradicted(
    clock: StoreClock, listing: Listing[Record], *, is_first: bool
) -> list[tuple[str, float]]:
    """The uuids of records whose stamps contradict each other, each with the stamp too high."""
    return [
        (record.uuid, stamp)
        for record in listing.items
        for stamp in _contradicted(record, clock, listing.ended_at)
        if is_first or stamp > clock.peak
    ]


def _contradicted(record: Record, clock: StoreClock, at: float) -> Iterator[float]:
    """The stamps of `record` that the lower stamp of a later write contradicts.

    Every write and every ping moves `modified_at`, and no ping comes before the first one. Pings
    may come before the claim, because a node that pings may be adopted.
    """
    modified, last, first = record.modified_at, record.last_ping_at, record.first_ping_at
    claimed = None if record.claim is None else record.claim.at
    if modified is not None:
        for stamp in (last, first, claimed):
            if stamp is not None and _looks_later(stamp, modified, clock, at):
                yield stamp
    if last is not None and first is not None and _looks_later(first, last, clock, at):
        yield first


def _looks_later(stamp: float, than: float, clock: StoreClock, at: float) -> bool:
    """Whether `stamp` looks over a minute younger, also less the jumps forward that we measured."""
    if stamp - than <= CLOCK_STEP_S:
        return False
    return clock.age(than, at) - clock.age(stamp, at) > CLOCK_STEP_S
