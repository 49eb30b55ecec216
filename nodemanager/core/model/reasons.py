"""The closed lists that the log, the docs, `explain` and the metrics share.

Each member's docs row is its own text here; doc/events.rst is generated from it and a test holds
the two together.
"""

from __future__ import annotations

from enum import StrEnum


class Told(StrEnum):
    """A member with a `doc`: one sentence for whoever reads it in a log."""

    doc: str

    def __new__(cls, value: str, doc: str) -> Told:
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


class Reason(Told):
    """Why a record or a node was kept, freed, booted or destroyed."""

    # A record is kept.
    HOLDS_NOTHING = "holds_nothing", "The record is clean; it may be reused (C1)."
    OTHER_POOL = "other_pool", "It names another pool; that pool's manager handles it (T3)."
    UNCLAIMED_POOL = (
        "unclaimed_pool",
        "It names no pool and `adopt_unclaimed` is not on, so nobody here handles it (T3).",
    )
    UNREADABLE = "unreadable", "Part of it could not be read; nothing is done to it (P3, T7)."
    PAIRED = "paired", "Its cloud node is listed (C4)."
    NODE_LISTED = (
        "node_listed",
        "A cloud node that is not terminated bears its tags or instance id (C4).",
    )
    NODE_EXPECTED = "node_expected", "Its node was created and is not listed yet (P4)."
    WITHIN_WINDOW = "within_window", "Quiet, but not for longer than its stale window (C3)."
    CLAIM_WITHIN_WINDOW = (
        "claim_within_window",
        "Claimed, never pinged, and its claim has not expired yet (C21).",
    )
    BUSY = "busy", "Its node's fresh word is that it works (C2)."
    IDLE = "idle", "Its node's fresh word is that it is idle, so it lives (C2)."
    NOT_SETTLED = (
        "not_settled",
        "Its node is absent, but not yet in enough complete listings or for `settle` (C5).",
    )
    NO_LISTING_ORDER = (
        "no_listing_order",
        "No complete cloud listing began after a complete record listing that shows it ended (C6).",
    )
    CHANGED_SINCE_LISTING = (
        "changed_since_listing",
        "A later record listing shows another version of it, or lacks it (C6); or the newest is "
        "older than what we last did for it (C8).",
    )
    POLL_STALE = "poll_stale", "A poll is older than `poll_stale_after`; nobody is judged (C7)."
    CLOCK_UNKNOWN = (
        "clock_unknown",
        "The store's clock can't be told, or just jumped; no age can be trusted (T1).",
    )
    IN_FLIGHT = "in_flight", "Something of ours is under way for it (C8)."
    HELD = "held", "An operator holds it, or its node (C9)."
    BREAKER_OPEN = "breaker_open", "The breaker is open: nothing is freed or destroyed (B2)."
    NO_LEASE = "no_lease", "This manager does not hold the pool's lease (C10, L6)."
    READ_ONLY = (
        "read_only",
        "The account or store is not the one known before (L5), or the journal can't be written: "
        "nothing is written.",
    )
    NOT_AUTHORISED = (
        "not_authorised",
        "The cloud or store adapter can't prove its listings complete (L2).",
    )
    CAP_REACHED = "cap_reached", "This cycle's cap on cleans is used up; it is next (C10)."
    AMBIGUOUS = "ambiguous", "More than one candidate to pair with; paired with none (P2)."
    PINGING_UNLISTED = (
        "pinging_unlisted",
        "It keeps pinging, no listing shows its node, and the cloud, asked by id, has none (P6).",
    )
    LISTING_SHORT = (
        "listing_short",
        "The cloud, asked by id, has a node of ours that its listing lacks: nothing is freed (P6).",
    )
    IMPOSSIBLE = "impossible", "The listing contradicts itself about it (L4)."

    FENCED = (
        "fenced",
        "A fence locks its node out, so that its silence says nothing: it is lifted first (C12).",
    )
    FENCE_LEFT = (
        "fence_left",
        "A fence of ours stands, and no clean comes after it any more: it is lifted (C12).",
    )
    BACKLOG_HELD = (
        "backlog_held",
        "It was leaked before the first start, with too many others; an operator decides (S5).",
    )

    PAUSED = (
        "paused",
        "An operator paused the pool: nothing is created, destroyed or freed until `resume` (O4).",
    )

    # A record is freed.
    STALE_SLOT = "stale_slot", "Quiet for longer than `node_stale_after`, its node gone (C1-C10)."
    CLAIM_EXPIRED = "claim_expired", "Claimed, never pinged, and the claim ran out (C21)."
    AFTER_SHUTDOWN = "after_shutdown", "We destroyed its node and the cloud says it is gone (C20)."
    PINGER_DENIED = (
        "pinger_denied",
        "It keeps pinging, and the cloud has denied its node, by tag and by id, for longer than "
        "`node_stale_after`: somebody has its secret, and no node (P6).",
    )
    CREATE_UNCLEAR = (
        "create_unclear",
        "A create got no clear answer: it counts as a node to be until that is known (U9).",
    )
    CREATE_REFUSED = (
        "create_refused",
        "The cloud refused the create by its own error code; the claim is released (U6).",
    )

    CLEAN_BY_HAND = (
        "clean_by_hand",
        "An operator wanted it freed now; `forced` are the rules they broke (O3).",
    )

    # A record is deleted.
    SURPLUS = (
        "surplus",
        "It has held nothing for longer than `prune_after`, and the pool has more records than "
        "max_nodes (C8-C12).",
    )

    # A record was freed, and its node lives.
    LATE_PING = (
        "late_ping",
        "Over 60 s after the clean a ping came that bore the freed life's own secret (U8).",
    )
    PINGED_AFTER_CLEAN = (
        "pinged_after_clean",
        "The freed record shows a ping of its former instance, over 60 s after the clean (U8).",
    )
    ALIVE_AFTER_CLEAN = (
        "alive_after_clean",
        "A listing begun after the clean shows its node, and the cloud, asked by id, has it (U8).",
    )
    FALSE_CLEAN = "false_clean", "It was freed while its node lived: it is given back (U8)."
    RECORD_REUSED = "record_reused", "It can't be given back: it was claimed or written to since."
    RECORD_DELETED = "record_deleted", "It can't be given back: the record is not there any more."
    SLOT_TAKEN = "slot_taken", "It can't be given back: another record holds its slot by now."
    NO_PRE_IMAGE = (
        "no_pre_image",
        "It can't be given back: the journal does not know what it was before its clean.",
    )

    # A clean or a shutdown was ordered, and left undone at the last look.
    CHANGED_SINCE_PLAN = "changed_since_plan", "The last look before the write saw a change (C11)."
    NODE_ALIVE = "node_alive", "The last look before the write found its node in the cloud (C11)."
    RECORD_GONE = "record_gone", "The record is not there any more."
    UNVERIFIABLE = (
        "unverifiable",
        "Neither tag nor instance id to ask the cloud by; an operator must decide (C11).",
    )
    ORDER_EXPIRED = "order_expired", "The order was not carried out before its not-after (C11)."
    DENIED_TOO_EARLY = (
        "denied_too_early",
        "The cloud's 'no such node' does not count yet: a node may be that young (C11, C20).",
    )
    EVIDENCE_MISSING = "evidence_missing", "The last look could not be taken (L1)."
    STOPPING = "stopping", "The daemon stops: what had not begun is left to the next one."
    NO_LONGER_WANTED = (
        "no_longer_wanted",
        "The shutdown's reason is gone at the last look (D2); or demand for a node to be (U10).",
    )

    PINS_UNKNOWN = (
        "pins_unknown",
        "What the node pins could not be asked for; its shutdown is tried again (D4).",
    )

    # What a node left behind.
    LEFT_BEHIND = "left_behind", "Its node is gone, and it is not (D4)."
    LEFT_ALONE = (
        "left_alone",
        "The cloud shows it held, without our tags, or used by a node that lives (D4).",
    )
    PASSED_OVER = (
        "passed_over",
        "Tried five times without an end: its node's other things wait for it no more (D4).",
    )

    # A node is kept.
    NODE_ABSENT = "node_absent", "The cloud says terminated, or lists it no more."
    FOREIGN_NODE = "foreign_node", "Another pool's node, or none of `[Cloud List]` (T3, T5)."
    UNTAGGED = (
        "untagged",
        "It matches `[Cloud List]` without our tag: counted, never drained or destroyed (D11); "
        "of a record: its node, found by id alone, bears no tag of ours (P6).",
    )
    ADOPTED = "adopted", "It bears our pool's tag: an operator adopted it (D11)."
    PAIR_UNPROVEN = (
        "pair_unproven",
        "The record named for it is not, or no longer, the one that it provably pairs with (P1).",
    )
    ADOPT_REFUSED = (
        "adopt_refused",
        "The cloud refuses our tags on it, and changed nothing (D11).",
    )
    SHUTTING_DOWN = "shutting_down", "Its shutdown is under way."
    BOOTING = "booting", "Inside `boot_fail_after` and not heard from yet."
    NEEDED = "needed", "Idle, and demand still wants it."
    WINDOW_CLOSED = "window_closed", "Idle beyond demand, but its shutdown window is closed (D1)."
    NOT_IDLE_LONG = (
        "not_idle_long",
        "Idle, by fewer pings in a row than `consecutive_idle_count` (D1, D12).",
    )
    DRAIN_AWAITED = (
        "drain_awaited",
        "Idle and not wanted: it is told to take no more work, and goes once it says that it is "
        "drained (D12).",
    )
    IDLE_WORD_OLD = (
        "idle_word_old",
        "Idle and not wanted, by a word from before it was wanted no more, or that is no news: "
        "the next ping tells (D12).",
    )
    WORKER_UNKNOWN = (
        "worker_unknown",
        "Its pings are fresh and its worker state is not known: treated as busy (T6).",
    )
    SILENT_WITHIN_WINDOW = (
        "silent_within_window",
        "Silent, but not for longer than the window over time the store answered (D8).",
    )
    UNPAIRED_WITHIN_WINDOW = (
        "unpaired_within_window",
        "Unpaired, but not for `boot_fail_after` and in two record listings (D7, D10).",
    )
    SHUTDOWN_CAP = "shutdown_cap", "This cycle's cap on shutdowns is used up (D9)."
    NO_LAUNCH_TIME = "no_launch_time", "The cloud gave no launch time to count from (P3)."

    DRAINING = (
        "draining",
        "An operator drains it: it goes as soon as it is idle by its own fresh word (O1).",
    )

    # A node is destroyed.
    DRAINED = "drained", "An operator drains it, and its own fresh word is that it is idle (O1)."
    KILLED = "killed", "An operator wants it gone now, busy or not (O2)."
    IDLE_BEYOND_DEMAND = "idle_beyond_demand", "Idle long enough, window open, not wanted (D1)."
    NODE_DOWN = "node_down", "Past boot grace, and silent or down by its own fresh word (D1, D8)."
    NODE_STOPPED = "node_stopped", "Stopped or suspended in the cloud for `settle` (D1)."
    BOOT_FAILED = "boot_failed", "Never pinged within `boot_fail_after` (D8)."
    UNPAIRED = "unpaired", "Our tag, and no record for `boot_fail_after` (D7)."

    # A node is booted, or not.
    BELOW_MIN_NODES = "below_min_nodes", "Fewer nodes than `min_nodes`."
    WANTED = "wanted", "The wishlist asks for more than there is."
    AT_MAX_NODES = "at_max_nodes", "`max_nodes` is reached."
    AT_MAX_PRICE = "at_max_price", "`max_total_price` would be passed."
    NO_FREE_SLOT = "no_free_slot", "Every slot is held (U7)."
    AT_QUOTA = "at_quota", "The cloud refused more nodes; probed again later (D6)."
    BOOT_LOOP = (
        "boot_loop",
        "Too many nodes in a row never pinged: the size rests, or only a probe is booted (B5).",
    )
    SIZE_RESTS = "size_rests", "The cloud had none of this size a moment ago (D6)."
    THROTTLED = "throttled", "The cloud asked for fewer calls (D6)."
    UNPRICED_SIZE = (
        "unpriced_size",
        "`max_total_price` is set and the size's price is unknown; set `[Size] price` (S4).",
    )
    CLAIMS_PENDING = (
        "claims_pending",
        "Unpinged claims and records under the lock of U2 already fill `max_nodes` (U6).",
    )

    # A job can't be had, so that nothing is booted for it.
    NO_FITTING_SIZE = "no_fitting_size", "No configured size has what the job needs (U12)."
    JOB_OVER_MAX_NODES = (
        "job_over_max_nodes",
        "The job wants more nodes at once than `max_nodes` allows (U12).",
    )
    JOB_OVER_MAX_PRICE = (
        "job_over_max_price",
        "The job's nodes alone cost more per hour than `max_total_price` (U12).",
    )

    # An operator's command is refused.
    UNKNOWN_ID = "unknown_id", "No node, record or leftover has that id or hostname."
    AMBIGUOUS_NAME = "ambiguous_name", "More than one node or record has that hostname."
    NO_NODE = "no_node", "The record has no listed node that the command could be about."
    NO_RECORD = "no_record", "The node has no record that the command could be about."
    NEVER_FORCED = (
        "never_forced",
        "A rule that no `--force` breaks, or a `--force` without who and why (O3).",
    )

    # A server refuses a request, or ends a connection.
    NO_TOKEN = "no_token", "A request without the token that it needs."
    WRONG_TOKEN = "wrong_token", "A request with another token."
    WRONG_SECRET = "wrong_secret", "A ping with another secret than the record's."
    WRONG_INSTANCE = (
        "wrong_instance",
        "A ping with the record's secret that names another node than its own, or no node at all "
        "(P1a).",
    )
    WRONG_HOST = "wrong_host", "A request without the token, for a host name that is not ours."
    NOT_HTTP = "not_http", "Bytes that are no HTTP request."
    TOO_LARGE = "too_large", "A header or a body over its limit."
    TOO_SLOW = "too_slow", "A request, or the taking of its answer, that did not end in time."
    TOO_MANY_CONNECTIONS = (
        "too_many_connections",
        "A connection that had waited longest, ended in favour of a new one.",
    )

    # A cycle, or the breaker.
    TOO_MANY_IMPOSSIBLE = "too_many_impossible", "Over 5 % of a listing contradicts itself (L4)."
    COLLAPSED = "collapsed", "A listing suddenly lacks too many (L3)."
    NO_LISTING = "no_listing", "There is no complete listing of everything yet (L1)."
    DRY_RUN = "dry_run", "`--dry-run`: decided, not done (S3)."


