"""Google's own description of its APIs, and what in a request or an answer contradicts it.

The descriptions are the discovery documents that google-api-python-client ships: of compute v1, and
of the two APIs that tell which permissions one has.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import googleapiclient

BASES = {"compute": "/compute/v1/", "cloudresourcemanager": "/", "iam": "/"}
"""Where each API begins; all of them are v1."""
_PLACE = re.compile(r"\{(\+?)(\w+)\}")
_WHOLE = re.compile(r"-?\d+")
SYSTEM_PARAMETERS = frozenset({"$alt"})
"""Query parameters of every Google API that the document does not list."""


@functools.cache
def document(api: str = "compute") -> dict[str, Any]:
    folder = Path(googleapiclient.__file__).parent / "discovery_cache/documents"
    found: dict[str, Any] = json.loads((folder / f"{api}.v1.json").read_text(encoding="utf-8"))
    return found


@dataclass(frozen=True)
class Method:
    """One method of an API; `id` is as in `compute.instances.insert`."""

    api: str
    id: str
    verb: str
    path: re.Pattern[str]
    parameters: Mapping[str, Any]
    body: Mapping[str, Any] | None
    answer: Mapping[str, Any] | None
    scopes: frozenset[str]
    """A token with any of them may call it."""

    @property
    def name(self) -> str:
        return self.id.removeprefix("compute.")


@functools.cache
def _methods() -> dict[tuple[str, int], list[Method]]:
    """By verb and number of slashes in the path."""
    found: dict[tuple[str, int], list[Method]] = {}

    def walk(api: str, resources: Mapping[str, Any]) -> None:
        for resource in resources.values():
            for spec in resource.get("methods", {}).values():
                pattern = BASES[api] + _PLACE.sub(partial(_place, spec), spec["path"])
                method = Method(
                    api,
                    spec["id"],
                    spec["httpMethod"],
                    re.compile(pattern),
                    spec.get("parameters", {}),
                    spec.get("request"),
                    spec.get("response"),
                    frozenset(spec.get("scopes", ())),
                )
                key = (method.verb, (BASES[api] + spec["flatPath"]).count("/"))
                found.setdefault(key, []).append(method)
            walk(api, resource.get("resources", {}))

    for api in BASES:
        walk(api, document(api)["resources"])
    return found


def find(verb: str, path: str) -> tuple[Method, dict[str, str]] | None:
    """The method that a request calls, and the parameters in its path; None for no such method."""
    candidates = _methods().get((verb, path.count("/")), [])
    # A literal segment goes before a parameter: `images/family/x` is not an image.
    for method in sorted(candidates, key=lambda one: one.path.pattern.count("(?P<")):
        if match := method.path.fullmatch(path):
            return method, match.groupdict()
    return None


def wrong_in_request(
    method: Method, path: Mapping[str, str], query: Mapping[str, str], body: object
) -> list[str]:
    """What contradicts the document in a request; `body` is None where there is none."""
    wrong = []
    declared = method.parameters
    for name, spec in declared.items():
        place = spec["location"]
        value = (path if place == "path" else query).get(name)
        if value is None:
            if spec.get("required"):
                wrong.append(f"{name} is missing")
            continue
        wrong += _wrong_parameter(spec, value, name)
    known = {*declared, *document(method.api)["parameters"], *SYSTEM_PARAMETERS}
    wrong += [f"unknown parameter {name}" for name in query if name not in known]
    if method.body is None:
        wrong += [] if body is None else ["a body where none is taken"]
    elif body is not None:
        wrong += _wrong(_placed(method.body, method.api), body, "body", method.id)
    return [f"{method.id}: {line}" for line in wrong]


def wrong_in_answer(method: Method, answer: object) -> list[str]:
    """What contradicts the document in an answer that is no error."""
    if method.answer is None:
        return []
    found = _wrong(_placed(method.answer, method.api), answer, "answer", None)
    return [f"{method.id}: {line}" for line in found]


def has_field(schema: str, dotted: str) -> bool:
    """Whether resources of that schema have such a field, as filters name it."""
    spec = document()["schemas"][schema]
    for name in dotted.split(".", 1) if dotted.startswith("labels.") else dotted.split("."):
        spec = _resolved(spec)
        if spec.get("type") == "array":
            spec = _resolved(spec["items"])
        if name in spec.get("properties", {}):
            spec = spec["properties"][name]
        elif "additionalProperties" in spec:
            spec = spec["additionalProperties"]
        else:
            return False
    return True


def _place(spec: Mapping[str, Any], match: re.Match[str]) -> str:
    """A parameter in a path; one with a plus has several segments, by its own pattern."""
    inside = spec["parameters"][match[2]]["pattern"].strip("^$") if match[1] else "[^/]+"
    return f"(?P<{match[2]}>{inside})"


def _resolved(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in spec:
        spec = document()["schemas"][spec["$ref"]]
    return spec


def _placed(spec: Mapping[str, Any], api: str) -> Mapping[str, Any]:
    """The body's or answer's own schema, from its own document."""
    found: Mapping[str, Any] = document(api)["schemas"][spec["$ref"]]
    return found


def _wrong_parameter(spec: Mapping[str, Any], text: str, name: str) -> Iterator[str]:
    if "pattern" in spec and not re.fullmatch(spec["pattern"], text):
        yield f"{name} = {text} does not match {spec['pattern']}"
    if spec["type"] == "integer":
        if not _WHOLE.fullmatch(text):
            yield f"{name} = {text} is no whole number"
        elif not int(spec.get("minimum", 0)) <= int(text) <= int(spec.get("maximum", 2**63)):
            yield f"{name} = {text} is out of range"
    if spec["type"] == "boolean" and text not in ("true", "false"):
        yield f"{name} = {text} is no boolean"


def _wrong(spec: Mapping[str, Any], value: object, where: str, asked: str | None) -> Iterator[str]:
    """`asked` is the method whose body it is; None for an answer."""
    output_only = "[Output Only]" in spec.get("description", "")[:40]
    if asked is not None and output_only and where != "body":
        yield f"{where} is for output only"
    spec = _resolved(spec)
    match spec.get("type"):
        case "object":
            if isinstance(value, dict):
                yield from _wrong_fields(spec, value, where, asked)
            else:
                yield f"{where} is no object"
        case "array":
            if not isinstance(value, list):
                yield f"{where} is no array"
                return
            for position, item in enumerate(value):
                yield from _wrong(spec["items"], item, f"{where}[{position}]", asked)
        case "string":
            yield from _wrong_text(spec, value, where)
        case "integer":
            if not isinstance(value, int) or isinstance(value, bool):
                yield f"{where} is no integer"
        case "number":
            if not isinstance(value, int | float) or isinstance(value, bool):
                yield f"{where} is no number"
        case "boolean":
            if not isinstance(value, bool):
                yield f"{where} is no boolean"


def _wrong_fields(
    spec: Mapping[str, Any], value: Mapping[str, Any], where: str, asked: str | None
) -> Iterator[str]:
    known, others = spec.get("properties", {}), spec.get("additionalProperties")
    for name, item in value.items():
        inner = known.get(name, others)
        if inner is None:
            yield f"{where}.{name} is unknown"
        else:
            yield from _wrong(inner, item, f"{where}.{name}", asked)
    for name, inner in known.items():
        needed = asked in inner.get("annotations", {}).get("required", [])
        if asked is not None and needed and name not in value:
            yield f"{where}.{name} is missing"


def _wrong_text(spec: Mapping[str, Any], value: object, where: str) -> Iterator[str]:
    if not isinstance(value, str):
        yield f"{where} is no string"
        return
    if spec.get("format") in ("int64", "uint64") and not _WHOLE.fullmatch(value):
        yield f"{where} = {value} is no whole number"
    if "enum" in spec and value not in spec["enum"]:
        yield f"{where} = {value} is not one of {', '.join(spec['enum'])}"
    if "pattern" in spec and not re.fullmatch(spec["pattern"], value):
        yield f"{where} = {value} does not match {spec['pattern']}"
