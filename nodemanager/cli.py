"""The `nodemanager` command."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from nodemanager import __version__
from nodemanager.commands import (
    backlog,
    check_cloud,
    completion,
    explain,
    init,
    listing,
    log,
    operate,
    replay,
    slurm_config,
    status,
    verify,
)
from nodemanager.commands.common import config_option, config_path
from nodemanager.config import Config, load, show
from nodemanager.errors import ConfigError, NodeManagerError
from nodemanager.logline import visible

RUNTIME_FAILURE, USAGE = 1, 2


class _Group(click.Group):
    """Takes `nodemanager --config FILE`, as old unit files call it, for `run`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        known = set(self.commands) | {"--help", "-h", "--version"}
        if args and not known & {args[0]} and (args[0].startswith("-") or Path(args[0]).is_file()):
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(
    cls=_Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Examples: nodemanager check-config --show /etc/nodemanager/ec2.cfg; "
    "nodemanager run --dry-run --config /etc/nodemanager/ec2.cfg; "
    "nodemanager hold i-0abc --reason 'debugging'",
)
@click.version_option(__version__, prog_name="nodemanager")
def group() -> None:
    """Keeps a cluster's cloud nodes and their records in step and never frees a live node's
    record."""


@group.command()
@config_option
@click.option("--dry-run", is_flag=True, help="Decide as usual, but write nothing anywhere.")
@click.option("--once", is_flag=True, help="Apply one plan, wait for its outcomes, and end.")
@click.option("--foreground", is_flag=True, hidden=True, help="Accepted for old unit files.")
def run(config: str | None, file: str | None, dry_run: bool, once: bool, foreground: bool) -> None:
    """Run the daemon, in the foreground.

    SIGTERM stops it cleanly, SIGHUP re-reads the file, SIGUSR1 logs threads and mailboxes.
    """
    from nodemanager import service, wiring

    loaded = load(config_path(config, file), accepts=wiring.accepted_keys)
    sys.exit(service.run(loaded, dry_run=dry_run, once=once))


@group.command("check-config")
@config_option
@click.option(
    "--show", "show_all", is_flag=True, help="Print each effective setting and its origin."
)
def check_config(config: str | None, file: str | None, show_all: bool) -> None:
    """Check a configuration file: exit 0, or 2 with every problem found.

    A file with a [Registry] and no [Cloud] is checked for `nodemanager registry`.
    """
    from nodemanager import service

    checked, warnings = service.check(config_path(config, file))
    for warning in warnings:
        click.echo(f"warning: {visible(str(warning))}", err=True)
    if show_all:
        _print_settings(checked)
    elif checked.cloud.provider:
        click.echo(f"{checked.path}: fine; it serves pool {checked.daemon.pool}")
    else:
        click.echo(
            f"{checked.path}: fine for `nodemanager registry`, on {checked.registry.listen}; "
            "a daemon needs [Cloud] provider, too"
        )


@group.command()
@config_option
def registry(config: str | None, file: str | None) -> None:
    """Serve the record registry on its own, for daemons and nodes elsewhere."""
    from nodemanager import service

    loaded = load(config_path(config, file), require_cloud=False)
    sys.exit(service.serve_registry(loaded))


for _command in (
    check_cloud.check_cloud,
    init.init,
    backlog.backlog,
    *operate.COMMANDS,
    replay.replay,
    status.status,
    listing.nodes,
    listing.slots,
    explain.explain,
    log.log,
    verify.verify,
    slurm_config.slurm_config,
    slurm_config.slurm_resume,
    slurm_config.slurm_suspend,
    completion.completion,
):
    group.add_command(_command)


def _print_settings(config: Config) -> None:
    """Print a table on a terminal, `[Section] option = value  # origin` lines in a pipe."""
    rows = show(config)
    if not sys.stdout.isatty():
        for row in rows:
            click.echo(visible(f"[{row.section}] {row.option} = {row.value}  # {row.origin}"))
        return
    from rich.console import Console
    from rich.table import Table

    from nodemanager.commands.show import cell

    table = Table(title=f"{config.path}: pool {config.daemon.pool}", title_justify="left")
    for heading in ("section", "option", "value", "from"):
        table.add_column(heading, overflow="fold")
    section = None
    for row in rows:
        if section is not None and row.section != section:
            table.add_section()
        shown = row.section if row.section != section else ""
        table.add_row(*(cell(one) for one in (shown, row.option, row.value, row.origin)))
        section = row.section
    Console().print(table)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command; print each error as one clear line and exit with its code.

    Escapes control characters in errors: a quoted name may hold some that move a terminal's
    cursor (X9).
    """
    try:
        group.main(args=None if argv is None else list(argv), prog_name="nodemanager")
    except ConfigError as error:
        for problem in error.problems:
            click.echo(visible(problem), err=True)
        sys.exit(USAGE)
    except NodeManagerError as error:
        for line in getattr(error, "problems", (str(error),)):
            click.echo(f"nodemanager: {visible(line)}", err=True)
        sys.exit(RUNTIME_FAILURE)


if __name__ == "__main__":
    main()
