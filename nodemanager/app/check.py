"""Says whether a configuration would do, and what its warnings are."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

from nodemanager.app import adapters, from_config
from nodemanager.config import Config, ini, load
from nodemanager.config.values import Dispatcher, StoreProvider
from nodemanager.core.plan.slots import apart
from nodemanager.errors import SchedulerError
from nodemanager.lib.clock import SystemClock

SHORTEST_TOKEN = 12
"""A door answers some fifty guesses a second (pace.py): that many characters outlast them."""


def check(path: Path) -> tuple[Config, list[str]]:
    """The configuration as the daemon would use it, and its warnings.

    Builds the adapters, so that it finds their errors, too, but sends no request to any server but
    to a Slurm whose programs are here, which is asked for the names of its nodes, and to the
    records' PostgreSQL, which is asked whether a standby of it would have all records.
    """
    sections = ini.read(path).sections
    needs_cloud = "Cloud" in sections or "Registry" not in sections
    config = load(path, accepts=adapters.accepted_keys, require_cloud=needs_cloud)
    if not needs_cloud:
        advice = [*_advice_on_standbys(config), *_advice_on_secrets(config)]
        return config, [*map(str, config.warnings), *advice]
    cloud = adapters.build_cloud(config, SystemClock())
    try:
        sizes = from_config.sizes_of(config, cloud)
        from_config.user_data_of(config)
    finally:
        cloud.close()
    advice = [
        *from_config.advice_on_prices(config, sizes),
        *from_config.advice_on_draining(config),
        *from_config.advice_on_power_saving(config),
        *from_config.advice_on_scheduler(config),
        *_advice_on_names(config),
        *_advice_on_standbys(config),
        *_advice_on_secrets(config),
    ]
    return config, [*map(str, config.warnings), *advice]


def _advice_on_names(config: Config) -> list[str]:
    """A warning where Slurm has no nodes of the slots' names, as far as it can be asked."""
    is_slurm = config.daemon.dispatcher is Dispatcher.SLURM and shutil.which("sinfo") is not None
    if not is_slurm or config.records.provider is not StoreProvider.REGISTRY:
        return []
    scheduler = adapters.scheduler_of(config)
    assert scheduler is not None
    try:
        names = scheduler.nodes().names
    except SchedulerError:
        # It may be down, or not there yet.
        return []
    registry = config.registry
    found = None if names is None else apart(registry.hostname, registry.slots, names)
    place = f"{config.path}: [Registry] hostname = {registry.hostname}"
    return [] if found is None else [f"{place}: {found.text}"]


def _advice_on_standbys(config: Config) -> list[str]:
    """A warning where the records' PostgreSQL has a standby that may lack some, if it answers."""
    database = config.registry.database.reveal()
    if config.records.provider is StoreProvider.ARVADOS or not database.startswith("postgres"):
        return []
    # Imported where it is needed: SQLAlchemy takes as long as all else of this command.
    from nodemanager.sql import watch

    found = watch.lacking(database)
    if found is None:
        return []
    return [
        f"{config.path}: [Registry] database: its standby may lack the newest writes ({found}). "
        "If it takes over then, the manager is read-only until somebody has looked after the nodes "
        "whose records are gone. Let commits wait for the standby"
    ]


def _advice_on_secrets(config: Config) -> list[str]:
    """Warnings of secrets that others can read in the file, or guess."""
    tokens = {
        "[Manage] ManagementToken": config.manage.management_token,
        "[Manage] read_token": config.manage.read_token,
        "[Registry] token": config.registry.token,
    }
    advice = [
        f"{config.path}: {option} = ***: has fewer than {SHORTEST_TOKEN} characters, so it can be "
        "guessed; `openssl rand -hex 16` makes one"
        for option, token in tokens.items()
        if token is not None and len(token.reveal()) < SHORTEST_TOKEN
    ]
    mode = config.path.stat().st_mode
    text = config.path.read_text(encoding="utf-8")
    if mode & stat.S_IROTH and any(secret in text for secret in from_config.secrets_of(config)):
        advice.append(
            f"{config.path}: every user of this machine can read the secrets in it (mode "
            f"{stat.S_IMODE(mode):04o}): `chmod o= {config.path}`, or write them as NAME_file"
        )
    return advice
