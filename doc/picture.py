"""Draw doc/demo.svg from the log of a `make run`: python doc/picture.py LOG [SVG].

    make run 2>&1 | tee run.log        # Ctrl-C after two minutes
    .venv/bin/python doc/picture.py run.log

Only lines that the log really has are drawn; shown are those of the demo's story, without ids
that say nothing to a reader.
"""

from __future__ import annotations

import io
import re
import shlex
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

STORY = (
    "daemon.started",
    "node.setup_started",
    "node.created",
    "node.paired",
    "node.unpaired",
    "record.keep",
    "slots.full",
    "record.clean",
    "record.cleaned",
)
KEYS = (
    "reason",
    "pool",
    "node_stale_after_s",
    "node",
    "slot",
    "host",
    "idle_s",
    "window_s",
    "absent_listings",
    "absent_s",
    "settle_s",
    "held_by",
    "free_in_s",
    "guarantee",
)
COLOURS = {"record.clean": "bold red", "record.cleaned": "bold green", "record.keep": "yellow"}
WIDTH = 146


def short(value: str) -> str:
    return re.sub(r"^(local-.{4}).*", r"\1", value)


def lines(log: str) -> list[Text]:
    drawn = []
    busy = False
    for line in log.splitlines():
        if not line.startswith("ts="):
            continue
        fields = dict(word.split("=", 1) for word in shlex.split(line))
        event, reason = fields["event"], fields.get("reason")
        taking_work = event == "node.keep" and reason == "busy" and not busy
        if event not in STORY and not taking_work:
            continue
        if event == "record.keep" and reason not in ("within_window", "not_settled"):
            continue
        busy = busy or taking_work
        text = Text(fields["ts"][11:19] + " ", style="dim")
        text.append(f"{event:<19}", style=COLOURS.get(event, "bold cyan"))
        told = [f"{key}={short(fields[key])}" for key in KEYS if key in fields]
        text.append(" ".join(told))
        drawn.append(text)
    return drawn


def main() -> None:
    log = Path(sys.argv[1]).read_text(encoding="utf-8")
    target = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(__file__).parent / "demo.svg"
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    for text in lines(log):
        console.print(text, no_wrap=True, overflow="ellipsis", highlight=False)
    # Without the web fonts that the template would fetch: a document asks nobody for anything.
    svg = re.sub(r"\s*@font-face {.*?}", "", console.export_svg(title="make run"), flags=re.DOTALL)
    target.write_text(svg.replace("Fira Code,", ""), encoding="utf-8")


if __name__ == "__main__":
    main()
