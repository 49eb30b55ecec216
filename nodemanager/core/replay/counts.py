"""What to do with the counts that are set, by the account of the nodes' time and money."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.sizes import by_price
from nodemanager.core.replay.advice import Advice, AdviceRow, CandidateValue, Counsel, advise
from nodemanager.core.replay.evidence import (
    Evidence,
    IdleSpell,
    by_node,
    idle_spells,
    is_idle,
    levels,
)
from nodemanager.core.replay.rounded import at_least, at_most, duration
from nodemanager.core.replay.spending import CostCause, Stretch
from nodemanager.core.replay.worth import RefusedBoots

AGAIN_S = 600.0
"""A size that is booted within this time after a node of it was shut down was wanted again."""


def advise_on_counts(
    stretches: Sequence[Stretch],
    evidence: Evidence,
    settings: Settings,
    span: tuple[float, float],
    refused: Sequence[RefusedBoots] = (),
) -> list[AdviceRow]:
    """The rows of the options that limit nodes or keep idle ones; `span` is from when to when.

    `refused` are the boots that `max_nodes` refused, by size, each time with for how long.
    """
    spells = idle_spells(stretches)
    rows = [_max_nodes(stretches, refused, settings, span)]
    if settings.max_node_age is not None:
        rows.append(_max_node_age(stretches, evidence, settings, settings.max_node_age))
    rows.append(_idle_count(spells, evidence, settings))
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


def _max_nodes(
    stretches: Sequence[Stretch],
    refused: Sequence[RefusedBoots],
    settings: Settings,
    span: tuple[float, float],
) -> AdviceRow:
    """`max_nodes`: what waited for it, and what the last of as many nodes cost.

    More nodes cost so much at most, and fewer save it at most: the same work is done later.
    """
    count, there = settings.max_nodes, list(levels(stretches, *span))
    busy = levels([one for one in stretches if one.cause is CostCause.BUSY], *span)
    most = max((many for _, many in there), default=0)
    fewer = min(most, count - 1)
    saved_s, all_s = _above(fewer, there), sum(one.until - one.since for one in stretches)
    of_all = [(one.price, (one.until - one.since) * saved_s / all_s) for one in stretches]
    tried = [replace(_saving(fewer, of_all), work_s=-_above(fewer, busy))]
    prices = {size.name: size.price for size in settings.sizes}
    waits = [(name, many * seconds) for seconds, lots in refused for name, many in lots.items()]
    lacking = max((sum(lots.values()) for _, lots in refused), default=0)
    facts = {"most": most, "lacking": lacking, "waited_s": sum(one for one, _ in refused)}
    recorded = CandidateValue(str(count), 0.0, 0, count)
    advice = Advice(Counsel.NO_EVIDENCE, recorded)
    if lacking:
        more = _saving(count + lacking, [(prices.get(name), -waited) for name, waited in waits])
        tried.append(replace(more, work_s=-more.gain_s))
        advice = Advice(Counsel.WEIGH, tried[-1])
    return AdviceRow("max_nodes", recorded, tried, advice, facts=facts)


def _above(many: int, there: Iterable[tuple[float, int]]) -> float:
    """The node-seconds of the nodes beyond so many."""
    return sum(seconds * max(0, count - many) for seconds, count in there)


def _max_node_age(
    stretches: Sequence[Stretch], evidence: Evidence, settings: Settings, age_s: float
) -> AdviceRow:
    """`max_node_age`: how many more or fewer nodes would have been replaced, each by a boot.

    What a younger node is worth is not in a recording, so the recorded value stays.
    """
    lives = [one for one in by_node(stretches) if one[0].launched is not None]
    values = [at_most(age_s / 2), at_least(age_s * 2)]
    tried = []
    for limit_s in values:
        if limit_s <= settings.boot_fail_after:
            continue
        more = [(own[0].price, _replacements(own, limit_s) - was_too_old(own)) for own in lives]
        costs = [(price, -boots * evidence.boots.usual_s) for price, boots in more]
        boots = round(sum(boots for _, boots in more))
        tried.append(replace(_saving(limit_s, costs, label=duration(limit_s)), boots=boots))
    facts = {
        "replaced": sum(map(was_too_old, lives)),
        "oldest_s": max((_age_at(own[-1].until, own) for own in lives), default=0.0),
    }
    recorded = CandidateValue(duration(age_s), 0.0, 0, age_s)
    counsel = Counsel.KEEP if facts["replaced"] else Counsel.NO_EVIDENCE
    return AdviceRow("max_node_age", recorded, tried, Advice(counsel, recorded), facts=facts)


def was_too_old(own: Sequence[Stretch]) -> bool:
    """Whether a node ended because it was too old, by all its stretches."""
    return own[-1].cause is CostCause.ENDING and any(one.reason is Reason.TOO_OLD for one in own)


def _age_at(at: float, own: Sequence[Stretch]) -> float:
    return at - (own[0].launched or 0.0)


def _replacements(own: Sequence[Stretch], limit_s: float) -> float:
    """How often a node of that age, and those in its place, would have been replaced.

    Where the recording replaced it, another one took its place, and so on: a share of it counts.
    """
    if was_too_old(own):
        ordered_at = next(one.since for one in own if one.reason is Reason.TOO_OLD)
        return _age_at(ordered_at, own) / limit_s
    return _age_at(own[-1].until, own) // limit_s - _age_at(own[0].since, own) // limit_s


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
        saved = [(one.price, min(ping_s, one.of(waits))) for one in down]
        more = sum(one.of(waits) >= (count - 1) * ping_s for one in worked)
        tried.append(_saving(count - 1, saved, more, boot_s))
    cost = [(one.price, -min(ping_s, gap_s)) for one, gap_s in zip(down, again, strict=True)]
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
    saved = [(one.price, one.of(Reason.WINDOW_CLOSED)) for one in kept if one.shut_down]
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
    fewest = min((many for _, many in levels(idle, *span)), default=0)
    always, span_s = min(count, fewest), span[1] - span[0]

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
    value: float | None,
    saved: Sequence[tuple[float | None, float]],
    boots: int = 0,
    boot_s: float = 0.0,
    label: str = "",
) -> CandidateValue:
    """What a value saves: `saved` are seconds, each with its node's price."""
    known = [price * seconds / 3600 for price, seconds in saved if price is not None]
    money = sum(known) if len(known) == len(saved) else None
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
