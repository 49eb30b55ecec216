"""A replay's result: its advice, numbers, times and hits as every output shows them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nodemanager.commands.replay_values import Sweep, Tried, is_duration, shown
from nodemanager.commands.times import time_text
from nodemanager.config.deciding import VARIABLE
from nodemanager.config.options import Option
from nodemanager.core.model.settings import Settings
from nodemanager.core.replay.advice import (
    WINDOWS,
    Advice,
    Basis,
    CandidateValue,
    Counsel,
    Window,
    advise,
)
from nodemanager.core.replay.evidence import Evidence
from nodemanager.core.replay.rounded import duration
from nodemanager.core.replay.whatif import Hit, Life
from nodemanager.core.replay.worth import Balance, Move, ReplayOutcome, weigh
from nodemanager.journal.reading import Outline
from nodemanager.journal.sweep import Replayed
from nodemanager.lib.logline import span, visible

RECORDED = "recorded"
WINDOW = "node_stale_after"

NOTES = (
    "Each hit is an upper bound: before a clean the cloud is asked about that very node (C11), and "
    "before a destroy the scheduler (D2); no journal has an answer that was not asked for.",
    "A slot that is free sooner would have been used sooner: what boots on it, and which jobs then "
    "run elsewhere, is not in the recording. Idle nodes are shut down as recorded.",
    "A clean or destroy with other settings is assumed to happen at once and never to fail, and a "
    "hit to be restored at once (U8); until then the breaker would have stopped all freeing.",
)


@dataclass(frozen=True)
class ComparedSettings:
    """One set of settings, compared with the recorded ones."""

    tried: Tried
    outcome: ReplayOutcome
    balance: Balance


@dataclass(frozen=True)
class ReplayResult:
    """Everything to be shown; `recorded` is the recorded outcome compared with itself."""

    path: str
    outline: Outline
    replayed: Replayed
    recorded: Balance
    rows: tuple[ComparedSettings, ...]
    sweep: Sweep | None
    basis: Basis | None = None
    """What the recording shows of the window that varies; None for another option."""

    @property
    def heading(self) -> str:
        if self.sweep is not None:
            return self.sweep.option.name
        return WINDOW if self._are_windows else "settings"

    @property
    def _are_windows(self) -> bool:
        return all(row.tried.value is not None for row in self.rows)

    @property
    def recorded_label(self) -> str:
        if self.sweep is None and self._are_windows:
            return f"{duration(self.outline.settings.node_stale_after)} ({RECORDED})"
        if self.sweep is None:
            return RECORDED
        return f"{shown(self.sweep.option, self.sweep.recorded)} ({RECORDED})"

    def value_of(self, changes: Mapping[str, Any]) -> float | None:
        """The window's value with these changes; None where no window varies."""
        if self.basis is None:
            return None
        field = self.basis.window.field
        return float(changes.get(field, getattr(self.outline.settings, field)))

    @property
    def decimals(self) -> int:
        """The number of decimals for hours; more for a short recording."""
        most = max((abs(row.balance.slot_s) / 3600 for row in self.rows), default=0.0)
        return 1 if most >= 10 else 2 if most >= 1 else 3

    @property
    def in_order(self) -> list[tuple[str, Balance, bool]]:
        """Label, balance, and whether it is the recorded one; a sweep's rows sorted by value."""
        rows = [(row.tried.label, row.balance, False) for row in self.rows]
        if self.sweep is None:
            return [(self.recorded_label, self.recorded, True), *rows]
        ordered = [
            (row.tried.value or 0.0, row.tried.label, row.balance, False)
            for row in self.rows
            if row.tried.value != self.sweep.recorded or row.tried.variation.changes
        ]
        ordered.append((self.sweep.recorded, self.recorded_label, self.recorded, True))
        ordered.sort(key=lambda one: one[0])
        return [(label, balance, is_recorded) for _, label, balance, is_recorded in ordered]


def result_of(
    path: str,
    outline: Outline,
    replayed: Replayed,
    tried: Sequence[Tried],
    sweep: Sweep | None,
    evidence: Evidence | None = None,
) -> ReplayResult:
    """`evidence` is that of the recording, where a window varies by itself."""
    rows = tuple(
        ComparedSettings(one, outcome, weigh(replayed.recorded, outcome, replayed.walls))
        for one, outcome in zip(tried, replayed.others, strict=True)
    )
    recorded = weigh(replayed.recorded, replayed.recorded, replayed.walls)
    window = window_of(tried)
    basis = None if window is None or evidence is None else window.basis(evidence)
    return ReplayResult(path, outline, replayed, recorded, rows, sweep, basis)


