"""Reads the pass-through sections of a file, and keeps the problems found in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nodemanager.cloud.cloud_config import CloudConfig
from nodemanager.cloud.declared import CloudOption
from nodemanager.errors import ConfigError

CREDENTIALS = "Cloud Credentials"
LIST = "Cloud List"
CREATE = "Cloud Create"


class SectionReader:
    """One section's values by the options' first names, and the problems found in them."""

    def __init__(
        self,
        section: str,
        values: Mapping[str, str],
        problems: list[str],
        options: Mapping[str, CloudOption],
    ) -> None:
        self.section = section
        self.values = dict(values)
        self.problems = problems
        self.options = options
        self._called: dict[str, str] = {}
        for name, declared in options.items():
            for other in declared.also:
                if other in values:
                    if name in self.values:
                        self.wrong(other, f"means the same as {name}, which is given, too")
                        continue
                    self.values[name] = self.values.pop(other)
                    self._called[name] = other

    def wrong(self, key: str, why: str, value: str | None = None) -> None:
        """Tell a problem of an option, by the name that the file has for it."""
        shown = f" = {value}" if value is not None else ""
        self.problems.append(f"[{self.section}] {self._called.get(key, key)}{shown}: {why}")

    def text(self, key: str) -> str | None:
        return self.values.get(key, "").strip() or None

    def read(self, options: Mapping[str, CloudOption] | None = None) -> dict[str, Any]:
        """The values of those options, by default of all; a default for what is wrong."""
        return {
            key: self._value(key, declared)
            for key, declared in (self.options if options is None else options).items()
        }

    def _value(self, key: str, declared: CloudOption) -> Any:
        text = self.text(key)
        if text is None:
            if declared.missing:
                self.wrong(key, declared.missing)
            return declared.default
        try:
            return declared.kind(text)
        except ValueError as error:
            self.wrong(key, str(error), None if declared.hidden else text)
            return declared.default


@dataclass(frozen=True, slots=True)
class Sections:
    """The three pass-through sections of a file, whose problems are told together."""

    credentials: SectionReader
    listing: SectionReader
    create: SectionReader

    @classmethod
    def of(cls, config: CloudConfig, declared: Mapping[str, Mapping[str, CloudOption]]) -> Sections:
        problems: list[str] = []
        given = {
            CREDENTIALS: config.credentials,
            LIST: config.listing,
            CREATE: config.create,
        }
        return cls(
            *(
                SectionReader(section, values, problems, declared[section])
                for section, values in given.items()
            )
        )

    def check(self) -> None:
        """Raises ConfigError with every problem that was found so far."""
        if self.create.problems:
            raise ConfigError(self.create.problems)
