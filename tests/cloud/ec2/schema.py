"""Amazon's own description of EC2's API, as botocore ships it: what contradicts it is told.

Amazon's clients are generated from it: each parameter has its name on the wire, its type, and the
values that it may have.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any
from xml.etree import ElementTree

MOTOS_OWN = ("DescribeImages.imagesSet.platform", "DescribeImages.imagesSet.rootDeviceType")
"""What moto's images say in words of its own; nothing here reads them."""
OPEN = frozenset({"InstanceType"})
"""Lists to which Amazon adds all the time."""
_WHOLE = re.compile(r"-?\d+")
_PLAIN = frozenset({"Action", "Version"})
_SIGNED = re.compile(r"AWSAccessKeyId|Signature(Method|Version)?|Timestamp|SecurityToken|X-Amz-.*")
"""What signs a request, and is no parameter of an action."""


@functools.cache
def model() -> Any:
    """botocore's model of the service."""
    # It takes long to import: not where tests are only collected.
    from botocore.session import Session

    return Session().get_service_model("ec2")


def knows(action: str) -> bool:
    """Whether EC2 has that action."""
    return action in model().operation_names


def wrong_in_request(params: Mapping[str, str]) -> list[str]:
    """What contradicts the description in a request of an action that EC2 has."""
    shape = model().operation_model(params["Action"]).input_shape
    found: list[str] = []
    for name, value in params.items():
        if name not in _PLAIN and not _SIGNED.fullmatch(name):
            found += _wrong(shape, name.split("."), value, f"{params['Action']}: {name}")
    given = {name.partition(".")[0] for name in params}
    lacking = [one for one in shape.required_members if _sent_as(shape, one) not in given]
    return [*found, *(f"{params['Action']}: {one} is missing" for one in lacking)]


def _sent_as(shape: Any, member: str) -> str:
    told = shape.members[member].serialization
    name: str = told.get("queryName") or told.get("name", member)
    return name[0].upper() + name[1:]


def _wrong(shape: Any, names: list[str], value: str, where: str) -> Iterator[str]:
    if shape.type_name == "structure":
        by_name = {_sent_as(shape, one): member for one, member in shape.members.items()}
        if not names or names[0] not in by_name:
            yield f"{where}: EC2 knows no such parameter"
        else:
            yield from _wrong(by_name[names[0]], names[1:], value, where)
    elif shape.type_name == "list":
        if not names or not names[0].isdecimal() or names[0] == "0":
            yield f"{where}: a list is numbered from 1"
        else:
            yield from _wrong(shape.member, names[1:], value, where)
    elif names:
        yield f"{where}: {shape.name} has no parts"
    else:
        yield from _mistyped(shape, value, where)


def _mistyped(shape: Any, value: str, where: str) -> Iterator[str]:
    kind = shape.type_name
    values = None if shape.name in OPEN else shape.metadata.get("enum")
    if kind in ("integer", "long") and not _WHOLE.fullmatch(value):
        yield f"{where}: {value!r} is no whole number"
    elif kind == "boolean" and value not in ("true", "false"):
        yield f"{where}: {value!r} is neither true nor false"
    elif values and value not in values:
        yield f"{where}: {value!r} is not one of {', '.join(values)}"


def wrong_in_answer(action: str, body: bytes) -> list[str]:
    """What contradicts the description in an answer: an unknown field, or a value of no list."""
    shape = model().operation_model(action).output_shape
    root = ElementTree.fromstring(body)
    if shape is None:
        return []
    return sorted({one for one in _odd(shape, root, action) if not one.startswith(MOTOS_OWN)})


def _odd(shape: Any, element: ElementTree.Element, where: str) -> Iterator[str]:
    children = list(element)
    if shape.type_name == "structure":
        by_name = {
            member.serialization.get("name", one): member for one, member in shape.members.items()
        }
        for child in children:
            name = child.tag.rpartition("}")[2]
            if name in by_name:
                yield from _odd(by_name[name], child, f"{where}.{name}")
            elif name not in ("requestId", "return"):
                yield f"{where}.{name}: EC2 knows no such field"
    elif shape.type_name == "list":
        for child in children:
            yield from _odd(shape.member, child, where)
    elif shape.metadata.get("enum") and (element.text or "").strip():
        yield from _mistyped(shape, (element.text or "").strip(), where)
