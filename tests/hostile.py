"""What others may say, by name: every port is fed all of it."""

from __future__ import annotations

from typing import Any


def deep(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


HALF = "caf\udce9"
"""Text with half a surrogate pair, as a byte that is no UTF-8 is read."""

TEXTS: dict[str, str] = {
    "half": HALF,
    "nul": "a\x00b",
    "lines": "a\nb\r\x1b[2J\u202e",
    "long": "x" * 100_000,
    "empty": "",
    "markup": "<img src=x onerror=alert(1)>{{7*7}}'\";--",
    "equals": "event=record.cleaned record=r1",
    "path": "../../../etc/passwd",
    "astral": "\U0001f4a9" * 10,
}
NUMBERS: dict[str, Any] = {
    "huge": 10**400,
    "minus-huge": -(10**400),
    "beyond-64-bits": 2**70,
    "nan": float("nan"),
    "infinite": float("inf"),
    "minus-infinite": float("-inf"),
    "float-max": 1.7e308,
    "negative": -1,
    "year-10000": 253_402_300_800,
    "year-0": -62_167_219_201,
    "nanoseconds": 9_223_372_036_854_775_807,
    "true": True,
}
OTHERS: dict[str, Any] = {
    "none": None,
    "deep": deep(500),
    "list": ["a", {"b": [None]}],
    "wide": {str(number): number for number in range(5000)},
    "bytes": b"\xff\xfe",
}
VALUES: dict[str, Any] = {**TEXTS, **NUMBERS, **OTHERS}
