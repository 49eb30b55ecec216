"""`python -m nodemanager` is the `nodemanager` command."""

import sys


def main() -> None:
    """Run the command; what slurmctld runs is spared the import of all others."""
    from nodemanager.commands import power_program

    if len(sys.argv) > 1 and sys.argv[1] in power_program.COMMANDS and "--help" not in sys.argv:
        sys.exit(power_program.main(sys.argv[1], sys.argv[2:]))
    from nodemanager.cli import main as run

    run()


if __name__ == "__main__":
    main()
