"""Contradictions between options: refused, or adjusted to the safe side with a warning (S1)."""

from __future__ import annotations

import re
import stat
from dataclasses import replace
from pathlib import Path

from nodemanager.config import kinds
from nodemanager.config.check_addresses import PING_HOST, check_addresses
from nodemanager.config.providers import traits_of
from nodemanager.config.reader import Draft, is_wrong
from nodemanager.config.report import Place
from nodemanager.config.values import (
    Dispatcher,
    LeaseStore,
    Secret,
    ServerAddress,
    StoreProvider,
)
from nodemanager.core.observe.pools import PREFLIGHT

_STANDS_FOR = re.compile(
    r"""SECRET | TOKEN | .*\.\.\. | example | zzzzz
      | .*0123456789abcdef.*
      | (?:.*@)?my-project(?:\..*)? | .*/example\.pem
      | Publisher:Product:Plan | /subscriptions/ID/.*
      | 00000000-0000-0000-0000-000000000000 | 11111111-2222-4333-8444-555555555555
      | (?:.*[./@])?example\.(?:com|net|org)(?:[:/].*)?""",
    re.VERBOSE,
)
"""Ids that no cloud gives, names that only stand for one, and domains that nobody can have
(RFC 2606)."""

_DECLARED = (("Arvados", "host"), ("Arvados", "token"), ("Registry", "domain"))
"""The options with declarations whose samples' values are nobody's."""


def is_placeholder(value: str) -> bool:
    """Whether the value only stands for one."""
    return _STANDS_FOR.fullmatch(value) is not None


def warn_of_placeholders(draft: Draft) -> None:
    for section, keys in draft.keys.items():
        for key, value in keys.items():
            _warn(draft, section, key, value)
    for section, option in _DECLARED:
        value = draft.value(section, option)
        if isinstance(value, Secret):
            value = value.reveal()
        elif isinstance(value, ServerAddress):
            value = value.url
        _warn(draft, section, option, value or "")


def _warn(draft: Draft, section: str, key: str, value: str) -> None:
    if is_placeholder(value):
        draft.report.warn(draft.place(section, key), "is only a sample's value; write your own")


CONTAINERS, JOBS = ("Arvados", "containers_queue"), ("Arvados", "jobs_queue")


def check_queues(draft: Draft) -> None:
    """Report what keeps these queues from being asked."""
    other = _other_source(draft)
    if draft.value(*CONTAINERS):
        _containers(draft, other)
    if draft.is_set(*JOBS) and draft.value(*JOBS):
        _jobs(draft, other)


def _other_source(draft: Draft) -> Place | None:
    """The option that names another source of demand."""
    if draft.value("Daemon", "dispatcher") not in (None, Dispatcher.PING):
        return draft.place("Daemon", "dispatcher")
    if draft.value("Daemon", "wishlist_command") is not None:
        return draft.place("Daemon", "wishlist_command")
    return None


def _containers(draft: Draft, other: Place | None) -> None:
    place = draft.place(*CONTAINERS)
    if other is not None:
        text = "{one} and {other} would be two sources of demand: keep one of them"
        draft.report.clash(place, other, text)
    for name in ("host", "token"):
        needed = draft.place("Arvados", name)
        if draft.value("Arvados", name) is None and not needed.written:
            draft.report.clash(place, needed, f"{{one}} needs [Arvados] {name}")


def _jobs(draft: Draft, other: Place | None) -> None:
    """Arvados Node Manager's files have it written out, and mean it for old servers."""
    place = draft.place(*JOBS)
    if other is not None:
        draft.report.clash(place, other, "{one} is not used: {other} is the demand", refuse=False)
    elif draft.value("Records", "provider") is not StoreProvider.ARVADOS:
        draft.report.warn(place, "not used: no Arvados server keeps the records")
    else:
        draft.report.warn(
            place,
            "is demand only where the server's API still has jobs.queue; the log says whether it "
            "has (demand.source)",
        )


