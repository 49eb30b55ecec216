"""`nodemanager completion`: the script that makes a shell complete this command's words."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

NAME = "nodemanager"
VARIABLE = "_NODEMANAGER_COMPLETE"
"""What click itself looks for when a shell asks."""

SHELLS = ("bash", "zsh", "fish")


@click.command(
    epilog='Examples: eval "$(nodemanager completion bash)"; '
    "nodemanager completion fish > ~/.config/fish/completions/nodemanager.fish"
)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script with which SHELL completes subcommands, options and reason codes.

    In bash or zsh `eval` it; put that into ~/.bashrc or ~/.zshrc to have it in every shell.
    """
    made = get_completion_class(shell)
    if made is None:
        raise click.UsageError(f"this version of click knows no {shell}")
    click.echo(made(ctx.find_root().command, {}, NAME, VARIABLE).source())
