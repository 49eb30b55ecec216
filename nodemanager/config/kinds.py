"""The kinds of option values: how each is parsed, shown and described.

A `parse` raises ValueError with the end of the sentence `[Section] option = value: ...`.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Generic, TypeVar
from urllib.parse import urlsplit

from nodemanager.config.values import Listen, LogLevel, Secret, ServerAddress
from nodemanager.core.model.features import Gres, gres_of, shown_gres
from nodemanager.lib.near import did_you_mean
from nodemanager.lib.redact import MASK

T = TypeVar("T")
Choice = TypeVar("Choice", bound=StrEnum)

UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
LONGEST_S = 3650 * 86400.0
_DECIMAL = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
_DURATION = re.compile(rf"({_DECIMAL})\s*([smhd]?)", re.ASCII | re.IGNORECASE)
_SIZE = re.compile(r"(\d+)\s*([KMG]?)", re.ASCII | re.IGNORECASE)
_WHOLE = re.compile(r"[-+]?\d+", re.ASCII)
_NUMBER = re.compile(_DECIMAL, re.ASCII | re.IGNORECASE)
_POOL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII | re.IGNORECASE)
_PATTERN = re.compile(r"[^%]*%\(slot_number\)\d{0,2}d[^%]*", re.ASCII)
_NAME = re.compile(r"[^\s,&|()\[\]*]+")
_YES = frozenset({"yes", "on", "true", "1"})
_NO = frozenset({"no", "off", "false", "0"})


@dataclass(frozen=True, slots=True)
class ValueKind(Generic[T]):
    """A kind of value: its name in the docs, its parser, and the function that writes it again."""

    doc: str
    parse: Callable[[str], T]
    show: Callable[[T], str] = str
    secret: bool = False
    multiline: bool = False


def duration(*, longest: float | None = LONGEST_S) -> ValueKind[float]:
    """Seconds, above zero and finite (S2)."""

    def parse(text: str) -> float:
        match = _DURATION.fullmatch(text)
        if match is None:
            raise ValueError("not a duration; write seconds, or 30m, 2h, 1d")
        seconds = float(match[1]) * UNITS[match[2].lower()]
        if not math.isfinite(seconds):
            raise ValueError("a duration must be finite")
        if seconds <= 0:
            raise ValueError("a duration must be above zero")
        if longest is not None and seconds > longest:
            raise ValueError(f"longer than {show_number(longest)} s (ten years)")
        return seconds

    return ValueKind("duration", parse, show_number)


def whole(least: int, most: int | None = None, unit: str = "") -> ValueKind[int]:
    """A whole number from `least` to `most`; `unit` is for the docs."""
    of = f" of {unit}" if unit else ""
    upper = "or more" if most is None else f"to {most}"

    def parse(text: str) -> int:
        if _WHOLE.fullmatch(text) is None:
            raise ValueError("not a whole number")
        value = int(text)
        if value < least:
            raise ValueError(f"must be at least {least}")
        if most is not None and value > most:
            raise ValueError(f"must be at most {most}")
        return value

    return ValueKind(f"whole number{of}, {least} {upper}", parse)


def number(
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
    unit: str = "",
) -> ValueKind[float]:
    """A finite decimal number; `above` and `below` exclude the bound itself."""
    limits = [
        f"{word} {bound:g}"
        for word, bound in (
            ("at least", least),
            ("above", above),
            ("at most", most),
            ("below", below),
        )
        if bound is not None
    ]

    def parse(text: str) -> float:
        if _NUMBER.fullmatch(text) is None:
            raise ValueError("not a number")
        value = float(text)
        if not math.isfinite(value):
            raise ValueError("must be finite")
        if (
            (least is not None and value < least)
            or (above is not None and value <= above)
            or (most is not None and value > most)
            or (below is not None and value >= below)
        ):
            raise ValueError(f"must be {' and '.join(limits)}")
        return value

    what = f"number ({unit})" if unit else "number"
    return ValueKind(", ".join([what, *limits]), parse, show_number)


def size(least: int) -> ValueKind[int]:
    """Bytes, or a number with K, M or G (powers of 1024)."""

    def parse(text: str) -> int:
        match = _SIZE.fullmatch(text)
        if match is None:
            raise ValueError("not a size; write bytes, or 64M, 1G")
        size = int(match[1]) * SIZES[match[2].upper()]
        if size < least:
            raise ValueError(f"must be at least {show_size(least)}")
        return size

    return ValueKind(f"size, {show_size(least)} or more", parse, show_size)


def yes_no(yes: str = "yes", no: str = "no") -> ValueKind[bool]:
    def parse(text: str) -> bool:
        if text.lower() in _YES:
            return True
        if text.lower() in _NO:
            return False
        raise ValueError(f"write {yes} or {no}")

    return ValueKind(f"{yes} or {no}", parse, lambda value: yes if value else no)


def on_off() -> ValueKind[bool]:
    return yes_no("on", "off")


def choice(of: type[Choice]) -> ValueKind[Choice]:
    """One of the enum's values, in any case."""
    names = [member.value for member in of]

    def parse(text: str) -> Choice:
        try:
            return of(text.lower())
        except ValueError:
            raise ValueError(f"must be {' or '.join(names)}{did_you_mean(text, names)}") from None

    return ValueKind(" or ".join(names), parse)


