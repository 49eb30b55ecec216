"""The options that decisions depend on, and the fields of core's Settings that they fill.

The sections declare them, both for a daemon that starts from a file and for a replay that tries
other values. A replay reads `Section.option=value` by the same declarations as a line of a file,
and checks the result for the same contradictions (S1).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nodemanager.config import kinds
from nodemanager.config.checks import POLLS, check_all
from nodemanager.config.ini import IniFile, IniOption
from nodemanager.config.options import AS_POLLED, Option
from nodemanager.config.reader import Draft, read_all
from nodemanager.config.report import Place, Report
from nodemanager.config.sections import PASS_THROUGH, SECTIONS
from nodemanager.config.settings import Config
from nodemanager.core.model.settings import Settings
from nodemanager.errors import ConfigError
from nodemanager.lib.near import did_you_mean

ELSEWHERE = "no decision depends on it"
AS_RECORDED = "it stays as recorded"

DECIDING = tuple(one for each in SECTIONS for one in each.options if one.decides is not None)
VARIABLE = tuple(one for one in DECIDING if one.deciding.fixed is None)


def fields_of(config: Config) -> dict[str, Any]:
    """The fields of Settings that the configuration gives; without visible_after when blank."""
    sections = {each.name: getattr(config, each.attribute) for each in SECTIONS}
    values = [(one, getattr(sections[one.section], one.attribute)) for one in DECIDING]
    return {one.field: one.deciding.to_field(value) for one, value in values if value is not None}


# Other values.


@dataclass(frozen=True)
class Variation:
    """Other settings: `changes` by field of Settings, and `warnings` about adjustments (S1)."""

    changes: Mapping[str, Any]
    warnings: tuple[str, ...] = ()


def find(name: str) -> Option | None:
    """The option of this name, with or without its section, if a replay can vary it."""
    section, _, option = name.rpartition(".")
    return next(
        (
            one
            for one in VARIABLE
            if one.name == option.strip().lower() and section.strip() in ("", one.section)
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
    """The changes to `settings` that each `[Section.]option=value` of `given` makes.

    `poll_s` is the usual time between polls in seconds, where it is known. Raises ConfigError with
    every problem, each as `SOURCE:NUMBER: [Section] option = value: what is wrong`.
    """
    report = Report(Path(source), unset="as recorded")
    ini = _as_file(given, report)
    draft = Draft(ini, report, report, settings.pool, {})
    read_all(draft, require_cloud=False)
    _refuse_others(draft)
    _fill_in(draft, settings, poll_s)
    check_all(draft)
    if report.problems:
        raise ConfigError(report.problems)
    changes: dict[str, Any] = {}
    for one in VARIABLE:
        place = draft.place(one.section, one.name)
        value = draft.value(one.section, one.name)
        if value is None or (place.line is None and not place.adjusted):
            continue
        field = one.deciding.to_field(value)
        if field != getattr(settings, one.field):
            changes[one.field] = field
    return Variation(changes, tuple(report.warnings))


def _as_file(given: Sequence[str], report: Report) -> IniFile:
    """The texts as though each were a line of a file, under its section."""
    sections: dict[str, list[IniOption]] = {}
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
                known = [one.name for one in VARIABLE]
                report.at_line(number, f"{text}: no such option{did_you_mean(option, known)}")
                continue
            section = found
        sections.setdefault(section, []).append(IniOption(number, option, value.strip()))
        lines.setdefault(section, number)
    return IniFile(report.path, sections, lines, [])


def _section_of(option: str) -> str | None:
    """The section of an option named without one; prefers an option that a replay can vary."""
    found = find(option)
    if found is not None:
        return found.section
    return next((one.name for one in SECTIONS if one.option(option) is not None), None)


def _refuse_others(draft: Draft) -> None:
    """Report every given option that a replay can't vary."""
    variable = {(one.section, one.name): one for one in VARIABLE}
    why = {(one.section, one.name): one.deciding.fixed for one in DECIDING}
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
    """Set every option that was not given to its recorded value."""
    for one in DECIDING:
        key = (one.section, one.name)
        place = draft.places[key]
        if place.line is None:
            value = one.deciding.to_option(getattr(settings, one.field))
            draft.values[key] = value
            written = "" if value is None else one.kind.show(value)
            draft.places[key] = dataclasses.replace(place, written=written)
    # The recorded windows did not contradict the recorded polls.
    poll_s = min(poll_s or 0.0, settings.settle, settings.poll_stale_after / 2)
    if poll_s >= 1:
        # Measured: one that was set to a second took a moment more.
        poll_s = math.floor(poll_s * 10) / 10
    for name in ("poll_time", *POLLS):
        if draft.place("Daemon", name).line is None:
            shown = kinds.show_number(round(poll_s, 3))
            draft.values["Daemon", name] = poll_s
            draft.places["Daemon", name] = Place("Daemon", name, shown)
    # The recording itself has the number of slots.
    draft.values["Registry", "slots"] = None
