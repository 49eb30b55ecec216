"""Show what commands say about the recorded incident: python doc/screens.py

Each is run on doc/incident/journal.db.xz, unpacked to journal.db: in a pipe, for
doc/incident/NAME.txt, and some on a terminal of their own, drawn as doc/incident/NAME.svg. Run it
again when what a command says has changed.
"""

from __future__ import annotations

import io
import lzma
import os
import pty
import re
import subprocess
import sys
import tempfile
from datetime import datetime, timedelta
from pathlib import Path

from rich.console import Console
from rich.text import Text

HERE = Path(__file__).parent
INCIDENT = HERE / "incident"
WIDTH = 110
_AGO = re.compile(r" \([^()\n]* ago\)")
PROGRAM = "nodemanager"
JOURNAL = "journal.db"

WINDOWS = [f"--node-stale-after={value}" for value in ("30s", "45s", "90s")]


def truth(what: str, number: int = 0) -> tuple[str, datetime]:
    """Who met that fate, as the `number`th from 0, and when, by the incident's truth.txt."""
    day = (INCIDENT / "incident.log").read_text(encoding="utf-8")[3:13]
    told = (INCIDENT / "truth.txt").read_text(encoding="utf-8").splitlines()
    line = [line for line in told if what in line][number]
    return line[18:].split(" ")[0], datetime.fromisoformat(f"{day}T{line[:8]}+00:00")


def after(at: datetime, seconds: float) -> str:
    return (at + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def screens() -> dict[str, list[str]]:
    """What is run, by its name."""
    cut_off, frozen_at = truth("freezes")
    waited, _ = truth("is killed", 3)
    _, short_at = truth("nodes only")
    amid_silence, amid_breaker = after(frozen_at, 31), after(short_at, 6)
    return {
        "log-killed": ["log", waited, "--journal", JOURNAL],
        "explain-cut-off": ["explain", cut_off, "--journal", JOURNAL, "--at", amid_silence],
        "explain-breaker": ["explain", waited, "--journal", JOURNAL, "--at", amid_breaker],
        "replay": ["replay", JOURNAL],
        "replay-windows": ["replay", JOURNAL, *WINDOWS],
        "advise": ["advise", JOURNAL],
        "cost": ["cost", JOURNAL],
        "replay-sweep": ["replay", JOURNAL, "--sweep", "node_stale_after=20s..4m"],
    }


SCREENS = screens()
DRAWN = ("log-killed", "explain-cut-off", "replay-sweep", "advise")
"""Where the colours say something, or there is a chart."""


def on_a_terminal(command: list[str], cwd: Path) -> str:
    """What a terminal of WIDTH columns gets of it, colours and all."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(WIDTH), "LINES": "60", "TERM": "xterm-256color"}
    environment |= {"TZ": "UTC"}
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.DEVNULL, cwd=cwd,
        env=environment,
    ) as process:  # fmt: skip
        os.close(theirs)
        shown = b""
        while True:
            try:
                new = os.read(ours, 65536)
            except OSError:
                break  # Linux' word for: nobody has the other end any more.
            if not new:
                break
            shown += new
    os.close(ours)
    if process.returncode:
        sys.exit(f"{' '.join(command)}: exit code {process.returncode}")
    return shown.decode().replace("\r\n", "\n")


def in_a_pipe(command: list[str], cwd: Path) -> str:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        cwd=cwd,
        env={**os.environ, "TZ": "UTC"},
        check=True,
        text=True,
    )
    return done.stdout


def decision(shown: str, title: str) -> str:
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    shown = _AGO.sub("", shown).rstrip("\n")
    console.print(Text.from_ansi(shown), highlight=False)
    # Without the web fonts that the template would fetch: a document asks nobody for anything.
    svg = re.sub(r"\s*@font-face {.*?}", "", console.export_svg(title=title), flags=re.DOTALL)
    return _LEADING.sub(_moved, svg).replace("Fira Code,", "")


CELL = 12.2
"""How wide a letter is in rich's pictures."""
_LEADING = re.compile(r' x="([\d.]+)" (y="[\d.]+") textLength="([\d.]+)"([^>]*)>((?:&#160;)+)')


def _moved(found: re.Match[str]) -> str:
    """Begin a text where its first letter is: not every program draws the blanks before it."""
    x, y, length, more, blanks = found.groups()
    by = CELL * blanks.count(";")
    return f' x="{float(x) + by:.1f}" {y} textLength="{float(length) - by:.1f}"{more}>'


def command_of(name: str) -> list[str]:
    return [sys.executable, "-m", PROGRAM, *SCREENS[name]]


def unpack(home: Path) -> None:
    """The journal, where the commands look for it."""
    (home / JOURNAL).write_bytes(lzma.decompress((INCIDENT / f"{JOURNAL}.xz").read_bytes()))


def plain(name: str, said: str) -> str:
    """The content of NAME.txt, by what the command said in a pipe."""
    # How long ago that was is another matter each day.
    return f"$ {' '.join((PROGRAM, *SCREENS[name]))}\n{_AGO.sub('', said)}"


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="nodemanager-screens-") as directory:
        home = Path(directory)
        unpack(home)
        for name, arguments in SCREENS.items():
            told = " ".join((PROGRAM, *arguments))
            text = plain(name, in_a_pipe(command_of(name), home))
            (INCIDENT / f"{name}.txt").write_text(text, encoding="utf-8")
            if name in DRAWN:
                svg = decision(on_a_terminal(command_of(name), home), told)
                (INCIDENT / f"{name}.svg").write_text(svg, encoding="utf-8")
            print(f"{name}: {told}")


if __name__ == "__main__":
    main()
