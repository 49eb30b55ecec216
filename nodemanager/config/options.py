"""The declaration of options, each once, as a field of its section's dataclass.

The parser, doc/options.rst and the sample files all use the declaration, and mypy checks the
field's type against the kind's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from nodemanager.config.kinds import ValueKind, optional

T = TypeVar("T")
_KEY = "option"

AS_POLLED = "the recording has only the polls that were made"


class DefaultSources(Protocol):
    """The sources of a derived default: the options read so far, and the environment."""

    @property
    def pool_from_name(self) -> str: ...

    @property
    def environ(self) -> Mapping[str, str]: ...

    def value(self, section: str, option: str) -> Any: ...


@dataclass(frozen=True, slots=True)
class Derived:
    """A default computed from other options or the environment; `doc` names the source.

    `or_zero`: a written 0 means the default, too, as in Arvados Node Manager's files.
    """

    doc: str
    of: Callable[[DefaultSources], Any]
    or_zero: bool = False


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class Decides:
    """Marks an option that decisions depend on: it fills `field` of core's Settings.

    An empty `field` means the field of the option's own name. `to_field` and `to_option` convert
    between the two values. `fixed` tells why a replay can't vary the option.
    """

    field: str = ""
    to_field: Callable[[Any], Any] = _same
    to_option: Callable[[Any], Any] = _same
    fixed: str | None = None


@dataclass(frozen=True, slots=True)
class Option:
    """One option. `default` is a text as in a file, a Derived, or None when it is required.

    `no_effect` tells why an option of Arvados Node Manager does nothing here. It is the warning
    when the option is set, and continues `[Section] option = value: `. `no_effect_unless` lists
    written values (in lower case) that already mean "nothing".
    """

    kind: ValueKind[Any]
    default: str | Derived | None
    help: str
    name: str = ""
    reload: bool = False
    no_effect: str | None = None
    no_effect_unless: tuple[str, ...] = ()
    decides: Decides | None = None
    section: str = ""
    attribute: str = ""

    @property
    def deciding(self) -> Decides:
        """The `decides` of an option that has one."""
        assert self.decides is not None
        return self.decides

    @property
    def field(self) -> str:
        """The field of core's Settings that an option with `decides` fills."""
        return self.deciding.field or self.attribute


@dataclass(frozen=True, slots=True)
class Section:
    """One section: its name in files, its attribute of Config, its text for the docs."""

    name: str
    attribute: str
    doc: str
    type: type
    options: tuple[Option, ...]

    def option(self, name: str) -> Option | None:
        """The option of that name, in any case, as in Arvados Node Manager's parser."""
        return next((each for each in self.options if each.name.lower() == name.lower()), None)


def option(kind: ValueKind[T], default: str | Derived | None, help: str, **more: Any) -> T:
    """Declare an option as a dataclass field; `more` are further fields of `Option`."""
    declared = Option(kind, default, " ".join(help.split()), **more)
    made: T = dataclasses.field(metadata={_KEY: declared}, repr=not kind.secret)
    return made


def optional_option(kind: ValueKind[T], help: str, **more: Any) -> T | None:
    """Declare an option that may be blank, which means None and is the default."""
    return option(optional(kind), "", help, **more)


def deciding_option(
    kind: ValueKind[T],
    default: str | Derived | None,
    help: str,
    decides: Decides | None = None,
) -> T:
    """Declare an option that decisions depend on, and that a reload applies."""
    return option(kind, default, help, reload=True, decides=decides or Decides())


def section(attribute: str, kind: type) -> Section:
    """The section that the dataclass `kind` declares; its docstring is the section's text."""
    name = attribute.capitalize()
    options = tuple(
        dataclasses.replace(
            declared, section=name, name=declared.name or each.name, attribute=each.name
        )
        for each in dataclasses.fields(kind)
        if (declared := each.metadata.get(_KEY)) is not None
    )
    return Section(name, attribute, " ".join((kind.__doc__ or "").split()), kind, options)
