"""`nodemanager run`, `check-config` and `registry`: start a daemon, and check its file."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from nodemanager.commands.common import config_option, config_path, examples
from nodemanager.lib.logline import visible

if TYPE_CHECKING:
    from nodemanager.config import Config


@click.command(
    epilog=examples(
        "run --config /etc/nodemanager/ec2.cfg",
        "run --dry-run --config /etc/nodemanager/ec2.cfg",
        "run --once --config /etc/nodemanager/ec2.cfg",
    )
)
@config_option
@click.option("--dry-run", is_flag=True, help="Decide as usual, but write nothing anywhere.")
@click.option("--once", is_flag=True, help="Apply one plan, wait for its outcomes, and end.")
@click.option("--foreground", is_flag=True, hidden=True, help="Accepted for old unit files.")
def run(config: str | None, file: str | None, dry_run: bool, once: bool, foreground: bool) -> None:
    """Run the daemon, in the foreground.

    SIGTERM stops it cleanly, SIGHUP re-reads the file, SIGUSR1 logs threads and mailboxes.
    """
    from nodemanager.lib.memory import uncollected

    with uncollected():
        from nodemanager.app import adapters, daemon
        from nodemanager.config import load

        loaded = load(config_path(config, file), accepts=adapters.accepted_keys)
        sys.exit(daemon.run(loaded, dry_run=dry_run, once=once))


@click.command(
    "check-config",
    epilog=examples(
        "check-config /etc/nodemanager/ec2.cfg",
        "check-config --show /etc/nodemanager/ec2.cfg",
    ),
)
@config_option
@click.option(
    "--show", "show_all", is_flag=True, help="Print each effective setting and its origin."
)
def check_config(config: str | None, file: str | None, show_all: bool) -> None:
    """Check a configuration file: exit 0, or 2 with every problem found.

    A file with a [Registry] and no [Cloud] is checked for `nodemanager registry`.
    """
    from nodemanager.app.check import check

    checked, warnings = check(config_path(config, file))
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


@click.command(epilog=examples("registry --config /etc/nodemanager/registry.cfg"))
@config_option
def registry(config: str | None, file: str | None) -> None:
    """Serve the record registry on its own, for daemons and nodes elsewhere."""
    from nodemanager.lib.memory import uncollected

    with uncollected():
        from nodemanager.app.registry import serve_registry
        from nodemanager.config import load

    loaded = load(config_path(config, file), require_cloud=False)
    sys.exit(serve_registry(loaded))


def _print_settings(config: Config) -> None:
    """Print a table on a terminal, `[Section] option = value  # origin` lines in a pipe."""
    from nodemanager.config import show

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
