"""Reads the pass-through sections of a file, and keeps the problems found in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nodemanager.cloud.cloud_config import CloudConfig
from nodemanager.cloud.endpoint import Endpoint
from nodemanager.errors import ConfigError

CREDENTIALS = "Cloud Credentials"
LIST = "Cloud List"
CREATE = "Cloud Create"

_YES = {"1": True, "yes": True, "true": True, "on": True}
_NO = {"0": False, "no": False, "false": False, "off": False}


class SectionReader:
    """One section's values, and the problems found in them."""

    def __init__(self, section: str, values: Mapping[str, str], problems: list[str]) -> None:
        self.section = section
        self.values = values
        self.problems = problems

    def wrong(self, key: str, why: str, value: str | None = None) -> None:
        shown = f" = {value}" if value is not None else ""
        self.problems.append(f"[{self.section}] {key}{shown}: {why}")

    def text(self, key: str) -> str | None:
        return self.values.get(key, "").strip() or None

    def number(self, key: str) -> float | None:
        text = self.text(key)
        if text is None:
            return None
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if not 0 < number < float("inf"):
            self.wrong(key, "not a number above zero", text)
            return None
        return number

    def endpoint(self, key: str, default: str) -> Endpoint:
        """The address of an API; plain http is for loopback."""
        text = self.text(key) or default
        try:
            return Endpoint.parse(text, insecure=False)
        except ValueError as error:
            self.wrong(key, str(error).partition(", unless")[0], text)
            return Endpoint("", 443)

    def flag(self, key: str, default: bool = False) -> bool:
        text = self.text(key)
        if text is None:
            return default
        known = {**_YES, **_NO}.get(text.lower())
        if known is None:
            self.wrong(key, "neither yes nor no", text)
            return default
        return known


@dataclass(frozen=True, slots=True)
class Sections:
    """The three pass-through sections of a file, whose problems are told together."""

    credentials: SectionReader
    listing: SectionReader
    create: SectionReader

    @classmethod
    def of(cls, config: CloudConfig) -> Sections:
        problems: list[str] = []
        return cls(
            SectionReader(CREDENTIALS, config.credentials, problems),
            SectionReader(LIST, config.listing, problems),
            SectionReader(CREATE, config.create, problems),
        )

    def check(self) -> None:
        """Raises ConfigError with every problem that was found so far."""
        if self.create.problems:
            raise ConfigError(self.create.problems)
