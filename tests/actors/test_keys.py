"""Every key that the actors' lines and core's measures name is in the closed list."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import nodemanager
from nodemanager.core.model.keys import LogKey

pytestmark = pytest.mark.slow

PACKAGE = Path(nodemanager.__file__).parent
SOURCES = [
    path for room in ("actors", "core", "app") for path in sorted((PACKAGE / room).rglob("*.py"))
]
KEYS = {key.value for key in LogKey}


def keywords_of(call: ast.Call) -> Iterator[str]:
    for keyword in call.keywords:
        if keyword.arg not in (None, "level"):
            yield str(keyword.arg)


def keys_in(tree: ast.AST) -> Iterator[str]:
    """Keywords of `.event(...)` and `keep(...)`, and the literal keys of measures and details."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name in ("event", "keep", "failure", "listed"):
                yield from keywords_of(node)
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, (ast.AnnAssign, ast.AugAssign)):
            targets = [node.target]
        for target in targets:
            value = getattr(node, "value", None)
            if (
                isinstance(target, ast.Name)
                and target.id in ("measures", "detail", "fields", "summary", "merged")
                and isinstance(value, ast.Dict)
            ):
                yield from (str(key.value) for key in value.keys if isinstance(key, ast.Constant))


def test_every_key_that_a_line_names_is_in_the_closed_list() -> None:
    unknown = {
        f"{source.name}: {key}"
        for source in SOURCES
        for key in keys_in(ast.parse(source.read_text(encoding="utf-8")))
        if key not in KEYS
    }
    assert unknown == set()