def window_of(tried: Sequence[Tried]) -> Window | None:
    """The window that varies, of several the first; None where none does."""
    changed = {field for one in tried for field in one.variation.changes}
    return next((one for one in WINDOWS.values() if one.field in changed), None)


# Numbers and times as they are shown.


def hours(seconds: float, decimals: int = 1) -> str:
    """Signed hours: `+12.5`, `0.0`."""
    value = round(seconds / 3600, decimals)
    return f"{value:+.{decimals}f}" if value else f"{0:.{decimals}f}"


COLUMNS = ("cleans", "sooner", "later", "not yet", "slot-hours", "boots", "boot-hours", "hits")


def numbers_of(balance: Balance, decimals: int) -> tuple[str, ...]:
    """The cells of a row, one for each of COLUMNS."""
    return (
        str(balance.cleans),
        str(balance.earlier),
        str(balance.later),
        str(balance.never),
        hours(balance.slot_s, decimals),
        f"{net:+d}" if (net := balance.boots - balance.boots_lost) else "0",
        hours(balance.boot_wait_s, decimals),
        str(len(balance.hits)),
    )


@dataclass
class LifeHit:
    """A record's life that went on, and the values under which it would have been freed."""

    first: Hit
    labels: list[str]


def hits_by_life(result: ReplayResult) -> list[LifeHit]:
    """Each life that was hit, once; the one freed longest before its sign of life comes first."""
    found: dict[str, LifeHit] = {}
    for label, balance, _ in result.in_order:
        for hit in balance.hits:
            one = found.setdefault(hit.life.key, LifeHit(hit, []))
            one.labels = [*dict.fromkeys((*one.labels, label))]
            one.first = min(one.first, hit, key=lambda each: each.freed_at)
    return sorted(found.values(), key=lambda one: one.first.freed_at - one.first.alive_at)


MOVE_COLUMNS = ("record", "slot", "host", "node", "by", "reason", RECORDED, "then", "sooner by")


def move_cells(move: Move, *, terminal: bool) -> tuple[str, ...]:
    """The cells of a row, one for each of MOVE_COLUMNS."""
    return (
        *_life_cells(move.life),
        move.by.value,
        move.reason.value if move.reason else "-",
        *(
            "not yet" if at is None else time_text(at, terminal=terminal)
            for at in (move.before, move.after)
        ),
        f"{'+' if move.gain_s >= 0 else '-'}{span(abs(move.gain_s))}",
    )


HIT_COLUMNS = ("record", "slot", "host", "node", "by", "freed", "pinged", "after", "under")


def hit_cells(one: LifeHit, *, terminal: bool) -> tuple[str, ...]:
    """The cells of a row, one for each of HIT_COLUMNS."""
    hit = one.first
    seen_at = time_text(hit.pinged_at or hit.alive_at, terminal=terminal)
    return (
        *_life_cells(hit.life),
        hit.by.value,
        time_text(hit.freed_at, terminal=terminal),
        seen_at if hit.pinged_at is not None else f"listed {seen_at}",
        span((hit.pinged_at or hit.alive_at) - hit.freed_at),
        visible(", ".join(one.labels)),
    )


def _life_cells(life: Life) -> tuple[str, ...]:
    slot = "-" if life.slot is None else str(life.slot)
    return visible(life.record), slot, visible(life.hostname or "-"), visible(life.node_id or "-")


# The recorded settings, and the advice.

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
    recorded = candidate(result.recorded_label, result.recorded, result.value_of({}))
    tried = [
        candidate(row.tried.label, row.balance, result.value_of(row.tried.variation.changes))
        for row in result.rows
    ]
    return advise(recorded, tried, result.basis)


def candidate(
    label: str, balance: Balance, value: float | None, warnings: tuple[str, ...] = ()
) -> CandidateValue:
    boots = balance.boots_lost - balance.boots
    return CandidateValue(label, balance.slot_s, len(balance.hits), value, boots, None, warnings)


