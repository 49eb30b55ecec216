"""`nodemanager completion`, and the ids that it completes: from the journal, without a network."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import CompletionItem, get_completion_class

from nodemanager.commands.common import config_path, journal_of
from nodemanager.errors import NodeManagerError


def complete_id(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Uuids, hostnames, slots and nodes that begin with `incomplete`; empty on any error.

    A shell shows whatever we print in the middle of the user's input. So we print no error, and no
    name that could move the cursor (X9).
    """
    from nodemanager.config import reach
    from nodemanager.core.explain.lists import natural
    from nodemanager.journal.story import names_in

    try:
        journal = ctx.params.get("journal")
        config = ctx.params.get("config")
        path = Path(os.fspath(journal)) if journal else journal_of(reach(config_path(config)))
        known = names_in(path, incomplete)
    except (NodeManagerError, click.UsageError, OSError):
        return []
    return [CompletionItem(name) for name in sorted(known, key=natural) if name.isprintable()]


NAME = "nodemanager"
VARIABLE = "_NODEMANAGER_COMPLETE"
"""The variable by which a shell asks click for completions."""

SHELLS = ("bash", "zsh", "fish")


@click.command(
    epilog="\b\nExamples:\n"
    '  eval "$(nodemanager completion bash)"\n'
    "  nodemanager completion fish > ~/.config/fish/completions/nodemanager.fish"
)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that makes SHELL complete subcommands, options and reason codes.

    In bash or zsh, `eval` its output; do so in ~/.bashrc or ~/.zshrc to have it in every shell.
    """
    made = get_completion_class(shell)
    if made is None:
        raise click.UsageError(f"this version of click does not support {shell}")
    click.echo(made(ctx.find_root().command, {}, NAME, VARIABLE).source())
