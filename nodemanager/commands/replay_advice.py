"""What was recorded, and what a replay advises, in the words that every output shows."""

from __future__ import annotations

import dataclasses
from typing import Any

from nodemanager.commands.replay_result import WINDOW, ReplayResult, hours
from nodemanager.commands.replay_values import duration, is_duration
from nodemanager.config.deciding import VARIABLE
from nodemanager.config.options import Option
from nodemanager.core.model.settings import Settings
from nodemanager.core.replay.advice import Advice, CandidateValue, Counsel, advise
from nodemanager.core.replay.worth import Balance
from nodemanager.logline import span

LONG_ENOUGH_S = 7 * 86400.0
"""A recording that is shorter may lack what happens once a week."""
_DEFAULTS = {one.name: one.default for one in dataclasses.fields(Settings)}


def settings_of(result: ReplayResult) -> dict[str, str]:
    """The recorded value of every option that a replay can vary, as in a file."""
    settings = result.outline.settings
    return {one.name: _shown(one, getattr(settings, one.field)) for one in VARIABLE}


def changed_settings_of(result: ReplayResult) -> dict[str, str]:
    """Of these, the ones that differ from their default; the window always."""
    settings, shown = result.outline.settings, settings_of(result)
    return {
        one.name: shown[one.name]
        for one in VARIABLE
        if one.name == WINDOW or getattr(settings, one.field) != _DEFAULTS[one.field]
    }


def _shown(option: Option, value: Any) -> str:
    if value is None:
        return ""
    if is_duration(option) and isinstance(value, (int, float)):
        return duration(value)
    return option.kind.show(option.deciding.to_option(value))


def advice_of(result: ReplayResult) -> Advice:
    recorded = _candidate(result.recorded_label, result.recorded)
    tried = [_candidate(row.tried.label, row.balance) for row in result.rows]
    return advise(recorded, tried)


def _candidate(label: str, balance: Balance) -> CandidateValue:
    return CandidateValue(label, balance.slot_s, len(balance.hits))


def advice_in_words(result: ReplayResult) -> str:
    """The advice, and how far it reaches."""
    advice = advice_of(result)
    best, limit, decimals = advice.best, advice.limit, result.decimals
    gain = f"{hours(abs(best.slot_s), decimals).lstrip('+')} slot-hours"
    match advice.counsel:
        case Counsel.TRY:
            window = result.outline.settings.node_stale_after
            around = f"{duration(window / 4)}..{duration(window * 4)}"
            return f"Advice: see what other windows would have done: --sweep {WINDOW}={around}."
        case Counsel.KEEP if limit is None:
            said = f"keep {best.label}: no value that was tried frees slots sooner."
        case Counsel.KEEP:
            assert limit is not None
            said = f"keep {best.label}: {limit.label} frees slots sooner, but {_hits(limit)}."
        case Counsel.SOONER:
            said = f"{best.label} frees slots sooner, by {gain} in all, and {_hits(best)}."
        case Counsel.FEWER_HITS:
            when = "sooner" if best.slot_s > 0 else "later"
            said = f"{best.label} {_hits(best)}, and {result.recorded_label} more; slots are free "
            said += f"{when} by {gain} in all." if best.slot_s else "at the same time."
    if limit is not None and advice.counsel is not Counsel.KEEP:
        said += f" Leave a margin to {limit.label}, which {_hits(limit)}."
    lasted = result.outline.last - result.outline.first
    if lasted < LONG_ENOUGH_S:
        said += f" The recording has {span(lasted)}: what happens less often is not in it."
    return f"Advice: {said}"


def _hits(one: CandidateValue) -> str:
    if not one.hits:
        return "hits no living node"
    return f"hits {one.hits} living node{'s' if one.hits > 1 else ''}"