def or_default(kind: ValueKind[T], default: T) -> ValueKind[T]:
    """The same kind, where blank means the default."""
    return replace(kind, parse=lambda text: kind.parse(text) if text else default)


def log_level() -> ValueKind[LogLevel]:
    """A level's name in any case; also takes WARN and FATAL."""
    names = [member.value for member in LogLevel]
    aliases = {"WARN": LogLevel.WARNING, "FATAL": LogLevel.CRITICAL}

    def parse(text: str) -> LogLevel:
        name = text.upper()
        if name in aliases:
            return aliases[name]
        if name not in names:
            raise ValueError(
                f"no log level{did_you_mean(text, names) or '; one of ' + ', '.join(names)}"
            )
        return LogLevel(name)

    return ValueKind("DEBUG, INFO, WARNING, ERROR or CRITICAL", parse)


def text() -> ValueKind[str]:

    def parse(value: str) -> str:
        if not value:
            raise ValueError("must not be empty")
        return value

    return ValueKind("text", parse)


def names() -> ValueKind[tuple[str, ...]]:
    """Names separated by commas, each once; none for an empty text."""

    def parse(value: str) -> tuple[str, ...]:
        found = tuple(name.strip() for name in value.split(",")) if value else ()
        if "" in found:
            raise ValueError("has a comma without a name beside it")
        for name in found:
            if not _NAME.fullmatch(name):
                raise ValueError(f"{name!r} is not a name; write names, separated by commas")
            if found.count(name) > 1:
                raise ValueError(f"names {name} twice")
        return found

    return ValueKind("names, separated by commas", parse, ", ".join)


def secret() -> ValueKind[Secret]:
    return ValueKind("secret", lambda value: Secret(text().parse(value)), secret=True)


def token() -> ValueKind[Secret]:
    """A secret that a header can carry."""

    def parse(value: str) -> Secret:
        if any(not 32 < ord(letter) < 127 for letter in value):
            raise ValueError("write printable ASCII without spaces: clients send it in a header")
        return Secret(text().parse(value))

    return ValueKind("secret", parse, secret=True)


def database(*, shared: bool = False) -> ValueKind[Secret]:
    """An SQLAlchemy URL; only its password is hidden. `shared`: not one of this machine alone."""

    def parse(value: str) -> Secret:
        scheme, separator, rest = value.partition("://")
        if shared and scheme.split("+")[0] != "postgresql":
            raise ValueError("not a PostgreSQL database; write postgresql://USER@HOST/NAME")
        if not separator or scheme.split("+")[0] not in ("sqlite", "postgresql"):
            raise ValueError("not a database URL; write sqlite:////PATH or postgresql://...")
        if (
            scheme.startswith("sqlite")
            and not rest.startswith("//")
            and rest not in ("", "/:memory:")
        ):
            raise ValueError("the path must be absolute: sqlite:/// and a path that begins with /")
        return Secret(value, re.sub(r"//([^:/@\s]*):.*@", rf"//\1:{MASK}@", value))

    return ValueKind("database URL", parse, lambda value: value.shown, secret=True)


def path() -> ValueKind[Path]:
    def parse(value: str) -> Path:
        if not value.startswith("/"):
            raise ValueError("must be an absolute path")
        return Path(value)

    return ValueKind("absolute path", parse)


def pool_name() -> ValueKind[str]:
    """A pool name: at most 63 letters, digits, dots, underscores and dashes."""

    def parse(value: str) -> str:
        if _POOL.fullmatch(value) is None:
            raise ValueError(
                "must be letters, digits, '.', '_', '-', at most 63, no '-' or '.' first"
            )
        return value

    return ValueKind("name", parse)


def hostname_pattern() -> ValueKind[str]:
    """A pattern that gives every slot a host name of its own."""

    def parse(value: str) -> str:
        if _PATTERN.fullmatch(value) is None:
            raise ValueError("must contain %(slot_number)d once, like compute%(slot_number)d")
        first = value % {"slot_number": 1}
        if _LABEL.fullmatch(first) is None:
            raise ValueError(f"gives slot 1 the name {first!r}, which is no host name")
        return value

    return ValueKind("pattern", parse)


def domain() -> ValueKind[str]:

    def parse(value: str) -> str:
        labels = value.lower().removesuffix(".").split(".") if value else ()
        if not all(_LABEL.fullmatch(label) for label in labels):
            raise ValueError("is no domain, like lab.example.org")
        return value

    return ValueKind("domain", parse)


def command() -> ValueKind[tuple[str, ...]]:
    """A command and its arguments, split into words as by a shell; it runs without one."""

    def parse(value: str) -> tuple[str, ...]:
        try:
            words = tuple(shlex.split(value))
        except ValueError as error:
            raise ValueError(f"can't be split into words: {error}") from None
        if not words:
            raise ValueError("must not be empty")
        return words

    return ValueKind("command line, run without a shell", parse, shlex.join, multiline=True)


