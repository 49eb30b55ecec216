"""`python -m nodemanager.cloud.local sweep DIR` ends every node of a state directory."""

from __future__ import annotations

import sys
from pathlib import Path

from nodemanager.cloud.local.sweep import sweep


def main(arguments: list[str]) -> int:
    if len(arguments) != 2 or arguments[0] != "sweep":
        print("usage: python -m nodemanager.cloud.local sweep DIRECTORY", file=sys.stderr)
        return 2
    return sweep(Path(arguments[1]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
