"""Exact conversion of core's frozen data to JSON and back, by codecs made from annotations.

A dataclass becomes an object of the fields that differ from their defaults. Floats are exact
(repr); tuples, lists and mappings under `Any` keep their types.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import Any, NamedTuple, TypeVar, Union, cast, get_args, get_origin

from nodemanager.lib.redact import is_secret

T = TypeVar("T")
Conversion = Callable[[Any], Any]

_TUPLE, _PAIRS, _SET = "()", "{}", "{,}"
_MARKS = frozenset({_TUPLE, _PAIRS, _SET})
_PLAIN = frozenset({str, int, float, bool, type(None)})


class Codec(NamedTuple):
    """The functions to encode and decode a type. `plain`: its values are JSON values already."""

    encode: Conversion
    decode: Conversion
    plain: bool = False


def dump(value: Any, of: Any = None) -> str:
    """`value` as JSON text; `of` is its declared type where that differs from its class."""
    return to_text(codec_of(of if of is not None else type(value)).encode(value))


def load(of: type[T], text: str) -> T:
    """The value of a text from `dump`. Raises ValueError for any other text."""
    try:
        loaded: T = decoded(of, json.loads(text))
    except RecursionError:
        # Not chained: its traceback has a thousand useless frames.
        raise ValueError("is nested too deep") from None
    return loaded


def load_any(text: str) -> Any:
    """The value of a text from `dump` of a value whose type was Any."""
    return load(cast("type[Any]", Any), text)


def decoded(of: Any, data: Any) -> Any:
    """The value of type `of` that `data` encodes. Raises ValueError for bad data."""
    try:
        return codec_of(of).decode(data)
    except (TypeError, KeyError, AttributeError, IndexError) as error:
        raise ValueError(f"not a {getattr(of, '__name__', of)}: {error}") from error


def to_text(data: Any) -> str:
    """`data` as JSON in ASCII, so that every character of a server's strings survives."""
    return json.dumps(data, separators=(",", ":"))


def codec_of(of: Any) -> Codec:
    return _codec_of(of)


@cache
def _codec_of(of: Any) -> Codec:
    if of in _PLAIN:
        return Codec(_same, _same, plain=True)
    if of is Any or of is object:
        return Codec(_any_out, _any_in)
    origin, arguments = get_origin(of), get_args(of)
    if origin in (Union, types.UnionType):
        return _optional(arguments)
    if origin is tuple:
        return _tuple(arguments)
    if origin is frozenset:
        return _frozenset(codec_of(arguments[0]))
    if origin in (Mapping, dict, typing.Mapping) or getattr(origin, "__name__", "") == "Mapping":
        return _mapping(codec_of(arguments[1]))
    cls = origin if origin is not None else of
    if isinstance(cls, type) and issubclass(cls, Enum):
        return Codec(lambda member: member.value, cls)
    if isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return _named_tuple(cls)
    if dataclasses.is_dataclass(cls):
        parameters = getattr(cls, "__parameters__", ())
        return _dataclass(cls, dict(zip(parameters, arguments, strict=False)))
    raise TypeError(f"the journal has no form for {of}")


def _same(value: Any) -> Any:
    return value


def _optional(arms: tuple[Any, ...]) -> Codec:
    if all(arm in _PLAIN for arm in arms):
        return Codec(_same, _same, plain=True)
    others = [arm for arm in arms if arm is not type(None)]
    if len(others) != 1:
        raise TypeError(f"the journal has no form for a choice of {others}")
    inner = codec_of(others[0])
    return Codec(
        lambda value: None if value is None else inner.encode(value),
        lambda data: None if data is None else inner.decode(data),
    )


def _tuple(arguments: tuple[Any, ...]) -> Codec:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        inner = codec_of(arguments[0])
        if inner.plain:
            return Codec(list, tuple)
        encode, decode = inner.encode, inner.decode
        return Codec(
            lambda value: [encode(one) for one in value],
            lambda data: tuple([decode(one) for one in data]),
        )
    inners = [codec_of(argument) for argument in arguments]
    return Codec(
        lambda value: [inner.encode(one) for inner, one in zip(inners, value, strict=True)],
        lambda data: tuple([inner.decode(one) for inner, one in zip(inners, data, strict=True)]),
    )


def _named_tuple(cls: Any) -> Codec:
    """A codec by position: another field needs a default, or a new revision of the journal."""
    hints = typing.get_type_hints(cls)
    inners = [codec_of(hints[name]) for name in cls._fields]
    if all(inner.plain for inner in inners):
        return Codec(list, lambda data: cls(*data))
    return Codec(
        lambda value: [inner.encode(one) for inner, one in zip(inners, value, strict=True)],
        lambda data: cls(
            *(inner.decode(one) for inner, one in zip(inners[: len(data)], data, strict=True))
        ),
    )