POLLS = ("cloudlist_poll_time", "nodelist_poll_time", "wishlist_poll_time")
FRESH_POLLS = 2
SHORTEST_LEASE_S = 3.0
"""A renewal takes a moment, and three of them must fit in."""
SLURM, SCHEDULER = "Slurm", "Scheduler"
CANCELS = SCHEDULER, "cancel_unsatisfiable"
SERVICE_LOGS = Path("/var/log/nodemanager")
"""The units' LogsDirectory; apart from it they can only write to the state directory."""
_EVERY_STATE = "nodes are listed in every state, since a stopped one would seem gone (T5)"
_MANAGED = "the nodes' disks are managed, and Azure deletes them with their node"
IGNORED = {
    "Cloud List": dict.fromkeys(("instance-state-code", "instance-state-name"), _EVERY_STATE),
    "Cloud Create": dict.fromkeys(
        ("ex_blob_container", "ex_os_disk_delete", "ex_storage_account"), _MANAGED
    ),
}
"""The keys that an adapter drops, and why."""


def check_all(draft: Draft) -> None:
    """Report every contradiction, and replace adjusted values in the draft."""
    _pool(draft)
    _limits(draft)
    _polls(draft)
    _freshness(draft)
    _settle(draft)
    _ages(draft)
    _store(draft)
    _lease(draft)
    _prune(draft)
    check_addresses(draft)
    _prices(draft)
    _preemptible(draft)
    _places(draft)
    _scratch(draft)
    _demand(draft)
    _dispatcher(draft)
    check_queues(draft)
    _log_file(draft)
    _programs(draft)
    _ignored(draft)
    warn_of_placeholders(draft)


def _pool(draft: Draft) -> None:
    if str(draft.value("Daemon", "pool") or "").endswith(PREFLIGHT):
        text = f"names that end in {PREFLIGHT} are for the pools of `check-cloud --boot`"
        draft.report.wrong(draft.place("Daemon", "pool"), text)


def _limits(draft: Draft) -> None:
    least, most = draft.value("Daemon", "min_nodes"), draft.value("Daemon", "max_nodes")
    places = draft.place("Daemon", "min_nodes"), draft.place("Daemon", "max_nodes")
    if least is not None and most is not None and least > most:
        draft.report.clash(*places, "{one} asks for more nodes than {other} allows")
    spare = sum(size.spare_nodes or 0 for size in draft.sizes)
    if most is not None and spare > most:
        size = max(draft.sizes, key=lambda one: one.spare_nodes or 0)
        draft.report.clash(
            draft.place(f"Size {size.name}", "spare_nodes"),
            places[1],
            f"all sizes together keep {spare} spare nodes, more than {{other}} allows",
            refuse=False,
        )
    if draft.value("Records", "provider") is StoreProvider.SLURM:
        return
    section = "Registry"
    if draft.value("Records", "provider") is StoreProvider.ARVADOS:
        section = "Records"
    slots = draft.value(section, "slots")
    if most is not None and slots is not None and most > slots:
        draft.report.clash(
            places[1],
            draft.place(section, "slots"),
            f"{{one}} allows more nodes than {{other}} can give a slot; {slots} is the most",
            refuse=False,
        )


def _ages(draft: Draft) -> None:
    """Refuse an age that a node has before it is surely up: it would be replaced for ever."""
    most, boots = draft.value("Daemon", "max_node_age"), draft.value("Daemon", "boot_fail_after")
    if most is not None and boots is not None and most <= boots:
        places = draft.place("Daemon", "max_node_age"), draft.place("Daemon", "boot_fail_after")
        draft.report.clash(*places, "{one} is not above {other}")


def _polls(draft: Draft) -> None:
    cap = draft.value("Daemon", "max_poll_time")
    longest = _longest_poll(draft)
    if cap is None or longest is None or cap >= longest[1]:
        return
    _adjust(
        draft,
        draft.place("Daemon", "max_poll_time"),
        longest[0],
        longest[1],
        "{one} is below {other}",
    )


