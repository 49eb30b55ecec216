"""`nodemanager slurm-config`, and the two programs that Slurm's power saving runs."""

from __future__ import annotations

import sys

import click

from nodemanager.commands.common import config_flag, config_option, config_path, examples


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
    from nodemanager import adapters
    from nodemanager.commands.slurm_lines import lines, sizes
    from nodemanager.config import load

    loaded = load(config_path(config, file), accepts=adapters.accepted_keys)
    for line in lines(loaded, sizes(loaded)):
        click.echo(line)


def _program(command: str, when: str) -> click.Command:
    @click.command(command, context_settings={"ignore_unknown_options": True})
    @config_flag
    @click.argument("hostlist")
    def run(config: str | None, hostlist: str) -> None:
        from nodemanager import power_program

        given = [] if config is None else ["--config", config]
        sys.exit(power_program.main(command, [*given, hostlist]))

    run.help = f"""{when} Exits at once: 0 if the daemon has it, 1 if no daemon took it (its next
    poll of Slurm sees the same), 2 for wrong usage. Errors go to syslog, too."""
    return run


slurm_resume = _program("slurm-resume", "ResumeProgram: tell the daemon that Slurm wants nodes up.")
slurm_suspend = _program("slurm-suspend", "SuspendProgram: tell it that Slurm wants nodes down.")
