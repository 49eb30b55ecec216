"""doc/rules.rst names code that is there, and each rule that core decides has a named test."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RULES = (ROOT / "doc" / "rules.rst").read_text(encoding="utf-8")
NAMES = sorted(set(re.findall(r"``((?:\w+\.)+\w+)``", RULES)))
BY_CORE = [
    "T1 T2 T3 T4 T6 T7",
    "C0 C1 C2 C3 C4 C5 C6 C7 C8 C9 C10 C11 C12 C20 C21 C22",
    "U1 U2 U3 U6 U7 U8 P1 P2 P3 P4 P5 P6 L1 L2 L3 L4 L5 B2 B3",
    "D1 D2 D3 D4 D5 D6 D7 D8 D9 D10 D11 D13 D14 D15 S4 O1 O2 O3 O4 O5 O6",
]


@pytest.mark.parametrize("name", NAMES)
def test_what_a_rule_is_decided_by_is_there(name: str) -> None:
    module, _, member = name.rpartition(".")
    assert hasattr(importlib.import_module(f"nodemanager.{module}"), member)


def test_no_rule_is_told_twice() -> None:
    ids = re.findall(r"^   \* - ([A-Z]\d+)$", RULES, re.MULTILINE)
    assert len(ids) == len(set(ids)) > 50


@pytest.mark.parametrize("rule", " ".join(BY_CORE).split())
def test_each_rule_that_core_decides_has_a_row_and_a_named_test(rule: str) -> None:
    tests = "\n".join(one.read_text() for one in (ROOT / "tests" / "core").rglob("test_*.py"))
    assert re.search(rf"^   \* - {rule}$", RULES, re.MULTILINE)
    named = {part for name in re.findall(r"def test_(\w+)", tests) for part in name.split("_")}
    assert rule.lower() in named
