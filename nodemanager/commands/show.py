"""The output of the commands: tables and colours on a terminal, plain aligned text in a pipe.

Texts from a cloud, a node or a user go through `visible`, so that they can't move the cursor or
imitate a line of ours.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from nodemanager.lib.logline import visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

PIPE_WIDTH = 10_000

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for machines.")


def console(*, stderr: bool = False) -> Console:
    """A console with the terminal's width and colours (unless NO_COLOR is set), or a plain one.

    In a pipe no line is wrapped or cut, whatever its length.
    """
    # Not at the top: a completion has no time for it.
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    if stream.isatty():
        return Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    return Console(
        stderr=stderr,
        highlight=False,
        markup=False,
        emoji=False,
        width=PIPE_WIDTH,
        force_terminal=False,
        no_color=True,
    )


def table(*headings: str, title: str | None = None, terminal: bool, right: str = "") -> Table:
    """A table for `say`: with rules on a terminal, only aligned columns in a pipe.

    `right` names the right-aligned columns, separated by commas.
    """
    from rich import box
    from rich.table import Table

    made = Table(
        title=title if terminal else None,
        title_justify="left",
        box=box.SIMPLE_HEAD if terminal else None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        collapse_padding=True,
    )
    # A column without a heading is none of them.
    numbers = {one.strip() for one in right.split(",")} - {""}
    for heading in headings:
        made.add_column(
            heading,
            justify="right" if heading in numbers else "left",
            overflow="fold",
            no_wrap=not terminal,
        )
    return made


def say(out: Console, thing: RenderableType) -> None:
    """Print; in a pipe, without trailing blanks."""
    if out.is_terminal:
        out.print(thing)
        return
    from rich.table import Table

    if isinstance(thing, Table) and thing.box is None:
        lines = _aligned(thing)
    else:
        with out.capture() as captured:
            out.print(thing)
        lines = iter(captured.get().splitlines())
    out.file.writelines(f"{line.rstrip()}\n" for line in lines)
    out.file.flush()


def _aligned(table: Table) -> Iterator[str]:
    """The lines of a table of texts for a pipe. Rich takes a minute for 100,000 of them."""
    from rich.cells import cell_len

    columns = []
    for one in table.columns:
        heading = (one.header,) if table.show_header else ()
        cells = [visible(str(cell)) for cell in (*heading, *one.cells)]
        lengths = [len(cell) if cell.isascii() else cell_len(cell) for cell in cells]
        width, right = max(lengths), one.justify == "right"
        pads = [" " * (width - length) for length in lengths]
        both = zip(cells, pads, strict=True)
        columns.append([pad + cell if right else cell + pad for cell, pad in both])
    return map("  ".join, zip(*columns, strict=True))


def cell(value: object, style: str = "") -> Text:
    """A value from elsewhere as text, with invisible characters escaped."""
    from rich.text import Text

    return Text(visible("" if value is None else str(value)), style=style)


def money(value: float) -> str:
    """Money with cents, and below one with more digits."""
    return f"{value:,.2f}" if abs(value) >= 1 else f"{value:.4f}" if value else "0"


def print_json(value: Any, *, a_line: bool = False) -> None:
    """Print `value` as ASCII-only JSON; `a_line` puts it on one line."""
    shown = json.dumps(
        value,
        indent=None if a_line else 2,
        separators=(",", ":") if a_line else None,
        allow_nan=False,
        default=str,
    )
    click.echo(shown)


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar where standard error is a terminal; call what it gives with each step."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    with Progress(
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console(stderr=True),
        transient=True,
    ) as bar:
        task = bar.add_task("", total=total)
        yield lambda taken: bar.advance(task, taken)
