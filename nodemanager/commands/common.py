"""What the subcommands share: which configuration file is meant, and how it is given."""

from __future__ import annotations

import os
from pathlib import Path

import click

from nodemanager.client import Client
from nodemanager.config import load

ETC = Path("/etc/nodemanager")

HELP = "The configuration file; else $NODEMANAGER_CONFIG, or the only file in /etc/nodemanager."

_FILE = click.Path(dir_okay=False)


def config_option(command: click.decorators.FC) -> click.decorators.FC:
    """FILE, or --config FILE: for commands whose only argument may be the file."""
    argument = click.argument("file", required=False, type=_FILE)
    option = click.option("--config", "-c", "config", type=_FILE, metavar="FILE", help=HELP)
    return argument(option(command))


def config_flag(command: click.decorators.FC) -> click.decorators.FC:
    """--config FILE, for commands whose argument is something else."""
    return click.option("--config", "-c", "config", type=_FILE, metavar="FILE", help=HELP)(command)


def config_path(config: str | None, file: str | None = None) -> Path:
    """The one configuration file that is meant. Raises click.UsageError without one."""
    given = config or file or os.environ.get("NODEMANAGER_CONFIG")
    if given:
        return Path(given)
    found = sorted(ETC.glob("*.cfg")) if ETC.is_dir() else []
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(str(path) for path in found)
        raise click.UsageError(f"which one? give --config FILE; there are {names}")
    raise click.UsageError(
        f"no configuration file: give --config FILE, or put one into {ETC}; "
        "etc/ of the distribution has one for each provider"
    )


def client(config: str | None) -> Client:
    """To the daemon that runs on that configuration file."""
    return Client(load(config_path(config)))
