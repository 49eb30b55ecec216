"""The loaded configuration: frozen, typed, with an origin for every value."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nodemanager.config import ini, values
from nodemanager.config.check_addresses import PING_HOST
from nodemanager.config.checks import check_all
from nodemanager.config.providers import ALSO_CALLED, PROVIDERS, listed
from nodemanager.config.reader import Draft, read_all
from nodemanager.config.report import Place, Places, Report
from nodemanager.config.sections import SECTIONS, Sections, SizeSection
from nodemanager.errors import ConfigError
from nodemanager.lib import extras
from nodemanager.lib.near import did_you_mean

Accepts = Callable[[str], Mapping[str, frozenset[str]] | None]
"""Gives the keys that a provider's adapter takes in each pass-through section; None for an
unknown provider."""

SUFFIXES = (".cfg", ".ini")
_NAMED = re.compile(r"\[([^\]]+)\] (\S+?)(?=\s=|:\s|$)")


@dataclass(frozen=True, kw_only=True)
class Config(Sections):
    """The configuration of one file. Every time in it is in seconds.

    `warnings` are complete lines, for options that were adjusted (S1) or have no effect. `places`
    has the origin of every value, by section and option.
    """

    path: Path
    cloud_credentials: values.Credentials
    cloud_list: dict[str, str]
    cloud_create: dict[str, str]
    ping_host: values.ServerAddress | None
    sizes: tuple[SizeSection, ...]
    log_levels: dict[str, str]
    warnings: tuple[str, ...]
    places: Places = field(repr=False)
    lines: Mapping[str, int] = field(default_factory=dict, repr=False)
    """The line on which each section begins."""

    @property
    def pinged(self) -> values.ServerAddress | None:
        """Where nodes ping by the file's own words; None where it is the registry's address."""
        if self.ping_host is not None or self.records.provider is values.StoreProvider.ARVADOS:
            return self.ping_host
        return self.registry.public_url

    @property
    def slots(self) -> int:
        if self.records.provider is values.StoreProvider.ARVADOS:
            return self.records.slots
        return self.registry.slots

    def origin(self, section: str, option: str) -> str:
        """`FILE:LINE`, `default`, or `adjusted` where another value than the file's is in force."""
        place = self.places[section, option]
        if place.adjusted:
            return "adjusted"
        return "default" if place.line is None else f"{self.path}:{place.line}"


def load(
    path: str | os.PathLike[str],
    *,
    environ: Mapping[str, str] | None = None,
    accepts: Accepts | None = None,
    require_cloud: bool = True,
) -> Config:
    """The configuration in the file at `path`.

    Raises ConfigError with every problem of the file. With `accepts` it also checks the keys of
    the pass-through sections, refuses a cloud without an adapter, and names the extras that are
    not installed. `require_cloud` is False for
    a registry on its own, which needs no `[Cloud] provider`. `environ` gives STATE_DIRECTORY and
    CREDENTIALS_DIRECTORY.
    """
    report = Report(Path(path))
    draft = _read(report, report, environ, require_cloud=require_cloud)
    provider = draft.value("Cloud", "provider")
    accepted = accepts(provider) if accepts is not None and provider else None
    if accepts is not None and provider and accepted is None:
        report.wrong(draft.places["Cloud", "provider"], no_adapter(provider))
    for section, names in (accepted or {}).items():
        for place, text in _foreign(section, draft.keys[section], names, draft.places):
            report.wrong(place, text)
    if accepts is not None or not require_cloud:
        _need_extras(draft)
    if report.problems:
        raise ConfigError(report.problems)
    return _finished(draft)


@dataclass(frozen=True, kw_only=True)
class Reach:
    """What leads a command to the daemon of a file: its directory, its journal, its token.

    `problems` are those of the file, for which a daemon would not start: one that runs has the
    settings from before. `unread` are the files of secrets that can't be read by this user.
    """

    path: Path
    state_dir: Path
    journal: Path
    token: values.Secret | None
    problems: tuple[str, ...]
    unread: tuple[str, ...]


