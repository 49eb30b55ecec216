"""Makes from a configuration what the daemon needs: settings, sizes, user data, advice, secrets."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from nodemanager.cloud.api import CloudDriver
from nodemanager.config import Config, StoreProvider, located
from nodemanager.config.deciding import fields_of
from nodemanager.config.providers import traits_of
from nodemanager.config.sections import SizeSection
from nodemanager.config.values import Dispatcher, PlaceOrder
from nodemanager.core.model.scheduling import SchedulerVerb
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import Record, Size
from nodemanager.errors import ConfigError
from nodemanager.lib.near import did_you_mean
from nodemanager.lib.redact import is_secret
from nodemanager.records.api import RecordStore


def sizes_of(config: Config, cloud: CloudDriver) -> tuple[Size, ...]:
    """The sizes that may be booted: those of the `[Size NAME]` sections, else all of the cloud's.

    Raises ConfigError for a size that neither the cloud lists nor the file describes (S4).
    """
    unasked = cloud.sizes_from_file
    known = {} if unasked else {size.instance_type: size for size in cloud.list_sizes()}
    if not config.sizes and unasked:
        problem = f"[Size NAME]: is missing: {cloud.provider} boots only sizes that the file has"
        raise ConfigError(located(config, [problem]))
    if not config.sizes:
        return tuple(replace(size, places=config.cloud.places) for size in known.values())
    problems = []
    sizes = []
    for wanted in config.sizes:
        listed = known.get(wanted.cloud_id)
        if unasked and not wanted.stands_alone:
            problems.append(
                f"[Size {wanted.name}] instance_type = {wanted.cloud_id}: cores, ram and price "
                "must be given, because a manager starts without asking the cloud"
            )
            continue
        if listed is None and not wanted.stands_alone:
            problems.append(
                f"[Size {wanted.name}] instance_type = {wanted.cloud_id}: this version knows "
                "no such size; give cores, ram and price to use it all the same"
                f"{did_you_mean(wanted.cloud_id, list(known))}"
            )
            continue
        sizes.append(replace(size_of(wanted, listed), places=places_of(config, wanted)))
    if problems:
        raise ConfigError(located(config, problems))
    return tuple(sizes)


def as_in_file(sizes: Sequence[Size], config: Config) -> tuple[Size, ...]:
    """The sizes with what the file says of them now, and those that it describes whole.

    What it says no more stays as it was: a reload never waits for the cloud, which would know.
    """
    known = {size.name: size for size in sizes}
    if not config.sizes:
        return tuple(sizes)
    return tuple(
        replace(size_of(one, known.get(one.name)), places=places_of(config, one))
        for one in config.sizes
        if one.name in known or one.stands_alone
    )


def places_of(config: Config, size: SizeSection) -> tuple[str, ...]:
    """The zones or subnets of a size: its own, else those of the cloud."""
    return size.places or config.cloud.places


def named_places(config: Config) -> dict[str, str]:
    """Every place of the file, with the option that names it first, as `[Section] places`."""
    found = dict.fromkeys(config.cloud.places, "[Cloud] places")
    for size in config.sizes:
        for place in size.places or ():
            found.setdefault(place, f"[Size {size.name}] places")
    return found


def size_of(wanted: SizeSection, listed: Size | None) -> Size:
    """The size of a section, with what the cloud lists of it where the section is silent."""
    base = listed or Size(wanted.name, wanted.cloud_id, cores=1, ram_mb=0)
    names = ("cores", "ram_mb", "scratch_mb", "price", "preemptible", "features", "gres")
    given = {name: getattr(wanted, name) for name in names}
    return replace(
        base,
        name=wanted.name,
        ram_is_given=wanted.ram_mb is not None,
        spread=wanted.place_order is PlaceOrder.SPREAD,
        spare_nodes=wanted.spare_nodes or 0,
        group=wanted.group,
        **{key: value for key, value in given.items() if value is not None},
    )


def settings_of(
    config: Config, cloud: CloudDriver, store: RecordStore, sizes: tuple[Size, ...] | None = None
) -> Settings:
    """The settings that decisions are made by; asks the cloud for its sizes unless given."""
    scheduled = config.daemon.dispatcher is not Dispatcher.PING
    return Settings(
        **{"visible_after": cloud.visible_after, **fields_of(config)},
        pool=config.daemon.pool,
        ids_unique=cloud.ids_unique,
        may_authorise=cloud.may_authorise and store.may_authorise,
        compare_and_set=store.guarantee.value == "cas",
        tells_drain=store.tells_drain,
        demand_polled=(
            config.daemon.wishlist_command is not None or scheduled or asks_arvados(config)
        ),
        scheduled=scheduled,
        seats=config.records.provider is StoreProvider.SLURM,
        hostname=(
            config.registry.hostname
            if scheduled and config.records.provider is StoreProvider.REGISTRY
            else None
        ),
        scheduler_can=_scheduler_can(config),
        cancel_unsatisfiable=_cancels(config),
        sizes=sizes_of(config, cloud) if sizes is None else sizes,
    )


def asks_arvados(config: Config) -> bool:
    """Whether the Arvados server is asked for what waits there."""
    daemon, arvados = config.daemon, config.arvados
    if daemon.dispatcher is not Dispatcher.PING or daemon.wishlist_command is not None:
        return False
    if arvados.host is None or arvados.token is None:
        return False
    return arvados.containers_queue or asks_for_jobs(config)


def asks_for_jobs(config: Config) -> bool:
    """Whether the server's jobs.queue is demand, where it has one."""
    return config.arvados.jobs_queue and config.records.provider is StoreProvider.ARVADOS


