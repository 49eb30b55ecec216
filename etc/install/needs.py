"""needs.py FILE...: prints the extras that these configuration files need, one a line.

Runs before anything is installed, with the system's Python, in the source. A file that an operator
is still to fill in counts as needing all of its cloud's extra.
"""

from __future__ import annotations

import sys
from configparser import ConfigParser, Error
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from nodemanager.lib.extras import MODULES, needs


def needed_by(path: Path) -> set[str]:
    """The extras for one file; those of what can be read where it is no proper one."""
    file = ConfigParser(
        interpolation=None, strict=False, allow_no_value=True, inline_comment_prefixes=("#", ";")
    )
    try:
        file.read(path, encoding="utf-8")
    except (OSError, UnicodeDecodeError, Error) as error:
        print(f"{path} can't be read: {error}", file=sys.stderr)

    def value(section: str, option: str) -> str:
        for name in (option, f"{option}_file"):
            found = file.get(section, name, fallback=None)
            if found:
                # A URL in a file of its own: it is no default, so PostgreSQL's.
                return "postgresql" if name == "database_file" else found
        if (section, option) == ("Records", "provider") and value("Arvados", "host"):
            return "arvados"
        return ""

    found = {need.extra for need in needs(value)}
    return found | ({value("Cloud", "provider")} & MODULES.keys())


def main() -> int:
    extras: set[str] = {"uvloop"}
    for name in sys.argv[1:]:
        if Path(name).is_file():
            extras |= needed_by(Path(name))
    print("\n".join(sorted(extras)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
