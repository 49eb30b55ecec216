"""The parser of INI files: sections and options with their lines, and every format error.

configparser does the reading, but gives no line numbers and stops at some errors. So the two hooks
that it calls for a section header and for an option's name note the current line.

`%` is an ordinary character. A `#` or `;` after white space begins a comment in every section; a
value that contains such a sequence must go into a file of its own (NAME_file).
"""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nodemanager.errors import ConfigError

_TOP = "\0top"
_MARK = "\0"
_LOST_VALUE = re.compile(r"^[^=:]*[=:]\s+[#;]\S")


@dataclass(frozen=True, slots=True)
class Entry:
    """One `name = value`, as written; `cut` when a comment begins right after the `=`."""

    line: int
    name: str
    value: str
    cut: bool = False


@dataclass(slots=True)
class IniFile:
    """The content of one file.

    `sections` keep the file's order; `lines` has the line of each section's first header.
    `problems` are (line, text), such as for a repeated section.
    """

    path: Path
    sections: dict[str, list[Entry]]
    lines: dict[str, int]
    problems: list[tuple[int, str]]


class _Feed:
    """The lines for configparser; `at` is the number of the last one that it took."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self.at = 0

    def __iter__(self) -> Iterator[str]:
        yield f"[{_TOP}]\n"
        for at, line in enumerate(self._lines, start=1):
            self.at = at
            yield line


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
            inline_comment_prefixes=("#", ";"),
            empty_lines_in_values=False,
            interpolation=None,
        )
        self._feed = feed
        # configparser only calls its `match`, which _Headers has; typeshed wants a pattern.
        self.SECTCRE = headers  # type: ignore[assignment]

    def optionxform(self, optionstr: str) -> str:
        return f"{self._feed.at}{_MARK}{optionstr}"


def read(path: Path) -> IniFile:
    """The file's content. Raises ConfigError only when the file can't be read at all."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigError([f"{path}: can't be read: {error.strerror}"]) from error
    problems: list[tuple[int, str]] = []
    lines = []
    for at, line in enumerate(raw.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            text = line.decode("utf-8", "replace")
            problems.append((at, f"byte 0x{line[error.start]:02x} is not UTF-8"))
        if "\0" in text:
            text = text.replace("\0", "?")
            problems.append((at, "a NUL byte"))
        lines.append(f"{text}\n")
    return _parse(path, lines, problems)


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
                (entry.line, f"{entry.name}: an option before the first [Section]")
                for entry in _entries(parser, marked, lines)
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
        found.sections[name] += _entries(parser, marked, lines)
    return found


def _entries(parser: _Parser, section: str, lines: list[str]) -> list[Entry]:
    entries = []
    for marked, value in parser.items(section, raw=True):
        at, name = _unmark(marked)
        if name:
            cut = not value and _LOST_VALUE.match(lines[at - 1]) is not None
            entries.append(Entry(at, name, value, cut))
    return entries


def _unmark(marked: str) -> tuple[int, str]:
    at, _, name = marked.partition(_MARK)
    return int(at), name
