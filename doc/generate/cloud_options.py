"""The manual's tables of the clouds' own options, from their declarations."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import ModuleType

from nodemanager.cloud.declared import CloudOption

CLOUDS = ("azure", "ec2", "gce", "libvirt", "openstack")
DECLARED_IN = {
    "Cloud Credentials": ("Credentials", "Access"),
    "Cloud List": ("ListFilter",),
    "Cloud Create": ("Template", "NodeSettings"),
}
"""The dataclasses of a cloud's module `options` whose fields are options of the section."""

_TABLE = """\
.. begin {section}

.. list-table::
   :header-rows: 1
   :widths: 28 72

   * - key
     - meaning
{rows}
.. end {section}
"""


def options(cloud: str, section: str) -> Mapping[str, CloudOption]:
    """The options of that section, in their order."""
    found: Mapping[str, CloudOption] = _module(cloud).SECTIONS[section]
    return found


def text(cloud: str, section: str, key: str) -> str:
    """What the option is for: its declaration's own text, or the docstring of its field."""
    declared = options(cloud, section)[key]
    told = declared.text or _docstrings(cloud, section).get(key, "")
    return " ".join(f"{told} {f'Takes {declared.says}.' if declared.says else ''}".split())


@cache
def _docstrings(cloud: str, section: str) -> dict[str, str]:
    """The docstrings of the fields by which a section is declared; Python keeps none of them."""
    found = {}
    declared_in = (getattr(_module(cloud), name, None) for name in DECLARED_IN[section])
    for made in filter(None, declared_in):
        (body,) = ast.parse(inspect.getsource(made)).body
        assert isinstance(body, ast.ClassDef)
        for one, after in zip(body.body, body.body[1:], strict=False):
            if isinstance(one, ast.AnnAssign) and isinstance(after, ast.Expr):
                found[ast.unparse(one.target)] = str(ast.literal_eval(after.value))
    return found


def _module(cloud: str) -> ModuleType:
    return import_module(f"nodemanager.cloud.{cloud}.options")


def page(cloud: str) -> str:
    """The tables of a cloud as reStructuredText, one after the other."""
    tables = []
    for section in DECLARED_IN:
        rows = [
            f"   * - {_names(key, declared)}\n     - {told}{_default(declared)}"
            for key, declared in options(cloud, section).items()
            if (told := text(cloud, section, key))
        ]
        tables.append(_TABLE.format(section=section, rows="\n".join(rows)) if rows else "")
    return "\n".join(table for table in tables if table)


def _names(key: str, declared: CloudOption) -> str:
    return ", ".join(f"``{name.replace('?*', 'NAME')}``" for name in (key, *declared.also))


def _default(declared: CloudOption) -> str:
    value = declared.default
    if isinstance(value, bool):
        value = "yes" if value else "no"
    plain = isinstance(value, str | int | float) and value != ""
    return f" Default ``{value}``." if plain else ""
