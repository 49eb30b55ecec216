"""The parser of INI files: sections and options with their lines, and every format error.

configparser does the reading, but gives no line numbers and stops at some errors. So the two hooks
that it calls for a section header and for an option's name note the current line.

`%` is an ordinary character. A `#` or `;` after white space begins a comment in every section; a
value that contains such a sequence must go into a file of its own (NAME_file). Comments are taken
out here, because configparser does not tell where it cut a value.
"""

from __future__ import annotations

import codecs
import configparser
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nodemanager.errors import ConfigError

_TOP = "\0top"
_MARK = "\0"
_COMMENT = re.compile(r"(?:^|(?<=\s))[#;].*", re.DOTALL)
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)
_WIDE_NULS = 4
"""Text with at least one NUL in this many bytes is UTF-16 or UTF-32 without a mark."""


@dataclass(frozen=True, slots=True)
class IniOption:
    """One `name = value`, as written; `comment` is the first one on its lines, or empty."""

    line: int
    name: str
    value: str
    comment: str = ""

    @property
    def cut(self) -> bool:
        """Whether what may have been meant as the value is a comment, as in `token = #abc`."""
        return not self.value and self.comment != "" and not self.comment[1:2].isspace()


@dataclass(slots=True)
class IniFile:
    """The content of one file.

    `sections` keep the file's order; `lines` has the line of each section's first header.
    `problems` are (line, text), such as for a repeated section.
    """

    path: Path
    sections: dict[str, list[IniOption]]
    lines: dict[str, int]
    problems: list[tuple[int, str]]


class _Feed:
    """The lines for configparser, without comments; `at` is the number of the last one it took.

    `comments` has the comment of each line that has one behind something else.
    """

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self.at = 0
        self.comments: dict[int, str] = {}

    def __iter__(self) -> Iterator[str]:
        yield f"[{_TOP}]\n"
        for at, line in enumerate(self._lines, start=1):
            self.at = at
            found = _COMMENT.search(line)
            if found is None:
                yield line
                continue
            if line[: found.start()].strip():
                self.comments[at] = found[0].rstrip("\r\n")
            yield line[: found.start()] + "\n"

    def comment(self, entry: int, value: str) -> str:
        """The first comment on the lines of the value that begins at line `entry`."""
        lines = range(entry, entry + value.count("\n") + 1)
        return next((self.comments[at] for at in lines if at in self.comments), "")


class _Headers:
    """Replaces configparser's header pattern and makes every header a section of its own."""

    def __init__(self, feed: _Feed) -> None:
        self._feed = feed
        self.problems: list[tuple[int, str]] = []

    def match(self, text: str) -> re.Match[str] | None:
        found = configparser.ConfigParser.SECTCRE.match(text)
        if found is None or found["header"] == _TOP:
            return found
        if found.end() < len(text):
            self.problems.append((self._feed.at, f"text after {found[0]}"))
        marked = f"[{self._feed.at}{_MARK}{found['header'].strip()}]"
        return configparser.ConfigParser.SECTCRE.match(marked)


class _Parser(configparser.RawConfigParser):
    # A name may contain a colon, as in `tag:NAME = VALUE`; `name: value` still works.
    OPTCRE = re.compile(r"(?P<option>.*?)\s*(?:(?P<vi>=|:(?=\s|$|[^=]*$))\s*(?P<value>.*))$")

    def __init__(self, feed: _Feed, headers: _Headers) -> None:
        super().__init__(
            strict=False,
            default_section=_MARK,
            empty_lines_in_values=False,
            interpolation=None,
        )
        self._feed = feed
        # configparser only calls its `match`, which _Headers has; typeshed wants a pattern.
        self.SECTCRE = headers  # type: ignore[assignment]

    def optionxform(self, optionstr: str) -> str:
        return f"{self._feed.at}{_MARK}{optionstr}"


def read(path: Path) -> IniFile:
    """The file's content. Raises ConfigError where the file as a whole can't be read as text."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigError([f"{path}: can't be read: {error.strerror}"]) from error
    if raw.startswith(_WIDE) or (raw and raw.count(0) * _WIDE_NULS >= len(raw)):
        raise ConfigError([f"{path}:1: is UTF-16 or UTF-32 text; save it as UTF-8"])
    if b"\r" in raw and b"\n" not in raw:
        raise ConfigError(
            [
                f"{path}:1: its lines end in carriage returns alone, so it is all one line; "
                "save it with line feeds"
            ]
        )
    problems: list[tuple[int, str]] = []
    lines = [
        _decoded(at, line, problems)
        for at, line in enumerate(raw.removeprefix(codecs.BOM_UTF8).split(b"\n"), start=1)
    ]
    return _parse(path, lines, problems)


def _decoded(at: int, line: bytes, problems: list[tuple[int, str]]) -> str:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        text = line.decode("utf-8", "replace")
        problems.append((at, f"byte 0x{line[error.start]:02x} is not UTF-8"))
    if "\0" in text:
        text = text.replace("\0", "?")
        problems.append((at, "a NUL byte"))
    if "\r" in text.rstrip("\r"):
        problems.append((at, "a carriage return inside the line"))
    return f"{text}\n"


def _parse(path: Path, lines: list[str], problems: list[tuple[int, str]]) -> IniFile:
    feed = _Feed(lines)
    headers = _Headers(feed)
    parser = _Parser(feed, headers)
    try:
        parser.read_file(feed, str(path))
    except configparser.ParsingError as error:
        problems += [
            (line - 1, "neither a [Section], nor NAME = VALUE, nor a comment")
            for line, _ in error.errors
        ]
    problems += headers.problems
    found = IniFile(path, {}, {}, problems)
    for marked in parser.sections():
        if marked == _TOP:
            problems += [
                (entry.line, f"{_head(entry.name)}: an option before the first [Section]")
                for entry in _entries(parser, marked, feed)
            ]
            continue
        at, name = _unmark(marked)
        if name in found.sections:
            problems.append((at, f"[{name}]: this section is already at line {found.lines[name]}"))
        else:
            found.sections[name] = []
            found.lines[name] = at
        # The options of a repeated section join those of the first, so that this run reports
        # their problems, too.
        found.sections[name] += _entries(parser, marked, feed)
    return found


def _entries(parser: _Parser, section: str, feed: _Feed) -> list[IniOption]:
    entries = []
    for marked, value in parser.items(section, raw=True):
        at, name = _unmark(marked)
        if name:
            entries.append(IniOption(at, name, value, feed.comment(at, value)))
    return entries


def _head(name: str) -> str:
    """The name without what follows a colon: in `token:abc==` that is part of the value."""
    return name.partition(":")[0]


def _unmark(marked: str) -> tuple[int, str]:
    at, _, name = marked.partition(_MARK)
    return int(at), name
