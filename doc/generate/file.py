"""Writes a generated page into the file that the command line names."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path


def write_page(page: Callable[[], str], module: str, arguments: Sequence[str]) -> int:
    """Write the page; 0, or 2 with the usage of `module` where not just one file is named."""
    if len(arguments) != 1:
        print(f"usage: python -m {module} FILE", file=sys.stderr)
        return 2
    Path(arguments[0]).write_text(page(), encoding="utf-8")
    return 0
