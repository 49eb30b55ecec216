"""The common form of all problems: `FILE:LINE: [Section] option = value: what is wrong`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nodemanager.config.values import without_user_info
from nodemanager.lib.redact import MASK

LONGEST_SHOWN = 120


@dataclass(frozen=True, slots=True)
class Place:
    """The origin of an effective value. `line` is None for a default.

    `written` is the value to be shown, masked where it is a secret. `adjusted` means that another
    value is in force.
    """

    section: str
    option: str
    written: str
    line: int | None = None
    adjusted: bool = False

    def __str__(self) -> str:
        return f"[{self.section}] {self.option} = {self.written}".rstrip()


@dataclass(slots=True)
class Report:
    """Collects problems and warnings and gives them in the order of the file's lines.

    `unset` is the word for a value that the file does not give.
    """

    path: Path
    unset: str = "default"
    _problems: list[tuple[int, str]] = field(default_factory=list)
    _warnings: list[tuple[int, str]] = field(default_factory=list)

    @property
    def problems(self) -> list[str]:
        return self._finished(self._problems)

    @property
    def warnings(self) -> list[str]:
        return self._finished(self._warnings)

    def at_line(self, line: int, text: str) -> None:
        self._problems.append((line, text))

    def wrong(self, place: Place, text: str) -> None:
        self._problems.append((place.line or 1, f"{place}: {text}"))

    def warn(self, place: Place, text: str) -> None:
        self._warnings.append((place.line or 1, f"{place}: {text}"))

    def clash(self, one: Place, other: Place, text: str, *, refuse: bool = True) -> None:
        """Report two options that contradict each other, at the line of the later one.

        In `text`, `{one}` and `{other}` stand for the two options.
        """
        later = one if (one.line or 0) >= (other.line or 0) else other
        names = {
            "one": "this" if later is one else self._named(one),
            "other": "this" if later is other else self._named(other),
        }
        (self.wrong if refuse else self.warn)(later, text.format(**names))

    def _named(self, place: Place) -> str:
        where = self.unset if place.line is None else f"line {place.line}"
        return f"{place} ({where})"

    def _finished(self, found: list[tuple[int, str]]) -> list[str]:
        lines = (
            f"{self.path}:{at}: {text}" for at, text in sorted(found, key=lambda each: each[0])
        )
        return list(dict.fromkeys(lines))


def shown(value: str, *, secret: bool) -> str:
    """A written value to be shown in a message: on one line, without secrets."""
    if secret:
        return MASK if value else ""
    value = without_user_info(" ".join(value.split()))
    return value if len(value) <= LONGEST_SHOWN else value[: LONGEST_SHOWN - 3] + "..."


Places = Mapping[tuple[str, str], Place]
"""Places by section and option."""
