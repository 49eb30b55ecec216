"""The commands that the manual's pages show, in blocks and in sentences."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from doc.generate import events
from nodemanager.cli import group

TREE = Path(__file__).parents[1]
PAGES = [*sorted((TREE / "doc").rglob("*.rst")), TREE / "README.rst"]
COMMAND = re.compile(r"^\s+(?:\$ |# )?(?:sudo )?(?:[A-Z_]+=\S+ )*(?:\S*/)?nodemanager ([a-z-].*)$")
INLINE = re.compile(r"``(?:sudo )?nodemanager ([a-z][^`]*)``")
SYNOPSIS = re.compile(r"[\[\]]|\.\.\.|^\S+\|")
INNER = re.compile(r"\$\(nodemanager ([^)]*)\)")


@dataclass(frozen=True)
class Shown:
    """A command as a page shows it, without the program's name."""

    page: str
    line: int
    text: str

    @property
    def synopsis(self) -> bool:
        """Whether it only says what may be given."""
        return SYNOPSIS.search(self.text) is not None

    @property
    def words(self) -> list[str]:
        return shlex.split(self.text, comments=True)

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: nodemanager {self.text}"


def block_commands() -> Iterator[Shown]:
    """Those on lines of their own, in the order of the pages; of a pipe the first."""
    for page in PAGES:
        lines = page.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines, start=1):
            found = COMMAND.match(line)
            if found is None:
                continue
            text, at = found[1], number
            while text.endswith("\\"):
                text = f"{text[:-1].rstrip()} {lines[at].strip()}"
                at += 1
            for inner in INNER.findall(text):
                yield Shown(page.name, number, inner)
            text = INNER.sub("ID", text)
            yield Shown(page.name, number, first_of(text))


def first_of(text: str) -> str:
    """The first command of a shell's line, without what becomes of its output."""
    parser = shlex.shlex(text, posix=False, punctuation_chars=";|&<>")
    parser.whitespace_split = True
    kept = []
    for token in parser:
        if token[0] in ";|&<>" and SYNOPSIS.search(text.split(" | ")[0]) is None:
            break
        kept.append(token)
    return " ".join(kept)


def inline_commands() -> Iterator[Shown]:
    """Those in sentences, also of reasons and events; a line's end is a space."""
    texts = [(page.name, page.read_text(encoding="utf-8")) for page in PAGES]
    for name, text in (*texts, ("events", events.tables())):
        for found in INLINE.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            yield Shown(name, line, " ".join(found[1].split()))


def resolved(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that the first words name, and the others. Raises KeyError for an unknown one."""
    at: click.Command = group
    left = list(words)
    while isinstance(at, click.Group) and left and not left[0].startswith("-"):
        # Of alternatives in a synopsis the first.
        name = left.pop(0).partition("|")[0]
        found = at.get_command(click.Context(at), name)
        if found is None:
            raise KeyError(f"no command {name!r}")
        at = found
    return at, left


def unknown_options(words: list[str]) -> set[str]:
    """The options among the words that the command does not have."""
    command, left = resolved(words)
    known = {one for each in command.params for one in (*each.opts, *each.secondary_opts)}
    known |= {"--help", "--config", "-c"}
    given = {
        word.strip("[]").partition("=")[0] for word in left if word.strip("[").startswith("--")
    }
    return given - known
