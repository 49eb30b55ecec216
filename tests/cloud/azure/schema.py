"""Azure's own description of its API, as its SDK has it: what contradicts it is told.

The models are generated from Microsoft's specification; each field has its name on the wire, its
type, and whether only an answer may have it.
"""

from __future__ import annotations

import enum
import functools
import importlib
import threading
import types
import typing
from collections.abc import Iterator
from typing import Any

SCHEMAS = {
    "virtualMachines": ("compute", "VirtualMachine"),
    "disks": ("compute", "Disk"),
    "networkInterfaces": ("network", "NetworkInterface"),
    "publicIPAddresses": ("network", "PublicIPAddress"),
    "skus": ("compute", "ResourceSku"),
    "versions": ("compute", "GalleryImageVersion"),
}
PACKAGES = sorted({package for package, _ in SCHEMAS.values()})

OPEN = frozenset({"VirtualMachineSizeTypes"})
"""Lists that the description itself calls incomplete."""


_ALONE = threading.Lock()
"""The SDK's models can't be made in two threads at once the first time."""


def wrong_in(kind: str, value: object, *, sent: bool) -> list[str]:
    """What contradicts the description of that kind of resource in a body that was `sent`, or in
    an answer."""
    package, name = SCHEMAS[kind]
    with _ALONE:
        return list(_wrong(getattr(_models(package), name), value, kind, sent))


def _models(package: str) -> types.ModuleType:
    """Their import takes seconds: not where tests are only collected."""
    return importlib.import_module(f"azure.mgmt.{package}.models")


def _wrong(model: type[Any], value: object, where: str, sent: bool) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{where}: {type(value).__name__} is no object"
        return
    known = _fields(model)
    for key, item in value.items():
        if key not in known:
            yield f"{where}.{key}: Azure knows no such field"
            continue
        field, hint = known[key]
        if sent and field._visibility == ["read"]:
            yield f"{where}.{key}: only an answer has it"
        yield from _mistyped(hint, item, f"{where}.{key}", sent)


def _mistyped(hint: Any, value: object, where: str, sent: bool) -> Iterator[str]:
    if value is None:
        return
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        enums = [one for one in parts if isinstance(one, type) and issubclass(one, enum.Enum)]
        if (
            enums
            and enums[0].__name__ not in OPEN
            and value not in [str(one.value) for one in enums[0]]
        ):
            yield f"{where}: {value!r} is none of {enums[0].__name__}"
        rest = [one for one in parts if one is not type(None) and one is not str]
        if not enums and len(rest) == 1:
            yield from _mistyped(rest[0], value, where, sent)
    elif origin is list:
        if not isinstance(value, list):
            yield f"{where}: {type(value).__name__} is no list"
            return
        for number, item in enumerate(value):
            yield from _mistyped(parts[0], item, f"{where}[{number}]", sent)
    elif origin is dict:
        if not isinstance(value, dict):
            yield f"{where}: {type(value).__name__} is no object"
            return
        for name, item in value.items():
            yield from _mistyped(parts[1], item, f"{where}.{name}", sent)
    elif hasattr(hint, "_is_model") or hasattr(hint, "_deserialize"):
        yield from _wrong(hint, value, where, sent)
    elif hint in (str, int, bool) and type(value) is not hint:
        yield f"{where}: {value!r} is no {hint.__name__}"


@functools.cache
def _fields(model: type[Any]) -> dict[str, tuple[Any, Any]]:
    """Each field of a model by its name on the wire, and its type."""
    made = model({})
    hints: dict[str, Any] = {}
    for one in reversed(model.__mro__):
        if one.__module__.startswith("azure.mgmt."):
            package = _models("compute" if ".compute." in one.__module__ else "network")
            names = {**vars(package._models), "_models": package}
            hints |= typing.get_type_hints(one, names)
    return {
        field._rest_name: (field, hints.get(name, Any))
        for name, field in made._attr_to_rest_field.items()
    }