def _scheduler_can(config: Config) -> frozenset[SchedulerVerb]:
    """What the scheduler can do besides, as its adapter says (`can`)."""
    match config.daemon.dispatcher:
        case Dispatcher.SLURM:
            return frozenset(SchedulerVerb)
        case Dispatcher.COMMAND:
            given = config.scheduler
            return frozenset(
                one for one in SchedulerVerb if getattr(given, f"{one}_command") is not None
            )
    return frozenset()


def _cancels(config: Config) -> bool:
    match config.daemon.dispatcher:
        case Dispatcher.SLURM:
            return config.slurm.cancel_unsatisfiable
        case Dispatcher.COMMAND:
            return config.scheduler.cancel_unsatisfiable
    return False


def user_data_of(config: Config) -> Callable[[Record, str], str]:
    """A function that makes a node's user data from its record and ping URL.

    It fills in the template of `[Cloud Create] user_data`; without one it gives the bare ping URL.
    With Slurm's nodes as records, nodes don't ping: there the bare hostname is in its place.
    Raises ConfigError for a template that can't be read or has no `{ping_url}` (`{hostname}`).
    """
    path = config.cloud_create.get("user_data")
    if path is None:
        return lambda record, ping_url: ping_url
    try:
        template = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problem = f"[Cloud Create] user_data = {path}: can't be read: {error}"
        raise ConfigError(located(config, [problem])) from error

    def render(record: Record, ping_url: str) -> str:
        values = {
            "{ping_url}": ping_url,
            "{record}": record.uuid,
            "{hostname}": record.hostname or "",
            "{incarnation}": record.incarnation or "",
        }
        # Not str.format, since shell scripts and cloud-init files are full of other braces. One
        # pass, so that nothing is replaced within a value that was filled in.
        return re.sub("|".join(map(re.escape, values)), lambda found: values[found[0]], template)

    if config.records.provider is StoreProvider.SLURM and "{hostname}" in template:
        return render
    if "{ping_url}" not in template:
        problem = f"[Cloud Create] user_data = {path}: has no {{ping_url}}, so its node can't ping"
        raise ConfigError(located(config, [problem]))
    return render


def advice_on_prices(config: Config, sizes: Sequence[Size]) -> list[str]:
    """Warnings for sizes that `max_total_price` never lets boot: they are dearer, or nobody tells
    their price (SAFETY.md S4). One that the file itself gives as 0 is told of where the file is
    read."""
    most = config.daemon.max_total_price
    return _too_dear(config, sizes, most) + _unpriced(config, sizes, most) if most else []


