"""What to do with each window and count that is set, by what a recording shows.

A shorter window is never advised without evidence: something that it waits for must have ended in
the recording by itself, and the window must be half as long again as the longest of these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.sizes import by_price
from nodemanager.core.replay.evidence import (
    Evidence,
    IdleSpell,
    Seen,
    always_there,
    idle_spells,
    is_idle,
)
from nodemanager.core.replay.rounded import ROUND_S
from nodemanager.core.replay.spending import Stretch

MARGIN = 1.5
"""A window is to be this many times the longest that ended within it."""
POLLS = 5
"""Lists are to be believed for at least this many polls."""
AGAIN_S = 600.0
"""A size that is booted within this time after a node of it was shut down was wanted again."""


class Counsel(StrEnum):
    """What to do with the recorded value."""

    TRY = "try"
    """No other value was tried."""
    KEEP = "keep"
    NO_EVIDENCE = "no_evidence"
    """Keep it: the recording shows nothing that a shorter one could be judged by."""
    BETTER = "better"
    """Another one gains more and hits no more nodes."""
    FEWER_HITS = "fewer_hits"
    """Another one hits fewer nodes."""
    LONGER = "longer"
    """What ended in the recording took longer than the recorded value waits."""


@dataclass(frozen=True, slots=True)
class CandidateValue:
    """One value: `gain_s` are the slot-seconds free sooner than recorded, or the node-seconds saved
    less those of more boots; `hits` are living nodes hit, `boots` boots more than recorded.

    `value` is None where it is no number. `money` is what it saves, None where no price is known.
    """

    label: str
    gain_s: float
    hits: int
    value: float | None = None
    boots: int = 0
    money: float | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Advice:
    """`best` is the value to use. `limit` is the value that gains more still, by the least, but
    hits more nodes or is too short for what ended: stay away from it. None if there is none."""

    counsel: Counsel
    best: CandidateValue
    limit: CandidateValue | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """An option by its field of Settings, the kind of thing that it waits for (one, and many of
    them), and those of a recording that ended by themselves.

    Below `least` of a recording the window is too short. A `counted` one is no duration.
    """

    field: str
    one: str
    many: str
    seen: Callable[[Evidence], Seen]
    least: Callable[[Evidence], float] = lambda _: 0.0
    counted: bool = False

    def basis(self, past: Evidence) -> Basis:
        return Basis(self, self.seen(past), self.least(past))


@dataclass(frozen=True, slots=True)
class Basis:
    """What a recording shows of a window."""

    window: Window
    seen: Seen
    least: float = 0.0

    @property
    def need(self) -> float:
        """The shortest value that what ended allows."""
        return MARGIN * self.seen.longest_s


def _silences(past: Evidence) -> Seen:
    return past.pings.unusual


def _boots(past: Evidence) -> Seen:
    return past.boots.above()


WINDOWS: Mapping[str, Window] = {
    one.field: one
    for one in (
        Window(
            "node_stale_after",
            "silence",
            "silences",
            _silences,
            lambda past: _silences(past).longest_s,
        ),
        Window("boot_fail_after", "boot", "boots", _boots, lambda past: _boots(past).longest_s),
        Window(
            "poll_stale_after",
            "gap",
            "gaps between polls",
            lambda past: past.gaps.unusual,
            lambda past: POLLS * past.gaps.usual_s,
        ),
        # An absence that outlasts these frees no slot: the record must be stale, too.
        Window("settle", "absence", "absences", lambda past: past.absences.above()),
        Window("absent_listings", "absence", "absences", lambda past: past.absent, counted=True),
    )
}


def advise(
    recorded: CandidateValue, tried: Sequence[CandidateValue], basis: Basis | None = None
) -> Advice:
    """Choose among the recorded value and those that were tried.

    A hit costs jobs and a slot saves minutes, so no gain makes up for a hit. The recorded value
    stays where no other is better. Without a basis the option waits for nothing.
    """
    if not tried:
        return Advice(Counsel.TRY, recorded)
    backed = [one for one in tried if is_backed(one, recorded, basis)]
    if basis is not None and (recorded.value or 0.0) < basis.least:
        enough = [one for one in tried if (one.value or 0.0) >= basis.least]
        if enough:
            return Advice(Counsel.LONGER, min(enough, key=lambda one: one.value or 0.0))
    best = min((recorded, *backed), key=lambda one: (one.hits, -one.gain_s))
    worse = [
        one
        for one in tried
        if one.gain_s > best.gain_s and (one.hits > best.hits or _is_shorter(one, backed, recorded))
    ]
    limit = min(worse, key=lambda one: one.gain_s, default=None)
    if best is not recorded:
        fewer = best.hits < recorded.hits
        return Advice(Counsel.FEWER_HITS if fewer else Counsel.BETTER, best, limit)
    unknown = basis is not None and not basis.seen.count
    return Advice(Counsel.NO_EVIDENCE if unknown else Counsel.KEEP, best, limit)


def _is_shorter(
    one: CandidateValue, backed: Sequence[CandidateValue], recorded: CandidateValue
) -> bool:
    return one not in backed and (one.value or 0.0) < (recorded.value or 0.0)


def is_backed(one: CandidateValue, recorded: CandidateValue, basis: Basis | None) -> bool:
    """Whether the recording speaks for the value: a shorter window by what ended within it, a
    longer one only by fewer hits, since no slot is free sooner for waiting longer."""
    if basis is None or one.value is None or recorded.value is None:
        return True
    if one.value > recorded.value:
        return one.hits < recorded.hits
    return one.value == recorded.value or (basis.seen.count > 0 and one.value >= basis.need)


def values_to_try(recorded: float, basis: Basis) -> list[float]:
    """A shorter and a longer value of a window; of a count, one less and one more.

    The shorter one is the shortest that the evidence allows, or half, to show what it would do. If
    the window is too short for what ended, the longer one is long enough for it.
    """
    if isinstance(recorded, int):
        return [one for one in (recorded - 1, recorded + 1) if one > 0]
    need, seen = basis.need, basis.seen
    enough = next((one for one in ROUND_S if one >= need), math.ceil(need))
    half = max((one for one in ROUND_S if one <= recorded / 2), default=recorded / 2)
    wanted = max(recorded * 2, MARGIN * basis.least)
    double = next((one for one in ROUND_S if one >= wanted), wanted)
    return [enough if seen.count and enough < recorded else half, double]


# Counts and spares: what the account of the nodes' time says.


@dataclass(frozen=True, slots=True)
class AdviceRow:
    """The advice on one option; `facts` are counts and seconds by name, as evidence."""

    option: str
    recorded: CandidateValue
    tried: Sequence[CandidateValue]
    advice: Advice
    basis: Basis | None = None
    facts: Mapping[str, float] = field(default_factory=dict)


def advise_on_idleness(
    stretches: Sequence[Stretch],
    evidence: Evidence,
    settings: Settings,
    span: tuple[float, float],
) -> list[AdviceRow]:
    """The rows of the options that keep idle nodes; `span` is the recording's begin and end."""
    spells = idle_spells(stretches)
    rows = [_idle_count(spells, evidence, settings)]
    if any(settings.shutdown_windows[::2]):
        rows.append(_shutdown_windows(spells, evidence, settings))
    idle = [one for one in stretches if is_idle(one)]
    if settings.min_nodes:
        price = by_price(settings.sizes)[0].price if settings.sizes else None
        rows.append(_kept("min_nodes", settings.min_nodes, idle, price, span))
    for size in settings.sizes:
        if size.spare_nodes:
            own = [one for one in idle if one.size == size.name]
            name = f"[Size {size.name}] spare_nodes"
            rows.append(_kept(name, size.spare_nodes, own, size.price, span))
    return rows


