"""The sections of the daemon itself: [Daemon], [Manage], [Logging]."""

# ruff: noqa: RUF009 - `option` makes a dataclass field, not a shared value

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nodemanager.config import kinds
from nodemanager.config.options import (
    AS_POLLED,
    Decides,
    DefaultSources,
    Derived,
    deciding_option,
    option,
    optional_option,
)
from nodemanager.config.values import Dispatcher, LogFormat, LogLevel, Secret, ServerAddress


def _poll_time(draft: DefaultSources) -> object:
    return draft.value("Daemon", "poll_time")


def _max_poll_time(draft: DefaultSources) -> float:
    names = ("cloudlist_poll_time", "nodelist_poll_time", "wishlist_poll_time")
    return max(300.0, *(draft.value("Daemon", name) or 0.0 for name in names))


def _state_dir(draft: DefaultSources) -> Path:
    given = draft.environ.get("STATE_DIRECTORY", "").split(":")[0]
    pool = draft.value("Daemon", "pool") or ""
    return Path(given).absolute() if given else Path("/var/lib/nodemanager") / pool


@dataclass(frozen=True, kw_only=True)
class DaemonSection:
    """How many nodes to keep, how often to look, and how long to wait before acting."""

    pool: str = option(
        kinds.pool_name(),
        Derived("the file's name without .cfg or .ini", lambda draft: draft.pool_from_name),
        """The name of the pool that this manager serves. Its claims, tags, state and counts carry
        this name, and it leaves the nodes and records of other pools alone. Never rename a pool
        that has nodes.""",
    )
    min_nodes: int = deciding_option(
        kinds.whole(0, unit="nodes"),
        "0",
        "Keep at least this many nodes, of the cheapest size, whatever the demand.",
    )
    max_nodes: int = deciding_option(
        kinds.whole(0, unit="nodes"),
        "1",
        "Never have more nodes than this. 0, with min_nodes = 0, drains the pool.",
    )
    max_total_price: float = deciding_option(
        kinds.number(least=0, unit="price per hour"),
        "0",
        """Never let the price of all nodes together exceed this; boot no node that would. 0 is no
        cap. With a cap, no size of unknown price is booted: set [Size NAME] price.""",
    )
    poll_time: float = option(
        kinds.duration(),
        "60",
        "How often the cloud, the records and the demand are polled.",
        reload=True,
    )
    cloudlist_poll_time: float = option(
        kinds.duration(),
        Derived("poll_time", _poll_time, or_zero=True),
        "How often the cloud's nodes are listed.",
        reload=True,
    )
    nodelist_poll_time: float = option(
        kinds.duration(),
        Derived("poll_time", _poll_time, or_zero=True),
        "How often the store's records are listed.",
        reload=True,
    )
    wishlist_poll_time: float = option(
        kinds.duration(),
        Derived("poll_time", _poll_time, or_zero=True),
        "How often the demand is polled.",
        reload=True,
    )
    max_poll_time: float = deciding_option(
        kinds.duration(),
        Derived("300, or the longest poll time where that is longer", _max_poll_time),
        "After each failed poll the wait for the next one is longer, up to this time.",
        decides=Decides(fixed=AS_POLLED),
    )
    poll_stale_after: float = deciding_option(
        kinds.duration(),
        "600",
        """Nothing is booted, destroyed or freed because of an answer older than this. It must be at
        least two polls. If it is not below node_stale_after, half of node_stale_after is used.""",
    )
    boot_fail_after: float = deciding_option(
        kinds.duration(longest=None),
        "1800",
        "A node that has not pinged for this long after its create has failed to boot.",
    )
    max_node_age: float | None = deciding_option(
        kinds.or_off(kinds.duration(longest=None)),
        "off",
        """Replace idle nodes that are older than this, of each size one after the other. It must be
        longer than boot_fail_after.""",
    )
    node_stale_after: float = deciding_option(
        kinds.duration(longest=None),
        "7200",
        """The stale window. A record's slot is freed only when its node is gone and the record has
        been quiet, without a ping or a change, for strictly longer than this; the same holds for a
        claim that never pinged, as long as [Cleaning] claim_expiry is off. A node's worker state
        counts for this long after the ping that reported it; then it is unknown. A listed node that
        has been silent for longer, while the record store answered, is shut down. Nodes that fall
        silent within one window are counted together ([Cleaning] collapse_fraction). Pings for a
        node that the cloud denies keep their record for no longer than this. Where the record store
        can't compare (Arvados), a record that changed within this time is not used again, unless
        this manager freed it, and a write whose outcome is unknown locks its record for as
        long.""",
    )
    consecutive_idle_count: int = deciding_option(
        kinds.whole(1, unit="pings"),
        "2",
        "An idle node is shut down only when this many of its pings in a row said that it is idle.",
    )
    node_mem_scaling: float = deciding_option(
        kinds.number(above=0, most=1),
        "0.95",
        "The fraction of a size's memory that jobs can use.",
    )
    watchdog: float = option(
        kinds.duration(),
        "600",
        "The daemon ends, for systemd to restart it, when a part of it is stuck for this long.",
    )
    certs_file: Path | None = optional_option(
        kinds.path(),
        "Certificate authorities to trust, in PEM; blank trusts those of the system.",
    )
    dispatcher: Dispatcher = option(
        kinds.or_default(kinds.choice(Dispatcher), Dispatcher.PING),
        "ping",
        """Who says which nodes work and which jobs wait. ping: the nodes' own pings, and
        wishlist_command. slurm, command: a scheduler, which is also told to drain a node before the
        node is shut down as idle ([Slurm], [Scheduler]). While it does not answer, nothing is
        booted, destroyed or freed.""",
    )
    wishlist_command: tuple[str, ...] | None = optional_option(
        kinds.command(),
        """A command that prints the demand, one JSON object a line: id, cores, ram_mb, scratch_mb,
        count, preemptible, instance_type. When the command fails, the poll has failed; that does
        not mean an empty queue. The command gets only these environment variables: PATH, HOME,
        USER, LOGNAME, SHELL, LANG, LC_*, TZ, TMPDIR and SLURM_*. Write "/usr/bin/env NAME=VALUE
        COMMAND" to give it more.""",
    )
    state_dir: Path = option(
        kinds.path(),
        Derived("$STATE_DIRECTORY (set by systemd), else /var/lib/nodemanager/POOL", _state_dir),
        "The directory for the lock, generated tokens, the journal and the embedded registry.",
    )