def _freshness(draft: Draft) -> None:
    fresh = draft.value("Daemon", "poll_stale_after")
    window = draft.value("Daemon", "node_stale_after")
    longest = _longest_poll(draft)
    place = draft.place("Daemon", "poll_stale_after")
    cause = place
    if fresh is not None and window is not None and window <= fresh:
        cause = draft.place("Daemon", "node_stale_after")
        fresh = window / 2
        _adjust(draft, place, cause, fresh, "{other} is not above {one}")
    if fresh is not None and longest is not None and fresh < FRESH_POLLS * longest[1]:
        in_force = f"by {{one}} polls are fresh for {kinds.show_number(fresh)} s"
        needed = kinds.show_number(FRESH_POLLS * longest[1])
        draft.report.clash(
            cause, longest[0], f"{in_force}, which is below two polls of {{other}} ({needed} s)"
        )


def _settle(draft: Draft) -> None:
    settle = draft.value("Cleaning", "settle")
    poll = draft.value("Daemon", "cloudlist_poll_time")
    if settle is not None and poll is not None and settle < poll:
        _adjust(
            draft,
            draft.place("Cleaning", "settle"),
            _poll_place(draft, "cloudlist_poll_time"),
            poll,
            "{one} is below {other}, one poll of the cloud",
        )


def _store(draft: Draft) -> None:
    provider = draft.value("Records", "provider")
    place, host = draft.place("Records", "provider"), draft.place("Arvados", "host")
    if provider is StoreProvider.ARVADOS:
        cause = place if place.line is not None else host
        for name in ("host", "token"):
            needed = draft.place("Arvados", name)
            if draft.value("Arvados", name) is None and not is_wrong(draft, "Arvados", name):
                draft.report.clash(cause, needed, "the Arvados store needs [Arvados] " + name)
    elif provider is StoreProvider.REGISTRY:
        asked = draft.value("Arvados", "containers_queue")
        if draft.value("Arvados", "host") is not None and not asked:
            draft.report.clash(
                place, host, "{other} is not used, since {one} keeps the records", refuse=False
            )
        if draft.is_set("Records", "slots"):
            draft.report.warn(
                draft.place("Records", "slots"), "not used; the slots are [Registry] slots"
            )
    elif provider is StoreProvider.SLURM:
        if draft.value("Daemon", "dispatcher") is not Dispatcher.SLURM:
            dispatcher = draft.place("Daemon", "dispatcher")
            draft.report.clash(place, dispatcher, "{one} needs [Daemon] dispatcher = slurm")
        _of_seats(draft)


def _of_seats(draft: Draft) -> None:
    """Warn of what only a registry that nodes ping would use."""
    for place in draft.places.values():
        pinged = (place.section, place.option) == PING_HOST
        registry = place.section == "Registry" and place.option not in ("database", "domain")
        if place.line is not None and (pinged or registry):
            text = "not used: the slots are Slurm's nodes ([Records] provider), which don't ping"
            draft.report.warn(place, f"{text}; leave it out")


def _lease(draft: Draft) -> None:
    """Refuse a lease that managers on other machines can't see, or a pool whose rest they can't."""
    store, duration = draft.place("Lease", "store"), draft.value("Lease", "duration")
    if draft.value("Lease", "store") is not LeaseStore.DATABASE:
        return
    if draft.value("Lease", "database") is None and not is_wrong(draft, "Lease", "database"):
        needed = "{one} needs {other}: postgresql://... that all managers of the pool reach"
        draft.report.clash(store, draft.place("Lease", "database"), needed)
    if draft.value("Journal", "database") is None and not is_wrong(draft, "Journal", "database"):
        needed = "{one} needs {other}: who takes over goes on with what is open there (R1)"
        draft.report.clash(store, draft.place("Journal", "database"), needed)
    records, place = draft.value("Registry", "database"), draft.place("Registry", "database")
    ours = draft.value("Records", "provider") is not StoreProvider.ARVADOS
    if ours and records is not None and not records.reveal().startswith("postgresql"):
        needed = "{one} needs {other}: postgresql://..., since other machines have no such file"
        draft.report.clash(store, place, needed)
    if duration is not None and duration < SHORTEST_LEASE_S:
        text = f"is too short: a lease lasts {SHORTEST_LEASE_S:g} s at least"
        draft.report.wrong(draft.place("Lease", "duration"), text)