def reach(path: str | os.PathLike[str], *, environ: Mapping[str, str] | None = None) -> Reach:
    """What leads to the daemon of the file at `path`, whatever else is wrong in it.

    A mistake in the file, or a secret's file that only the service may read, must not keep an
    operator from looking or from `pause`. Raises ConfigError with every problem of the file where
    one may hide which daemon is meant.
    """
    path = Path(path)
    report, unread = Report(path), Report(path)
    draft = _read(report, unread, environ, require_cloud=True)
    leads = [draft.value(section, option) for section, option in _LEAD]
    if report.problems and (None in leads or _is_doubtful(draft)):
        raise ConfigError(report.problems + unread.problems)
    _, state_dir, journal = leads
    return Reach(
        path=path,
        state_dir=state_dir,
        journal=journal,
        token=draft.value("Manage", "ManagementToken"),
        problems=tuple(report.problems),
        unread=tuple(unread.problems),
    )


_LEAD = (("Daemon", "pool"), ("Daemon", "state_dir"), ("Journal", "path"))
"""The options that say which daemon is meant."""


def _is_doubtful(draft: Draft) -> bool:
    """Whether an option that says which daemon is meant stands twice, or in another section."""
    for section, option in _LEAD:
        known = [each.name for each in SECTIONS if each.option(option)]
        found = [
            name
            for name, entries in draft.ini.sections.items()
            for entry in entries
            if entry.name.lower() == option and (name == section or name not in known)
        ]
        if found not in ([], [section]):
            return True
    return False


def _read(
    report: Report, unread: Report, environ: Mapping[str, str] | None, *, require_cloud: bool
) -> Draft:
    """All that the file of `report` says. Raises ConfigError where it is no text."""
    read = ini.read(report.path)
    for line, text in read.problems:
        report.at_line(line, text)
    environ = os.environ if environ is None else environ
    draft = Draft(read, report, unread, pool_name_of(report.path), environ)
    read_all(draft, require_cloud=require_cloud)
    check_all(draft)
    return draft


def _need_extras(draft: Draft) -> None:
    """Report the extras that the file needs and that are not installed."""

    def value(section: str, option: str) -> str:
        if section in draft.keys:
            return draft.keys[section].get(option, "")
        found = draft.value(section, option)
        return found.reveal() if isinstance(found, values.Secret) else str(found or "")

    for need in extras.needs(value):
        if not extras.is_installed(need.extra):
            draft.report.wrong(draft.place(need.section, need.option), extras.lacks(need.extra))


def no_adapter(provider: str) -> str:
    """What is wrong with that `[Cloud] provider`."""
    meant = ALSO_CALLED.get(provider.lower(), provider)
    hint = did_you_mean(meant, [*PROVIDERS])
    return f"there is no adapter for this cloud; there are {listed('and')}{hint}"


def located(config: Config, problems: Iterable[str]) -> list[str]:
    """An adapter's problems (`[Section] key...: what is wrong`), each with its file and line."""
    finished = []
    for problem in problems:
        named = _NAMED.match(problem)
        place = config.places.get((named[1], named[2])) if named else None
        line = config.lines.get(named[1], config.lines.get("Cloud", 1)) if named else 1
        if place is not None and place.line is not None:
            line = place.line
        finished.append(f"{config.path}:{line}: {problem}")
    return finished


def pool_name_of(path: Path) -> str:
    """The pool of a file that names none: the file's name without .cfg or .ini."""
    return path.stem if path.suffix in SUFFIXES else path.name


def _foreign(
    section: str, keys: Iterable[str], accepted: Iterable[str], places: Places
) -> list[tuple[Place, str]]:
    names = sorted(accepted)
    if section == PING_HOST[0]:
        names.append(PING_HOST[1])
    found = []
    for key in keys:
        if not any(fnmatch.fnmatchcase(key, name) for name in names):
            hint = did_you_mean(key, [name for name in names if "*" not in name])
            found.append((places[section, key], f"the provider has no such key{hint}"))
    return found


def _finished(draft: Draft) -> Config:
    sections: dict[str, Any] = {
        section.attribute: section.type(
            **{
                option.attribute: draft.value(section.name, option.name)
                for option in section.options
            }
        )
        for section in SECTIONS
    }
    return Config(
        path=draft.ini.path,
        **sections,
        cloud_credentials=values.with_contents(draft.keys["Cloud Credentials"]),
        cloud_list=draft.keys["Cloud List"],
        cloud_create=draft.keys["Cloud Create"],
        ping_host=draft.value(*PING_HOST),
        sizes=tuple(draft.sizes),
        log_levels=draft.log_levels,
        warnings=tuple(draft.report.warnings),
        places=draft.places,
        lines=draft.ini.lines,
    )