def _too_dear(config: Config, sizes: Sequence[Size], most: float) -> list[str]:
    """Warnings for those of the file's sizes that cost more than the cap for one node."""
    named = {one.name for one in config.sizes}
    problems = [
        f"[Size {size.name}] price: one node costs {size.price:g} per hour, more than "
        f"max_total_price = {most:g}, so it never boots"
        for size in sizes
        if size.name in named and size.price and size.price > most
    ]
    return located(config, problems)


def _unpriced(config: Config, sizes: Sequence[Size], most: float) -> list[str]:
    """Warnings for sizes whose price nobody tells."""
    unpriced = {size.name for size in sizes if not size.price}
    if not unpriced:
        return []
    if not config.sizes:
        if len(unpriced) < len(sizes):
            return []
        place = f"[Daemon] max_total_price = {most:g}"
        advice = "lets no node boot, since the cloud tells no prices: give [Size NAME] sections"
        return located(config, [f"{place}: {advice} with a price"])
    problems = [
        f"[Size {one.name}] price: is not known, so max_total_price never lets it boot (S4); "
        "give the price per hour"
        for one in config.sizes
        if one.name in unpriced and one.price is None
    ]
    return located(config, problems)


DRAIN_HOOK = "/etc/nodemanager/drain"
SAID_BY_THE_PING_SCRIPT = (f"DRAIN={DRAIN_HOOK}", f"Default: {DRAIN_HOOK}")
"""Texts of the shipped ping script that name the hook. A template with that script alone does not
install the hook."""


def advice_on_draining(config: Config) -> list[str]:
    """Warnings for a configuration whose idle nodes can't be drained (SAFETY.md D12)."""
    hit = "a job that begins between a node's last ping and its destroy may be hit"
    if traits_of(config.cloud.provider).near or config.daemon.dispatcher is not Dispatcher.PING:
        return []
    if config.records.provider is StoreProvider.ARVADOS:
        place = "[Records] provider = arvados"
        return located(config, [f"{place}: its nodes can't be told to drain: {hit}"])
    path = config.cloud_create.get("user_data")
    template = "" if path is None else Path(path).read_text(encoding="utf-8")
    for said in SAID_BY_THE_PING_SCRIPT:
        template = template.replace(said, "")
    if DRAIN_HOOK in template:
        return []
    place = f"[Cloud Create] user_data = {path or ''}".rstrip()
    advice = (
        f"{place}: installs no {DRAIN_HOOK}: {hit}. Samples of it are in etc/node; where the "
        "image has it, say so in a comment of the user data"
    )
    return located(config, [advice])


def advice_on_scheduler(config: Config) -> list[str]:
    """Warnings for a scheduler whose programs are not on this machine."""
    if config.daemon.dispatcher is not Dispatcher.SLURM:
        return []
    missing = [one for one in ("sinfo", "squeue", "scontrol") if shutil.which(one) is None]
    if not missing:
        return []
    place = "[Daemon] dispatcher = slurm"
    advice = f"{place}: there is no {', '.join(missing)} here: nothing is booted or shut down"
    return located(config, [advice])


def advice_on_power_saving(config: Config) -> list[str]:
    """Warnings for nodes that Slurm powers up and that are not told how to become its nodes."""
    if config.records.provider is not StoreProvider.SLURM or "user_data" in config.cloud_create:
        return []
    advice = (
        "[Cloud Create] user_data: is not set, so a node gets its bare hostname as user data: "
        "without an image that starts `slurmd -N HOSTNAME` with it, it never joins"
    )
    return located(config, [advice])


def secrets_of(config: Config) -> list[str]:
    manage = config.manage
    own = (manage.management_token, manage.read_token)
    given = (*own, config.arvados.token, config.registry.token)
    secrets = [secret.reveal() for secret in given if secret is not None]
    databases = (config.registry.database, config.journal.database, config.lease.database)
    for database in databases:
        password = None if database is None else urlsplit(database.reveal()).password
        if password is not None:
            secrets += [password, unquote(password)]
    for section in (config.cloud_credentials, config.cloud_list, config.cloud_create):
        secrets += [value for key, value in section.items() if is_secret(key)]
    return [
        *secrets,
        *(value for key, value in config.cloud_credentials.items() if "secret" in key),
    ]
