"""The keys that a log line may carry, a closed list like the events and reasons.

A key that ends in `_s` is in seconds. No key's name may contain `secret`, `token` or `password`:
the log would show its value as `***`.
"""

from __future__ import annotations

from nodemanager.core.model.reasons import Documented


class LogKey(Documented):
    """The name of a field on a log line."""

    # On every line, in this order.
    TS = "ts", "When, UTC with milliseconds; left out when the systemd journal stamps the lines."
    EVENT = "event", "What happened: one of the events above."
    LEVEL = "level", "debug, warning, error or critical; a line without it is info."

    # What the line is about.
    RECORD = "record", "Uuid of the record."
    NODE = "node", "The cloud's id of the node."
    NAME = "name", "Name of the node."
    SLOT = "slot", "Slot number; 0 is a slot."
    HOST = "host", "Hostname of the record, or of the machine that the line is about."
    HOSTNAME = "hostname", "Hostname, if `host` says something else on the same line."
    INCARNATION = "incarnation", "The record's life, claim to clean: 128 bits, made at its claim."
    POOL = "pool", "The pool that this manager serves, or that a record or node names."
    MANAGER = "manager", "The manager that acts, or that a claim names."
    SIZE = "size", "Name of the node's size."
    PLACE = "place", "Zone or subnet, by the cloud's name, where the size has such places."
    PRICE = "price", "Price per hour, of one node, of a job's nodes, or of all that are counted."
    CORES = "cores", "Cores that a job needs."
    RAM_MB = "ram_mb", "Memory that a job needs, in MB."
    SCRATCH_MB = "scratch_mb", "Scratch space that a job needs, in MB."
    SPENT = "spent", "What failed boots cost, if prices are known."
    ADDRESS = "address", "Network address and port."
    URL = "url", "Address of a server, without query."
    FILE = "file", "The configuration file, or the file that the line is about."
    OPTION = "option", "`[Section] option` of the configuration."
    OLD = "old", "The value before, of an option, or of a node that is replaced."
    NEW = "new", "The value now."
    ACCOUNT = "account", "Account, region and API that the credentials lead to."
    STORE = "store", "The record store's own id."
    PROVIDER = "provider", "The cloud's provider, or the store's."
    VERSION = "version", "Version of this program, or of a record."
    PID = "pid", "A process."
    ACTOR = "actor", "Name of an actor."
    THREAD = "thread", "Name of a thread."
    JOB = "job", "Id of a waiting job."
    WEIGHT = "weight", "A node's weight in the scheduler; of those that fit, the least is taken."
    FEATURES = "features", "A node's features in the scheduler, or those that a job asks for."
    GRES = "gres", "The generic resources that a job asks for."
    RAW_STATE = "raw_state", "The node's state, as the cloud calls it."
    STATE = "state", "State of the record or node."
    WORKER_STATE = "worker_state", "What the node does: busy, idle, down, unknown."
    OUTCOME = "outcome", "What became of a destroy: gone, accepted, failed, unknown."
    WAS = "was", "Why the node was kept before it was lost: one of the reasons below."
    SLOT_KEPT = "slot_kept", "Why the record of a lost node keeps its slot for now."
    CANDIDATES = "candidates", "All candidates to pair with, if there is more than one."
    LEFTOVER = "leftover", "The cloud's id of what a node left behind."
    KIND = "kind", "What that is: interface, volume or address."
    PROBLEM = "problem", "What is wrong with the item, in words."

    # Why, with each measure and its threshold.
    REASON = "reason", "Why: one of the reasons below."
    RULE = "rule", "Id of the safety rule; `proof` if the journal lacks the clean's proof."
    CAUSE = "cause", "What led to it, if the reason does not say enough."
    CLEAR = "clear", "What an operator does to clear it."
    IDLE_S = "idle_s", "How long the record has been quiet, on the store's clock."
    WINDOW_S = "window_s", "The window that the age or quiet time is compared with."
    ABSENT_LISTINGS = "absent_listings", "Consecutive complete listings that lacked the node."
    ABSENT_S = "absent_s", "How long the node has been absent from complete listings."
    SETTLE_S = "settle_s", "How long an absence must last."
    AGE_S = "age_s", "How old it is."
    SILENT_S = "silent_s", "Silence, counted only while the store answered."
    UNJOINED_S = (
        "unjoined_s",
        "How long the scheduler has said, without a break, that the node was never up.",
    )
    UNPAIRED_S = "unpaired_s", "How long the node has been without a record."
    IDLE_POLLS = "idle_polls", "Pings in a row that said idle, each seen by a poll (D12)."
    NEEDED_POLLS = "needed_polls", "Idle pings after which it may be shut down."
    WORD_S = "word_s", "Age of the node's last ping, on the store's clock."
    UNWANTED_S = "unwanted_s", "How long nobody wants the node: beyond demand, or drained."
    LIMIT = "limit", "The threshold or cap that `count` is compared with."
    COUNT = "count", "How many."
    LOST = "lost", "How many known items the listing lacks."
    KNOWN = "known", "How many items were known before."

    LEFT_S = "left_s", "How long until the cloud takes the node; left out if it does not say."
    LIMIT_S = "limit_s", "The threshold that an age or a silence is compared with."
    NEEDED_LISTINGS = "needed_listings", "Complete listings that must lack the node."
    RECORD_LISTINGS = "record_listings", "Record listings in which the node was without a record."
    STOPPED_S = "stopped_s", "How long the node has been stopped or suspended."
    DENIED_S = "denied_s", "How long the cloud has denied the node, by id and tag, without a break."
    LATE_S = "late_s", "How long after an order's not-after, or after a clean, it came."
    JUDGED = "judged", "The version that was judged, if `version` is another."
    SILENT = "silent", "Nodes that turned silent, down or unpaired within one window."
    LISTED = "listed", "How many items the listing has."
    RIVALS = "rivals", "The records that want the same node, or hold the same slot."
    UNLISTED = "unlisted", "Nodes that the cloud has and the listing lacks; it names ten at most."
    DOUBTED = "doubted", "Records whose stamps contradict each other; it names ten at most."
    MORE = "more", "How many more there are than the line names."
    DETAIL = "detail", "More about it, if the reason does not say enough."

    # A poll, an attempt.
    SOURCE = "source", "What was polled: cloud, records, demand, scheduler."
    QUEUES = "queues", "The Arvados server's queues that are asked, or none."
    ITEMS = "items", "Entries of the listing."
    TOOK_S = "took_s", "How long it took."
    ATTEMPT = "attempt", "Attempt number, from 1."
    RETRY_S = "retry_s", "Seconds until the next attempt."
    WAIT_S = "wait_s", "Seconds until this manager acts."
    UNTIL = "until", "When a place takes nodes again, or a cloud takes a node away, UTC."
    PINGS_ANSWERED = (
        "pings_answered",
        "Whether the nodes' own ping URL answered; silence counts only while it does (D8).",
    )
    ERROR = "error", "The error, its kind first."
    DEFINITE = "definite", "Whether the server's refusal means that nothing was done."
    TRACEBACK = "traceback", "Where the error came from, newlines as \\n."

    # A decision and its execution.
    PLAN = "plan", "Id of the plan that ordered it; the lines of one plan share it."
    HERE = "here", "What this manager, which stands by, decides."
    THERE = "there", "What the pool's active manager decides."
    MODE = "mode", "apply, standby, dry-run or read-only."
    GUARANTEE = "guarantee", "cas or fenced: what keeps a clean from overwriting a ping (C12)."
    BY = "by", "Who did it: an operator's command, or the option that did."
    ACTION = "action", "What was done, or would be."
    ID = "id", "The id or name that an operator's command gave, as typed."
    RESULT = "result", "How a command ended: done, already, refused, unknown, failed."
    FORCED = "forced", "The rules that an operator broke by name (O3)."

    # Slots and the lease.
    HOLDER = "holder", "The manager that has the pool's lease: host, process and run."
    TOKEN = "token", "The lease's fencing token; each new holder's is greater."
    SLOTS = "slots", "Slots that the store has."
    USED = "used", "Slots that records hold."
    FREE = "free", "Slots that nobody holds."
    HELD_BY = "held_by", "What holds the slots, the slot or the record."
    FREE_IN_S = "free_in_s", "Seconds until the first slot is free, if only time must pass."

    STUCK = "stuck", "The slots that no rule frees; it names ten at most."

    # The counts of a cycle's summary line.
    NODES = "nodes", "Cloud nodes counted."
    RECORDS = "records", "Records counted."
    BUSY = "busy", "Nodes that work."
    IDLE = "idle", "Nodes that idle."
    DOWN = "down", "Nodes that are down."
    BOOTING = "booting", "Nodes that boot."
    ABSENT = "absent", "Nodes heard lately that no listing shows; left out if none."
    UNPAIRED = "unpaired", "Nodes without a record."
    SHUTTING_DOWN = "shutting_down", "Nodes that are being shut down."
    WANTED = "wanted", "Nodes that demand wants."
    PAIRED = "paired", "Pairs."
    STALE = "stale", "Records that are past their window."
    KEPT = "kept", "Records that are kept."
    CLEANS = "cleans", "Cleans ordered."
    CLEANED = "cleaned", "Records freed."
    SPARES = "spares", "Nodes of the size beyond demand, idle or to come."
    OUTDATED = "outdated", "Nodes of the size that are left to replace."
    DEFERRED = "deferred", "Cleans put off to the next cycle."
    BOOTS = "boots", "Boots ordered."
    SHUTDOWNS = "shutdowns", "Shutdowns ordered."
    BREAKER = "breaker", "closed, or why it is open."
    PAUSED = "paused", "Who paused the pool; left out if nobody did."
    ROTATION_PAUSED = "rotation_paused", "Who paused the rotation; left out if nobody did."
    PARKED = "parked", "Who parked the pool; left out if nobody did."
    DRAINING = (
        "draining",
        "Nodes that an operator drains, parks or kills, or their cloud takes; left out if none.",
    )

    # The effective windows on `daemon.started`.
    NODE_STALE_AFTER_S = "node_stale_after_s", "Effective `node_stale_after`."
    POLL_STALE_AFTER_S = "poll_stale_after_s", "Effective `poll_stale_after`."
    BOOT_FAIL_AFTER_S = "boot_fail_after_s", "Effective `boot_fail_after`."
    POLL_S = "poll_s", "Effective `poll_time`."
    SPARE_NODES = "spare_nodes", "The `spare_nodes` of the size."
    MIN_NODES = "min_nodes", "Effective `min_nodes`."
    MAX_NODES = "max_nodes", "Effective `max_nodes`."

    # The end.
    CODE = "code", "The process's exit code: 0 fine, 1 a failure."

    # A library's line.
    LOGGER = "logger", "The library's logger."
    MESSAGE = "message", "What the library said."