def _prune(draft: Draft) -> None:
    provider = draft.value("Records", "provider")
    if provider is StoreProvider.SLURM and draft.value("Cleaning", "prune_after") is not None:
        draft.report.clash(
            draft.place("Cleaning", "prune_after"),
            draft.place("Records", "provider"),
            "{one} needs a registry: with {other} the records are the nodes of slurm.conf",
        )
    if provider is StoreProvider.ARVADOS and draft.value("Cleaning", "prune_after") is not None:
        draft.report.clash(
            draft.place("Cleaning", "prune_after"),
            draft.place("Records", "provider"),
            "{one} needs a registry: Arvados ({other}) can't delete a record on a condition",
        )


def _prices(draft: Draft) -> None:
    if not draft.value("Daemon", "max_total_price"):
        return
    for size in draft.sizes:
        if size.price == 0:
            draft.report.clash(
                draft.place(f"Size {size.name}", "price"),
                draft.place("Daemon", "max_total_price"),
                "{one} means that the price is unknown, so {other} never lets it boot",
                refuse=False,
            )


def _preemptible(draft: Draft) -> None:
    provider = draft.value("Cloud", "provider")
    for size in draft.sizes:
        if size.preemptible and not traits_of(provider).preemptible:
            place = draft.place(f"Size {size.name}", "preemptible")
            draft.report.wrong(place, f"{provider} has no such nodes")


def _places(draft: Draft) -> None:
    """Refuse places where the adapter has one only; warn of an order of less than two."""
    provider = draft.value("Cloud", "provider")
    shared = draft.value("Cloud", "places")
    given = [("Cloud", shared)] + [(f"Size {size.name}", size.places) for size in draft.sizes]
    if not traits_of(provider).places:
        for section, places in given:
            if places:
                text = f"{provider} boots its nodes in one place: leave it out"
                draft.report.wrong(draft.place(section, "places"), text)
        return
    for size in draft.sizes:
        section, places = f"Size {size.name}", size.places or shared or ()
        if size.place_order is not None and len(places) < 2:
            text = "has no effect: the size has less than two places"
            draft.report.warn(draft.place(section, "place_order"), text)


def _scratch(draft: Draft) -> None:
    for size in draft.sizes:
        if not size.scratch_mb:
            continue
        place = draft.place(f"Size {size.name}", "scratch")
        if size.scratch_mb < 1000:
            meant = size.scratch_mb * 1000
            draft.report.warn(place, f"is in MB, so this is almost nothing; for GB write {meant}")


def _demand(draft: Draft) -> None:
    """Warn when nothing asks for nodes: Arvados Node Manager's files relied on queues that we
    don't ask."""
    if traits_of(draft.value("Cloud", "provider")).needs_no_demand:
        return
    least, most = draft.value("Daemon", "min_nodes"), draft.value("Daemon", "max_nodes")
    asks = draft.value("Daemon", "dispatcher") is not Dispatcher.PING
    asks = asks or draft.value("Daemon", "wishlist_command") is not None
    asks = asks or bool(draft.value("Arvados", "containers_queue"))
    asks = asks or any(size.spare_nodes for size in draft.sizes)
    if least == 0 and most and not asks:
        draft.report.warn(
            draft.place("Daemon", "min_nodes"),
            "nothing asks for nodes, so none is ever booted: set [Daemon] wishlist_command, "
            "dispatcher, [Arvados] containers_queue, [Size NAME] spare_nodes, or min_nodes above 0",
        )


