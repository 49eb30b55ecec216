"""The closed lists of reasons and events that the log, the docs, `explain` and the metrics share.

The manual's page of events is made of each member's text here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Flag, StrEnum, auto
from typing import Any, NamedTuple


class Documented(StrEnum):
    """An enum whose members carry a `doc`: one sentence for readers of the log."""

    doc: str

    def __new__(cls, value: str, doc: str) -> Documented:
        member = str.__new__(cls, value)
        member._value_ = value
        member.doc = doc
        return member


class Kind(StrEnum):
    """What a verdict calls for."""

    KEEP = "keep"
    CLEAN = "clean"
    DEFER = "defer"
    RESTORE = "restore"
    SHUTDOWN = "shutdown"
    LIFT = "lift"
    PRUNE = "prune"
    ADOPT = "adopt"


class Outlook(Documented):
    """Whether something is at rest, or else what becomes of it by waiting."""

    SETTLED = "settled", "It is as it should be."
    SETTLING = "settling", "It is on its way, so it is waited for."
    STUCK = "stuck", "Waiting can't mend it: a person must."
    APART = "apart", "It is counted, but neither waited for nor a failure."


class Means(Flag):
    """What a reason means: first, for which things `nodemanager verify` may find it."""

    POOL = auto()
    NODE = auto()
    RECORD = auto()
    """One that holds a slot and whose node no listing shows."""
    BOOT = auto()
    # Their outlook.
    SETTLED = auto()
    SETTLING = auto()
    STUCK = auto()
    APART = auto()
    MAY_LIVE = auto()
    """Of a record the outlook is settling: something says that its node lives."""
    PASSES = auto()
    """It says nothing about the record or node itself, which waits until it is over."""
    NOT_DRAINED = auto()
    """It refuses a drain; with any other reason the node is drained later."""
    BAD = auto()
    """A node goes because something seems wrong with it (`nodes_bad`)."""
    IDLES = auto()
    """A node is kept, and its own fresh report says idle."""
    OUTDATED = auto()
    """An idle node goes, and another one takes its place."""
    BY_PING = auto()
    """A ping alone can cause it, by its stamps, its state or a new version."""
    FORCED = auto()
    """An operator may break its rule by name (O3)."""
    REQUEST = auto()
    """A server refuses a request or ends a connection for it."""


POOL, NODE, RECORD, BOOT, SETTLED, SETTLING, STUCK, APART, MAY_LIVE, *_OTHERS = Means
PASSES, NOT_DRAINED, BAD, IDLES, OUTDATED, BY_PING, FORCED, REQUEST = _OTHERS
_BY_HAND = (
    "let the node end its work and destroy it; the breaker closes once the cloud confirms it gone"
)


class ReasonRow(NamedTuple):
    """All that is known of a reason; `doc` names its rule first.

    `clear` says how an operator ends a refusal for it, if `doc` does not; `frees`, what a person
    does about the slots that it keeps for ever; `restores`, about a record that it keeps from being
    given back (U8). They are empty where nothing is to be done.
    """

    value: str
    doc: str
    means: Means = Means(0)
    clear: str = ""
    frees: str = ""
    restores: str = ""


class Explained(Documented):
    """An enum whose members are made of rows."""

    row: ReasonRow
    rule: str | None
    """The rule in SAFETY.md that `doc` names first, None where it names none."""
    outlooks: Mapping[Means, Outlook]
    """What waiting can do about the pool, a node, a record or a boot that has this reason."""

    def __new__(cls, *columns: Any) -> Explained:
        known = ReasonRow(*columns)
        member = str.__new__(cls, known.value)
        member._value_, member.doc, member.row = known.value, known.doc, known
        named = re.search(r"\b[A-Z]\d+\b", known.doc)
        member.rule = None if named is None else named[0]
        means = known.means
        member.outlooks = {
            subject: Outlook.SETTLING if subject is RECORD and MAY_LIVE in means else outlook
            for outlook in Outlook
            if Means[outlook.name] in means
            for subject in (POOL, NODE, RECORD, BOOT)
            if subject in means
        }
        return member


class Reason(Explained):
    """Why a record or a node was kept, freed, booted or destroyed."""

    # A record is kept.
    HOLDS_NOTHING = "holds_nothing", "The record is clean; it may be reused (C1)."
    OTHER_POOL = ReasonRow(
        "other_pool", "It names another pool; that pool's manager handles it (T3).", RECORD | APART
    )
    UNCLAIMED_POOL = ReasonRow(
        "unclaimed_pool",
        "It names no pool, and `adopt_unclaimed` does not let this manager handle it (T3).",
        RECORD | APART,
        frees="if no other pool's manager has them: set [Cleaning] adopt_unclaimed = yes, then "
        "nodemanager reload",
    )
    UNREADABLE = ReasonRow(
        "unreadable",
        "Part of it can't be read, so nothing is done to it (P3, T7).",
        NODE | RECORD | STUCK | NOT_DRAINED,
        frees="nodemanager explain SLOT says what can't be read: mend it in the store",
        restores="mend the record by hand, and it is given back",
    )
    PAIRED = ReasonRow("paired", "Its cloud node is listed (C4).", RECORD | SETTLED)
    NODE_LISTED = ReasonRow(
        "node_listed", "A cloud node is listed with its tags or instance id (C4).", RECORD | SETTLED
    )
    NODE_EXPECTED = ReasonRow(
        "node_expected",
        "We created its node, and no listing shows the node yet (P4).",
        RECORD | SETTLING | NOT_DRAINED,
    )
    # No rule frees it sooner, so an hour after a node died nothing is wrong.
    WITHIN_WINDOW = ReasonRow(
        "within_window",
        "It is quiet, but not for longer than its stale window, `node_stale_after` (C3).",
        RECORD | APART | BY_PING | FORCED,
    )
    CLAIM_WITHIN_WINDOW = ReasonRow(
        "claim_within_window",
        "It is claimed and was never pinged, and its claim has not expired yet: `claim_expiry` "
        "says when it does (C21).",
        RECORD | SETTLING,
    )
    BUSY = ReasonRow(
        "busy",
        "The node's last ping is fresh and says busy, or its scheduler does (C2, T6).",
        NODE | RECORD | SETTLED | MAY_LIVE | BY_PING | FORCED,
    )
    UP_IN_SCHEDULER = ReasonRow(
        "up_in_scheduler",
        "The scheduler reaches a node of its hostname, busy or idle: it may live (C2, T6). A node "
        "without a record gets work there until somebody drains it (D7).",
        NODE | RECORD | STUCK | MAY_LIVE | FORCED,
    )
    IDLE = ReasonRow(
        "idle",
        "The node's last ping is fresh and says idle, so the node lives (C2).",
        RECORD | SETTLING | BY_PING | FORCED,
    )
    NOT_SETTLED = ReasonRow(
        "not_settled",
        "Its node is absent, but not yet from enough complete listings or for `settle` (C5).",
        NODE | RECORD | SETTLING | PASSES | FORCED,
    )
    NO_LISTING_ORDER = ReasonRow(
        "no_listing_order",
        "No complete cloud listing began since a complete record listing with it ended (C6).",
        RECORD | SETTLING | PASSES,
        clear="Try again after the next poll.",
    )
    CHANGED_SINCE_LISTING = ReasonRow(
        "changed_since_listing",
        "A later record listing shows another version of it or lacks it (C6), or no listing is "
        "newer than our last action for it (C8).",
        NODE | RECORD | SETTLING | PASSES | BY_PING,
        clear="Try again after the next poll.",
    )
    POLL_STALE = ReasonRow(
        "poll_stale",
        "A poll is older than `poll_stale_after`: nothing is changed (C7).",
        POOL | NODE | RECORD | BOOT | SETTLING | PASSES,
    )
    CLOCK_UNKNOWN = ReasonRow(
        "clock_unknown",
        "The store's clock can't be read or just jumped, so no age can be trusted (T1).",
        NODE | RECORD | SETTLING | PASSES,
    )
    IN_FLIGHT = ReasonRow(
        "in_flight",
        "An action of ours is in flight for it (C8).",
        NODE | RECORD | BOOT | SETTLING | PASSES,
    )
    HELD = ReasonRow(
        "held",
        "An operator holds it or its node (C9).",
        NODE | RECORD | APART | NOT_DRAINED,
        clear="`nodemanager orders` says by whom, and `nodemanager release` ends it.",
        restores="`nodemanager release` it, and it is given back",
    )
    BREAKER_OPEN = ReasonRow(
        "breaker_open",
        "The breaker is open, so nothing is freed or destroyed (B2).",
        POOL | NODE | RECORD | BOOT | STUCK | PASSES,
        clear="`nodemanager breaker reset` closes it, once you have looked.",
    )
    NO_LEASE = ReasonRow(
        "no_lease",
        "This manager lacks the pool's lease, so it changes nothing (C10, L6).",
        POOL | NODE | RECORD | BOOT | SETTLING | PASSES,
    )
    READ_ONLY = ReasonRow(
        "read_only",
        "The account or store is not the known one (L5), or the journal or the state directory "
        "fails: nothing is created, destroyed or freed.",
        POOL | NODE | RECORD | BOOT | STUCK | PASSES,
    )
    NOT_AUTHORISED = ReasonRow(
        "not_authorised",
        "An adapter can't prove its listings complete: nothing is freed or destroyed (L2).",
        POOL | NODE | RECORD | STUCK,
    )
    CAP_REACHED = ReasonRow(
        "cap_reached",
        "The cap on cleans, `max_cleans_per_cycle`, is used up until the next cycle (C10), or as "
        "many are under way as can be done while their orders stand (C11).",
        RECORD | SETTLING,
        clear="Try again after the next poll.",
    )
    AMBIGUOUS = ReasonRow(
        "ambiguous",
        "It has more than one candidate, so it is paired with none (P2).",
        NODE | RECORD | STUCK | NOT_DRAINED,
        clear="Look at both, and take the tags off the one that is not ours.",
        frees="nodemanager explain SLOT names the candidates: nodemanager kill the wrong ones",
    )
    PINGING_UNLISTED = ReasonRow(
        "pinging_unlisted",
        "Pings come for it, but no listing shows its node and the cloud denies it when asked (P6).",
        RECORD | SETTLING | BY_PING,
    )
    LISTING_SHORT = ReasonRow(
        "listing_short",
        "The cloud has a node of ours by id or tag that it does not list: nothing is freed (P6).",
        RECORD | SETTLING | PASSES,
    )
    IMPOSSIBLE = ReasonRow(
        "impossible",
        "A listing shows it, or the slot that it holds, twice: nothing is done to it (L4).",
        POOL | NODE | RECORD | STUCK | NOT_DRAINED,
        frees="nodemanager explain SLOT says what stands there twice: mend it in the store",
    )

    FENCED = ReasonRow(
        "fenced",
        "A fence locks its node out, so the fence is lifted first (C12).",
        RECORD | SETTLING,
    )
    FENCE_LEFT = "fence_left", "A fence of ours is left without a clean, so it is lifted (C12)."
    BACKLOG_HELD = ReasonRow(
        "backlog_held",
        "It was leaked before the first start; an operator decides with `nodemanager backlog` "
        "(S5).",
        RECORD | STUCK | FORCED,
        frees="nodemanager backlog plan shows them, nodemanager backlog apply frees those you "
        "leave in it",
    )

    PAUSED = ReasonRow(
        "paused",
        "An operator paused the pool: nothing is created, destroyed or freed until `resume` (O4).",
        POOL | NODE | RECORD | BOOT | STUCK | PASSES,
        clear="`nodemanager resume` ends that.",
    )

    # A record is freed.
    STALE_SLOT = ReasonRow(
        "stale_slot",
        "Its node is gone, and it has been quiet for longer than `node_stale_after` (C1-C10).",
        RECORD | SETTLING,
    )
    CLAIM_EXPIRED = ReasonRow(
        "claim_expired",
        "It was claimed and never pinged, and its claim expired (C21).",
        RECORD | SETTLING,
    )
    AFTER_SHUTDOWN = "after_shutdown", "We destroyed its node and the cloud says it is gone (C20)."
    PINGER_DENIED = ReasonRow(
        "pinger_denied",
        "Pings come for it, but the cloud has denied its node, by tag and by id, for longer than "
        "`node_stale_after`: somebody without a node has its secret (P6).",
        RECORD | SETTLING,
    )
    CREATE_UNCLEAR = ReasonRow(
        "create_unclear",
        "A create got no clear answer. Its node counts for `max_nodes` until its outcome is known; "
        "once the cloud, asked by tag, denied it twice, one more create is tried at a time (U9).",
        BOOT | SETTLING,
    )
    CREATE_REFUSED = (
        "create_refused",
        "The cloud refused the create by its own error code, so the claim is released (U6).",
    )

    CLEAN_BY_HAND = ReasonRow(
        "clean_by_hand",
        "An operator ordered it to be freed now; `forced` names the rules that they broke (O3).",
        RECORD | SETTLING,
    )

    # A record is deleted.
    SURPLUS = (
        "surplus",
        "It held nothing for over `prune_after`, and there are more records than `max_nodes` "
        "(C8-C12).",
    )

    # There are more records than the pool can use, and nothing deletes them.
    UNUSED_RECORDS = (
        "unused_records",
        "The pool has over a hundred unused records more than `max_nodes`, and none is deleted.",
    )

    # A record was freed, and its node lives.
    LATE_PING = (
        "late_ping",
        "A ping with the freed life's secret came over 60 s after the clean (U8).",
    )
    PINGED_AFTER_CLEAN = (
        "pinged_after_clean",
        "The freed record shows a ping by its former instance over 60 s after the clean (U8).",
    )
    ALIVE_AFTER_CLEAN = (
        "alive_after_clean",
        "A listing begun after the clean shows its node, and the cloud confirms it by id (U8).",
    )
    FALSE_CLEAN = "false_clean", "It was freed while its node lived, so it is given back (U8)."
    RECORD_REUSED = ReasonRow(
        "record_reused",
        "It can't be given back: it was claimed or written to since.",
        restores=_BY_HAND,
    )
    RECORD_DELETED = ReasonRow(
        "record_deleted",
        "It can't be given back: the record is not there any more.",
        restores=_BY_HAND,
    )
    SLOT_TAKEN = ReasonRow(
        "slot_taken",
        "It can't be given back, because another record holds its slot now.",
        restores=f"free the slot by draining the node that has it, or {_BY_HAND}",
    )
    NO_PRE_IMAGE = ReasonRow(
        "no_pre_image",
        "It can't be given back, because the journal lacks its content from before the clean.",
        restores=_BY_HAND,
    )

    # An action was ordered, and the check right before it left it undone.
    CHANGED_SINCE_PLAN = "changed_since_plan", "It changed between the plan and the write (C11)."
    NODE_ALIVE = "node_alive", "The pre-write check found its node in the cloud (C11)."
    RECORD_GONE = "record_gone", "The record does not exist any more."
    UNVERIFIABLE = ReasonRow(
        "unverifiable",
        "There is no tag or valid instance id to ask the cloud by; an operator must decide (C11).",
        RECORD | STUCK | FORCED,
        frees="if no node of those slots lives: nodemanager clean SLOT --force unverifiable "
        "--reason WHY",
        restores="find its node by hand; the breaker closes once its pings have stopped for "
        "node_stale_after, or by `nodemanager breaker reset`",
    )
    ORDER_EXPIRED = ReasonRow(
        "order_expired", "The order was not carried out before its not-after (C11).", PASSES
    )
    DENIED_TOO_EARLY = (
        "denied_too_early",
        "The cloud says 'no such node', but a node may be too young for that to count (C11, C20).",
    )
    EVIDENCE_MISSING = ReasonRow(
        "evidence_missing",
        "The pre-write check lacks an answer that it needs, so nothing is done (L1).",
        PASSES,
    )
    STOPPING = ReasonRow(
        "stopping", "The daemon is stopping; what had not begun is left to the next run.", PASSES
    )
    NO_LONGER_WANTED = ReasonRow(
        "no_longer_wanted",
        "Right before the action its cause was gone; for example, demand changed (D2, U10).",
        NODE | SETTLED,
    )

    PINS_UNKNOWN = "pins_unknown", "It is unknown what the node pins; its shutdown is retried (D4)."

    # What a node left behind.
    LEFT_BEHIND = "left_behind", "The node is gone, but this resource of it still exists (D4)."
    LEFT_ALONE = (
        "left_alone",
        "It is not released: it is held, lacks our tags, is in use, or its node may live (D4).",
    )
    PASSED_OVER = (
        "passed_over",
        "Five attempts did not release it; its node's other leftovers wait no longer for it (D4).",
    )

    # A node is kept.
    NODE_ABSENT = "node_absent", "The cloud calls it terminated, or does not list it any more."
    FOREIGN_NODE = ReasonRow(
        "foreign_node",
        "It is another pool's node, or not in `[Cloud List]` (T3, T5).",
        NODE | APART | NOT_DRAINED,
    )
    UNTAGGED = ReasonRow(
        "untagged",
        "It matches `[Cloud List]` but lacks our tag: it counts, and is never drained or destroyed "
        "(D11). Of a record: the cloud has its node by id, without our tag (P6).",
        NODE | RECORD | APART | MAY_LIVE | NOT_DRAINED,
    )
    ADOPTED = "adopted", "It has our pool's tag, or gets it because an operator adopts it (D11)."
    PAIR_UNPROVEN = (
        "pair_unproven",
        "It does not provably pair, or not any more, with the record named for it (P1).",
    )
    ADOPT_REFUSED = "adopt_refused", "The cloud refused our tags on it and changed nothing (D11)."
    SHUTTING_DOWN = ReasonRow("shutting_down", "Its shutdown is under way.", NODE | SETTLING)
    BOOTING = ReasonRow(
        "booting",
        "It was started less than `boot_fail_after` ago, and is not up yet.",
        NODE | SETTLING,
    )
    NEEDED = ReasonRow("needed", "It is idle, and demand still wants it.", NODE | SETTLED | IDLES)
    SPARE = ReasonRow(
        "spare", "It is idle, and kept ready as one of its size's `spare_nodes`.", NODE | SETTLED
    )
    WINDOW_CLOSED = ReasonRow(
        "window_closed",
        "It is idle, but its shutdown window is closed: `shutdown_windows` (D1).",
        NODE | SETTLED | IDLES,
    )
    NOT_IDLE_LONG = ReasonRow(
        "not_idle_long",
        "It is idle, but not yet by `consecutive_idle_count` pings in a row (D1, D12).",
        NODE | SETTLED | IDLES,
    )
    DRAIN_AWAITED = ReasonRow(
        "drain_awaited",
        "It is idle and not wanted, and is told to take no more work; it is shut down once it, or "
        "the scheduler, says that it is drained (D12).",
        NODE | SETTLING,
    )
    LATE_DESTROY = ReasonRow(
        "late_destroy",
        "It is idle and wanted again, but stays drained: a destroy that was sent for it may still "
        "take effect, or a run whose journal is lost may have sent one (D12).",
        NODE | SETTLING,
    )
    IDLE_WORD_OLD = ReasonRow(
        "idle_word_old",
        "It is idle and not wanted, but its last ping is not new, or is from before it became "
        "unwanted: its next ping decides (D12).",
        NODE | SETTLING,
    )
    WORKER_UNKNOWN = ReasonRow(
        "worker_unknown",
        "Its pings are fresh, but its worker state is not known, so it counts as busy (T6).",
        NODE | SETTLED,
    )
    UNSCHEDULED = ReasonRow(
        "unscheduled",
        "It pings, but the scheduler lists no node with its hostname: it is kept, and serves "
        "neither demand nor `min_nodes` (T6, D17).",
        NODE | STUCK,
    )
    UNJOINED = ReasonRow(
        "unjoined",
        "It pings, its boot grace is over, and the scheduler has not called it up yet: it serves "
        "neither demand nor `min_nodes`, and goes if the scheduler goes on saying so (D17).",
        NODE | SETTLING,
    )
    DOWN_IN_SCHEDULER = ReasonRow(
        "down_in_scheduler",
        "It pings, but the scheduler calls it down, or does not reach it: it is kept, and serves "
        "no demand (T6).",
        NODE | STUCK,
    )
    SET_ASIDE = ReasonRow(
        "set_aside",
        "Somebody else drained or reserved it in the scheduler: it is kept, and serves no demand "
        "(T6).",
        NODE | APART,
    )
    SILENT_WITHIN_WINDOW = ReasonRow(
        "silent_within_window",
        "It is silent, but not for `node_stale_after` of time in which the store answered (D8).",
        NODE | SETTLING,
    )
    UNPAIRED_WITHIN_WINDOW = ReasonRow(
        "unpaired_within_window",
        "It has no record, but not yet for `boot_fail_after` and in two record listings (D7, D10).",
        NODE | SETTLING,
    )
    SHUTDOWN_CAP = ReasonRow(
        "shutdown_cap",
        "The cap on shutdowns, `max_shutdowns_per_cycle`, is used up until the next cycle (D9).",
        NODE | SETTLING,
    )
    NO_LAUNCH_TIME = ReasonRow(
        "no_launch_time",
        "The cloud gives no launch time, so its age is unknown (P3).",
        NODE | STUCK,
    )

    # It works until its job ends, and that may take days.
    DRAINING = ReasonRow(
        "draining",
        "An operator drains it; it goes once a new ping of it says idle (O1).",
        NODE | SETTLED,
    )

    PARKING = ReasonRow(
        "parking",
        "An operator parked the pool; it works until its job ends, and goes once a new ping of it "
        "says idle (O7).",
        NODE | SETTLED,
    )
    LEAVING = ReasonRow(
        "leaving",
        "Its cloud will take it (spot, maintenance): it takes no more work, and its job has the "
        "time that is left; it goes once a new ping of it says idle (D18).",
        NODE | SETTLED,
    )

    # A node is destroyed.
    CORDONED = ReasonRow(
        "cordoned",
        "An operator cordons it: it takes no more work, and nothing but a kill destroys it (O5).",
        NODE | SETTLED,
        clear="`nodemanager uncordon` ends it.",
    )
    DRAINED = ReasonRow(
        "drained",
        "An operator drains it, and its own new ping says that it is idle (O1).",
        NODE | SETTLING,
    )
    PARKED = ReasonRow(
        "parked",
        "An operator parked the pool, and its own new ping says that it is idle (O7).",
        NODE | SETTLING,
    )
    NOTICED = ReasonRow(
        "noticed",
        "Its cloud will take it (spot, maintenance), and its own new ping says that it is idle: it "
        "goes before (D18).",
        NODE | SETTLING,
    )
    KILLED = ReasonRow(
        "killed", "An operator kills it: it is destroyed now, busy or not (O2).", NODE | SETTLING
    )
    IDLE_BEYOND_DEMAND = ReasonRow(
        "idle_beyond_demand",
        "It is idle for long enough, its shutdown window is open, and nobody wants it (D1).",
        NODE | SETTLING,
    )
    SUSPENDED = ReasonRow(
        "suspended",
        "Its scheduler has switched it off, and gives it no work any more (D12).",
        NODE | SETTLING,
    )
    OTHER_IMAGE = ReasonRow(
        "other_image",
        "It is idle, and has another image than new nodes get: another node takes its place (D15).",
        NODE | SETTLING | OUTDATED,
    )
    OTHER_TYPE = ReasonRow(
        "other_type",
        "It is idle, and of another instance type than its size has now: another node takes its "
        "place (D15).",
        NODE | SETTLING | OUTDATED,
    )
    TOO_OLD = ReasonRow(
        "too_old",
        "It is idle, and older than `max_node_age`: another node takes its place (D15).",
        NODE | SETTLING | OUTDATED,
    )
    NODE_DOWN = ReasonRow(
        "node_down",
        "It says that it is down, or it is silent for too long (D1, D8).",
        NODE | SETTLING | BAD,
    )
    NODE_STOPPED = ReasonRow(
        "node_stopped", "It has been stopped or suspended for `settle` (D1).", NODE | SETTLING | BAD
    )
    BOOT_FAILED = ReasonRow(
        "boot_failed", "It never pinged within `boot_fail_after` (D8).", NODE | SETTLING | BAD
    )
    NOT_JOINED = ReasonRow(
        "not_joined",
        "It pings, but was never up in its scheduler within `boot_fail_after` (D17).",
        NODE | SETTLING | BAD,
    )
    UNPAIRED = ReasonRow(
        "unpaired",
        "It has our tag, and no record for `boot_fail_after` (D7).",
        NODE | SETTLING | BAD,
    )

    # A node is booted, or not.
    BELOW_MIN_NODES = ReasonRow(
        "below_min_nodes", "There are fewer nodes than `min_nodes`.", BOOT | SETTLING
    )
    BELOW_SPARE_NODES = ReasonRow(
        "below_spare_nodes",
        "Fewer nodes of the size are idle beyond demand than its `spare_nodes`.",
        BOOT | SETTLING,
    )
    WANTED = ReasonRow(
        "wanted", "The wishlist asks for more nodes than there are.", BOOT | SETTLING
    )
    POOL_PARKED = ReasonRow(
        "pool_parked",
        "An operator parked the pool: nothing is booted until `unpark` (O7).",
        BOOT | APART,
        clear="`nodemanager unpark` ends that.",
    )
    AT_MAX_NODES = ReasonRow("at_max_nodes", "`max_nodes` is reached.", BOOT | APART)
    AT_MAX_PRICE = ReasonRow(
        "at_max_price", "One more node would exceed `max_total_price`.", BOOT | APART
    )
    NO_FREE_SLOT = ReasonRow(
        "no_free_slot",
        "No slot is free; `nodemanager slots` says what holds them (U7).",
        BOOT | SETTLING,
    )
    NOT_IN_SCHEDULER = ReasonRow(
        "not_in_scheduler",
        "The scheduler has no node of the hostname that the next node would get, so it would never "
        "get work there (U12).",
        BOOT | STUCK,
    )
    AT_QUOTA = ReasonRow(
        "at_quota",
        "The cloud refused more nodes; one more is tried after `boot_fail_after` (D6).",
        BOOT | STUCK,
    )
    BOOT_LOOP = ReasonRow(
        "boot_loop",
        "Too many boots in a row failed, so the size rests, or one probe is booted at a time; "
        "`nodemanager breaker reset` ends that once the cause is mended (B5).",
        BOOT | STUCK,
    )
    SIZE_RESTS = ReasonRow(
        "size_rests",
        "The cloud refused this size lately, so it rests for a while (D6).",
        BOOT | SETTLING,
    )
    PLACE_RESTS = (
        "place_rests",
        "The cloud had no room for this size in this zone or subnet, which rests for that size; "
        "its other places are tried (D6).",
    )
    PLACES_REST = ReasonRow(
        "places_rest",
        "The cloud had no room for this size in any of its places, so all of them rest (D6).",
        BOOT | SETTLING,
    )
    THROTTLED = ReasonRow(
        "throttled", "The cloud asked for fewer calls, so this one waits (D6).", BOOT | SETTLING
    )
    UNPRICED_SIZE = ReasonRow(
        "unpriced_size",
        "`max_total_price` is set, but this size has no known price; set `[Size] price` (S4).",
        BOOT | STUCK,
    )
    CLAIMS_PENDING = ReasonRow(
        "claims_pending",
        "Claims that never pinged and records that are still locked (U2) fill `max_nodes` (U6).",
        BOOT | SETTLING,
    )

    # No outdated node of a size is replaced now.
    ROTATION_PAUSED = (
        "rotation_paused",
        "An operator paused the replacement of outdated nodes; `nodemanager rotate resume` ends "
        "that (O6).",
    )
    ROTATION_STALLED = (
        "rotation_stalled",
        "A node that was booted as new ones are to be has another image or type all the same: its "
        "size's outdated nodes stay until that node is gone (D15).",
    )
    REFILL_AWAITED = (
        "refill_awaited",
        "A node of the size still comes, goes or is lacking, or `min_nodes` counts on one of any "
        "size that comes: the next one is replaced after it (D15).",
    )
    NO_IDLE_NODE = (
        "no_idle_node",
        "Every outdated node of the size is busy, held, or wanted by the queue: it stays (D15).",
    )

    # A job can't be served, so that nothing is booted for it.
    NO_FITTING_SIZE = "no_fitting_size", "No configured size has what the job needs (U12)."
    JOB_OVER_MAX_NODES = (
        "job_over_max_nodes",
        "The job wants more nodes at once than `max_nodes` allows (U12).",
    )
    JOB_OVER_MAX_PRICE = (
        "job_over_max_price",
        "The job's nodes alone cost more per hour than `max_total_price` (U12).",
    )
    JOB_UNREADABLE = (
        "job_unreadable",
        "What the scheduler says of the job can't be read, so nothing is known of its needs (U12).",
    )
    JOB_TIED = (
        "job_tied",
        "The job may run only where no boot of ours can be sure to bring a node, for example on "
        "nodes that it names or in a reservation (U12).",
    )
    PARTITION_LIMIT = (
        "partition_limit",
        "The scheduler's own limits of the job's partition keep it from running (U12).",
    )

    # An operator's command is refused.
    UNKNOWN_ID = "unknown_id", "No node, record or leftover has that id, name, hostname or slot."
    AMBIGUOUS_NAME = "ambiguous_name", "More than one node or record goes by that name; give an id."
    NO_NODE = "no_node", "The command needs a node, and the record has no listed one."
    NO_RECORD = "no_record", "The command needs a record, and the node has none."
    NEVER_FORCED = "never_forced", "`--force` can't break this rule, or lacks who and why (O3)."

    # A server refuses a request, or ends a connection.
    NO_TOKEN = ReasonRow("no_token", "The request lacks the token that it needs.", REQUEST)
    WRONG_TOKEN = ReasonRow("wrong_token", "The request has a wrong token.", REQUEST)
    WRONG_SECRET = ReasonRow(
        "wrong_secret", "The ping has another secret than the record.", REQUEST
    )
    WRONG_INSTANCE = ReasonRow(
        "wrong_instance",
        "The ping has the record's secret, but names another node than the record's own, or no "
        "possible node id (P1a).",
        REQUEST,
    )
    WRONG_HOST = ReasonRow(
        "wrong_host", "The request has no token and a host name that is not ours.", REQUEST
    )
    NOT_HTTP = ReasonRow("not_http", "The client sent something that is not HTTP.", REQUEST)
    TOO_LARGE = ReasonRow("too_large", "A header or the body is over its limit.", REQUEST)
    TOO_SLOW = ReasonRow(
        "too_slow", "The client did not send its request or take its answer in time.", REQUEST
    )
    TOO_MANY_CONNECTIONS = ReasonRow(
        "too_many_connections",
        "The connection that had waited longest was ended to make room for a new one.",
        REQUEST,
    )

    # A cycle, or the breaker.
    TOO_MANY_IMPOSSIBLE = ReasonRow(
        "too_many_impossible",
        "A listing contradicts itself about over 5 % of its items, so nothing is decided (L4).",
        POOL | STUCK,
    )
    COLLAPSED = "collapsed", "A listing suddenly lacks too many items, so it is not trusted (L3)."
    NO_LISTING = ReasonRow(
        "no_listing",
        "There is no complete listing of both nodes and records yet (L1).",
        POOL | SETTLING,
    )

    # `nodemanager verify` fails, or waits.
    UNDECIDED = ReasonRow(
        "undecided",
        "An operator's order or a changed configuration was taken, and no decision has considered "
        "it yet.",
        POOL | SETTLING,
    )
    POOL_EMPTY = ReasonRow(
        "pool_empty",
        "The pool has no node, and none is to come: nothing was verified (`--allow-empty`).",
        POOL | STUCK,
    )
    SUM_IMPOSSIBLE = ReasonRow(
        "sum_impossible",
        "Numbers of one snapshot contradict each other, so none of them is believed.",
        POOL | STUCK,
    )
    DRY_RUN = "dry_run", "The daemon runs with `--dry-run`: this is decided, but not done (S3)."
    STANDBY = (
        "standby",
        "Another manager acts for the pool: this one decides, but does nothing (L6).",
    )
    ONE_PLAN = (
        "one_plan",
        "The daemon runs with `--once` and carries out one plan, the first that is settled: not "
        "this one.",
    )


def having(means: Means) -> frozenset[Reason]:
    return frozenset(one for one in Reason if means in one.row.means)


_FLIPS = having(Means.IDLES) | {Reason.BUSY, Reason.IDLE_WORD_OLD}
"""Kept nodes change between these all day."""


def is_flip(event: object, reason: object) -> bool:
    """Whether that line says only that a kept node turned busy or idle."""
    return event == Event.NODE_KEEP and reason in _FLIPS


OURS = frozenset({Reason.SHUTTING_DOWN, Reason.IN_FLIGHT, Reason.CHANGED_SINCE_LISTING})
"""The reasons that an action of ours gives, under way or too new for the listings (C8)."""


class Event(Documented):
    """What a log line tells: the value of its `event` key."""

    DAEMON_STARTED = "daemon.started", "The daemon runs: version, file, pool, account, windows."
    DAEMON_RELOADED = "daemon.reloaded", "The file was read again on SIGHUP."
    DAEMON_STOPPING = "daemon.stopping", "The daemon is stopping and starts nothing new."
    DAEMON_STOPPED = "daemon.stopped", "The last line; it says why the daemon ended."
    CONFIG_CHANGED = "config.changed", "One option's old and new value after a reload."
    CONFIG_WARNING = "config.warning", "A setting that was adjusted, or does less than it says."
    LIST_OK = "list.ok", "A poll got a complete answer."
    LIST_FAILED = "list.failed", "A poll failed; that is no evidence, and everything is kept."
    LIST_PARTIAL = "list.partial", "A poll got an incomplete answer; what it lacks may still exist."
    LIST_SUSPECT = "list.suspect", "A listing is complete but not trusted."
    CLOUD_THROTTLED = (
        "cloud.throttled",
        "The cloud asks for fewer calls: none is sent for retry_s seconds; then the limit says how "
        "many creates run at once, as many destroys and as many cleans.",
    )
    DEMAND_SOURCE = (
        "demand.source",
        "Which queues of the Arvados server are the demand, of those that its API has.",
    )
    LIST_ITEM = "list.item_malformed", "An item of a listing is malformed; all it concerns is kept."
    CLOCK_DOUBTED = (
        "clock.doubted",
        "A clock jumped, the store's or this machine's, or was wrong at a time that nobody "
        "measured: no age by it counts time before now (T1).",
    )
    NODE_PAIRED = "node.paired", "A cloud node is paired with its record."
    NODE_UNPAIRED = (
        "node.unpaired",
        "A cloud node has no record, or lost it; or it is not listed any more (`node_absent`).",
    )
    NODE_LOST = (
        "node.lost",
        "A paired node is gone for certain, and not by us: `was` says why it was kept until then, "
        "as `busy`, and `slot_kept` why its record keeps the slot for now.",
    )
    NODE_KEEP = "node.keep", "A node is left alone."
    NODE_FOREIGN = "node.foreign", "A node is another pool's, or does not match `[Cloud List]`."
    PAIR_AMBIGUOUS = "pair.ambiguous", "More than one candidate fits, so none is paired."
    NODE_ADOPTED = "node.adopted", "Our tags were put on a node that somebody made by hand (D11)."
    NODE_ADOPT_FAILED = "node.adopt_failed", "Our tags were not put on it, or that is not known."
    NODE_SETUP_STARTED = "node.setup_started", "A node is about to be created."
    NODE_CREATED = "node.created", "The cloud created a node."
    NODE_SETUP_FAILED = "node.setup_failed", "A node was not created, or that is not known."
    NODE_SETUP_WITHDRAWN = (
        "node.setup_withdrawn",
        "A set-up was ended: `reason` says why it may not go on or is not wanted (U10).",
    )
    NODE_BOOT_REFUSED = "node.boot_refused", "Demand wants a node that may not be booted now."
    JOB_UNSATISFIABLE = (
        "job.unsatisfiable",
        "A job of the wishlist can't be satisfied, so nothing is booted for it (U12).",
    )
    ROTATION = (
        "nodes.rotation",
        "The replacement of a size's outdated nodes, when it changes and then every half an hour: "
        "how many are left, and which goes now (`node`), or why none does (`reason`). Without a "
        "size: what new nodes boot from can't be found out (`error`), so none is replaced for its "
        "image.",
    )
    BOOTS_REST = (
        "boots.rest",
        "Boots in a row came to nothing: those nodes never pinged, or never were up in their "
        "scheduler; see when the next is booted and what they cost (B5).",
    )
    BOOTS_RESUMED = (
        "boots.resumed",
        "Booting goes on: a node came up, or an operator said so (B5).",
    )
    PLACE_RESTING = (
        "place.rests",
        "A zone or subnet had no room for a size; it is not tried for that size before `until`.",
    )
    PLACE_RESUMED = "place.resumed", "A zone or subnet that rested for a size is tried again."
    NODE_NOTICE = (
        "node.notice",
        "A node says that its cloud will take it (`action=given`), why (`cause`: spot, "
        "maintenance) and when (`until`), or that it will not any more (`action=withdrawn`) (D18).",
    )
    NODE_DRAIN = (
        "node.drain",
        "The answers to a node's pings tell it to take no more work (`action=drain`), or to take "
        "it again (`action=resume`) (D12). With a scheduler, the scheduler is told, also that a "
        "node is gone (`action=down`).",
    )
    SCHEDULER_TOLD = (
        "scheduler.told",
        "The scheduler was told why a job can't run (`action=comment`, `cancel`), a node's weight "
        "and features (`describe`), or that a node is gone whose record is free (`down`). Where "
        "its nodes are the slots, it is told to power one up or down (`power_up`, `power_down`), "
        "or that it may use one again (`resume`).",
    )
    NODE_SHUTDOWN_STARTED = "node.shutdown_started", "A node is about to be destroyed."
    NODE_ENDED = (
        "node.ended",
        "A node ended before its first ping, or before it was up in its scheduler, and not by us; "
        "`detail` is the cloud's own reason. It "
        "counts as a failed boot (B5), and another one is booted.",
    )
    NODE_GONE = "node.gone", "The cloud says that a node is gone."
    NODE_SHUTDOWN_FAILED = "node.shutdown_failed", "A node was not destroyed, or that is not known."
    NODE_SHUTDOWN_SKIPPED = "node.shutdown_skipped", "The pre-write check left it alone."
    LEFTOVER_ENTERED = (
        "leftover.entered",
        "What a node pins is in the ledger; its destroy is sent only after that (D4).",
    )
    LEFTOVER_CALLED_OFF = (
        "leftover.called_off",
        "A leftover's node was not destroyed, so the ledger drops the leftover (D5).",
    )
    LEFTOVER_FOUND = (
        "leftover.found",
        "Something has our tags and its node is gone; it is released like any leftover (D4).",
    )
    LEFTOVER_UNKNOWN = "leftover.unknown", "The cloud did not say what a node pins or left behind."
    LEFTOVER_RELEASE = "leftover.release", "A leftover is about to be released."
    LEFTOVER_RELEASED = "leftover.released", "The cloud says that a leftover is gone."
    LEFTOVER_RELEASE_FAILED = (
        "leftover.release_failed",
        "A leftover was not released, or that is not known; it is tried again, ever later.",
    )
    LEFTOVER_DEFERRED = "leftover.deferred", "Releases are due, but may not be sent now."
    RECORD_CLAIMED = "record.claimed", "A record is reserved for a node being set up."
    RECORD_KEEP = "record.keep", "A record is left alone."
    RECORD_DEFERRED = "record.deferred", "A clean waits for the next cycle."
    RECORD_CLEAN = "record.clean", "A record is about to be freed."
    RECORD_CLEANED = "record.cleaned", "A record is free."
    RECORD_CLEAN_SKIPPED = "record.clean_skipped", "The pre-write check left it alone."
    RECORD_CLEAN_FAILED = "record.clean_failed", "The write failed; the record is judged again."
    RECORD_UNFENCED = "record.unfenced", "A fence that was left is about to be lifted."
    RECORD_FALSE_CLEAN = "record.false_clean", "The node of a freed record shows signs of life."
    RECORD_BOUND = (
        "record.bound",
        "A claim names its node now: pings of others are refused (P1a). With `error` it does not "
        "yet, and is written again.",
    )
    RECORD_RESTORED = "record.restored", "A freed record was given back to its node."
    RECORD_NOT_RESTORED = (
        "record.not_restored",
        "A record freed by mistake could not be given back; `clear` says what to do.",
    )
    RECORD_UNLISTED = "record.unlisted", "It is not listed any more; at DEBUG and in the journal."
    NODE_UNLISTED = "node.unlisted", "It is not listed any more; at DEBUG and in the journal."
    RECORD_PRUNE = "record.prune", "A surplus record is about to be deleted (`prune_after`)."
    RECORD_PRUNED = "record.pruned", "A surplus record is deleted."
    RECORD_PRUNE_SKIPPED = "record.prune_skipped", "The pre-write check left it alone."
    RECORD_PRUNE_FAILED = "record.prune_failed", "A record was not deleted, or that is not known."
    RECORD_PINGING_UNLISTED = (
        "record.pinging_unlisted",
        "Pings come for a record while its node is not listed.",
    )
    BACKLOG_FOUND = "backlog.found", "The first plan would free too many, so it frees none (S5)."
    BACKLOG_SKIPPED = (
        "backlog.skipped",
        "An item of a backlog plan is left alone: it is not, or no longer, what the plan says.",
    )
    BACKLOG_DONE = (
        "backlog.done",
        "No item of a backlog plan that was let go is left to do.",
    )
    BREAKER_OPENED = "breaker.opened", "All freeing and destroying stops; `clear` says what to do."
    BREAKER_CLOSED = "breaker.closed", "Freeing and destroying may go on."
    SCHEDULER_POWER = (
        "scheduler.power",
        "A scheduler's power saving wants nodes resumed or suspended (`action`): it is asked now.",
    )
    IDENTITY_SEEN = "identity.seen", "The account or store that we talk to is the known one (L5)."
    CLOUD_TAKEN = (
        "cloud.taken",
        "The cloud is asked with the changed file's credentials and settings from now on: they "
        "lead to the known account (L5).",
    )
    CLOUD_REFUSED = (
        "cloud.refused",
        "The changed file's credentials are not used, the former ones still are: they lead to "
        "another account (L5), or the cloud did not answer to them; then each poll asks again.",
    )
    IDENTITY_UNVERIFIED = (
        "identity.unverified",
        "The account can't be checked now; the daemon goes on with what it knew (L5).",
    )
    IDENTITY_CHANGED = (
        "identity.changed",
        "The account or the store is not the known one, so the daemon is read-only (L5).",
    )
    FLIGHT_EXPIRED = (
        "flight.expired",
        "An action took longer than `action_timeout`; its node and record are judged again (C8).",
    )
    JOURNAL_FAILED = (
        "journal.failed",
        "The journal can't be written: nothing is created, destroyed or freed until it can. "
        "Where its file was replaced, the daemon ends, for systemd to start it anew.",
    )
    JOURNAL_HEALED = "journal.healed", "The journal can be written again."
    STATE_FAILED = (
        "state.failed",
        "The state directory can't be read or written: nothing is created, destroyed or freed "
        "until it can.",
    )
    STATE_HEALED = "state.healed", "The state directory can be read and written again."
    INTENT_OPEN = "intent.open", "A former run left an action unfinished; it goes first (R1)."
    INTENT_ENDED = "intent.ended", "An action that a former run left unfinished has ended (R1)."
    INTENT_PASSED_OVER = (
        "intent.passed_over",
        "Five attempts did not finish a former run's action: it is passed over; look at it (R1).",
    )
    OPERATOR_BREAKER_RESET = "operator.breaker_reset", "An operator closed the breaker (B3)."
    OPERATOR_BACKLOG = (
        "operator.backlog",
        "An operator lets items of a backlog plan go, or stops that: `action` says which (S5).",
    )
    OPERATOR_HOLD = "operator.hold", "An operator holds a node or record (C9)."
    OPERATOR_RELEASE = "operator.release", "An operator ended a hold."
    OPERATOR_DRAIN = "operator.drain", "An operator wants a node gone once it is idle (O1)."
    OPERATOR_CORDON = "operator.cordon", "An operator drains a node and keeps it (O5)."
    OPERATOR_UNCORDON = "operator.uncordon", "An operator ended a cordon: the node works again."
    OPERATOR_UNDRAIN = (
        "operator.undrain",
        "An operator undoes a drain, or a kill not yet carried out.",
    )
    OPERATOR_KILL = "operator.kill", "An operator wants a node gone now (O2)."
    OPERATOR_CLEAN = "operator.clean", "An operator wants a record freed now (O3)."
    OPERATOR_PAUSE = "operator.pause", "An operator pauses the pool (O4)."
    OPERATOR_PARK = "operator.park", "An operator parks the pool: it is to empty (O7)."
    OPERATOR_UNPARK = "operator.unpark", "An operator ended that: the pool boots again (O7)."
    OPERATOR_ROTATE_PAUSE = (
        "operator.rotate_pause",
        "An operator pauses the replacement of outdated nodes (O6).",
    )
    OPERATOR_ROTATE_RESUME = (
        "operator.rotate_resume",
        "An operator ended that pause (O6).",
    )
    OPERATOR_RESUME = "operator.resume", "An operator ended the pause (O4)."
    LEASE_ACQUIRED = "lease.acquired", "This manager is now the pool's one active manager."
    LEASE_STANDBY = (
        "lease.standby",
        "This manager stands by: `holder` acts for the pool; or the lease's database does not "
        "answer, see `error`.",
    )
    LEASE_DIFFERS = (
        "lease.differs",
        "This manager stands by and decides otherwise than `holder`, who acts: what `here` and "
        "`there` is said of that record or node, or is the value of that option.",
    )
    LEASE_WAITS = (
        "lease.waits",
        "This manager has the lease, and acts in `wait_s`: a call that the one before sent may be "
        "under way until then.",
    )
    LEASE_LOST = "lease.lost", "This manager may no longer act; see `error`, or a line before."
    INVARIANT_BROKEN = "invariant.broken", "A safety rule was broken: `rule` says which."
    CYCLE_DONE = "cycle.done", "A decision was taken; the line has its counts."
    CYCLE_ABORTED = "cycle.aborted", "No decision may be made from this snapshot."
    DAEMON_DUMPED = "daemon.dumped", "On SIGUSR1: the length of each mailbox; the threads follow."
    ACTOR_STUCK = "actor.stuck", "An actor did not answer within `[Daemon] watchdog`."
    ACTOR_DIED = "actor.died", "An actor failed; the process ends and is started again."
    UNCAUGHT = "uncaught", "An exception that nobody caught, in a thread or at the end."
    SERVER_STARTED = "server.started", "An HTTP server listens."
    SERVER_FAILED = "server.failed", "A request ended in an error of ours; its client got a 500."
    ADAPTER_FAILED = (
        "adapter.failed",
        "A cloud, a store, a scheduler or a program said what our adapter can't digest: that call "
        "failed (L1), `count` times since the last such line; at most one line a minute.",
    )
    REQUEST_REFUSED = (
        "request.refused",
        "A server refused `count` requests since the last such line; at most one line a minute.",
    )
    SLOTS_STUCK = (
        "slots.stuck",
        "Slots without a node that no rule frees: `clear` says what a person does; at most one "
        "line a day, unless they double.",
    )
    RECORDS_SURPLUS = (
        "records.surplus",
        "The store has far more records than the pool needs, which makes its listings slow; told "
        "like `slots.stuck`.",
    )
    SLOTS_FULL = "slots.full", "No slot is free: what holds them, and when one comes free."
    LIBRARY = "library", "A line from a library we use."
    LOG_LOST = "log.lost", "`count` lines before this one were lost, for example to a full disk."