def _idle_count(spells: Sequence[IdleSpell], evidence: Evidence, settings: Settings) -> AdviceRow:
    """`consecutive_idle_count`: a lower one ends idle nodes a ping sooner, a higher one later."""
    count, ping_s = settings.consecutive_idle_count, evidence.pings.usual_s
    boot_s, waits = evidence.boots.usual_s, Reason.NOT_IDLE_LONG
    down = [one for one in spells if one.shut_down]
    worked = [one for one in spells if one.worked]
    again = [_wanted_again(one, evidence) for one in down]
    recorded = CandidateValue(str(count), 0.0, 0, count)
    tried = []
    if count > 1:
        saved = [(one, min(ping_s, one.of(waits))) for one in down]
        more = sum(one.of(waits) >= (count - 1) * ping_s for one in worked)
        tried.append(_saving(count - 1, saved, more, boot_s))
    cost = [(one, -min(ping_s, gap_s)) for one, gap_s in zip(down, again, strict=True)]
    fewer = sum(gap_s <= ping_s for gap_s in again)
    tried.append(_saving(count + 1, cost, -fewer, boot_s))
    facts = {
        "shut_down": len(down),
        "wanted_again": sum(gap_s <= AGAIN_S for gap_s in again),
        "soonest_again_s": min((one for one in again if one < math.inf), default=0.0),
        "worked_again": len(worked),
    }
    return _row("consecutive_idle_count", recorded, tried, len(spells), facts)


