"""The sections of the daemon itself: [Daemon], [Manage], [Logging]."""

# ruff: noqa: RUF009 - `option` makes a dataclass field, not a shared value

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nodemanager.config import kinds
from nodemanager.config.options import AS_POLLED, Decides, Derived, Draft, option
from nodemanager.config.values import Dispatcher, LogFormat, LogLevel, Secret


def _poll_time(draft: Draft) -> object:
    return draft.value("Daemon", "poll_time")


def _max_poll_time(draft: Draft) -> float:
    names = ("cloudlist_poll_time", "nodelist_poll_time", "wishlist_poll_time")
    return max(300.0, *(draft.value("Daemon", name) or 0.0 for name in names))


def _state_dir(draft: Draft) -> Path:
    given = draft.environ.get("STATE_DIRECTORY", "").split(":")[0]
    pool = draft.value("Daemon", "pool") or ""
    return Path(given).absolute() if given else Path("/var/lib/nodemanager") / pool


@dataclass(frozen=True, kw_only=True)
class Daemon:
    """How many nodes to keep, how often to look, and how long to wait before acting."""

    pool: str = option(
        kinds.pool_name(),
        Derived("the file's name without .cfg or .ini", lambda draft: draft.pool_from_name),
        """What this manager serves. Its claims, tags, state and counts carry this name, and it
        leaves the nodes and records of other pools alone. Never rename a pool that has nodes.""",
    )
    min_nodes: int = option(
        kinds.whole(0, unit="nodes"),
        "0",
        "Keep at least this many nodes, of the cheapest size, whatever the demand.",
        reload=True,
        decides=Decides(),
    )
    max_nodes: int = option(
        kinds.whole(0, unit="nodes"),
        "1",
        "Never have more nodes than this. 0, with min_nodes = 0, drains the pool.",
        reload=True,
        decides=Decides(),
    )
    max_total_price: float = option(
        kinds.number(least=0, unit="price per hour"),
        "0",
        """Boot nothing that would take the price of all nodes together above this. 0 is no cap.
        With a cap, a size of unknown price is not booted: set [Size NAME] price.""",
        reload=True,
        decides=Decides(),
    )
    poll_time: float = option(
        kinds.duration(),
        "60",
        "How often the cloud, the records and the demand are asked.",
        reload=True,
    )
    cloudlist_poll_time: float = option(
        kinds.duration(),
        Derived("poll_time", _poll_time, or_zero=True),
        "How often the cloud is asked for its nodes.",
        reload=True,
    )
    nodelist_poll_time: float = option(
        kinds.duration(),
        Derived("poll_time", _poll_time, or_zero=True),
        "How often the record store is asked for its records.",
        reload=True,
    )
    wishlist_poll_time: float = option(
        kinds.duration(),
        Derived("poll_time", _poll_time, or_zero=True),
        "How often the demand is asked for.",
        reload=True,
    )
    max_poll_time: float = option(
        kinds.duration(),
        Derived("300, or the longest poll time where that is longer", _max_poll_time),
        "After each failure of a poll the wait for the next is longer, up to this.",
        reload=True,
        decides=Decides(fixed=AS_POLLED),
    )
    poll_stale_after: float = option(
        kinds.duration(),
        "600",
        """Boot, destroy or free nothing on an answer older than this. At least two polls. It must
        be below node_stale_after; otherwise half of node_stale_after is used.""",
        reload=True,
        decides=Decides(),
    )
    boot_fail_after: float = option(
        kinds.duration(longest=None),
        "1800",
        "A node that has not pinged for this long after its create has failed to boot.",
        reload=True,
        decides=Decides(),
    )
    node_stale_after: float = option(
        kinds.duration(longest=None),
        "7200",
        """The stale window: the slot of a record is given back only when its node is gone and the
        record has been quiet for strictly longer than this. A listed node that has been silent for
        longer, while the record store answered, is shut down.""",
        reload=True,
        decides=Decides(),
    )
    consecutive_idle_count: int = option(
        kinds.whole(1, unit="record listings"),
        "2",
        "A node is shut down for being idle only when this many listings in a row show it idle.",
        reload=True,
        decides=Decides(),
    )
    node_mem_scaling: float = option(
        kinds.number(above=0, most=1),
        "0.95",
        "The part of a size's memory that jobs can really use.",
        reload=True,
        decides=Decides(),
    )
    watchdog: float = option(
        kinds.duration(),
        "600",
        "When a part of the daemon is stuck for this long, the daemon ends, to be restarted.",
    )
    certs_file: Path | None = option(
        kinds.optional(kinds.path()),
        "",
        "Certificate authorities to trust, in PEM; blank trusts those of the system.",
    )
    dispatcher: Dispatcher | None = option(
        kinds.optional(kinds.choice(Dispatcher)),
        "",
        "Accepted for old files. Slurm is not asked yet.",
        no_effect="Slurm is not asked: nodes are not drained through it before they are shut "
        "down, and whether a node is busy is known from its own pings alone",
        no_effect_unless=("",),
    )
    wishlist_command: tuple[str, ...] | None = option(
        kinds.optional(kinds.command()),
        "",
        """A command that prints the demand, one JSON object a line: id, cores, ram_mb, scratch_mb,
        count, preemptible, instance_type. When it fails, that poll failed; this never means an
        empty queue. Its environment has only PATH, HOME, USER, LOGNAME, SHELL, LANG, LC_*, TZ,
        TMPDIR and SLURM_*; "/usr/bin/env NAME=VALUE COMMAND" adds more.""",
    )
    state_dir: Path = option(
        kinds.path(),
        Derived("$STATE_DIRECTORY (set by systemd), else /var/lib/nodemanager/POOL", _state_dir),
        "Where the lock, the tokens that the daemon made and the embedded registry are kept.",
    )


@dataclass(frozen=True, kw_only=True)
class Manage:
    """The management server over TCP, in plain HTTP: status and metrics for browsers and
    Prometheus, commands from other machines. Commands on this machine do not need it: they go
    over a Unix socket that is always there."""

    address: str = option(kinds.text(), "127.0.0.1", "The address it serves on.")
    port: int | None = option(
        kinds.port_or_off(), "-1", "The port it serves on. -1 serves none; 0 takes a free port."
    )
    management_token: Secret | None = option(
        kinds.optional(kinds.secret()),
        "",
        """Whoever has it may see and change everything over TCP. When it is blank, one is made at
        the first start and kept in the state directory.""",
        name="ManagementToken",
    )


@dataclass(frozen=True, kw_only=True)
class Logging:
    """The log. Any other key here is the name of a logger, and its value that logger's level."""

    file: Path = option(
        kinds.path(), "/dev/stderr", "The log file; opened anew after it was rotated.", name="file"
    )
    level: LogLevel = option(
        kinds.log_level(), "INFO", "INFO shows every decision; WARNING hides them."
    )
    format: LogFormat = option(
        kinds.choice(LogFormat), "logfmt", "One event a line, as key=value or as JSON."
    )
