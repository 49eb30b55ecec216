"""A replay's result, and its numbers, times and hits as every output shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nodemanager.commands.replay_values import Sweep, Tried, duration, shown
from nodemanager.commands.times import local, told
from nodemanager.core.replay.whatif import Hit, Life
from nodemanager.core.replay.worth import Balance, Move, ReplayOutcome, weigh
from nodemanager.journal.reading import Outline
from nodemanager.journal.sweep import Replayed
from nodemanager.logline import span, visible

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
    path: str, outline: Outline, replayed: Replayed, tried: Sequence[Tried], sweep: Sweep | None
) -> ReplayResult:
    rows = tuple(
        ComparedSettings(one, outcome, weigh(replayed.recorded, outcome, replayed.walls))
        for one, outcome in zip(tried, replayed.others, strict=True)
    )
    recorded = weigh(replayed.recorded, replayed.recorded, replayed.walls)
    return ReplayResult(path, outline, replayed, recorded, rows, sweep)


# Numbers and times as they are shown.


def when(result: ReplayResult, at: float, *, terminal: bool) -> str:
    """The time; on a terminal only the time of day, if the whole recording is from one day."""
    first, last = (local(one)[:10] for one in (result.outline.first, result.outline.last))
    if terminal and first == last == local(at)[:10]:
        return local(at)[11:]
    return told(at, terminal=terminal)


def hours(seconds: float, decimals: int = 1) -> str:
    """Signed hours: `+12.5`, `0.0`."""
    value = round(seconds / 3600, decimals)
    return f"{value:+.{decimals}f}" if value else f"{0:.{decimals}f}"


def signed(number: int) -> str:
    """A signed whole number: `+3`, `-2`, `0`."""
    return f"{number:+d}" if number else "0"


def signed_span(seconds: float) -> str:
    """A signed duration: `+2h 05m`."""
    return f"{'+' if seconds >= 0 else '-'}{span(abs(seconds))}"


COLUMNS = ("cleans", "sooner", "later", "not yet", "slot-hours", "boots", "boot-hours", "hits")


def numbers_of(balance: Balance, decimals: int) -> tuple[str, ...]:
    """The cells of a row, one for each of COLUMNS."""
    return (
        str(balance.cleans),
        str(balance.earlier),
        str(balance.later),
        str(balance.never),
        hours(balance.slot_s, decimals),
        signed(balance.boots - balance.boots_lost),
        hours(balance.boot_wait_s, decimals),
        str(len(balance.hits)),
    )


def moment_of(result: ReplayResult, at: float | None, *, terminal: bool) -> str:
    return "not yet" if at is None else when(result, at, terminal=terminal)


@dataclass(frozen=True)
class LifeHit:
    """A record's life that went on, and the values under which it would have been freed."""

    first: Hit
    labels: tuple[str, ...]


def hits_by_life(result: ReplayResult) -> list[LifeHit]:
    """Each life that was hit, once; the one freed longest before its sign of life comes first."""
    found: dict[str, tuple[Hit, list[str]]] = {}
    for label, balance, _ in result.in_order:
        for hit in balance.hits:
            first, labels = found.setdefault(hit.life.key, (hit, []))
            if label not in labels:
                labels.append(label)
            if hit.freed_at < first.freed_at:
                found[hit.life.key] = (hit, labels)
    hits = [LifeHit(first, tuple(labels)) for first, labels in found.values()]
    return sorted(hits, key=lambda one: one.first.freed_at - one.first.alive_at)


def sign_of(result: ReplayResult, hit: Hit, *, terminal: bool) -> str:
    """The time of its ping or, where none is recorded, of its listing."""
    if hit.pinged_at is not None:
        return when(result, hit.pinged_at, terminal=terminal)
    return f"listed {when(result, hit.alive_at, terminal=terminal)}"


MOVE_COLUMNS = ("record", "slot", "host", "node", "by", "reason", RECORDED, "then", "sooner by")


def move_cells(result: ReplayResult, move: Move, *, terminal: bool) -> tuple[str, ...]:
    """The cells of a row, one for each of MOVE_COLUMNS."""
    return (
        *_life_cells(move.life),
        move.by.value,
        move.reason.value if move.reason else "-",
        moment_of(result, move.before, terminal=terminal),
        moment_of(result, move.after, terminal=terminal),
        signed_span(move.gain_s),
    )


HIT_COLUMNS = ("record", "slot", "host", "node", "by", "freed", "pinged", "after", "under")


def hit_cells(result: ReplayResult, one: LifeHit, *, terminal: bool) -> tuple[str, ...]:
    """The cells of a row, one for each of HIT_COLUMNS."""
    hit = one.first
    return (
        *_life_cells(hit.life),
        hit.by.value,
        when(result, hit.freed_at, terminal=terminal),
        sign_of(result, hit, terminal=terminal),
        span((hit.pinged_at or hit.alive_at) - hit.freed_at),
        visible(", ".join(one.labels)),
    )


def _life_cells(life: Life) -> tuple[str, ...]:
    slot = "-" if life.slot is None else str(life.slot)
    return visible(life.record), slot, visible(life.hostname or "-"), visible(life.node_id or "-")
