"""What waiting can do about each verdict, for `nodemanager verify`: four tables of reason codes.

doc/verify.inc is generated from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nodemanager.core.judge.outdated import ROTATE
from nodemanager.core.model.reasons import Reason, Told


class Outlook(Told):
    """Whether something is at rest, or else what becomes of it by waiting."""

    SETTLED = "settled", "It is as it should be."
    SETTLING = "settling", "It is on its way, so it is waited for."
    STUCK = "stuck", "Waiting can't mend it: a person must."
    APART = "apart", "It is counted, but neither waited for nor a failure."


Table = Mapping[Reason, Outlook]


def _table(
    *,
    settled: Iterable[Reason] = (),
    settling: Iterable[Reason] = (),
    stuck: Iterable[Reason] = (),
    apart: Iterable[Reason] = (),
) -> Table:
    return {
        **dict.fromkeys(settled, Outlook.SETTLED),
        **dict.fromkeys(settling, Outlook.SETTLING),
        **dict.fromkeys(stuck, Outlook.STUCK),
        **dict.fromkeys(apart, Outlook.APART),
    }


POOL = _table(
    settling=(Reason.NO_LISTING, Reason.POLL_STALE, Reason.NO_LEASE),
    stuck=(
        Reason.READ_ONLY,
        Reason.PAUSED,
        Reason.BREAKER_OPEN,
        Reason.NOT_AUTHORISED,
        Reason.TOO_MANY_IMPOSSIBLE,
        Reason.IMPOSSIBLE,
        Reason.POOL_EMPTY,
        Reason.SUM_IMPOSSIBLE,
    ),
)
"""What concerns the pool as a whole. The preconditions are in the other tables, too: a node or
record that waits for one has it as its reason."""

NODES = _table(
    settled=(
        Reason.BUSY,
        Reason.WORKER_UNKNOWN,
        Reason.NEEDED,
        Reason.SPARE,
        Reason.NOT_IDLE_LONG,
        Reason.WINDOW_CLOSED,
        Reason.NO_LONGER_WANTED,
        # It works until its job ends, and that may take days.
        Reason.DRAINING,
        # An operator wants it just so.
        Reason.CORDONED,
    ),
    settling=(
        Reason.BOOTING,
        Reason.UNJOINED,
        Reason.SILENT_WITHIN_WINDOW,
        Reason.UNPAIRED_WITHIN_WINDOW,
        Reason.NOT_SETTLED,
        Reason.CHANGED_SINCE_LISTING,
        Reason.IN_FLIGHT,
        Reason.CLOCK_UNKNOWN,
        Reason.POLL_STALE,
        Reason.NO_LEASE,
        # Idle, and about to go or to be wanted again.
        Reason.DRAIN_AWAITED,
        Reason.IDLE_WORD_OLD,
        Reason.LATE_DESTROY,
        # Being shut down, or about to be. A bad node is replaced, so that this mends it.
        Reason.SHUTTING_DOWN,
        Reason.SHUTDOWN_CAP,
        Reason.IDLE_BEYOND_DEMAND,
        Reason.SUSPENDED,
        *sorted(ROTATE),
        Reason.DRAINED,
        Reason.KILLED,
        Reason.NODE_DOWN,
        Reason.NODE_STOPPED,
        Reason.BOOT_FAILED,
        Reason.NOT_JOINED,
        Reason.UNPAIRED,
    ),
    stuck=(
        Reason.UNREADABLE,
        Reason.AMBIGUOUS,
        Reason.IMPOSSIBLE,
        Reason.NO_LAUNCH_TIME,
        # It gets no work, and somebody has to see why.
        Reason.DOWN_IN_SCHEDULER,
        Reason.UNSCHEDULED,
        # It has no record: somebody must drain it in the scheduler.
        Reason.UP_IN_SCHEDULER,
        Reason.READ_ONLY,
        Reason.PAUSED,
        Reason.BREAKER_OPEN,
        Reason.NOT_AUTHORISED,
    ),
    apart=(Reason.HELD, Reason.FOREIGN_NODE, Reason.UNTAGGED, Reason.SET_ASIDE),
)
"""By a listed node's verdict. Terminated nodes (`node_absent`) are not counted."""

