"""`nodemanager completion`: prints the script for completion in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

NAME = "nodemanager"
VARIABLE = "_NODEMANAGER_COMPLETE"
"""The variable by which a shell asks click for completions."""

SHELLS = ("bash", "zsh", "fish")


@click.command(
    epilog='Examples: eval "$(nodemanager completion bash)"; '
    "nodemanager completion fish > ~/.config/fish/completions/nodemanager.fish"
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
