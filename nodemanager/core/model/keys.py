"""The keys that a log line may carry, a closed list like the events and reasons.

A key that ends in `_s` is in seconds. No key's name may contain `secret`, `token` or `password`:
the log would show its value as `***`.
"""

from __future__ import annotations

from nodemanager.core.model.reasons import Told


class Key(Told):
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
    HOST = "host", "Hostname of the record, or of the machine that is meant."
    HOSTNAME = "hostname", "Hostname, where `host` says something else on the same line."
    INCARNATION = (
        "incarnation",
        "The life of the record that is meant: 128 bits, made at its claim.",
    )
    POOL = "pool", "The pool that this manager serves, or that a record or node names."
    MANAGER = "manager", "The manager that acts, or that a claim names."
    SIZE = "size", "Name of the node's size."
    PRICE = "price", "Price per hour, of one node, of a job's nodes, or of all that are counted."
    CORES = "cores", "Cores that a job needs."
    RAM_MB = "ram_mb", "Memory that a job needs, in MB."
    SCRATCH_MB = "scratch_mb", "Scratch space that a job needs, in MB."
    SPENT = "spent", "What nodes that never pinged cost, as far as prices are known."
    ADDRESS = "address", "Network address and port."
    URL = "url", "Address of a server, without query."
    FILE = "file", "The configuration file, or the file that is meant."
    OPTION = "option", "`[Section] option` of the configuration."
    OLD = "old", "An option's value before."
    NEW = "new", "An option's value now."
    ACCOUNT = "account", "Account, region and API that the credentials lead to."
    STORE = "store", "What tells the record store from any other."
    PROVIDER = "provider", "The cloud's provider, or the store's."
    VERSION = "version", "Version of this program, or of a record."
    PID = "pid", "A process."
    ACTOR = "actor", "Name of an actor."
    THREAD = "thread", "Name of a thread."
    JOB = "job", "Id of a line of the wishlist."
    RAW_STATE = "raw_state", "The node's state in the cloud's own word."
    STATE = "state", "State of the record or node."
    WORKER_STATE = "worker_state", "What the node does: busy, idle, down, unknown."
    OUTCOME = "outcome", "What became of a destroy: gone, accepted, failed, unknown."
    CANDIDATES = "candidates", "All that would pair, where more than one would."
    LEFTOVER = "leftover", "The cloud's id of what a node left behind."
    KIND = "kind", "What that is: interface, volume or address."
    PROBLEM = "problem", "What is wrong with the item, in words."

    # Why, with each measure and its threshold.
    REASON = "reason", "Why: one of the reasons below."
    RULE = "rule", "Id of the safety rule that is meant; `proof` where the journal has none."
    CAUSE = "cause", "What led to it, where the reason is not enough."
    CLEAR = "clear", "What an operator does to clear it."
    IDLE_S = "idle_s", "How long the record has been quiet, on the store's clock."
    WINDOW_S = "window_s", "The window that the age or quiet is held against."
    ABSENT_LISTINGS = "absent_listings", "Consecutive complete listings that lacked the node."
    ABSENT_S = "absent_s", "How long the node has been absent from complete listings."
    SETTLE_S = "settle_s", "How long an absence must last."
    AGE_S = "age_s", "How old it is."
    SILENT_S = "silent_s", "Silence, counted only while the store answered."
    UNPAIRED_S = "unpaired_s", "How long the node has been without a record."
    IDLE_POLLS = "idle_polls", "Pings in a row, each seen by a poll, that said idle (D12)."
    NEEDED_POLLS = "needed_polls", "Idle pings after which it may be shut down."
    WORD_S = "word_s", "How old the node's newest word is, on the store's clock."
    UNWANTED_S = "unwanted_s", "How long nobody has wanted the node: not demand, or an operator."
    LIMIT = "limit", "The threshold or cap that `count` is held against."
    COUNT = "count", "How many."
    LOST = "lost", "How many of the known are missing from a listing."
    KNOWN = "known", "How many were known before."

    LIMIT_S = "limit_s", "The threshold in seconds that an age or a silence is held against."
    NEEDED_LISTINGS = "needed_listings", "Complete listings that must lack the node."
    RECORD_LISTINGS = "record_listings", "Record listings in which the node was without a record."
    STOPPED_S = "stopped_s", "How long the node has been stopped or suspended."
    DENIED_S = "denied_s", "How long the cloud has denied the node, by id and by tag, unbroken."
    LATE_S = "late_s", "How long after an order's not-after, or after a clean, it came."
    JUDGED = "judged", "The version that was judged, where `version` is another."
    SILENT = "silent", "Nodes that turned silent, down or unpaired within one window."
    LISTED = "listed", "How many the listing has."
    RIVALS = "rivals", "The records that want the same node, or hold the same slot."
    DETAIL = "detail", "What exactly, where the reason is not enough."

    # A poll, an attempt.
    SOURCE = "source", "What was polled: cloud, records, demand, scheduler."
    ITEMS = "items", "Entries of the listing."
    TOOK_S = "took_s", "How long it took."
    ATTEMPT = "attempt", "The how-manieth try, from 1."
    RETRY_S = "retry_s", "Seconds to the next try."
    PINGS_ANSWERED = (
        "pings_answered",
        "Whether the nodes' own ping URL answered; silence counts only while it does (D8).",
    )
    ERROR = "error", "The error, its kind first."
    DEFINITE = "definite", "Whether the server's no means that nothing was done."
    TRACEBACK = "traceback", "Where the error came from, newlines as \\n."

    # A decision and its execution.
    PLAN = "plan", "Id of the plan that ordered it; the lines of one plan share it."
    MODE = "mode", "apply, dry-run or read-only."
    GUARANTEE = "guarantee", "cas or fenced: what stands between a clean and a ping (C12)."
    BY = "by", "Who did it: an operator's command, or the option that did."
    ACTION = "action", "What was done, or would be."
    ID = "id", "What an operator's command named, as it was given."
    RESULT = "result", "What became of a command: done, already, refused, unknown, failed."
    FORCED = "forced", "The rules that an operator broke by name (O3)."

    # Slots and the lease.
    SLOTS = "slots", "Slots that the store gives out."
    USED = "used", "Slots that records hold."
    FREE = "free", "Slots that nobody holds."
    HELD_BY = "held_by", "Who holds it."
    FREE_IN_S = "free_in_s", "Seconds until the first of them is free, as far as windows tell."

    # The counts of a cycle's summary line.
    NODES = "nodes", "Cloud nodes counted."
    RECORDS = "records", "Records counted."
    BUSY = "busy", "Nodes that work."
    IDLE = "idle", "Nodes that idle."
    DOWN = "down", "Nodes that are down."
    BOOTING = "booting", "Nodes that boot."
    UNPAIRED = "unpaired", "Nodes without a record."
    SHUTTING_DOWN = "shutting_down", "Nodes on their way out."
    WANTED = "wanted", "Nodes that demand calls for."
    PAIRED = "paired", "Pairs."
    STALE = "stale", "Records whose window passed."
    KEPT = "kept", "Verdicts that keep."
    CLEANS = "cleans", "Cleans ordered."
    CLEANED = "cleaned", "Records freed."
    SKIPPED = "skipped", "Items of a backlog plan that were left alone."
    ADOPTED = "adopted", "Nodes that our tags were put on."
    ALREADY = "already", "Items of a backlog plan that were done before."
    STOPPED = "stopped", "Items of a backlog plan that its end by an operator left undone."
    RATE = "rate", "Items a minute."
    DEFERRED = "deferred", "Cleans put off to the next cycle."
    BOOTS = "boots", "Boots ordered."
    SHUTDOWNS = "shutdowns", "Shutdowns ordered."
    BREAKER = "breaker", "closed, or why it is open."
    PAUSED = "paused", "Who paused the pool; left out while nobody has."
    DRAINING = "draining", "Nodes that an operator drains or kills; left out while there are none."

    # The effective windows on `daemon.started`.
    NODE_STALE_AFTER_S = "node_stale_after_s", "Effective `node_stale_after`."
    POLL_STALE_AFTER_S = "poll_stale_after_s", "Effective `poll_stale_after`."
    BOOT_FAIL_AFTER_S = "boot_fail_after_s", "Effective `boot_fail_after`."
    POLL_S = "poll_s", "Effective `poll_time`."
    MIN_NODES = "min_nodes", "Effective `min_nodes`."
    MAX_NODES = "max_nodes", "Effective `max_nodes`."

    # The end.
    CODE = "code", "The process's exit code: 0 fine, 1 a failure."

    # A library's line.
    LOGGER = "logger", "The library's logger."
    MESSAGE = "message", "What the library said."
