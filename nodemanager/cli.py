"""The `nodemanager` command: which subcommands there are. Only the one that is run is imported."""

from __future__ import annotations

import errno
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import click
from click.shell_completion import CompletionItem

from nodemanager import __version__
from nodemanager.core.operate.verbs import GROUPS, Verb
from nodemanager.errors import ConfigError, NodeManagerError
from nodemanager.lib.foreign import is_text
from nodemanager.lib.logline import visible

RUNTIME_FAILURE, USAGE = 1, 2
MOST_PROBLEMS = 200
"""Whoever has more has named another kind of file, of which each line is one."""


class Subcommand(NamedTuple):
    """A subcommand: its module in `nodemanager.commands`, its name there, and what it does.

    An operator's verb has no name there: it is in the module's COMMANDS. `does` stands in the list
    of the commands, where the command itself is not loaded yet.
    """

    module: str
    attribute: str
    does: str


SECTIONS: Mapping[str, Mapping[str, Subcommand]] = {
    "Look": {
        "status": Subcommand("status", "status", "Slots, nodes, polls, breaker and pending work."),
        "nodes": Subcommand("listing", "nodes", "Every node: state, age, reason."),
        "slots": Subcommand("listing", "slots", "Every held slot, and when it will be free."),
        "why": Subcommand("status", "why", "What keeps each size from growing or shrinking."),
        "jobs": Subcommand("listing", "jobs", "What each waiting job gets, or waits for."),
        "events": Subcommand("listing", "events", "What happened lately, in groups."),
        "explain": Subcommand("explain", "explain", "Why a node or record is left alone, or not."),
        "log": Subcommand("log", "log", "What was decided and done, from the journal."),
        "orders": Subcommand("listing", "orders", "Standing holds, drains, kills and the pause."),
        "verify": Subcommand("verify", "verify", "Is the pool at rest? For scripts."),
    },
    "Act": {
        **{verb.typed: Subcommand("operate", "", verb.row.does) for verb in Verb if verb.row.does},
        **{name: Subcommand("operate", "", does) for name, (does, _) in GROUPS.items()},
        "backlog": Subcommand("backlog", "backlog", "Review and free what leaked before us."),
    },
    "Tune": {
        "check-config": Subcommand("daemon", "check_config", "Find every problem of a file."),
        "check-cloud": Subcommand("check_cloud", "check_cloud", "Ask the cloud for all we need."),
        "init": Subcommand("init", "init", "Write a configuration file."),
        "slurm-config": Subcommand(
            "slurm_config", "slurm_config", "The lines that slurm.conf needs."
        ),
        "reload": Subcommand("operate", "reload", "Let the daemon read its file again."),
        "advise": Subcommand("advise", "advise", "What to do with every window that is set."),
        "cost": Subcommand("advise", "cost", "What the nodes cost, by cause, size and time."),
        "replay": Subcommand("replay", "replay", "What other settings would have done."),
    },
    "Run": {
        "run": Subcommand("daemon", "run", "The daemon, in the foreground."),
        "registry": Subcommand("daemon", "registry", "The record registry on its own."),
        "slurm-resume": Subcommand("slurm_config", "slurm_resume", "Slurm's ResumeProgram."),
        "slurm-suspend": Subcommand("slurm_config", "slurm_suspend", "Slurm's SuspendProgram."),
        "completion": Subcommand(
            "completion", "completion", "The script for completion in a shell."
        ),
    },
}
"""The subcommands, in the order of the help."""

ENTRIES: Mapping[str, Subcommand] = {
    name: entry for entries in SECTIONS.values() for name, entry in entries.items()
}


class _Group(click.Group):
    """Takes `nodemanager --config FILE`, as old unit files call it, for `run`.

    Shows the subcommands in sections, and completes their names, without importing them; each is
    imported when it is asked for.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*ENTRIES]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = ENTRIES.get(cmd_name)
        if entry is None:
            return None
        module = import_module(f"nodemanager.commands.{entry.module}")
        found: click.Command = (
            getattr(module, entry.attribute) if entry.attribute else module.COMMANDS[cmd_name]
        )
        return found

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        known = {*ENTRIES, "--help", "-h", "--version"}
        if args and not known & {args[0]} and (args[0].startswith("-") or Path(args[0]).is_file()):
            args = ["run", *args]
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        wide = max(map(len, ENTRIES))
        for section, entries in SECTIONS.items():
            with formatter.section(section):
                rows = [(name.ljust(wide), entry.does) for name, entry in entries.items()]
                formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [
            CompletionItem(name, help=entry.does)
            for name, entry in ENTRIES.items()
            if name.startswith(incomplete)
        ]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]


@click.group(
    cls=_Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="\b\nExamples:\n"
    "  nodemanager check-config --show /etc/nodemanager/ec2.cfg\n"
    "  nodemanager run --dry-run --config /etc/nodemanager/ec2.cfg\n"
    "  nodemanager explain compute7\n"
    "  nodemanager hold i-0abc --reason debugging\n\n"
    "`nodemanager COMMAND --help` has the options and examples of each.",
)
@click.version_option(__version__, prog_name="nodemanager")
def group() -> None:
    """Keeps a cluster's cloud nodes and their records in step and never frees a live node's
    record."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command; print each error as one clear line and exit with its code.

    Escapes control characters in errors: a quoted name may hold some that move a terminal's
    cursor (X9).
    """
    for given in sys.argv[1:] if argv is None else argv:
        if not is_text(given):
            said = f"nodemanager: {visible(given)} is not UTF-8: set the terminal to it"
            click.echo(said, err=True)
            sys.exit(USAGE)
    try:
        group.main(args=None if argv is None else list(argv), prog_name="nodemanager")
    except ConfigError as error:
        for problem in error.problems[:MOST_PROBLEMS]:
            click.echo(visible(problem), err=True)
        more = len(error.problems) - MOST_PROBLEMS
        if more > 0:
            click.echo(f"and {more} problems more: is this a configuration file?", err=True)
        sys.exit(USAGE)
    except NodeManagerError as error:
        for line in getattr(error, "problems", (str(error),)):
            click.echo(f"nodemanager: {visible(line)}", err=True)
        sys.exit(RUNTIME_FAILURE)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        # On a bad night the answer goes to a file on the disk that is full.
        click.echo(f"nodemanager: can't write the answer: {error.strerror}", err=True)
        sys.exit(RUNTIME_FAILURE)


if __name__ == "__main__":
    main()