class Event(Told):
    """The first thing on a log line: what happened."""

    DAEMON_STARTED = "daemon.started", "The daemon runs: version, file, pool, account, windows."
    DAEMON_RELOADED = "daemon.reloaded", "The file was read again on SIGHUP."
    DAEMON_STOPPING = "daemon.stopping", "The daemon begins nothing more."
    DAEMON_STOPPED = "daemon.stopped", "The last line: why the daemon ended."
    CONFIG_CHANGED = "config.changed", "One option's old and new value after a reload."
    CONFIG_WARNING = "config.warning", "A setting that was adjusted, or does less than it says."
    LIST_OK = "list.ok", "A poll answered whole."
    LIST_FAILED = "list.failed", "A poll failed: no evidence, everything is kept."
    LIST_PARTIAL = "list.partial", "A poll answered with something that can't be identified."
    LIST_SUSPECT = "list.suspect", "A listing that is complete, and not to be believed."
    LIST_ITEM = "list.item_malformed", "One malformed item of a listing; what it touches is kept."
    NODE_PAIRED = "node.paired", "A cloud node and its record found each other."
    NODE_UNPAIRED = "node.unpaired", "A cloud node has no record, or lost it."
    NODE_KEEP = "node.keep", "A node is left alone."
    NODE_FOREIGN = "node.foreign", "A node of another pool, or that we only see."
    PAIR_AMBIGUOUS = "pair.ambiguous", "More than one candidate: paired with none."
    NODE_ADOPTED = "node.adopted", "Our tags are on a node that somebody made by hand (D11)."
    NODE_ADOPT_FAILED = "node.adopt_failed", "Our tags could not be put on it, or nobody knows."
    NODE_SETUP_STARTED = "node.setup_started", "A node is about to be created."
    NODE_CREATED = "node.created", "The cloud created it."
    NODE_SETUP_FAILED = "node.setup_failed", "It was not created, or nobody knows."
    NODE_SETUP_WITHDRAWN = (
        "node.setup_withdrawn",
        "A set-up under way goes no further: why it may not, or is wanted no more (U10).",
    )
    NODE_BOOT_REFUSED = "node.boot_refused", "Demand wants a node that we may not boot now."
    JOB_UNSATISFIABLE = (
        "job.unsatisfiable",
        "A job of the wishlist that can't be had, and why: nothing is booted for it (U12).",
    )
    BOOTS_REST = (
        "boots.rest",
        "Nodes in a row never pinged: when the next is booted, and what they cost (B5).",
    )
    BOOTS_RESUMED = "boots.resumed", "A node pinged, or an operator looked: booting goes on (B5)."
    NODE_DRAIN = (
        "node.drain",
        "The answers to a node's pings tell it to take no more work (`action=drain`), or to take "
        "it again (`action=resume`) (D12).",
    )
    NODE_SHUTDOWN_STARTED = "node.shutdown_started", "A node is about to be destroyed."
    NODE_GONE = "node.gone", "The cloud says it is gone."
    NODE_SHUTDOWN_FAILED = "node.shutdown_failed", "It was not destroyed, or nobody knows."
    NODE_SHUTDOWN_SKIPPED = "node.shutdown_skipped", "Left alone at the last look."
    LEFTOVER_ENTERED = (
        "leftover.entered",
        "What a node pins stands in the ledger; only now is its destroy sent (D4).",
    )
    LEFTOVER_CALLED_OFF = (
        "leftover.called_off",
        "Its node was not destroyed after all: it is out of the ledger (D5).",
    )
    LEFTOVER_FOUND = (
        "leftover.found",
        "Our tags are on something whose node is gone; it is released like the rest (D4).",
    )
    LEFTOVER_UNKNOWN = (
        "leftover.unknown",
        "The cloud could not be asked what a node pins, or what was left behind.",
    )
    LEFTOVER_RELEASE = "leftover.release", "Something left behind is about to be released."
    LEFTOVER_RELEASED = "leftover.released", "The cloud says that it is gone."
    LEFTOVER_RELEASE_FAILED = (
        "leftover.release_failed",
        "It was not released, or nobody knows; it is tried again, ever later.",
    )
    LEFTOVER_DEFERRED = "leftover.deferred", "Releases that are due and may not be sent now."
    RECORD_CLAIMED = "record.claimed", "A record is reserved for a node being set up."
    RECORD_KEEP = "record.keep", "A record is left alone."
    RECORD_DEFERRED = "record.deferred", "A clean that waits for the next cycle."
    RECORD_CLEAN = "record.clean", "A record is about to be freed."
    RECORD_CLEANED = "record.cleaned", "It is free."
    RECORD_CLEAN_SKIPPED = "record.clean_skipped", "Left alone at the last look."
    RECORD_CLEAN_FAILED = "record.clean_failed", "The write failed; it is judged afresh."
    RECORD_UNFENCED = "record.unfenced", "A fence that was left standing is about to be lifted."
    RECORD_FALSE_CLEAN = "record.false_clean", "A freed record's node shows signs of life."
    RECORD_BOUND = (
        "record.bound",
        "A claim was told its node: pings that name another are refused from now on (P1a).",
    )
    RECORD_RESTORED = "record.restored", "A freed record was given back to its node."
    RECORD_NOT_RESTORED = (
        "record.not_restored",
        "A record freed by mistake could not be given back; `clear` says what to do.",
    )
    RECORD_UNLISTED = (
        "record.unlisted",
        "At DEBUG, and in the journal: the record listing has it no more.",
    )
    NODE_UNLISTED = "node.unlisted", "At DEBUG, and in the journal: the cloud lists it no more."
    RECORD_PRUNE = "record.prune", "A surplus record is about to be deleted (`prune_after`)."
    RECORD_PRUNED = "record.pruned", "It is deleted."
    RECORD_PRUNE_SKIPPED = "record.prune_skipped", "Left alone at the last look."
    RECORD_PRUNE_FAILED = "record.prune_failed", "It was not deleted, or nobody knows."
    RECORD_PINGING_UNLISTED = "record.pinging_unlisted", "It pings while its node is not listed."
    BACKLOG_FOUND = "backlog.found", "The first plan would free too many: it frees none (S5)."
    BACKLOG_SKIPPED = (
        "backlog.skipped",
        "An item of a backlog plan is left alone: it is not what the plan says, or not any more.",
    )
    BACKLOG_DONE = "backlog.done", "A backlog plan is applied: what became of its items."
    BREAKER_OPENED = "breaker.opened", "All freeing and destroying stops."
    BREAKER_CLOSED = "breaker.closed", "Freeing and destroying may go on."
    IDENTITY_SEEN = "identity.seen", "The account or the store we talk to is the one known (L5)."
    IDENTITY_UNVERIFIED = (
        "identity.unverified",
        "The account can't be told now; what it was told for before goes on (L5).",
    )
    IDENTITY_CHANGED = (
        "identity.changed",
        "The account or the store is another than the one known: read-only (L5).",
    )
    FLIGHT_EXPIRED = (
        "flight.expired",
        "Something of ours took longer than `action_timeout`; it is judged afresh (C8).",
    )
    JOURNAL_FAILED = (
        "journal.failed",
        "The journal can't be written: nothing is created, destroyed or freed until it can.",
    )
    JOURNAL_HEALED = "journal.healed", "The journal can be written again."
    STATE_FAILED = (
        "state.failed",
        "The state directory can't be read or written: nothing is created, destroyed or freed "
        "until it can.",
    )
    STATE_HEALED = "state.healed", "The state directory can be read and written again."
    INTENT_OPEN = "intent.open", "A former run left this unfinished: it is finished first (R1)."
    INTENT_ENDED = "intent.ended", "What became of something a former run left unfinished (R1)."
    INTENT_PARKED = (
        "intent.parked",
        "Finishing it failed five times: it is passed over, and an operator told (R1).",
    )
    OPERATOR_BREAKER_RESET = "operator.breaker_reset", "An operator closed the breaker (B3)."
    OPERATOR_BACKLOG = (
        "operator.backlog",
        "An operator applies a backlog plan, or ends that: `action` says which (S5).",
    )
    OPERATOR_HOLD = "operator.hold", "An operator holds a node or record (C9)."
    OPERATOR_RELEASE = "operator.release", "An operator's hold is over."
    OPERATOR_DRAIN = "operator.drain", "An operator wants a node gone once it is idle (O1)."
    OPERATOR_RUN = "operator.run", "An operator undoes a drain, or a kill not yet carried out."
    OPERATOR_KILL = "operator.kill", "An operator wants a node gone now (O2)."
    OPERATOR_CLEAN = "operator.clean", "An operator wants a record freed now (O3)."
    OPERATOR_PAUSE = "operator.pause", "An operator pauses the pool (O4)."
    OPERATOR_RESUME = "operator.resume", "An operator's pause is over (O4)."
    LEASE_ACQUIRED = "lease.acquired", "This is the pool's one active manager."
    LEASE_LOST = "lease.lost", "This manager may no longer act; see `error`, or a line before."
    INVARIANT_BROKEN = "invariant.broken", "The promise was broken; see the line."
    CYCLE_DONE = "cycle.done", "One decision taken: its counts."
    CYCLE_ABORTED = "cycle.aborted", "A snapshot that no decision may be made from."
    DAEMON_DUMPED = "daemon.dumped", "SIGUSR1: how long each mailbox is; the threads follow."
    ACTOR_STUCK = "actor.stuck", "An actor did not answer within `[Daemon] watchdog`."
    ACTOR_DIED = "actor.died", "An actor failed; the process ends and is started again."
    UNCAUGHT = "uncaught", "An exception that nobody caught, in a thread or at the end."
    SERVER_STARTED = "server.started", "An HTTP face listens."
    SERVER_FAILED = "server.failed", "A request ended in an error of ours; its client got a 500."
    REQUEST_REFUSED = (
        "request.refused",
        "A server refused requests: `count` since such a line before, at most one a minute.",
    )
    SLOTS_FULL = "slots.full", "No slot is free: who holds them, and when one will be."
    LIBRARY = "library", "A line from a library we use."
    LOG_LOST = "log.lost", "Lines before this one could not be written (a full disk): how many."
