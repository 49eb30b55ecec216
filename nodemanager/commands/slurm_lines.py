"""The lines of slurm.conf that a pool needs, from its settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nodemanager.config import Config, StoreProvider, located
from nodemanager.config.values import Dispatcher
from nodemanager.core.model.world import Size
from nodemanager.errors import ConfigError
from nodemanager.schedulers.slurm import conf

PARTITION = "elastic"
PROGRAMS = "/etc/nodemanager"
"""Where etc/slurm/slurm-resume and slurm-suspend are meant to be."""
CLOSED_ONCE = 2
"""So many shutdown_windows end: closed at first, then open for good."""


def sizes(config: Config) -> tuple[Size, ...]:
    """The sizes of the file, asked of the cloud where the file leaves out what they have.

    Raises ConfigError for a file that has none, or one that Slurm could not describe.
    """
    from nodemanager import adapters
    from nodemanager.clock import SystemClock
    from nodemanager.from_config import size_of, sizes_of

    problems = []
    if config.daemon.dispatcher is not Dispatcher.SLURM:
        problems.append(
            f"[Daemon] dispatcher = {config.daemon.dispatcher}: only slurm needs a slurm.conf"
        )
    if not config.sizes:
        problems.append("[Size NAME]: is missing: each size that Slurm's nodes may have needs one")
    if problems:
        raise ConfigError(located(config, problems))
    if all(one.cores is not None and one.ram_mb is not None for one in config.sizes):
        return tuple(size_of(one, None) for one in config.sizes)
    return sizes_of(config, adapters.build_cloud(config, SystemClock()))


def lines(config: Config, known: Sequence[Size]) -> Iterator[str]:
    """The lines of slurm.conf, and comments that say what else there is to do."""
    yield f"# From {config.path.resolve()}, by `nodemanager slurm-config`."
    yield "# A node that was down takes work again once the next machine of its name is up."
    yield "ReturnToService=2"
    types = conf.gres_types(known)
    if types is not None:
        yield "# Each node's gres.conf names its devices, too."
        yield types
    scaling = config.daemon.node_mem_scaling
    partitions = config.slurm.partitions or (PARTITION,)
    if config.records.provider is StoreProvider.SLURM:
        daemon, windows = config.daemon, config.cloud.shutdown_windows
        spares = any(one.spare_nodes for one in known)
        yield from conf.power_saving(
            PROGRAMS,
            daemon.boot_fail_after,
            stays=windows[0] if windows else 0.0,
            keeps_idle=daemon.min_nodes > 0 or spares or len(windows) > CLOSED_ONCE,
        )
        ranges = [conf.names_of_size(one.name, config.daemon.max_nodes) for one in known]
        for size, names in zip(known, ranges, strict=True):
            yield conf.of_each_size(size.name, names, known, scaling)
        for name in partitions:
            yield conf.partition(name, ",".join(ranges))
        return
    yield "# These names must resolve, on the controller and on the nodes."
    names = conf.hosts(config.registry.hostname, config.slots)
    yield from conf.of_any_size(names, known, scaling)
    for name in partitions:
        yield conf.partition(name, names)