def _dispatcher(draft: Draft) -> None:
    """Refuse a scheduler that can't be asked; warn of options of one that is not."""
    place, chosen = draft.place("Daemon", "dispatcher"), draft.value("Daemon", "dispatcher")
    if chosen is None:
        return
    for section, uses in ((SLURM, Dispatcher.SLURM), (SCHEDULER, Dispatcher.COMMAND)):
        for key in (key for key in draft.places if key[0] == section and chosen is not uses):
            if draft.is_set(*key):
                draft.report.warn(draft.place(*key), f"not used: [Daemon] dispatcher is {chosen}")
    if chosen is Dispatcher.PING:
        return
    if draft.value("Daemon", "wishlist_command") is not None:
        wishlist = draft.place("Daemon", "wishlist_command")
        draft.report.clash(
            wishlist, place, "{one} and {other} would be two sources of demand: keep one of them"
        )
    if chosen is Dispatcher.COMMAND:
        _a_program_for_each_verb(draft, place)
    _asked_in_time(draft, SLURM if chosen is Dispatcher.SLURM else SCHEDULER)


def _a_program_for_each_verb(draft: Draft, place: Place) -> None:
    needed = [(place, name) for name in ("nodes", "queue", "drain", "resume", "down")]
    if draft.value(*CANCELS):
        # A job's owner is told why before it is cancelled.
        needed += [(draft.place(*CANCELS), name) for name in ("comment", "cancel")]
    for by, name in needed:
        program = SCHEDULER, f"{name}_command"
        if draft.value(*program) is None and not is_wrong(draft, *program):
            draft.report.wrong(by, f"needs [{SCHEDULER}] {name}_command")


def _asked_in_time(draft: Draft, section: str) -> None:
    """Refuse a time limit by which each poll of the scheduler would be too old."""
    timeout, fresh = draft.value(section, "timeout"), draft.value("Daemon", "poll_stale_after")
    every = draft.value("Daemon", "wishlist_poll_time")
    if None not in (timeout, fresh, every) and 2 * timeout + every > fresh:
        draft.report.clash(
            draft.place(section, "timeout"),
            draft.place("Daemon", "poll_stale_after"),
            "by {one} a poll of queue and nodes may be older than {other} before it has ended",
        )


def _log_file(draft: Draft) -> None:
    file: Path | None = draft.value("Logging", "file")
    if file is None or file.is_absolute() is False or file.parent.is_dir():
        return
    draft.report.warn(
        draft.place("Logging", "file"),
        f"there is no folder {file.parent}, and nodemanager does not start without it; as a "
        f"service it can only write to {SERVICE_LOGS}",
    )


def _programs(draft: Draft) -> None:
    """Warn of programs that are not there: each poll of the demand or scheduler would fail."""
    for (section, option), value in draft.values.items():
        if not option.endswith("_command") or not value or not value[0].startswith("/"):
            continue
        try:
            program = Path(value[0]).stat()
        except PermissionError:
            continue
        except OSError as error:
            draft.report.warn(draft.place(section, option), f"{error.strerror}: {value[0]}")
            continue
        if not stat.S_ISREG(program.st_mode) or not program.st_mode & 0o111:
            draft.report.warn(draft.place(section, option), f"not executable: {value[0]}")


def _ignored(draft: Draft) -> None:
    for section, keys in IGNORED.items():
        for key in keys.keys() & draft.keys.get(section, {}).keys():
            draft.report.warn(draft.places[section, key], f"ignored: {keys[key]}")


def _adjust(draft: Draft, what: Place, other: Place, value: float, why: str) -> None:
    key = (what.section, what.option)
    draft.values[key] = value
    draft.places[key] = replace(what, adjusted=True)
    # Of a measured interval nobody needs the last digits.
    in_force = f"; using {what.option} = {kinds.show_number(float(f'{value:.6g}'))}"
    draft.report.clash(what, other, why + in_force, refuse=False)


def _longest_poll(draft: Draft) -> tuple[Place, float] | None:
    known = [(draft.value("Daemon", name), name) for name in POLLS]
    if any(value is None for value, _ in known):
        return None
    value, name = max(known, key=lambda each: float(each[0]))
    return _poll_place(draft, name), value


def _poll_place(draft: Draft, name: str) -> Place:
    """The option that sets this poll's time: its own, or else poll_time."""
    return draft.place("Daemon", name if draft.is_set("Daemon", name) else "poll_time")