def _shutdown_windows(
    spells: Sequence[IdleSpell], evidence: Evidence, settings: Settings
) -> AdviceRow:
    """`shutdown_windows`: what windows that are always open would have saved."""
    kept = [one for one in spells if one.of(Reason.WINDOW_CLOSED)]
    saved = [(one, one.of(Reason.WINDOW_CLOSED)) for one in kept if one.shut_down]
    more = sum(one.worked for one in kept)
    shown = ", ".join(f"{one / 60:g}" for one in settings.shutdown_windows)
    recorded = CandidateValue(shown, 0.0, 0)
    tried = [_saving(None, saved, more, evidence.boots.usual_s, "0, 999999")]
    facts = {"kept_idle": len(kept), "shut_down": len(saved), "worked_again": more}
    return _row("shutdown_windows", recorded, tried, len(kept), facts)


def _kept(
    name: str,
    count: int,
    idle: Sequence[Stretch],
    price: float | None,
    span: tuple[float, float],
) -> AdviceRow:
    """`min_nodes` or `spare_nodes`: as many fewer as were idle at every moment cost no boot."""
    always, span_s = min(count, always_there(idle, *span)), span[1] - span[0]

    def kept(fewer: int) -> CandidateValue:
        money = fewer * span_s / 3600 * price if price else None
        return CandidateValue(str(count - fewer), fewer * span_s, 0, count - fewer, money=money)

    facts = {"always_idle": always, "idle_hours": sum(one.until - one.since for one in idle) / 3600}
    return _row(name, kept(0), [*([kept(always)] if always else []), kept(-1)], 1, facts)


def _wanted_again(spell: IdleSpell, evidence: Evidence) -> float:
    """How many seconds after its shutdown the next boot of its size began."""
    later = (at - spell.until for at in evidence.claims.get(spell.size, ()) if at >= spell.until)
    return min(later, default=math.inf)


def _saving(
    value: int | None,
    saved: Sequence[tuple[IdleSpell, float]],
    boots: int,
    boot_s: float,
    label: str = "",
) -> CandidateValue:
    prices = [(one.price, seconds) for one, seconds in saved]
    known = [price * seconds / 3600 for price, seconds in prices if price is not None]
    money = sum(known) if len(known) == len(prices) else None
    gain_s = sum(seconds for _, seconds in saved) - boots * boot_s
    return CandidateValue(label or str(value), gain_s, 0, value, boots, money)


def _row(
    option: str,
    recorded: CandidateValue,
    tried: Sequence[CandidateValue],
    count: int,
    facts: Mapping[str, float],
) -> AdviceRow:
    """The row of an option of which the recording has `count` cases to judge it by."""
    advice = advise(recorded, tried)
    if not count:
        advice = Advice(Counsel.NO_EVIDENCE, recorded)
    return AdviceRow(option, recorded, tried, advice, facts=facts)