def gres() -> ValueKind[Gres]:
    return ValueKind("resources like gpu:tesla:4, separated by commas", gres_of, shown_gres)


def dotted_name() -> ValueKind[str]:

    def parse(value: str) -> str:
        words = value.split(".")
        if len(words) < 2 or not all(word.isidentifier() for word in words):
            raise ValueError("write module.Class")
        return value

    return ValueKind("module.Class", parse)


def listen() -> ValueKind[Listen]:
    """An address and port to listen on; an IPv6 address is in brackets."""

    def parse(value: str) -> Listen:
        host, separator, port = value.rpartition(":")
        if not separator or _WHOLE.fullmatch(port) is None or not 0 <= int(port) <= 65535:
            raise ValueError("write ADDRESS:PORT")
        if ":" in host and not (host.startswith("[") and host.endswith("]")):
            raise ValueError("put an IPv6 address in brackets: [::1]:8990")
        if not host:
            raise ValueError("write ADDRESS:PORT; 0.0.0.0 serves on every address")
        return Listen(host.strip("[]"), int(port))

    return ValueKind("ADDRESS:PORT", parse)


def endpoint() -> ValueKind[ServerAddress]:
    """`host[:port]`, which means https, or a whole http or https URL."""

    def parse(value: str) -> ServerAddress:
        if not value or any(character.isspace() for character in value):
            raise ValueError("write host, host:port or a whole URL")
        try:
            url = urlsplit(value if "://" in value else f"https://{value}")
            port = url.port
        except ValueError as error:
            raise ValueError(f"not an address: {str(error).lower()}") from None
        if url.scheme not in ("http", "https"):
            raise ValueError("must be http or https")
        if url.username is not None or url.password is not None:
            raise ValueError("must not hold a user or password")
        if not url.hostname or url.query or url.fragment:
            raise ValueError("write host, host:port or a whole URL")
        return ServerAddress(url.scheme, url.hostname, port, url.path.rstrip("/"))

    return ValueKind("host[:port] (https) or a whole URL", parse)


def origin() -> ValueKind[ServerAddress]:
    """`https://host[:port]`, or with http: a URL without a path."""
    inner = endpoint()

    def parse(value: str) -> ServerAddress:
        if "://" not in value:
            raise ValueError("write it whole, like https://manager.example.org")
        found = inner.parse(value)
        if found.path:
            raise ValueError("must have no path: the pages are at the server's root")
        return found

    return ValueKind("https://host[:port]", parse)


def port_or_off() -> ValueKind[int | None]:
    """A port; -1 is off, as in Arvados Node Manager, and 0 takes any free port."""
    inner = whole(-1, 65535)

    def parse(value: str) -> int | None:
        port = inner.parse(value)
        return None if port == -1 else port

    return ValueKind(
        "port, or -1 for none", parse, lambda port: "-1" if port is None else str(port)
    )


def shutdown_windows() -> ValueKind[tuple[float, ...]]:
    """Lengths in minutes, parsed to seconds: keep for N1, may stop for N2, keep for N3, ..."""

    def parse(value: str) -> tuple[float, ...]:
        minutes = []
        for word in value.split(","):
            if _NUMBER.fullmatch(word.strip()) is None or not math.isfinite(float(word)):
                raise ValueError("write minutes separated by commas, like 54, 5, 1")
            minutes.append(float(word))
        if len(minutes) < 2:
            raise ValueError("needs at least two windows: the time to keep, the time to stop in")
        if min(minutes) < 0:
            raise ValueError("no window can be negative")
        if min(minutes[1::2]) == 0:
            raise ValueError("a window in which nodes may stop (every second one) is zero")
        return tuple(60 * number for number in minutes)

    def show(windows: tuple[float, ...]) -> str:
        return ", ".join(show_number(window / 60) for window in windows)

    return ValueKind("minutes, separated by commas", parse, show)


def optional(kind: ValueKind[T]) -> ValueKind[T | None]:
    """The same kind, or blank for None."""
    return _or_none(kind, "", "blank")


def or_off(kind: ValueKind[T]) -> ValueKind[T | None]:
    """The same kind, or `off` for None."""
    return _or_none(kind, "off", "off")


def _or_none(kind: ValueKind[T], none: str, word: str) -> ValueKind[T | None]:
    def parse(value: str) -> T | None:
        return None if value.lower() == none else kind.parse(value)

    def show(value: T | None) -> str:
        return none if value is None else kind.show(value)

    return ValueKind(f"{kind.doc}, or {word}", parse, show, kind.secret, kind.multiline)


def show_number(value: float) -> str:
    """The shortest text that parses to the same number."""
    return repr(value).removesuffix(".0")


def show_size(value: int) -> str:
    """The size with the largest unit that leaves a whole number."""
    unit = next(unit for unit in ("G", "M", "K", "") if value % SIZES[unit] == 0)
    return f"{value // SIZES[unit]}{unit}" if value else "0"
