"""`nodemanager slurm-config`, and the two programs that Slurm's power saving runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from nodemanager.commands.common import config_flag, config_option, config_path, examples

if TYPE_CHECKING:
    from nodemanager.config import Config
    from nodemanager.core.model.world import Size

PARTITION = "elastic"
PROGRAMS = "/etc/nodemanager"
"""Where etc/slurm/slurm-resume and slurm-suspend are meant to be."""
CLOSED_ONCE = 2
"""So many shutdown_windows end: closed at first, then open for good."""


def sizes(config: Config) -> tuple[Size, ...]:
    """The sizes of the file, asked of the cloud where the file leaves out what they have.

    Raises ConfigError for a file that has none, or one that Slurm could not describe.
    """
    from nodemanager.app import adapters
    from nodemanager.app.from_config import size_of, sizes_of
    from nodemanager.config import located
    from nodemanager.config.values import Dispatcher
    from nodemanager.errors import ConfigError
    from nodemanager.lib.clock import SystemClock

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
    from nodemanager.config import StoreProvider
    from nodemanager.schedulers.slurm import conf

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


@click.command(
    "slurm-config",
    epilog=examples(
        "slurm-config -c /etc/nodemanager/slurm.cfg",
        "slurm-config -c slurm.cfg > /etc/slurm/nodemanager.conf  # Include nodemanager.conf",
    ),
)
@config_option
def slurm_config(config: str | None, file: str | None) -> None:
    """Print the lines that slurm.conf needs for the nodes of this file.

    The nodes' names are those of the slots, and CPUs, memory, features, generic resources and
    weight come from the [Size NAME] sections. It asks the cloud only for a size that the file
    gives no cores or memory for. It changes nothing.
    """
    from nodemanager.app import adapters
    from nodemanager.config import load

    loaded = load(config_path(config, file), accepts=adapters.accepted_keys)
    for line in lines(loaded, sizes(loaded)):
        click.echo(line)


def _program(command: str, when: str) -> click.Command:
    @click.command(command, context_settings={"ignore_unknown_options": True})
    @config_flag
    @click.argument("hostlist")
    def run(config: str | None, hostlist: str) -> None:
        from nodemanager.commands import power_program

        given = [] if config is None else ["--config", config]
        sys.exit(power_program.main(command, [*given, hostlist]))

    run.help = f"""{when} Exits at once: 0 if the daemon has it, 1 if no daemon took it (its next
    poll of Slurm sees the same), 2 for wrong usage. Errors go to syslog, too."""
    return run


slurm_resume = _program("slurm-resume", "ResumeProgram: tell the daemon that Slurm wants nodes up.")
slurm_suspend = _program("slurm-suspend", "SuspendProgram: tell it that Slurm wants nodes down.")