def advice_in_words(result: ReplayResult) -> str:
    """The advice, and how far it reaches."""
    advice, basis = advice_of(result), result.basis
    best, limit = advice.best, advice.limit
    recorded = candidate(result.recorded_label, result.recorded, result.value_of({}))
    match advice.counsel:
        case Counsel.TRY:
            window = result.outline.settings.node_stale_after
            around = f"{duration(window / 4)}..{duration(window * 4)}"
            return (
                f"Advice: see what other windows would have done: --sweep {WINDOW}={around}. "
                "`nodemanager advise` has a line for every window."
            )
        case Counsel.KEEP | Counsel.NO_EVIDENCE:
            said = f"keep {best.label}."
        case _:
            said = f"{gain_in_words(best, recorded, basis)}."
    if limit is not None:
        said += f" Stay away from {gain_in_words(limit, recorded, basis)}."
    if basis is not None:
        said += f" Evidence: {in_words(basis)}."
    for row in result.rows:
        if row.tried.label == best.label:
            said += "".join(f" {text}." for text in row.tried.variation.warnings)
    return f"Advice: {said}{too_short(result.outline.first, result.outline.last)}"


def gain_in_words(one: CandidateValue, recorded: CandidateValue, basis: Basis | None) -> str:
    """What the value would have gained and cost: `30m: slots 2h 05m sooner, hits +1`."""
    said = []
    if one.gain_s:
        said.append(f"slots {span(abs(one.gain_s))} {'sooner' if one.gain_s > 0 else 'later'}")
    if one.boots:
        said.append(f"waiting boots {one.boots:+d}")
    if one.hits != recorded.hits:
        said.append(f"hits {one.hits - recorded.hits:+d}")
    if basis is not None and (one.value or 0.0) < (recorded.value or 0.0):
        if not basis.seen.count:
            said.append("no evidence")
        elif (one.value or 0.0) < basis.need:
            said.append("too close to the longest")
    return f"{one.label}: {', '.join(said) or 'no difference'}"


def too_short(first: float, last: float) -> str:
    if last - first >= LONG_ENOUGH_S:
        return ""
    return f" The recording has {span(last - first)}: what happens less often is not in it."


def in_words(basis: Basis, *, terminal: bool = False) -> str:
    """`3 silences ended, the longest 20m 00s (compute4, 2026-03-01 14:05:07)`."""
    window, seen = basis.window, basis.seen
    if not seen.count:
        return f"no {window.one} ended"
    many = window.many if seen.count > 1 else window.one
    longest = f"{seen.longest_s:g} listings" if window.counted else span(seen.longest_s)
    whose = f"{visible(seen.whose)}, {time_text(seen.at, terminal=terminal)}"
    return f"{seen.count} {many} ended, the longest {longest} ({whose})"


# JSON.


def as_json(result: ReplayResult) -> dict[str, Any]:
    """The result as JSON values: times in epoch seconds, durations in seconds."""
    outline, replayed = result.outline, result.replayed
    advice = advice_of(result)
    return {
        "journal": result.path,
        "pool": outline.settings.pool,
        "settings": settings_of(result),
        "advice": {
            "counsel": advice.counsel.value,
            "value": advice.best.label,
            "limit": None if advice.limit is None else advice.limit.label,
            "text": advice_in_words(result),
        },
        "from": outline.first,
        "until": outline.last,
        "decisions": outline.decisions,
        "dry_run": not outline.acts,
        "differing": replayed.differing,
        "differences": [dataclasses.asdict(one) for one in replayed.differences],
        "swept": None if result.sweep is None else result.sweep.option.name,
        "recorded": _balance_json(result.recorded, replayed.recorded),
        "values": [
            {
                "label": row.tried.label,
                "value": row.tried.value,
                "settings": dict(row.tried.variation.changes),
                "warnings": list(row.tried.variation.warnings),
                **_balance_json(row.balance, row.outcome),
            }
            for row in result.rows
        ],
        "notes": list(NOTES),
    }


def _balance_json(balance: Balance, outcome: ReplayOutcome) -> dict[str, Any]:
    return {
        **dataclasses.asdict(balance),
        "sooner": balance.earlier,
        "later": balance.later,
        "not_yet": balance.never,
        "shutdowns": outcome.destroyed,
        "breaker_opened": outcome.breaker_opened,
    }
