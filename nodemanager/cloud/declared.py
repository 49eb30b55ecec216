"""The declaration of a cloud's own options, each once: kind, default, texts and example; and the
reader of a file's pass-through sections by it.

The parser, the errors of check-config, the manual's tables and the sample files all come from it. A
kind raises ValueError with the end of the sentence `[Section] option = value: ...`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, overload
from urllib.parse import urlsplit

from nodemanager.errors import ConfigError
from nodemanager.lib.clock import Clock
from nodemanager.lib.hosts import is_loopback


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of an API. `path` is '' or begins with a slash."""

    host: str
    port: int
    secure: bool = True
    path: str = ""

    def __str__(self) -> str:
        return f"{'https' if self.secure else 'http'}://{self.host}:{self.port}{self.path}"

    @classmethod
    def parse(cls, text: str, insecure: bool) -> Endpoint:
        """Read `host[:port]` (https) or a URL; plain http only to loopback, unless `insecure`.

        Raises ValueError with what is wrong.
        """
        url = urlsplit(text if "://" in text else f"https://{text}")
        host, port = url.hostname or "", url.port
        if url.scheme not in ("https", "http") or not host or url.username or url.query:
            raise ValueError("neither host[:port] nor an http(s) URL")
        secure = url.scheme == "https"
        if not secure and not insecure and not is_loopback(host):
            raise ValueError("plain http is for loopback, unless insecure = yes")
        host = f"[{host}]" if ":" in host else host
        return cls(host, port or (443 if secure else 80), secure, url.path.rstrip("/"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudConfig:
    """What every `build_cloud` is given; each adapter takes what it needs.

    `credentials`, `listing` and `create` are `[Cloud Credentials]`, `[Cloud List]` and
    `[Cloud Create]`, with every value as the file has it. `driver_class` is `module.Class`.
    `directory` is for the state of a cloud that is on this machine; nobody has made it yet.
    """

    pool: str
    credentials: Mapping[str, str] = field(repr=False)
    listing: Mapping[str, str] = field(repr=False)
    create: Mapping[str, str] = field(repr=False)
    driver_class: str | None
    directory: Path
    clock: Clock
    places: Mapping[str, str] = field(default_factory=dict)
    """The zones and subnets that sizes are booted in, each with the option that names it."""


T = TypeVar("T")
D = TypeVar("D")
_KEY = "option"
_FLAGS = {"1": True, "yes": True, "true": True, "on": True}
_FLAGS |= {"0": False, "no": False, "false": False, "off": False}


@dataclass(frozen=True, slots=True)
class CloudOption:
    """One option. The sample shows `example`, or a default that is a text; one with neither is in
    the manual alone. For a pattern of names the example begins with what stands for its wildcard.

    The text for manual and sample is the docstring of the field that declares the option, or `text`
    where none does. `missing` is what is said where it is not given; empty: it may be left out.
    `also` are other names of it. A wrong value of one that is `hidden` is not shown. For `says` and
    `part` see `passed`.
    """

    kind: Callable[[str], Any]
    example: str = ""
    text: str = ""
    default: Any = None
    missing: str = ""
    also: tuple[str, ...] = ()
    hidden: bool = False
    says: str = ""
    part: str = ""


def flag(value: str) -> bool:
    known = _FLAGS.get(value.lower())
    if known is None:
        raise ValueError("neither yes nor no")
    return known


def number(value: str) -> float:
    try:
        found = float(value)
    except ValueError:
        found = -1.0
    if not 0 < found < float("inf"):
        raise ValueError("not a number above zero")
    return found


def price(value: str) -> str:
    number(value)
    return value


def whole(value: str) -> int:
    if not value.isdecimal() or int(value) == 0:
        raise ValueError("not a whole number above zero")
    return int(value)


def names(value: str) -> tuple[str, ...]:
    """What is separated by commas."""
    return tuple(name.strip() for name in value.split(",") if name.strip())


def file(path: str) -> str:
    try:
        return Path(path).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError, RuntimeError) as error:
        # There may be no such home, either.
        why = getattr(error, "strerror", None) or (
            "it is no text" if isinstance(error, ValueError) else "there is no such home"
        )
        raise ValueError(f"can't be read: {why}") from error


def endpoint(value: str) -> Endpoint:
    """The address of an API; plain http is for loopback."""
    try:
        return Endpoint.parse(value, insecure=False)
    except ValueError as error:
        raise ValueError(str(error).partition(", unless")[0]) from error


def one_of(*allowed: str) -> Callable[[str], str]:
    return matching("|".join(map(re.escape, allowed)), f"not one of {', '.join(allowed)}")


def matching(pattern: str, otherwise: str) -> Callable[[str], str]:
    """What the pattern matches whole; anything else is told as `otherwise`."""

    def kind(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(otherwise)
        return value

    return kind


@overload
def option(kind: Callable[[str], T], example: str = "", *, default: D, **more: Any) -> T | D: ...
@overload
def option(kind: Callable[[str], T], example: str = "", **more: Any) -> T | None: ...
def option(kind: Any, example: str = "", *, default: Any = None, **more: Any) -> Any:
    """Declare an option as a field of its section's dataclass; its docstring is the manual's."""
    about = {_KEY: CloudOption(kind, example, default=default, **more)}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=default.copy, metadata=about)
    return dataclasses.field(default=default, metadata=about)


def switch(*, default: bool = False, also: tuple[str, ...] = ()) -> bool:
    """Declare an option that is yes or no."""
    return option(flag, "yes" if default else "no", default=default, also=also)


Passed = Mapping[str, str]
"""What an option's value becomes in the cloud's request; nothing where it is not given."""


def passed(
    forms: str | Mapping[str, str],
    says: str = "true or false",
    example: str = "true",
    part: str = "",
) -> Any:
    """Declare an option whose value goes into the cloud's request as it stands.

    `forms` has by pattern of the whole value the parameter that a value of that form becomes; for
    one that is true or false, that alone. `says` is what a value must be, `part` the part of the
    request that it is for.
    """
    patterns = {"true|false": forms} if isinstance(forms, str) else forms

    def kind(value: str) -> dict[str, str]:
        for form, param in patterns.items():
            if re.fullmatch(form, value):
                return {param: value}
        raise ValueError(f"not {says}")

    return option(kind, example, default={}, says=says, part=part)


def passed_on(section: Any, *parts: str) -> dict[str, str]:
    """The request's parameters of the section's options for those parts; of all without any."""
    found: dict[str, str] = {}
    for each in dataclasses.fields(section):
        declared = each.metadata.get(_KEY)
        if declared is not None and declared.says and (not parts or declared.part in parts):
            found |= getattr(section, each.name)
    return found


def options_of(section: type) -> dict[str, CloudOption]:
    """The options that a section's dataclass declares, in its order."""
    return {
        each.name: each.metadata[_KEY]
        for each in dataclasses.fields(section)
        if _KEY in each.metadata
    }


def accepted(
    sections: Mapping[str, Mapping[str, CloudOption]],
) -> dict[str, frozenset[str]]:
    """The keys that each section takes; `*` and `?` in them are wildcards, as in fnmatch."""
    return {
        section: frozenset(
            name for key, declared in options.items() for name in (key, *declared.also)
        )
        for section, options in sections.items()
    }


PING_HOST = CloudOption(
    str,
    "registry.example.org",
    """The address that nodes ping: host[:port], which means https, or a whole URL. It must lead to
    [Registry] listen, or to the Arvados server.""",
)
"""The daemon's own, as USER_DATA, in `[Cloud Create]` of every cloud."""
USER_DATA = CloudOption(
    str,
    "/etc/nodemanager/user-data.yaml",
    """A template for the nodes' user data, with {ping_url}, {record}, {hostname} and {incarnation}.
    Without it they get the bare ping URL.""",
)


CREDENTIALS = "Cloud Credentials"
LIST = "Cloud List"
CREATE = "Cloud Create"


class SectionReader:
    """One section's values by the options' first names, and the problems found in them."""

    def __init__(
        self,
        section: str,
        values: Mapping[str, str],
        problems: list[str],
        options: Mapping[str, CloudOption],
    ) -> None:
        self.section = section
        self.values = dict(values)
        self.problems = problems
        self.options = options
        self._called: dict[str, str] = {}
        for name, declared in options.items():
            for other in declared.also:
                if other in values:
                    if name in self.values:
                        self.wrong(other, f"means the same as {name}, which is given, too")
                        continue
                    self.values[name] = self.values.pop(other)
                    self._called[name] = other

    def wrong(self, key: str, why: str, value: str | None = None) -> None:
        """Tell a problem of an option, by the name that the file has for it."""
        shown = f" = {value}" if value is not None else ""
        self.problems.append(f"[{self.section}] {self._called.get(key, key)}{shown}: {why}")

    def text(self, key: str) -> str | None:
        return self.values.get(key, "").strip() or None

    def read(self, options: Mapping[str, CloudOption] | None = None) -> dict[str, Any]:
        """The values of those options, by default of all; a default for what is wrong."""
        return {
            key: self._value(key, declared)
            for key, declared in (self.options if options is None else options).items()
        }

    def _value(self, key: str, declared: CloudOption) -> Any:
        text = self.text(key)
        if text is None:
            if declared.missing:
                self.wrong(key, declared.missing)
            return declared.default
        try:
            return declared.kind(text)
        except ValueError as error:
            self.wrong(key, str(error), None if declared.hidden else text)
            return declared.default


@dataclass(frozen=True, slots=True)
class Sections:
    """The three pass-through sections of a file, whose problems are told together."""

    credentials: SectionReader
    listing: SectionReader
    create: SectionReader

    @classmethod
    def of(cls, config: CloudConfig, declared: Mapping[str, Mapping[str, CloudOption]]) -> Sections:
        problems: list[str] = []
        given = {
            CREDENTIALS: config.credentials,
            LIST: config.listing,
            CREATE: config.create,
        }
        return cls(
            *(
                SectionReader(section, values, problems, declared[section])
                for section, values in given.items()
            )
        )

    def check(self) -> None:
        """Raises ConfigError with every problem that was found so far."""
        if self.create.problems:
            raise ConfigError(self.create.problems)
