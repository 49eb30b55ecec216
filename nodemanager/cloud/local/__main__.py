"""`python -m nodemanager.cloud.local sweep DIR` ends every node of a state directory.

For a demo or an installation that is over.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TextIO

from nodemanager.cloud.local.state import NODES, StateDir


def sweep(directory: Path) -> int:
    """End every node process of a state directory and print which; gives the exit code.

    The code is 1 when a process did not end. Ends a process only when its pid and start time are
    the node's, so never a stranger's.
    """
    if not (directory / NODES).is_dir():
        _say(f"no local cloud in {directory}")
        return 0
    state = StateDir(directory)
    ended = left = 0
    for entry in (*state.all(), *state.attempts()):
        process = entry.process()
        if process is None or not process.alive:
            continue
        try:
            name = str(entry.meta().get("name"))
        except (OSError, ValueError):
            name = "?"
        if process.end():
            ended += 1
            _say(f"ended node {entry.id} ({name}), pid {process.pid}")
        else:
            left += 1
            _say(f"node {entry.id} ({name}), pid {process.pid}, does not end", sys.stderr)
    if not ended and not left:
        _say(f"no node was running in {directory}")
    return 1 if left else 0


def _say(text: str, to: TextIO | None = None) -> None:
    """Print a line. A closed pipe is no error: the remaining nodes must still be ended."""
    stream = to or sys.stdout
    try:
        print(text, file=stream, flush=True)
    except BrokenPipeError:
        # Otherwise Python would write again at its exit, and fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def main(arguments: list[str]) -> int:
    if len(arguments) != 2 or arguments[0] != "sweep":
        print("usage: python -m nodemanager.cloud.local sweep DIRECTORY", file=sys.stderr)
        return 2
    return sweep(Path(arguments[1]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