def _frozenset(inner: Codec) -> Codec:
    return Codec(
        lambda value: [inner.encode(one) for one in sorted(value)],
        lambda data: frozenset([inner.decode(one) for one in data]),
    )


def _mapping(inner: Codec) -> Codec:
    """A codec for string keys that keeps the mapping's order."""
    if inner.plain:
        return Codec(dict, dict)
    encode, decode = inner.encode, inner.decode
    return Codec(
        lambda value: {key: encode(one) for key, one in value.items()},
        lambda data: {key: decode(one) for key, one in data.items()},
    )


def _dataclass(cls: Any, bound: Mapping[Any, Any]) -> Codec:
    """A codec that looks up its fields' codecs late, since a Breaker holds Breakers."""
    hints = typing.get_type_hints(cls)
    fields = [(one.name, _bind(hints[one.name], bound)) for one in dataclasses.fields(cls)]
    defaults = {one.name: _default(one) for one in dataclasses.fields(cls)}
    codecs: dict[str, Codec] = {}

    def prepare() -> dict[str, Codec]:
        codecs.update({name: codec_of(hint) for name, hint in fields})
        return codecs

    def encode(value: Any) -> dict[str, Any]:
        known = codecs or prepare()
        data = {}
        for name, codec in known.items():
            one = getattr(value, name)
            default = defaults[name]
            if one is default:
                continue
            # -0.0 == 0.0 and False == 0, but a field may be left out only for exactly its default.
            if one == default and type(one) is not bool and repr(one) == repr(default):
                continue
            data[name] = one if codec.plain else codec.encode(one)
        return data

    def decode(data: dict[str, Any]) -> Any:
        known = codecs or prepare()
        try:
            given = {
                name: one if known[name].plain else known[name].decode(one)
                for name, one in data.items()
            }
        except KeyError:
            for name in data.keys() - known.keys():
                raise ValueError(f"this program's {cls.__name__} has no field {name}") from None
            raise
        return cls(**given)

    return Codec(encode, decode)


class _Nothing:
    """Stands for a missing default: equal to no value."""

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]  # never a key


def _default(one: dataclasses.Field[Any]) -> Any:
    if one.default is not dataclasses.MISSING:
        return one.default
    if one.default_factory is not dataclasses.MISSING:
        return one.default_factory()
    return _Nothing()


def _bind(hint: Any, bound: Mapping[Any, Any]) -> Any:
    """The hint with its type variables replaced, as in `tuple[T, ...]` of a `Listing[Record]`."""
    if hint in bound:
        return bound[hint]
    arguments = get_args(hint)
    if not bound or not any(argument in bound for argument in arguments):
        return hint
    return get_origin(hint)[tuple(bound.get(one, one) for one in arguments)]


def _any_out(value: Any) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is tuple:
        return {_TUPLE: [_any_out(one) for one in value]}
    if isinstance(value, Mapping):
        if all(type(key) is str for key in value) and not _MARKS & value.keys():
            return {key: _any_out(one) for key, one in value.items()}
        return {_PAIRS: [[_any_out(key), _any_out(one)] for key, one in value.items()]}
    if isinstance(value, list):
        return [_any_out(one) for one in value]
    if isinstance(value, (set, frozenset)):
        return {_SET: [_any_out(one) for one in sorted(value, key=repr)]}
    if isinstance(value, Enum):
        return _any_out(value.value)
    # Other objects are kept as text: the journal must not fail because of a measure.
    return str(value)


def _any_in(data: Any) -> Any:
    if isinstance(data, list):
        return [_any_in(one) for one in data]
    if not isinstance(data, dict):
        return data
    if len(data) == 1:
        (mark, inner), *_ = data.items()
        if mark == _TUPLE:
            return tuple(_any_in(one) for one in inner)
        if mark == _PAIRS:
            return {_any_in(key): _any_in(one) for key, one in inner}
        if mark == _SET:
            return frozenset(_any_in(one) for one in inner)
    return {key: _any_in(one) for key, one in data.items()}


def without_secrets(value: Any) -> Any:
    """`value` without the texts under keys that name secrets, at any depth."""
    if isinstance(value, Mapping):
        return {
            key: without_secrets(one)
            for key, one in value.items()
            if not (isinstance(one, str) and is_secret(str(key)))
        }
    if isinstance(value, (list, tuple)):
        return type(value)(without_secrets(one) for one in value)
    return value