RECORDS = _table(
    settled=(Reason.PAIRED, Reason.NODE_LISTED),
    settling=(
        Reason.NODE_EXPECTED,
        Reason.CLAIM_WITHIN_WINDOW,
        Reason.NOT_SETTLED,
        Reason.NO_LISTING_ORDER,
        Reason.CHANGED_SINCE_LISTING,
        Reason.IN_FLIGHT,
        Reason.CLOCK_UNKNOWN,
        Reason.POLL_STALE,
        Reason.NO_LEASE,
        # Pings say that its node lives, and no listing shows the node.
        Reason.BUSY,
        Reason.IDLE,
        Reason.UP_IN_SCHEDULER,
        Reason.PINGING_UNLISTED,
        Reason.UNTAGGED,
        Reason.LISTING_SHORT,
        # Being freed, or about to be.
        Reason.STALE_SLOT,
        Reason.CLAIM_EXPIRED,
        Reason.CLEAN_BY_HAND,
        Reason.PINGER_DENIED,
        Reason.CAP_REACHED,
        Reason.FENCED,
    ),
    stuck=(
        Reason.UNREADABLE,
        Reason.AMBIGUOUS,
        Reason.IMPOSSIBLE,
        Reason.UNVERIFIABLE,
        Reason.BACKLOG_HELD,
        Reason.READ_ONLY,
        Reason.PAUSED,
        Reason.BREAKER_OPEN,
        Reason.NOT_AUTHORISED,
    ),
    apart=(
        Reason.HELD,
        Reason.OTHER_POOL,
        Reason.UNCLAIMED_POOL,
        # No rule frees it sooner, so an hour after a node died nothing is wrong.
        Reason.WITHIN_WINDOW,
    ),
)
"""By the verdict of a record that holds a slot and whose node no listing shows."""

BOOTS = _table(
    settling=(
        Reason.BELOW_MIN_NODES,
        Reason.BELOW_SPARE_NODES,
        Reason.WANTED,
        Reason.IN_FLIGHT,
        Reason.CLAIMS_PENDING,
        Reason.CREATE_UNCLEAR,
        Reason.THROTTLED,
        Reason.POLL_STALE,
        Reason.NO_LEASE,
        # Until the slot's window ends, and until the size's rest ends; but see `of_refusal`.
        Reason.NO_FREE_SLOT,
        Reason.SIZE_RESTS,
        Reason.PLACES_REST,
    ),
    stuck=(
        Reason.AT_QUOTA,
        Reason.NOT_IN_SCHEDULER,
        Reason.BOOT_LOOP,
        Reason.UNPRICED_SIZE,
        Reason.READ_ONLY,
        Reason.PAUSED,
        Reason.BREAKER_OPEN,
    ),
    # The pool is as large as its owner lets it be.
    apart=(Reason.AT_MAX_NODES, Reason.AT_MAX_PRICE),
)
"""By the reason of nodes that demand, spare_nodes or min_nodes wants, granted or refused."""


def of_refusal(reason: Reason, *, bad_requests: int, slot_free_in_s: float | None) -> Outlook:
    """What waiting can do about a refused boot.

    A size rests for good if the cloud calls its creates wrong, as for a wrong image
    (`bad_requests` in a row). A slot is worth waiting for only where a window frees the next one.
    """
    if reason is Reason.SIZE_RESTS and bad_requests:
        return Outlook.STUCK
    if reason is Reason.NO_FREE_SLOT and slot_free_in_s is None:
        return Outlook.STUCK
    return BOOTS.get(reason, Outlook.STUCK)
