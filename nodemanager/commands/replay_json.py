"""A replay's result as JSON."""

from __future__ import annotations

from typing import Any

from nodemanager.commands.replay_advice import advice_in_words, advice_of, settings_of
from nodemanager.commands.replay_result import NOTES, ReplayResult
from nodemanager.core.replay.whatif import Hit, Life
from nodemanager.core.replay.worth import Balance, ReplayOutcome


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
        "differences": [
            {
                "plan": one.plan_id,
                "at": one.wall,
                "of": one.subject,
                "id": one.id,
                "recorded": list(one.recorded) if one.recorded else None,
                "now": list(one.now) if one.now else None,
            }
            for one in replayed.differences
        ],
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
        "cleans": balance.cleans,
        "sooner": balance.earlier,
        "later": balance.later,
        "not_yet": balance.never,
        "slot_hours": balance.slot_s / 3600,
        "boots": balance.boots,
        "boots_lost": balance.boots_lost,
        "boot_hours": balance.boot_wait_s / 3600,
        "hits": [_hit_json(hit) for hit in balance.hits],
        "spared": balance.spared,
        "shutdowns": {reason.value: count for reason, count in outcome.destroyed.items()},
        "breaker_opened": dict(outcome.breaker_opened),
        "moves": [
            {
                **_life_json(move.life),
                "by": move.by.value,
                "reason": move.reason.value if move.reason else None,
                "recorded": move.before,
                "then": move.after,
                "sooner_s": move.gain_s,
            }
            for move in balance.moves
        ],
    }


def _life_json(life: Life) -> dict[str, Any]:
    return {
        "record": life.record,
        "incarnation": life.incarnation,
        "slot": life.slot,
        "host": life.hostname,
        "node": life.node_id,
    }


def _hit_json(hit: Hit) -> dict[str, Any]:
    return {
        **_life_json(hit.life),
        "by": hit.by.value,
        "reason": hit.reason.value if hit.reason else None,
        "freed": hit.freed_at,
        "sign": hit.sign.value,
        "alive": hit.alive_at,
        "pinged": hit.pinged_at,
    }
