"""The filter expressions of compute v1 that are served: comparisons, all of which must hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.cloud.gce import discovery as gce_discovery

_TERM = re.compile(
    r"""\s*(?P<open>\()?\s*(?P<field>[A-Za-z_][\w.-]*)\s*(?P<op>!=|=|:|\beq\b|\bne\b)\s*
    (?:"(?P<quoted>[^"]*)"|(?P<plain>[^\s()"]+))\s*(?P<close>\))?\s*""",
    re.VERBOSE,
)


class NoFilter(Exception):
    """What the server would answer `Invalid value for field 'filter'` to."""


def compiled(expression: str, schema: str) -> Callable[[Mapping[str, Any]], bool]:
    """A function that says whether a resource of that schema matches."""
    tests: list[tuple[str, str, str]] = []
    position = 0
    while position < len(expression):
        term = _TERM.match(expression, position)
        if term is None or bool(term["open"]) != bool(term["close"]):
            raise NoFilter(f"can't be read from {expression[position:]!r} on")
        if not gce_discovery.has_field(schema, term["field"]):
            raise NoFilter(f"{schema} has no field {term['field']}")
        value = term["quoted"] if term["quoted"] is not None else term["plain"]
        tests.append((term["field"], term["op"], value))
        position = term.end()
    if any(op in ("eq", "ne") for _, op, _ in tests) and len({op for _, op, _ in tests}) > 1:
        raise NoFilter("the two kinds of expressions can't be mixed")

    def matches(resource: Mapping[str, Any]) -> bool:
        return all(_holds(resource, *test) for test in tests)

    return matches


def _holds(resource: Mapping[str, Any], field: str, op: str, value: str) -> bool:
    found = [str(one) for one in _values(resource, field)]
    if op == ":" and value == "*":
        return bool(found)
    by_pattern = op in ("eq", "ne")
    equal = any(re.fullmatch(value, one) if by_pattern else value == one for one in found)
    return equal is not (op in ("!=", "ne"))


def _values(resource: Any, field: str) -> Iterator[Any]:
    if isinstance(resource, list):
        for item in resource:
            yield from _values(item, field)
    elif not field:
        yield resource
    elif isinstance(resource, Mapping):
        name, _, rest = field.partition(".")
        if name == "labels":
            yield from (text for key, text in resource.get(name, {}).items() if key == rest)
        elif name in resource:
            yield from _values(resource[name], rest)
