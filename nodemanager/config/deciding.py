"""The options that decisions are taken by: each with the field of core's Settings that it fills.

One list, for the daemon that starts on a file and for a replay that asks what another value would
have given. A replay reads `Section.option=value` by the same declarations, and holds the result
against the same contradictions (S1), as a line of a file.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nodemanager.config import kinds
from nodemanager.config.checks import POLLS, check_all
from nodemanager.config.ini import Entry, IniFile
from nodemanager.config.kinds import did_you_mean
from nodemanager.config.options import Option
from nodemanager.config.reader import Draft, read_all
from nodemanager.config.report import Place, Report
from nodemanager.config.sections import PASS_THROUGH, SECTIONS
from nodemanager.config.settings import Config
from nodemanager.config.values import AdoptUnclaimed, Backlog
from nodemanager.core.settings import Settings
from nodemanager.errors import ConfigError

_ADOPT = {AdoptUnclaimed.YES: True, AdoptUnclaimed.NO: False, AdoptUnclaimed.AUTO: None}
_ADOPTED = {value: name for name, value in _ADOPT.items()}


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class Deciding:
    """An option, the field of Settings it fills, and both ways between their values.

    `fixed` says why a replay can't give it another value.
    """

    section: str
    option: str
    field: str
    to_field: Callable[[Any], Any] = _same
    to_option: Callable[[Any], Any] = _same
    fixed: str | None = None

    @property
    def declared(self) -> Option:
        section = next(one for one in SECTIONS if one.name == self.section)
        found = section.option(self.option)
        assert found is not None
        return found


def _daemon(option: str, fixed: str | None = None) -> Deciding:
    return Deciding("Daemon", option, option, fixed=fixed)


def _cleaning(option: str, fixed: str | None = None) -> Deciding:
    return Deciding("Cleaning", option, option, fixed=fixed)


AS_POLLED = "the recording has the polls that it has"
AS_LONG = "how long actions took is as recorded"
ELSEWHERE = "no decision rests on it"
AS_RECORDED = "that is as recorded"

DECIDING: tuple[Deciding, ...] = (
    _daemon("node_stale_after"),
    _daemon("poll_stale_after"),
    _daemon("boot_fail_after"),
    _daemon("min_nodes"),
    _daemon("max_nodes"),
    _daemon("max_total_price"),
    _daemon("max_poll_time", fixed=AS_POLLED),
    _daemon("consecutive_idle_count"),
    _daemon("node_mem_scaling"),
    Deciding(
        "Cloud",
        "shutdown_windows",
        "shutdown_windows",
        lambda windows: tuple(length for length in windows if math.isfinite(length)),
    ),
    _cleaning("settle"),
    _cleaning("absent_listings"),
    _cleaning("collapse_fraction"),
    _cleaning("max_cleans_per_cycle"),
    _cleaning("max_shutdowns_per_cycle"),
    _cleaning("action_timeout", fixed=AS_LONG),
    _cleaning("max_retry_after", fixed=AS_POLLED),
    _cleaning("visible_after"),
    _cleaning("claim_expiry"),
    _cleaning("prune_after", fixed="what is pruned holds no slot"),
    Deciding(
        "Cleaning",
        "adopt_unclaimed",
        "adopt_unclaimed",
        lambda adopt: _ADOPT[adopt],
        lambda adopts: _ADOPTED[adopts],
    ),
    Deciding(
        "Cleaning",
        "backlog",
        "hold_backlog",
        lambda backlog: backlog is Backlog.HOLD,
        lambda holds: Backlog.HOLD if holds else Backlog.CLEAN,
    ),
)

VARIABLE = tuple(one for one in DECIDING if one.fixed is None)


def fields_of(config: Config) -> dict[str, Any]:
    """The fields of Settings that the configuration gives; visible_after is left out when blank."""
    fields: dict[str, Any] = {}
    for one in DECIDING:
        section = next(each for each in SECTIONS if each.name == one.section)
        value = getattr(getattr(config, section.attribute), one.declared.attribute)
        if value is not None:
            fields[one.field] = one.to_field(value)
    return fields


# Other values.


@dataclass(frozen=True)
class Variation:
    """Other settings: `changes` by field of Settings, `warnings` of what was adjusted (S1)."""

    changes: Mapping[str, Any]
    warnings: tuple[str, ...] = ()


def find(name: str) -> Deciding | None:
    """The option that a replay can vary by this name, with or without its section."""
    section, _, option = name.rpartition(".")
    return next(
        (
            one
            for one in VARIABLE
            if one.option == option.strip().lower() and section.strip() in ("", one.section)
        ),
        None,
    )


def varied(
    settings: Settings,
    given: Sequence[str],
    *,
    poll_s: float | None = None,
    source: str = "--set",
) -> Variation:
    """What each `[Section.]option=value` of `given` makes of `settings`.

    `poll_s` is the usual time between polls, where it is known. Raises ConfigError with every
    problem, each as `SOURCE:NUMBER: [Section] option = value: what is wrong`.
    """
    report = Report(Path(source), unset="as recorded")
    ini = _as_file(given, report)
    draft = Draft(ini, report, settings.pool, {})
    read_all(draft, require_cloud=False)
    _refuse_others(draft)
    _fill_in(draft, settings, poll_s)
    check_all(draft)
    if report.problems:
        raise ConfigError(report.problems)
    changes: dict[str, Any] = {}
    for one in VARIABLE:
        place = draft.place(one.section, one.option)
        value = draft.value(one.section, one.option)
        if value is None or (place.line is None and not place.adjusted):
            continue
        field = one.to_field(value)
        if field != getattr(settings, one.field):
            changes[one.field] = field
    return Variation(changes, tuple(report.warnings))


def _as_file(given: Sequence[str], report: Report) -> IniFile:
    """As though each were a line of a file, under its section."""
    sections: dict[str, list[Entry]] = {}
    lines: dict[str, int] = {}
    for number, text in enumerate(given, start=1):
        name, separator, value = text.partition("=")
        section, _, option = name.strip().rpartition(".")
        if not separator or not option:
            report.at_line(number, f"{text}: write Section.option=value")
            continue
        if not section:
            found = _section_of(option)
            if found is None:
                known = [one.option for one in VARIABLE]
                report.at_line(number, f"{text}: no such option{did_you_mean(option, known)}")
                continue
            section = found
        sections.setdefault(section, []).append(Entry(number, option, value.strip()))
        lines.setdefault(section, number)
    return IniFile(report.path, sections, lines, [])


def _section_of(option: str) -> str | None:
    """Where an option is that was named without its section: one that can vary goes first."""
    found = find(option)
    if found is not None:
        return found.section
    return next((one.name for one in SECTIONS if one.option(option) is not None), None)


def _refuse_others(draft: Draft) -> None:
    """What is an option, and none that a replay can give another value."""
    variable = {(one.section, one.option): one for one in VARIABLE}
    why = {(one.section, one.option): one.fixed for one in DECIDING}
    why |= {("Daemon", name): AS_POLLED for name in ("poll_time", *POLLS)}
    why |= dict.fromkeys(
        (("Daemon", "wishlist_command"), ("Registry", "slots"), ("Records", "slots")), AS_RECORDED
    )
    for section in (*(one.name for one in SECTIONS), *PASS_THROUGH):
        for entry in draft.ini.sections.get(section, ()):
            place = next(
                (
                    one
                    for key, one in draft.places.items()
                    if key[0] == section and one.line == entry.line
                ),
                None,
            )
            if place is None or (section, place.option) in variable:
                continue
            reason = why.get((section, place.option)) or ELSEWHERE
            draft.report.wrong(place, f"a replay can't vary this: {reason}")
    for section in draft.ini.sections:
        if section.split(None, 1)[:1] == ["Size"]:
            line = draft.ini.lines[section]
            draft.report.at_line(line, f"[{section}]: a replay can't vary this: {AS_RECORDED}")


def _fill_in(draft: Draft, settings: Settings, poll_s: float | None) -> None:
    """What was not given is as recorded."""
    for one in DECIDING:
        key = (one.section, one.option)
        place = draft.places[key]
        if place.line is None:
            value = one.to_option(getattr(settings, one.field))
            draft.values[key] = value
            written = "" if value is None else one.declared.kind.show(value)
            draft.places[key] = dataclasses.replace(place, written=written)
    # The windows that were in force were no contradiction to the polls that were.
    poll_s = min(poll_s or 0.0, settings.settle, settings.poll_stale_after / 2)
    for name in ("poll_time", *POLLS):
        if draft.place("Daemon", name).line is None:
            shown = kinds.show_number(round(poll_s, 1))
            draft.values["Daemon", name] = poll_s
            draft.places["Daemon", name] = Place("Daemon", name, shown)
    # How many slots there were is in the recording.
    draft.values["Registry", "slots"] = None
