"""How an option is declared: once, as a field of its section's dataclass.

The declaration feeds the parser, doc/options.rst and the sample files alike, and mypy holds the
field's type against the kind's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from nodemanager.config.kinds import Kind

T = TypeVar("T")
_KEY = "option"

AS_POLLED = "the recording has the polls that it has"


class Draft(Protocol):
    """What a default may be made from: options read so far, and the environment."""

    @property
    def pool_from_name(self) -> str: ...

    @property
    def environ(self) -> Mapping[str, str]: ...

    def value(self, section: str, option: str) -> Any: ...


@dataclass(frozen=True, slots=True)
class Derived:
    """A default that follows from elsewhere; `doc` says from where.

    `or_zero`: a written 0 means the default, too, as it did in the forerunner's files.
    """

    doc: str
    of: Callable[[Draft], Any]
    or_zero: bool = False


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class Decides:
    """Decisions are taken by the option: it fills `field` of core's Settings, its namesake if "".

    `to_field` and `to_option` are both ways between their values; `fixed` says why a replay can't
    give it another value.
    """

    field: str = ""
    to_field: Callable[[Any], Any] = _same
    to_option: Callable[[Any], Any] = _same
    fixed: str | None = None


@dataclass(frozen=True, slots=True)
class Option:
    """One option. `default` is as one would write it, a Derived, or None when it is required.

    `no_effect` says why an option of the forerunner does nothing here, in words that follow
    `[Section] option = value: `; it becomes a warning when the option is set.
    """

    section: str
    name: str
    attribute: str
    kind: Kind[Any]
    default: str | Derived | None
    help: str
    reload: bool
    no_effect: str | None
    no_effect_unless: tuple[str, ...]
    decides: Decides | None

    @property
    def deciding(self) -> Decides:
        """Of an option that decisions are taken by, what it fills."""
        assert self.decides is not None
        return self.decides

    @property
    def field(self) -> str:
        """The field of core's Settings that such an option fills."""
        return self.deciding.field or self.attribute

    @property
    def default_doc(self) -> str:
        """What the docs say of the default."""
        if self.default is None:
            return "required"
        if isinstance(self.default, Derived):
            return f"default: {self.default.doc}"
        return f"default {self.default}" if self.default else "default: blank"


@dataclass(frozen=True, slots=True)
class Section:
    name: str
    attribute: str
    doc: str
    type: type
    options: tuple[Option, ...]

    def option(self, name: str) -> Option | None:
        """By its name in any case, as the forerunner's parser had it."""
        return next((each for each in self.options if each.name.lower() == name.lower()), None)


@dataclass(frozen=True, slots=True)
class _Declared:
    kind: Kind[Any]
    default: str | Derived | None
    help: str
    name: str | None
    reload: bool
    no_effect: str | None
    no_effect_unless: tuple[str, ...]
    decides: Decides | None


def option(
    kind: Kind[T],
    default: str | Derived | None,
    help: str,
    *,
    name: str | None = None,
    reload: bool = False,
    no_effect: str | None = None,
    no_effect_unless: tuple[str, ...] = (),
    decides: Decides | None = None,
) -> T:
    """Declare an option as a dataclass field; see `Option`.

    `no_effect_unless` lists written values (in lower case) that already mean "nothing".
    """
    declared = _Declared(kind, default, help, name, reload, no_effect, no_effect_unless, decides)
    made: T = dataclasses.field(metadata={_KEY: declared}, repr=not kind.secret)
    return made


def section(name: str, attribute: str, kind: type) -> Section:
    """The declaration that the dataclass `kind` holds; its docstring is the section's text."""
    options = []
    for each in dataclasses.fields(kind):
        declared: _Declared = each.metadata[_KEY]
        options.append(
            Option(
                section=name,
                name=declared.name or each.name,
                attribute=each.name,
                kind=declared.kind,
                default=declared.default,
                help=" ".join(declared.help.split()),
                reload=declared.reload,
                no_effect=declared.no_effect,
                no_effect_unless=declared.no_effect_unless,
                decides=declared.decides,
            )
        )
    return Section(name, attribute, " ".join((kind.__doc__ or "").split()), kind, tuple(options))
