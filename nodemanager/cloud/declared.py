"""The declaration of a cloud's own options, each once: kind, default, texts and example.

The parser, the errors of check-config, the manual's tables and the sample files all come from it. A
kind raises ValueError with the end of the sentence `[Section] option = value: ...`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, overload

from nodemanager.cloud.endpoint import Endpoint

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
    """The text of a file."""
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
