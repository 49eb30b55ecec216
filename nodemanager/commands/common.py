"""Options and paths that the subcommands share: configuration file, journal, daemon."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nodemanager.commands.show import json_option
from nodemanager.errors import JournalError

if TYPE_CHECKING:
    from nodemanager.commands.client import Client
    from nodemanager.config import Reach

ETC = Path("/etc/nodemanager")

HELP = "The configuration file; default: $NODEMANAGER_CONFIG, or /etc/nodemanager's only file."

_FILE = click.Path(dir_okay=False)


def config_option(command: click.decorators.FC) -> click.decorators.FC:
    """FILE, or --config FILE, for commands without another argument."""
    argument = click.argument("file", required=False, type=_FILE)
    option = click.option("--config", "-c", "config", type=_FILE, metavar="FILE", help=HELP)
    return argument(option(command))


def config_flag(command: click.decorators.FC) -> click.decorators.FC:
    """--config FILE, for commands with another argument."""
    return click.option("--config", "-c", "config", type=_FILE, metavar="FILE", help=HELP)(command)


def journal_option(
    help: str = "Use this journal, or a copy of one, instead of the running daemon.",
) -> Callable[[click.decorators.FC], click.decorators.FC]:
    """--journal FILE, for commands that can read one."""
    kind = click.Path(path_type=Path)
    return click.option("--journal", "journal", type=kind, metavar="FILE", help=help)


jobs_option = click.option(
    "--jobs",
    type=click.IntRange(1),
    metavar="N",
    help="The number of processes; default: the number of processors.",
)


def examples(*lines: str) -> str:
    """A block of examples for the end of a help text, which click does not reformat."""
    return "\b\nExamples:\n" + "\n".join(f"  nodemanager {line}" for line in lines)


def config_path(config: str | None, file: str | None = None) -> Path:
    """The configuration file to use. Raises click.UsageError where there is none or a choice."""
    given = config or file or os.environ.get("NODEMANAGER_CONFIG")
    if given:
        return Path(given)
    found = sorted(ETC.glob("*.cfg")) if ETC.is_dir() else []
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(str(path) for path in found)
        raise click.UsageError(f"there are several files, {names}: choose one by --config FILE")
    raise click.UsageError(
        f"no configuration file: give --config FILE, or put one into {ETC}; "
        "etc/ of the distribution has one for each provider"
    )


def journal_of(config: Reach) -> Path:
    """The configured journal, or a dry run's where only that exists (S3)."""
    path = config.journal
    dry = path.with_name(f"{path.stem}-dry-run{path.suffix}")
    try:
        return dry if dry.is_file() and not path.is_file() else path
    except OSError:
        # The code that opens it reports why it can't be read.
        return path


def existing_journal(path: Path, *, given: bool) -> Path:
    """`path`, which was `given` or configured, if it exists.

    Otherwise raises JournalError, which says what to do.
    """
    from nodemanager.journal.opened import is_there

    if is_there(path):
        return path
    hint = (
        "give the file that a daemon wrote, or a copy of it"
        if given
        else "a daemon makes it at its first start; give another with --journal FILE, or another "
        "configuration with --config FILE"
    )
    raise JournalError(f"there is no journal {path}: {hint}")


URL_HELP = """Use this address and [Manage] ManagementToken instead of the Unix socket, for a daemon
on another machine."""
_URL = "nodemanager.url"
_WHOLE_URL = re.compile(r"https?://[^/\s]+", re.IGNORECASE)


def daemon_flags(command: click.decorators.FC) -> click.decorators.FC:
    """--config FILE and --url URL, for commands that talk to a daemon (`client`)."""

    def keep(context: click.Context, _: click.Parameter, url: str | None) -> None:
        if url is not None and _WHOLE_URL.match(url) is None:
            raise click.BadParameter(f"{url!r} is no address: write http://HOST:PORT")
        context.meta[_URL] = url

    option = click.option(
        "--url",
        metavar="URL",
        expose_value=False,
        callback=keep,
        envvar="NODEMANAGER_URL",
        help=URL_HELP,
    )
    return config_flag(option(command))


def answered(command: click.decorators.FC) -> click.decorators.FC:
    """The options of `daemon_flags`, and --json, for commands that print the daemon's answer."""
    return json_option(daemon_flags(command))


def client(config: str | None) -> Client:
    """A client of the daemon with that configuration file, or of the one at --url."""
    return client_of(reached(config))


def reached(config: str | None) -> Reach:
    """What leads to the daemon of that file; says on stderr that the file has mistakes."""
    from nodemanager.config import reach

    found = reach(config_path(config))
    if found.problems:
        click.echo(
            f"nodemanager: {found.path} has mistakes, which `nodemanager check-config` names; "
            "a daemon that runs has the settings from before",
            err=True,
        )
    return found


def client_of(found: Reach) -> Client:
    from nodemanager.commands.client import Client

    return Client(found, click.get_current_context().meta.get(_URL))