@dataclass(frozen=True, kw_only=True)
class ManageSection:
    """The management server over TCP, in plain HTTP: status and metrics for browsers and
    Prometheus, commands from other machines. Commands on this machine don't need it: they use a
    Unix socket, which is always there."""

    address: str = option(kinds.text(), "127.0.0.1", "The address that it listens on.")
    port: int | None = option(
        kinds.port_or_off(),
        "-1",
        "The port that it listens on. -1 means none; 0 takes a free port.",
    )
    management_token: Secret | None = optional_option(
        kinds.secret(),
        """The token with which clients may see and change everything over TCP. When it is blank,
        the first start makes one and keeps it in the state directory.""",
        name="ManagementToken",
        reload=True,
    )
    read_token: Secret | None = optional_option(
        kinds.secret(),
        """A token with which clients may see everything over TCP and change nothing. When it is
        blank there is none.""",
        reload=True,
    )
    public_url: ServerAddress | None = optional_option(
        kinds.origin(),
        """Where browsers find this server behind a TLS proxy, like https://manager.example.org.
        Requests for that host are then answered, and a browser that signs in there gets a cookie
        that it sends over https only. Blank: only this machine's names are answered.""",
    )


@dataclass(frozen=True, kw_only=True)
class LoggingSection:
    """The log. Any other key here is the name of a logger, and its value that logger's level."""

    file: Path = option(
        kinds.path(), "/dev/stderr", "The log file; reopened after it was rotated.", name="file"
    )
    level: LogLevel = option(
        kinds.log_level(), "INFO", "INFO shows every decision; WARNING hides them."
    )
    format: LogFormat = option(
        kinds.choice(LogFormat),
        "auto",
        "One event a line: auto is for people on a terminal and key=value elsewhere; or JSON.",
    )
